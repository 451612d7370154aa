"""Free time of a motion that is given in continuous time: T, all of it, is found with the motion.

T is a state that never changes, and that a control of a knot before the first one sets (`problems.free_start`), within
bounds. All N steps take T / N, so that with ℓ what costs by the second, T0 the time in the problem and dt its step

    x' = x ⊕ step(x, u; T / N),      cost of a knot   dt (T / T0) ℓ(x, u),      derivatives exact to second order.

The solution is handed back as one of the problem itself in steps of T / N seconds: its plots, files, pages and policies
are in seconds.

Motions of least time, or fuel, go from limit to limit of controls, along which costs are not curved: steps do not know
how far to go. Squares of these controls are added at first, and are made ever cheaper (Bertrand & Epenoy 2002): each
solve begins with the motion, the multipliers and what binds of the one before. 242 random motions of nine systems take
17 546 iterations so; without that they take 42 541, and 16 fail.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddp.adjoint import costates
from ddp.constraints.placement import Placed
from ddp.costs.batch import BatchTerm, inside
from ddp.derivatives import EXACT, FIRST
from ddp.errors import DDPError, ProblemError
from ddp.guesses import Followed, Start, as_guess
from ddp.options import DDP
from ddp.places import replaced
from ddp.problem import Problem
from ddp.protocols import Array, Constraint
from ddp.solutions.explanation import misses_of
from ddp.solutions.solution import Solution
from ddp.solutions.status import Record, Status, limit_reached
from ddp.solver import solve, told
from ddp.systems.system import System
from ddp.tracing.groups import Euclidean
from ddp.tracing.spaces import Space, as_space
from dynamics.steps.continuous_dynamics import INTEGRATORS, ContinuousDynamics
from dynamics.steps.function_dynamics import FunctionDynamics
from problems.costs import ControlCost
from problems.lifted import ConstraintWithin, SomeRows, TermWithin, by_knots, free_start, held_by_knots

Indices = NDArray[np.int64]

SLACK = 1e-9
"""The most [s] that a duration at a bound is away from it."""

ORDINARY = 0.01, 100.0
"""Limits of a control that tell of no other units."""

EFFORTS, SOON = (1.0, 0.1, 0.01, 1e-3), 20
"""Costs of a control at its limit, beside that of a second, one after the other, where costs are not curved along it;
and the most iterations of each that follows another: few lead on, or none do."""


class Places:
    """Places among the numbers of (x, T) and u: a system's own, without T."""

    def __init__(self, system: System) -> None:
        self.nx, self.n, nz = system.nx, system.n, system.n + system.nu
        self.own: Indices = np.delete(np.arange(nz + 1), self.n)

    def states(self, X: Array) -> Array:
        """States (M, nx) of the system."""
        return np.ascontiguousarray(X[:, : self.nx])


@dataclass(frozen=True, eq=False)
class TimedTerm(TermWithin):
    """A cost term of x and u as one of states (x, T) and u.

    usual [s]: of what costs by the second, the T in which it is multiplied by one; None: it does not depend on T.
    """

    term: BatchTerm
    places: Places
    usual: float | None

    def missed(self, x: Array) -> Iterator[str]:
        """Distances of a state (x, T) from the term's target, in words, if it has one."""
        return misses_of([self.term], x[: self.places.nx])

    def _share(self, X: Array) -> Array:
        return np.ones(len(X)) if self.usual is None else X[:, self.places.nx] / self.usual

    def values(self, X: Array, U: Array) -> Array:
        """The costs (M,) of states (x, T) and controls."""
        return self._share(X) * self.term.values(self.places.states(X), U)

    def expand(self, X: Array, U: Array, weight: float, exact: bool, l: Array, lz: Array, lzz: Array) -> None:
        """Add weight times value, gradient and Hessian."""
        M, own, t = len(X), self.places.own, self.places.n
        value, slope, bend = np.zeros(M), np.zeros((M, len(own))), np.zeros((M, len(own), len(own)))
        self.term.expand(self.places.states(X), np.ascontiguousarray(U), weight, exact, value, slope, bend)
        share = self._share(X)
        l += share * value
        lz[:, own] += share[:, None] * slope
        lzz[:, own[:, None], own] += share[:, None, None] * bend
        if self.usual is not None:
            lz[:, t] += value / self.usual
            if exact:
                lzz[:, own, t] += slope / self.usual
                lzz[:, t, own] += slope / self.usual


@dataclass(frozen=True, eq=False)
class TimedConstraint(ConstraintWithin):
    """A constraint of x and u as one of states (x, T) and u; number: among all that are placed."""

    constraint: Constraint
    places: Places
    number: int

    def values(self, X: Array, U: Array) -> Array:
        """c (M, size)."""
        return self.constraint.values(self.places.states(X), U)

    def jacobian(self, X: Array, U: Array) -> Array:
        """``∂c/∂z`` (M, size, nz)."""
        J = self.constraint.jacobian(self.places.states(X), U)
        out = np.zeros((*J.shape[:2], J.shape[2] + 1))
        out[..., self.places.own] = J
        return out

    def curvature(self, X: Array, U: Array, weight: Array) -> Array:
        """``Σ_i weight_i ∂²c_i/∂z²`` (M, nz, nz)."""
        C, own = self.constraint.curvature(self.places.states(X), U, weight), self.places.own
        out = np.zeros((len(C), len(own) + 1, len(own) + 1))
        out[:, own[:, None], own] = C
        return out


@dataclass(frozen=True, eq=False)
class TimedStep:
    """A step of T / horizon of a system's states (x, T)."""

    system: ContinuousDynamics
    horizon: int

    def __call__(self, z: Any, u: Any, *p: Any) -> Any:
        """The next (x, T)."""
        own = self.system
        x, T, space = z[: own.nx].copy(), z[own.nx :], as_space(own.state, own.nx)
        one = INTEGRATORS[own.integrator](own.f, T[0] / (self.horizon * own.substeps), space)
        for _ in range(own.substeps):
            x = one(x, u, *p)
        return np.concatenate([x, T])


@dataclass(frozen=True, eq=False)
class TimePrice:
    """Price [1/s] of T, the last of states (x, T)."""

    price: float

    def __call__(self, z: Any, u: Any) -> Any:
        """The cost."""
        return self.price * z[-1]


def timed_steps(system: ContinuousDynamics, horizon: int) -> FunctionDynamics:
    """The system of states (x, T), in steps of T / horizon."""
    nx, space = system.nx, as_space(system.state, system.nx)
    if system.integrator not in INTEGRATORS or system.derivatives != "traced":
        raise ProblemError(
            "dynamics: expected explicit steps with traced derivatives, whose time can be free, got"
            f" integrator={system.integrator!r}, derivatives={system.derivatives!r}"
        )

    state = None if space.is_plain else Space((*space.parts, Euclidean(1)))
    return FunctionDynamics(TimedStep(system, horizon), nx + 1, system.nu, system.dt, state, system.parameters)


def freed(problem: Problem, least: float, most: float, price: float) -> Problem:
    """The problem of (x, T), T from least to most [s], whose time costs a price [1/s], too."""
    N, usual = problem.horizon, problem.horizon * problem.dynamics.dt
    if any(placed.cap is not None for placed in problem.placed):
        raise ProblemError("constraints: expected none that is Soft where time is free: give it as a cost of its own")
    plain: Any = problem.dynamics
    system, places = timed_steps(plain, N), Places(plain)
    entries = [
        entry._replace(term=TimedTerm(entry.term, places, usual if entry.density else None))
        for entry in problem.objective.entries
    ]
    during, at, terminal = by_knots(entries, problem)
    held: dict[Any, list[Any]] = {}
    number = count()
    at_end = held_by_knots(
        held, problem, 1, lambda constraint: TimedConstraint(constraint, places, next(number)), given=True
    )
    if price:
        terminal = [*terminal, TimePrice(price)]
    timed = Problem(
        dynamics=system, running=[], during=during, at=at, terminal=terminal, x0=np.append(problem.x0, usual),
        horizon=N, control_limits=(problem.lower, problem.upper) if problem.limited else None,
    )
    per = _time_per(problem)
    start = free_start(timed, per * np.eye(system.n)[:, places.n :])
    low, high = (np.array(side) for side in (start.lower, start.upper))
    low[0, 0], high[0, 0] = (least - usual) / per, (max(most, least + SLACK) - usual) / per
    return replace(start, control_limits=(low, high), constraints_at=held, terminal_constraints=at_end, guess=None)


def _time_per(problem: Problem) -> float:
    """Time [s] that a unit of the first control, which sets it, adds: one, unless its limits tell of other units.

    Then it is a power of two, by which the time in the problem is as much as these limits: a control has one unit.
    """
    T, size = problem.horizon * problem.dynamics.dt, 1.0
    if problem.limited:
        size = float(np.abs([problem.lower[:, 0], problem.upper[:, 0]]).max())
    far = 0.0 < size < np.inf and not ORDINARY[0] <= size <= ORDINARY[1]
    return float(np.exp2(np.round(np.log2(T / size)))) if far else 1.0


def solve_free_time(
    problem: Problem, least: float, most: float, price: float, solver: DDP, guess: Start,
    callback: Callable[[Record], None] | None, workers: int | str,
) -> tuple[Solution, float, float]:
    """The best motion in the best time [s], as a solution of a problem in such steps, and what a second more costs."""
    start, plain, nu = freed(problem, least, most, price), problem.dynamics, problem.dynamics.nu
    history = list[Record]()
    assert isinstance(plain, ContinuousDynamics)
    try:
        first = _led(problem, start, (least, most, price), solver, guess, callback, workers, history)
        left = replace(solver, max_iterations=solver.max_iterations - len(history))
        found = solve(start, left, first, callback, False, workers)
    except DDPError as error:
        error.args = (_in_own_words(str(error), start, problem),)
        raise
    words = found.status.replace(limit_reached(left.max_iterations), limit_reached(solver.max_iterations), 1)
    found = replace(found, status=Status(words, found.status.ending))
    found = told(found, [*history, *found.history], solver.max_iterations)
    T = float(found.X[-1, -1])
    problem_in_time = replaced(problem, lambda thing: thing, replace(plain, dt=T / problem.horizon))
    X, U, n = found.X[1:, :-1].copy(), found.U[1:].copy(), plain.n
    multipliers, penalties = _matched(found, problem)
    d = start.allocate()
    start.expand(found.X, start.padded(found.U), d, 0, start.horizon + 1)
    if found.multipliers.size:
        start.add_forces(found.X, found.U, found.multipliers, d.lz)
    finite = bool(np.isfinite(X).all())
    status = Status(_in_own_words(found.status, start, problem), found.status.ending)
    own = replace(
        found, status=status, X=X, U=U, k=found.k[1:, :nu].copy(), K=found.K[1:, :, :n].copy(), problem=problem_in_time,
        cost=problem_in_time.total(X, U) if finite else found.cost, multipliers=multipliers, penalties=penalties,
        violation=problem_in_time.violation(X, U) if finite and multipliers.size else found.violation,
    )
    return own, T, float(costates(d.A, d.lz)[1, -1])


def _led(
    problem: Problem, start: Problem, within: tuple[float, float, float], solver: DDP, guess: Start,
    callback: Callable[[Record], None] | None, workers: int | str, history: list[Record],
) -> Any:  # fmt: skip
    """Guess of a motion of (x, T): where costs are not curved along controls, what cheap squares of these have led to.

    start: its problem.   within: least, most and price of the time.   history: empty, for records on the way. Earlier
    solutions are not led elsewhere.
    """
    best = _guessed(problem, guess)
    given = problem.guess if guess is None else guess
    if not (problem.limited and solver.full_space(start)) or isinstance(given, Followed):
        return best
    effort = _effort(start, within[2])
    if effort is None:
        return best
    eased, most = freed(replace(problem, running=[*problem.running, effort]), *within), solver.max_iterations // 2

    def at(share: float) -> Problem:
        """The problem with such a share of the effort."""
        cheap = replace(effort, weights=share * effort.weights)

        def own(thing: Any) -> Any:
            return replace(thing, term=cheap) if isinstance(thing, TimedTerm) and thing.term is effort else thing

        return replaced(eased, own, eased.dynamics)

    for share in EFFORTS:
        if most < 1:
            break
        found = solve(at(share), replace(solver, max_iterations=most), best, callback, False, workers)
        history += found.history
        if not found.converged:
            break
        best, most = found, min(SOON, solver.max_iterations - len(history) - 1)
    return best


def _effort(start: Problem, price: float) -> ControlCost | None:
    """Squares of controls that have limits and along which costs are not curved; None if there are none.

    At a limit each costs as much as a second.   start: the problem of (x, T).   price: of time, beside running costs.
    """
    N, nu, n = start.horizon, start.dynamics.nu, start.dynamics.n
    lower, upper = start.lower[1:N], start.upper[1:N]
    with np.errstate(invalid="ignore"):
        middle, half = 0.5 * (lower + upper).mean(axis=0), 0.5 * (upper - lower).max(axis=0)
    finite = np.isfinite(half) & (half > 0.0)
    middle, half = np.where(finite, middle, 0.0), np.where(finite, half, 1.0)
    X, U, d = np.tile(start.x0, (N + 1, 1)), np.zeros((N, nu)), start.allocate()
    U[1:] = middle + 0.5 * finite * half
    start.expand(X, start.padded(U), d, 0, N + 1, FIRST | EXACT)
    curved = np.einsum("kii->ki", d.hessians(start.separable))[1:N, n:].any(axis=0)
    second = price + float(np.abs(start.values(X, U)[1:N]).sum()) / start.x0[-1]
    weights = np.where(finite & ~curved, 2.0 * second / half**2, 0.0)
    return ControlCost(middle, weights) if weights.any() and np.isfinite(weights).all() else None


def _in_own_words(text: str, timed: Problem, problem: Problem) -> str:
    """A sentence about the problem of (x, T) with the names and knots of the problem itself."""
    own = {id(inside(entry.term)): entry.name for entry in problem.objective.entries}
    names = {entry.name: own.get(id(inside(entry.term)), "the price of time") for entry in timed.objective.entries}
    names |= {placed.name: problem.placed[_origin(placed)[0]].name for placed in timed.placed}
    if names:  # all at once: one's own name may be another's
        every = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
        text = re.sub(every, lambda found: names[found[0]], text)
    return re.sub(r"knot (\d+)", lambda found: f"knot {max(int(found[1]) - 1, 0)}", text)


def _guessed(problem: Problem, guess: Start) -> Any:
    """A guess of the problem's motion as one of (x, T) and controls, with a knot before it."""
    guess = problem.guess if guess is None else as_guess(guess, problem.dynamics, problem.horizon)
    if guess is None:
        return None
    T = problem.horizon * problem.dynamics.dt
    if isinstance(guess, np.ndarray):
        return np.vstack([np.zeros((1, problem.dynamics.nu)), guess])
    X, U = (guess.X, guess.U) if isinstance(guess, Followed) else guess
    if (system := getattr(getattr(guess, "problem", None), "dynamics", None)) is not None:
        T = problem.horizon * system.dt
    timed = np.hstack([X, np.full((len(X), 1), T)])
    first = np.append(problem.x0, problem.horizon * problem.dynamics.dt)
    before = np.zeros((1, problem.dynamics.nu))
    before[0, 0] = (T - first[-1]) / _time_per(problem)
    return np.vstack([first, timed]), np.vstack([before, U])


def _matched(found: Solution, problem: Problem) -> tuple[Array, Array]:
    """Multipliers and penalties of a solution of (x, T) in the order of the problem's own constraints."""
    timed = found.problem.placed if found.problem is not None else ()
    y, penalties = np.zeros(sum(placed.lower.size for placed in problem.placed)), np.zeros(len(problem.placed))
    for penalty, other in zip(found.penalties, timed, strict=True):
        i, rows = _origin(other)
        knots = np.arange(other.start, other.stop) - 1 - problem.placed[i].start
        problem.placed[i].own(y)[knots, rows] = other.own(found.multipliers)
        penalties[i] = max(penalties[i], penalty)
    return y, penalties


def _origin(placed: Placed) -> tuple[int, Any]:
    """Which of the problem's own constraints one of (x, T) is, and its rows of that."""
    own: Any = placed.constraint
    rows: Any = slice(None)
    if isinstance(own, SomeRows):
        own, rows = own.constraint, own.rows
    assert isinstance(own, TimedConstraint)
    return own.number, rows
