"""Systems whose initial state is free: knots before their first, in which controls say where it is."""

from __future__ import annotations

from functools import cache, cached_property
from typing import Any

import numpy as np
from numba import carray
from numpy.typing import ArrayLike

from ddp.by_knot import ByKnot
from ddp.compiling.kernel import call_contraction, callback, integer_pointer, pointer
from ddp.derived_dynamics import as_system
from ddp.errors import ProblemError, as_array, axes, integer
from ddp.machine.number import WIDTH
from ddp.protocols import Array
from ddp.system import Contraction, Expansion, Stepping, System, ability
from ddp.tracing.function import TracedFunction, space_of, tracked
from ddp.tracing.spaces import Space
from ddp.user_step import followed


class FreeStart(ByKnot):
    """``x' = x ⊕ E_k u`` at knots 0 .. before-1, then the knots of a system: its state at knot ``before`` is free.

    system: any one whose space of states is known.
    directions E (n, m): how x may differ from x0, tangent vectors in columns; default all. Columns are dealt out to as
    many knots as nu controls need, ``before``; ``idle`` (before, nu) tells which controls there have none.
    """

    def __init__(self, system: Any, directions: ArrayLike | None = None) -> None:
        self.system: System = as_system(system, "system")
        known = space_of(self.system)
        if known is None:
            raise ProblemError("system: expected one of plain numbers, or whose `space` of states is known")
        self._space, n, nu = known, self.system.n, self.system.nu
        self.nx, self.nu, self.dt = self.system.nx, nu, self.system.dt
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
    def space(self) -> Space:
        """The space of states."""
        return self._space

    @property
    def thread_safe(self) -> bool:
        """Whether the system is."""
        return bool(ability(self.system, "thread_safe"))

    @property
    def lanes(self) -> int:
        """How many step lengths are rolled out for the price of one."""
        return WIDTH if ability(self.system, "lanes") else 0

    @property
    def record_size(self) -> int:
        """Floats that a knot keeps: which of the knots before it is, counted from 1, or 0; then those of its kind."""
        return 1 + max(int(self.system.record_size), self.nx + self.nu)

    def step_durations(self, count: int) -> Array:
        """How long each of the knots 0 .. count-1 takes [s]: those before take no time."""
        rest, own = max(0, count - self.before), ability(self.system, "step_durations")
        found = np.full(rest, self.dt) if own is None else own(rest)
        return np.concatenate([np.zeros(min(count, self.before)), found])

    def renew(self) -> bool:
        """Trace functions of the system again, if what they read has changed; whether it has."""
        renew = getattr(self.system, "renew", None)
        return bool(renew and renew())

    def nominal_control(self, x: Array) -> Array:
        """The system's."""
        return self.system.nominal_control(x)

    def check_state(self, field: str, x: Array) -> None:
        """Raise ProblemError naming ``field`` unless x (..., nx) is a state of the system."""
        self.system.check_state(field, x)

    def step(self, x: Array, u: Array, first: int = 0) -> Array:
        """The next state, (nx,) or (M, nx)."""
        X = as_array("x", x, (self.nx,) if axes(x) == 1 else (None, self.nx))
        U, first = as_array("u", u, (*X.shape[:-1], self.nu)), integer("knot", first)
        if X.ndim == 1:
            return self.step(X[None], U[None], first)[0]
        split, out = min(max(self.before - first, 0), len(X)), np.empty_like(X)
        for k in range(split):
            out[k] = self._placing[first + k].values(X[k : k + 1], U[k : k + 1])[0]
        if split < len(X):
            out[split:] = self.system.step(X[split:], U[split:], first + split - self.before)
        return out

    def _called(self, x: Any, u: Any) -> Any:
        return self.system.step(x, u)

    def _called_at(self, x: Any, u: Any, knot: int) -> Any:
        return self.step(x, u, knot)

    def track(
        self, X: Array, U: Array, k: Array, K: Array, alphas: Array, gaps: Array, lower: Array, upper: Array
    ) -> tuple[Array, Array]:
        """Closed-loop rollouts, one for each alpha: see `System`; NaN from where they diverge."""
        stepping = self.stepping(len(U), len(alphas))
        if stepping is None:
            return super().track(X, U, k, K, alphas, gaps, lower, upper)
        return tracked(stepping, self._space, X, U, k, K, alphas, gaps, (lower, upper))

    def stepping(self, count: int, lanes: int) -> Stepping | None:
        """Compiled steps: see `system.Abilities`."""
        own = ability(self.system, "stepping")
        inner = None if own is None else own(max(count - self.before, 1), lanes)
        if inner is None:
            return None
        first = [self.before, inner.address, inner.context]
        words = np.array([*first, *(one.code.addresses["value"] for one in self._placing)], dtype=np.int64)
        return Stepping(_stepping().address, words.ctypes.data, inner.parameters, (words, inner, self._placing))

    def linearize(self, x: Array, u: Array, knot: int = 0) -> tuple[Array, Array]:
        """``A (n, n), B (n, nu)`` of one knot."""
        out = self._expansion(x, u, knot)
        return out.A[0], out.B[0]

    def hessian(self, x: Array, u: Array, weight: Array, knot: int = 0) -> Array:
        """The exact Hessian (nz, nz) of ``weight @ (f(x ⊕ dx, u + du) ⊖ f(x, u))`` of one knot."""
        out, H = self._expansion(x, u, knot), np.empty((1, self.n + self.nu, self.n + self.nu))
        self.contract(out.record, as_array("weight", weight, (self.n,))[None], H)
        return H[0]

    def _expansion(self, x: Array, u: Array, knot: int) -> Expansion:
        X, U = as_array("x", x, (self.nx,))[None], as_array("u", u, (self.nu,))[None]
        out = Expansion(np.empty((1, self.n, self.n)), np.empty((1, self.n, self.nu)), np.empty((1, self.record_size)))
        knot = integer("knot", knot)
        self.expand(X, U, out, knot)
        self.expand_second(X, U, out, knot)
        return out

    def expand(self, X: Array, U: Array, out: Expansion, first: int = 0) -> None:
        """A, B and record of M knots."""
        X, U = np.ascontiguousarray(X), np.ascontiguousarray(U)
        split = min(max(self.before - first, 0), len(X))
        for k in range(split):
            one = slice(k, k + 1)
            self._placing[first + k].first(X[one], U[one], out.A[one], out.B[one])
            out.record[k, : 1 + self.nx + self.nu] = [first + k + 1, *X[k], *U[k]]
        if split < len(X):
            inner = self._inner(out, split, np.empty((len(X) - split, self.system.record_size)))
            self.system.expand(X[split:], U[split:], inner, first + split - self.before)
            self._keep(inner, out, split)

    def expand_second(self, X: Array, U: Array, out: Expansion, first: int = 0) -> None:
        """Complete records after ``expand``."""
        split = min(max(self.before - first, 0), len(X))
        if split < len(X):
            record = np.ascontiguousarray(out.record[split:, 1 : 1 + self.system.record_size])
            inner = self._inner(out, split, record)
            self.system.expand_second(X[split:], U[split:], inner, first + split - self.before)
            self._keep(inner, out, split)

    @staticmethod
    def _inner(out: Expansion, split: int, record: Array) -> Expansion:
        """Part of an expansion that is the system's."""
        return Expansion(out.A[split:], out.B[split:], record)

    @staticmethod
    def _keep(inner: Expansion, out: Expansion, split: int) -> None:
        out.record[split:, 0] = 0.0
        out.record[split:, 1 : 1 + inner.record.shape[1]] = inner.record

    def contract(self, record: Array, weight: Array, out: Array) -> None:
        """The Hessians (M, nz, nz) of M knots."""
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
        """The compiled second order of single knots."""
        return self._contraction

    @cached_property
    def _contraction(self) -> Contraction:
        all_of = [self.system.contraction(), *(one.contraction for one in self._placing)]
        words = np.array([part for one in all_of for part in one[:2]], dtype=np.int64)
        return Contraction(_contracting().address, words.ctypes.data, (words, all_of))

    @property
    def robot(self) -> Any:
        """The system's robot, if it has one."""
        return self.system.robot  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        return f"FreeStart({self.system!r}, before={self.before})"

    def _origin(self) -> str:
        return f"exact, around {self.system}"

    def __reduce__(self) -> Any:
        return FreeStart, (self.system, self.directions)


def _contract_one(context, record, weight, hessian):  # type: ignore[no-untyped-def]
    """C function of `system.Contraction`; context: pairs of words, for the system and each of the knots before."""
    kind = np.int64(carray(pointer(record), 1)[0])
    w = carray(integer_pointer(context), 2 * kind + 2)
    call_contraction(w[2 * kind], w[2 * kind + 1], record + 8, weight, hessian)


def _step_eight(inputs, outputs, context, knot):  # type: ignore[no-untyped-def]
    """C function of `system.Stepping`; context: how many knots come before, the system's step and context, theirs."""
    w = carray(integer_pointer(context), 4 + knot)
    if knot < w[0]:
        call_contraction(w[3 + knot], inputs, outputs, 0, 0)
    else:
        call_contraction(w[1], inputs, outputs, w[2], knot - w[0])


@cache
def _contracting() -> Any:
    return callback(_contract_one)


@cache
def _stepping() -> Any:
    return callback(_step_eight)
