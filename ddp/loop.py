"""The outer loop: descents, each judged by the exact Hessian where it ends.

A saddle or a maximum is left along negative curvature, and the descent goes on.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ddp.adjoint import control_gradient
from ddp.batch.compiled_iterations import Chosen
from ddp.checkpoint import Journal
from ddp.costs import faults
from ddp.derivatives import FIRST
from ddp.descent import Descent
from ddp.interior.handover import approach, begins_far, handed_over, watch
from ddp.interior.solve import Minimised, minimise
from ddp.iterate import Iterate
from ddp.options import DDP
from ddp.saddles import away, described, judged
from ddp.solutions.status import End, Ending, Record, Status, Watcher, converged, unstable
from ddp.starts import CLOSED
from ddp.sweeps.inertia import MINIMUM, UNKNOWN
from ddp.sweeps.outcome import Sweep
from ddp.unbounded import GROWN, is_early

MOST_LEFT = 30
"""Saddles and maxima that are left, at most."""


DOUBTFUL = "where the exact Hessian is not positive definite (perhaps no minimum"
"""Words of what converges all the same; a bracket stays open."""


class Outcome(NamedTuple):
    """Why a solve ended, with a last sweep and the kind of point, as of a `Solution`."""

    status: Status
    sweep: Sweep | None = None
    kind: str = UNKNOWN


def run(
    iterate: Iterate, solver: DDP, history: list[Record], callback: Callable[[Record], None] | Watcher | None,
    journal: Journal | None = None,
) -> Outcome:  # fmt: skip
    """Descend until there is a reason to stop; saddles and maxima are left along negative curvature."""
    if iterate.obstacle is not None:
        return Outcome(Status(f"not converged, {iterate.obstacle}", Ending.NO_START))
    descent, left = Descent(iterate, solver, history, callback, Chosen(iterate, solver), journal), 0
    exact = descent.model.exact
    while True:
        end = _descended(descent, left > 0)
        if isinstance(end, Minimised):
            return _constrained(iterate, history, end)
        if iterate.recall():
            descent.went_back()
            descent.forget()
            continue
        settled = end.ending.converged or end.ending is Ending.STATIONARY
        if not settled and not is_early(end.ending, history) and descent.is_unbounded(0):
            end = End(Ending.BOTTOMLESS, Ending.BOTTOMLESS.value)
        if not settled and not (end.ending is Ending.NO_STEP and iterate.gap < CLOSED):
            again = solver.last_sweep or end.ending is not Ending.ITERATIONS
            sweep = iterate.final_sweep(exact)[0] if again else iterate.swept
            return _unconverged(iterate, history, end.ending, end.said, sweep, UNKNOWN)
        sweep, was_exact, found = judged(iterate, exact)
        kind = found.kind
        if descent.is_unbounded(GROWN if kind == MINIMUM else 0):
            return _unconverged(iterate, history, Ending.BOTTOMLESS, Ending.BOTTOMLESS.value, None, UNKNOWN)
        way = away(iterate, found, sweep) if found.policies else None
        if way is None and not settled:
            where = f"; it is {described(iterate, found)}" if found.policies and found.lowest == 0.0 else ""
            return _unconverged(iterate, history, end.ending, end.said + where, sweep, UNKNOWN)
        if way is None:
            break
        if left == MOST_LEFT or len(history) >= solver.max_iterations:
            reason = "" if left == MOST_LEFT else f"the limit of {solver.max_iterations} iterations was reached "
            reason += f"at {described(iterate, found)}"
            return _unconverged(iterate, history, Ending.SADDLE, reason, sweep, kind)
        step, record = way
        iterate.accept(step)
        descent.go_on(record)
        if settled:
            descent.model.restart()
        else:  # its regularisation is as large as can be
            descent.forget()
        left += 1
    kind = MINIMUM if kind == MINIMUM else UNKNOWN  # negative curvature that lowers no cost is none
    if sweep is None or (end.ending is Ending.STATIONARY and kind != MINIMUM):
        reason = Ending.STATIONARY.value + iterate.concavity()
        return _unconverged(iterate, history, Ending.STATIONARY, reason, None, kind)
    rounding = end.ending is Ending.ROUNDING
    status = converged(len(history), solver.tolerance if rounding else None)
    if kind != MINIMUM:
        gains = "; Gauss-Newton gains" if exact and not was_exact else ""
        status += _doubts(iterate, gains)
    status += unstable(sweep.gradient, iterate.U, max(abs(iterate.cost), iterate.unit))
    return Outcome(Status(status, Ending.ROUNDING if rounding else Ending.CONVERGED), sweep, kind)


def _descended(descent: Descent, again: bool) -> End | Minimised:
    """Descend by the steps that suit the problem: why these end, or what full-space ones with constraints come to.

    again: whether a saddle has been left.
    """
    iterate, solver, problem = descent.iterate, descent.solver, descent.iterate.problem
    if solver.full_space(problem):
        reached = descent.stretch("approach", lambda: approach(descent)) if solver.approaches(iterate) else None
        if reached is not None:
            iterate.multipliers = np.zeros(problem.multiplier_count)
            return reached
        if iterate.constrained:
            return minimise(descent)
        return descent.stretch("full space", lambda: minimise(descent).end)
    if iterate.constrained:
        return solver.holding.minimise(descent, again)
    struggles = watch(descent) if solver.hands_over(problem) else None
    far = descent.stretch("first rollout", lambda: begins_far(descent)) if struggles else None
    end = far or descent.run(solver.tolerance, solver.max_iterations, struggles)
    return handed_over(descent) if end.ending is Ending.STRUGGLES else end


def _constrained(iterate: Iterate, history: list[Record], found: Minimised) -> Outcome:
    """The outcome of full-space steps on a problem with constraints."""
    iterate.multipliers = found.multipliers
    if not found.end.ending.converged:
        return _unconverged(iterate, history, found.end.ending, found.end.said, found.sweep, UNKNOWN)
    status = converged(len(history)) + ("" if found.exact else _doubts(iterate))
    status += unstable(_gradient_by_costates(iterate), iterate.U, iterate.cost)
    return Outcome(Status(status, Ending.CONVERGED), found.sweep, MINIMUM if found.exact else UNKNOWN)


def _gradient_by_costates(iterate: Iterate) -> float:
    """The largest gradient of the Lagrangian in controls that states follow: rounding alone where that is unstable.

    Full-space steps have a gradient by their own multipliers of dynamics, which stays small there.
    """
    problem, d, y = iterate.problem, iterate.work.derivatives, iterate.multipliers
    lz = d.lz.copy()
    if y is not None and y.size:
        problem.add_forces(iterate.X, iterate.U, y, lz)
    found = float(np.abs(control_gradient(d.A, d.B, lz)).max())
    return found if found == found else np.inf


def _doubts(iterate: Iterate, gains: str = "") -> str:
    """Words of what converges where the exact Hessian is not positive definite: what is not finite in it is named."""
    problem, y = iterate.problem, iterate.multipliers
    fault = faults.fault(problem.objective, iterate.X, iterate.U, FIRST)
    if fault is None and y is not None and y.size:
        fault = problem.rows.fault_of_curvature(iterate.X, iterate.U, y)
    return f" {DOUBTFUL}{gains})" if fault is None else f" where the exact Hessian is not finite ({fault}{gains})"


def _unconverged(
    iterate: Iterate, history: list[Record], ending: Ending, reason: str, sweep: Sweep | None, kind: str
) -> Outcome:
    if iterate.gap >= CLOSED:
        worst = int(np.argmax(np.abs(iterate.gaps).max(axis=1)))
        reason += f"; states do not follow from controls yet, a gap of {iterate.gap:.2g} is open at knot {worst}"
    return Outcome(Status(f"not converged after {len(history)} iterations, {reason}", ending), sweep, kind)
