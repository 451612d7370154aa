"""Slacks, multipliers and barriers of bounds ``lower <= c <= upper``, all in one row.

With slacks s of c, R = c - s, and multipliers z_L, z_U of their bounds, a step of the primal-dual system with barrier m
weighs rows by w and pulls them by f:

    w = z_L / (s - lower) + z_U / (upper - s),    f = w R - m / (s - lower) + m / (upper - s)

Equalities have no slack: R = c - target, w = 1 / δ, f = ν + R / δ, a proximal method of multipliers. Control limits are
slacks of themselves: R = 0. The multiplier of a row is y = z_U - z_L, or ν.

*Elastic* rows give way: c - s = p - n, with p, n > 0 at a price ρ each, so that |ν| <= ρ. They have a step, too, where
they cannot be met, and say so by p and n at the end. p and n are eliminated like slacks: in place of δ comes
p / z_p + n / z_n, to which bounds add 1 / w of theirs. The kernels are in row_steps.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp.interior import row_steps
from ddp.interior.row_steps import ABOVE, BELOW, BOUNDED, EQUAL, FREE, NU, OF_N, OF_P, N, P, S
from ddp.protocols import Array

PROXIMAL = 1e-8, 1.0
"""δ of equalities is the larger one of the first number and the second one times the barrier, at costs about one."""

KEPT = 0.99
"""A step goes this share of the way to a bound, or closer where the barrier is small."""


class RowStep(NamedTuple):
    """A step of all rows (8, M), how long it may be until a slack or a multiplier is at its bound, and the slope."""

    rows: Array
    longest: float
    longest_dual: float
    slope: float


class Barrier:
    """The rows' state, see row_steps.py.

    scale: the cost that counts as one.   price: ρ of the first ``elastic`` rows; 0: none is elastic.
    """

    def __init__(self, lower: Array, upper: Array, scale: float = 1.0) -> None:
        self.bounds, self.scale = np.array([lower, upper]), scale
        self.equality = lower == upper
        bounded = ~self.equality & (np.isfinite(lower) | np.isfinite(upper))
        self.kind: NDArray[np.int64] = np.where(self.equality, EQUAL, np.where(bounded, BOUNDED, FREE))
        self.bounded = bounded
        self.has_lower, self.has_upper = bounded & np.isfinite(lower), bounded & np.isfinite(upper)
        self.count = int(self.has_lower.sum() + self.has_upper.sum())
        self.size = len(lower)
        self.state = np.zeros((8, self.size))
        self.price, self.elastic = 0.0, 0
        self._w, self._f, self._residual = (np.zeros(self.size) for _ in range(3))

    @property
    def lower(self) -> Array:
        """Lower bounds (M,)."""
        return np.asarray(self.bounds[0])

    @property
    def upper(self) -> Array:
        """Upper bounds (M,)."""
        return np.asarray(self.bounds[1])

    @property
    def primal(self) -> Array:
        """Slacks and excesses (3, M)."""
        return self.state[[S, P, N]]

    @primal.setter
    def primal(self, primal: Array) -> None:
        self.state[[S, P, N]] = primal

    @property
    def slacks(self) -> Array:
        """Slacks s (M,)."""
        return np.asarray(self.state[S])

    @property
    def multipliers(self) -> Array:
        """y (M,)."""
        y = self.state[ABOVE] - self.state[BELOW]
        y[self.equality] = self.state[NU, self.equality]
        y[: self.elastic] = self.state[NU, : self.elastic]
        return np.asarray(y)

    @property
    def equal(self) -> Array:
        """ν (M,)."""
        return np.asarray(self.state[NU])

    @equal.setter
    def equal(self, multipliers: Array) -> None:
        self.state[NU] = multipliers

    @property
    def excess(self) -> float:
        """The largest p + n of an elastic row."""
        return float((self.state[P] + self.state[N])[: self.elastic].max(initial=0.0))

    def inside(self, c: Array, share: float) -> Array:
        """c (M,), moved off bounds by a share of max(1, |bound|) or of the range, what is less."""
        lower, upper = self.bounds
        with np.errstate(invalid="ignore"):
            low = np.minimum(share * np.maximum(1.0, np.abs(lower)), share * (upper - lower))
            high = np.minimum(share * np.maximum(1.0, np.abs(upper)), share * (upper - lower))
        low, high = np.where(self.has_lower, lower + low, -np.inf), np.where(self.has_upper, upper - high, np.inf)
        return np.clip(c, low, high)

    def near(self, share: float) -> Array:
        """Rows (M,) within a share of their range, or of max(1, |bound|), of a lower bound: -1, of an upper one: 1."""
        to_lower, to_upper = self.slacks - self.lower, self.upper - self.slacks
        with np.errstate(invalid="ignore"):
            width = self.upper - self.lower
            low = self.has_lower & (to_lower < share * np.minimum(np.maximum(1.0, np.abs(self.lower)), width))
            high = self.has_upper & (to_upper < share * np.minimum(np.maximum(1.0, np.abs(self.upper)), width))
        return np.where(low & ~(high & (to_upper < to_lower)), -1.0, np.where(high, 1.0, 0.0))

    def start(self, inside: Array, barrier: float) -> None:
        """Take these values (M,) as slacks, and the multipliers that the barrier has there."""
        slacks = np.where(self.bounded, inside, 0.0)
        self.state[:] = 0.0
        self.state[S] = slacks
        self.state[BELOW] = np.where(self.has_lower, barrier / (self.slacks - self.lower), 0.0)
        self.state[ABOVE] = np.where(self.has_upper, barrier / (self.upper - self.slacks), 0.0)

    def start_warm(self, multipliers: Array, barrier: float) -> None:
        """Take multipliers (M,) of an earlier solution, as far as they have the sign of a bound; slacks are known."""
        self.state[BELOW] = np.where(self.has_lower, np.maximum(-multipliers, 0.1 * self.state[BELOW]), 0.0)
        self.state[ABOVE] = np.where(self.has_upper, np.maximum(multipliers, 0.1 * self.state[ABOVE]), 0.0)
        self.state[NU] = np.where(self.equality, multipliers, 0.0)

    def start_elastic(self, price: float, count: int, c: Array, barrier: float) -> None:
        """Let the first ``count`` rows give way at a price: p - n is what they miss now, at values c (M,)."""
        y, rows = self.multipliers, slice(0, count)
        self.count += 2 * (count - self.elastic)
        self.price, self.elastic = price, count
        missed = np.where(self.equality, c - self.lower, c - self.slacks)[rows]
        least = barrier / price
        n = 0.5 * (least - missed + np.hypot(least, missed))
        p = np.maximum(missed + n, 1e-12)
        self.state[P, rows], self.state[N, rows] = p, n
        self.state[OF_P, rows], self.state[OF_N, rows] = barrier / p, barrier / n
        self.state[NU, rows] = np.clip(y[rows], -0.9 * price, 0.9 * price)

    def proximal(self, barrier: float) -> float:
        """δ of equalities."""
        smallest, share = PROXIMAL
        return max(smallest, share * barrier / self.scale) / self.scale

    def condensed(self, residual: Array, barrier: float) -> tuple[Array, Array]:
        """w and f (M,)."""
        row_steps.condense(
            self.state, self.bounds, self.kind, self.price, self.elastic, barrier, self.proximal(barrier), residual,
            self._w, self._f,
        )  # fmt: skip
        return self._w, self._f

    def step(self, along: Array, residual: Array, barrier: float) -> RowStep:
        """The rows' step, ``along`` (M,) being J z, after `condensed`."""
        keep, step = max(KEPT, 1.0 - barrier / self.scale), np.empty_like(self.state)
        found = row_steps.steps(
            self.state, self.bounds, self.kind, self.price, self.elastic, barrier, self.proximal(barrier), residual,
            self._w, self._f, along, keep, step,
        )  # fmt: skip
        return RowStep(step, *found)

    def move(self, step: RowStep, alpha: float, barrier: float) -> None:
        """Move multipliers: ν as far as slacks, the others by the fraction that keeps them positive."""
        row_steps.move(
            self.state, self.bounds, self.kind, self.elastic, barrier, step.rows, alpha, step.longest_dual
        )  # fmt: skip

    def evaluate(self, c: Array, primal: Array, barrier: float) -> tuple[Array, float]:
        """R (M,) of values c with slacks and excesses, and their barrier function -m Σ log, with prices."""
        residual = np.empty(self.size)
        args = self.bounds, self.kind, self.price, self.elastic, barrier, residual
        return residual, float(row_steps.evaluate(c, primal, *args, True))

    def value(self, barrier: float) -> float:
        """The barrier function with prices, of the state."""
        args = self.bounds, self.kind, self.price, self.elastic, barrier, self._residual
        return float(row_steps.evaluate(self._residual, self.primal, *args, False))

    def errors(self, barrier: float) -> tuple[float, float, float, float]:
        """See `row_steps.errors`."""
        found = row_steps.errors(self.state, self.bounds, self.kind, self.price, self.elastic, barrier)
        return tuple(map(float, found))  # type: ignore[return-value]
