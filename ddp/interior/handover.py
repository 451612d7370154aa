"""Where steps by rollouts hand over to full-space steps, without constraints, and where these give back.

Rollouts come first, as they cost least. Within limits of controls one short step is enough: in stiff valleys limits
clip feedback, and all that follow are short as well. Where controls are fewer than the coordinates that they move it
takes two in a row: feedback cannot hold what nothing drives, so that a rollout strays far from the linear model where
single knots do not. Full-space steps then have to prove themselves, by Hessians that are positive definite though at
least half exact, and by longer steps. If they do not, rollouts go on; from where they were, if that was clear at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ddp.interior.solve import AT_ONCE, PATIENCE_WITHIN, SHORT, minimise
from ddp.problem import Problem
from ddp.solutions.record import Record
from ddp.solutions.status import End

if TYPE_CHECKING:
    from ddp.descent import Descent

WORSE = 0.01
"""Share of the cost by which full-space steps may end above what rollouts had reached."""


def is_underactuated(problem: Problem) -> bool:
    """Whether controls are fewer than the coordinates that they move: half of the state's."""
    return 2 * problem.dynamics.nu < problem.dynamics.n


def watch(descent: Descent) -> Callable[[list[Record]], bool]:
    """Whether rollouts from here on struggle: their steps are short, and iterations are left for full-space steps."""
    iterate, begun, most = descent.iterate, len(descent.history), descent.solver.max_iterations - PATIENCE_WITHIN
    free = is_underactuated(iterate.problem)

    def struggles(history: list[Record]) -> bool:
        short = history[-1].step <= SHORT
        if iterate.limited:
            return short
        return free and short and begun + 2 <= len(history) <= most and history[-2].step <= SHORT

    return struggles


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
