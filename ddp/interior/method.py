"""The primal-dual interior point (Wächter & Biegler 2006) whose linear systems are backward sweeps:

    lower the first barrier where steps to its minimum lead astray
    repeat  differentiate; contract the dynamics' second order with the multipliers
            lower the barrier where its problem is solved well enough: by errors, or by what a step promises
            let sweeps keep to limits of controls from the first fall on, if these are all that is bounded
            stop where all errors are small; before, where a step promises little, Newton's steps hold what binds
            eliminate slacks and bounds, sweep: exact, then other Hessians until one is positive definite
            roll the step out in the linear model; go along it as far as slacks stay positive and the filter accepts,
            with states that move linearly or, with constraints, follow from controls

Convergence is superlinear: exact Hessians and the barrier's fall leave one or two errors of each order of magnitude.

Tried without success, over some 200 problems: other first barriers (.001 to .1 of the scale, or by the number of
bounds); multipliers that shrink where slacks take their rows' values. Without any one of these rules some kind of
problem takes 1 to 60 % more iterations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ddp.compiling.setup import working_time
from ddp.interior.correction import BLENDED, DIRECT, Correction
from ddp.interior.course import END, LARGEST_END, SOLVED, START, lowered
from ddp.interior.filter import Filter
from ddp.interior.finish import Finished
from ddp.interior.point import INSIDE, Point
from ddp.interior.trials import Move, Trial
from ddp.iterate import CLOSED
from ddp.models.attempt import EXACT, GAUSS_NEWTON, LEVENBERG_MARQUARDT
from ddp.solutions.record import Record
from ddp.solutions.status import End, Ending
from ddp.sweeps.backward import Sweep

TOLERANCE = 1e-8
"""The error allowed: of violations in their units, of the gradient relative to the cost that counts as one, where no
larger tolerance of the expected decrease is given."""

LOWER = 0.1
"""The first barrier falls to this share where steps to its minimum lead astray, see `Interior._lower_first`."""

GAINS, LEAST_GAINS = 1.0, 0.02
"""The barrier falls, too, once a full step promises less than this share of what all bounds cost, the barrier each: the
second one where Hessians are not exact, as these promise too little, unless bounds cost more than all the rest."""

CROSSING = 1e-4
"""Newton's steps on the active set are tried where a full step promises, and bounds cost, less than this share."""

LARGE = 1e3
"""Costates of a guess that are larger are no multipliers."""

CURVED = 1.0 / 16.0
"""Steps of a smaller fraction of what bounds allow are too long for their models: mu rises after them, and after
none at all."""

SHORTEST, SHORTEST_WHOLE = 1e-8, 2.0**-8
"""Steps of a smaller fraction of the longest one are none; of those that no bound cuts, within limits of controls."""

LESS_PROXIMAL = 0.1
"""By how much equalities give way less after a full step that did not close half of what is open."""

PRICE, DEARER, MOST_RAISED, HALVED = 10.0, 10.0, 3, 0.5
"""Price of a unit of violation where rows are elastic; by how much and how often it rises until violations that did not
fall to a half are said to stay. Half is enough, too, for full steps, lower first barriers, and to go within bounds."""

GIVEN_WAY, MISSED = 1e-6, (1e-3, 1e-5)
"""Rows that are elastic and miss a bound by more violate it; by how much that is said at once, with which barrier, and
at errors of that size relative to the price."""


@dataclass
class _Swept:
    """A step, and the Hessian and the sweep that it is of."""

    move: Move
    sweep: Sweep
    blend: float
    mu: float


class Interior:
    """One solve, from a `Point`, to a tolerance of the expected decrease.

    point: the iterate.   history: of the whole solve; ``show`` adds a record of every iteration, with the iterate.
    sweep: the last one;
    exact: whether that is of the exact Hessian, with nothing added.
    struggles: whether to give up, judged by the iterations with one barrier; by default never.
    proof: for how many iterations to give up, too, where Hessians are not positive definite by `correction.PROOF`.
    newton: takes Newton's steps on the active set, at most so many, see `finish.finish`; finished: what they came to.
    """

    def __init__(
        self, point: Point, tolerance: float, history: list[Record], show: Callable[[Record, Point], None],
        struggles: Callable[[list[Record]], bool] | None = None, proof: int = 0,
        newton: Callable[[Point, int], Finished] | None = None,
    ) -> None:  # fmt: skip
        self.point, self.tolerance, self.history, self._show = point, tolerance, history, show
        self._struggles, self._proof = struggles, len(history) + proof if proof else 0
        self.sweep: Sweep | None = None
        self.exact, self._newton = False, newton
        self.finished: Finished | None = None
        self._within = point.boxed and point.first == 0  # limits of controls alone
        self._held = False  # whether sweeps are to keep to limits of controls
        self._correction = Correction(DIRECT if self._within else BLENDED)
        self._stuck, self._raised, self._missed = False, 0, np.inf
        self._fell, self._warm = len(history), False
        self._settled, self._strayed = True, (0.0, np.inf)

    def errors(self, barrier: float, unit: float) -> float:
        """The largest of the dual, primal and complementarity errors, as IPOPT's; unit: the cost that counts as one."""
        p, b, e = self.point, self.point.bounds, self.judged
        lack = max(e.high - barrier, barrier - e.low, 0.0)
        dual = max(100.0, (e.of_all + e.costates) / (b.count + b.equalities + p.costate.size) / unit) / 100.0
        slack = max(100.0, e.of_bounds / max(b.count, 1) / unit) / 100.0
        return max(max(e.dual, e.slope) / unit / dual, p.open, lack / unit / slack)

    def _begin(self) -> None:
        """First multipliers of the dynamics: costates, unless they are large, or constraints will change them.

        Where rollouts had to be short they mislead, too.
        """
        p = self.point
        p.differentiate()
        p.adjoint()
        if p.first or self._proof or not np.abs(p.costate).max() <= LARGE * p.scale:
            p.costate[:] = 0.0
            p.weights[:] = 0.0

    def run(self, limit: int, warm: bool = False) -> End:
        """Iterate to the tolerance; ``warm``: multipliers and derivatives of the point are known."""
        p, before = self.point, working_time()
        self._warm = warm
        if not warm:
            self._begin()
            self._settled = p.first == 0 or p.bounds.count == 0
        self.filter, p.penalty, judged = Filter(p.theta, p.first > 0), p.bounds.value(p.barrier), False
        while True:
            if not judged:
                p.contract()
                self.judged = p.judge()
            judged = False
            self._lower_barrier()
            if self._held and p.limited:
                p = self.point = p.held()
                self.judged = p.judge()
                self._again()
            step = self._swept()
            if step is None:
                if self._elastic():
                    continue
                return End(Ending.INDEFINITE, Ending.INDEFINITE.value)
            move = step.move
            if not self._settled and self._lower_first(move):
                continue
            if self._near_minimum(step):
                continue
            if self._crosses(move, limit):
                if self.finished is not None:
                    return End(Ending.CONVERGED)
                continue
            if self._solved(move) or self._gives_way():
                if p.bounds.excess <= GIVEN_WAY:
                    return End(Ending.CONVERGED)
                if self._raised == MOST_RAISED:
                    return End(Ending.INFEASIBLE)
                self._raise()
                continue
            if len(self.history) >= limit:
                said = f"the limit of {limit} iterations was reached, the last with an expected decrease of"
                return End(Ending.ITERATIONS, f"{said} {move.expected:.2g}")
            was_open = p.open
            alpha = self._search(step)
            now = working_time()
            self._record(step, alpha, now - before)
            before = now
            if alpha == 0.0 and self._stuck:
                if self._elastic():
                    continue
                return End(Ending.NO_STEP, "no step lowers the cost or closes what is open")
            if self._struggles is not None and self._struggles(self.history[self._fell :]):
                return End(Ending.STRUGGLES, f"full-space {Ending.STRUGGLES.value}")
            self._stuck = alpha == 0.0
            self._correction.judge(self._stuck or (p.first > 0 and alpha <= CURVED * move.longest), p.unit)
            if self._stuck:
                self.filter.clear(p.theta)
            else:
                if alpha == 1.0 and p.bounds.left_open(move.rows, p.barrier) > HALVED * was_open:
                    p.bounds.share *= LESS_PROXIMAL
                self.judged, judged = p.arrive(), True

    def _lower_first(self, move: Move) -> bool:
        """Whether to begin anew with another first barrier: a lower one, or the one before.

        Where the filter refuses the longest first step, though bounds allow most of it, the minimum of the barrier
        function is too far for linear models. A lower barrier asks for less, and is kept if its step is accepted, or
        if by curvature a full one would open half as much as the one before; else the barrier was not the cause.
        """
        p, alpha = self.point, move.longest
        before, strayed = self._strayed
        trial = p.along(move, alpha)
        args = trial.theta, trial.cost + trial.barrier, (p.theta, p.cost + p.penalty), move.slope, alpha
        accepted = self.filter.accepts(*args)[0]
        opens = (trial.theta - (1.0 - alpha) * p.theta) / alpha**2
        barrier = LOWER * p.barrier
        if before > 0.0 and not (accepted or opens <= HALVED * strayed):
            self._settled, barrier = True, before
        elif accepted or alpha < HALVED or barrier < END * p.scale:
            self._settled = True
            return False
        self._strayed = p.barrier, opens
        p.barrier = barrier
        p.start(p.X, p.U, INSIDE)
        self._again()
        return True

    def _solved(self, move: Move) -> bool:
        """Whether all errors are small."""
        p, allowed = self.point, max(TOLERANCE, self.tolerance)
        return p.open <= TOLERANCE and self.errors(0.0, p.unit) <= allowed and move.expected <= self._enough()

    def _gives_way(self) -> bool:
        """Whether rows miss their bounds by much and will still do so at the end."""
        p = self.point
        by, barrier = MISSED
        if not (p.bounds.excess > by and p.barrier <= barrier * p.scale):
            return False
        return self.errors(p.barrier, p.scale) <= barrier * max(1.0, p.bounds.price_of_all / p.scale)

    def _elastic(self) -> bool:
        """Let constraints give way, if they do not yet; whether there are any."""
        p = self.point
        if p.first == 0 or p.bounds.elastic or self._warm:
            return False
        p.barrier, self._raised, self._missed, self._settled = START * p.scale, 0, np.inf, True
        p.let_go(PRICE * p.scale)
        self._begin()
        self._again()
        return True

    def _raise(self) -> None:
        """Make violations dearer: whether they fall then."""
        p = self.point
        if p.bounds.excess <= HALVED * self._missed:
            self._raised, self._missed = 0, p.bounds.excess
        self._raised += 1
        p.barrier = START * p.scale
        p.let_go(DEARER * p.bounds.price_of_all)
        self._again()

    def _again(self) -> None:
        """Begin with another barrier function."""
        self.filter = Filter(self.point.theta, self.point.first > 0)
        self._correction.clear()
        self._stuck = False
        self._fell = len(self.history)

    def _enough(self) -> float:
        return self.tolerance * (self.point.unit + abs(self.point.cost))

    def _least(self) -> float:
        """The last barrier."""
        p = self.point
        return p.unit * max(END, min(LARGEST_END, self.tolerance / max(1, p.bounds.count)))

    def _fall(self) -> None:
        """Lower the barrier."""
        p = self.point
        p.barrier = max(self._least(), p.scale * lowered(p.barrier / p.scale))
        p.penalty = p.bounds.value(p.barrier)
        self.filter.clear(p.theta)
        self._fell = len(self.history)
        self._held = not p.bounds.elastic and bool(p.problem.rows.equal.all())  # the first barrier has led to a motion

    def _lower_barrier(self) -> None:
        p = self.point
        least = self._least()
        rows = p.bounds.count or p.bounds.equalities
        while rows and p.barrier > least and self.errors(p.barrier, p.scale) < SOLVED * p.barrier / p.scale:
            self._fall()

    def _near_minimum(self, step: _Swept) -> bool:
        """Lower the barrier where a full step gains less than what bounds cost; whether it did.

        What is open counts with its multipliers. This asks nothing of units of states and constraints, as errors do.
        """
        p, move = self.point, step.move
        if p.bounds.elastic or move.longest < 1.0 or not p.barrier > self._least():
            return False
        dear = p.bounds.count * p.barrier
        trusted = (step.blend == 1.0 and step.mu == 0.0) or dear > p.scale + abs(p.cost)
        least = (GAINS if trusted else LEAST_GAINS) * dear
        if move.expected > least or move.expected + p.priced_openness() > least:
            return False
        self._fall()
        return True

    def _crosses(self, move: Move, limit: int) -> bool:
        """Whether Newton's steps on the active set were tried; without success the point has moved, and none follow.

        Barriers end slowly: where a slack and its multiplier both vanish each step halves them.
        """
        p, newton = self.point, self._newton
        least, dear = CROSSING * (p.unit + abs(p.cost)), p.bounds.count * p.barrier
        if newton is None or self._within or p.bounds.elastic or not self.exact or len(self.history) >= limit:
            return False
        if move.longest < HALVED or not max(dear, move.expected + p.priced_openness()) <= least:
            return False
        found, self._newton = newton(p, limit - len(self.history)), None
        if found.sweep is not None:
            self.finished = found
        else:
            p.differentiate()
            p.penalty = p.bounds.value(p.barrier)
            self._again()
        return True

    def _swept(self) -> _Swept | None:
        """The step of the first Hessian that is positive definite."""
        again, proving = False, len(self.history) < self._proof
        for blend, mu in self._correction.hessians(self.point.unit, proving):
            sweep, move = self.point.propose(blend, mu, again)
            again = True
            self.sweep, self.exact = None if move is None else sweep, blend == 1.0 and mu == 0.0
            if move is not None:
                if mu > 0.0:
                    self._correction.mu = mu
                return _Swept(move, sweep, blend, mu)
        return None

    def _search(self, step: _Swept) -> float:
        """Go along a step: the fraction, 0 where none is accepted.

        With constraints what a linear trial does not reach a rollout may; within limits alone they help nothing.
        """
        p, move, longest = self.point, step.move, step.move.longest
        now = p.theta, p.cost + p.penalty
        alpha, rolled = longest, p.rolled(step.sweep, move, longest)
        shortest = (SHORTEST_WHOLE if self._within else SHORTEST) * longest
        while alpha > shortest:
            trial = p.along(move, alpha)
            if self._taken(trial, move, now, alpha):
                return alpha
            if p.first and self._taken(next(rolled), move, now, alpha):
                return alpha
            alpha *= 0.5
        return 0.0

    def _taken(self, trial: Trial, move: Move, now: tuple[float, float], alpha: float) -> bool:
        """Go to a trial alpha along a step if the filter accepts it."""
        accepted, by_cost = self.filter.accepts(trial.theta, trial.cost + trial.barrier, now, move.slope, alpha)
        if accepted:
            if not by_cost:
                self.filter.add(*now)
            self.point.accept(trial, move, alpha)
        return accepted

    def _record(self, step: _Swept, alpha: float, seconds: float) -> None:
        p = self.point
        if step.mu > 0.0:
            hessian = LEVENBERG_MARQUARDT if step.blend > 0.0 else GAUSS_NEWTON
        else:
            hessian = EXACT if step.blend > 0.0 else GAUSS_NEWTON
        self._show(Record(
            p.cost, self.judged.dual, step.move.expected, alpha, step.mu, hessian, step.blend, seconds,
            0.0 if p.gap < CLOSED else p.gap, "multipliers" if step.blend > 0.0 else "none",
            p.missed, p.barrier, True,
        ), p)  # fmt: skip
