# mypy: allow-untyped-defs, allow-untyped-calls
"""A user's cost term that is only a value: traced, differentiated and compiled, evaluated with the built-in ones.

Gauss-Newton's Hessian is that of the traced function by (dx, du, y), or its positive semidefinite part where it is not
constant and positive semidefinite, pulled back by the Jacobian of the quantities y that it asks for, such as a robot's:
of ``|p - target|²`` that of the residual p.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from ddp.compiling.kernel import call_contraction, inline, kernel
from ddp.compiling.values import uncompiled
from ddp.costs.batch import BatchTerm, CompiledCost
from ddp.costs.bound import EXACT, VALUES, bind
from ddp.costs.compiled import CompiledTerm
from ddp.costs.jitted import add_hessian
from ddp.costs.terms import Cost, DerivedTerm, TermError
from ddp.machine.number import WIDTH
from ddp.protocols import Array
from ddp.systems.system import System
from ddp.tracing import chain
from ddp.tracing.function import TracedFunction, space_of
from ddp.tracing.quantities import FIRST, AskError
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
        self.traced = self._followed(lasting=True)

    def _followed(self, lasting: bool) -> TracedFunction:
        """The term's function, traced; TermError says why it cannot be. lasting: as of a `TracedFunction`."""
        try:
            p = self.term.parameters if isinstance(self.term, Cost) else None
            sizes, space = (self._nx, self._nu), space_of(self._python.dynamics)
            return TracedFunction(
                "value", self._value, *sizes, p, cost=True, space=space, chained=True, lasting=lasting
            )  # fmt: skip
        except FollowError as reason:
            raise TermError(0, untraceable(reason)) from reason.__cause__
        except AskError as reason:
            raise TermError(0, f"value: {reason}") from reason
        except Exception as reason:
            self._python.values(np.zeros((1, self._nx)), np.zeros((1, self._nu)))  # raises what is wrong in Python
            raise TermError(0, untraceable(refused(reason))) from reason

    @property
    def _value(self) -> Callable[..., Any]:
        """The term's function as it is now, of Python."""
        value = self.term.function if isinstance(self.term, Cost) else self.term.value
        return uncompiled(value) or value

    def at(self, term: Cost) -> "TracedTerm":
        """Copy for a `Cost` with other parameters, as many; nothing is traced."""
        twin = object.__new__(TracedTerm)
        vars(twin).update(self.__getstate__(), term=term, traced=self.traced.at(term.parameters))
        twin._python = DerivedTerm(term, self._python.dynamics)
        return twin

    def changed(self, change: Callable[[Any], Any]) -> "TracedTerm":
        """Itself, or, where ``change`` makes another term of the user's, that one, traced."""
        term = change(self.term)
        return self if term is self.term else TracedTerm(term, change(self._python.dynamics))

    @property
    def parameters(self) -> Any:
        """Parameters of a `Cost`."""
        return self.term.parameters

    @property
    def movable(self) -> tuple[str, ...]:
        return self.term.movable if isinstance(self.term, Cost) else ()

    def varied(self, parameters: Any) -> "TracedTerm":
        """Copy with other parameters of a `Cost`, as many."""
        return self.at(self.term.varied(parameters=parameters))

    def renew(self) -> bool:
        """Trace the term again, if its function, its attributes or what it reads have changed; whether they have."""
        found = self.traced.renewed() if self.traced.is_of(self._value) else self._followed(lasting=False)
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
    def separable(self) -> bool:
        """Whether its Hessian is constant, diagonal and nowhere negative."""
        return self._curvature[1] and not self.traced.uses

    @cached_property
    def compiled(self) -> CompiledCost:
        """C function of the term."""
        code, (_, kept) = self.traced.code, self.traced.used
        known = {} if self.traced.uses or len(self.traced.p) else code.known
        if "cost" not in known:
            known["cost"] = self._bound(), self._curvature
        bound, vars(self)["_curvature"] = known["cost"]
        return bound.owned(code, kept)  # type: ignore[no-any-return]

    def _bound(self) -> CompiledCost:
        traced = self.traced
        _, gradient, bends = traced.layout("all").blocks
        value, whole = traced.code.compiled("value"), traced.code.compiled("all")
        given = gradient, chain.curvature_of(bends, traced.ne, traced.nz), int(self._curvature[0]), int(self.separable)
        return bind(_cost, value, whole, *given, traced.used[0], separable=self.separable)

    def values(self, X: Array, U: Array) -> Array:
        """The costs (M,); where one is NaN because its own code raises, that is raised."""
        costs = CompiledTerm.values(self, X, U)
        for row in np.flatnonzero(np.isnan(costs)):
            self._python.values(X[row : row + 1], U[row : row + 1])
        return costs


@kernel
def _cost(value, whole, gradient, curvature, convex, separable, uses, first, X, U, scale, order, l, lz, lzz):
    if order == VALUES:
        costs = np.empty((X.shape[0], 1))
        chain.evaluate_chained(value, uses, X, U, costs)
        for k in range(X.shape[0]):
            l[k] += scale * costs[k, 0]
        return
    nz, ny, c, rows, places = lz.shape[1], chain.count_of(uses), uses.whole.shape[0], curvature.rows, curvature.places
    m, is_whole, is_constant = rows.shape[0], order == EXACT or convex != 0, places.shape[0] == 0
    memory, slope, both = chain.memory_for(uses), np.empty(nz + ny), np.empty((ny + m, c))
    matrices, E, T = np.zeros((2, m, m)), both[:ny], both[ny:]
    G, H = matrices[0], matrices[1]
    if is_constant:
        _enter(curvature, G)
        add_hessian(G, 1.0, is_whole, H)
    inputs, outputs = np.empty(WIDTH * chain.arguments_of(uses, X, U)), np.empty(WIDTH * whole.outputs)
    for begin in range(0, X.shape[0], WIDTH):
        many = min(WIDTH, X.shape[0] - begin)
        chain.load(uses, FIRST, X, U, begin, inputs, memory)
        call_contraction(whole.address, inputs.ctypes.data, outputs.ctypes.data, 0, 0)
        for lane in range(many):
            k, at = begin + lane, whole.places
            l[k] += scale * (outputs[WIDTH * at[0, 0] + lane] if at.shape[0] > 0 else whole.template[0])
            for i in range(nz + ny):
                slope[i] = gradient.template[i]
            for j in range(gradient.places.shape[0]):
                slope[gradient.places[j, 1]] = outputs[WIDTH * gradient.places[j, 0] + lane]
            for i in range(nz):
                lz[k, i] += scale * slope[i]
            if separable != 0:
                for i in range(m):
                    lzz[k, rows[i], rows[i]] += scale * H[i, i]
                continue
            if not is_constant:
                _enter(curvature, G)
                for j in range(places.shape[0]):
                    G[places[j, 1] // m, places[j, 1] % m] = outputs[WIDTH * places[j, 0] + lane]
                H[:] = 0.0
                add_hessian(G, 1.0, is_whole, H)
            chain.add_direct(rows, curvature.direct, H, scale, lzz[k])
            if ny > 0:
                chain.write_jacobian(uses, lane, memory, E)
                chain.weigh(uses, lane, slope[nz:], memory)
                for i in range(ny):
                    if slope[nz + i] != 0.0:
                        for j in range(c):
                            lz[k, uses.whole[j]] += scale * slope[nz + i] * E[i, j]
                chain.add_pulled_back(uses, rows, curvature.direct, H, E, nz, scale, T, lzz[k])
        if order == EXACT:
            chain.add_curvatures(uses, many, begin, scale, memory, lzz)


@inline
def _enter(curvature, G):
    """G := the constants of a Hessian."""
    m = len(G)
    for i in range(m):
        for j in range(m):
            G[i, j] = curvature.template[m * i + j]
