"""Robots with what drives them: rotors that lag, torques by their rates, springs between motors and joints.

Costs are those of the problems that they are made of; controls weigh what is told to the motors.
"""

import numpy as np

from ddp.errors import positive
from ddp.problem import Problem
from dynamics.steps import augment
from problems import arm, checks, quadrotor
from problems.costs import ControlCost, StateCost
from problems.lifted import free_start, lifted


def lagging_loop(robot: checks.RobotLike = "iris", time: float = 0.05, horizon: int = 100, dt: float = 0.02) -> Problem:
    """A quadrotor's loop, its thrusts ``time`` [s] behind what its motors are told; the rest as in `quadrotor.loop`."""
    plain = quadrotor.loop(robot, horizon=horizon, dt=dt)
    hover = plain.dynamics.nominal_control(plain.x0)
    system = augment.motors(plain.dynamics, positive("time", time))
    told = ControlCost(hover, np.full(len(hover), 0.1))
    guess = np.tile(hover, (horizon, 1))
    return lifted(plain, system, hover, guess, running=[told], without=[plain.running[0]])


def torque_rates(robot: checks.RobotLike = "ur5", most: float = 300.0, horizon: int = 100, dt: float = 0.01) -> Problem:
    """An arm's reach whose torques change by no more than ``most`` [N m/s]; the rest as in `arm.reach`."""
    plain = arm.reach(robot, horizon=horizon, dt=dt)
    nu = plain.dynamics.nu
    limits = np.tile([-1.0, 1.0], (nu, 1)) * positive("most", most)
    system = augment.rates(plain.dynamics, limits)
    smooth = ControlCost(np.zeros(nu), np.full(nu, 1e-6))
    return lifted(plain, system, plain.dynamics.nominal_control(plain.x0), running=[smooth])


def elastic_reach(
    robot: checks.RobotLike = "ur5", stiffness: float = 300.0, inertia: float = 0.5, horizon: int = 100,
    dt: float = 0.01,
) -> Problem:  # fmt: skip
    """An arm's reach with springs between motors and joints.

    stiffness [N m/rad]; inertia [kg m²] of each motor, seen from the joint. The rest as in `arm.reach`; motors begin
    where the springs hold the arm, and end at rest.
    """
    plain = arm.reach(robot, horizon=horizon, dt=dt)
    nu, held = plain.dynamics.nu, plain.dynamics.nominal_control(plain.x0)
    system = augment.elasticity(plain.dynamics, stiffness, inertia)
    told = ControlCost(np.zeros(nu), np.full(nu, 1e-3))
    s0 = np.concatenate([plain.x0[augment._driven_numbers(plain.dynamics)] + held / stiffness, np.zeros(nu)])
    still = StateCost(system, np.zeros(system.nx), np.repeat([0.0, 1.0], [system.n - nu, nu]))
    guess = np.tile(held, (horizon, 1))
    return lifted(plain, system, s0, guess, running=[told], terminal=[still], without=[plain.running[0]])


def best_start(robot: checks.RobotLike = "ur5", spread: float = 1.0, horizon: int = 100, dt: float = 0.01) -> Problem:
    """An arm's reach from the best start: at rest in a configuration that costs ``½ |q - q0|² / spread²``."""
    plain = arm.reach(robot, horizon=horizon, dt=dt)
    nv = plain.dynamics.n // 2
    weight = positive("spread", spread) ** -2.0
    near = StateCost(plain.dynamics, plain.x0, np.repeat([weight, 0.0], nv))
    nominal = np.tile(plain.dynamics.nominal_control(plain.x0), (horizon, 1))
    return free_start(plain.with_guess(nominal), directions=np.eye(2 * nv, nv), start=[near])
