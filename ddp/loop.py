"""The loop: derivatives, sweeps and line searches, until a model expects no decrease worth having.

There the exact Hessian says whether it is a minimum. A saddle or a maximum is left along negative curvature, and the
descent goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ddp.compiling.setup import working_time
from ddp.constraints.augmented import minimise
from ddp.errors import ProblemError
from ddp.globalisation import GAUSS_NEWTON, Attempt, Globalisation, shift
from ddp.iterate import CLOSED, Iterate
from ddp.saddles import away, described, judged
from ddp.solution import Record
from ddp.sweeps.backward import Sweep
from ddp.sweeps.inertia import MINIMUM, UNKNOWN

if TYPE_CHECKING:
    from ddp.solver import DDP

MOST_LEFT = 30
"""Saddles and maxima that are left, at most."""

BOTTOMLESS, DEEP = -1e100, -1e8
"""Costs that are no minimum's, relative to those of the first iterations: of itself; where states or controls are
`FAR` out, too, and it has grown by a half `GROWN` times."""

FAR, GROWN, GROWTH = 1e8, 10, 1.5

ENDLESS = "the cost falls without end: it has no minimum"

NO_STEP = "no step lowers the cost"

STATIONARY = "stationary"
"""Where no step lowers the cost, though no Hessian without regularisation is positive definite."""

SETTLED = 3
"""After this many iterations in a row that could not have been told from rounding, there is nothing to be gained."""


def run(
    iterate: Iterate, solver: DDP, history: list[Record], callback: Callable[[Record], None] | None
) -> tuple[str, bool, Sweep | None, str]:
    """Iterate until there is a reason to stop: the status, whether it converged, a last sweep, and the kind of point.

    Saddles and maxima are left along negative curvature.
    """
    if iterate.obstacle is not None:
        return f"not converged, {iterate.obstacle}", False, None, UNKNOWN
    globalisation = Globalisation(solver.hessian, solver.tolerance, solver.switch, solver.max_regularization)
    exact, left = solver.hessian != GAUSS_NEWTON, 0
    while True:
        if iterate.problem.constrained:
            outcome, reason = minimise(iterate, solver, globalisation, history, callback, _descend, left > 0)
        else:
            outcome, reason = _descend(iterate, solver, globalisation, history, callback)
        if not outcome and not (reason.startswith(NO_STEP) and iterate.gap < CLOSED):
            return _unconverged(iterate, history, reason, iterate.final_sweep(exact)[0], UNKNOWN)
        if _endless(iterate, history):
            return _unconverged(iterate, history, ENDLESS, None, UNKNOWN)
        sweep, was_exact, found = judged(iterate, exact)
        kind = found.kind
        way = away(iterate, found, sweep) if found.policies else None
        if way is None and not outcome:
            where = f"; it is {described(iterate, found)}" if found.policies and found.lowest == 0.0 else ""
            return _unconverged(iterate, history, reason + where, sweep, UNKNOWN)
        if way is None:
            break
        if left == MOST_LEFT or len(history) >= solver.max_iterations:
            reason = "" if left == MOST_LEFT else f"the limit of {solver.max_iterations} iterations was reached "
            return _unconverged(iterate, history, f"{reason}at {described(iterate, found)}", sweep, kind)
        step, record = way
        iterate.accept(step)
        history.append(record)
        if callback is not None:
            callback(record)
        if outcome:
            globalisation.restart()
        else:  # its regularisation is as large as can be
            globalisation = Globalisation(solver.hessian, solver.tolerance, solver.switch, solver.max_regularization)
        left += 1
    kind = MINIMUM if kind == MINIMUM else UNKNOWN  # negative curvature that lowers no cost is none
    if sweep is None or (outcome == STATIONARY and kind != MINIMUM):
        reason = "no step lowers the cost, and the Hessian in the controls is not positive definite"
        return _unconverged(iterate, history, reason + iterate.concavity(), None, kind)
    status = f"{'converged' if outcome == STATIONARY else outcome} after {len(history)} iterations"
    if outcome not in ("converged", STATIONARY):
        status += f", no further decrease is representable (the tolerance is {solver.tolerance:g})"
    if kind != MINIMUM:
        gains = "; Gauss-Newton gains" if exact and not was_exact else ""
        status += f" where the exact Hessian is not positive definite (perhaps no minimum{gains})"
    return status, True, sweep, kind


def _unconverged(
    iterate: Iterate, history: list[Record], reason: str, sweep: Sweep | None, kind: str
) -> tuple[str, bool, Sweep | None, str]:
    """What `run` returns of a solve that did not converge."""
    if iterate.gap >= CLOSED:
        worst = int(np.argmax(np.abs(iterate.gaps).max(axis=1)))
        reason += f"; states do not follow from controls yet, a gap of {iterate.gap:.2g} is open at knot {worst}"
    return f"not converged after {len(history)} iterations, {reason}", False, sweep, kind


def _descend(
    iterate: Iterate, solver: DDP, globalisation: Globalisation, history: list[Record],
    callback: Callable[[Record], None] | None,
) -> tuple[str, str]:  # fmt: skip
    """Iterate until convergence, an outcome in words, or for another reason to stop; the other one is empty."""
    outcome, reason = "", ""
    settled = 0
    before = working_time()
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
        elif iterate.gap < CLOSED and attempt.expected <= iterate.resolution and _indefinite(iterate, attempt):
            outcome = STATIONARY
        iterate.accept(attempt.step)
        now = working_time()
        record = Record(
            attempt.step.cost, attempt.gradient, attempt.expected, attempt.step.alpha, attempt.mu, attempt.hessian,
            attempt.blend, now - before, iterate.gap, attempt.contraction, *iterate.violated(),
        )  # fmt: skip
        before = now
        history.append(record)
        if callback is not None:
            callback(record)
        if not outcome and _endless(iterate, history):
            return "", ENDLESS
    if not outcome and not reason:
        reason = f"the limit of {solver.max_iterations} iterations was reached"
        if history:
            reason += f", the last with an expected decrease of {history[-1].expected:.2g}"
    return outcome, reason


def _endless(iterate: Iterate, history: list[Record]) -> bool:
    """Whether the cost falls ever faster: see `BOTTOMLESS`."""
    if not history or iterate.cost >= 0.0:
        return False
    out = max(float(np.abs(iterate.X).max()), float(np.abs(iterate.U).max()))
    if iterate.cost > BOTTOMLESS and out < FAR:
        return False
    costs = np.array([record.cost for record in history])
    below = int(np.argmax(costs < 0.0))
    size, fallen = np.abs(costs[: below + 1]).max(), costs[below:]
    grown = int((fallen[1:] < GROWTH * fallen[:-1]).sum())
    return bool(iterate.cost < BOTTOMLESS * size or (out > FAR and iterate.cost < DEEP * size and grown >= GROWN))


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


def _indefinite(iterate: Iterate, attempt: Attempt) -> bool:
    """Whether the models here fail without regularisation."""
    return all(iterate.sweep(blend, shift(iterate)).failed >= 0 for blend in (attempt.blend, 0.0))


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
    reason = f"{NO_STEP}, with regularisation up to {solver.max_regularization:g}"
    if iterate.line.unpriced is not None:
        try:
            found = iterate.problem.fault(*iterate.line.unpriced, 0)
        except ProblemError as failure:  # of a term's own code
            found = str(failure)
        reason += f"; of longer ones {found}" if found else ""
    elif iterate.line.lost is not None:
        reason += f"; of a longer one that was tried before, {iterate.divergence(*iterate.line.lost)}"
    return reason
