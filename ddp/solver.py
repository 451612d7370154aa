"""The loop: derivatives, sweeps and line searches, until a model expects no decrease worth having."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ddp.constraints.augmented import AugmentedLagrangian, certified, minimise, relaxed
from ddp.errors import ProblemError, SolveError, as_array, flag, integer, positive, positive_integer, said
from ddp.globalisation import GAUSS_NEWTON, SHIFT, Attempt, Globalisation, shift
from ddp.guesses import Followed, Start, as_guess
from ddp.iterate import CLOSED, Guess, Iterate
from ddp.parallel.stages import Differentiator
from ddp.parallel.workers import WorkerError, Workers, as_workers, differentiator
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.solution import Record, Solution
from ddp.sweeps.backward import AUTO, COSTATE, POLICY, VALUE, Sweep

HESSIANS = ("auto", "gauss-newton", "exact")

SETTLED = 3
"""After this many iterations in a row that could not have been told from rounding, there is nothing to be gained."""


@dataclass(frozen=True)
class DDP:
    """Differential dynamic programming with exact second derivatives of dynamics and costs.

    tolerance: convergence is when the unregularised quadratic model expects the cost to decrease by no more than
        this (in units of the cost; the same measure as Crocoddyl's ``th_stop``). Where costs (Σ|l| of all knots) are
        less than 0.01 or more than 1000 it is relative to that bound: 1e-9 means 1e-12 of a cost of 1e9, and of a cost
        of 1e-9, 1e-16 or, if it has fallen from more than 1e-3 at the start, 1e-13 of a millionth of the start's.
    max_iterations: after this many the solve ends, not converged.
    hessian: "auto" is Gauss-Newton far away and exact near the optimum (`globalisation`); "gauss-newton" is
        iLQR; "exact" is exact from the start with Levenberg-Marquardt damping: slower, and may find other
        minima.
    switch: "auto" turns to exact Hessians when the expected decrease falls below ``switch`` times the cost: 1e-3 is
        cautious, 1e-1 eager.
    max_regularization: beyond this mu, times the mean diagonal of l_uu where that is more than 1, the solve ends, not
        converged.
    multipliers: what contracts the dynamics' second order. "value" is V_x of the sweep, one knot after another;
        "costate" is known before, so that all knots are contracted at once, and once an iterate: see `Newton`. "policy"
        is V_x under the gains of the last sweep, known before, too: within a few per cent it takes V_x's iterations,
        where costates may take twice as many. "auto" is the policy's where the dynamics contract many knots faster than
        one by one, as those of robots without contacts do (semi-implicit, controls without limits). For others it is
        V_x, and the costate after an exact step that kept its promise, where they mean the same. "policy" and "auto"
        are V_x where no sweep has succeeded yet, and as long as gaps are open.
    reuse: for how many iterations the contracted second order of the dynamics is used again (quasi-Newton): 0 is exact
        and converges quadratically; 1 or 2 save the derivatives of functions, whose tensors cost many evaluations each,
        for a few iterations more. It is renewed where it does not serve. Costs' Hessians are always of the iterate.
    constraints: how the problem's constraints are held, if it has any.
    segments: 1, or how many parts of the horizon are swept at once, by as many threads less one (`segments`): gains
        are the same but for rounding. For Gauss-Newton's Hessians and multipliers known before; V_x of the sweep is
        only known one knot after another. Where gaps are open or controls have limits, sweeps are of one piece.
    """

    tolerance: float = 1e-9
    max_iterations: int = 1000
    hessian: str = "auto"
    switch: float = 1e-2
    max_regularization: float = 1e9
    multipliers: str = AUTO
    reuse: int = 0
    constraints: AugmentedLagrangian = field(default_factory=AugmentedLagrangian)
    segments: int = 1

    def __post_init__(self) -> None:
        for name in ("tolerance", "switch", "max_regularization"):
            object.__setattr__(self, name, positive(name, getattr(self, name)))
        object.__setattr__(self, "max_iterations", positive_integer("max_iterations", self.max_iterations))
        for name, known in (("hessian", HESSIANS), ("multipliers", (AUTO, VALUE, COSTATE, POLICY))):
            if not isinstance(value := getattr(self, name), str) or value not in known:
                raise ProblemError(f"{name}: expected one of {', '.join(map(repr, known))}, got {said(value)}")
        object.__setattr__(self, "segments", positive_integer("segments", self.segments))
        object.__setattr__(self, "reuse", integer("reuse", self.reuse))
        if self.max_regularization < SHIFT:
            raise ProblemError(
                f"max_regularization: expected at least {SHIFT:g}, what the solve starts with, "
                f"got {self.max_regularization:g}"
            )
        if not isinstance(self.constraints, AugmentedLagrangian):
            raise ProblemError(f"constraints: expected AugmentedLagrangian(...), got {said(self.constraints)}")


def ILQR(
    tolerance: float = 1e-9, max_iterations: int = 1000, max_regularization: float = 1e9,
    constraints: AugmentedLagrangian | None = None,
) -> DDP:  # fmt: skip
    """Iterative LQR: `DDP` with ``hessian="gauss-newton"`` and nothing else changed."""
    held = AugmentedLagrangian() if constraints is None else constraints
    return DDP(tolerance, max_iterations, GAUSS_NEWTON, max_regularization=max_regularization, constraints=held)


def Newton(
    tolerance: float = 1e-9, max_iterations: int = 1000, hessian: str = "auto", max_regularization: float = 1e9
) -> DDP:
    """Stagewise Newton (Pantoja 1988): `DDP` with ``multipliers="costate"`` and nothing else changed.

    It has the same optima, gains and order of convergence. An iteration costs no more, and less where several models
    are tried at an iterate; far away it may take more of them, up to twice as many.
    """
    return DDP(tolerance, max_iterations, hessian, max_regularization=max_regularization, multipliers=COSTATE)


def solve(
    problem: Problem,
    solver: DDP | None = None,
    guess: Start = None,
    callback: Callable[[Record], None] | None = None,
    throw: bool = True,
    workers: int | str | Workers = 1,
) -> Solution:
    """Solve ``problem`` by shooting: single, or multiple where states are imposed.

    solver: `DDP` (the default), `ILQR` or `Newton`.
    guess: controls U (N, nu), which are rolled out, unless that costs more than twice what states that stay at x0
        would: then these are imposed; a pair (X, U), which imposes the states X (N+1, nx), but for
        X[0] = x0: where they do not follow from U, gaps are open at first and closed on the way; a `Solution`, whose
        policy ``u = U + K (x ⊖ X)`` is followed from x0, so that it also serves where motion is unstable; None: the
        problem's own, else the dynamics' nominal control at x0, at every knot. Controls are moved into the problem's
        limits.
    callback: called with the `Record` of every iteration.
    throw: raise SolveError, with ``.solution``, if the solve does not converge; else return the best iterate.
    workers: how many threads or processes share the derivatives; results are the same to the last bit. A number means
        threads if dynamics, terms and constraints are all built in, processes if one is not (`Workers`);
        "threads:2" and "processes:2" force it; "auto" shares them where the first iterates show that it pays.

    Constraints are held by an augmented Lagrangian (`augmented`), whose Hessian the gains are of: they give way to
    what disturbs them as much as the last penalties let them. Where constraints cannot be met the status says so.

    Raises ProblemError for bad input, before any work, or when a term's own code fails; SolveError, whatever
    ``throw`` is, if a worker dies. KeyboardInterrupt ends the solve at once; like every other way out, it
    leaves no process and no shared memory behind.
    """
    start = time.perf_counter()
    if not isinstance(problem, Problem):
        raise ProblemError(f"problem: expected a Problem, got {said(problem)}")
    solver = DDP() if solver is None else solver
    if not isinstance(solver, DDP):
        raise ProblemError(f"solver: expected DDP(...) or ILQR(...), got {said(solver)}")
    if callback is not None and not callable(callback):
        raise ProblemError(f"callback: expected a function of a Record, got {said(callback)}")
    flag("throw", throw)
    guess = problem.guess if guess is None else guess
    policy = start_policy(problem, guess)
    crew = as_workers(workers)
    goal = relaxed(problem, solver.constraints, guess)
    with differentiator(goal, crew) as work:
        outcome = descend_from(goal, solver, policy, work, callback, start)
    if throw and not outcome.converged:
        raise SolveError(str(outcome), outcome)
    return outcome


def descend_from(
    goal: Problem, solver: DDP, policy: Guess, work: Differentiator, callback: Callable[[Record], None] | None,
    start: float,
) -> Solution:  # fmt: skip
    """Solve a problem without constraints, or relaxed, with the memory and the processes of ``work``."""
    history: list[Record] = []
    with np.errstate(all="ignore"):
        iterate = Iterate(goal, work, policy, solver.multipliers, solver.reuse, solver.segments)
        try:
            status, converged, sweep = _loop(iterate, solver, history, callback)
        except WorkerError as failure:
            status = f"not converged after {len(history)} iterations, {failure}"
            failure.solution = certified(iterate.solution(status, False, tuple(history), start, None))
            raise
        return certified(iterate.solution(status, converged, tuple(history), start, sweep))


def start_policy(problem: Problem, guess: Start) -> Guess:
    """The policy that a guess means."""
    d, N = problem.dynamics, problem.horizon
    guess = as_guess(guess, d, N)
    if isinstance(guess, Followed):
        X, U = guess.X.copy(), guess.U.copy()
        U[0] += guess.K[0] @ d.difference(X[0], problem.x0)
        X[0] = problem.x0
        return Guess(X, U, guess.K.copy())
    if isinstance(guess, tuple):
        X, U = guess
        X[0] = problem.x0
        return Guess(X, U, np.zeros((N, d.nu, d.n)), imposed=True)
    if guess is None:
        U = _repeated(as_array("dynamics.nominal_control", d.nominal_control(problem.x0), (d.nu,)), N)
    else:
        U = guess
    return Guess(_repeated(problem.x0, N + 1), U, np.zeros((N, d.nu, d.n)), alone=guess is not None)


def _repeated(row: Array, count: int) -> Array:
    """``count`` rows that are the same."""
    rows = np.empty((count, row.size))
    rows[:] = row
    return rows


def _loop(
    iterate: Iterate, solver: DDP, history: list[Record], callback: Callable[[Record], None] | None
) -> tuple[str, bool, Sweep | None]:
    """Iterate until there is a reason to stop: the status, whether it converged, and a last sweep.

    It may be called again on the same iterate when the costs have changed, after ``iterate.evaluate()``.
    """
    if iterate.obstacle is not None:
        return f"not converged, {iterate.obstacle}", False, None
    globalisation = Globalisation(solver.hessian, solver.tolerance, solver.switch, solver.max_regularization)
    if iterate.problem.constrained:
        outcome, reason = minimise(iterate, solver, globalisation, history, callback, _descend)
    else:
        outcome, reason = _descend(iterate, solver, globalisation, history, callback)
    exact = solver.hessian != GAUSS_NEWTON
    sweep, was_exact = iterate.final_sweep(exact)
    if not outcome:
        if iterate.gap >= CLOSED:
            worst = int(np.argmax(np.abs(iterate.gaps).max(axis=1)))
            reason += f"; states do not follow from controls yet, a gap of {iterate.gap:.2g} is open at knot {worst}"
        return f"not converged after {len(history)} iterations, {reason}", False, sweep
    status = f"{outcome} after {len(history)} iterations"
    if outcome != "converged":
        status += f", no further decrease is representable (the tolerance is {solver.tolerance:g})"
    if exact and not was_exact:
        status += " where the exact Hessian is not positive definite (perhaps no minimum; Gauss-Newton gains)"
    return status, True, sweep


def _descend(
    iterate: Iterate, solver: DDP, globalisation: Globalisation, history: list[Record],
    callback: Callable[[Record], None] | None,
) -> tuple[str, str]:  # fmt: skip
    """Iterate until convergence, an outcome in words, or for another reason to stop; the other one is empty."""
    outcome, reason = "", ""
    settled = 0
    before = time.perf_counter()
    while len(history) < solver.max_iterations and not outcome:
        attempt = globalisation.iterate(iterate)
        if attempt is None:
            if not history and (fault := iterate.fault_of_term()):
                raise ProblemError(fault)
            reason = _why_no_step(iterate, globalisation, solver)
            break
        settled = settled + 1 if _converged(iterate, attempt, iterate.resolution) else 0
        if _converged(iterate, attempt, solver.tolerance * iterate.unit):
            outcome = "converged"
        elif settled == SETTLED or (attempt.step.alpha == 0.0 and _converged(iterate, attempt, iterate.noise)):
            outcome = "converged to rounding"
        iterate.accept(attempt.step)
        now = time.perf_counter()
        record = Record(
            attempt.step.cost, attempt.gradient, attempt.expected, attempt.step.alpha, attempt.mu, attempt.hessian,
            attempt.blend, now - before, iterate.gap, attempt.contraction, *iterate.violated(),
        )  # fmt: skip
        before = now
        history.append(record)
        if callback is not None:
            callback(record)
    if not outcome and not reason:
        reason = f"the limit of {solver.max_iterations} iterations was reached"
        if history:
            reason += f", the last with an expected decrease of {history[-1].expected:.2g}"
    return outcome, reason


def _converged(iterate: Iterate, attempt: Attempt, limit: float) -> bool:
    """Whether gaps are closed and the model, without the regularisation's help, expects less than ``limit``."""
    if not (iterate.gap < CLOSED and attempt.expected <= limit):  # nor where that is no number
        return False
    smallest = shift(iterate)
    if attempt.mu <= 2.0 * smallest:  # it is relative to controls' weights, which move a little from iterate to iterate
        return True
    for blend in (attempt.blend, 0.0):
        sweep = iterate.sweep(blend, smallest)
        if sweep.failed < 0:
            return sweep.expected <= limit
    return False


def _why_no_step(iterate: Iterate, globalisation: Globalisation, solver: DDP) -> str:
    """The sentence that explains why regularisation did not help."""
    fault = iterate.fault()
    if fault is not None:
        return fault
    if globalisation.failed is not None:
        return (
            f"the Hessian in the controls is not positive definite at knot {globalisation.failed} "
            f"with regularisation up to {solver.max_regularization:g}{iterate.concavity()}"
        )
    if iterate.line.diverged is not None:
        return f"every step diverges; of the shortest one {iterate.divergence(*iterate.line.diverged)}"
    reason = f"no step lowers the cost, with regularisation up to {solver.max_regularization:g}"
    if iterate.line.unpriced is not None:
        try:
            found = iterate.problem.fault(*iterate.line.unpriced, 0)
        except ProblemError as failure:  # of a term's own code
            found = str(failure)
        reason += f"; of longer ones {found}" if found else ""
    return reason
