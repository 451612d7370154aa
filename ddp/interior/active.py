"""From the barrier's last iterate to the minimum: what is at its bound is held there, Newton's steps do the rest.

The gains of the barrier's sweep bend controls long before their limits. Those of the policy are of a sweep in which
controls at limits are constants, constraints at bounds equalities, and nothing else is bounded; soft constraints that
are violated are terms of the cost, linear ones at a price and quadratic ones with a compliance. Its step is Newton's on
the active set, so that a few of them end at rounding; rows whose multiplier has the wrong sign are released, rows that
a step would violate are added.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ddp.compiling.setup import working_time
from ddp.interior.barrier import PROXIMAL
from ddp.interior.point import Move, Point, Trial
from ddp.interior.row_steps import COMPLIANCE, PRICE, S
from ddp.iterate import CLOSED
from ddp.models.attempt import EXACT, GAUSS_NEWTON
from ddp.protocols import Array
from ddp.solutions.record import Record
from ddp.sweeps.backward import Sweep

CLOSER = 0.5
"""Rows are held whose slack loses more than this share of itself in a step without barrier, and their multiplier the
rest: near the minimum slacks of active rows lose all, and multipliers of others (El-Bakry, Tapia & Zhang 1994), in
whatever units they are."""

LEFT_OPEN = 1e-8
"""Least δ: what a step leaves open of held rows whose multipliers it changes by as much as the largest of all.
Where multipliers are small, as those of forces, a smaller δ would leave nothing of Hessians but rounding."""

PAID = 1.0 - 1e-3
"""Multipliers of rows with a price are it where they are larger than this share of it: the row is violated."""

ROUNDS, ROUNDING = 12, 1e-12
"""Newton's steps at most, and errors that are none."""

ASTRAY = 30.0
"""Times the first error that is too much for steps from an earlier solution: they lead elsewhere."""

BEYOND = 1e-12
"""Rows that are beyond a bound by more, in their units, are added."""


@dataclass
class Finished:
    """The last sweep, None if none succeeded; whether it was exact; and which rows (M,) are held: -1, 1, else 0.

    error: that of the conditions of optimality.
    """

    sweep: Sweep | None
    exact: bool
    held: Array
    error: float


class ActiveSet:
    """Rows of a point that are at bounds, as `Point.bounds` has them while Newton's steps are taken."""

    def __init__(self, point: Point, held: Array | None = None) -> None:
        self.point, self._given = point, point.bounds
        self._controls, self._shape = slice(point.first, None), point.U.shape
        given = self._given
        self.held, y = self._closing() if held is None else held, given.multipliers
        self._price = given.give[PRICE]
        self._evaluated: tuple[Array, Array] | None = None
        self._pays = np.where((self._price < np.inf) & (np.abs(y) > PAID * self._price), np.sign(y), 0.0)
        if held is not None:  # multipliers of warm starts are below their price
            side = np.where(self._values() > given.upper + BEYOND, 1.0, -1.0 * (self._values() < given.lower - BEYOND))
            self._pays = np.where((self._price < np.inf) & (y * side > 0.0), side, 0.0)
        self._multipliers = y * (given.equality | (self.held != 0.0))
        self._revised, self._dual = True, np.inf

    def _closing(self) -> Array:
        """Rows (M,) that go to a bound where the barrier ends: see `CLOSER`."""
        point, given = self.point, self._given
        if given.count == 0:
            return np.zeros(given.size)
        barrier, point.barrier = point.barrier, 0.0
        point.condense()
        sweep, blend = point.sweep(1.0, 0.0), 1.0
        if sweep.failed >= 0:
            sweep, blend = point.sweep(0.0, 0.0), 0.0
        moved = point.move(sweep, blend, 0.0).rows[S] if sweep.failed < 0 else np.zeros(given.size)
        point.barrier = barrier
        low = given.has_lower & (-moved > CLOSER * (given.slacks - given.lower))
        high = given.has_upper & (moved > CLOSER * (given.upper - given.slacks))
        return np.where(low, -1.0, np.where(high, 1.0, 0.0))

    def _values(self) -> Array:
        """Values of all rows (M,) at the point, evaluated once."""
        point, known = self.point, self._evaluated
        if known is None or known[0] is not point.X:
            self._evaluated = known = point.X, point.rows.values(point.X, point.U)
        return known[1]

    @property
    def of_controls(self) -> Array:
        """Held controls (N, nu)."""
        held = self.held[self._controls]
        return held.reshape(self._shape) if held.size else np.zeros(self._shape)

    def impose(self) -> Trial:
        """Bound the point by the active rows alone: constraints as equalities; controls are held by sweeps.

        Returns the point as a trial.
        """
        if self._revised:
            self._bound()
        problem, point = self.point.problem, self.point
        point.backward.limits = problem.lower - point.U, problem.upper - point.U
        return point.settle()

    def _bound(self) -> None:
        """The point's bounds := those of active rows."""
        given, point = self._given, self.point
        at = np.where(given.equality | (self.held < 0.0), given.lower, given.upper)
        held = given.equality | ((self.held != 0.0) & (np.arange(len(at)) < point.first))
        at = np.where(held & (self._pays == 0.0), at, np.inf)
        point.bounds = point.bounded_by(
            np.where(at < np.inf, at, -np.inf), at, np.full(len(at), np.inf),
            np.where(at < np.inf, given.give[COMPLIANCE], 0.0),
        )  # fmt: skip
        paid = np.where(self._pays != 0.0, self._pays * self._price, 0.0)
        point.bounds.equal = np.where(at < np.inf, self._multipliers, paid)
        largest = np.abs(self._multipliers).max(initial=0.0) / point.scale
        point.bounds.least_proximal = max(PROXIMAL[0], LEFT_OPEN / max(largest, LEFT_OPEN))

    def error(self) -> float:
        """The error of the conditions of optimality: the Lagrangian's gradient where controls are free, what is open.

        That is gaps, by how much rows that are not held are beyond their bounds, and others by more than they give way.
        """
        residual, point = self.point.dual_residual(), self.point
        controls = self.of_controls
        at = controls != 0.0
        residual[:-1, residual.shape[1] - self._shape[1] :][at] = 0.0
        reach = np.abs(np.where(controls < 0.0, *point.backward.limits))[at]
        size = point.unit + np.abs(point.costate).max()
        values, given = self._values(), self._given
        free = given.bounded & (self.held == 0.0) & (self._pays == 0.0)
        beyond = np.maximum(given.lower - values, values - given.upper)[free].max(initial=0.0)
        self._dual, now = float(np.abs(residual).max()), point.bounds
        soft = now.give[COMPLIANCE] > 0.0
        unpaid = np.abs(values - now.upper - now.give[COMPLIANCE] * now.equal)[soft].max(initial=0.0)
        return float(self._dual / size + point.open + reach.max(initial=0.0) + beyond + unpaid)

    def record(self, move: Move, blend: float, seconds: float) -> Record:
        """Record of a step that was taken."""
        p = self.point
        missed = np.abs(p.rows.beyond(self._values())).max(initial=0.0)
        return Record(
            p.cost, self._dual, move.expected, 1.0, 0.0, EXACT if blend > 0.0 else GAUSS_NEWTON, blend, seconds,
            0.0 if p.gap < CLOSED else p.gap, "multipliers" if blend > 0.0 else "none", float(missed), 0.0,
        )  # fmt: skip

    def revise(self) -> bool:
        """Release rows that push the wrong way, add those that are beyond bounds; whether there were any."""
        point, given, before = self.point, self._given, (self.held.copy(), self._pays.copy())
        y = point.bounds.equal.copy()
        if point.limited:
            y[self._controls] = point.limit_forces().ravel() * (self.held[self._controls] != 0.0)
        self.held[self.held * y < 0.0] = 0.0
        values = self._values()
        below, above = values < given.lower - BEYOND, values > given.upper + BEYOND
        free = before[0] == 0.0
        self.held[free & given.has_lower & below] = -1.0
        self.held[free & given.has_upper & above] = 1.0
        allowed = np.where(given.equality, np.sign(y), before[0])  # prices are paid at the bound that a row is beyond
        pays = np.where((np.abs(y) > self._price) & (allowed * y > 0.0), np.sign(y), 0.0)
        self._pays = np.where(self._pays != 0.0, self._pays * np.where(self._pays > 0.0, above, below), pays)
        self._multipliers = y * (given.equality | (self.held != 0.0))
        self._revised = not (np.array_equal(self.held, before[0]) and np.array_equal(self._pays, before[1]))
        return self._revised


def finish(
    point: Point, allowed: float, held: Array | None = None, show: Callable[[Record], None] | None = None,
    most: int = ROUNDS,
) -> Finished:  # fmt: skip
    """Take Newton's steps on the active set; the point is left at the best of them, bounded by its active rows.

    Its derivatives are known, contracted with its multipliers. If its error at the end is more than what is allowed, it
    is left where it was.

    held: rows (M,) to begin with, by default those that slacks and multipliers tell.   most: steps.
    show: told of steps that begin with a larger error than what is allowed, as of iterations; these have to end where
    the exact Hessian is positive definite.
    """
    begun = point.settle(), point.multipliers(), point.bounds, point.barrier
    rows = ActiveSet(point, held)
    best: tuple[float, Trial, tuple[Array, Array, Array], Finished] | None = None
    point.barrier, first, before = 0.0, np.inf, working_time()
    for number in range(most + 1):
        here = rows.impose()
        if number > 0:
            point.differentiate()
            point.contract()
        error = rows.error()
        if number == 0:
            first = max(error, allowed)
        if show is not None and error > ASTRAY * first:
            break
        if best is not None and best[0] <= min(error, allowed):
            break
        point.condense()
        sweep, blend = point.sweep(1.0, 0.0, rows.of_controls), 1.0
        if sweep.failed >= 0:
            sweep, blend = point.sweep(0.0, 0.0, rows.of_controls), 0.0
        if sweep.failed >= 0:
            break
        found = Finished(sweep._replace(k=sweep.k.copy(), K=sweep.K.copy()), blend == 1.0, rows.held.copy(), error)
        best = error, here, point.multipliers(), found
        if error <= ROUNDING or number == most:
            break
        move = point.move(sweep, blend, 0.0)
        trial = point.along(move, 1.0)
        if not trial.theta < np.inf:
            break
        point.accept(trial, move, 1.0)
        if show is not None and error > allowed:
            show(rows.record(move, blend, working_time() - before))
            before = working_time()
        if rows.revise():
            best = None
    if best is None or best[0] > allowed or not (best[-1].exact or show is None):
        trial, multipliers, point.bounds, point.barrier = begun
        point.restore(trial, multipliers)
        return Finished(None, False, rows.held, np.inf)
    _, trial, multipliers, finished = best
    point.restore(trial, multipliers)
    return finished
