"""A quadrotor flies a loop: upside down through two waypoints and back to where it hovered.

Waypoints and end weigh ``log6(target⁻¹ M)`` of the body's pose, linear and angular part, so that a position
error is measured in the target's axes and along the screw; the turning sense of the propellers does not
matter to a loop.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ddp.constraints.placement import check_knots
from ddp.errors import ProblemError, as_array, instance, positive, positive_integer, said
from ddp.problem import Problem
from ddp.protocols import Array
from dynamics.robots.libraries import pin
from dynamics.steps.robot_dynamics import RobotDynamics
from problems import checks
from problems.costs import ControlCost, FramePose, StateCost
from problems.legs import base_pose

WAYPOINTS = {46: np.deg2rad(120.0), 54: np.deg2rad(240.0)}
"""Knots and pitch angles [rad] to pass through: about 8 knots on either side of being upside down."""


@checks.weighing
def loop(
    robot: checks.RobotLike = "iris",
    waypoints: Mapping[int, float] = WAYPOINTS,
    height: float = 0.7,
    arm: float = 0.1525,
    moment_per_thrust: float = 1e-6 / 6.6e-5,
    horizon: int = 100,
    dt: float = 0.02,
    control_weight: float = 0.1,
    speed_weight: float = 0.01,
    waypoint_position_weight: float = 10.0,
    waypoint_rotation_weight: float = 100.0,
    final_position_weight: float = 100.0,
    final_rotation_weight: float = 100.0,
    final_speed_weight: float = 10.0,
) -> Problem:
    """Loop about the y axis and be back at rest after ``horizon * dt`` seconds (2 s).

    waypoints: pitch [rad] to have at some knots, ``height`` [m] above the start.   arm [m]: distance of the
    thrusters.
    moment_per_thrust [m]: yaw moment of a propeller for each newton of thrust.
    control_weight [1/N²] on thrust beyond hovering, speed_weight on the body's velocity, the others on
    position [1/m²], rotation [1/rad²] and speed. Waypoint and final terms are not multiplied by dt.
    """
    body = checks.loaded(robot)
    if not body.is_floating or body.nv != 6:
        raise ProblemError(f"robot: expected one free-flying body, got {body.name} with nv = {body.nv}")
    system = RobotDynamics(body, dt, actuation=thrusters(arm, moment_per_thrust))
    x0 = np.concatenate([body.neutral(), np.zeros(6)])
    hover = system.nominal_control(x0)
    frame = body.joint_names[0]
    instance("waypoints", waypoints, Mapping, "a mapping from knots to pitches")
    check_knots("waypoints", waypoints, positive_integer("horizon", horizon, "of steps,"))
    up = float(as_array("height", height, ()))
    pitches = {knot: float(as_array(f"waypoints[{said(knot)}]", angle, ())) for knot, angle in waypoints.items()}
    rest = np.repeat([final_position_weight, final_rotation_weight, final_speed_weight, final_speed_weight], 3)
    running = [ControlCost(hover, np.full(4, control_weight)), StateCost(system, x0, np.repeat([0.0, speed_weight], 6))]
    home, weights = base_pose(body, x0), np.repeat([waypoint_position_weight, waypoint_rotation_weight], 3)
    at = {knot: [FramePose(body, frame, _pitched(home, angle, up), weights)] for knot, angle in pitches.items()}
    problem = Problem(system, running, [StateCost(system, x0, rest)], x0, horizon, at=at)
    return problem.with_guess(hovering(problem))


def thrusters(arm: float = 0.1525, moment_per_thrust: float = 1e-6 / 6.6e-5) -> Array:
    """The actuation matrix (6, 4) of thrusts [N] along the body's z axis: front, right, back, left.

    arm [m]: their distance from the centre. Front and back turn counter-clockwise and push the body
    clockwise.
    """
    arm, k = positive("arm", arm), positive("moment_per_thrust", moment_per_thrust)
    up = np.array([0.0, 0.0, 1.0])
    places = arm * np.array([[1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    moments = np.cross(places, up) + np.outer([-k, k, -k, k], up)
    return np.vstack([np.tile(up[:, None], 4), moments.T])


def hovering(problem: Problem) -> Array:
    """The guess (N, 4) of thrusts that carry the weight."""
    return np.tile(problem.dynamics.nominal_control(problem.x0), (problem.horizon, 1))


def _pitched(home: pin.SE3, angle: float, height: float) -> pin.SE3:
    turn = pin.exp3(np.array([0.0, float(angle), 0.0]))
    return pin.SE3(home.rotation @ turn, home.translation + np.array([0.0, 0.0, float(height)]))
