"""Terms, constraints and whole problems of a system, for a composition around it: `dynamics.augment`, `FreeStart`."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ddp.constraints.constraint import Soft
from ddp.constraints.placement import Placed, idle
from ddp.costs.batch import BatchTerm, ability, check_tangents, even, weights_of
from ddp.costs.compiled import CompiledTerm
from ddp.costs.entries import Entry
from ddp.costs.traced import TracedTerm
from ddp.doubts import tell
from ddp.errors import ProblemError, as_array, instance, items, said, suggesting
from ddp.problem import Problem
from ddp.protocols import Array, Constraint, CostFunction, Term
from ddp.solutions.explanation import misses_of
from ddp.solutions.solution import Solution
from dynamics.robots.omissions import listed
from dynamics.steps.augmented import Augmented
from dynamics.steps.free_start import FreeStart, inside
from problems.costs import ControlCost

SHOWN = 4
"""Names of numbers that an error lists."""


@dataclass(frozen=True, eq=False)
class TermWithin:
    """Abilities of a cost term that has another one within."""

    term: BatchTerm
    lifts: ClassVar[str] = "term"

    @property
    def thread_safe(self) -> bool:
        return bool(ability(self.term, "thread_safe"))

    @property
    def knots(self) -> int | None:
        return ability(self.term, "knots")  # type: ignore[no-any-return]

    def part(self, start: int, stop: int) -> Self:
        """Part for its knots start .. stop-1."""
        return replace(self, term=ability(self.term, "part")(start, stop))


class ConstraintWithin:
    """Bounds and names of a constraint that has another one within."""

    constraint: Constraint
    lifts: ClassVar[str] = "constraint"

    @property
    def lower(self) -> Array:
        return self.constraint.lower

    @property
    def upper(self) -> Array:
        return self.constraint.upper

    @property
    def row_names(self) -> Sequence[str]:
        return ability(self.constraint, "row_names")  # type: ignore[no-any-return]


@dataclass(frozen=True, eq=False)
class LiftedTerm(TermWithin):
    """A cost term of a system's x and u, as one of the states (x, s) and controls r of an `Augmented` around it.

    term: a `BatchTerm`, as those of `problems.costs` are.   system: the composition.
    """

    term: BatchTerm
    system: Augmented

    def __post_init__(self) -> None:
        _check(self.term, BatchTerm, self.system)
        check_tangents("term", self.term, self.system.system.n)

    @property
    def composed_of(self) -> tuple[Any, BatchTerm, bool]:
        fixed = isinstance(self.term, CompiledTerm) and not isinstance(self.term, TracedTerm)  # which may be renewed
        return self.system, self.term, fixed

    def missed(self, x: Array) -> Iterator[str]:
        """Distances of a state (x, s) from the term's target, in words, if it has one."""
        return misses_of([self.term], x[: self.system.system.nx])

    def values(self, X: Array, U: Array) -> Array:
        """The costs (M,) of states (x, s) and controls r."""
        return self.term.values(*self.system.inner(X, U))

    def expand(self, X: Array, U: Array, weight: float, exact: bool, l: Array, lz: Array, lzz: Array) -> None:
        """Add weight times value, gradient and Hessian."""

        def own(x: Array, u: Array, *out: Array) -> None:
            self.term.expand(x, u, weight, exact, *out)

        self.system.add_pulled(own, exact, X, U, l, lz, lzz)


@dataclass(frozen=True, eq=False)
class LiftedConstraint(ConstraintWithin):
    """A constraint of a system's x and u, as one of the states (x, s) and controls r of an `Augmented` around it."""

    constraint: Constraint
    system: Augmented

    def __post_init__(self) -> None:
        _check(self.constraint, Constraint, self.system)
        check_tangents("constraint", self.constraint, self.system.system.n)

    def values(self, X: Array, U: Array) -> Array:
        """c (M, size)."""
        return self.constraint.values(*self.system.inner(X, U))

    def jacobian(self, X: Array, U: Array) -> Array:
        """``∂c/∂z`` (M, size, nz)."""
        x, u, G = self.system.inner_and_slopes(X, U)
        return self.system.pulled_slopes(G, self.constraint.jacobian(x, u))

    def curvature(self, X: Array, U: Array, weight: Array) -> Array:
        """``Σ_i weight_i ∂²c_i/∂z²`` (M, nz, nz)."""
        x, u, G = self.system.inner_and_slopes(X, U)
        slope = np.einsum("ki,kij->kj", weight, self.constraint.jacobian(x, u))
        out = np.zeros((len(X), *2 * [self.system.n + self.system.nr]))
        self.system.pull_bends(X, U, G, slope, self.constraint.curvature(x, u, weight), True, out)
        return out


def _check(thing: Any, kind: Any, system: Any) -> None:
    if isinstance(thing, type) or not isinstance(thing, kind):
        raise ProblemError(f"{kind.__name__}: expected a ready-made one, of problems.costs say, got {said(thing)}")
    instance("system", system, Augmented, "an Augmented")


def by_knots(
    entries: Sequence[Entry], problem: Problem, later: int = 0
) -> tuple[dict[range, list[Any]], dict[int, list[Any]], list[Any]]:
    """Terms of stretches, of single knots and of the end, so many knots later."""
    during, at, terminal = dict[range, list[Any]](), dict[int, list[Any]](), list[Any]()
    for entry in entries:
        knots = range(entry.begin + later, entry.end + later)
        if entry.density:
            during.setdefault(knots, []).append(entry.term)
        elif entry.begin < problem.horizon:
            at.setdefault(knots.start, []).append(entry.term)
        else:
            terminal.append(entry.term)
    return during, at, terminal


def held_by_knots(
    held: dict[Any, list[Any]], problem: Problem, later: int, made: Callable[[Constraint], Any], given: bool = False
) -> list[Any]:
    """Add what is made of a problem's constraints by their knots, so many later; returns those of the end.

    given: x0 stays what it is, and rows that it alone decides are held at later knots alone.
    """
    N, at_end, weights = problem.horizon, list[Any](), weights_of(problem.dynamics, problem.horizon)
    for placed in problem.placed:
        own, knots = made(placed.constraint), range(placed.start, min(placed.stop, N))
        rows = np.isfinite(placed.lower[0]) | np.isfinite(placed.upper[0])
        if given and placed.start == 0 and not rows.all():
            if rows.any():
                held.setdefault(later, []).append(_softened(SomeRows(own, rows), placed, 0, rows))
            knots = knots[1:]
        for run in [knots] if placed.cap is None else even(weights, knots):
            if run:
                where = range(run.start + later, run.stop + later)
                held.setdefault(where if len(run) > 1 else where.start, []).append(_softened(own, placed, run.start))
        if placed.stop > N:
            free = np.isinf(placed.constraint.lower) & np.isinf(placed.constraint.upper)  # till these vary
            free &= idle(placed.constraint, problem.x0, problem.dynamics)
            rows = np.isfinite(placed.lower[-1]) | np.isfinite(placed.upper[-1]) | free
            at_end.append(_softened(own if rows.all() else SomeRows(own, rows), placed, N, rows))
    return at_end


def _softened(constraint: Any, placed: Placed, knot: int, rows: Any = slice(None)) -> Any:
    """The constraint, some rows of one, as soft as it is at a knot: its price there, in place of a density."""
    if placed.cap is None or placed.compliance is None:
        return constraint
    cap, compliance = placed.cap[knot - placed.start][rows], placed.compliance[knot - placed.start][rows]
    return Soft(constraint, cap) if np.isfinite(cap).all() else Soft(constraint, 1.0 / compliance, "L2")


@dataclass(frozen=True, eq=False)
class SomeRows:
    """Some rows, told by flags (size,), of a constraint: those that no control enters, at the end of the horizon."""

    constraint: Constraint
    rows: NDArray[np.bool_]
    lifts: ClassVar[str] = "constraint"

    @property
    def lower(self) -> Array:
        return np.asarray(self.constraint.lower)[self.rows]

    @property
    def upper(self) -> Array:
        return np.asarray(self.constraint.upper)[self.rows]

    @property
    def row_names(self) -> Sequence[str]:
        return [name for name, some in zip(ability(self.constraint, "row_names"), self.rows, strict=False) if some]

    def values(self, X: Array, U: Array) -> Array:
        """c (M, some)."""
        return self.constraint.values(X, U)[:, self.rows]

    def jacobian(self, X: Array, U: Array) -> Array:
        """``∂c/∂z`` (M, some, nz)."""
        return self.constraint.jacobian(X, U)[:, self.rows]

    def curvature(self, X: Array, U: Array, weight: Array) -> Array:
        """``Σ_i weight_i ∂²c_i/∂z²`` (M, nz, nz)."""
        whole = np.zeros((len(X), len(self.rows)))
        whole[:, self.rows] = weight
        return self.constraint.curvature(X, U, whole)


@suggesting
def lifted(
    problem: Problem, system: Augmented, s0: ArrayLike | None = None, guess: ArrayLike | None = None,
    running: Sequence[Term | BatchTerm | CostFunction] = (), terminal: Sequence[Term | BatchTerm | CostFunction] = (),
    constraints: Sequence[Any] = (), terminal_constraints: Sequence[Any] = (),
    without: Sequence[Any] = (),
) -> Problem:  # fmt: skip
    """A problem with a composition around its system: costs and constraints are those of x and u, and more.

    s0 (ns,): what is beside x at first; default none, where ns is 0.   guess (N, nr): default zeros.
    running, terminal, constraints, terminal_constraints: those of the composition's own states and controls.
    without: terms of the problem to leave out.
    Limits of controls are the composition's; those of the problem are left out, as they are of u, and told of.
    """
    instance("problem", problem, Problem)
    if not isinstance(system, Augmented) or system.system is not problem.dynamics:
        raise ProblemError(f"system: expected an Augmented around the problem's dynamics, got {said(system)}")
    if s0 is None and system.ns:
        what = listed(system.named_memory[-system.ns :], SHOWN)
        raise ProblemError(f"s0: expected {system.ns} numbers, what these are at first: {what}; got none")
    tell(_left_out(problem, system))
    left = {id(one) for one in without}
    entries = [entry for entry in problem.objective.entries if id(entry.term) not in left]
    during, at, at_end = by_knots([entry._replace(term=LiftedTerm(entry.term, system)) for entry in entries], problem)
    whole = during.pop(range(problem.horizon), [])
    held: dict[Any, list[Any]] = {}
    held_at_end = held_by_knots(held, problem, 0, lambda constraint: LiftedConstraint(constraint, system))
    x0 = np.concatenate([problem.x0, as_array("s0", () if s0 is None else s0, (system.ns,))])
    return Problem(
        dynamics=system, running=[*whole, *running], during=during, at=at, terminal=[*at_end, *terminal], x0=x0,
        horizon=problem.horizon, constraints=constraints, constraints_at=held,
        terminal_constraints=[*held_at_end, *terminal_constraints],
        guess=np.zeros((problem.horizon, system.nr)) if guess is None else as_array("guess", guess, (None, system.nr)),
    )  # fmt: skip


@suggesting
def unlifted(solution: Solution) -> Solution:
    """The motion of a robot within compositions, as a solution of its own: states x, controls u that act on it.

    Its problem has no costs, constraints, or limits but the system's own, and the motion's start; its gains are zeros.
    ``policy``, ``feedback``, ``simulate`` and files then are those of the robot: they are told u, and know nothing of
    rates, delays and motors.
    """
    given = problem_of(solution).dynamics
    system, X, U = inside(given, solution.X, solution.U)
    if system is given or U is None:
        return solution
    problem = Problem(system, [], [], X[0], len(U))
    return replace(
        solution, X=X, U=np.ascontiguousarray(U), k=np.zeros_like(U), K=np.zeros((*U.shape, system.n)), problem=problem,
        multipliers=np.zeros(0), penalties=np.zeros(0),
    )  # fmt: skip


def problem_of(solution: Solution) -> Problem:
    """The problem that a solution is of; ProblemError for one without, and for what is no solution."""
    instance("solution", solution, Solution, "a Solution, which solve(problem) returns")
    if solution.problem is None:
        raise ProblemError("solution: expected one with its problem: solution.attached(problem) gives it back")
    return solution.problem


def _left_out(problem: Problem, system: Augmented) -> list[str]:
    """Sentence about limits of a problem's controls, if these are not those of the composition's."""
    limits = np.stack([problem.lower, problem.upper], axis=-1)
    if not problem.limited or (system.nr == problem.dynamics.nu and (system.control_limits == limits).all()):
        return []
    held = "constraints=[Inequality(lambda x, u: u, lower=..., upper=...)]"
    return [f"control_limits: those of the problem are left out by {system.name}: have {held} of the problem hold them"]


def free_start(
    problem: Problem, directions: ArrayLike | None = None, start: Sequence[Term | BatchTerm | CostFunction] = (),
    terminal_constraints: Sequence[Any] = (),
) -> Problem:  # fmt: skip
    """A problem whose initial state is free: x0 ⊕ E r, with costs on it, and knots before those of the problem.

    directions E (n, m): default all of (n, n).   start: terms of the initial state, where it is.
    Of the solution, ``X[problem.dynamics.before :]`` and ``U[before:]`` are the motion.
    """
    instance("problem", problem, Problem)
    system = FreeStart(problem.dynamics, directions)
    k, N = system.before, problem.horizon
    during, at, terminal = by_knots(problem.objective.entries, problem, k)
    if first := items("start", start, "terms"):
        at[k] = [*first, *at.get(k, [])]
    for knot in np.flatnonzero(system.idle.any(axis=1)).tolist():
        at.setdefault(knot, []).append(ControlCost(np.zeros(system.nu), system.idle[knot].astype(float)))
    held: dict[Any, list[Any]] = {}
    at_end = held_by_knots(held, problem, k, lambda constraint: constraint)
    at_end = [*at_end, *items("terminal_constraints", terminal_constraints, "constraints")]
    sides = (-np.inf, problem.lower), (np.inf, problem.upper)
    limits = [np.vstack([np.full((k, system.nu), side), own]) for side, own in sides]
    U = np.zeros((N, system.nu)) if not isinstance(problem.guess, np.ndarray) else problem.guess
    return Problem(
        dynamics=system, running=[], during=during, at=at, terminal=terminal, x0=problem.x0,
        horizon=N + k, constraints_at=held, terminal_constraints=at_end,
        control_limits=None if problem.control_limits is None else (limits[0], limits[1]),
        guess=np.vstack([np.zeros((k, system.nu)), U]),
    )  # fmt: skip
