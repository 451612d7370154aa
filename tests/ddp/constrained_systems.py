"""Problems with limits and constraints, and guesses of them, that several files of tests solve."""

from dataclasses import replace

import numpy as np

import ddp
from dynamics import FunctionDynamics
from problems import arm, cartpole
from problems.costs import ControlCost, StateCost

UR5_FROM, UR5_TO = (0.0, -1.2, 1.4, -1.77, -1.57, 0.0), (1.6, -0.8, 0.9, -0.6, -0.8, 0.7)


def point_to_point(share, weight):
    """A UR5 from one posture to another, at rest in both, in .6 s with a share of its torques."""
    system = arm.reach("ur5").dynamics
    effort, goal = share * system.robot.model.effortLimit, np.concatenate([UR5_TO, np.zeros(6)])
    return ddp.Problem(
        system, [ControlCost(np.zeros(6), np.full(6, 1e-4))], [StateCost(system, goal, np.full(12, weight))],
        np.concatenate([UR5_FROM, np.zeros(6)]), 60, control_limits=(-effort, effort),
    )  # fmt: skip


def on_a_rail(**changes):
    """A cart-pole on a short rail, pushed by little, upright at rest at the end."""
    plain, upright = cartpole.swing_up(), np.array([0.0, np.pi, 0.0, 0.0])
    fields = {
        "terminal": [], "control_limits": (-8.0, 8.0),
        "constraints": [ddp.Inequality(lambda x, u: x[0], lower=-0.6, upper=0.6)],
        "terminal_constraints": [ddp.Equality(lambda x, u: x - upright)],
    }  # fmt: skip
    return replace(plain, **(fields | changes))


def noisy(problem, rng, size):
    """Controls that keep the initial state, with noise."""
    U = np.tile(problem.dynamics.nominal_control(problem.x0), (problem.horizon, 1))
    return U + size * rng.normal(size=U.shape)


def linear_quadratic(rng, **changes):
    """A linear system with quadratic costs, whose controls and states cannot go where they want."""
    n, nu = 3, 2
    A, B, C = np.eye(n) + 0.3 * rng.normal(size=(n, n)), rng.normal(size=(n, nu)), np.ones(n)
    system = FunctionDynamics(lambda x, u: A @ x + B @ u, n, nu)

    class Cost:
        def value(self, x, u):
            return 0.5 * (x - 1.0) @ (x - 1.0) + 0.05 * u @ u

    fields = {
        "constraints": [ddp.Inequality(lambda x, u: C @ x + 0.3 * u[0], upper=0.4)],
        "terminal_constraints": [ddp.Equality(lambda x, u: x[0] - 0.2)],
        "control_limits": (-0.6, [0.5, np.inf]),
    } | changes
    return ddp.Problem(system, [Cost()], [Cost()], 0.3 * rng.normal(size=n), 8, **fields)
