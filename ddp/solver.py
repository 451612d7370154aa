"""The loop: derivatives, sweeps and line searches, until a model expects no decrease worth having."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ddp.backward import Sweep
from ddp.errors import ProblemError, SolveError, as_array, positive, positive_integer
from ddp.globalisation import GAUSS_NEWTON, SHIFT, Attempt, Globalisation
from ddp.iterate import Iterate
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.solution import Record, Solution
from ddp.workers import differentiator

Guess = Array | tuple[Array, Array] | Solution | None

HESSIANS = ("auto", "gauss-newton", "exact")


@dataclass(frozen=True)
class DDP:
    """Differential dynamic programming with exact second derivatives of dynamics and costs.

    tolerance: convergence is when the unregularised quadratic model expects the cost to decrease by less than
        this (in units of the cost; the same measure as Crocoddyl's ``th_stop``).
    max_iterations: after this many the solve ends, not converged.
    hessian: "auto" is Gauss-Newton far away and exact near the optimum (`globalisation`); "gauss-newton" is
        iLQR; "exact" is exact from the start with Levenberg-Marquardt damping: slower, and may find other
        minima.
    switch: "auto" turns to exact Hessians when the expected decrease falls below ``switch (1 + |cost|)``:
        1e-3 is cautious, 1e-1 eager.
    max_regularization: beyond this mu the solve ends, not converged.
    """

    tolerance: float = 1e-9
    max_iterations: int = 1000
    hessian: str = "auto"
    switch: float = 1e-2
    max_regularization: float = 1e9

    def __post_init__(self) -> None:
        for name in ("tolerance", "switch", "max_regularization"):
            object.__setattr__(self, name, positive(name, getattr(self, name)))
        object.__setattr__(self, "max_iterations", positive_integer("max_iterations", self.max_iterations))
        if self.hessian not in HESSIANS:
            raise ProblemError(
                f"hessian: expected one of {', '.join(map(repr, HESSIANS))}, got {self.hessian!r}"
            )


def ILQR(tolerance: float = 1e-9, max_iterations: int = 1000, max_regularization: float = 1e9) -> DDP:
    """Iterative LQR: `DDP` with ``hessian="gauss-newton"`` and nothing else changed."""
    return DDP(tolerance, max_iterations, GAUSS_NEWTON, max_regularization=max_regularization)


def solve(
    problem: Problem,
    solver: DDP | None = None,
    guess: Guess = None,
    callback: Callable[[Record], None] | None = None,
    throw: bool = True,
    workers: int = 1,
) -> Solution:
    """Solve ``problem`` by single shooting.

    solver: `DDP` (the default) or `ILQR`.
    guess: controls U (N, nu), a pair (X, U), or a `Solution`, of which the controls are rolled out from x0
        (states cannot be imposed on a rollout); None: the dynamics' nominal control at x0, at every knot.
    callback: called with the `Record` of every iteration.
    throw: raise SolveError, with ``.solution``, if the solve does not converge; else return the best iterate.
    workers: how many processes share the derivatives; results are the same for any number.

    Raises ProblemError for bad input, before any work, or when a term's own code fails. KeyboardInterrupt
    ends the solve at once; like every other way out, it leaves no process and no shared memory behind.
    """
    start = time.perf_counter()
    if not isinstance(problem, Problem):
        raise ProblemError(f"problem: expected a Problem, got {type(problem).__name__}")
    solver = DDP() if solver is None else solver
    if not isinstance(solver, DDP):
        raise ProblemError(f"solver: expected DDP(...) or ILQR(...), got {solver!r}")
    controls = _controls(problem, guess)
    count = positive_integer("workers", workers)
    history: list[Record] = []
    with differentiator(problem, count) as work, np.errstate(all="ignore"):
        iterate = Iterate(problem, work, controls)
        try:
            status, converged, sweep = _loop(iterate, solver, history, callback)
        except SolveError as failure:  # a worker died
            status = f"not converged after {len(history)} iterations, {failure}"
            failure.solution = iterate.solution(status, False, tuple(history), start, None)
            raise
        outcome = iterate.solution(status, converged, tuple(history), start, sweep)
    if throw and not outcome.converged:
        raise SolveError(str(outcome), outcome)
    return outcome


def _controls(problem: Problem, guess: Guess) -> Array:
    """The controls (N, nu) that a guess means."""
    d, N = problem.dynamics, problem.horizon
    if guess is None:
        return np.tile(as_array("dynamics.nominal_control", d.nominal_control(problem.x0), (d.nu,)), (N, 1))
    if isinstance(guess, Solution):
        return as_array("guess.U", guess.U, (N, d.nu))
    if isinstance(guess, tuple):
        if len(guess) != 2:
            raise ProblemError(f"guess: expected U, (X, U) or a Solution, got a tuple of {len(guess)}")
        d.check_state("guess[0]", as_array("guess[0]", guess[0], (N + 1, d.nx)))
        return as_array("guess[1]", guess[1], (N, d.nu))
    return as_array("guess", guess, (N, d.nu))


def _loop(
    iterate: Iterate, solver: DDP, history: list[Record], callback: Callable[[Record], None] | None
) -> tuple[str, bool, Sweep | None]:
    """Iterate until there is a reason to stop: the status, whether it converged, and a last sweep."""
    if not np.isfinite(iterate.cost):
        knot = iterate.diverged
        return (
            f"not converged, the guess diverges: its state or cost at knot {knot} is not finite",
            False,
            None,
        )
    globalisation = Globalisation(solver.hessian, solver.tolerance, solver.switch, solver.max_regularization)
    converged, reason = False, f"the limit of {solver.max_iterations} iterations was reached"
    before = time.perf_counter()
    while len(history) < solver.max_iterations:
        attempt = globalisation.iterate(iterate)
        if attempt is None:
            reason = _why_no_step(iterate, globalisation, solver)
            break
        converged = _converged(iterate, attempt, solver.tolerance)
        iterate.accept(attempt.step)
        now = time.perf_counter()
        record = Record(
            cost=attempt.cost,
            gradient=attempt.gradient,
            expected=attempt.expected,
            step=attempt.alpha,
            regularization=attempt.mu,
            hessian=attempt.hessian,
            blend=attempt.blend,
            seconds=now - before,
        )
        before = now
        history.append(record)
        if callback is not None:
            callback(record)
        if converged:
            break
    exact = solver.hessian != GAUSS_NEWTON
    sweep, was_exact = iterate.final_sweep(exact)
    status = f"converged after {len(history)} iterations"
    if not converged:
        status = f"not converged after {len(history)} iterations, {reason}"
    elif exact and not was_exact:
        status += " where the exact Hessian is not positive definite (perhaps no minimum; Gauss-Newton gains)"
    return status, converged, sweep


def _converged(iterate: Iterate, attempt: Attempt, tolerance: float) -> bool:
    """Whether the model expects less than the tolerance, without the regularisation's help.

    If no step was accepted, an expected decrease that drowns in the cost's rounding is as small as can be.
    """
    limit = tolerance if attempt.alpha > 0.0 else max(tolerance, 1e-12 * (1.0 + abs(iterate.cost)))
    if attempt.expected >= limit:
        return False
    if attempt.mu <= SHIFT:
        return True
    for blend in (attempt.blend, 0.0):
        sweep = iterate.sweep(blend, SHIFT)
        if sweep.failed < 0:
            return sweep.expected < limit
    return False


def _why_no_step(iterate: Iterate, globalisation: Globalisation, solver: DDP) -> str:
    """The sentence that explains why regularisation did not help."""
    fault = iterate.fault()
    if fault is not None:
        return fault
    if globalisation.failed is not None:
        return (
            f"the Hessian in the controls is not positive definite at knot {globalisation.failed} "
            f"with regularisation up to {solver.max_regularization:g}"
        )
    if iterate.diverged is not None:
        return f"every step diverges: the state at knot {iterate.diverged} is not finite for the shortest one"
    return f"no step lowers the cost, with regularisation up to {solver.max_regularization:g}"
