"""A solve by full-space steps: from an iterate to the minimum, its policy and its multipliers."""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp.constraints.impossible import slope
from ddp.errors import UndefinedCostError
from ddp.guesses import as_multipliers
from ddp.interior.course import CROSSING, END, NEARLY, START, TOLERANCE, WARM, magnitude, unit
from ddp.interior.ending import ROUNDS
from ddp.interior.finish import Finished, finish, kept
from ddp.interior.implied import implied
from ddp.interior.memory import MOST
from ddp.interior.method import Interior, go_on, named, point_at
from ddp.interior.point import NEAR_BOUNDS, Point
from ddp.interior.scaling import ones, units_of, weights_of
from ddp.iterate import Iterate
from ddp.parallel.workers import differentiator
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.search import SHORT
from ddp.solutions.solution import Solution
from ddp.solutions.status import End, Ending, Record, infeasible, is_led
from ddp.starts import FULL, start_policy
from ddp.sweeps.outcome import Sweep
from ddp.systems.structure import has_few_states
from ddp.unbounded import is_early

if TYPE_CHECKING:
    from ddp.descent import Descent


FEW, FEWEST, BACK, FURTHER = 20, 8, 2, 1e-3
"""Iterations that a warm start has; fewest for which Newton's steps begin, and how many are kept to lead back; how far
its slacks and controls begin from their bounds, times how far the initial state has moved."""

AT_BOUND = 1e-3
"""Rows nearer to a bound, see `Barrier.near`, begin a warm start as bound if they have a multiplier."""

PATIENCE, PATIENCE_WITHIN = 120, 40
"""Iterations with one barrier that are too many where there is another way: with constraints, and within limits of
controls alone, where rollouts go on."""

MOST_SHORT = 5
"""How many full-space steps as short as those of rollouts that struggle are too many within limits of controls: these
cost more, so that rollouts go on."""

AT_ONCE = 5
"""Full-space steps in place of free rollouts that have to prove themselves; nothing is kept of no more than these."""

DOUBTFUL = 1e-6
"""Error above which Newton's steps on the active set had a wrong set: the barrier's last iterate and its
gains, which bend controls near limits, are taken."""

SLOPE = 1e-3
"""Share of the cost by which, to first order, controls that change by as much as themselves may lower it at the end,
where the exact Hessian does not tell of a minimum."""

AT_LIMIT = 1e-7
"""Controls that a limit holds go there where they are as near, relative to their unit, or the room that limits leave
where that is less, and their size."""

NEARBY = 0.1
"""Units that controls may be from those of an optimum whose gains are theirs."""


class Minimised(NamedTuple):
    """Why it ended; the last sweep, with exact Hessians or not; multipliers (m,) of all constraints."""

    end: End
    sweep: Sweep | None
    exact: bool
    multipliers: Array


def minimise(descent: "Descent") -> Minimised:
    """Minimise from the descent's iterate, which is left where this ends, controls at their limits exactly there.

    Where no iterations are left it stays as it is: the point, off all bounds, is not where anything has led.
    """
    iterate = descent.iterate
    iterate.weigh()
    _check_rows(iterate)
    free = implied(iterate.problem, iterate.work.derivatives, iterate.X, iterate.U, iterate.gaps)
    found = _minimise(descent, free)
    if free.any() and found.end.ending.converged and iterate.problem.rows.worst(iterate.X, iterate.U) > TOLERANCE:
        return _minimise(descent, None)  # motions that are not linear do not keep them
    return found


def _minimise(descent: "Descent", free: NDArray[np.bool_] | None) -> Minimised:
    """`minimise`, with rows (m,) of constraints that are left out."""
    iterate, solver = descent.iterate, descent.solver
    (scale, units), history, done = measures_of(iterate), descent.history, len(descent.history)
    resumes = descent.journal is not None and descent.journal.has_state("full space")
    warm = None if resumes else _warm(iterate, scale, units, free=free)
    begun = None if resumes else _led(descent, scale, units, free) if warm is None else warm
    if begun is not None:
        point, held = begun
        finished = _by_what_binds(descent, point, held, warm is None)
        if finished.sweep is not None:
            iterate.guess = None
            return _left(iterate, point, End(Ending.CONVERGED), finished.sweep, finished.exact)
    if warm is not None:
        interior = Interior(point, solver.tolerance, history, descent.go_on, descent.begun)
        end = interior.run(min(solver.max_iterations, len(history) + FEW), warm=True)
    if warm is None or not (end.ending.converged or len(history) >= solver.max_iterations):
        interior, end = _from_anew(descent, scale, units, free)
    iterate.guess = None
    point, exact, sweep = interior.point, False, None if interior.finished else interior.point.backward.last()
    if end.ending.converged:
        loose, last = interior.open or interior.course.tolerance > END, _last(interior, sweep)
        finished, bound = interior.finished or Finished(None, False), is_bounded(iterate.problem)
        if bound and interior.finished is None:
            finished = finish(point, TOLERANCE if loose else DOUBTFUL, exact=solver.last_sweep)
        if bound and loose and finished.sweep is None:  # which rows are active is not clear yet
            interior.course.tolerance, interior.journal = END, None
            point.differentiate()
            end = interior.run(solver.max_iterations, warm=True)
            point, last = interior.point, _last(interior, interior.point.backward.last())
            finished = finish(point, DOUBTFUL, exact=solver.last_sweep) if end.ending.converged else finished
        found = finished.sweep is not None
        sweep, exact = (finished.sweep, finished.exact) if found else (last, bool(interior.course.exact))
        if end.ending.converged and not exact and slope(point.held_by) > SLOPE * (unit(point) + abs(point.cost)):
            end = End(Ending.NO_STEP, "steps that lower the cost become short though its gradient does not vanish")
    elif not is_early(end.ending, history) and interior.is_unbounded(0):
        end = End(Ending.BOTTOMLESS, Ending.BOTTOMLESS.value)
    else:
        stays = len(history) == done and end.ending is Ending.ITERATIONS
        X, U = (iterate.X, iterate.U) if stays else (point.X, point.U)
        fault = iterate.fault() or point.problem.rows.fault(X, U)
        end = End(end.ending, _verdict(point.problem, X, U, end)) if fault is None else End(Ending.NOT_FINITE, fault)
        if stays:
            return Minimised(end, sweep, exact, point.multipliers)
    left = _left(iterate, point, end, sweep, exact)
    if end.ending is Ending.ITERATIONS:
        descent.went_back()
    return left


def with_gains(solution: Solution, units: Array, factors: Array) -> Solution:
    """A minimum that rollouts have led to, with gains that keep what binds, as those of full-space steps do.

    Newton's steps with what binds held lead from there to rounding, see finish.py: so gains have nothing of what the
    last penalties let give way. Motions that hold constraints are taken there as well, unless that violates them more;
    those that are to hold them less stay. All is as it was where these steps do not end at a minimum nearby, as where
    it is not clear what binds.   units (nz,): of states and controls.   factors (m,): of constraints.
    """
    problem = solution.problem
    assert problem is not None
    with differentiator(problem, 1) as work:
        iterate = Iterate(problem, work, start_policy(problem, solution))
        warm = _warm(iterate, scale_of(iterate), units, factors) if iterate.cost < np.inf else None
        if warm is None:
            return solution
        point, held = warm
        finished = finish(point, DOUBTFUL, held, lambda record: None)
        moved = np.abs(point.U - solution.U) / units[problem.dynamics.n :]
        if finished.sweep is None or not finished.exact or not moved.max() <= NEARBY:
            return solution
        found = replace(solution, k=finished.sweep.k, K=finished.sweep.K)
        X, U, gaps = _followed(iterate, point, finished.sweep)
        violation = problem.violation(X, U)
        if gaps.any() or not violation <= solution.violation <= TOLERANCE:
            return found
        return replace(
            found, X=X, U=U, gradient=finished.sweep.gradient, cost=problem.total(X, U) + problem.paid(X, U),
            multipliers=point.multipliers.copy(), violation=violation,
        )  # fmt: skip


def _left(iterate: Iterate, point: Point, end: End, sweep: Sweep | None, exact: bool) -> Minimised:
    """The end of a solve; the iterate is left where the point is."""
    multipliers = point.multipliers
    iterate.arrive(*_followed(iterate, point, sweep))
    if sweep is not None and end.ending.converged and not iterate.constrained:
        iterate.backward.follow(sweep.K)
    return Minimised(end, sweep, exact, multipliers)


def _by_what_binds(descent: "Descent", point: Point, held: Array, led: bool) -> Finished:
    """Newton's steps on the active set, as far as iterations are left.

    led: whether what binds is not known yet. Where they do not converge the point is left at the best of them, and the
    barrier's iterations, of which `BACK` are kept, lead back from where nothing holds them.
    """
    if point.boxed:
        return Finished(None, False)
    left = descent.solver.max_iterations - len(descent.history)
    if not descent.has_left(ROUNDS + BACK) and left < FEWEST:
        return Finished(None, False)
    point.contract()
    show, at_once = partial(descent.go_on, at=point), 1 if descent.watched else MOST
    finished = finish(point, TOLERANCE, held, show, min(ROUNDS, left - BACK), at_once, led, descent.solver.last_sweep)
    if finished.sweep is None:
        point.differentiate()
    return finished


def _last(interior: Interior, sweep: Sweep | None) -> Sweep | None:
    return None if sweep is None else kept(sweep, interior.course.dual)


def _from_anew(
    descent: "Descent", scale: float, units: Array, free: NDArray[np.bool_] | None
) -> tuple[Interior, End]:
    """Full-space steps from the iterate, and why they ended."""
    iterate, solver, history = descent.iterate, descent.solver, descent.history
    freely = _struggles_long if is_small(iterate.problem) else _struggles_freely
    ways = _struggles if iterate.constrained else _struggles_within if iterate.limited else freely
    struggles = None if solver.step == "linear" else ways
    journal = descent.journal
    state = None if journal is None else named(journal.state("full space", history))
    point = _at(iterate, scale, units, free) if state is None else point_at(state, iterate.problem, iterate.work)
    proof, at_once = AT_ONCE if struggles is _struggles_freely else 0, 1 if descent.watched else MOST

    def newton(point: Point, left: int) -> Finished:
        show, most = partial(descent.go_on, at=point), ROUNDS if descent.has_left(ROUNDS) else left
        return finish(point, TOLERANCE, None, show, most, at_once, exact=solver.last_sweep, left=left)

    crosses = solver.tolerance < CROSSING and is_bounded(iterate.problem)  # looser solves end before
    alone = descent.watched or struggles in (_struggles_within, _struggles_freely)
    patience = 1 if alone else PATIENCE_WITHIN if struggles is _struggles_long else PATIENCE
    interior = Interior(
        point, solver.tolerance, history, descent.go_on, descent.begun, struggles, proof, newton if crosses else None,
        patience, journal,
        gives=not (iterate.guess is not None and iterate.guess.first and is_led(history)),
    )  # fmt: skip
    if state is None:
        return interior, interior.run(solver.max_iterations)
    go_on(interior, state)
    return interior, interior.go_on(solver.max_iterations)


def is_bounded(problem: Problem) -> bool:
    """Whether anything can bind: only then Newton's steps on the active set differ from those that lead there."""
    return problem.limited or problem.constrained


def is_small(problem: Problem) -> bool:
    """Whether full-space steps have nothing to prove in place of rollouts: no limits, few numbers of flat states."""
    return has_few_states(problem.dynamics) and not problem.limited


def _struggles(records: list[Record]) -> bool:
    """Whether there were too many iterations with one barrier."""
    return len(records) >= PATIENCE


def _struggles_long(records: list[Record]) -> bool:
    """Whether there were too many iterations in place of free rollouts."""
    return len(records) >= PATIENCE_WITHIN


def _struggles_within(records: list[Record]) -> bool:
    """Whether there were too many iterations, or too many short steps, within limits of controls alone."""
    return len(records) >= PATIENCE_WITHIN or sum(record.step <= SHORT for record in records) >= MOST_SHORT


def _struggles_freely(records: list[Record]) -> bool:
    """Whether there were too many iterations, or more short ones than others."""
    return len(records) >= PATIENCE_WITHIN or 2 * sum(record.step <= SHORT for record in records) > len(records)


def _warm(
    iterate: Iterate, scale: float, units: Array, factors: Array | None = None, free: NDArray[np.bool_] | None = None
) -> tuple[Point, Array] | None:
    """A point with the multipliers of an earlier solution, if that is what the iterate began with; what bound there.

    That is -1, 1, else 0 of every row (M,).   factors (m,): of constraints, by default its own.   free: see `Point`.
    """
    problem, earlier = iterate.problem, None if iterate.guess is None else iterate.guess.earlier
    if earlier is None or not (problem.limited or problem.constrained):
        return None
    multipliers = np.asarray(getattr(earlier, "multipliers", np.zeros(0)))
    if problem.multiplier_count and not multipliers.size:
        return None
    multipliers = as_multipliers(multipliers, problem.multiplier_count)
    X = earlier.X.copy()
    X[0] = problem.x0
    by = problem.dynamics.difference(earlier.X[0], X[0]) / units[: problem.dynamics.n]
    moved = float(np.abs(by).max())
    share = max(NEAR_BOUNDS, FURTHER * moved)
    U, barrier, own = earlier.U.copy(), WARM * scale, (units, factors, free)
    point = Point(problem, iterate.work, X, U, scale, barrier, share, False, *own)
    point.warm(multipliers, earlier.K)
    at, forced = point.bounds.near(AT_BOUND), multipliers
    if point.limited:
        at_limits = 1.0 * (problem.upper <= earlier.U) - (problem.lower >= earlier.U)
        forced = np.concatenate([forced, at_limits.ravel()])
    return point, at * (at * forced > 0.0)


def _led(
    descent: "Descent", scale: float, units: Array, free: NDArray[np.bool_] | None
) -> tuple[Point, Array] | None:
    """The point where a solve has been led, see `DDP.holds_at_once`, and that nothing binds yet (M,)."""
    iterate = descent.iterate
    if not descent.solver.holds_at_once(iterate):
        return None
    point = _at(iterate, scale, units, free)
    point.differentiate()
    point.adjoint()
    return point, np.zeros(point.rows.size)


def _at(iterate: Iterate, scale: float, units: Array, free: NDArray[np.bool_] | None) -> Point:
    """The point of an iterate, with the first barrier."""
    X, U = iterate.X.copy(), iterate.U.copy()
    return Point(iterate.problem, iterate.work, X, U, scale, START * scale, units=units, free=free)


def _check_rows(iterate: Iterate) -> None:
    """Raise an error for a constraint that fails where a solve begins, UndefinedCostError if it is no number."""
    rows = iterate.problem.rows
    fine = np.isfinite(rows.values(iterate.X, iterate.U)).all()
    if not fine and (fault := rows.fault_of_values(iterate.X, iterate.U)):
        raise UndefinedCostError(fault)


def _verdict(problem: Problem, X: Array, U: Array, end: End) -> str:
    """Why a solve has not converged, and which constraint is missed most."""
    found = zip(problem.residuals(X, U), problem.placed, strict=True)
    hard = [residual for residual, entry in found if entry.cap is None]
    worst = max(hard, key=lambda residual: residual.worst, default=None)
    if worst is None or worst.worst <= TOLERANCE:
        return end.said
    return f"{end.said}; {worst}" if end.ending is not Ending.INFEASIBLE else infeasible(str(worst), end.said)


def scale_of(iterate: Iterate) -> float:
    """Cost that counts as one: what the iterate costs.

    It is never so little that rounding of states and controls alone leaves gradients above the tolerance.
    """
    problem, d = iterate.problem, iterate.work.derivatives
    iterate.weigh()
    values, separable = problem.values(iterate.X, iterate.U), iterate.separable.astype(np.int64)
    return float(magnitude(values, separable, d.lzz, d.diagonal, iterate.X, iterate.U)) or 1.0


def measures_of(iterate: Iterate) -> tuple[float, Array]:
    """Cost that counts as one, and units (nz,) of states and controls: see `scale_of` and `units_at`.

    With constraints it is no less than what a unit of each control costs, for there may be nothing to do without them.
    """
    scale, units = scale_of(iterate), units_at(iterate)
    return max(scale, effort_of(iterate, units)) if iterate.constrained else scale, units


def effort_of(iterate: Iterate, units: Array) -> float:
    """Cost of a unit of each control, by units (nz,); of each state where controls cost nothing."""
    iterate.weigh()
    if iterate.foreign or (units != 1.0).any():
        weights, own = weights_of(iterate.problem, iterate.work.derivatives), slice(iterate.problem.dynamics.n, None)
        if weights[own].any():
            return 0.5 * float(weights[own] @ units[own] ** 2)
    return float(0.5 * iterate.control_weight * iterate.U.size)


def units_at(iterate: Iterate) -> Array:
    """Units (nz,) of states and controls where an iterate is, see scaling.py: one without constraints."""
    problem = iterate.problem
    iterate.weigh()
    return units_of(problem, iterate.work.derivatives, iterate.X, iterate.U) if iterate.constrained else ones(problem)


def _followed(iterate: Iterate, point: Point, sweep: Sweep | None) -> tuple[Array, Array, Array]:
    """The trajectory, its controls within limits; where gaps are all but closed, the one that follows from controls."""
    problem = iterate.problem
    lower, upper = problem.lower, problem.upper
    U = np.clip(point.U, lower, upper) if problem.limited else point.U.copy()
    if sweep is None or point.gap > NEARLY:
        return point.X.copy(), U, point.gaps.copy()
    if problem.limited:
        units, open_loop = np.minimum(point.units[problem.dynamics.n :], upper - lower), ~sweep.K.any(axis=2)
        for limit in (lower, upper):
            U = np.where((np.abs(U - limit) <= AT_LIMIT * (units + np.abs(U))) & open_loop, limit, U)
    closed = np.zeros_like(point.gaps) if iterate.gap > 0.0 else iterate.gaps
    X, rolled, _ = problem.track(point.X, U, np.zeros_like(U), sweep.K, FULL, closed)
    rows, factors = problem.rows, np.maximum(point.factors, 1.0)  # the tolerance is large in tiny units
    worst = rows.worst(X[0], rolled[0], factors) if np.isfinite(X).all() else np.inf
    if worst <= TOLERANCE or worst <= 1.001 * rows.worst(point.X, point.U, factors):
        return X[0], rolled[0], closed
    return point.X.copy(), U, point.gaps.copy()
