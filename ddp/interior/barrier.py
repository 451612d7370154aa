"""Slacks, multipliers and barriers of bounds ``lower <= c <= upper``, all in one row.

With slacks s of c, R = c - s, and multipliers z_L, z_U of their bounds, a step of the primal-dual system with barrier m
weighs rows by w and pulls them by f:

    w = z_L / (s - lower) + z_U / (upper - s),    f = w R - m / (s - lower) + m / (upper - s)

Equalities have no slack: R = c - target, w = 1 / δ, f = ν + R / δ, a proximal method of multipliers. Control limits are
slacks of themselves: R = 0. The multiplier of a row is y = z_U - z_L, or ν.
"""

from __future__ import annotations

import numpy as np

from ddp.protocols import Array

NEAR = 1e10
"""Multipliers stay within this factor of what the barrier says they are, m / (s - bound)."""

PROXIMAL = 1e-8, 1e-2
"""δ of equalities is the larger one of the first number and the second one times the barrier, at costs about one."""


class Barrier:
    """The rows' state. Arrays (M,).

    slacks, below, above: s, z_L, z_U; zeros where there is no bound.   equal: ν, zeros where there is no equality.
    scale: the cost that counts as one.
    """

    def __init__(self, lower: Array, upper: Array, scale: float = 1.0) -> None:
        self.equality, self.scale = lower == upper, scale
        self.lower, self.upper = np.where(self.equality, -np.inf, lower), np.where(self.equality, np.inf, upper)
        self.target = np.where(self.equality, lower, 0.0)
        self.has_lower, self.has_upper = np.isfinite(self.lower), np.isfinite(self.upper)
        self.bounded = self.has_lower | self.has_upper
        self.count = int(self.has_lower.sum() + self.has_upper.sum())
        self.slacks = np.zeros(len(lower))
        self.below, self.above, self.equal = np.zeros(len(lower)), np.zeros(len(lower)), np.zeros(len(lower))

    def inside(self, c: Array, share: float) -> Array:
        """c (M,), moved off bounds by a share of max(1, |bound|) or of the range, what is less."""
        lower, upper = self.lower, self.upper
        with np.errstate(invalid="ignore"):
            low = np.minimum(share * np.maximum(1.0, np.abs(lower)), share * (upper - lower))
            high = np.minimum(share * np.maximum(1.0, np.abs(upper)), share * (upper - lower))
        low, high = np.where(self.has_lower, low, 0.0), np.where(self.has_upper, high, 0.0)
        return np.clip(c, lower + low, upper - high)

    def start(self, inside: Array, barrier: float) -> None:
        """Take these values (M,) as slacks, and the multipliers that the barrier has there."""
        self.slacks = np.where(self.bounded, inside, 0.0)
        to_lower, to_upper = self.room(self.slacks)
        self.below = np.where(self.has_lower, barrier / to_lower, 0.0)
        self.above = np.where(self.has_upper, barrier / to_upper, 0.0)
        self.equal = np.zeros(len(inside))

    def start_warm(self, multipliers: Array, barrier: float) -> None:
        """Take multipliers (M,) of an earlier solution, the slacks being known."""
        to_lower, to_upper = self.room(self.slacks)
        self.below = np.where(self.has_lower, np.maximum(-multipliers, 0.1 * barrier / to_lower), 0.0)
        self.above = np.where(self.has_upper, np.maximum(multipliers, 0.1 * barrier / to_upper), 0.0)
        self.equal = np.where(self.equality, multipliers, 0.0)

    def room(self, slacks: Array) -> tuple[Array, Array]:
        """How far slacks are from lower and upper bounds."""
        return slacks - self.lower, self.upper - slacks

    def residual(self, c: Array, slacks: Array) -> Array:
        """R (M,)."""
        return np.where(self.equality, c - self.target, np.where(self.bounded, c - slacks, 0.0))

    def proximal(self, barrier: float) -> float:
        """δ of equalities."""
        smallest, share = PROXIMAL
        return max(smallest, share * barrier / self.scale) / self.scale

    @property
    def multipliers(self) -> Array:
        """y (M,)."""
        return np.asarray(self.above - self.below + self.equal)

    def condensed(self, residual: Array, barrier: float) -> tuple[Array, Array]:
        """w and f (M,)."""
        to_lower, to_upper = self.room(self.slacks)
        delta = self.proximal(barrier)
        w = np.where(self.equality, 1.0 / delta, self.below / to_lower + self.above / to_upper)
        f = np.where(self.equality, self.equal, barrier / to_upper - barrier / to_lower)
        return w, f + w * residual

    def slope(self, slacks: Array, barrier: float) -> float:
        """The barrier function's slope along steps ``slacks`` (M,) of the slacks."""
        to_lower, to_upper = self.room(self.slacks)
        return float(((barrier / to_upper - barrier / to_lower) * np.where(self.bounded, slacks, 0.0)).sum())

    def value(self, slacks: Array, barrier: float) -> float:
        """The barrier function -m Σ log; infinite outside."""
        to_lower, to_upper = self.room(slacks)
        with np.errstate(invalid="ignore", divide="ignore"):
            total = np.log(to_lower[self.has_lower]).sum() + np.log(to_upper[self.has_upper]).sum()
        return float(-barrier * total) if total == total else np.inf

    def complementarity(self, barrier: float) -> float:
        """max |(s - bound) z - m|."""
        if self.count == 0:
            return 0.0
        to_lower, to_upper = self.room(self.slacks)
        low = (to_lower * self.below)[self.has_lower] - barrier
        high = (to_upper * self.above)[self.has_upper] - barrier
        return float(max(np.abs(low).max(initial=0.0), np.abs(high).max(initial=0.0)))

    def step(self, along: Array, residual: Array, barrier: float) -> RowStep:
        """The step of the rows' state, ``along`` (M,) being J z."""
        to_lower, to_upper = self.room(self.slacks)
        moved = along + residual
        slacks = np.where(self.bounded, moved, 0.0)
        below = np.where(self.has_lower, (barrier - self.below * slacks) / to_lower - self.below, 0.0)
        above = np.where(self.has_upper, (barrier + self.above * slacks) / to_upper - self.above, 0.0)
        equal = np.where(self.equality, moved / self.proximal(barrier), 0.0)
        keep = max(0.99, 1.0 - barrier / self.scale)
        room = np.concatenate([to_lower[self.has_lower], to_upper[self.has_upper]])
        moves = np.concatenate([slacks[self.has_lower], -slacks[self.has_upper]])
        duals = np.concatenate([self.below[self.has_lower], self.above[self.has_upper]])
        dual_moves = np.concatenate([below[self.has_lower], above[self.has_upper]])
        return RowStep(slacks, below, above, equal, fraction(room, moves, keep), fraction(duals, dual_moves, keep))

    def move(self, step: RowStep, alpha: float, barrier: float) -> None:
        """Move multipliers by the fraction that keeps them positive; the slacks have moved."""
        to_lower, to_upper = self.room(self.slacks)
        self.below = within(self.below + step.longest_dual * step.below, barrier / to_lower, self.has_lower)
        self.above = within(self.above + step.longest_dual * step.above, barrier / to_upper, self.has_upper)
        self.equal = self.equal + alpha * step.equal


class RowStep:
    """Steps of s, z_L, z_U, ν, and how long they may be until a slack or a multiplier is at its bound."""

    def __init__(
        self, slacks: Array, below: Array, above: Array, equal: Array, longest: float, longest_dual: float
    ) -> None:
        self.slacks, self.below, self.above, self.equal = slacks, below, above, equal
        self.longest, self.longest_dual = longest, longest_dual


def fraction(room: Array, moves: Array, keep: float) -> float:
    """How much of ``moves`` leaves the share 1 - keep of ``room``, at most 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        longest = np.where(moves < 0.0, -keep * room / moves, 1.0)
    return float(min(1.0, longest.min(initial=1.0)))


def within(z: Array, centre: Array, where: Array) -> Array:
    """Multipliers within a factor of ``centre``."""
    return np.where(where, np.clip(z, centre / NEAR, centre * NEAR), 0.0)
