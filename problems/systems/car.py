"""Cars: parked as Tassa, Mansard & Todorov (2014) do, and past obstacles as Altro's examples do."""

from typing import Any

import numpy as np

from ddp.constraints.constraint import Equality, Inequality
from ddp.problem import Problem
from ddp.protocols import Array
from dynamics.steps.continuous_dynamics import ContinuousDynamics
from dynamics.steps.function_dynamics import FunctionDynamics
from problems.costs import ControlCost, StateCost

AXLES, STEP = 2.0, 0.03
"""Distance between the axles [m], and the step of time [s]."""


def rolling(x: Any, u: Any) -> Any:
    """Next place (x, y), heading and front wheels' speed, for their angle and acceleration, exactly on the arc."""
    steer, push = u
    f = STEP * x[3]
    b = AXLES + f * np.cos(steer) - np.sqrt(AXLES**2 - (f * np.sin(steer)) ** 2)
    turned = np.arcsin(np.sin(steer) * f / AXLES)
    return x + np.array([b * np.cos(x[2]), b * np.sin(x[2]), turned, STEP * push])


def sabs(x: Any, p: Any) -> Any:
    """Smooth absolute value."""
    return np.sqrt(x * x + p * p) - p


def near(x: Any, u: Any) -> Any:
    """Tassa's running cost: controls, and distance from the origin."""
    return 1e-2 * u[0] ** 2 + 1e-4 * u[1] ** 2 + 1e-3 * (sabs(x[0], 0.1) + sabs(x[1], 0.1))


def parked(x: Any, u: Any) -> Any:
    """Tassa's final cost: place, heading and speed."""
    return 0.1 * sabs(x[0], 0.01) + 0.1 * sabs(x[1], 0.01) + sabs(x[2], 0.01) + 0.3 * sabs(x[3], 1.0)


def parking(horizon: int = 500, seed: int = 0) -> Problem:
    """Park from (1, 1), heading away, in a place at the origin, in 15 s; the guess is small and random, of a seed."""
    system = FunctionDynamics(rolling, 4, 2)
    guess = 0.1 * np.random.default_rng(seed).normal(size=(horizon, 2))
    limits = np.array([0.5, 2.0])
    x0 = np.array([1.0, 1.0, 1.5 * np.pi, 0.0])
    return Problem(system, [near], [parked], x0, horizon, control_limits=(-limits, limits), guess=guess)


def dubins(x: Any, u: Any) -> Any:
    """Rates of place and heading for a speed and a rate of turning."""
    return np.array([u[0] * np.cos(x[2]), u[0] * np.sin(x[2]), u[1]])


CIRCLES, RADIUS = 3.0 * np.array([[0.25, 0.25], [0.5, 0.5], [0.75, 0.75]]), 0.25 + 0.175
"""Centres (x, y) of what stands in the way, and its radius with the car's [m]."""


def clearances(x: Any, u: Any) -> Any:
    """Squares of radii less those of distances: not above zero."""
    return RADIUS**2 - ((x[:2] - CIRCLES) ** 2).sum(axis=1)


class Arrived:
    """Distance (3,) of a state from a goal."""

    def __init__(self, goal: Array) -> None:
        self.goal = goal

    def __call__(self, x: Any, u: Any) -> Any:
        return x - self.goal


def past_circles(horizon: int = 100, seconds: float = 5.0) -> Problem:
    """Drive from (0, 0) to (3, 3), heading along x at both, past three circles, as in Altro's example."""
    system = ContinuousDynamics(dubins, 3, 2, seconds / horizon, "rk4")
    goal = np.array([3.0, 3.0, 0.0])
    effort, away = ControlCost(np.zeros(2), np.full(2, 0.5)), StateCost(system, goal, np.ones(3))
    return Problem(
        system, [effort, away], [StateCost(system, goal, np.full(3, 10.0))], np.zeros(3), horizon,
        control_limits=([0.0, -3.0], [3.0, 3.0]), constraints=[Inequality(clearances)],
        terminal_constraints=[Equality(Arrived(goal))], guess=np.full((horizon, 2), 0.01),
    )  # fmt: skip
