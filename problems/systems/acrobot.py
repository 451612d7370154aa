"""Two links with a motor between them swing up: trajax' acrobot, that of Gym, Sutton & Barto."""

from typing import Any

import numpy as np

from ddp.problem import Problem
from dynamics.steps.continuous_dynamics import ContinuousDynamics
from problems.costs import ControlCost, StateCost

M1, M2, L1, C1, C2, I1, I2, G = 1.0, 1.0, 1.0, 0.5, 0.5, 1.0, 1.0, 9.8
"""Masses [kg], length of the first link, centres of mass [m], moments of inertia [kg m²], gravity [m/s²]."""


def acrobot(x: Any, u: Any) -> Any:
    """Rates of two angles [rad], the second relative, and their speeds, under a torque [N m] between the links."""
    a, b, da, db = x
    d1 = M1 * C1**2 + M2 * (L1**2 + C2**2 + 2.0 * L1 * C2 * np.cos(b)) + I1 + I2
    d2 = M2 * (C2**2 + L1 * C2 * np.cos(b)) + I2
    p2 = M2 * C2 * G * np.sin(a + b)
    p1 = -M2 * L1 * C2 * (db + 2.0 * da) * db * np.sin(b) + (M1 * C1 + M2 * L1) * G * np.sin(a) + p2
    ddb = (u[0] + d2 / d1 * p1 - M2 * L1 * C2 * da**2 * np.sin(b) - p2) / (M2 * C2**2 + I2 - d2**2 / d1)
    return np.array([da, db, -(d2 * ddb + p1) / d1, ddb])


def swing_up(horizon: int = 50, dt: float = 0.1) -> Problem:
    """Swing up from hanging at rest to upright at rest in 5 s, with trajax' steps (Euler) and weights.

    Their cost is a sum over steps, so that running weights are a tenth of a second's.
    """
    system, upright = ContinuousDynamics(acrobot, 4, 1, dt, "euler"), np.array([np.pi, 0.0, 0.0, 0.0])
    effort, away = ControlCost(np.zeros(1), np.array([0.01 / dt])), StateCost(system, upright, np.full(4, 0.1 / dt))
    end = StateCost(system, upright, np.full(4, 1000.0))
    return Problem(system, [effort, away], [end], np.zeros(4), horizon, guess=np.zeros((horizon, 1)))
