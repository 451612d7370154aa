"""Backtracking along a sweep's policy: the first step that brings a tenth of what was promised, or a longer one."""

from __future__ import annotations

from functools import cache

import numpy as np

from ddp.globalisation import SHORTEST_STEP, Step
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.sweeps.backward import Sweep

CHUNKS = (0, 1, 3)
"""Where the chunks of a line search's rollouts begin, unless the dynamics do `Lanes` of them for the price of one."""

GENEROUS, LONGER = 1.2, np.array([2.0, 4.0])
"""Where a full step brings this many times what it promised, as along a valley or away from a saddle, longer ones are
tried."""


Rollouts = tuple[Array, Array, Array]
"""Of several step lengths: states (S, N+1, nx), controls (S, N, nu), notes (S, N, .), or none at all."""


@cache
def chunks(longest: float, lanes: int) -> list[Array]:
    """From the longest step on, each half as long: one alone, then as many as are likely wanted; or all lanes full."""
    alphas = [longest]
    while alphas[-1] >= 2.0 * SHORTEST_STEP:
        alphas.append(0.5 * alphas[-1])
    starts = range(0, len(alphas), lanes) if lanes else CHUNKS
    bounds = [start for start in starts if start < len(alphas)] + [len(alphas)]
    return [np.array(alphas[bounds[i] : bounds[i + 1]]) for i in range(len(bounds) - 1)]


class LineSearch:
    """Line searches of one problem.

    diverged: the trajectory of the last step that was tried, if it diverged.
    lost: the last one of all searches that diverged.
    unpriced: the last one of the last search whose cost is no number.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem, self._lanes = problem, problem.lanes
        self.diverged: tuple[Array, Array] | None = None
        self.lost: tuple[Array, Array] | None = None
        self.unpriced: tuple[Array, Array] | None = None

    def __call__(
        self, X: Array, U: Array, gaps: Array, torn: bool, cost: float, resolution: float, unit: float, sweep: Sweep,
        longest: float,
    ) -> Step:  # fmt: skip
        """From X, U of ``cost`` along the policy of ``sweep``; alpha = 0 where no step is accepted.

        torn: whether gaps (N, n) are open.   resolution: the spacing of numbers at the cost.   unit: the cost that
        counts as one.
        Where closing gaps is promised to cost, it may cost twice that (FDDP's rule; Mastalli et al. 2020). Where the
        promise is less than rounding can show, a step that does not raise the cost is as good.
        """
        self.unpriced = None
        for alphas in chunks(longest, self._lanes):
            rolled = self._problem.track(X, U, sweep.k, sweep.K, alphas, gaps)
            for lane, alpha in enumerate(alphas.tolist()):
                step = self._priced(alpha, lane, rolled)
                if not abs(step.cost) < np.inf:
                    self._explain(step)
                    continue
                self.diverged = None
                decrease, promised = cost - step.cost, sweep.promised(alpha)
                share = 0.1 if promised >= 0.0 else (2.0 if torn else 0.0)
                if not (decrease > share * promised or self._is_even(decrease, cost, unit, sweep)):
                    continue
                if alpha < 1.0 or torn or not decrease > GENEROUS * promised > 100.0 * resolution:
                    return step
                return self._longer(step, self._problem.track(X, U, sweep.k, sweep.K, LONGER, gaps))
        return Step(0.0, cost, X, U)

    def _longer(self, step: Step, rolled: Rollouts) -> Step:
        """Twice or four times the full step, if that lowers the cost further."""
        for lane, alpha in enumerate(LONGER.tolist()):
            further = self._priced(alpha, lane, rolled)
            if -np.inf < further.cost < step.cost:
                step = further
        return step

    def _priced(self, alpha: float, lane: int, rolled: Rollouts) -> Step:
        """One of the rollouts, with its cost."""
        X, U, notes = rolled[0][lane], rolled[1][lane], rolled[2]
        return Step(alpha, self._problem.total(X, U, notes[lane] if len(notes) else notes), X, U)

    def _is_even(self, decrease: float, cost: float, unit: float, sweep: Sweep) -> bool:
        """Whether rounding may hide what is promised, and what has come of it."""
        rounding = 1e-14 * (unit + abs(cost))
        return abs(sweep.d0) <= max(1e-12 * unit, rounding) and decrease >= -rounding

    def _explain(self, step: Step) -> None:
        """Keep why the cost of a step is no number."""
        if np.isfinite(step.X[-1]).all():
            self.unpriced, self.diverged = (step.X, step.U), None
        else:
            self.diverged = self.lost = step.X, step.U
