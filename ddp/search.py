"""Line searches: how far to go along the policy of a sweep.

A search is an object ``search(line, longest) -> Step``, which `ddp.DDP` takes by its field ``search``. It sees a
`Line`: costs of trajectories for any fractions alpha of the step, and what the model promises of them.
"""

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, Protocol

import numpy as np

from ddp.compiling.portable import portable
from ddp.errors import ProblemError, positive, settle_by, suggesting
from ddp.problem import Problem, Rollouts
from ddp.protocols import Array

CHUNKS = (0, 1, 3)
"""First rollouts of a line search's chunks, unless the dynamics do several of them for the price of one."""

LONGER = np.array([2.0, 4.0, 8.0, 16.0])
"""Steps beyond the full one; the last two are tried where the ones before are the better the longer they are."""

SHORT = 0.125
"""Steps of rollouts that are no longer are short: linear ones may go further, see `ddp.interior.handover`."""

REFUSED, TAKEN, SURPASSED = range(3)
"""Verdicts on a step: a shorter one is tried, it is taken, or longer ones are tried beside it."""


class Step(NamedTuple):
    """End of a line search: the fraction alpha of the step, 0 if none was accepted, 2 to 16 for longer ones."""

    alpha: float
    cost: float
    X: Array
    U: Array


class Line:
    """Trajectories of one problem along the policy of a sweep, which `Iterate.search` puts here.

    X (N+1, nx), U (N, nu), cost: at alpha = 0.   gaps (N, n): open there, if ``torn``.   k, K: the policy.
    slope, expected: alpha slope - alpha² (slope - expected) is the decrease that the model promises; negative where
        closing gaps costs.
    resolution: the spacing of numbers at the cost.   unit: the cost that counts as one.
    diverged: the trajectory of the last step that was tried, if it diverged.
    lost: the last one of all searches that diverged.
    unpriced: the last one of the last search whose cost is no number.
    """

    X: Array
    U: Array
    gaps: Array
    k: Array
    K: Array
    cost: float
    torn: bool
    slope: float
    expected: float
    resolution: float
    unit: float

    def __init__(self, problem: Problem) -> None:
        self._problem, self.lanes = problem, problem.lanes
        self.diverged: tuple[Array, Array] | None = None
        self.lost: tuple[Array, Array] | None = None
        self.unpriced: tuple[Array, Array] | None = None

    def rolled_out(self, alphas: Array) -> Rollouts:
        """The trajectories of some step lengths, in one call."""
        return self._problem.track(self.X, self.U, self.k, self.K, alphas, self.gaps)

    def step(self, alpha: float, rolled: Rollouts, lane: int) -> Step:
        """One of the trajectories, with its cost, which is infinite or no number where it diverges."""
        X, U, notes = rolled[0][lane], rolled[1][lane], rolled[2]
        cost = self._problem.objective.total(X, U, notes[lane] if len(notes) else notes)
        if abs(cost) < np.inf or alpha > 1.0:
            self.diverged = None
        elif np.isfinite(X[-1]).all():
            self.unpriced, self.diverged = (X, U), None
        else:
            self.diverged = self.lost = X, U
        return Step(alpha, cost, X, U)

    def nowhere(self) -> Step:
        """No step at all."""
        return Step(0.0, self.cost, self.X, self.U)


class Search(Protocol):
    """Line search; a field of `DDP`."""

    def __call__(self, line: Line, longest: float) -> Step:
        """The accepted step, of alpha <= ``longest`` at first; `Line.nowhere` if none is."""


@suggesting
@dataclass(frozen=True)
class Backtracking:
    """Halve the step until the cost falls by a share of the expected decrease.

    share: of the expected decrease that is enough.   shortest: the smallest alpha.
    generous: where a full step brings this many times what it promised, as along a valley or away from a saddle, two
        and four times as long ones are tried, and after the latter eight and sixteen times as long ones.

    Where closing gaps is promised to cost, it may cost twice that (FDDP's rule; Mastalli et al. 2020). Where the
    promise is less than rounding can show, a step that does not raise the cost is as good.
    """

    share: float = 0.1
    shortest: float = 2.0**-9
    generous: float = 1.2

    def __post_init__(self) -> None:
        settle_by(self, positive, "share", "shortest", "generous", of="search.")
        for name in ("share", "shortest"):
            if getattr(self, name) >= 1.0:
                raise ProblemError(f"search.{name}: expected less than 1, got {getattr(self, name):g}")

    def __call__(self, line: Line, longest: float) -> Step:
        """Search from alpha = ``longest``."""
        for alphas in chunks(max(longest, self.shortest), self.shortest, line.lanes):
            rolled = line.rolled_out(alphas)
            for lane, alpha in enumerate(alphas.tolist()):
                step = line.step(alpha, rolled, lane)
                found = judged(line, self.share, self.generous, alpha, step.cost)
                if found != REFUSED:
                    return step if found == TAKEN else _longer(step, line)
        return line.nowhere()


@cache
def chunks(longest: float, shortest: float, lanes: int) -> list[Array]:
    """Steps from the longest on, each half the last, in chunks to roll out at once: lanes full, or the first alone."""
    alphas = [longest]
    while alphas[-1] >= 2.0 * shortest:
        alphas.append(0.5 * alphas[-1])
    starts = range(0, len(alphas), lanes) if lanes else CHUNKS
    bounds = [start for start in starts if start < len(alphas)] + [len(alphas)]
    return [np.array(alphas[bounds[i] : bounds[i + 1]]) for i in range(len(bounds) - 1)]


def _longer(step: Step, line: Line) -> Step:
    """The best of `LONGER` steps, if one lowers the cost further."""
    size = len(LONGER) if line.lanes >= len(LONGER) else 2
    for k, alpha in enumerate(LONGER.tolist()):
        if k == 2 and step.alpha < LONGER[1]:
            break
        if k % size == 0:
            rolled = line.rolled_out(LONGER[k : k + size])
        further = line.step(alpha, rolled, k % size)
        if -np.inf < further.cost < step.cost:
            step = further
    return step


@portable
def judged(line, share, generous, alpha, cost):  # type: ignore[no-untyped-def]
    """`REFUSED`, `TAKEN` or `SURPASSED`, of a step alpha that leads to a cost: see `Backtracking`."""
    if not abs(cost) < np.inf:
        return REFUSED
    decrease, promised = line.cost - cost, alpha * line.slope - alpha * alpha * (line.slope - line.expected)
    wanted = share if promised >= 0.0 else (2.0 if line.torn else 0.0)
    if not decrease > wanted * promised:
        rounding = 1e-14 * (line.unit + abs(line.cost))  # may hide what is promised, and what has come of it
        if not (abs(line.slope) <= max(1e-12 * line.unit, rounding) and decrease >= -rounding):
            return REFUSED
    if alpha < 1.0 or line.torn or not decrease > generous * promised > 100.0 * line.resolution:
        return TAKEN
    return SURPASSED
