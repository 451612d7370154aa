"""Quadrupeds in the air: turn the base with the legs alone, as a falling cat does."""

import numpy as np

from ddp.errors import ProblemError, as_array
from ddp.problem import Problem
from ddp.protocols import Array
from dynamics.robots.libraries import pin
from dynamics.robots.model import Robot
from dynamics.steps.robot_dynamics import RobotDynamics
from problems import checks
from problems.costs import ControlCost, StateCost
from problems.legs import check_floating


@checks.weighing
def reorientation(
    robot: checks.RobotLike = "hyq",
    angle: float = np.pi / 2,
    horizon: int = 100,
    dt: float = 0.01,
    control_weight: float = 1e-3,
    posture_weight: float = 0.1,
    speed_weight: float = 0.01,
    final_rotation_weight: float = 1000.0,
    final_posture_weight: float = 100.0,
    final_speed_weight: float = 10.0,
) -> Problem:
    """Roll the base by ``angle`` [rad] about its x axis without gravity, and bring the legs back to rest.

    Angular momentum stays zero: only the order in which the legs move turns the base. It starts in its usual
    standing posture; where the base ends up and its linear velocity are free. control_weight [1/(N m)²];
    posture_weight [1/rad²] and speed_weight [s²/rad²] on the legs; the final ones on the base's attitude, the
    legs, and all rotational speeds.
    """
    turn = float(as_array("angle", angle, ()))
    if abs(turn) >= np.pi:
        raise ProblemError(f"angle: expected less than half a turn, |angle| < π, got {turn}")
    floating = weightless(robot)
    system = RobotDynamics(floating, dt)
    x0 = np.concatenate([floating.q0, np.zeros(floating.nv)])
    goal = x0.copy()
    usual = pin.Quaternion(*floating.q0[[6, 3, 4, 5]])
    goal[3:7] = (usual * pin.Quaternion(pin.exp3(np.array([turn, 0.0, 0.0])))).coeffs()
    parts = np.tile([3, 3, floating.nv - 6], 2)  # base translation, base rotation and legs, and their velocities
    running = np.repeat([0.0, 0.0, posture_weight, 0.0, 0.0, speed_weight], parts)
    at_end = [0.0, final_rotation_weight, final_posture_weight, 0.0, final_speed_weight, final_speed_weight]
    final = np.repeat(at_end, parts)
    cheap = ControlCost(np.zeros(system.nu), np.full(system.nu, control_weight))
    problem = Problem(system, [cheap, StateCost(system, x0, running)], [StateCost(system, goal, final)], x0, horizon)
    return problem.with_guess(small_random_torques(problem))


def weightless(robot: checks.RobotLike) -> Robot:
    """A floating robot in a world without gravity."""
    floating = check_floating(checks.loaded(robot))
    if floating.nv <= 6:
        raise ProblemError(f"robot: expected legs on a free-flying base, got {floating.name}, which has none")
    model = floating.model.copy()
    model.gravity = pin.Motion.Zero()
    return Robot(model, floating.q0, floating.source, floating.equipment, floating.loops)


def small_random_torques(problem: Problem) -> Array:
    """The guess (N, nu), from a fixed seed, to leave the symmetric standstill.

    Torques of about 1 N m for robots of HyQ's size; of robots below 80 kg, in proportion to their mass: 1 N m
    would spin the legs of one of 2 kg until the integration breaks down.
    """
    system, rng = problem.dynamics, np.random.default_rng(0)
    if not isinstance(system, RobotDynamics):
        raise ProblemError(f"problem: expected one of a robot, got one of {type(system).__name__}")
    torques = np.array([rng.normal(size=problem.dynamics.nu) for _ in range(problem.horizon)])
    return min(1.0, float(pin.computeTotalMass(system.robot.model)) / 80.0) * torques
