"""A point mass brought to a place: OCS2's double integrator, and as quickly as effort allows; both minima are known."""

from functools import partial
from typing import Any

import numpy as np

from ddp.constraints.constraint import Equality
from ddp.errors import as_array, positive, positive_integer
from ddp.problem import Problem
from ddp.protocols import Array
from dynamics.steps.continuous_dynamics import ContinuousDynamics
from dynamics.steps.function_dynamics import FunctionDynamics
from problems.costs import ControlCost, StateCost
from problems.lifted import free_start

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
        dx = x - self.goal
        return 0.5 * dx @ self.weight @ dx


def reach(horizon: int = 250, dt: float = 0.01) -> Problem:
    """Move from rest at 0 to rest at 2 m: weights, horizon (2.5 s) and goal of OCS2's example."""
    system, goal = ContinuousDynamics(point_mass, 2, 1, dt, "rk4"), np.array([2.0, 0.0])
    effort, away = ControlCost(np.zeros(1), np.array([0.01])), StateCost(system, goal, np.full(2, 0.1))
    return Problem(system, [effort, away], [Final(FINAL, goal)], np.zeros(2), horizon)


class Effort:
    """``½ price u²`` for as long as a knot takes, the last number of a state being the logarithm of the whole time."""

    def __init__(self, price: float, horizon: int) -> None:
        self.price, self.horizon = price, horizon

    def value(self, x: Any, u: Any) -> Any:
        return 0.5 * self.price * u[0] ** 2 * np.exp(x[2]) / self.horizon


def time(x: Any, u: Any) -> Any:
    """The time that the motion takes [s]."""
    return np.exp(x[2])


def _stretched(horizon: int, x: Any, u: Any) -> Any:
    """A step of a point mass that takes exp(x[2]) / horizon."""
    h = np.exp(x[2]) / horizon
    return np.array([x[0] + h * x[1] + 0.5 * h * h * u[0], x[1] + h * u[0], x[2]])


def _missed(distance: float, x: Any, u: Any) -> Any:
    """Difference of a point mass from rest at a distance."""
    return x[:2] - np.array([distance, 0.0])


def quickest(distance: float = 2.0, price: float = 0.1, horizon: int = 100) -> Problem:
    """Move from rest to rest at a distance [m] in a time that is free, each ½ m²/s⁴ of effort costing ``price``.

    Time T is a state that no step changes, ``x' = x + (T / N) f(x, u)``, and that is free at the start: its logarithm,
    so that it is positive whatever steps are tried. The minimum is at T⁴ = 18 price distance² N² / (N² - 1), and 4/3 of
    T: steps of constant force need that much more than a continuous one.
    """
    far, price = float(as_array("distance", distance, ())), positive("price", price)
    horizon = positive_integer("horizon", horizon, "of steps,")
    system = FunctionDynamics(partial(_stretched, horizon), 3, 1)
    near = StateCost(system, np.array([far, 0.0, 0.0]), np.array([100.0, 100.0, 0.0]))  # for the first steps
    fixed = Problem(
        system, [Effort(price, horizon)], [time, near], np.zeros(3), horizon,
        terminal_constraints=[Equality(partial(_missed, far))], guess=np.zeros((horizon, 1)),
    )  # fmt: skip
    return free_start(fixed, directions=np.array([[0.0], [0.0], [1.0]]))
