"""Phase durations as decision variables: when feet leave and touch down, and free final time.

Phases keep their knots, whose steps of time stretch. With T (P,) the durations, the best cost of a motion in these is

    J*(T) = min_U J(U; T),      ∂J*/∂T_p = 1/N_p Σ_{k in p} ∂L/∂h_k      (`Problem.by_durations`)

by the envelope theorem: at an optimum it changes as the Lagrangian L does while X, U and multipliers stay. So durations
are found by sequential quadratic programming (Kraft 1988, `scipy.optimize`) on ``J*(T) + price Σ T`` within bounds, each
evaluation a solve that begins with the last solution and follows it with its gains.

Most costs per second fall with time: motion is cheapest where it is over at once. So the total time stays what it is,
unless time has a price.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq, minimize

from ddp.errors import ProblemError, SolveError, as_array, positive, positive_integer
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.solution import Solution
from ddp.solver import DDP, Start, solve
from dynamics.phased_dynamics import PhasedDynamics
from problems import checks
from problems.contact_costs import ForceConstraint, ForceLimits
from problems.reaction import stretches

CAUTION = 0.1
"""By what share of themselves durations change at most in the first step, while nothing is known of curvature."""


@dataclass(frozen=True, eq=False)
class FreeDurations:
    """Which durations are free, and how they are found.

    lower, upper [s]: of each phase (P,), or one number for all; where both are the same the duration is given. Default:
    half and twice what it is in the problem.
    total [s]: of all phases; default what it is, but free where time has a price.   price [1/s]: of time.
    tolerance: convergence is where no duration, changed by itself, promises to change the cost by more than this share.
    max_iterations: solves at most.
    """

    lower: ArrayLike | None = None
    upper: ArrayLike | None = None
    total: float | None = None
    price: float = 0.0
    tolerance: float = 1e-6
    max_iterations: int = 100

    def __post_init__(self) -> None:
        for name in ("tolerance", "total"):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, positive(name, value))
        object.__setattr__(self, "price", checks.weight("price", self.price))
        object.__setattr__(self, "max_iterations", positive_integer("max_iterations", self.max_iterations))


@dataclass(frozen=True)
class Trial:
    """One solve: durations (P,) [s], their cost with the price of time, the largest share of it that a change of a
    duration by itself would change, iterations, seconds, and whether it converged.
    """

    durations: Array = field(repr=False)
    cost: float
    gradient: float
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
    cost: with the price of time.   converged, status, seconds: as of a `Solution`.   history: every solve.
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

    def __str__(self) -> str:
        lasting = ", ".join(f"{duration:.4g}" for duration in self.durations)
        return f"{self.status}: cost {self.cost:.5g}, durations {lasting} s"


def solve_durations(
    problem: Problem,
    free: FreeDurations | None = None,
    solver: DDP | None = None,
    guess: Start = None,
    callback: Callable[[Trial], None] | None = None,
    throw: bool = True,
    workers: int | str = 1,
) -> TimedSolution:
    """The best durations of the phases of a problem of `PhasedDynamics`, and the motion.

    solver, guess, workers: of every solve, and of the first, as in `ddp.solve`.   callback: called with every `Trial`.
    throw: raise SolveError, with the ``.solution`` found so far, if it does not converge.

    References of costs stay those of their knots: paths are followed faster or slower, speeds stay as they are.
    Raises ProblemError for bounds that exclude one another, or the total.
    """
    start, system = time.perf_counter(), phased(problem)
    search = _Search(problem, FreeDurations() if free is None else free, solver, guess, callback, workers)
    T = system.phase_durations
    status = search.run(np.clip(T, search.lower, search.upper))
    best, converged = search.best, status.startswith("converged")
    if throw and not converged:
        raise SolveError(status, best.solution)
    return replace(best, status=status, converged=converged, seconds=time.perf_counter() - start, history=tuple(search.history))


class _Settled(Exception):  # noqa: N818  # not an error
    """The search is over: its status."""


class _Search:
    """Solves one after the other."""

    def __init__(
        self, problem: Problem, free: FreeDurations, solver: DDP | None, guess: Start,
        callback: Callable[[Trial], None] | None, workers: int | str,
    ) -> None:  # fmt: skip
        system = phased(problem)
        self.problem, self.free, self.solver, self.guess = problem, free, DDP() if solver is None else solver, guess
        self.callback, self.workers, self.history = callback, workers, list[Trial]()
        self.passing = np.array([phase.knots > 0 for phase in system.phases])
        T = system.phase_durations
        self.lower, self.upper = _bounds("lower", free.lower, 0.5 * T, T), _bounds("upper", free.upper, 2.0 * T, T)
        for i in np.flatnonzero(self.lower > self.upper):
            raise ProblemError(f"lower: expected at most upper, got {self.lower[i]:g} > {self.upper[i]:g} s at [{i}]")
        total = T.sum() if free.total is None and free.price == 0.0 else free.total
        if total is not None and not self.lower.sum() - 1e-9 <= total <= self.upper.sum() + 1e-9:
            raise ProblemError(
                f"total: expected from {self.lower.sum():g} to {self.upper.sum():g} s, what bounds allow, got {total:g}"
            )
        self.total: float | None = total
        self.known: TimedSolution | None = None

    @property
    def best(self) -> TimedSolution:
        """The best found so far."""
        if self.known is None:
            raise SolveError("no solve has ended")
        return self.known

    def run(self, T: Array) -> str:
        """Search from durations (P,): the status."""
        given = {"type": "eq", "fun": lambda z: z @ T / T.sum() - self.total / T.sum(), "jac": lambda z: T / T.sum()}
        try:
            first = self.at(T)
            scale = CAUTION / max(np.abs(T * (first.gradient - first.time_value)).max(), 1e-300)
            found = minimize(
                lambda z: (scale * (m := self.at(z * T)).cost, scale * T * m.gradient), np.ones(len(T)), jac=True,
                method="SLSQP", bounds=np.stack([self.lower / T, self.upper / T], axis=1),
                constraints=() if self.total is None else given, options={"ftol": 1e-16, "maxiter": self.free.max_iterations},
            )  # fmt: skip
        except _Settled as over:
            return str(over)
        return f"not converged after {len(self.history)} solves: {found.message}"

    def at(self, T: Array) -> TimedSolution:
        """The optimum for durations."""
        if self.history and np.array_equal(T, self.history[-1].durations):
            return self.last
        if len(self.history) == self.free.max_iterations:
            raise _Settled(f"not converged, the limit of {len(self.history)} solves was reached")
        before = time.perf_counter()
        problem, guess = with_durations(self.problem, T), self.guess if self.known is None else self.known.solution
        solution = solve(problem, self.solver, guess, throw=False, workers=self.workers)
        g = gradient(solution) + self.free.price * self.passing
        value = self.value_of_time(T, g)
        share = np.abs(self.slopes(T, g, value)).max() / max(abs(solution.cost), 1e-12)
        cost = solution.cost + self.free.price * float(T.sum())
        trial = Trial(T.copy(), cost, float(share), solution.iterations, time.perf_counter() - before, solution.converged)
        self.last = TimedSolution(solution, T.copy(), g, value, cost, False, solution.status, 0.0, ())
        self.history.append(trial)
        if self.callback is not None:
            self.callback(trial)
        if not solution.converged:
            raise _Settled(f"not converged, with durations of {T} s the motion is {solution.status}")
        if self.known is None or cost < self.known.cost:
            self.known = self.last
        if share < self.free.tolerance and (self.total is None or abs(T.sum() - self.total) < 1e-9):
            self.known = self.last
            raise _Settled(f"converged after {len(self.history)} solves")
        return self.last

    def value_of_time(self, T: Array, g: Array) -> float:
        """ν of the total time where it is given: slopes g - ν, where bounds leave a choice, are of least squares."""
        if self.total is None:
            return 0.0
        low, high = g[self.passing].min(), g[self.passing].max()
        return low if high - low < 1e-300 else float(brentq(lambda v: T @ self.slopes(T, g, v), low, high, xtol=1e-300))

    def slopes(self, T: Array, g: Array, value: float) -> Array:
        """T_p (g_p - ν), without those that bounds hold against."""
        s, near = T * (g - value), 1e-9 * T
        held = ((T <= self.lower + near) & (s > 0.0)) | ((T >= self.upper - near) & (s < 0.0))
        return np.where(held, 0.0, s)


def with_durations(problem: Problem, durations: ArrayLike) -> Problem:
    """The same problem, whose phases last so long (P,) [s] in as many knots; references stay those of their knots."""
    system = phased(problem).lasting(durations)

    def on(terms: Any) -> list[Any]:
        return [replace(t, system=system) if isinstance(t, (ForceLimits, ForceConstraint)) else t for t in terms]

    lists = {name: on(getattr(problem, name)) for name in ("running", "terminal", "constraints", "terminal_constraints")}
    maps = {name: {k: on(v) for k, v in getattr(problem, name).items()} for name in ("at", "during", "constraints_at")}
    return replace(problem, dynamics=system, **lists, **maps)


def gradient(solution: Solution) -> Array:
    """The derivative (P,) [1/s] of the optimal cost by how long each phase lasts, 0 where none of its knots takes time.

    Raises ProblemError for a solution that was loaded without its problem, or of another system.
    """
    if solution.problem is None:
        raise ProblemError("problem: a gradient by durations needs one: Solution.load(path, problem)")
    system = phased(solution.problem)
    rates = solution.problem.by_durations(solution.X, solution.U, solution.multipliers)
    return np.array([rates[knots.start : knots.stop].mean() if knots else 0.0 for knots in stretches(system)])


def phased(problem: Problem) -> PhasedDynamics:
    """The system of a problem with phases."""
    if not isinstance(problem, Problem) or not isinstance(problem.dynamics, PhasedDynamics):
        raise ProblemError("problem: expected one of PhasedDynamics, whose phases last some time")
    return problem.dynamics


def _bounds(name: str, given: ArrayLike | None, default: Array, T: Array) -> Array:
    """Bounds (P,) of durations, zero where no time passes."""
    if given is None:
        return default
    bound = as_array(name, given, () if np.ndim(given) == 0 else T.shape)  # type: ignore[arg-type]
    bound = np.where(T > 0.0, np.broadcast_to(bound, T.shape), 0.0)
    for i in np.flatnonzero((T > 0.0) & ~(bound > 0.0)):
        raise ProblemError(f"{name}: expected more than 0 s, got {bound[i]:g} at [{i}]")
    return bound
