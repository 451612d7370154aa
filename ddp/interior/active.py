"""The active set of a minimum, settled on a quadratic model: another set costs a sweep, and no evaluation.

A set is tried by a sweep in which controls at limits are constants, constraints at bounds equalities, and nothing else
is bounded; soft constraints that are violated are terms of the cost, linear ones at a price and quadratic ones with a
compliance. Where its step leads, rows whose multiplier has the wrong sign are released, and rows beyond a bound are
held (the primal-dual active set of Hintermüller, Ito & Kunisch 2002). Where that comes to no end an interior point
finds the set, by sweeps alone, too.

Constraints' curvature is weighed with the multipliers that the step leads to, as far as they are known: where a bound
is met between two knots, the multiplier goes from the one to the other, and the curvature with it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ddp.constraints import row_table
from ddp.interior import active_rows, row_steps
from ddp.interior.active_rows import BEYOND
from ddp.interior.barrier import PROXIMAL
from ddp.interior.correction import BLENDED
from ddp.interior.course import END, SOLVED, START, lowered, unit
from ddp.interior.passes import Way
from ddp.interior.point import INSIDE, Point
from ddp.interior.records import record_of
from ddp.interior.row_steps import PRICE, N, P, S
from ddp.protocols import Array
from ddp.solutions.record import Record
from ddp.sweeps.outcome import Sweep

CLOSER = 0.5
"""Rows are held if a step without barrier takes more than this share of their slack, and so less than the rest of it
from their multiplier: near the minimum active rows lose all of their slack, others all of their multiplier (El-Bakry,
Tapia & Zhang 1994). These shares have no units."""

LEFT_OPEN = 1e-8
"""Least δ: what a step leaves open of held rows whose multipliers it changes by as much as the largest of all.
Where multipliers are small, as those of forces, a smaller δ would leave nothing of Hessians but rounding."""

MOST_SWEEPS = 40
"""Sweeps of an interior point on one quadratic model, at most."""

HALFWAY = 0.5
"""Share of the way to a set's multipliers that those which weigh curvature go."""


class Step(NamedTuple):
    """A sweep, its share of the exact Hessian, its step, and whether what binds is settled."""

    sweep: Sweep
    blend: float
    way: Way
    settled: bool


class ActiveSet:
    """Rows of a point that are at bounds, as `Point.bounds` has them while Newton's steps are taken.

    held (M,): -1, 1 of rows at their lower and upper bounds, else 0.   y (M,): multipliers of all rows at the point,
    target (M,): those where the last step leads.   errors, dual: see `judge`, and the gradient's alone.
    """

    def __init__(self, point: Point, held: Array | None = None) -> None:
        self.point, self._given = point, point.bounds
        self._controls, self._shape = slice(point.first, None), point.U.shape
        given, self._imposed = self._given, point.place.imposed
        y, self._price = given.multipliers, given.give[PRICE]
        self._priced = (self._price < np.inf) & (given.bounded | given.equality)
        if held is None:
            self.held, self._pays = self._closing(1.0)
        else:
            self.held = held  # multipliers of warm starts are below their price
            side = np.where(self._values() > given.upper + BEYOND, 1.0, -1.0 * (self._values() < given.lower - BEYOND))
            self._pays = np.where((self._price < np.inf) & (y * side > 0.0), side, 0.0)
        self.y = self.target = np.where(given.equality | (self.held != 0.0), y, 0.0)
        self.errors, self.dual = (np.inf, np.inf), np.inf

    def _closing(self, blend: float) -> tuple[Array, Array]:
        """Rows (M,) that go to a bound where the barrier ends, and those that stay beyond one: see `CLOSER`.

        blend: share of the exact Hessian.
        """
        point, given = self.point, self._given
        if given.count == 0:
            return np.zeros(given.size), np.zeros(given.size)
        barrier, point.barrier = point.barrier, 0.0
        found = point.propose(blend, 0.0, False)
        if found.failed >= 0:
            found = point.propose(0.0, 0.0, True)
        rows = given.step if found.failed < 0 else np.zeros_like(given.step)
        point.barrier, moved = barrier, rows[S]
        beyond = 1.0 * (-rows[P] <= CLOSER * given.state[P]) - 1.0 * (-rows[N] <= CLOSER * given.state[N])
        low = given.has_lower & (-moved > CLOSER * (given.slacks - given.lower))
        high = given.has_upper & (moved > CLOSER * (given.upper - given.slacks))
        return np.where(low, -1.0, np.where(high, 1.0, 0.0)), np.where(self._priced, beyond, 0.0)

    def _values(self) -> Array:
        """Values of all rows (M,) at the point."""
        return self.point.values()

    @property
    def of_controls(self) -> Array:
        """Held controls (N, nu)."""
        held = self.held[self._controls]
        return held.reshape(self._shape) if held.size else np.zeros(self._shape)

    def impose(self) -> None:
        """Bound the point by the active rows alone: constraints as equalities; controls are held by sweeps."""
        point, own = self.point, self._imposed
        largest = own.hold(self._given, self.held, self._pays, self.y, point.first) / point.scale
        point.bounds = own
        point.least_proximal, point.share = max(PROXIMAL[0], LEFT_OPEN / max(largest, LEFT_OPEN)), PROXIMAL[1]
        for limits, own_limits in zip((point.problem.lower, point.problem.upper), point.backward.limits, strict=True):
            np.subtract(limits, point.U, out=own_limits)
        point.settle()

    def judge(self, moved: bool) -> float:
        """The error of the conditions of optimality at the point: of the Lagrangian's gradient, and what is open.

        moved: whether its derivatives have to be made.

        With the gradient count products of multipliers and what is left to bounds. Open are gaps, and by how much rows
        are beyond their bounds, or by more than they give way.
        """
        point, given, own = self.point, self._given, self._imposed
        size = unit(point) + np.abs(point.costate).max()
        self.dual = (point.arrive() if moved else point.judge()).dual
        products, beyond, unpaid = active_rows.errors(
            given.bounds, given.kind, given.give, self.y, self._values(), own.bounds, own.give
        )
        self.errors = float(self.dual + products) / size, float(point.gap + beyond + unpaid)
        return sum(self.errors)

    def settle(self, sets: int) -> Step | None:
        """A step with what binds in the quadratic model; None if there is none.

        sets: how many are tried before an interior point's; or one, which the next step may revise.
        """
        curving = self.y
        for tried in range(sets):
            if tried > 0:
                self.impose()
            step = self._swept(1.0, curving)
            if step is None:
                return None
            if not self._revise():
                return step._replace(settled=True)
            curving = curving + HALFWAY * (self.target - curving)
        if sets > 1:
            blend = self._foreseen()
            if blend is None:
                return None
            self.impose()
            step = self._swept(blend, self.target)
        return step

    def _swept(self, blend: float, curving: Array) -> Step | None:
        """The step with what is held, of that share of the exact Hessian or less, curved by multipliers (M,)."""
        point = self.point
        given, own = self._given, self._imposed
        active_rows.pull(own.kind, given.give, self.y, self._pays, own.state)
        point.bounds.y[:] = curving
        point.condense()
        held = None if point.boxed else self.of_controls
        for share in BLENDED:
            if share <= blend and (way := point.propose(share, 0.0, True, held)).failed < 0:
                assert point.swept is not None
                return Step(point.swept, share, way, False)
        return None

    def _foreseen(self) -> float | None:
        """Hold what binds at the quadratic model's minimum, found by an interior point; the share of its exact Hessian.

        That is smaller where this is not positive definite.
        """
        point, b, values, blend, relative = self.point, self._given, self._values(), 1.0, START
        begun, held, pays = b.state.copy(), None, None
        point.bounds, point.barrier = b, START * point.scale
        b.start(b.inside(values, INSIDE), values, point.barrier)
        b.equal = np.where(b.equality & ~b.soft, self.y, b.equal)
        longest = 0.0
        for _ in range(MOST_SWEEPS):
            point.residual[:] = b.missed(values)
            if point.judge().high <= SOLVED * point.barrier and longest == 1.0:
                if relative <= END:
                    held, pays = self._closing(blend)
                    break
                relative = max(END, lowered(relative))
                point.barrier = relative * point.scale
            way = point.propose(blend, 0.0, False)
            if way.failed >= 0 and blend > 0.0:
                blend = 0.0
                way = point.propose(blend, 0.0, True)
            if way.failed >= 0:
                break
            longest = way.longest
            b.primal += longest * b.step[: row_steps.BELOW]
            row_steps.move(b.state, b.bounds, b.kind, b.give, point.barrier, b.step, longest, point.longest_dual)
        self.target = b.multipliers
        b.state[:], point.barrier = begun, 0.0
        if held is None or pays is None:
            return None
        self.held, self._pays = held, pays
        return blend

    def record(self, way: Way, blend: float, alpha: float, seconds: float) -> Record:
        """Record of a step that was taken."""
        p = self.point
        missed = row_table.worst(self._values(), p.rows.lower, p.rows.upper)
        return record_of(seconds, p.cost, self.dual, way.expected, alpha, 0.0, blend, p.gap, float(missed), 0.0)

    def _revise(self) -> bool:
        """Release rows that push the wrong way after a step, by the linear model, hold those that are beyond bounds.

        Returns whether there were any.
        """
        point, given, own = self.point, self._given, self._imposed
        self.target = np.empty(given.size)
        return bool(active_rows.revise(
            given.bounds, given.kind, given.give, own.step, own.state, self._values(), point.moved,
            point.backward.rows, point.x, point.u, point.first, point.limited, self.held, self._pays, self.target,
        ))  # fmt: skip
