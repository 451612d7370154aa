"""Cost terms on a robot's energy and momentum, with exact Hessians; as those of costs.py."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ddp.costs.batch import CompiledCost
from ddp.errors import as_array, suggesting
from ddp.protocols import Array
from dynamics.quantities import traced as quantities
from dynamics.quantities.whole import POINTS
from dynamics.robots.model import Robot
from problems import checks
from problems.kernels.quantities import squared
from problems.terms import RobotTerm


@suggesting
@dataclass(frozen=True, eq=False)
class Energy(RobotTerm):
    """``½ w (E(q, v) - target)²`` of kinetic and potential energy E, zero at the origin's height.

    target [J]; weight: one number [1/J²].
    """

    robot: Robot
    target: float
    weight: float

    def __post_init__(self) -> None:
        checks.robot("robot", self.robot)
        target = float(as_array("target", self.target, ()))
        checks.settle(self, target=target, weight=checks.weight("weight", self.weight))

    def _bound(self) -> CompiledCost:
        return squared(quantities.energy(self.robot), np.full((1, 1), self.target), np.full((1, 1), self.weight))


@suggesting
@dataclass(frozen=True, eq=False)
class Momentum(RobotTerm):
    """``½ Σ_i w_i (h(q, v) - target)_i²`` of the momentum h (6,) in world axes, [linear; angular].

    target (6,) [kg m/s; kg m²/s]; weights (6,).
    about: "center-of-mass" or "origin", what the angular part is about.
    """

    robot: Robot
    target: Array
    weights: Array
    about: str = "center-of-mass"

    def __post_init__(self) -> None:
        checks.robot("robot", self.robot)
        checks.one_of("about", self.about, POINTS)
        target = as_array("target", self.target, (6,)).copy()
        checks.settle(self, target=target, weights=checks.weights("weights", self.weights, 6))

    def _bound(self) -> CompiledCost:
        return squared(quantities.momentum(self.robot, self.about), self.target[None], np.diag(self.weights))
