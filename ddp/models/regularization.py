"""Rules for the regularisation mu of a model: how it follows failed sweeps and the steps that were taken.

Batches of problems compile the methods of these two, of numbers by the same names.
"""

import math
from dataclasses import dataclass

from ddp.compiling.portable import portable
from ddp.errors import positive, settle_by
from ddp.models.attempt import Attempt


@dataclass(frozen=True)
class Tenfold:
    """Multiplied by ``factor`` where a sweep fails or a step is shorter than ``short``, divided by it after long ones.

    Gauss-Newton's rule: mu is far from the weights of controls most of the time, so its order of magnitude is enough.
    Where no step was accepted it is at least as large as the curvature along it (`Attempt`): less would do nothing.
    """

    factor: float = 10.0
    short: float = 0.01
    long: float = 0.5

    def __post_init__(self) -> None:
        settle_by(self, positive, "factor", "short", "long", of="regularization.")

    def raised(self, mu: float, unit: float) -> float:
        """``factor * mu``."""
        return self.factor * mu

    def stepped(self, attempt: Attempt, cost: float, failed: float, unit: float) -> float:
        """Smaller after a step of more than ``long``, larger after one of no more than ``short``."""
        if attempt.step.alpha > self.long:
            return attempt.mu / self.factor
        return max(self.factor * attempt.mu, attempt.stiffness) if attempt.step.alpha <= self.short else attempt.mu


@dataclass(frozen=True)
class ByRatio:
    """After the ratio of actual to expected decrease, as Levenberg and Marquardt have it.

    floor: the least mu that a failure raises it to, relative to the weights of controls.
    """

    floor: float = 0.01

    def __post_init__(self) -> None:
        settle_by(self, positive, "floor", of="regularization.")

    def raised(self, mu: float, unit: float) -> float:
        """Four times as large, at least the floor."""
        return max(4.0 * mu, self.floor * unit)

    def stepped(self, attempt: Attempt, cost: float, failed: float, unit: float) -> float:
        """Change it by a factor of 1e-3 to 16; not below the geometric mean with what has just failed."""
        factor = damping_factor(attempt, cost)
        least = self.floor * unit if factor > 1.0 else 0.0
        return max(factor * attempt.mu, least, math.sqrt(failed * attempt.mu))


@portable
def damping_factor(attempt, cost):  # type: ignore[no-untyped-def]
    """Factor for mu, by the ratio of actual to expected decrease and the step's length."""
    if attempt.step.alpha == 0.0:
        return 16.0
    if attempt.step.alpha < 0.5:
        return 4.0
    if attempt.step.alpha < 1.0:
        return 2.0
    decrease = cost - attempt.step.cost
    ratio = decrease / attempt.expected if attempt.expected != 0.0 else 1.0
    if abs(ratio - 1.0) < 0.2:
        return 1e-3
    if ratio > 0.5:
        return 0.1
    return 4.0 if ratio < 0.25 else 1.0
