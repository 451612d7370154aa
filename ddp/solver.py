"""Solve a problem from a guess: one attempt or several, with the derivatives of a crew of workers."""

import os
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ddp.checkpoint import Checkpoint, Journal
from ddp.compiling import announce
from ddp.compiling.interrupts import is_of_interrupt
from ddp.compiling.setup import Stopwatch
from ddp.constraints.detours import detour
from ddp.constraints.impossible import BY_NO_STATE, doubts, elsewhere, unmet_by_states
from ddp.constraints.unreachable import AT_ONCE, begins_outside, unmet_at_once
from ddp.doubts import tell_doubts
from ddp.errors import ProblemError, SolveError, flag, instance, said, suggesting
from ddp.guesses import Guess, Motion, Start
from ddp.interior.course import TOLERANCE
from ddp.interior.handover import went_back
from ddp.iterate import Iterate
from ddp.loop import run
from ddp.missed import Missed
from ddp.options import DDP, as_solver
from ddp.parallel.differentiator import Differentiator
from ddp.parallel.workers import WorkerError, Workers, as_workers, differentiator
from ddp.posture_guesses import second_starts
from ddp.problem import Problem
from ddp.solutions.explanation import is_far, stays
from ddp.solutions.solution import Solution
from ddp.solutions.status import Ending, Record, Status, Watcher, infeasible, is_led
from ddp.starts import MOST, start_policy
from ddp.sweeps.inertia import MINIMUM

FAILED = (
    Ending.NO_STEP, Ending.INDEFINITE, Ending.ITERATIONS, Ending.NOT_FINITE, Ending.ROUNDS, Ending.STRUGGLES,
    Ending.UNMET,
)  # fmt: skip
"""Endings of full-space steps after which constraints are held in another way."""

NEARBY = 40
"""Iterations that look for the nearest motion where the first step cannot meet constraints."""

FROM_ELSEWHERE = 3
"""Attempts from other motions, at most, where it is not proven that there is no way; see `impossible.elsewhere`. One is
enough where a minimum was found, though far from its target."""

FROM_DOUBTS, MUCH = 2, 0.9
"""Attempts from motions that doubt a proof, at most; share of its violation that one without a proof may have."""

SAME = 1e-2
"""Relative difference of costs and violations, at most, where two attempts have ended at the same motion."""

AROUND = 100
"""Iterations, at most, from detours and from other motions: nearly all that converge take fewer."""


@suggesting
def solve(
    problem: Problem,
    solver: DDP | None = None,
    guess: Start = None,
    callback: Callable[[Record], None] | Watcher | None = None,
    throw: bool = True,
    workers: int | str | Workers = 1,
    checkpoint: Checkpoint | str | os.PathLike[str] | None = None,
) -> Solution:
    """Solve ``problem`` by shooting: single, or multiple where states are imposed.

    solver: `DDP` (the default), `ILQR` or `Newton`.
    guess: controls U (N, nu), which are rolled out, unless that costs more than twice what states that stay at x0
        would: then these are imposed, until they cost more; a pair (X, U), which imposes the states X (N+1, nx), but
        for X[0] = x0: where they do not follow from U, gaps are open at first and closed on the way, and if that
        ends at a higher cost than the motion that follows from U, the solve goes on from there; a `Solution`, whose
        policy ``u = U + K (x ⊖ X)`` is followed from x0, so that it also serves where motion is unstable; where that
        diverges, has no finite cost or a hundred times that of its states, these are imposed; None: the problem's own,
        else the dynamics' nominal control at x0, at every knot, as if given as U, and a second start where that may
        have led to a dear minimum, see below. Controls are moved into the problem's limits.
    callback: called with the `Record` of every iteration; or a `Watcher`, which is shown states and controls too, such
        as `viz.Live`.
    throw: raise SolveError, with ``.solution``, if the solve does not converge; else return the best iterate.
    workers: how many threads or processes share the derivatives; results are the same to the last bit. A number means
        threads if dynamics, terms and constraints are all built in, processes if one is not (`Workers`);
        "threads:2" and "processes:2" force it; "auto" shares them where the first iterates show that it pays.
    checkpoint: a file (.npz) that is written every twenty iterations, and where it exists already goes on from there,
        with the same result, to the last bit, as without one, whatever ``max_iterations`` was before: iterations that
        only a limit had led to are made anew. The guess is that of the first time. A file whose solve has converged, or
        has made as many iterations as are allowed, is read. A new solve needs a new name, or the file removed. It is a
        file of a `Solution`, too.

    Where it ends, the exact Hessian of the cost in the controls is looked at, whatever the solver's own is: saddles and
    maxima are left along negative curvature, and the solve goes on. What remains is in ``solution.kind``; one of these,
    because iterations have come to their limit or costs have no minimum, has not converged.

    Constraints are held by full-space steps (``step`` of `DDP`): gains keep what is at its bound. Where they fail and
    no state meets the constraints of the knot that is missed most, that is told at once. A few rollouts without
    constraints may lead to where they begin; where X of a guess (X, U) moves and meets constraints, only as long as it
    keeps its way around obstacles. If they fail from there, where constraints do not give way yet, or end at a minimum
    whose cost is mostly that of a missed target, they begin anew: after failures from states that go around what the
    straight way violates (`ddp.constraints.detours`); from the guess itself, unless that failed with states that
    violate constraints, or was where they had begun; after failures from the default guess, too; from the states to
    which 200 such iterations have led, if they have not ended; then from a few motions, around the minimum if one was
    found, that violate constraints in other ways (`ddp.constraints.impossible`), until one ends where another did: if
    there are none, they cannot be met, and the status says so. Where other motions doubt this, as multipliers miss less
    by them, two attempts begin there before it is said. The cheapest minimum is kept; iterations of all attempts
    count, and stand in ``history``. After failures from guesses, and where none converges, or to no minimum, the
    augmented Lagrangian (`augmented`) is tried; where no detour mends what the straight way violates, before steps
    begin anew. Newton's steps with what binds held find its gains, unless these do not end at a minimum nearby: then
    gains give way to what disturbs them as much as the last penalties let them.

    A minimum from the default guess may be much dearer than the best one where a joint turns by more than 2.2 rad and
    the end costs more than states alone. Unless it misses a target that is known to be out of reach, a second start
    follows a straight way to the posture that seems to cost least (`ddp.posture_guesses.second_starts`). Both together
    take at most three times the iterations of the first, or nine times where the second is cheaper by then. These
    count, and the cheaper minimum is kept; its records come last in ``history``. Where a motion from the default guess
    has stayed at rest, though the cost changes with states, as no control changes it to first order, the second start
    is a motion by random controls, always the same ones, that costs less (`ddp.posture_guesses.moving`): up to 512 are
    tried.

    Raises, whatever ``throw`` is, ProblemError for bad input, before any work, or when a term's own code fails;
    UndefinedCostError, which is one, where the cost of the guess is nan: of infinite ones the status tells; SolveError
    if a worker dies. KeyboardInterrupt ends the solve at once; like every other way out, it
    leaves no process and no shared memory behind.
    """
    start = Stopwatch()
    instance("problem", problem, Problem)
    solver = as_solver(solver)
    if not (callback is None or callable(callback) or isinstance(callback, Watcher)):
        raise ProblemError(f"callback: expected a function of a Record, got {said(callback)}")
    flag("throw", throw)
    problem.renew()
    tell_doubts(problem)
    guess = problem.guess if guess is None else guess
    task = _Task(problem, as_workers(workers), callback)
    if checkpoint is None:
        outcome = task.started(solver, guess, start, [])
        outcome = replace(outcome, seconds=start.seconds, setup_seconds=start.setup_seconds)  # of all attempts
    else:
        journal = Journal(checkpoint, problem, solver, start)
        outcome = task._replace(journal=journal).kept(solver, guess, start, journal)
    announce.finish()
    if throw and not outcome.converged:
        raise SolveError(str(outcome), outcome)
    return outcome


class _Task(NamedTuple):
    """A problem to solve, workers that make its derivatives, what is shown iterations, and what it goes on from."""

    problem: Problem
    crew: Workers
    callback: Callable[[Record], None] | Watcher | None
    journal: Journal | None = None

    def started(self, solver: DDP, guess: Start, start: Stopwatch, history: list[Record]) -> Solution:
        """Solve, and once more where the default guess may have led to a dear minimum: from `second_starts`.

        history: empty, for records as they are made.
        """
        outcome = self.attempted(solver, guess, start, history)
        if guess is not None or not outcome.converged or outcome.kind != MINIMUM:
            return outcome
        limit = limit_of_both(outcome, len(history), solver)
        other = second_starts([self.problem], [outcome])[0] if len(history) < limit else None
        if other is None:
            return outcome
        found = self.attempted(replace(solver, max_iterations=limit), other, start, history)
        cut = found.status.ending is Ending.ITERATIONS and found.violation <= TOLERANCE
        if cut and len(history) < solver.max_iterations and found.cost < outcome.cost:
            again = replace(solver, max_iterations=min(solver.max_iterations, MOST * limit))
            found = self.attempted(again, found, start, history)
        return told(_better(outcome, found, None), history, solver.max_iterations)

    def kept(self, solver: DDP, guess: Start, start: Stopwatch, journal: Journal) -> Solution:
        """Solve as `started` does, from where the journal has come to."""
        if journal.so_far is not None and journal.ended():
            return journal.so_far
        history = list[Record]()
        return journal.save(self.started(solver, journal.guess(guess), start, history), history)

    def attempted(self, solver: DDP, guess: Start, start: Stopwatch, history: list[Record]) -> Solution:
        """Solve in one way or, where that fails, another; history: records of what was done before."""
        (first, *others), done = solver.attempts(self.problem), len(history)
        outside, missed = begins_outside(self.problem), Missed(self.problem, guess)
        unmet = unmet_at_once(self.problem, missed.factors) if outside else None
        if unmet is not None:
            first = replace(first, max_iterations=min(first.max_iterations, NEARBY))
        outcome = self.solved(first, guess, start, history, bool(others) and unmet is None)
        linear = first.full_space(self.problem)
        if missed.any(outcome) and not (outside or outcome.status.ending is Ending.INFEASIBLE):
            unmet = unmet_at_once(self.problem, missed.factors)
        if unmet is not None and missed.any(outcome):
            return _impossible(outcome, len(history), unmet, AT_ONCE)
        if not others or not (may_be_better(outcome, solver, linear) or _is_doubtful(outcome)):
            return outcome
        if missed.any(outcome) and (why := unmet_by_states(self.problem, outcome.X, outcome.U, missed.factors)):
            return _impossible(outcome, len(history), *why)

        def goes_on(anew: bool) -> bool:
            """Whether to try again: ``anew``, by the same steps from elsewhere, or else by another method."""
            if len(history) >= solver.max_iterations or not may_be_better(outcome, solver, linear):
                return False
            return not outcome.converged or (outcome.kind == MINIMUM) is anew

        def tried(way: DDP, begun: Start, most: int = first.max_iterations) -> Solution:
            nonlocal outcome, linear
            limit = min(solver.max_iterations, len(history) + most)
            found = self.solved(replace(way, max_iterations=limit), begun, start, history)
            cut = found.status.ending is Ending.ITERATIONS and limit < solver.max_iterations
            if not cut or outcome.status.ending is Ending.ITERATIONS:
                outcome = _better(outcome, found, missed)
                linear = outcome is not found or way.full_space(self.problem)
            return found

        def doubted() -> Solution:
            """The outcome; where other motions doubt its proof, the best one from these."""
            y = outcome.multipliers
            for U in doubts(self.problem, outcome.X, outcome.U, y)[:FROM_DOUBTS] if _is_doubtful(outcome) else ():
                if len(history) >= solver.max_iterations or tried(others[0], U, AROUND).converged:
                    break
            return told(outcome, history, solver.max_iterations)

        if _is_doubtful(outcome):
            return doubted()
        reached, led = outcome, is_led(history) and not (outcome.converged and went_back(history[done:]))
        astray = isinstance(guess, tuple) and not outcome.converged and missed.by(*guess) > TOLERANCE
        around, rolls = (None, False) if outcome.converged else detour(self.problem, outcome.X[-1], missed.factors)
        left = True  # rollouts from the guess, to their end
        if around is not None:
            tried(others[0], around, AROUND)
        elif rolls := rolls and missed.any(outcome) and goes_on(anew=False):
            left = tried(others[-1], guess).status.ending is Ending.ITERATIONS
        ended = [outcome]
        starts: list[Start] = [guess] if led and not astray else []
        plain = isinstance(guess, np.ndarray) and np.array_equal(guess, start_policy(self.problem, None).U)
        if not (guess is None or plain or outcome.converged):
            starts.append(None)
        for begun in starts:
            found = tried(others[0], begun) if goes_on(anew=True) else outcome
            ended.append(found)
            if found.status.ending is Ending.ITERATIONS and goes_on(anew=True):
                tried(others[0], (found.X, found.U), AROUND)
        if not (rolls or outcome.converged) and missed.any(outcome) and goes_on(anew=False):
            left = tried(others[-1], guess).status.ending is Ending.ITERATIONS
        if (outcome.converged or missed.any(outcome)) and goes_on(anew=True):
            most = 1 if outcome.converged else FROM_ELSEWHERE
            if outcome.converged and not reached.converged:
                reached = outcome
            for U in elsewhere(self.problem, reached.U, reached.multipliers)[:most]:
                found = tried(others[0], U, AROUND)
                if not goes_on(anew=True) or any(_is_same(found, one, missed) for one in ended):
                    break
                ended.append(found)
        if left and goes_on(anew=False):
            tried(others[-1], guess, solver.max_iterations)
        return doubted()

    def solved(
        self, solver: DDP, guess: Start, start: Stopwatch, history: list[Record], first: bool = False
    ) -> Solution:
        """Solve in one way, unless the journal knows the outcome; first: whether there are others."""
        if self.journal is None:
            return self.descended(solver, guess, start, history, first)
        return self.journal.attempt(history, lambda: self.descended(solver, guess, start, history, first))

    def descended(self, solver: DDP, guess: Start, start: Stopwatch, history: list[Record], first: bool) -> Solution:
        """Solve in one way."""
        policy = start_policy(self.problem, guess)._replace(first=first)
        goal = solver.relaxed(self.problem, guess)
        try:
            with differentiator(goal, self.crew) as work:
                return descend_from(goal, solver, policy, work, self.callback, start, history, self.journal)
        except RuntimeError as reason:
            if is_of_interrupt(reason):  # of a lock that Python's threading gave up for it
                raise KeyboardInterrupt from reason
            raise


def _better(one: Solution, other: Solution, missed: Missed | None) -> Solution:
    """The better one of two attempts, of which the second one was made as the first one failed, or ended far away.

    missed: None if the first one is a minimum.
    """
    if one.converged and one.kind == MINIMUM:
        return other if other.converged and other.cost < one.cost else one
    if one.status.ending is Ending.INFEASIBLE and missed is not None and not other.converged:
        of = 1.0 if other.status.ending is Ending.INFEASIBLE else MUCH
        return other if _left(other, missed)[0] < of * _left(one, missed)[0] else one
    if other.converged or other.status.ending in (Ending.INFEASIBLE, Ending.SADDLE, Ending.BOTTOMLESS):
        return other
    if one.converged or missed is None:
        return one
    cut = one.status.ending is Ending.ITERATIONS  # of the first attempt's own limit
    return other if cut or _left(other, missed) <= _left(one, missed) else one


def _is_same(one: Solution, other: Solution, missed: Missed) -> bool:
    """Whether two attempts have ended at the same minimum of violations."""
    unmet = one.status.ending is other.status.ending is Ending.UNMET
    if not unmet:
        return False
    pairs = (one.cost, other.cost), (missed.of(one), missed.of(other))
    return all(abs(a - b) <= SAME * abs(a) for a, b in pairs)


def _left(solution: Solution, missed: Missed) -> tuple[float, float]:
    """Distance from a motion that meets constraints, and the cost, to compare solutions."""
    gap = solution.history[-1].gap if solution.history else np.inf
    return max(missed.of(solution), gap, TOLERANCE), solution.cost


def _impossible(outcome: Solution, done: int, worst: str, proof: str) -> Solution:
    """An attempt that is the last one, as no other would meet its constraints."""
    said = f"not converged after {done} iterations, {infeasible(worst, proof)}"
    return replace(outcome, status=Status(said, Ending.INFEASIBLE))


def told(outcome: Solution, history: list[Record], limit: int) -> Solution:
    """The best of some attempts, with records of all, its own last; a limit of iterations may have cut off another."""
    ending, done, own = outcome.status.ending, len(history), outcome.history
    if outcome.converged and outcome.iterations == done:
        return outcome
    status = outcome.status.replace(f"after {outcome.iterations} iterations", f"after {done} iterations", 1)
    if done >= limit and ending in FAILED and ending is not Ending.ITERATIONS:
        status, ending = (
            f"{status}; the limit of {limit} iterations left no other attempt to its end",
            Ending.ITERATIONS,
        )
    return replace(outcome, status=Status(status, ending), iterations=done, history=(*history[len(own) :], *own))


def limit_of_both(motion: Motion | Solution, done: int, solver: DDP) -> int:
    """Iterations of both starts together, where the first one has taken so many: not limited by these if it stays."""
    return solver.max_iterations if stays(motion) else min(solver.max_iterations, MOST * done)


def _is_doubtful(outcome: Solution) -> bool:
    """Whether multipliers prove that constraints cannot be met, which is a proof for motions nearby."""
    return outcome.status.ending is Ending.INFEASIBLE and BY_NO_STATE not in outcome.status


def may_be_better(outcome: Solution, solver: DDP, linear: bool) -> bool:
    """Whether it is worth to hold constraints in another way, or to begin anew; ``linear``: after full-space steps."""
    if outcome.multipliers.size == 0 or outcome.iterations >= solver.max_iterations:
        return False
    if not outcome.converged:
        return outcome.status.ending in FAILED
    far = is_led(outcome.history) and outcome.problem is not None and is_far(outcome, outcome.problem)
    return linear and (outcome.kind != MINIMUM or far)


def descend_from(
    goal: Problem, solver: DDP, policy: Guess, work: Differentiator,
    callback: Callable[[Record], None] | Watcher | None, start: Stopwatch, history: list[Record] | None = None,
    journal: Journal | None = None,
) -> Solution:  # fmt: skip
    """Solve a problem without constraints, or relaxed, with the memory and the processes of ``work``.

    history: records of what was tried before, to which all others are added.
    """
    history = [] if history is None else history
    certified = solver.holding.certified
    with np.errstate(all="ignore"):
        iterate = Iterate(goal, work, policy, solver.multipliers, solver.reuse, solver.segments, solver.search)
        try:
            status, sweep, kind = run(iterate, solver, history, callback, journal)
        except WorkerError as failure:
            status = Status(f"not converged after {len(history)} iterations, {failure}", Ending.WORKER)
            failure.solution = certified(iterate.solution(status, tuple(history), start, None))
            raise
        return certified(iterate.solution(status, tuple(history), start, sweep, kind))
