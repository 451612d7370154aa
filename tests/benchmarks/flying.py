"""Problems on SO3 and SE2, written by hand: a quadrotor with a quaternion in its state, a unicycle."""

from __future__ import annotations

from typing import Any

import numpy as np

import ddp
from ddp import SE2, SO3, Euclidean, Space
from dynamics import FunctionDynamics

ATTITUDE, BODY = Space((SO3(),)), Space((SE2(),))
MASS, INERTIA, ARM, DRAG, DT = 1.0, np.array([0.02, 0.02, 0.04]), 0.15, 0.015, 0.02
GOAL = np.array([1.0, 0.5, 1.0, 0.0, 0.0, np.sin(0.5), np.cos(0.5), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
FLYING = Space((Euclidean(3), SO3(), Euclidean(6)))


def flown(x: Any, u: Any) -> Any:
    """Next position, attitude, velocity in the world and angular velocity of the body, for four thrusts."""
    p, q, v, w = x[:3], x[3:7], x[7:10], x[10:]
    up = np.array([q[0] * q[2] + q[3] * q[1], q[1] * q[2] - q[3] * q[0], 0.5 - q[0] ** 2 - q[1] ** 2]) * 2.0
    torque = np.array([ARM * (u[1] - u[3]), ARM * (u[2] - u[0]), DRAG * (u[0] - u[1] + u[2] - u[3])])
    v = v + DT * (up * u.sum() / MASS - np.array([0.0, 0.0, 9.81]))
    w = w + DT * (torque - np.cross(w, INERTIA * w)) / INERTIA
    return np.concatenate([p + DT * v, ATTITUDE.plus(q, DT * w), v, w])


class Hovering:
    """Thrusts beside those of hovering."""

    def value(self, x: Any, u: Any) -> Any:
        return 0.5 * ((u - 9.81 / 4.0) ** 2).sum() + 0.05 * (x[10:] @ x[10:])


class There:
    """Distance from the goal."""

    def value(self, x: Any, u: Any) -> Any:
        d = FLYING.minus(x, GOAL)
        return 100.0 * (d @ d)


def quadrotor() -> ddp.Problem:
    """From hovering to hovering elsewhere, turned, in 1.6 s."""
    system = FunctionDynamics(flown, 13, 4, DT, state=[Euclidean(3), SO3(), Euclidean(6)])
    guess = np.full((80, 4), 9.81 / 4.0)
    return ddp.Problem(system, [Hovering()], [There()], FLYING.neutral(), 80, guess=guess)


def driven(x: Any, u: Any) -> Any:
    """Next place and heading for a speed and a rate of turning."""
    return BODY.plus(x, 0.05 * np.array([u[0], 0.0, u[1]]))


class Driving:
    """Speeds."""

    def value(self, x: Any, u: Any) -> Any:
        return 0.1 * (u @ u)


class Parked:
    """Distance from a pose."""

    def value(self, x: Any, u: Any) -> Any:
        d = BODY.minus(x, np.array([1.0, 1.0, 1.5]))
        return 50.0 * (d @ d)


def unicycle() -> ddp.Problem:
    """To a pose ahead and aside, in 3 s."""
    return ddp.Problem(FunctionDynamics(driven, 3, 2, 0.05, state=SE2()), [Driving()], [Parked()], np.zeros(3), 60)
