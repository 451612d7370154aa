"""A rocket lands with as little fuel as it can: its mass is a state, its thrust is limited from both sides.

The vehicle and its start are those of Açıkmeşe & Ploen (2007), a lander on Mars. Units are of order one: km, 10 s,
tonnes; so speeds are in 100 m/s, accelerations in 10 m/s², thrusts in 10 kN.
"""

from typing import Any

import numpy as np

from ddp.constraints.constraint import Inequality
from ddp.problem import Problem
from dynamics.steps.continuous_dynamics import ContinuousDynamics
from problems.costs import ControlCost, StateCost

GRAVITY, BURN = 0.37114, 10.0 * 10.0 / (225.0 * 9.807 * np.cos(np.deg2rad(27.0)))
"""Mars' gravity; mass burnt by a unit of thrust in a unit of time: six engines of 225 s, canted by 27 degrees."""

MOST = 6.0 * 3.1e-1 * np.cos(np.deg2rad(27.0))
"""Thrust of six engines of 3.1 kN."""

LEAST_SHARE, MOST_SHARE = 0.3, 0.8


def lander(x: Any, u: Any) -> Any:
    """Rates of place (x, height), velocity and mass, under a thrust u[0], tilted from the vertical by u[1] [rad]."""
    pull = u[0] / x[4]
    return np.array([x[2], x[3], pull * np.sin(u[1]), pull * np.cos(u[1]) - GRAVITY, -BURN * u[0]])


def height(x: Any, u: Any) -> Any:
    """Height above the ground."""
    return x[1]


class Fuel:
    """Fuel burnt [t], times a weight.   full [t]: the mass at first."""

    def __init__(self, weight: float, full: float) -> None:
        self.weight, self.full = weight, full

    def value(self, x: Any, u: Any) -> Any:
        return self.weight * (self.full - x[4])


def landing(horizon: int = 60, seconds: float = 75.0) -> Problem:
    """Land from 2 km aside and 1.5 km up, 100 m/s away and 75 m/s down, at rest at the origin with most mass left.

    It never goes below the ground.
    """
    dt = seconds / 10.0 / horizon
    system = ContinuousDynamics(lander, 5, 2, dt, "rk4")
    x0 = np.array([2.0, 1.5, 1.0, -0.75, 1.905])
    end = StateCost(system, np.zeros(5), np.array([1e4, 1e4, 1e4, 1e4, 0.0]))
    hover = np.array([GRAVITY * x0[4], 0.0])
    smooth = ControlCost(hover, np.array([0.0, 1e-3]))
    limits = [LEAST_SHARE * MOST, -np.pi], [MOST_SHARE * MOST, np.pi]
    return Problem(
        system, [smooth], [Fuel(10.0, x0[4]), end], x0, horizon, control_limits=limits,
        constraints=[Inequality(height, lower=0.0, upper=np.inf)], guess=np.tile(hover, (horizon, 1)),
    )  # fmt: skip
