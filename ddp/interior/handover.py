"""Hand over from rollouts to full-space steps, without constraints, and back where these do not serve.

Rollouts come first, as they cost least. Where one has to be short a linear step may go further. Within limits of
controls full-space steps then take over where the next full rollout would go far astray: in stiff valleys limits clip
feedback, and all steps that follow are short as well; elsewhere they are not. Where controls are fewer than the
coordinates that they move it takes two short steps in a row: feedback cannot hold what nothing drives, so that a
rollout strays far from the linear model where single knots do not. Full-space steps then have to prove themselves, by
Hessians that are positive definite though at least half exact, and by longer steps. If they do not, rollouts go on;
from where they were, if that was clear at once. Where states are few a sweep costs less than to ask: one rollout of a
quarter is enough, and rollouts go on only after many full-space steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ddp.errors import ModelError
from ddp.interior.filter import Filter, accepts, begin_filter
from ddp.interior.outside import straying
from ddp.interior.solve import AT_ONCE, PATIENCE_WITHIN, SHORT, is_small, minimise, scale_of
from ddp.machine.written import address
from ddp.solutions.status import End, Record
from ddp.starts import FULL
from ddp.sweeps.outcome import Sweep
from ddp.sweeps.sized_limits import step_function
from ddp.sweeps.sweeping import call
from ddp.systems.structure import is_underactuated

if TYPE_CHECKING:
    from ddp.descent import Descent
    from ddp.iterate import Iterate

ASTRAY = 10.0
"""Rollouts go far astray where a full one raises the cost by so many times what it promises to lower it."""

WORSE = 0.01
"""Share of the cost by which full-space steps may end above what rollouts had reached."""


def watch(descent: Descent) -> Callable[[list[Record]], bool]:
    """Whether rollouts from here on struggle: their steps are short, where a linear one goes further.

    Without limits iterations have to be left for full-space steps, and where a linear one does not go further nothing
    is asked again; nor while open gaps bend linear steps, as they do on the manifold: sweeps for rollouts do not keep
    how. Within limits short steps are enough there.
    """
    iterate, begun, most = descent.iterate, len(descent.history), descent.solver.max_iterations - PATIENCE_WITHIN
    dynamics = iterate.problem.dynamics
    free, bends, small = is_underactuated(dynamics), dynamics.closing().address != 0, is_small(iterate.problem)

    def struggles(history: list[Record]) -> bool:
        nonlocal free
        short = history[-1].step <= SHORT
        if bends and iterate.gap > 0.0:
            return iterate.limited and short
        if iterate.limited:
            return short and _goes_further(iterate)
        if small:
            return free and len(history) <= most
        if not (free and short and begun + 2 <= len(history) <= most and history[-2].step <= SHORT):
            return False
        free = _goes_further(iterate)
        return free

    return struggles


def _goes_further(iterate: Iterate) -> bool:
    """Whether a filter accepts twice `SHORT` of the first full-space step: with no multipliers yet, Gauss-Newton's.

    Within limits of controls, a full rollout has to go `ASTRAY`, too, or the sweep to fail. Rollouts that go on find
    the derivatives known. A trial in full costs as much as some iterations of theirs.
    """
    sweep, d, alpha = iterate.sweep(0.0, 0.0), iterate.problem.dynamics, 2.0 * SHORT
    if sweep.failed >= 0:
        return iterate.limited
    if iterate.limited and _full_cost(iterate, sweep) <= iterate.cost + ASTRAY * sweep.expected:
        return False
    (N, n), dU = iterate.gaps.shape, np.zeros_like(iterate.U)
    dX, arrived = np.zeros((2, N + 1, n))
    call(step_function(n, d.nu).address, iterate.backward.address, address(dU), address(dX), address(arrived))
    U = iterate.U + alpha * dU
    try:
        X, gaps = straying(d)(iterate.X, alpha * dX, U)
    except ModelError:  # there is no motion
        return False
    before, cost = float(np.linalg.norm(iterate.gaps)), iterate.problem.total(X, U)
    empty = Filter(np.zeros(0), np.zeros(0))
    begin_filter(empty, before, False, scale_of(iterate))
    accepted = accepts(empty, float(np.linalg.norm(gaps)), cost, before, iterate.cost, -sweep.d0, alpha)[0]
    return bool(accepted)


def _full_cost(iterate: Iterate, sweep: Sweep) -> float:
    """Cost of a full step by rollout; infinite where it diverges."""
    X, U, notes = iterate.problem.track(iterate.X, iterate.U, sweep.k, sweep.K, FULL, iterate.gaps)
    return iterate.problem.total(X[0], U[0], notes[0] if len(notes) else notes)


def handed_over(descent: Descent) -> End:
    """End of full-space steps, or of more rollouts where those end at a much higher cost than rollouts had reached."""
    iterate, solver, begun, free = descent.iterate, descent.solver, len(descent.history), not descent.iterate.limited
    reached, cost = iterate.trajectory, iterate.cost
    end = minimise(descent).end
    as_low = end.ending.converged and iterate.cost <= cost + WORSE * abs(cost)
    if as_low or len(descent.history) >= solver.max_iterations:
        return end
    if cost < iterate.cost or (free and len(descent.history) <= begun + AT_ONCE):
        iterate.arrive(*reached)
    return descent.run(solver.tolerance, solver.max_iterations)
