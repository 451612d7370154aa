"""The way to where full-space steps begin: a few steps by rollouts, within limits of controls, without constraints.

They take noise out of a guess and settle which way a motion goes, for a part of the price of full-space steps, which
from there end at better minima than from the guess. Where steps have to be short, motion without constraints does not
lead to motion with them: full-space steps then begin before these. Without equalities two in a row have to be, for
motion without constraints may meet nearly all of the others. With equalities costs may not say where the motion has to
end: where rollouts lead away from there, as an arm falls if torques alone cost, full-space steps begin from the guess.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ddp.interior.course import TOLERANCE
from ddp.interior.scaling import factors_of
from ddp.protocols import Array
from ddp.solutions.status import End, Ending
from ddp.starts import WORSE

if TYPE_CHECKING:
    from ddp.descent import Descent
    from ddp.iterate import Iterate

MOST, LONG, IN_A_ROW = 7, 0.5, 2
"""Iterations at most where constraints do not hold, the fraction of a step below which it is short, and how many short
ones in a row are enough; one that cannot be taken at all is, and with equalities any one."""

COARSE = 1e-2
"""Expected decrease, relative to the cost, that is small enough where constraints do not hold."""


def _worst(iterate: Iterate, factors: Array | None = None) -> float:
    """The largest amount by which any row is beyond its bounds, soft ones as well, for here they cost nothing."""
    return iterate.problem.rows.worst(iterate.X, iterate.U, factors, soft=True)


def approach(descent: Descent) -> End | None:
    """Step by rollouts without constraints; the end if that is a minimum at which all of them hold, else None.

    The iterate is left where full-space steps begin.
    """
    iterate, solver, history = descent.iterate, descent.solver, descent.history
    problem, first, coarse, short = iterate.problem, len(history), True, 0
    bound = bool(problem.rows.equal.any())
    enough = 1 if bound else IN_A_ROW
    begun = before = iterate.X, iterate.U, iterate.gaps.copy()
    most = WORSE * _worst(iterate) if bound else np.inf
    while len(history) < solver.max_iterations:
        if short == 0:
            before = iterate.X, iterate.U, iterate.gaps.copy()
        end = descent.run(max(COARSE, solver.tolerance) if coarse else solver.tolerance, len(history) + 1)
        hold = not bound and _worst(iterate) <= TOLERANCE
        step = history[-1].step if len(history) > first else 0.0
        short = 0 if step >= LONG else short + 1 if step > 0.0 else enough
        if end.ending.converged:
            if not hold:
                break
            if not coarse:
                factors = np.maximum(factors_of(problem, iterate.X, iterate.U), 1.0)
                if _worst(iterate, factors) <= TOLERANCE:  # which is large in tiny units
                    return end
                break
            coarse = False
        elif end.ending is not Ending.ITERATIONS or (coarse and short >= enough):
            iterate.arrive(*before)
            break
        elif not hold and (not coarse or len(history) - first >= MOST):
            break
    undefined = not np.isfinite(problem.rows.values(iterate.X, iterate.U)).all()
    if undefined or descent.endless() or (bound and _worst(iterate) > most):
        iterate.arrive(*begun)
    return None
