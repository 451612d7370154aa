"""A point mass brought to a place: OCS2's double integrator, whose minimum is known."""

from __future__ import annotations

from typing import Any

import numpy as np

from ddp.problem import Problem
from ddp.protocols import Array
from dynamics.steps.continuous_dynamics import ContinuousDynamics
from problems.costs import ControlCost, StateCost

FINAL = 10.0 * np.array([[2.7064, 3.1623], [3.1623, 8.5584]])
"""OCS2's final weight."""


def point_mass(x: Any, u: Any) -> Any:
    """Velocity and acceleration of a mass of 1 kg."""
    return np.array([x[1], u[0]])


class Final:
    """``½ dxᵀ W dx`` of the distance dx from a goal."""

    def __init__(self, weight: Array, goal: Array) -> None:
        self.weight, self.goal = weight, goal

    def value(self, x: Any, u: Any) -> Any:
        """The cost of one knot."""
        dx = x - self.goal
        return 0.5 * dx @ self.weight @ dx


def reach(horizon: int = 250, dt: float = 0.01) -> Problem:
    """From rest at 0 to rest at 2 m: weights, horizon (2.5 s) and goal of OCS2's example."""
    system, goal = ContinuousDynamics(point_mass, 2, 1, dt, "rk4"), np.array([2.0, 0.0])
    effort, away = ControlCost(np.zeros(1), np.array([0.01])), StateCost(system, goal, np.full(2, 0.1))
    return Problem(system, [effort, away], [Final(FINAL, goal)], np.zeros(2), horizon)
