# mypy: allow-untyped-defs, allow-untyped-calls
"""A user's constraint function, traced, differentiated and compiled: eight knots at once.

Quantities that it asks for, such as a robot's, are in it by the chain rule.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddp.compiling.kernel import call_contraction, kernel
from ddp.constraints.bound import CompiledConstraint, Kernels, bind
from ddp.constraints.compiled import KernelConstraint
from ddp.costs.terms import with_parameters
from ddp.machine.number import WIDTH
from ddp.protocols import Array
from ddp.tracing import chain
from ddp.tracing.evaluate import fill, place
from ddp.tracing.function import TracedFunction
from ddp.tracing.layout import Block
from ddp.tracing.quantities import FIRST


def entries_of(traced: TracedFunction) -> Block:
    """Jacobian (size, nz) by (dx, du) as one block, but for what quantities add to it."""
    by_x, by_u, *_ = traced.layout("first").blocks
    parts = [block.template.reshape(traced.size, -1) for block in (by_x, by_u)]
    found = []
    for block, width, begin in ((by_x, traced.n, 0), (by_u, traced.nu, traced.n)):
        output, position = block.places.T
        row, column = np.divmod(position, max(width, 1))
        found.append(np.stack([output, traced.nz * row + begin + column], axis=1))
    return Block(np.concatenate(parts, axis=1).ravel(), np.concatenate(found))


def by_quantities(traced: TracedFunction) -> Block:
    """Jacobian (size, ny) by the numbers of quantities."""
    blocks = traced.layout("first").blocks
    return blocks[2] if traced.uses else Block(np.zeros(0), np.zeros((0, 2), dtype=np.int64))


def depends(traced: TracedFunction) -> NDArray[np.bool_]:
    """Whether each row of a constraint depends on each number of z: (size, nz)."""
    by_z, by_y = (_are_there(block, traced.size) for block in (entries_of(traced), by_quantities(traced)))
    first = 0
    for use in traced.uses:
        columns = np.array([column for column in use.columns if column >= 0], dtype=np.int64)
        by_z[np.ix_(by_y[:, first : first + use.quantity.size].any(axis=1), columns)] = True
        first += use.quantity.size
    return by_z


def _are_there(block: Block, size: int) -> NDArray[np.bool_]:
    """Which entries (size, .) of a block may not be zero."""
    there = block.template != 0.0
    there[block.places[:, 1]] = True
    return there.reshape(size, -1)


@kernel
def traced_values(uses, value, first, by_y, second, h, spots, X, U, c):
    """Outputs of ``value``."""
    chain.evaluate_chained(value, uses, X, U, c)


@kernel
def traced_jacobian(uses, value, first, by_y, second, h, spots, X, U, J):
    """Jacobian in the columns that are kept; spots: places of ``uses.whole`` among them."""
    M, size, ny = J.shape[0], J.shape[1], chain.count_of(uses)
    out = J.reshape(M, size * J.shape[2])
    if first.outputs + ny == 0:  # all is constant
        for k in range(M):
            for j in range(out.shape[1]):
                out[k, j] = first.template[j]
        return
    memory, D, E = chain.memory_for(uses), np.empty((M, size * ny)), np.empty((ny, spots.shape[0]))
    inputs, found = np.empty(WIDTH * chain.arguments_of(uses, X, U)), np.empty(WIDTH * first.outputs)
    for begin in range(0, M, WIDTH):
        chain.load(uses, FIRST, X, U, begin, inputs, memory)
        call_contraction(first.address, inputs.ctypes.data, found.ctypes.data, 0, 0)
        place(found, first.template, first.places, begin, out)
        if ny == 0:
            continue
        place(found, by_y.template, by_y.places, begin, D)
        for lane in range(min(WIDTH, M - begin)):
            k = begin + lane
            chain.write_jacobian(uses, lane, memory, E)
            for r in range(size):
                for i in range(ny):
                    d = D[k, r * ny + i]
                    if d != 0.0:
                        for l in range(spots.shape[0]):
                            J[k, r, spots[l]] += d * E[i, l]


@kernel
def traced_curvature(uses, value, first, by_y, second, h, spots, X, U, weight, H):
    """Hessian by z of the constraints' weighted sum."""
    M, size, n, ny, memory = X.shape[0], weight.shape[1], h.rows.shape[0], chain.count_of(uses), chain.memory_for(uses)
    nz, end, D, bends = H.shape[1], chain.arguments_of(uses, X, U), np.empty((M, size * ny)), np.empty((M, n * n))
    E, T, w = np.empty((ny, spots.shape[0])), np.empty((n, spots.shape[0])), np.empty(ny)
    inputs, found = np.empty(WIDTH * (end + size)), np.empty(WIDTH * max(first.outputs, second.outputs))
    for begin in range(0, M, WIDTH):
        many = min(WIDTH, M - begin)
        chain.load(uses, FIRST, X, U, begin, inputs, memory)
        fill(inputs, end, weight, begin)
        call_contraction(second.address, inputs.ctypes.data, found.ctypes.data, 0, 0)
        if ny == 0:
            for lane in range(many):
                for j in range(second.places.shape[0]):
                    at, out = second.places[j, 1], second.places[j, 0]
                    H[begin + lane, h.rows[at // n], h.rows[at % n]] += found[WIDTH * out + lane]
            continue
        place(found, second.template, second.places, begin, bends)
        call_contraction(first.address, inputs.ctypes.data, found.ctypes.data, 0, 0)
        place(found, by_y.template, by_y.places, begin, D)
        for lane in range(many):
            k = begin + lane
            for i in range(ny):
                w[i] = 0.0
                for r in range(size):
                    w[i] += weight[k, r] * D[k, r * ny + i]
            chain.weigh(uses, lane, w, memory)
            chain.write_jacobian(uses, lane, memory, E)
            G = bends[k].reshape(n, n)
            chain.add_direct(h.rows, h.direct, G, 1.0, H[k])
            chain.add_pulled_back(uses, h.rows, h.direct, G, E, nz, 1.0, T, H[k])
        chain.add_curvatures(uses, many, begin, 1.0, memory, H)


KERNELS = Kernels(traced_values, traced_jacobian, traced_curvature)
STRAIGHT = Kernels(traced_values, traced_jacobian)


@dataclass(eq=False)
class TracedConstraint(KernelConstraint):
    """A constraint of a traced function; ``evaluated(row, x, u, function=)`` calls the function itself.

    given: the user's `Equality` or `Inequality`, of which there may be copies with other parameters.
    """

    traced: TracedFunction
    lower: Array
    upper: Array
    evaluated: Callable[..., Any]
    given: Any = None

    @property
    def n(self) -> int:
        return self.traced.n

    def values(self, X: Array, U: Array) -> Array:
        """c (M, size); where it is NaN because the function raises something, that is raised."""
        c = KernelConstraint.values(self, X, U)
        for row in np.flatnonzero(np.isnan(c).any(axis=1)):
            self.evaluated(int(row), X[row], U[row])
        return c

    def at(self, given: Any) -> "TracedConstraint":
        """Copy for the user's constraint with other parameters, as many; nothing is traced."""
        return self._with(given, self.traced.at(given.parameters))

    def changed(self, change: Callable[[Any], Any]) -> "TracedConstraint":
        """Itself, or, where ``change`` makes another constraint of the user's, that one, traced."""
        given = change(self.given)
        return self if given is self.given else self._with(given, self.traced.of(given.function))

    def _with(self, given: Any, traced: TracedFunction) -> "TracedConstraint":
        function = with_parameters(given.function, getattr(given, "parameters", None))
        return TracedConstraint(traced, self.lower, self.upper, partial(self.evaluated, function=function), given)

    @property
    def parameters(self) -> Any:
        """Parameters of the user's function."""
        return self.given.parameters

    @property
    def movable(self) -> tuple[str, ...]:
        return getattr(self.given, "movable", ())

    def varied(self, parameters: Any = None, **bounds: Any) -> "TracedConstraint":
        """Copy with other parameters, as many, and bounds."""
        made = self if parameters is None else self.at(self.given.varied(parameters=parameters))
        return replace(made, **bounds) if bounds else made

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
        traced, there, (uses, kept) = self.traced, depends(self.traced), self.traced.used
        diagonal = not traced.uses and bool((there.sum(axis=1) <= 1).all())
        columns = np.argmax(there, axis=1) if diagonal else np.flatnonzero(there.any(axis=0))
        template, places = entries_of(traced)
        row, column = np.divmod(places[:, 1], traced.nz)
        rows = np.arange(traced.size)
        own = (rows, columns) if diagonal else np.ix_(rows, columns)
        at = row if diagonal else len(columns) * row + np.searchsorted(columns, column)
        direct = Block(template.reshape(traced.size, -1)[own].ravel(), np.stack([places[:, 0], at], axis=1))
        (bends,) = traced.layout("second").blocks
        curvature = chain.curvature_of(bends, traced.ne, traced.nz)
        made = bind(
            KERNELS if len(curvature.rows) or traced.uses else STRAIGHT,
            uses, traced.code.compiled("value"), traced.code.compiled("first", direct), by_quantities(traced),
            traced.code.compiled("second", Block(curvature.template, curvature.places)), curvature,
            np.searchsorted(columns, uses.whole), columns=columns, diagonal=diagonal,
        )  # fmt: skip
        return made.owned(traced.code, kept)
