"""Solving a problem: the options, the guess, and who makes the derivatives."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Literal, get_args

import numpy as np

from ddp.augmented import AugmentedLagrangian, ConstraintMethod
from ddp.checkpoint import Checkpoint, Kept, beginning, together
from ddp.compiling import announce
from ddp.compiling.interrupts import is_of_interrupt
from ddp.compiling.setup import Stopwatch
from ddp.errors import (
    ProblemError,
    SolveError,
    as_array,
    flag,
    instance,
    integer,
    positive,
    positive_integer,
    said,
    settle_by,
)
from ddp.guesses import Guess, Start, as_guess
from ddp.interior.handover import is_underactuated
from ddp.iterate import Iterate
from ddp.loop import run
from ddp.models.attempt import HessianModel, Limits
from ddp.models.built_in import Mixed, gauss_newton, levenberg_marquardt
from ddp.models.globalisation import SHIFT
from ddp.models.regularization import Regularization
from ddp.parallel.differentiator import Differentiator
from ddp.parallel.workers import WorkerError, Workers, as_workers, differentiator
from ddp.problem import Problem
from ddp.sanity import look
from ddp.search import Backtracking, Search
from ddp.solutions.record import Record, Watcher
from ddp.solutions.solution import Solution
from ddp.solutions.status import Ending, Status
from ddp.sweeps.inertia import MINIMUM

PATIENCE = 200
"""Iterations after which constraints are held in another way."""

FAILED = (
    Ending.NO_STEP, Ending.INDEFINITE, Ending.ITERATIONS, Ending.NOT_FINITE, Ending.INFEASIBLE, Ending.ROUNDS,
    Ending.STRUGGLES,
)  # fmt: skip
"""Endings of full-space steps after which constraints are held in another way."""

Hessian = Literal["auto", "gauss-newton", "exact"]
Multipliers = Literal["auto", "value", "costate", "policy"]
Steps = Literal["rollout", "linear", "auto"]
HessianModels = Callable[[Limits], HessianModel]

MODELS: dict[str, HessianModels] = {"auto": Mixed, "gauss-newton": gauss_newton, "exact": levenberg_marquardt}


@dataclass(frozen=True)
class DDP:
    """Differential dynamic programming with exact second derivatives of dynamics and costs.

    tolerance: convergence is when the unregularised quadratic model expects the cost to decrease by no more than
        this, relative to the cost that depends on the motion: the smaller one of Σ|l| of all knots and of what it fell
        by, with ½ Σ l_uu u². So costs may come in any unit, with any constant: the motion is the same. For costs about
        one it is the measure of Crocoddyl's ``th_stop``.
    max_iterations: after this many the solve ends, not converged.
    hessian: which model of the Hessian is swept over, and what protects it (`ddp.models`):
        "auto"          Gauss-Newton far away, exact near the optimum
        "gauss-newton"  iLQR
        "exact"         exact from the start with Levenberg-Marquardt damping: slower, and may find other minima
        or one of one's own, a function or class that is called with `Limits` at every solve and makes a `HessianModel`.
    switch: "auto" turns to exact Hessians when the expected decrease falls below ``switch`` times the cost: 1e-3 is
        cautious, 1e-1 eager.
    max_regularization: beyond this mu, times the mean diagonal of l_uu where that is more than 1, the solve ends, not
        converged.
    multipliers: the vector that the dynamics' second order is contracted with:
        "value"    V_x of the sweep, known knot by knot; the sweep contracts one knot after another
        "costate"  the adjoint of the trajectory, known before; all knots at once, once an iterate: see `Newton`. May
                   take twice as many iterations
        "policy"   V_x under the gains of the last sweep, known before; within a few per cent V_x's iterations
        "auto"     the policy's where the dynamics contract many knots faster than one by one, as those of robots do
                   (semi-implicit steps and phases of contacts); else V_x, and the costate after an exact step that
                   kept its promise, where they mean the same
        "policy" and "auto" are V_x where no sweep has succeeded yet, and as long as gaps are open.
    reuse: for how many iterations the contracted second order of the dynamics is used again (quasi-Newton): 0 is exact
        and converges quadratically; 1 or 2 save the derivatives of functions, whose tensors cost many evaluations each,
        for a few iterations more. It is renewed where it does not serve. Costs' Hessians are always of the iterate.
    constraints: how steps by rollouts hold the problem's constraints, if it has any; None: `AugmentedLagrangian`.
    segments: 1, or how many parts of the horizon are swept at once, by as many threads less one (`segments`): gains
        are the same but for rounding. For Gauss-Newton's Hessians and multipliers known before; V_x of the sweep is
        only known one knot after another. Where gaps are open or controls have limits, sweeps are of one piece.
    search: how far to go along the policy of a sweep: `Backtracking`, or a `Search` of one's own.
    regularization: how mu follows sweeps and steps: a `Regularization`; None: the model's own rule.
    last_sweep: whether a solve that ``max_iterations`` ends is swept once more for its gains; without it they are
        those of the last iteration, about the trajectory before, for a third of the time of two iterations.
    step: how states move along a step:
        "rollout"  by the dynamics, under the policy of the sweep; constraints are held by ``constraints``
        "linear"   as the linear model says, gaps open on the way: the full-space primal-dual interior point of
                   `ddp.interior`, with its own multipliers, Hessians and search. Limits of controls and constraints are
                   rows with slacks, and never violated by more than the tolerance
        "auto"     linear with constraints, after a few rollouts without them; else by rollouts until these struggle, by
                   a step of an eighth or less within limits of controls, by two in a row where controls are fewer than
                   the coordinates that they move, and then linear as long as that goes further. By rollouts alone
                   with options of theirs: another ``hessian``, ``multipliers`` or ``constraints``; without limits also
                   another ``search`` or ``regularization``
    """

    tolerance: float = 1e-9
    max_iterations: int = 1000
    hessian: Hessian | HessianModels = "auto"
    switch: float = 1e-2
    max_regularization: float = 1e9
    multipliers: Multipliers = "auto"
    reuse: int = 0
    constraints: ConstraintMethod | None = None
    segments: int = 1
    search: Search = field(default_factory=Backtracking)
    regularization: Regularization | None = None
    last_sweep: bool = True
    step: Steps = "auto"

    def __post_init__(self) -> None:
        settle_by(self, positive, "tolerance", "switch", "max_regularization")
        settle_by(self, positive_integer, "max_iterations", "segments")
        settle_by(self, integer, "reuse")
        for name, choices in (("hessian", Hessian), ("multipliers", Multipliers), ("step", Steps)):
            known = get_args(choices)
            value = getattr(self, name)
            if not (isinstance(value, str) and value in known) and not (name == "hessian" and callable(value)):
                raise ProblemError(f"{name}: expected one of {', '.join(map(repr, known))}, got {said(value)}")
        flag("last_sweep", self.last_sweep)
        if self.max_regularization < SHIFT:
            raise ProblemError(
                f"max_regularization: expected at least {SHIFT:g}, what the solve starts with, "
                f"got {self.max_regularization:g}"
            )
        if self.constraints is not None:
            example = "AugmentedLagrangian(...)"
            _check_part("constraints", self.constraints, example, "relaxed", "minimise", "certified")
        _check_part("search", self.search, "Backtracking(...)", "__call__")
        if self.regularization is not None:
            _check_part("regularization", self.regularization, "Tenfold(...) or ByRatio(...)", "raised", "stepped")

    def full_space(self, problem: Problem) -> bool:
        """Whether steps of a problem are linear."""
        return self.step == "linear" or (self._open and problem.constrained)

    def approaches(self, iterate: Iterate) -> bool:
        """Whether a solve with constraints begins by rollouts without them.

        Not with an earlier solve's multipliers, nor from states that are given where equalities have to hold, from
        which rollouts without these would lead away.
        """
        if not (self._open and iterate.constrained):
            return False
        guess = iterate.guess
        led = guess is not None and guess.imposed and bool(iterate.problem.rows.equal.any())
        return not led and (guess is None or guess.earlier is None)

    @property
    def _open(self) -> bool:
        """Whether it is left to the solver how states move."""
        plain = self.hessian == "auto" and self.multipliers == "auto" and self.constraints is None
        return plain and self.step == "auto"

    def attempts(self, problem: Problem) -> list[DDP]:
        """Solvers to try one after the other where one fails; the first may end early if others follow."""
        if not (self._open and problem.constrained):
            return [self]
        early = replace(self, max_iterations=min(self.max_iterations, PATIENCE))
        return [early, replace(self, step="rollout")]

    def hands_over(self, problem: Problem) -> bool:
        """Whether steps of a problem become linear where rollouts struggle."""
        own = self.search == _searched() and self.regularization is None
        return self._open and not problem.constrained and (problem.limited or (own and is_underactuated(problem)))

    @property
    def holding(self) -> ConstraintMethod:
        """The method by which steps by rollouts hold constraints."""
        return _held() if self.constraints is None else self.constraints

    def relaxed(self, problem: Problem, guess: Start) -> Problem:
        """The problem that descents minimise: the given one, or one with its constraints in the cost."""
        return problem if self.full_space(problem) else self.holding.relaxed(problem, guess)

    def model(self, limits: Limits) -> HessianModel:
        """The model of the Hessian of one solve."""
        make = MODELS[self.hessian] if isinstance(self.hessian, str) else self.hessian
        return make(limits)


def as_solver(solver: DDP | None) -> DDP:
    """The solver that is given, by default `DDP`, checked."""
    chosen = _default() if solver is None else solver
    instance("solver", chosen, DDP, "DDP(...), ILQR(...) or Newton(...)")
    return chosen


_default, _held, _searched = cache(DDP), cache(AugmentedLagrangian), cache(Backtracking)


def _check_part(name: str, part: object, example: str, *methods: str) -> None:
    """Raise ProblemError unless a part of the solver is an object with these methods."""
    if isinstance(part, type) or not all(callable(getattr(part, method, None)) for method in methods):
        raise ProblemError(f"{name}: expected {example}, got {said(part)}")


def ILQR(
    tolerance: float = 1e-9, max_iterations: int = 1000, max_regularization: float = 1e9,
    constraints: ConstraintMethod | None = None,
) -> DDP:  # fmt: skip
    """Iterative LQR: `DDP` with ``hessian="gauss-newton"`` and nothing else changed."""
    held = constraints
    return DDP(tolerance, max_iterations, "gauss-newton", max_regularization=max_regularization, constraints=held)


def Newton(
    tolerance: float = 1e-9, max_iterations: int = 1000, hessian: Hessian | HessianModels = "auto",
    max_regularization: float = 1e9
) -> DDP:
    """Stagewise Newton (Pantoja 1988): `DDP` with ``multipliers="costate"`` and nothing else changed.

    It has the same optima, gains and order of convergence. An iteration costs no more, and less where several models
    are tried at an iterate; far away it may take more of them, up to twice as many.
    """
    return DDP(tolerance, max_iterations, hessian, max_regularization=max_regularization, multipliers="costate")


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
        would: then these are imposed; a pair (X, U), which imposes the states X (N+1, nx), but for
        X[0] = x0: where they do not follow from U, gaps are open at first and closed on the way; a `Solution`, whose
        policy ``u = U + K (x ⊖ X)`` is followed from x0, so that it also serves where motion is unstable; where that
        diverges, has no finite cost or a hundred times that of its states, these are imposed; None: the
        problem's own, else the dynamics' nominal control at x0, at every knot, as if given as U. Controls are moved
        into the problem's limits.
    callback: called with the `Record` of every iteration; or a `Watcher`, which is shown states and controls too, such
        as `viz.Live`.
    throw: raise SolveError, with ``.solution``, if the solve does not converge; else return the best iterate.
    workers: how many threads or processes share the derivatives; results are the same to the last bit. A number means
        threads if dynamics, terms and constraints are all built in, processes if one is not (`Workers`);
        "threads:2" and "processes:2" force it; "auto" shares them where the first iterates show that it pays.
    checkpoint: a file (.npz) that is written every twenty iterations, and where it exists already goes on from there,
        with the same result, to the last bit, as if nothing had ended the solve before; the guess is that of the first
        time. A new solve needs a new name, or the file removed. It is a file of a `Solution`, too.

    Where it ends, the exact Hessian of the cost in the controls is looked at, whatever the solver's own is: saddles and
    maxima are left along negative curvature, and the solve goes on. What remains is in ``solution.kind``; one of these,
    because iterations have come to their limit or costs have no minimum, has not converged.

    Constraints are held by full-space steps (``step`` of `DDP`): gains keep what is at its bound. Where these fail or
    end at no minimum the augmented Lagrangian (`augmented`) is tried, whose gains give way to what disturbs them as
    much as the last penalties let them; where constraints cannot be met the status says so.

    Raises ProblemError for bad input, before any work, or when a term's own code fails; SolveError, whatever
    ``throw`` is, if a worker dies. KeyboardInterrupt ends the solve at once; like every other way out, it
    leaves no process and no shared memory behind.
    """
    start = Stopwatch()
    instance("problem", problem, Problem)
    solver = as_solver(solver)
    if not (callback is None or callable(callback) or isinstance(callback, Watcher)):
        raise ProblemError(f"callback: expected a function of a Record, got {said(callback)}")
    flag("throw", throw)
    problem.renew()
    look(problem)
    guess = problem.guess if guess is None else guess
    policy = start_policy(problem, guess)
    crew = as_workers(workers)
    if checkpoint is None:
        outcome = _attempted(problem, solver, guess, policy, crew, callback, start, [])
    else:
        kept = Kept(checkpoint, problem, replace(solver, max_iterations=1))  # however many there may be
        outcome = _in_legs(problem, solver, guess, crew, callback, start, kept)
    announce.finish()
    if throw and not outcome.converged:
        raise SolveError(str(outcome), outcome)
    return outcome


def _in_legs(
    problem: Problem, solver: DDP, guess: Start, crew: Workers,
    callback: Callable[[Record], None] | Watcher | None, start: Stopwatch, kept: Kept,
) -> Solution:  # fmt: skip
    """Go on from the checkpoint, leg by leg; see checkpoint.py."""
    so_far, limit = kept.load(), solver.max_iterations
    while so_far is None or kept.goes_on(so_far, limit):
        leg, history = replace(solver, max_iterations=kept.leg(so_far, limit)), list[Record]()
        if so_far is not None:
            guess, history, start = beginning(so_far), [*so_far.history], Stopwatch()
        policy = start_policy(problem, guess)
        so_far = together(so_far, _attempted(problem, leg, guess, policy, crew, callback, start, history))
        kept.save(so_far)
    return so_far


def _attempted(
    problem: Problem, solver: DDP, guess: Start, policy: Guess, crew: Workers,
    callback: Callable[[Record], None] | Watcher | None, start: Stopwatch, history: list[Record],
) -> Solution:  # fmt: skip
    """Solve in one way or, where that fails, another.

    policy: what the guess means.   history: records of what was done before.
    """
    first, *others = solver.attempts(problem)
    outcome = _solved(problem, first, guess, policy, crew, callback, start, history)
    tried = first
    for other in others:
        if not may_be_better(outcome, solver, tried.full_space(problem)):
            break
        impossible = outcome.status.ending is Ending.INFEASIBLE
        if impossible:  # so it seems: a doubt is worth a few iterations
            other = replace(other, max_iterations=min(other.max_iterations, len(history) + PATIENCE))
        tried = other
        second = _solved(problem, other, guess, start_policy(problem, guess), crew, callback, start, history)
        confirmed = second.status.ending in (Ending.INFEASIBLE, Ending.SADDLE)
        if second.converged or confirmed or not (outcome.converged or impossible):
            outcome = second
    return outcome


def may_be_better(outcome: Solution, solver: DDP, linear: bool) -> bool:
    """Whether it is worth to hold constraints in another way; ``linear``: after full-space steps."""
    if outcome.multipliers.size == 0 or outcome.iterations >= solver.max_iterations:
        return False
    return linear and outcome.kind != MINIMUM if outcome.converged else outcome.status.ending in FAILED


def _solved(
    problem: Problem, solver: DDP, guess: Start, policy: Guess, crew: Workers,
    callback: Callable[[Record], None] | Watcher | None, start: Stopwatch, history: list[Record],
) -> Solution:  # fmt: skip
    """Solve with the derivatives of a crew."""
    goal = solver.relaxed(problem, guess)
    try:
        with differentiator(goal, crew) as work:
            return descend_from(goal, solver, policy, work, callback, start, history)
    except RuntimeError as reason:
        if is_of_interrupt(reason):  # of a lock that Python's threading gave up for it
            raise KeyboardInterrupt from reason
        raise


def descend_from(
    goal: Problem, solver: DDP, policy: Guess, work: Differentiator,
    callback: Callable[[Record], None] | Watcher | None, start: Stopwatch, history: list[Record] | None = None,
) -> Solution:  # fmt: skip
    """Solve a problem without constraints, or relaxed, with the memory and the processes of ``work``.

    history: records of what was tried before, to which all others are added.
    """
    history = [] if history is None else history
    certified = solver.holding.certified
    with np.errstate(all="ignore"):
        iterate = Iterate(goal, work, policy, solver.multipliers, solver.reuse, solver.segments, solver.search)
        try:
            status, sweep, kind = run(iterate, solver, history, callback)
        except WorkerError as failure:
            status = Status(f"not converged after {len(history)} iterations, {failure}", Ending.WORKER)
            failure.solution = certified(iterate.solution(status, tuple(history), start, None))
            raise
        return certified(iterate.solution(status, tuple(history), start, sweep, kind))


def start_policy(problem: Problem, guess: Start) -> Guess:
    """The policy that a guess means."""
    d, N = problem.dynamics, problem.horizon
    guess = as_guess(guess, d, N)
    if guess is None:
        guess = np.full((N, d.nu), as_array("dynamics.nominal_control", d.nominal_control(problem.x0), (d.nu,)))
    if isinstance(guess, np.ndarray):
        return Guess(np.full((N + 1, d.nx), problem.x0), guess, np.zeros((N, d.nu, d.n)), alone=True)
    if isinstance(guess, tuple):
        X, U = guess
        X[0] = problem.x0
        return Guess(X, U, np.zeros((N, d.nu, d.n)), imposed=True)
    X, U = guess.X.copy(), guess.U.copy()
    U[0] += guess.K[0] @ d.difference(X[0], problem.x0)
    X[0] = problem.x0
    return Guess(X, U, guess.K.copy(), earlier=guess)
