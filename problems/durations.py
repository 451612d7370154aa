"""Phase durations as decision variables: when feet leave and touch down, and free final time.

Phases keep their knots, whose steps of time stretch. With T (P,) the durations, the best cost of a motion in these is

    J*(T) = min_U J(U; T),      ∂J*/∂T_p = 1/N_p Σ_{k in p} ∂L/∂h_k      (`sensitivity.by_durations`)

by the envelope theorem: at an optimum it changes as the Lagrangian L does while X, U and multipliers stay. Its Hessian
is that of sensitivity.py, so that Newton's method finds the least of ``J*(T) + price Σ T`` within bounds, in a region
of trust: each step is the minimum of a quadratic program (Kraft 1988, `scipy.optimize`), and each of its solves begins
where the last one predicts that it ends.

Most costs per second fall with time: motion is cheapest where it is over at once. So the total time stays what it is,
unless time is given a price.

Of a motion in continuous time the whole time is found with it in one solve, see free_time.py; that of a robot without
contacts is one phase.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ddp.compiling.setup import Stopwatch
from ddp.errors import (
    ProblemError,
    SolveError,
    as_array,
    axes,
    flag,
    instance,
    positive,
    positive_integer,
    said,
    settle_by,
    suggesting,
)
from ddp.guesses import Start
from ddp.options import DDP
from ddp.places import replaced
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.solutions.solution import Solution
from ddp.solutions.status import Record
from ddp.solver import solve
from dynamics.phases.phase import Phase
from dynamics.phases.phased_dynamics import PhasedDynamics
from dynamics.steps.continuous_dynamics import ContinuousDynamics
from dynamics.steps.robot_dynamics import RobotDynamics
from problems import checks
from problems.free_time import SLACK, solve_free_time
from problems.sensitivity import gradient, phased, sensitivity, with_durations

CAUTION, GROW, SHRINK = 0.3, 2.0, 0.25
"""By what share of themselves durations change at most in the first step, and how that grows and shrinks."""

PHASES, WHOLE = (0.5, 2.0), (0.1, 10.0)
"""Least and most durations by default: of phases, and of all of a motion without, in multiples of their own."""

PATIENCE, FEW = 4, 20
"""Solves end after so many times the fewest iterations of one that converged, or of these few: they begin at its
motion, and where durations are too short for limits there is none."""

RESOLVED, COARSE = 1e-13, 1e-3
"""Shares of the cost, and of durations, that cannot be told from rounding; and what, all the same, is no minimum."""


@suggesting
@dataclass(frozen=True, eq=False)
class FreeDurations:
    """Which durations are free, and how they are found.

    lower, upper [s]: of each phase (P,), or one number for all; where both are the same the duration is given. Default:
    half and twice what it is in the problem, of a motion without phases a tenth and ten times.
    total [s]: of all phases; default what it is in the problem, but free where a price is given.
    price [1/s]: of time, which is added to the cost; 0: time costs nothing but what running costs say.
    tolerance: convergence is where |T_p ∂cost/∂T_p| is less than this share of the cost, for every duration T_p.
    max_iterations: solves at most.
    """

    lower: ArrayLike | None = None
    upper: ArrayLike | None = None
    total: float | None = None
    price: float | None = None
    tolerance: float = 1e-6
    max_iterations: int = 100

    def __post_init__(self) -> None:
        settle_by(self, positive, "tolerance")
        settle_by(self, positive_integer, "max_iterations")
        for name, check in (("total", positive), ("price", checks.weight)):
            if getattr(self, name) is not None:
                settle_by(self, check, name)


@dataclass(frozen=True)
class Trial:
    """One solve: durations (P,) [s], their cost with the price of time, iterations, seconds, whether it converged.

    share: max |T_p ∂cost/∂T_p| / cost, the largest share of the cost that doubling a duration would change by, were the
    cost linear in it; durations at a bound that holds them count for nothing.
    """

    durations: Array = field(repr=False)
    cost: float
    share: float
    iterations: int
    seconds: float
    converged: bool


@dataclass(frozen=True, eq=False)
class TimedSolution:
    """The best durations (P,) [s] and the motion in them.

    solution: of its own problem, ``solution.problem``, whose phases last so long.
    gradient (P,) [1/s]: what another second of a phase would cost, the price of time among it.
    time_value [1/s]: what another second in all would cost where the total is given, else 0; ``gradient`` has this
    value where a duration is within its bounds.
    cost: with the price of time.   history: every solve.
    converged, status, seconds, setup_seconds: as of a `Solution`.
    """

    solution: Solution
    durations: Array
    gradient: Array
    time_value: float
    cost: float
    converged: bool
    status: str
    seconds: float
    history: tuple[Trial, ...] = field(repr=False)
    setup_seconds: float = 0.0

    def __str__(self) -> str:
        lasting = ", ".join(f"{duration:.4g}" for duration in self.durations)
        return f"{self.status}: cost {self.cost:.5g}, durations {lasting} s"


@suggesting
def solve_durations(
    problem: Problem,
    free: FreeDurations | None = None,
    solver: DDP | None = None,
    guess: Start = None,
    callback: Callable[[Record], None] | None = None,
    throw: bool = True,
    workers: int | str = 1,
) -> TimedSolution:
    """The best durations of the phases of a problem of `PhasedDynamics`, or of all of a motion, and the motion.

    Where there are no phases, of `ContinuousDynamics` with explicit steps and `RobotDynamics` with semi-implicit ones,
    the duration is that of all N steps, the one in the problem is where the search begins, and a price of time is
    needed: 1 for the least time, 0 where running costs say what a second costs. The solution is of a problem with such
    a step ``dt``, and so in seconds. Where costs are not curved along controls that have limits, as where time or fuel
    alone counts, squares of these controls lead there, in a few solves that make them ever cheaper: iterations of all
    count, and stand in its ``history``.
    solver (default: to a tolerance of 1e-11), workers: of every solve, guess: of the first, as in `ddp.solve`.
    callback: called with the `Record` of every iteration of every solve.
    throw: raise SolveError, with the ``.solution`` found so far, if it does not converge.

    References of costs stay those of their knots: paths are followed faster or slower, speeds stay as they are.
    Raises ProblemError for bounds that exclude one another, or the total.
    """
    start, free = Stopwatch(), FreeDurations() if free is None else free
    instance("free", free, FreeDurations, "FreeDurations(...)")
    flag("throw", throw)
    if isinstance(problem, Problem) and isinstance(problem.dynamics, (ContinuousDynamics, RobotDynamics)):
        free = _of_all(problem, free)
        if isinstance(problem.dynamics, ContinuousDynamics):
            solver = DDP() if solver is None else solver
            timed = _with_free_time(problem, free, solver, guess, callback, workers, start)
            if throw and not timed.converged:
                raise SolveError(timed.status, timed.solution)
            return timed
        problem = in_a_phase(problem)
    elif isinstance(problem, Problem) and not isinstance(problem.dynamics, PhasedDynamics):
        raise _timeless(problem)
    solver = DDP(1e-11) if solver is None else solver
    search = _Search(problem, free, solver, callback, workers)
    best, converged, status = search.run(guess)
    free_ones = search.upper - search.lower > SLACK
    at_bounds = free_ones & ((search.lower + SLACK > best.T) | (search.upper - SLACK < best.T))
    if at_bounds.any():
        status += f", {at_bounds.sum()} of {free_ones.sum()} durations at a bound"
    if throw and not converged:
        raise SolveError(status, best.solution)
    found = best.solution, best.T, best.gradient, best.time_value, best.cost
    return TimedSolution(*found, converged, status, start.seconds, tuple(search.history), start.setup_seconds)


def _timeless(problem: Problem) -> ProblemError:
    return ProblemError(
        "problem: expected one with phases (PhasedDynamics), or of ContinuousDynamics or RobotDynamics, whose time"
        f" is free, got {said(problem.dynamics)}"
    )


def _of_all(problem: Problem, free: FreeDurations) -> FreeDurations:
    """Bounds and price of the duration of a motion without phases; ProblemError where no price is given."""
    if free.price is None or free.total is not None:
        wrong = "got none" if free.price is None else f"got total={free.total:g}: bounds, lower and upper, give a time"
        raise ProblemError(
            f"price: expected that of a second where all of a motion's time is free (1 for the least time, 0 where"
            f" running costs count time already), and no total, {wrong}"
        )
    T = problem.horizon * problem.dynamics.dt
    lower, upper = (own if own is not None else n * T for own, n in zip((free.lower, free.upper), WHOLE, strict=True))
    return replace(free, lower=lower, upper=upper)


def _with_free_time(
    problem: Problem, free: FreeDurations, solver: DDP, guess: Start, callback: Callable[[Record], None] | None,
    workers: int | str, start: Stopwatch,
) -> TimedSolution:  # fmt: skip
    """The best motion in continuous time, and how long it lasts."""
    usual = np.array([problem.horizon * problem.dynamics.dt])
    (least,), (most,) = (_bounds(name, getattr(free, name), usual, usual) for name in ("lower", "upper"))
    checks.ordered(np.array([least]), np.array([most]), unit=" s")
    price = free.price or 0.0
    solution, T, slope = solve_free_time(problem, least, most, price, solver, guess, callback, workers)
    solution = replace(solution, seconds=start.seconds, setup_seconds=start.setup_seconds)
    status, cost = str(solution.status), solution.cost + price * T
    bounded = not least + SLACK < T < most - SLACK
    if bounded and most - least > SLACK:
        status += ", 1 of 1 durations at a bound"
    share = 0.0 if bounded else abs(T * slope) / max(abs(cost), 1e-12)
    trial = Trial(np.array([T]), cost, share, solution.iterations, solution.seconds, solution.converged)
    told = np.array([T]), np.array([slope]), 0.0, cost, solution.converged, status, start.seconds, (trial,)
    return TimedSolution(solution, *told, start.setup_seconds)


def in_a_phase(problem: Problem) -> Problem:
    """The problem of a robot's motion as one of a single phase without contacts."""
    own: Any = problem.dynamics
    if own.integrator != "semi-implicit-euler" or own.robot.is_hybrid:
        raise ProblemError(f"dynamics: expected semi-implicit steps of rigid bodies, got {own!r}")
    given = own.actuation, own.damping, own.springs, own.control_limits
    return replaced(problem, lambda thing: thing, PhasedDynamics(own.robot, own.dt, Phase([], problem.horizon), *given))


def free_durations(problem: Problem, within: str, price: float | None) -> FreeDurations:
    """Parse "free", or "0.8,1.5": least and most duration of phases in multiples of their own; price [1/s].

    Of a motion without phases, they are those of all of it, and a price is needed.
    """
    whole = isinstance(problem.dynamics, (ContinuousDynamics, RobotDynamics))
    try:
        least, most = (WHOLE if whole else PHASES) if within == "free" else map(float, within.split(","))
    except ValueError:
        raise ProblemError(f"--durations: expected free or two numbers, least,most, got {said(within)}") from None
    if not 0.0 < least <= most:
        raise ProblemError(
            f"--durations: expected least,most with 0 < least <= most, as times of what it lasts, got {said(within)}"
        )
    if whole and price is None:
        raise ProblemError(
            "--price-of-time: expected one where all of a motion's time is free: 1 for the least time, 0 where running"
            " costs count time already"
        )
    if not whole and price is None and not least <= 1.0 <= most:
        raise ProblemError(
            f"--durations: expected least <= 1 <= most where the time in all stays, got {said(within)}; it is free with"
            " --price-of-time, of 0 if time costs nothing"
        )
    if price is not None and not price >= 0.0:
        raise ProblemError(f"--price-of-time: expected no negative number, got {price:g}")
    if not whole and not isinstance(problem.dynamics, PhasedDynamics):
        raise _timeless(problem)
    T = np.array([problem.horizon * problem.dynamics.dt]) if whole else phased(problem).phase_durations
    return FreeDurations(least * T, most * T, price=price)


class _Point(NamedTuple):
    """Durations T (P,), the optimum in them, its gradient (P,), the value of time, its cost, and as of `Trial`."""

    T: Array
    solution: Solution
    gradient: Array
    time_value: float
    cost: float
    share: float


class _Search:
    """Newton's method in a region of trust, on durations T (P,)."""

    def __init__(
        self, problem: Problem, free: FreeDurations, solver: DDP, callback: Callable[[Record], None] | None,
        workers: int | str,
    ) -> None:  # fmt: skip
        T = phased(problem).phase_durations
        self.problem, self.free, self.solver = problem, free, solver
        self.callback, self.workers, self.history = callback, workers, list[Trial]()
        self.lower, self.upper = (
            _bounds(name, given, times * T, T)
            for name, given, times in zip(("lower", "upper"), (free.lower, free.upper), PHASES, strict=True)
        )
        checks.ordered(self.lower, self.upper, unit=" s")
        least, most = float(self.lower.sum()), float(self.upper.sum())
        total = float(T.sum()) if free.total is None and free.price is None else free.total
        if total is not None and not least - SLACK <= total <= most + SLACK:
            raise ProblemError(f"total: expected from {least:g} to {most:g} s, what bounds allow, got {total:g}")
        self.total = None if total is None else min(max(total, least), most)
        self.price, self.start = free.price or 0.0, self.within(T)

    def within(self, T: Array) -> Array:
        """T within bounds, and in proportion as long as it must be in all."""
        if self.total is None:
            return np.clip(T, self.lower, self.upper)
        from scipy.optimize import brentq  # it takes a quarter of a second to import, which few problems need

        largest = float(np.max(self.upper[T > 0.0] / T[T > 0.0]))
        s = brentq(lambda s: np.clip(s * T, self.lower, self.upper).sum() - self.total, 0.0, largest, xtol=1e-15)
        return np.clip(s * T, self.lower, self.upper)

    def run(self, guess: Start) -> tuple[_Point, bool, str]:
        """The best found, whether it converged, and the status."""
        best, radius = self.at(self.start, guess), CAUTION
        if not best.solution.converged:
            return best, False, f"not converged, with durations of {best.T} s the motion is {best.solution.status}"
        known, second = best, sensitivity(best.solution)
        while best.share >= self.free.tolerance:
            if len(self.history) >= self.free.max_iterations:
                return best, False, f"not converged, the limit of {len(self.history)} solves was reached"
            if best is not known:
                known, second = best, sensitivity(best.solution)
            T, promised = self.step(best, second.hessian, radius)
            if radius < RESOLVED and not self.history[-1].converged:
                return best, False, f"not converged, no solve with durations close to {best.T} s converges"
            if promised < RESOLVED * (abs(best.cost) + self.solver.tolerance) or radius < RESOLVED:
                good = best.share < COARSE
                end = f"{'converged' if good else 'not converged'} after {len(self.history)} solves"
                return best, good, f"{end}, no lower cost can be told from rounding"
            trial = self.at(T, second.predicted(T - best.T))
            ratio = (best.cost - trial.cost) / promised if trial.solution.converged else -1.0
            if promised < self.solver.tolerance and trial.share < best.share:  # costs are not told apart any more
                ratio = 1.0
            length = float(np.abs(T / np.where(best.T > 0.0, best.T, 1.0) - (best.T > 0.0)).max())
            radius = max(radius, GROW * length) if ratio > 0.75 else radius if ratio > 0.25 else SHRINK * length
            best = trial if ratio > 0.0 else best
        return best, True, f"converged after {len(self.history)} solves"

    def step(self, here: _Point, H: Array, radius: float) -> tuple[Array, float]:
        """The durations where the quadratic model is least, by at most a share ``radius`` of each; what it promises."""
        from scipy.optimize import minimize

        T, g = here.T, here.T * here.gradient
        values, vectors = np.linalg.eigh(T[:, None] * H * T)
        H = (vectors * np.maximum(np.abs(values), 1e-12 * np.abs(values).max())) @ vectors.T
        scale = 1.0 / max(np.abs(g - here.time_value * T).max(), 1e-300)
        lasting = np.where(T > 0.0, T, 1.0)
        low, high = np.maximum(self.lower / lasting - 1.0, -radius), np.minimum(self.upper / lasting - 1.0, radius)
        kept = {"type": "eq", "fun": lambda z: z @ T / T.sum(), "jac": lambda z: T / T.sum()}
        found = minimize(
            lambda z: (scale * (g @ z + 0.5 * z @ H @ z), scale * (g + H @ z)), np.zeros(len(T)), jac=True,
            method="SLSQP", bounds=np.stack([np.minimum(low, 0.0), np.maximum(high, 0.0)], axis=1),
            constraints=() if self.total is None else kept, options={"ftol": 1e-15, "maxiter": 200},
        )  # fmt: skip
        return np.clip(T + T * found.x, self.lower, self.upper), -float(found.fun) / scale

    def at(self, T: Array, guess: Start) -> _Point:
        """The optimum for durations."""
        watch, solver = Stopwatch(), self.solver
        if taken := [trial.iterations for trial in self.history if trial.converged]:
            most = PATIENCE * max(min(taken), FEW)
            solver = replace(solver, max_iterations=min(solver.max_iterations, most))
        solution = solve(with_durations(self.problem, T), solver, guess, self.callback, False, self.workers)
        g, value, share = np.full(len(T), np.nan), np.nan, np.nan
        if solution.converged:
            g = gradient(solution) + self.price * (T > 0.0)
            value = self.value_of_time(T, g)
            share = float(np.abs(self.slopes(T, g, value)).max() / max(abs(solution.cost), 1e-12))
        forced = sum(float((found.multipliers * found.violation).sum()) for found in solution.residuals())
        cost = solution.cost + forced + self.price * float(T.sum())
        self.history.append(Trial(T, cost, share, solution.iterations, watch.seconds, solution.converged))
        return _Point(T, solution, g, value, cost, share)

    def value_of_time(self, T: Array, g: Array) -> float:
        """ν of the total time where it is given: Σ T_p (slope_p of ν) = 0."""
        low, high = float(g[T > 0.0].min()), float(g[T > 0.0].max())
        if self.total is None or low == high:
            return 0.0 if self.total is None else low
        from scipy.optimize import brentq

        return float(brentq(lambda v: T @ self.slopes(T, g, v), low, high, xtol=1e-15 * max(abs(low), abs(high))))

    def slopes(self, T: Array, g: Array, value: float) -> Array:
        """T_p (g_p - ν), without those that bounds hold against."""
        s = T * (g - value)
        held = ((self.lower + SLACK >= T) & (s > 0.0)) | ((self.upper - SLACK <= T) & (s < 0.0))
        return np.where(held, 0.0, s)


def _bounds(name: str, given: ArrayLike | None, default: Array, T: Array) -> Array:
    """Bounds (P,) of durations, zero where no time passes."""
    if given is None:
        return default
    bound = as_array(name, given, () if axes(given) == 0 else T.shape)
    bound = np.where(T > 0.0, np.broadcast_to(bound, T.shape), 0.0)
    for i in np.flatnonzero((T > 0.0) & ~(bound > 0.0)):
        raise ProblemError(f"{name}: expected more than 0 s, got {bound[i]:g} at [{i}]")
    return bound
