# mypy: allow-untyped-defs, allow-untyped-calls
"""A user's cost term that is only a value: traced, differentiated and compiled, evaluated with the built-in ones.

Its exact Hessian is Gauss-Newton's where it is constant and positive semidefinite; elsewhere its positive semidefinite
part stands for that. Functions that ask for quantities: chained.py.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from ddp.compiling.kernel import call_contraction, kernel
from ddp.costs.batch import BatchTerm, CompiledCost
from ddp.costs.bound import EXACT, VALUES, bind
from ddp.costs.chained import add_gradient, chained_cost, entry
from ddp.costs.compiled import CompiledTerm
from ddp.costs.jitted import add_hessian
from ddp.costs.terms import DerivedTerm, TermError
from ddp.machine.number import WIDTH
from ddp.protocols import Array
from ddp.systems.system import System
from ddp.tracing.evaluate import fill
from ddp.tracing.function import TracedFunction, space_of
from ddp.tracing.quantities import AskError
from ddp.tracing.trace import FollowError, refused


def is_traced(term: Any, dynamics: System) -> bool:
    """Whether a term's derivatives are found by tracing: it has a value alone, and asks for no other.

    Derivatives by states of a space that is not known are differences.
    """
    is_batch = hasattr(term, "values") and isinstance(term, BatchTerm)
    if is_batch or isinstance(term, type) or not hasattr(term, "value"):
        return False
    given = getattr(term, "gradient", None), getattr(term, "hessian", None)
    plain = all(one is None for one in given) and getattr(term, "derivatives", None) != "differences"
    return plain and space_of(dynamics) is not None


def untraceable(why: object) -> str:
    """Sentence for a cost that cannot be traced."""
    return (
        f"value cannot be traced for its derivatives: {why}; gradient(x, u) and hessian(x, u) of yours do without, and"
        ' so does an attribute derivatives = "differences"'
    )


class TracedTerm(CompiledTerm):
    """A `Term` with ``value`` alone, or a `JittedTerm`, as a `BatchTerm`."""

    def __init__(self, term: Any, dynamics: System) -> None:
        self.term, self._python = term, DerivedTerm(term, dynamics)
        self._nx, self._nu = dynamics.nx, dynamics.nu
        try:
            value = getattr(term.value, "py_func", term.value)
            sizes, space = (self._nx, self._nu), space_of(dynamics)
            self.traced = TracedFunction("value", value, *sizes, cost=True, space=space, chained=True)
        except FollowError as reason:
            raise TermError(0, untraceable(reason)) from reason.__cause__
        except AskError as reason:
            raise TermError(0, f"value: {reason}") from reason
        except Exception as reason:
            self._call_once()
            raise TermError(0, untraceable(refused(reason))) from reason

    def _call_once(self) -> None:
        """Call the term as Python does, and raise what is wrong with it."""
        self._python.values(np.zeros((1, self._nx)), np.zeros((1, self._nu)))

    def renew(self) -> bool:
        """Trace the term again, if its attributes or what it reads have changed; whether they have."""
        found = self.traced.renewed()
        if found is self.traced:
            return False
        self.traced = found
        for name in ("_hessian", "_curvature", "compiled"):
            vars(self).pop(name, None)
        return True

    @cached_property
    def _hessian(self) -> tuple[Array, Any]:
        """The constant part (ne, ne), by (dx, du, y), and outputs and positions of what is not constant."""
        _, _, (template, places) = self.traced.layout("all").blocks
        return template.reshape(self.traced.ne, self.traced.ne), places

    @cached_property
    def _curvature(self) -> tuple[bool, bool]:
        """Whether the Hessian is constant and positive semidefinite, and whether it is diagonal then."""
        H, places = self._hessian
        is_convex = not len(places) and bool(np.linalg.eigvalsh(H)[0] >= -1e-14 * np.abs(H).max())
        return is_convex, is_convex and not (H - np.diag(np.diag(H))).any()

    @property
    def is_convex(self) -> bool:
        """Whether its Hessian is constant and positive semidefinite."""
        return self._curvature[0]

    @property
    def separable(self) -> bool:
        """Whether its Hessian is constant, diagonal and nowhere negative."""
        return self._curvature[1] and not self.traced.uses

    @cached_property
    def compiled(self) -> CompiledCost:
        """C function of the term."""
        code = self.traced.code
        if self.traced.uses:
            return chained_cost(self.traced, self.is_convex)
        if "cost" not in code.known:
            code.known["cost"] = self._bound(), self._curvature
        bound, vars(self)["_curvature"] = code.known["cost"]
        return bound.owned(code)  # type: ignore[no-any-return]

    def _bound(self) -> CompiledCost:
        code, alone, all_of = self.traced.code, self.traced.layout("value"), self.traced.layout("all")
        blocks = [part for block in (alone.blocks[0], *all_of.blocks) for part in block]
        where = code.addresses["value"], code.addresses["all"], max(alone.outputs, all_of.outputs)
        return bind(_cost, *where, int(self.is_convex), int(self.separable), *blocks, separable=self.separable)

    def values(self, X: Array, U: Array) -> Array:
        """The costs (M,); where one is NaN because its own code raises, that is raised."""
        costs = CompiledTerm.values(self, X, U)
        for row in np.flatnonzero(np.isnan(costs)):
            self._python.values(X[row : row + 1], U[row : row + 1])
        return costs


@kernel
def _cost(
    value, whole, count, convex, separable, l1, l1_places, l2, l2_places, g, g_places, h, h_places, first, X, U, scale,
    order, l, lz, lzz,
):  # fmt: skip
    nx, nz = X.shape[1], lz.shape[1]
    inputs, outputs, H = np.empty(WIDTH * (nx + U.shape[1])), np.empty(WIDTH * count), np.empty((nz, nz))
    for begin in range(0, X.shape[0], WIDTH):
        evaluate(value if order == VALUES else whole, nx, X, U, begin, inputs, outputs)
        for lane in range(min(WIDTH, X.shape[0] - begin)):
            k = begin + lane
            if order == VALUES:
                l[k] += scale * entry(l1, l1_places, outputs, lane)
                continue
            l[k] += scale * entry(l2, l2_places, outputs, lane)
            add_gradient(g, g_places, outputs, lane, scale, lz[k])
            if separable:
                for i in range(nz):
                    lzz[k, i, i] += scale * h[nz * i + i]
                continue
            for i in range(nz):
                for j in range(nz):
                    H[i, j] = h[i * nz + j]
            for j in range(h_places.shape[0]):
                H[h_places[j, 1] // nz, h_places[j, 1] % nz] = outputs[WIDTH * h_places[j, 0] + lane]
            add_hessian(H, scale, order == EXACT or convex != 0, lzz[k])


@kernel
def evaluate(address, nx, X, U, begin, inputs, outputs):
    """Outputs of a function at eight knots."""
    fill(inputs, 0, X, begin)
    fill(inputs, nx, U, begin)
    call_contraction(address, inputs.ctypes.data, outputs.ctypes.data, 0, 0)
