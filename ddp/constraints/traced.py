# mypy: allow-untyped-defs, allow-untyped-calls
"""A user's constraint function, traced, differentiated and compiled: eight knots at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddp.compiling.kernel import call_contraction, kernel
from ddp.constraints.bound import CompiledConstraint, Kernels, bind
from ddp.constraints.chained import chained_constraint, depends, entries_of
from ddp.constraints.compiled import KernelConstraint
from ddp.machine.number import WIDTH
from ddp.protocols import Array
from ddp.tracing import evaluate
from ddp.tracing.function import TracedFunction
from ddp.tracing.layout import Block


@kernel
def traced_values(value, count, template, places, first, m, j, j_places, second, s, h, h_places, X, U, c):
    """Outputs of ``value``."""
    evaluate.evaluate(value, X, U, np.empty((X.shape[0], 0)), np.empty(0), count, template, places, c)


@kernel
def traced_jacobian(value, count, template, places, first, m, j, j_places, second, s, h, h_places, X, U, J):
    """Outputs of ``first``."""
    out = J.reshape((J.shape[0], J.shape[1] * J.shape[2]))
    evaluate.evaluate(first, X, U, np.empty((X.shape[0], 0)), np.empty(0), m, j, j_places, out)


@kernel
def traced_curvature(value, count, template, places, first, m, j, j_places, second, s, h, h_places, X, U, weight, H):
    """Outputs of ``second``, of states, controls and weights."""
    nx, nz, end = X.shape[1], H.shape[1], X.shape[1] + U.shape[1]
    inputs, outputs = np.empty(WIDTH * (end + weight.shape[1])), np.empty(WIDTH * s)
    for begin in range(0, X.shape[0], WIDTH):
        evaluate.fill(inputs, 0, X, begin)
        evaluate.fill(inputs, nx, U, begin)
        evaluate.fill(inputs, end, weight, begin)
        call_contraction(second, inputs.ctypes.data, outputs.ctypes.data, 0, 0)
        for lane in range(min(WIDTH, X.shape[0] - begin)):
            for p in range(h_places.shape[0]):
                at = h_places[p, 1]
                H[begin + lane, at // nz, at % nz] += outputs[WIDTH * h_places[p, 0] + lane]


KERNELS = Kernels(traced_values, traced_jacobian, traced_curvature)
STRAIGHT = Kernels(traced_values, traced_jacobian)


@dataclass(eq=False)
class TracedConstraint(KernelConstraint):
    """A constraint of a traced function; ``evaluated(row, x, u)`` calls the function itself."""

    traced: TracedFunction
    lower: Array
    upper: Array
    evaluated: Callable[[int, Array, Array], Any]

    @property
    def n(self) -> int:
        """Numbers in a tangent vector of a state."""
        return self.traced.n

    def values(self, X: Array, U: Array) -> Array:
        """c (M, size); where it is NaN because the function raises something, that is raised."""
        c = KernelConstraint.values(self, X, U)
        for row in np.flatnonzero(np.isnan(c).any(axis=1)):
            self.evaluated(int(row), X[row], U[row])
        return c

    def renew(self) -> bool:
        """Trace the function again, if what it reads has changed; whether it has."""
        before, self.traced = self.traced, self.traced.renewed()
        if self.traced is not before:
            vars(self).pop("compiled", None)
        return self.traced is not before

    @property
    def of_states(self) -> NDArray[np.bool_]:
        """Rows (size,) that no control enters."""
        return np.asarray(~depends(self.traced)[:, self.n :].any(axis=1))

    def _bound(self) -> CompiledConstraint:
        if self.traced.uses:
            return chained_constraint(self.traced)
        code = self.traced.code
        value, second = self.traced.layout("value"), self.traced.layout("second")
        size, nz, there = self.traced.size, self.traced.nz, depends(self.traced)
        template, places = entries_of(self.traced)
        template = template.reshape(size, nz)
        diagonal = bool((there.sum(axis=1) <= 1).all())
        if diagonal:
            columns = np.argmax(there, axis=1)
            own = Block(template[np.arange(size), columns], np.stack([places[:, 0], places[:, 1] // nz], axis=1))
        else:
            columns = np.flatnonzero(there.any(axis=0))
            at = len(columns) * (places[:, 1] // nz) + np.searchsorted(columns, places[:, 1] % nz)
            own = Block(template[:, columns].ravel(), np.stack([places[:, 0], at], axis=1))
        curved = len(second.blocks[0].places) > 0
        made = bind(
            KERNELS if curved else STRAIGHT,
            code.addresses["value"], value.outputs, *value.blocks[0],
            code.addresses["first"], self.traced.layout("first").outputs, *own,
            code.addresses["second"], second.outputs, *second.blocks[0],
            columns=columns, diagonal=diagonal,
        )  # fmt: skip
        return made.owned(code)
