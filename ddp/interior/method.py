"""The primal-dual interior point (Wächter & Biegler 2006) whose linear systems are backward sweeps:

    lower the first barrier where steps to its minimum lead astray
    repeat  differentiate; contract the dynamics' second order with the multipliers
            lower the barrier where its problem is solved well enough: by errors, or by what a step promises
            let sweeps keep to limits of controls from the first fall on, if these are all that is bounded
            let constraints give way where no step is found, or multipliers grow without end: if violations are at a
            minimum whatever they cost, they cannot be met
            stop where all errors are small, after another step where nothing can bind; before, where a step promises
            little, Newton's steps hold what binds
            eliminate slacks and bounds, sweep: exact, then other Hessians until one is positive definite
            roll the step out in the linear model; go along it as far as slacks stay positive and the filter accepts,
            or without constraints, near what is closed, the Lagrangian falls (Ulbrich 2004: costs rise along good steps
            whose gaps are due), with states that move linearly or, with constraints, follow from controls
            with constraints or limits of controls, let all of it come sooner where that pays, after steps of inexact
            Hessians: see travel.py

Convergence is superlinear: exact Hessians and the barrier's fall leave one or two errors of each order of magnitude.

Tried without success, over some 200 problems: other first barriers (.001 to .1 of the scale, or by the number of
bounds); multipliers that shrink where slacks take their rows' values; second-order corrections of refused steps, beside
rollouts or in their place (1 to 7 % more iterations), as what rollouts reach is further; barriers anew at each
iteration, by Mehrotra's rule or a quality function (Nocedal, Wächter & Waltz 2009: 10 to 38 % more on gaits); his
corrections of products of slacks and multipliers, where they lengthen a step (3 % fewer, 1 to 4 % more time). Over 90
random swing-ups: shares of the exact Hessian found by bisection, or more of them but after full steps; mu I added to it
in place of shares; rollouts taken only where they lower a merit function (twice the iterations); steps twice as long
where half of the exact Hessian was taken, with full exact steps that raise cost and residual at once (2 % fewer, of
some kinds 5 % more). Over 696 starts of problems of all kinds within limits of controls: to give back to rollouts only
where more than half of ten or more steps are short (6 % more iterations, though then a UR5 with a half or a quarter of
its torques takes more than 40 from 5 of 480 starts in place of 13). Over 232 of them: mu after steps of a sixteenth
(2 % more); full-space steps a second time where rollouts struggle again (7 % more). Over 440 random swing-ups, reaches
and drives with constraints: multipliers by an adjoint pass after inexact steps (4 to 16 % more); ten times δ of
equalities (6 % more), or a tenth (2 % fewer, but six failures); motions that come sooner after steps that leave much
open, too (4 % fewer, but an arm took 397 in place of 70).

Without any one of the rules that are kept some kind of problem takes 1 to 60 % more iterations.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ddp.compiling.setup import working_time
from ddp.constraints.impossible import proof
from ddp.interior import iteration, passes
from ddp.interior.course import DEAR, GIVEN_WAY, LOWERED, MOVED, START, STAYS, TOLERANCE, UNKNOWN, Course
from ddp.interior.filter import ENTRIES
from ddp.interior.finish import Finished
from ddp.interior.memory import MOST, POINT
from ddp.interior.point import INSIDE, Point
from ddp.interior.row_steps import ABOVE, BELOW
from ddp.interior.travel import travel
from ddp.machine.written import Numbers, assign, copied, read_all, read_like, write_like
from ddp.parallel.differentiator import Differentiator
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.solutions.status import End, Ending, Record, limit_reached
from ddp.unbounded import GROWN, is_unbounded

if TYPE_CHECKING:
    from ddp.checkpoint import Journal

NEXT_TO_NOTHING = 1e-6
"""Gaps and residuals relative to states that are larger than one, where these go to infinity."""

PRICE, DEARER = 100.0, 10.0
"""Price of a unit of violation where rows are elastic, and by how much it rises: until violations cost `DEAR` times all
else, or none are left, or it is proven that they cannot be met."""

ANEW = 10
"""How often steps within limits of controls begin anew where they end, before constraints give way."""

TIGHTER, TIGHTEST = 0.1, 1e-12
"""Violations that cost so much and are not proven to stay are minimised closer, see `STAYS`: each time by the first
number, down to the second one."""


class Interior:
    """One solve, from a `Point`, to a tolerance of the expected decrease.

    point: the iterate.   history: of the whole solve; ``show`` adds a record of every iteration, with the iterate.
    begun: the size of the cost where the solve began.
    struggles: whether to give up, judged by the iterations with one barrier; by default never.
    proof: for how many iterations to give up, too, where Hessians are not positive definite by `correction.PROOF`.
    patience: iterations with one barrier before ``struggles`` has anything to say, 1 where each has to be shown as it
    ends: so many may be made in one call, which share its time.
    journal: is told where it stands after calls of iterations of which the last took a step, see `state_of`.
    gives: whether constraints may give way, where there is no other attempt.
    newton: takes Newton's steps on the active set, at most so many, see `finish.finish`; finished: what they came to.
    anew: how often steps within limits of controls have begun anew, see `ANEW`.
    open: whether constraints that gave way miss bounds by more than the tolerance at the end.
    """

    def __init__(
        self, point: Point, tolerance: float, history: list[Record], show: Callable[[Record, Point], None],
        begun: float, struggles: Callable[[list[Record]], bool] | None = None, proof: int = 0,
        newton: Callable[[Point, int], Finished] | None = None, patience: int = 1, journal: "Journal | None" = None,
        gives: bool = True,
    ) -> None:  # fmt: skip
        self.point, self.history, self._show, self._struggles, self._newton = point, history, show, struggles, newton
        self.finished: Finished | None = None
        self._begun = begun
        within = point.boxed and point.first == 0  # limits of controls alone
        self.decisions = copied(point.place.decisions)
        s = self.course = Numbers(self.decisions)
        s.tolerance, s.within, s.crosses = tolerance, within, newton is not None
        s.proof = len(history) + proof if proof else 0
        self._patience, self.fell, self.journal = patience, len(history), journal
        self._warm, self._gives, self.open, self.anew = False, gives, False, 0

    def run(self, limit: int, warm: bool = False) -> End:
        """Iterate to the tolerance; ``warm``: multipliers and derivatives of the point are known."""
        p, s, self._warm = self.point, self.course, warm
        if not warm:
            p.do(passes.begin)
            s.settled = int(p.first == 0 or p.bounds.count == 0)
        s.gives = int(p.first > 0 and not warm)
        self._again()
        return self.go_on(limit)

    def go_on(self, limit: int) -> End:
        """Iterate from where it stands."""
        s, before = self.course, working_time()
        s.limit = limit
        while True:
            came, made = self._iterate()
            if made:
                if came == iteration.TOOK and s.travels and not self._warm and travel(p := self.point):
                    s.entries = 0  # of the filter: no step has led here
                    gap = float(np.abs(p.gaps).max())
                    made[-1] = iteration.moved(made[-1], p.cost, gap, p.rows.worst(p.X, p.U))
                now = working_time()
                self._record(made, (now - before) / len(made))
                before, self.fell = now, int(made[-1][-1])
                if self.is_unbounded():
                    return End(Ending.BOTTOMLESS, Ending.BOTTOMLESS.value)
                if came == iteration.TOOK:
                    if self._struggles is not None and self._struggles(self.history[self.fell :]):
                        return End(Ending.STRUGGLES, f"full-space {Ending.STRUGGLES.value}")
                    if self.journal is not None and s.known == MOVED and self.journal.is_due(self.history):
                        p = self.point
                        self.journal.keep("full space", self.history, state_of(self), p.X, p.U, p.multipliers)
                    continue
            if came == iteration.STOPPED:
                if not self._elastic():
                    return End(Ending.NO_STEP, "no step lowers the cost or closes what is open")
            elif came == iteration.HOLDS:
                self.point = self.point.held()
                self.point.judge()
                self._again(LOWERED)
            elif came == iteration.LEADS_ASTRAY:
                self.point.start(self.point.X, self.point.U, INSIDE)
                self._again()
            elif came == iteration.GIVES and not self._elastic():
                return End(Ending.UNMET, Ending.UNMET.value)
            elif came == iteration.CROSSES:
                if self._converges():
                    return End(Ending.CONVERGED)
                if len(self.history) >= limit:
                    return End(Ending.ITERATIONS, limit_reached(limit, self.history[-1].expected))
            elif came == iteration.ENDS:
                end = self._judge_violation()
                if end is not None:
                    return end
            elif came == iteration.LIMIT:
                return End(Ending.ITERATIONS, limit_reached(limit, s.expected))
            elif came == iteration.INDEFINITE and not self._elastic():
                ending = Ending.UNMET if s.stays < STAYS else Ending.INDEFINITE  # after minima of violations
                return End(ending, ending.value)

    def is_unbounded(self, grown: int = GROWN) -> bool:
        """Whether the cost falls without end, see unbounded.py, along motions that leave next to nothing open."""
        p = self.point
        if p.cost >= 0.0:
            return False
        closed = max(p.gap, p.missed, p.violation[0]) <= NEXT_TO_NOTHING * max(1.0, np.abs(p.X).max())
        return bool((closed or p.first == 0) and is_unbounded(self.history, p.cost, p, self._begun, grown))

    def _iterate(self) -> tuple[int, list[list[float]]]:
        """Make some iterations: what the last one came to, and numbers of those with a record."""
        done = len(self.history)
        most = max(1, min(self._patience - done + self.fell, self.course.limit - done, MOST))
        came, made = self.point.do(iteration.run, self.decisions.address, most)
        return int(came), self.point.place.own["numbers"][:made].tolist()

    def _converges(self) -> bool:
        """Whether Newton's steps on the active set converge; if not, the point has moved, and none are tried again."""
        p, s, newton = self.point, self.course, self._newton
        assert newton is not None
        found = newton(p, s.limit - len(self.history))
        s.crosses = 0
        if found.sweep is not None:
            self.finished = found
            return True
        p.differentiate()
        self._again()
        return False

    def _elastic(self) -> bool:
        """Let constraints give way, if they do not yet; whether there are any.

        Steps within limits of controls end where limits keep constraints from being met nearby. They begin anew first,
        with controls off their limits and states as they are: the gaps that this opens lead to other motions.
        """
        p = self.point
        if p.first == 0 or p.bounds.elastic or self._warm or not self._gives:
            return False
        self.course.settled = 1
        if p.boxed:
            self.anew += 1
            self.point = p = p.off_limits(START)
            if self.anew <= ANEW:
                self.point = p.held()
                self._again()
                return True
            self.course.held = 0
        p.barrier = START * p.scale
        p.let_go(PRICE * p.scale)
        p.do(passes.begin)
        self._again()
        return True

    def _judge_violation(self) -> End | None:
        """End at a minimum, by what elastic constraints miss there; None to go on closer, or at a higher price."""
        p, s, (most, total) = self.point, self.course, self.point.violation
        if most > GIVEN_WAY:
            if p.bounds.price_of_all * total < DEAR * (p.scale + abs(p.cost)):  # costs may hide a saddle of violations
                p.barrier = START * p.scale
                p.raise_price(DEARER)
            elif (proven := proof(p.held_by)) is not None:
                return End(Ending.INFEASIBLE, proven)
            elif s.stays > TIGHTEST:
                s.stays *= TIGHTER
            else:
                return End(Ending.UNMET, Ending.UNMET.value)
            self._again()
            return None
        if p.bounds.elastic:
            self.open = most > TOLERANCE
            p.take_hold()
        return End(Ending.CONVERGED)

    def _again(self, known: int = UNKNOWN) -> None:
        """Begin with another barrier function."""
        self.fell = len(self.history)
        self.point.do(iteration.begin, self.decisions.address, self.fell, known)

    def _record(self, made: Sequence[Sequence[float]], seconds: float) -> None:
        """Show records of iterations, from their numbers, see `iteration.report`, and the seconds that each took."""
        for numbers in made:
            self._show(iteration.record_of(seconds, numbers), self.point)


# -- where a solve stands between two iterations: arrays from which it goes on, to the same bits ----------------------

OF_POINT = *(name for name in POINT if name != "forces"), "gauge", "units"
"""Arrays of a point."""

OF_SWEEPS = "held", "k", "K"
"""Arrays of sweeps: where the next one begins to look for controls that limits hold, and the last policy."""

NUMBERS = (
    "scale", "barrier", "share", "least_proximal", "longest_dual", "cost", "penalty", "theta", "gap", "missed",
)  # fmt: skip
"""Numbers of a point."""

KEPT = *OF_POINT, "factors", "rows", "give", "hard", "numbers", *OF_SWEEPS, "course", "thetas", "phis"
"""Names of what `state_of` keeps."""


def state_of(interior: Interior) -> list[Array]:
    """Copies of all that a solve goes on from, by the order of `KEPT`."""
    p, b, course = interior.point, interior.point.bounds, _course()
    read_like(interior.decisions, course)
    own = b.price_of_all, b.elastic, p.boxed, interior.anew, interior.fell, len(interior.history)
    numbers = [*read_all(p.memory, NUMBERS), *own]
    of_course = [getattr(course, name) for name in _names()]
    arrays: dict[str, Any] = {name: p.place.own[name] for name in OF_POINT}
    arrays |= {"factors": p.factors, "rows": b.state, "give": b.give, "hard": b.hard, "numbers": numbers}
    arrays |= dict(zip(OF_SWEEPS, (p.backward.held, *p.backward.policy), strict=True))
    arrays |= {"course": of_course, "thetas": course.thetas, "phis": course.phis}
    return [np.array(part, dtype=np.float64) for part in (arrays[name] for name in KEPT)]


def named(state: Sequence[Array] | None) -> dict[str, Array] | None:
    """Arrays of `state_of` by name."""
    return None if state is None else dict(zip(KEPT, state, strict=True))


def point_at(state: Mapping[str, Array], problem: Problem, work: Differentiator) -> Point:
    """The point that was there."""
    *numbers, price, elastic, boxed, _, _, _ = state["numbers"].tolist()
    known = dict(zip(NUMBERS, numbers, strict=True))
    held = bool(boxed) and problem.constrained
    at, rows, own = (state["X"], state["U"]), problem.rows, (state["units"], state["factors"])
    z = state["rows"][[BELOW, ABOVE], : rows.size]
    free = ~rows.equal & ~rows.free & ~z.any(axis=0)  # multipliers of bounds are positive
    p = Point(problem, work, *at, known["scale"], known["barrier"], INSIDE, held, *own, free)
    for name in OF_POINT:
        p.place.own[name][:] = state[name]
    for name, array in zip(OF_SWEEPS, (p.backward.held, *p.backward.policy), strict=True):
        array[:] = state[name]
    p.bounds.resume(state["rows"], state["give"], state["hard"], price if elastic else None)
    p.bounds.least_proximal = known["least_proximal"]
    assign(p.memory, known | {"contracted": 0, "valued": 0, "gauging": int((state["gauge"] != 1.0).any())})
    p.bounds = p.bounds  # their numbers go to the memory of kernels
    return p


def go_on(interior: Interior, state: Mapping[str, Array]) -> None:
    """Give a solve from `point_at` the numbers of its course."""
    course = _course()
    for name, number in zip(_names(), state["course"].tolist(), strict=True):
        setattr(course, name, type(getattr(course, name))(number))
    course.thetas, course.phis = state["thetas"], state["phis"]
    write_like(interior.decisions, course)
    interior.anew, interior.fell = map(int, state["numbers"][-3:-1])


def _course() -> Course:
    return Course(np.zeros(ENTRIES), np.zeros(ENTRIES))


def _names() -> list[str]:
    return sorted(name for name, value in vars(_course()).items() if not isinstance(value, np.ndarray))
