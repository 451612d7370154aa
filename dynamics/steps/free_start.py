"""Systems whose initial state is free: knots before their first, in which controls say where it is."""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ddp.compiling.kernel import call_contraction, callback
from ddp.errors import ProblemError, as_array, suggesting
from ddp.machine.addresses import array_at, integers_at
from ddp.protocols import Array
from ddp.systems.derived_dynamics import followed
from ddp.systems.system import Contraction, Expansion, Stepping, ability
from ddp.tracing.function import TracedFunction
from dynamics.steps.augmented import Around, Augmented
from dynamics.steps.doubts import stated_in


@suggesting
class FreeStart(Around):
    """``x' = x ⊕ E_k u`` at knots 0 .. before-1, then the knots of a system: its state at knot ``before`` is free.

    system: any one whose space of states is known.
    directions E (n, m): how x may differ from x0, tangent vectors in columns; default all. Columns are dealt out to as
    many knots as nu controls need, ``before``; ``idle`` (before, nu) tells which controls there have none.
    """

    def __init__(self, system: Any, directions: ArrayLike | None = None) -> None:
        super().__init__(system)
        n, nu = self.n, self.nu
        given = np.eye(n) if directions is None else as_array("directions", directions, (n, None))
        if given.shape[1] == 0:
            raise ProblemError("directions: expected at least one column, got none")
        self.directions, self.before = given.copy(), -(-given.shape[1] // nu)
        spread = np.zeros((n, self.before * nu))
        spread[:, : given.shape[1]] = given
        self.control_limits = ability(self.system, "control_limits")
        self.idle = ~spread.any(axis=0).reshape(self.before, nu)
        self._placing = [self._placed(np.ascontiguousarray(part)) for part in np.split(spread, self.before, axis=1)]

    def _placed(self, E: Array) -> TracedFunction:
        """``x ⊕ E u``, traced."""
        space = self._space

        def moved(x: Any, u: Any) -> Any:
            return space.plus(x, E @ u)

        return followed("directions", moved, self.nx, self.nu, None, space)

    @property
    def record_size(self) -> int:
        """Floats that a knot keeps: which of the knots before it is, counted from 1, or 0; then those of its kind."""
        return 1 + max(int(self.system.record_size), self.nx + self.nu)

    def step_durations(self, count: int) -> Array:
        """Durations of the knots 0 .. count-1 [s]: those before take no time."""
        rest, own = max(0, count - self.before), ability(self.system, "step_durations")
        found = np.full(rest, self.dt) if own is None else own(rest)
        return np.concatenate([np.zeros(min(count, self.before)), found])

    def nominal_control(self, x: Array) -> Array:
        return self.system.nominal_control(x)

    def check_state(self, field: str, x: Array) -> None:
        self.system.check_state(field, x)

    def doubts(self, problem: Any) -> list[str]:
        return self.strangers(stated_in(problem))

    def excesses(self, problem: Any, X: Array, U: Array) -> list[str]:
        own, before = ability(self.system, "excesses"), self.before
        return [] if own is None else list(own(problem, X[before:], U[before:]))

    def _stepped(self, X: Array, U: Array, first: int = 0) -> Array:
        split, out = min(max(self.before - first, 0), len(X)), np.empty_like(X)
        for k in range(split):
            out[k] = self._placing[first + k].values(X[k : k + 1], U[k : k + 1])[0]
        if split < len(X):
            out[split:] = self.system.step(X[split:], U[split:], first + split - self.before)
        return out

    def _called(self, x: Any, u: Any) -> Any:
        return self.system.step(x, u)

    def stepping(self, count: int, lanes: int) -> Stepping | None:
        own = ability(self.system, "stepping")
        inner = None if own is None else own(max(count - self.before, 1), lanes)
        if inner is None:
            return None
        first = [self.before, inner.address, inner.context]
        words = np.array([*first, *(one.code.addresses["value"] for one in self._placing)], dtype=np.int64)
        owner = words, inner, self._placing
        return Stepping(_step_eight.address, words.ctypes.data, inner.parameters, owner)

    def expand(self, X: Array, U: Array, out: Expansion, first: int = 0) -> None:
        X, U = np.ascontiguousarray(X), np.ascontiguousarray(U)
        for k in range(self._expand_rest(self.system.expand, X, U, out, first)):
            one = slice(k, k + 1)
            self._placing[first + k].first(X[one], U[one], out.A[one], out.B[one])
            out.record[k, : 1 + self.nx + self.nu] = [first + k + 1, *X[k], *U[k]]

    def expand_second(self, X: Array, U: Array, out: Expansion, first: int = 0) -> None:
        self._expand_rest(self.system.expand_second, X, U, out, first)

    def _expand_rest(self, expand: Callable[..., None], X: Array, U: Array, out: Expansion, first: int) -> int:
        """Have the system expand its own knots; how many come before these."""
        split = min(max(self.before - first, 0), len(X))
        if split < len(X):
            own = out.record[split:, 1 : 1 + self.system.record_size]
            inner = Expansion(out.A[split:], out.B[split:], np.ascontiguousarray(own))
            expand(X[split:], U[split:], inner, first + split - self.before)
            own[:], out.record[split:, 0] = inner.record, 0.0
        return split

    def contract(self, record: Array, weight: Array, out: Array) -> None:
        kinds = record[:, 0].astype(int)
        for k in np.flatnonzero(kinds):
            z, one = record[k : k + 1, 1:], slice(k, k + 1)
            X, U = (np.ascontiguousarray(z[:, a:b]) for a, b in ((0, self.nx), (self.nx, self.nx + self.nu)))
            self._placing[kinds[k] - 1].second(X, U, np.ascontiguousarray(weight[one]), out[one])
        own = np.flatnonzero(kinds == 0)
        if len(own):
            H, records = np.empty((len(own), *out.shape[1:])), record[own, 1 : 1 + self.system.record_size]
            self.system.contract(np.ascontiguousarray(records), np.ascontiguousarray(weight[own]), H)
            out[own] = H

    def contraction(self) -> Contraction:
        return self._contraction

    @cached_property
    def _contraction(self) -> Contraction:
        all_of = [self.system.contraction(), *(one.contraction for one in self._placing)]
        words = np.array([part for one in all_of for part in one[:2]], dtype=np.int64)
        return Contraction(_contract_one.address, words.ctypes.data, (words, all_of))

    def __repr__(self) -> str:
        return f"FreeStart({self.system!r}, before={self.before})"

    def _origin(self) -> str:
        return f"exact, around {self.system}"

    def __reduce__(self) -> Any:
        return FreeStart, (self.system, self.directions)


def inside(system: Any, X: Array, U: Array | None = None) -> tuple[Any, Array, Array | None]:
    """The system in compositions, `Augmented` and these, and what X (N+1, .), U (N, .) are as its states and controls.

    U: None if not known.
    """
    while isinstance(system, (Augmented, FreeStart)):
        if isinstance(system, FreeStart):
            X, U = X[system.before :], None if U is None else U[system.before :]
        elif U is not None:
            U = system.inner(X[: len(U)], U)[1]
        system = system.system
        X = np.ascontiguousarray(X[:, : system.nx])
    return system, X, U


@callback
def _contract_one(context, record, weight, hessian):  # type: ignore[no-untyped-def]
    """C function of `system.Contraction`; context: pairs of words, for the system and each of the knots before."""
    kind = np.int64(array_at(record, (1,))[0])
    w = integers_at(context, (2 * kind + 2,))
    call_contraction(w[2 * kind], w[2 * kind + 1], record + 8, weight, hessian)


@callback
def _step_eight(inputs, outputs, context, knot):  # type: ignore[no-untyped-def]
    """C function of `system.Stepping`; context: how many knots come before, the system's step and context, theirs."""
    w = integers_at(context, (4 + knot,))
    if knot < w[0]:
        call_contraction(w[3 + knot], inputs, outputs, 0, 0)
    else:
        call_contraction(w[1], inputs, outputs, w[2], knot - w[0])
