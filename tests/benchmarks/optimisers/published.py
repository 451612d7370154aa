"""The benchmark problems of Altro (Howell, Jackson & Manchester, IROS 2019), as published with its code.

States follow from Runge-Kutta steps of order four (theirs: three). Running costs are multiplied by the step of time.
"""

from __future__ import annotations

import numpy as np

import ddp
from dynamics.steps.continuous_dynamics import ContinuousDynamics

CAR_RADIUS = 0.175


class Quadratic:
    """``½ (x - goal)ᵀ Q (x - goal) + ½ uᵀ R u`` of diagonal Q and R; at the end without R."""

    def __init__(self, goal, Q, R=0.0):
        self.goal, self.Q, self.R = np.array(goal, dtype=float), Q, R

    def value(self, x, u):
        """The cost of a knot."""
        return 0.5 * (self.Q * ((x - self.goal) ** 2).sum() + self.R * (u**2).sum())


def _problem(flow, x0, goal, steps, seconds, Q, R, Qf, limits, start, **constraints):
    dynamics = ContinuousDynamics(flow, nx=len(x0), nu=len(start), dt=seconds / steps, integrator="rk4")
    return ddp.Problem(
        dynamics=dynamics, running=[Quadratic(goal, Q, R)], terminal=[Quadratic(goal, Qf)],
        x0=np.array(x0, dtype=float), horizon=steps, control_limits=limits, guess=np.tile(start, (steps, 1)),
        terminal_constraints=[ddp.Equality(lambda x, u: x - np.array(goal))], **constraints,
    )  # fmt: skip


def _car(x, u):
    """Position and heading of a car; speed and rate of turning."""
    return np.array([u[0] * np.cos(x[2]), u[0] * np.sin(x[2]), u[1]])


def _outside(circles):
    """Distances, squared, from circles (K, 3): x, y, radius; at all knots but the first and the last."""
    x, y, r = np.array(circles).T

    def depth(z, u):
        return r**2 - (z[0] - x) ** 2 - (z[1] - y) ** 2

    return {range(1, 100): [ddp.Inequality(depth)]}


def double_integrator():
    """A mass moves by 1 m in 2 s, no faster than 0.6 m/s."""
    return _problem(
        lambda x, u: np.array([x[1], u[0]]), [0.0, 0.0], [1.0, 0.0], 20, 2.0, 1.0, 0.1, 1.0, (-3.0, 3.0), [0.0],
        constraints=[ddp.Inequality(lambda x, u: x[1], lower=-0.6, upper=0.6)],
    )  # fmt: skip


def pendulum():
    """A damped pendulum swings up by at most 3 N m."""
    inertia, length, friction = 0.25, 0.5, 0.1

    def flow(x, u):
        return np.array([x[1], (u[0] - friction * x[1]) / inertia - 9.81 / length * np.sin(x[0])])

    return _problem(flow, [0.0, 0.0], [np.pi, 0.0], 50, 3.0, 1e-3, 1e-3, 1.0, (-3.0, 3.0), [0.1])


def cartpole():
    """A cart swings its pole up by at most 3 N."""
    M, m, length, g = 1.0, 0.2, 0.5, 9.81

    def flow(x, u):
        s, c, w = np.sin(x[1]), np.cos(x[1]), x[3]
        push = u[0] + m * s * (length * w**2 + g * c)
        turn = -u[0] * c - m * length * w**2 * c * s - (M + m) * g * s
        return np.array([x[2], w, push / (M + m * s**2), turn / (length * (M + m * s**2))])

    return _problem(flow, np.zeros(4), [0.0, np.pi, 0.0, 0.0], 100, 5.0, 1e-2, 0.1, 100.0, (-3.0, 3.0), [0.01])


def three_obstacles():
    """A car drives past three discs whose centres lie on the straight way to its goal."""
    circles = [(3.0 * a, 3.0 * a, 0.25 + CAR_RADIUS) for a in (0.25, 0.5, 0.75)]
    limits = ([0.0, -3.0], [3.0, 3.0])
    return _problem(
        _car, np.zeros(3), [3.0, 3.0, 0.0], 100, 5.0, 1.0, 0.5, 10.0, limits, [0.01, 0.01],
        constraints_at=_outside(circles),
    )  # fmt: skip


def parallel_park():
    """A car moves sideways by 1.5 m within a lane of half a metre."""
    bounds = [-0.25, -0.001], [0.25, 1.501]
    lane = ddp.Inequality(lambda x, u: x[:2], lower=bounds[0], upper=bounds[1])
    return _problem(
        _car, np.zeros(3), [0.0, 1.5, 0.0], 100, 3.0, 1e-2, 1e-2, 100.0, (-2.0, 2.0), [0.1, 0.1],
        constraints_at={range(1, 100): [lane]},
    )  # fmt: skip


def car_escape():
    """A car leaves a room whose walls are 170 discs by its door, and enters the next one; its states are guessed."""
    at = np.linspace
    walls = [(x, y, 0.5) for x in (0.0, 5.0, 10.0) for y in at(0.0, 5.0, 30)]
    walls += [(x, 0.0, 0.5) for x in at(0.0, 10.0, 50)]
    walls += [(x, 5.0, 0.5) for x in (*at(0.0, 3.0, 15), *at(5.0, 8.0, 15))]
    way = np.array([
        [2.5, 2.5, 0.0], [4.0, 5.0, 0.785], [5.0, 6.25, 0.0], [7.5, 6.25, -0.261], [9.0, 5.0, -1.57], [7.5, 2.5, 0.0],
    ])  # fmt: skip
    problem = _problem(
        _car, [2.5, 2.5, 0.0], [7.5, 2.5, 0.0], 100, 3.0, 1e-3, 1e-2, 100.0, (-5.0, 5.0), [1.0, 1.0],
        constraints_at=_outside(walls),
    )  # fmt: skip
    places = at(0.0, 1.0, len(way))
    X = np.stack([np.interp(at(0.0, 1.0, 101), places, column) for column in way.T], axis=1)
    return problem.with_guess((X, np.ones((100, 2))))


def tolerant():
    """A solver with Altro's own tolerances: violations of 1e-6, costs to 1e-4, gradients to 1e-2."""
    return ddp.DDP(tolerance=1e-4, constraints=ddp.AugmentedLagrangian(tolerance=1e-6, stationarity=1e-2))
