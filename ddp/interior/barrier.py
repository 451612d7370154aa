"""Slacks, multipliers and barriers of bounds ``lower <= c <= upper``, all in one row.

With slacks s of c, R = c - s, and multipliers z_L, z_U of their bounds, a step of the primal-dual system with barrier m
weighs rows by w and pulls them by f:

    w = z_L / (s - lower) + z_U / (upper - s),    f = w R - m / (s - lower) + m / (upper - s)

Equalities have no slack: R = c - target, w = 1 / δ, f = ν + R / δ, a proximal method of multipliers. Control limits are
slacks of themselves: R = 0. The multiplier of a row is y = z_U - z_L, or ν.

Rows may give way, at a price ρ or with a compliance κ:

    c - s = p - n,  p, n > 0 at ρ (p + n), so that |ν| <= ρ        c - s = e at ½ e² / κ, so that e = κ ν

Soft constraints do, and where no step is found all constraints, at a price, are *elastic*: they have a step, too, where
they cannot be met, and say so by p and n at the end. p, n and e are eliminated like slacks: in place of δ comes
p / z_p + n / z_n, or κ, to which bounds add 1 / w of theirs. The kernels are in row_steps.py.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddp.compiling.kernel import kernel
from ddp.interior import row_steps
from ddp.interior.memory import RowMemory
from ddp.interior.row_steps import ABOVE, BELOW, BOUNDED, COMPLIANCE, EQUAL, FREE, NU, OF_N, OF_P, PRICE, N, P, S
from ddp.machine.carved import carved
from ddp.machine.number import WIDTH
from ddp.machine.written import address, filled
from ddp.protocols import Array

PROXIMAL, LEAST_PROXIMAL = (1e-6, 1.0), 1e-8
"""δ of equalities is the larger one of the first number and the second one times the barrier, at costs about one; both
fall to a tenth wherever δ keeps a full step from closing half of what is open, as multipliers are large, the first one
down to the least. The smaller δ is, the more of a sweep's Hessians is rounding: with the least throughout, a robot with
light fingers takes 153 iterations in place of 16."""

KEPT = 0.99
"""A step goes this share of the way to a bound, or closer where the barrier is small."""

FAR = 1e19
"""Bounds that are further from zero count as none, as IPOPT's: robots without a limit have the largest number there."""

ARRAYS: dict[str, tuple[int, ...]] = {
    "bounds": (2,), "give": (2,), "state": (8,), "step": (8,), "w": (), "f": (), "y": ()
}  # fmt: skip
"""Axes of arrays before that of the rows."""


@kernel
def proximal(p: Any) -> Any:
    """δ of the equalities of a `Memory`."""
    return max(p.least_proximal, p.share * p.barrier / p.scale) / p.scale


class Barrier:
    """State of M rows between bounds; arrays have the names of row_steps.py.

    price, compliance (M,): of rows that give way; rows that do so for nothing count as free.
    lower, upper, slacks s, equal ν (M,): views.
    address: of a `RowMemory`.   step (8, M): the last one.
    equality, bounded (M,): rows that are equalities, and rows between bounds; has_lower, has_upper (M,): those of the
    latter with a slack above a lower bound, below an upper one.
    elastic: whether `hard` rows give way; price_of_all: at which price.
    factors: of the rows, which what is given is not multiplied by.
    """

    def __init__(
        self, lower: Array, upper: Array, price: Array | None = None, compliance: Array | None = None,
        factors: Array | float = 1.0,
    ) -> None:  # fmt: skip
        self.size = len(lower)
        own, places = carved({name: (*rows, self.size) for name, rows in ARRAYS.items()})
        self.bounds, self.give, self.state, self.step = own["bounds"], own["give"], own["state"], own["step"]
        (self.lower, self.upper), self.slacks, self.equal = self.bounds, self.state[S], self.state[NU]
        self.w, self.f, self.y = own["w"], own["f"], own["y"]
        self.bounds[0] = np.where(lower < -FAR, -np.inf, factors * lower)
        self.bounds[1] = np.where(upper > FAR, np.inf, factors * upper)
        self.give[PRICE] = np.inf if price is None else price / factors
        self.give[COMPLIANCE] = 0.0 if compliance is None else factors * factors * compliance
        self.kind, self.plain = np.zeros((2, self.size), dtype=np.int64)
        self._last: tuple[float, tuple[Array, Array]] | None = None
        self._count()
        self.equality, self.bounded = self.kind == EQUAL, self.kind == BOUNDED
        self.has_lower, self.has_upper = self.bounded & np.isfinite(self.bounds)
        self.soft = ((self.give[PRICE] < np.inf) | (self.give[COMPLIANCE] > 0.0)) & (self.kind != FREE)
        self.softened = bool(self.soft.any())
        self.least_proximal, self.share = PROXIMAL
        self.elastic, self.price_of_all, self._hard = False, np.inf, np.zeros(self.size, dtype=np.int64)
        kinds = {"kinds": address(self.kind), "plain": address(self.plain), "hard": address(self._hard)}
        self._memory = filled(RowMemory, M=self.size, **kinds, **places)
        self.address = self._memory.address

    def _count(self) -> None:
        """Tell kinds of rows; count equalities, and numbers that barriers keep positive."""
        held = (self.give[PRICE] > 0.0) & (self.give[COMPLIANCE] < np.inf)
        equal, sides = held & (self.lower == self.upper), np.isfinite(self.bounds).sum(axis=0)
        bounded = held & ~equal & (sides > 0)
        self.kind[:] = np.select([equal, bounded], [EQUAL, BOUNDED], FREE)
        priced = (equal | bounded) & (self.give[PRICE] < np.inf)
        gives = (self.give[PRICE] < np.inf) | (self.give[COMPLIANCE] > 0.0)
        before = np.concatenate([[0], np.cumsum(bounded & ~gives)])
        self.plain[: max(0, self.size - WIDTH + 1)] = before[WIDTH:] - before[:-WIDTH] == WIDTH
        self.equalities, self.count = int(equal.sum()), int(sides[bounded].sum() + 2 * priced.sum())

    @property
    def multipliers(self) -> Array:
        """y (M,)."""
        y = np.empty(self.size)
        if y.size:
            row_steps.multipliers(self.state, self.kind, self.give, y)
        return y

    @property
    def hard(self) -> NDArray[np.bool_]:
        """Rows (M,) that are elastic, but would not have to give way."""
        return self._hard != 0

    def renew(self) -> None:
        """Begin as when it was made, for another solve; not where rows have given way."""
        self.step.fill(0.0)
        self.least_proximal, self.share = PROXIMAL

    def inside(self, c: Array, share: float | Array) -> Array:
        """c (M,), moved off bounds by a share of max(1, |bound|) or of the range, what is less."""
        if c.size == 0:
            return c
        if isinstance(share, np.ndarray):
            return np.clip(c, *self._off(share))
        if self._last is None or self._last[0] != share:
            self._last = share, self._off(share)
        return np.clip(c, *self._last[1])

    def _off(self, share: float | Array) -> tuple[Array, Array]:
        """The least and the largest numbers (M,) that are a share off bounds: see `inside`."""
        lower, upper = self.bounds
        with np.errstate(invalid="ignore"):
            low = np.minimum(share * np.maximum(1.0, np.abs(lower)), share * (upper - lower))
            high = np.minimum(share * np.maximum(1.0, np.abs(upper)), share * (upper - lower))
            return np.where(self.has_lower, lower + low, -np.inf), np.where(self.has_upper, upper - high, np.inf)

    def missed(self, c: Array) -> Array:
        """Residuals (M,) of values c (M,), with excesses as they are."""
        at = np.where(self.bounded, self.slacks, self.lower) + np.where(self.soft, self.state[P] - self.state[N], 0.0)
        return np.where(self.kind == FREE, 0.0, c - np.where(self.kind == FREE, 0.0, at))

    def near(self, share: float) -> Array:
        """Rows (M,) within a share of their range, or of max(1, |bound|), of a lower bound: -1, of an upper one: 1."""
        to_lower, to_upper = self.slacks - self.lower, self.upper - self.slacks
        with np.errstate(invalid="ignore"):
            width = self.upper - self.lower
            low = self.has_lower & (to_lower < share * np.minimum(np.maximum(1.0, np.abs(self.lower)), width))
            high = self.has_upper & (to_upper < share * np.minimum(np.maximum(1.0, np.abs(self.upper)), width))
        return np.where(low & ~(high & (to_upper < to_lower)), -1.0, np.where(high, 1.0, 0.0))

    def start(self, inside: Array, c: Array, barrier: float) -> None:
        """Take ``inside`` (M,) as slacks of values c (M,), and the multipliers that the barrier has there."""
        if inside.size:
            row_steps.start(inside, self.bounds, self.kind, barrier, self.state)
        if self.softened:
            self._start_giving(self.soft, c, self.state[ABOVE] - self.state[BELOW], barrier)

    def start_warm(self, multipliers: Array, c: Array, barrier: float) -> None:
        """Take multipliers (M,) of an earlier solution, as far as they have the sign of a bound; slacks are known."""
        self.state[BELOW] = np.where(self.has_lower, np.maximum(-multipliers, 0.1 * self.state[BELOW]), 0.0)
        self.state[ABOVE] = np.where(self.has_upper, np.maximum(multipliers, 0.1 * self.state[ABOVE]), 0.0)
        self.state[NU] = np.where(self.equality, multipliers, 0.0)
        if self.softened:
            self._start_giving(self.soft, c, multipliers, barrier)

    def start_elastic(self, price: float, rows: NDArray[np.bool_], c: Array, barrier: float) -> None:
        """Let some rows (M,) give way at a price, if they do not anyway: p - n is what they miss now, at values c."""
        y = self.multipliers
        self.elastic, self.price_of_all = True, price
        self._hard[:] = rows & ~self.soft & (self.kind != FREE)
        self.give[PRICE, self.hard] = price
        self._count()
        self._start_giving(self.hard, c, y, barrier)

    def end_elastic(self) -> None:
        """Let rows no longer give way that would not have to."""
        self.give[PRICE, self.hard] = np.inf
        for own in (P, N, OF_P, OF_N):
            self.state[own, self.hard] = 0.0
        self.state[NU, self.hard & self.bounded] = 0.0
        self.elastic, self.price_of_all = False, np.inf
        self._count()

    def resume(self, state: Array, give: Array, hard: Array, price: float | None) -> None:
        """Take what other bounds of these rows had: of `hard` ones (M,) that give way at a price, None for none."""
        self.state[:], self.give[:], self._hard[:] = state, give, hard
        self.elastic, self.price_of_all = price is not None, np.inf if price is None else price
        self._count()

    def raise_price(self, factor: float) -> None:
        """Raise the price by a factor, with the multipliers of all rows that are not soft."""
        self.price_of_all *= factor
        self.give[PRICE, self.hard] *= factor
        self.state[BELOW:, ~self.soft] *= factor

    def _start_giving(self, rows: NDArray[np.bool_], c: Array, y: Array, barrier: float) -> None:
        """Excesses of some rows (M,), p - n what they miss at values c, and ν as near to y as prices let it be."""
        missed = np.where(self.equality, c - self.lower, c - self.slacks)
        priced = rows & (self.give[PRICE] < np.inf) & (self.kind != FREE)
        compliant = rows & ~priced & (self.kind != FREE)
        price, missed_priced = self.give[PRICE, priced], missed[priced]
        least = barrier / price
        n = 0.5 * (least - missed_priced + np.hypot(least, missed_priced))
        p = np.maximum(missed_priced + n, 1e-12)
        n = np.maximum(n, 1e-12)
        self.state[P, priced], self.state[N, priced] = p, n
        self.state[OF_P, priced], self.state[OF_N, priced] = barrier / p, barrier / n
        self.state[NU, priced] = np.clip(y[priced], -0.9 * price, 0.9 * price)
        self.state[P, compliant] = missed[compliant]
        self.state[NU, compliant] = missed[compliant] / self.give[COMPLIANCE, compliant]
