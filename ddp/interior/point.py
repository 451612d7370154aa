"""The iterate of the full-space step: a trajectory with open gaps, slacks, all multipliers, and what is known of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ddp.constraints.bounds import measure_room, move_within
from ddp.constraints.impossible import Held
from ddp.derivatives import EXACT, FIRST, GAUSS_NEWTON, RECORDS, lacking
from ddp.errors import ModelError
from ddp.interior import passes
from ddp.interior.barrier import KEPT, proximal
from ddp.interior.layout import workplace
from ddp.interior.linear import bend, multipliers, stationarity
from ddp.interior.measures import absolute, let_limits_hold, priced, stay_off
from ddp.interior.memory import LANES
from ddp.interior.parts import NO_WAY, Way
from ddp.interior.trials import UNJUDGED, Judged, Move, Trial, straying
from ddp.parallel.differentiator import Differentiator
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.sweeps.outcome import Sweep

AT_LIMIT = 1e-4
"""Controls nearer to a limit have a multiplier in a warm start, relative to the range, or 1, or the limit."""

HALVES = np.array([0.5**k for k in range(LANES)])
"""Fractions of a step that are rolled out at once, in lanes."""

INSIDE, NEAR_BOUNDS = 0.1, 1e-5
"""Distance of first slacks and controls from their bounds, see `Barrier.inside`, and the least one of warm starts."""

TINY = 1e-300


class Point:
    """A trajectory X, U of a problem, with multipliers; rows (M,) are constraints (m,), then control limits (N nu).

    gaps, residual, theta, gap, missed, cost: see `Trial`.   costate (N+1, n), weights (N, n): see linear.py.
    scale: the cost that counts as one.   barrier: that of ``bounds``.   penalty: the barrier function.
    moved (M,): by how much the last step changes the rows, by their linear model.
    judged: the errors of the point.   last: the last step; swept_last: its sweep, None where that failed; ahead: how
    many trials of it have been rolled out already.
    holds: whether all constraints are equalities.   costates: numbers of ``costate``.
    contracted, whole: whether second orders are contracted, and Gauss-Newton's Hessians made where a blend takes some.
    at_once: whether all that it is made of is compiled.   place: see layout.py.
    first: m, the first row of a control's limits.   limited: whether there are such rows; boxed: whether sweeps keep to
    these limits instead, see `sweeps.limits`: where they are ``held``, as where there are no constraints.
    """

    def __init__(
        self, problem: Problem, work: Differentiator, X: Array, U: Array, scale: float, barrier: float,
        share: float = INSIDE, held: bool = False,
    ) -> None:  # fmt: skip
        self.problem, self.dynamics, self.scale, self.barrier = problem, problem.dynamics, scale, barrier
        self.boxed = problem.limited and (held or not problem.constrained)
        self._work, self.limited = work, problem.limited and not self.boxed
        self.rows, self.first = problem.limited_rows if self.limited else problem.rows, problem.multiplier_count
        self._n = problem.dynamics.n
        place = workplace(problem, self.rows, work, self.boxed)
        self.bounds = place.bounds
        own, self._swept, self.backward = place.own, place.swept, place.backward
        self.costate, self.weights, self._error, self._dX, self._J, self._gaps = (
            own[name] for name in ("costate", "weights", "error", "dX", "J", "gaps")
        )
        self.moved = own["moved"]
        self._step, self._hessian = (own["x"], own["u"]), (0.0, 0.0)
        self.costates, self.holds = self.costate.size, bool(problem.rows.equal.all())
        self._wanted = FIRST | GAUSS_NEWTON | EXACT | (0 if problem.structure.blockwise else RECORDS)
        self._knots, self._any_dense, self._weighs = place.knots, place.dense, place.terms is not None
        self.place, self._address = place, place.memory.address
        self._strayed = straying(problem.dynamics)
        self.at_once = place.routines is not None and work.alone
        self.whole, self.contracted = True, False
        self.judged, self.ahead, self._lanes = UNJUDGED, 0, list[tuple[Array, Array]]()
        self.swept_last: Sweep | None = None
        self.start(X, U, share)

    @property
    def count(self) -> int:
        """Number of values that barriers keep positive."""
        return self.bounds.count

    @property
    def equalities(self) -> int:
        """Number of rows that are equalities."""
        return self.bounds.equalities

    @property
    def held_by(self) -> Held:
        """Constraints and what holds them here, after `differentiate`."""
        y = self.bounds.multipliers[: self.first]
        return Held(self.problem, self._work.derivatives, self.X, self.U, self.gaps, y)

    @property
    def elastic(self) -> bool:
        """Whether rows give way that would not have to."""
        return self.bounds.elastic

    @property
    def least_proximal(self) -> float:
        """Least compliance of equalities, see `barrier.PROXIMAL`."""
        return self.bounds.least_proximal

    @property
    def share(self) -> float:
        """Share of the barrier that equalities give way by, see `barrier.PROXIMAL`."""
        return self.bounds.share

    @share.setter
    def share(self, share: float) -> None:
        self.bounds.share = share

    def start(self, X: Array, U: Array, share: float | Array) -> None:
        """Begin at a trajectory, its controls and slacks pushed off their bounds, see `Barrier.inside`."""
        values = self.rows.values(X, U)
        inside = self.bounds.inside(values, share)
        if self.limited:
            U = inside[self.first :].reshape(U.shape)
        elif self.boxed:
            U = np.clip(U, self.problem.lower, self.problem.upper)
        self.bounds.start(inside, values, self.barrier)
        self._take(self.tried(X, U, self.bounds.primal))

    def warm(self, multipliers: Array, K: Array) -> None:
        """Take multipliers of constraints (m,); those of dynamics and limits follow, under gains K (N, nu, n)."""
        bounds, y, values = self.bounds, np.zeros(self.rows.size), self.rows.values(self.X, self.U)
        y[: self.first] = multipliers
        bounds.start_warm(y, values, self.barrier)
        self.differentiate()
        self.adjoint(K)
        if self.limited:
            y[self.first :] = self.limit_forces().ravel() * np.abs(bounds.near(AT_LIMIT)[self.first :])
            bounds.start(bounds.slacks, values, self.barrier)
            bounds.start_warm(y, values, self.barrier)

    def resume(self, trial: Trial, multipliers: tuple[Array, Array, Array], y: Array, relative: float) -> None:
        """Go back to earlier measures with multipliers y (M,) of rows, and a barrier relative to the scale.

        Slacks are as far from bounds as the barrier holds them there, within limits.
        """
        self.barrier = relative * self.scale
        self.start(trial.X, trial.U, np.clip(self.barrier / np.maximum(np.abs(y), TINY), NEAR_BOUNDS, INSIDE))
        self.bounds.start_warm(y, self.rows.values(self.X, self.U), self.barrier)
        self.costate[:], self.weights[:] = multipliers[:2]
        self.contracted = False

    def held(self) -> Point:
        """A point like this, after `contract`, whose sweeps keep to the limits of controls, without rows of these."""
        other = Point(self.problem, self._work, self.X, self.U, self.scale, self.barrier, held=True)
        other.bounds.state[:], other.bounds.share = self.bounds.state[:, : self.first], self.bounds.share
        other.costate[:], other.weights[:] = self.costate, self.weights
        other.settle()
        other.differentiate()
        other.contract()
        return other

    def tried(self, X: Array, U: Array, primal: Array) -> Trial:
        """Evaluate a trajectory."""
        self._dX.fill(0.0)
        return self._weighed(X, U, primal, self._strayed(X, self._dX, U)[1])

    def _weighed(self, X: Array, U: Array, primal: Array, gaps: Array) -> Trial:
        """A trajectory whose gaps are known, evaluated."""
        address, m, residual = self.bounds.address, self.barrier, np.empty(self.rows.size)
        if self._weighs:
            found = passes.weigh(self._address, address, m, X, U, gaps, primal, residual)
        elif abs(cost := self.problem.total(X, U)) < np.inf:
            found = cost, *passes.worth(address, m, self.rows.values(X, U), gaps, primal, residual)
        else:  # constraints are not asked where there is no motion
            found = np.inf, 0.0, (np.inf, np.inf, np.inf)
        return self._trial(X, U, primal, gaps, residual, *found)

    def _trial(
        self, X: Array, U: Array, primal: Array, gaps: Array, residual: Array, cost: float, barrier: float,
        sizes: tuple[float, float, float],
    ) -> Trial:  # fmt: skip
        """A trajectory and its worth."""
        theta, gap, missed = sizes
        if not theta < np.inf:
            cost = theta = np.inf
        return Trial(X, U, primal, cost, barrier, gaps, residual, theta, gap, missed)

    def _take(self, trial: Trial) -> None:
        self.X, self.U, self.cost, self.gaps = trial.X, trial.U, trial.cost, trial.gaps
        self.residual, self.theta, self.penalty = trial.residual, trial.theta, trial.barrier
        self.bounds.primal, self.gap, self.missed = trial.primal, trial.gap, trial.missed

    def let_go(self, price: float) -> None:
        """Let constraints give way at a price, from slacks off their bounds, see barrier.py."""
        self.start(self.X, self.U, INSIDE)
        rows = np.arange(self.rows.size) < self.first
        self.bounds.start_elastic(price, rows, self.rows.values(self.X, self.U), self.barrier)
        self.settle()

    def take_hold(self) -> None:
        """Let constraints give way no longer, after `let_go`."""
        self.bounds.end_elastic()
        self.settle()

    def raise_price(self, factor: float) -> None:
        """Make violations dearer by a factor, with all multipliers: costs weigh so much less."""
        self.costate *= factor
        self.weights *= factor
        self.bounds.raise_price(factor)
        self.contracted = False
        self.settle()

    def settle(self, values: Array | None = None) -> Trial:
        """Take the residual of rows that are bounded otherwise now; the point itself as a trial.

        values (M,): of the rows here, if they are known.
        """
        primal, residual = self.bounds.primal, np.empty(self.rows.size)
        values = self.rows.values(self.X, self.U) if values is None else values
        found = passes.worth(self.bounds.address, self.barrier, values, self.gaps, primal, residual)
        here = self._trial(self.X, self.U, primal, self.gaps, residual, self.cost, *found)
        self._take(here)
        return here

    @property
    def trial(self) -> Trial:
        """The point itself as a trial, its residual being that of its bounds."""
        worth = self.cost, self.penalty, self.gaps, self.residual, self.theta, self.gap, self.missed
        return Trial(self.X, self.U, self.bounds.primal, *worth)

    def multipliers(self) -> tuple[Array, Array, Array]:
        """Copies of λ, w and those of equalities, for `restore`."""
        return self.costate.copy(), self.weights.copy(), self.bounds.equal.copy()

    def restore(self, trial: Trial, multipliers: tuple[Array, Array, Array]) -> None:
        """Go back to the trajectory of earlier measures; bounds of rows stay as they are."""
        self._take(trial)
        self.costate[:], self.weights[:], self.bounds.equal = multipliers
        self.contracted = False

    def arrive(self) -> Judged:
        """Derivatives here, contracted with the multipliers; the errors of the point."""
        if not self.at_once:
            self.differentiate()
            self.contract()
            return self.judge()
        self.backward.tear(self.gap > 0.0)
        found = passes.arrive(self._address, self.bounds.address, self.X, self.U, self.gaps)
        self.contracted = True
        return self._judged(found)

    def differentiate(self) -> None:
        """Derivatives here."""
        self.contracted = False
        known = 0
        while (made := lacking(known, self._wanted, self.problem.curved))[0]:
            self._work.make(self.X, self.U, made[0])
            known = made[1]
        if self.rows.size:
            self.rows.jacobian(self.X, self.U, self._J)
        self._gaps[:] = self.gaps
        self.backward.tear(self.gap > 0.0)

    def contract(self) -> None:
        """Contract the second order of the dynamics with the multipliers, unless that is known."""
        if not self.contracted:
            bend(self.backward.address, self.weights)
            self.backward.contract(self.weights)
            self.contracted = True

    def priced_openness(self) -> float:
        """Gaps and residuals times their multipliers, all as absolute numbers."""
        return float(priced(self.weights.ravel(), self.gaps.ravel())) + self.priced_rows()

    def priced_rows(self) -> float:
        """Residuals of rows times their multipliers, as absolute numbers."""
        return float(priced(self.bounds.y, self.residual))

    def condense(self) -> None:
        """Eliminate the rows, after `judge`: weights and forces come into the swept Hessians and gradient."""
        passes.condense(*self._of_rows, *self._knots)
        self.rows.add_curvature_in_python(self.X, self.U, self.bounds.y, self._swept.exact)
        self.whole = False

    @property
    def _of_rows(self) -> tuple[Any, ...]:
        """Arguments of passes that eliminate the rows."""
        m, delta = self.barrier, proximal(self)
        return self._address, self.bounds.address, m, delta, self.residual, self.X, self.U

    def sweep(self, blend: float, mu: float, held: Array | None = None) -> Sweep:
        """Sweep once, after `condense`: see `WeightedSweeps`. Gauss-Newton's Hessians are made if needed."""
        self._fill(blend)
        if self.boxed:
            measure_room(self.U, self.problem.lower, self.problem.upper, *self.backward.limits)
        return self.backward(blend, mu, None if self.boxed else held)

    def _fill(self, blend: float) -> None:
        """Make Gauss-Newton's Hessians with those of the rows, where a blend takes some of them."""
        if blend < 1.0 and not self.whole and self._any_dense:
            passes.fill(self._address, self.bounds.address, False, *self._knots)
            self.whole = True

    def swept(self, blend: float, mu: float, again: bool) -> Way:
        """A sweep, after `judge`, which leaves its step where it succeeds; again: after another sweep at this point."""
        sweep, move = self.propose(blend, mu, again)
        self.swept_last = None if move is None else sweep
        if move is None:
            return NO_WAY
        return Way(-1, move.longest, move.slope, move.expected)

    def propose(self, blend: float, mu: float, again: bool) -> tuple[Sweep, Move | None]:
        """A sweep, after `judge`, and its step where it succeeds; again: after another sweep at this point."""
        if not again:
            self.condense()
        sweep = self.sweep(blend, mu)
        return sweep, self.move(sweep, blend, mu) if sweep.failed < 0 else None

    @property
    def _keep(self) -> float:
        """Share of the way to a bound that a step goes at most."""
        return max(KEPT, 1.0 - self.barrier / self.scale)

    def judge(self) -> Judged:
        """Errors of the point, where sweeps keep to limits of controls without what those hold."""
        return self._judged(passes.judge(self._address, self.bounds.address))

    def _judged(self, found: tuple[float, float, tuple[float, ...]]) -> Judged:
        """Errors of the point, as `passes.judge` finds them."""
        dual, costates, others = found
        if self.boxed:
            let_limits_hold(self._error, self.U, self.problem.lower, self.problem.upper)
            dual = float(absolute(self._error)[0])
        self.judged = Judged(dual, costates, *others)
        return self.judged

    def adjoint(self, K: Array | None = None) -> None:
        """Multipliers of the dynamics := the costates of the point, or with gains K (N, nu, n), those under them."""
        passes.pull(self._address, self.bounds.multipliers)
        if K is not None:
            self.backward.gains[:] = K
        x, u = np.zeros_like(self.costate), np.zeros_like(self.U)
        bend(self.backward.address, self.weights)
        multipliers(self.backward.address, 0.0, 0.0, x, u, x, K is not None, self.costate, self.weights)
        self.contracted = False

    def limit_forces(self) -> Array:
        """Forces (N, nu) that would hold controls where they are: the multipliers of limits that they are at."""
        forces = self.bounds.multipliers.copy()
        forces[self.first :] = 0.0
        passes.pull(self._address, forces)
        stationarity(self.backward.address, self._swept.lz, self.costate, self.weights, self._error)
        return -self._error[:-1, self._n :]

    def move(self, sweep: Sweep, blend: float, mu: float) -> Move:
        """The step of a sweep, until that of another one takes its place."""
        args = self._address, self.bounds.address, self.barrier, self._keep, self.residual
        longest, dual, slope = passes.stride(*args)
        self._hessian = blend, mu
        self.last = Move(*self._step, self.bounds.step, longest, dual, slope, abs(sweep.expected))
        return self.last

    def along(self, alpha: float) -> Trial:
        """The trial a fraction alpha along the last step."""
        U, primal = np.empty_like(self.U), np.empty((3, self.rows.size))
        passes.advance(self._address, self.bounds.address, alpha, self.first, self.U, U, primal, True)
        if self.boxed:
            move_within(U, self.problem.lower, self.problem.upper)
        try:
            X, gaps = self._strayed(self.X, self._dX, U)
        except ModelError:  # there is no motion
            X, gaps = self.X, np.full_like(self.gaps, np.inf)
        return self._weighed(X, U, primal, gaps)

    def rolled(self, alpha: float) -> Trial:
        """The trial alpha along the last step whose states follow from controls, under the policy of its sweep.

        Where motion curves a lot gaps of linear steps are large; these leave but the rest 1 - alpha of each gap. Slacks
        go as far as along the step, whatever constraints do. Controls stay off limits with barriers, as steps do.
        Halves of alpha, which may be asked for next, are rolled out ahead, as they take no longer.
        """
        if self.ahead == 0:
            share = 0.0 if self.boxed else 1.0 - KEPT
            low, high = np.empty_like(self.U), np.empty_like(self.U)
            stay_off(self.U, self.problem.lower, self.problem.upper, share, low, high)
            sweep = self.swept_last
            assert sweep is not None
            tracked = self.dynamics.track(self.X, self.U, sweep.k, sweep.K, alpha * HALVES, self.gaps, low, high)
            self._lanes = list(zip(*map(np.ascontiguousarray, tracked), strict=True))
            self.ahead = len(HALVES)
        X, U = self._lanes[-self.ahead]
        self.ahead -= 1
        primal = np.empty((3, self.rows.size))
        passes.advance(self._address, self.bounds.address, alpha, self.first, U, U, primal, False)
        return self._weighed(X, U, primal, (1.0 - alpha) * self.gaps)

    def accept(self, trial: Trial, alpha: float) -> None:
        """Go where a trial is; multipliers go as far along the last step."""
        self._take(trial)
        self.contracted = False
        args = self.barrier, alpha, self.last.longest_dual, *self._hessian
        passes.follow(self._address, self.bounds.address, *args)
