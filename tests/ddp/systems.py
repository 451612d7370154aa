"""Small systems and cost terms for the tests of the solver, independent of `dynamics` and `problems`."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

import ddp
from dynamics.steps.function_dynamics import FunctionDynamics

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Quadratic:
    """1/2 Σ w_i (z_i - target_i)², z = (x, u): a batch term for Euclidean states."""

    weights: Array
    target: Array

    def values(self, X: Array, U: Array) -> Array:
        Z = np.concatenate([X, U], axis=1) - self.target
        return 0.5 * np.sum(self.weights * Z * Z, axis=1)

    def expand(self, X: Array, U: Array, weight: float, exact: bool, l: Array, lz: Array, lzz: Array) -> None:
        Z = np.concatenate([X, U], axis=1) - self.target
        diagonal = np.arange(Z.shape[1])
        l += weight * 0.5 * np.sum(self.weights * Z * Z, axis=1)
        lz += weight * self.weights * Z
        lzz[:, diagonal, diagonal] += weight * self.weights


def pendulum_step(x: Array, u: Array) -> Array:
    """Point mass 1 kg at 1 m, hanging at 0; semi-implicit Euler, dt = 0.03 s."""
    angle, speed = x
    speed = speed + 0.03 * (u[0] - 9.81 * np.sin(angle))
    return np.array([angle + 0.03 * speed, speed])


def cartpole_step(x: Array, u: Array) -> Array:
    """Cart 1 kg, point mass 0.1 kg at 0.5 m, hanging at 0; semi-implicit Euler, dt = 0.02 s."""
    y, angle, v, w = x
    M, m, length, g, dt = 1.0, 0.1, 0.5, 9.81, 0.02
    s, c = np.sin(angle), np.cos(angle)
    v = v + dt * (u[0] + m * s * (length * w * w + g * c)) / (M + m * s * s)
    w_dot = (-u[0] * c - m * length * w * w * c * s - (M + m) * g * s) / (length * (M + m * s * s))
    w = w + dt * w_dot
    return np.array([y + dt * v, angle + dt * w, v, w])


def pendulum(x0: tuple[float, float] = (0.0, 0.0), horizon: int = 100) -> ddp.Problem:
    goal = np.array([np.pi, 0.0, 0.0])
    running = Quadratic(np.array([0.1, 0.01, 0.1]), goal)
    terminal = Quadratic(np.array([1000.0, 1000.0, 0.0]), goal)
    return ddp.Problem(
        FunctionDynamics(pendulum_step, 2, 1, dt=0.03), [running], [terminal], np.array(x0), horizon
    )


def cartpole() -> ddp.Problem:
    goal = np.array([0.0, np.pi, 0.0, 0.0, 0.0])
    running = Quadratic(np.array([0.1, 0.1, 0.01, 0.01, 0.01]), goal)
    terminal = Quadratic(np.array([1000.0] * 4 + [0.0]), goal)
    return ddp.Problem(
        FunctionDynamics(cartpole_step, 4, 1, dt=0.02), [running], [terminal], np.zeros(4), 100
    )


class Swing:
    """The pendulum's running cost as a user would write it, with nothing but a value."""

    def value(self, x: Array, u: Array) -> float:
        return 0.5 * (0.1 * (x[0] - np.pi) ** 2 + 0.01 * x[1] ** 2 + 0.1 * u[0] ** 2)


class Arrive:
    """A terminal cost with a gradient in x alone, and no Hessian."""

    def value(self, x: Array, u: Array) -> float:
        return 500.0 * ((x[0] - np.pi) ** 2 + x[1] ** 2)

    def gradient(self, x: Array, u: Array) -> Array:
        return 1000.0 * np.array([x[0] - np.pi, x[1]])


def user_pendulum() -> ddp.Problem:
    return ddp.Problem(
        FunctionDynamics(pendulum_step, 2, 1, dt=0.03), [Swing()], [Arrive()], np.zeros(2), 100
    )


@dataclass
class Fails:
    """A cost that raises, or kills the process it runs in, at its n-th gradient."""

    after: int
    kill: bool
    calls: int = field(default=0)

    def value(self, x: Array, u: Array) -> float:
        return float(u @ u)

    def gradient(self, x: Array, u: Array) -> Array:
        self.calls += 1
        if self.calls > self.after:
            if self.kill:
                os.kill(os.getpid(), signal.SIGKILL)
            raise ZeroDivisionError("the user's mistake")
        return np.concatenate([0.0 * x, 2.0 * u])

    def hessian(self, x: Array, u: Array) -> Array:
        return np.diag([0.0, 0.0, 2.0])


class FailsLate:
    """A cost that raises at every knot, early ones taking longer to do so."""

    def value(self, x: Array, u: Array) -> float:
        return float(u @ u)

    def gradient(self, x: Array, u: Array) -> Array:
        if x[0] == 0.0:
            time.sleep(0.5)
        raise ZeroDivisionError("the user's mistake")


def failing_pendulum(after: int, kill: bool) -> ddp.Problem:
    plain = pendulum()
    return ddp.Problem(
        plain.dynamics, [*plain.running, Fails(after, kill)], plain.terminal, plain.x0, plain.horizon
    )
