"""The augmented Lagrangian of a problem's constraints (Powell, Hestenes, Rockafellar): what makes them cost terms.

With multipliers λ and a penalty ρ, and with e = s - clip(s, lower, upper) for ``s = c + λ / ρ``, every knot costs

    Σ_i ½ ρ e_i² - ½ λ_i² / ρ,   gradient  Jᵀ (ρ e),   Hessian  ρ J_aᵀ J_a + Σ_i ρ e_i ∂²c_i

J_a the rows that are active: those beyond a bound, and equalities. ``ρ e`` is the next estimate of λ: positive where
the upper bound holds c back, negative where the lower one does. The last sum is left out of the Gauss-Newton Hessian.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from ddp.constraints.placement import Placed
from ddp.costs.batch import ability
from ddp.errors import ProblemError
from ddp.protocols import Array


@dataclass(frozen=True, eq=False)
class Residual:
    """A constraint along a trajectory.

    name: what it is, and which.   knots: where it is imposed, M of them.   values (M, size): c.
    violation (M, size): how far c is above (positive) or below (negative) its bounds.
    multipliers (M, size): positive where the upper bound is held by force, negative where the lower one is; that of an
        equality has either sign. ``∇cost + Jᵀ multipliers = 0`` at a solution.
    """

    name: str
    knots: range
    values: Array
    violation: Array
    multipliers: Array

    @property
    def worst(self) -> float:
        """The largest violation."""
        return float(np.abs(self.violation).max())

    def __str__(self) -> str:
        knot, row = np.unravel_index(int(np.argmax(np.abs(self.violation))), self.violation.shape)
        part = f"[{row}]" if self.violation.shape[1] > 1 else ""
        return f"{self.name}{part} is violated by {self.worst:.3g} at knot {self.knots[int(knot)]}"


class Values:
    """The values of constraints, those of the last knots kept: a trajectory is judged before it is differentiated."""

    def __init__(self) -> None:
        self._last: dict[int, tuple[Array, Array, Array]] = {}

    def __call__(self, entry: Placed, X: Array, U: Array) -> Array:
        """c (M, size) of a constraint at X (M, nx), U (M, nu)."""
        last = self._last.get(entry.first)
        if last is None or not (np.array_equal(last[0], X) and np.array_equal(last[1], U)):
            c = np.asarray(entry.constraint.values(X, U))
            if c.shape != (len(X), entry.lower.shape[1]):
                raise ProblemError(f"values: expected shape {(len(X), entry.lower.shape[1])}, got {c.shape}")
            self._last[entry.first] = last = X.copy(), U.copy(), c
        return last[2]


def state_size(placed: Sequence[Placed]) -> int:
    """How many multipliers and penalties there are."""
    return sum(entry.lower.size for entry in placed) + len(placed)


def residuals(
    placed: Sequence[Placed], X: Array, U: Array, multipliers: Array, known: Values
) -> tuple[Residual, ...]:
    """All constraints along X (N+1, nx), padded U (N+1, nu)."""
    found = []
    for entry in placed:
        knots = slice(entry.start, entry.stop)
        c = known(entry, X[knots], U[knots])
        own = entry.own(multipliers).copy()
        found.append(Residual(entry.name, range(entry.start, entry.stop), c, entry.beyond(c), own))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class Lagrangian:
    """Multipliers (m,) of all constraints and one penalty for each, in one vector ``state`` that terms read.

    warm: whether they come from an earlier solution.   known: the last values of the constraints.
    """

    placed: tuple[Placed, ...]
    state: Array
    warm: bool = False
    known: Values = field(default_factory=Values)

    @property
    def multipliers(self) -> Array:
        """All multipliers (m,), a view."""
        return self.state[: len(self.state) - len(self.placed)]

    @property
    def penalties(self) -> Array:
        """One for each constraint, a view."""
        return self.state[len(self.state) - len(self.placed) :]

    def within(self, start: int, stop: int) -> Iterator[tuple[str, AugmentedTerm, slice]]:
        """The terms of the knots start .. stop-1: name, term, knots."""
        for i, entry in enumerate(self.placed):
            begin, end = max(start, entry.start), min(stop, entry.stop)
            if begin < end:
                rows = slice(begin - entry.start, end - entry.start)
                multipliers = entry.own(self.multipliers)[rows]
                term = AugmentedTerm(entry, rows, multipliers, float(self.penalties[i]), self.known)
                yield entry.name, term, slice(begin, end)

    def shifts(self, X: Array, U: Array) -> tuple[Array, Array]:
        """ρ e (m,), the next estimate of the multipliers, and for each constraint the largest |e|.

        e is violation and lack of complementarity in one: where it is zero, c is within its bounds, and a
        multiplier that is not zero stands at a bound.
        """
        estimate, largest = np.empty_like(self.multipliers), np.zeros(len(self.placed))
        for i, (_, term, knots) in enumerate(self.within(0, len(X))):
            force = term.force(X[knots], U[knots])
            self.placed[i].own(estimate)[:] = force
            moved = force - term.multipliers
            largest[i] = np.abs(moved).max() / term.penalty
        return estimate, largest


class AugmentedTerm:
    """One constraint as a cost of the knots ``rows`` of its own; see the module for the formulas."""

    def __init__(self, entry: Placed, rows: slice, multipliers: Array, penalty: float, known: Values) -> None:
        self.constraint, self.multipliers, self.penalty = entry.constraint, multipliers, penalty
        self._entry, self._known = entry, known
        self._lower, self._upper = entry.lower[rows], entry.upper[rows]

    @property
    def thread_safe(self) -> bool:
        """Whether the constraint is."""
        return bool(ability(self.constraint, "thread_safe"))

    def values(self, X: Array, U: Array) -> Array:
        """The costs (M,)."""
        return self._costs(self._beyond(X, U))

    def force(self, X: Array, U: Array) -> Array:
        """ρ e (M, size)."""
        return self.penalty * self._beyond(X, U)

    def expand(self, X: Array, U: Array, weight: float, exact: bool, l: Array, lz: Array, lzz: Array) -> None:
        """Add weight times value, gradient and Hessian; only knots with an active row are differentiated."""
        e = self._beyond(X, U)
        l += weight * self._costs(e)
        active = (e != 0.0) | (self._lower == self._upper)
        at = np.flatnonzero(active.any(axis=1))
        if at.size == 0:
            return
        force, X, U = weight * self.penalty * e[at], X[at], U[at]
        J = self.constraint.jacobian(X, U)
        lz[at] += np.einsum("ki,kia->ka", force, J)
        J = np.where(active[at][:, :, None], J, 0.0)
        H = weight * self.penalty * (J.transpose(0, 2, 1) @ J)
        lzz[at] += H + self.constraint.curvature(X, U, force) if exact else H

    def _beyond(self, X: Array, U: Array) -> Array:
        shifted = self._known(self._entry, X, U) + self.multipliers / self.penalty
        return shifted - np.clip(shifted, self._lower, self._upper)

    def _costs(self, e: Array) -> Array:
        settled = self.multipliers * self.multipliers
        return np.asarray(0.5 * self.penalty * (e * e).sum(axis=1) - 0.5 / self.penalty * settled.sum(axis=1))
