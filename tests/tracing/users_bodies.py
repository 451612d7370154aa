"""Functions of x (3,) and u (2,) of bodies and their friction, as people write them."""

import math
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Body:
    """Parameters with all that classes may have."""

    inertia: np.ndarray = field(default_factory=lambda: np.diag([1.0, 2.0, 3.0]))

    @property
    def inverse(self):
        return np.linalg.inv(self.inertia)

    @staticmethod
    def cross(a, b):
        return np.cross(a, b)

    @classmethod
    def usual(cls):
        return cls()

    def rate(self, w, torque):
        return self.inverse @ (torque - self.cross(w, self.inertia @ w))


BODY = Body.usual()


def rigid_body(x, u):
    return x + 0.1 * BODY.rate(x, np.append(u, 0.1))


def attitude(x, u):
    q = np.array([1.0, *(0.1 * x)])
    q /= np.linalg.norm(q)
    w, a, b, c = q
    R = np.array([
        [1 - 2 * (b * b + c * c), 2 * (a * b - c * w), 2 * (a * c + b * w)],
        [2 * (a * b + c * w), 1 - 2 * (a * a + c * c), 2 * (b * c - a * w)],
        [2 * (a * c - b * w), 2 * (b * c + a * w), 1 - 2 * (a * a + b * b)],
    ])  # fmt: skip
    return R.T @ np.hstack([u, 1.0])


def steps_inside(x, u):
    def f(y):
        return np.stack([y[1], -math.sin(y[0]) * y[2], u[0] - y[2]])

    y = np.copy(x)
    for h in np.linspace(0.01, 0.05, 3):
        k = f(y)
        y += 0.5 * h * (k + f(y + h * k))
    return y


def friction(x, u):
    v = x[1]
    mu = 0.3 + 0.2 * math.exp(-abs(v) / 0.1)
    return [v, u[0] - mu * np.tanh(v / 1e-2) * 9.81 - 0.01 * v * abs(v), math.copysign(1.0, v) * x[2]]


def tyre(x, u):
    slip = math.atan2(x[1], abs(x[0]) + 0.1)
    inside = 10.0 * slip
    force = np.sin(1.9 * np.arctan(inside - 0.97 * (inside - np.arctan(inside))))
    return [u[0] - force * np.sin(u[1]), force * np.cos(u[1]) - x[0] * x[2], force]
