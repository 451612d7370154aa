"""An arm on a cart with wheels reaches, nothing slipping: velocities are commanded, or torques of wheels and joints."""

import numpy as np
from numpy.typing import ArrayLike

from ddp.errors import ProblemError, as_array
from ddp.problem import Problem
from dynamics.contacts.contact import Contact
from dynamics.phases.phase import Phase
from dynamics.phases.phased_dynamics import PhasedDynamics
from dynamics.robots.equipment import Equipment
from dynamics.robots.libraries import pin
from dynamics.robots.model import Robot
from dynamics.steps.kinematic import KinematicDynamics
from problems import checks
from problems.arm import _fixed_arm
from problems.arm import _tool as tool_of
from problems.costs import ControlCost, FramePosition, StateCost


def on_wheels(robot: checks.RobotLike = "ur5", height: float = 0.4) -> Robot:
    """An arm on a cart: a planar joint, its axes those of the cart, x ahead; height [m] of the arm's base.

    The arm keeps its usual posture, motors and springs. Raises ProblemError for one with loops, or a floating base.
    """
    arm = _fixed_arm(robot)
    if arm.loops:
        raise ProblemError(f"robot: expected an arm without loops, got {arm.name} with {arm.loops[0]}")
    cart = pin.Model()
    cart.name = f"{arm.name} on wheels"
    root = cart.addJoint(0, pin.JointModelPlanar(), pin.SE3.Identity(), "cart")
    cart.appendBodyToJoint(root, pin.Inertia(30.0, np.zeros(3), np.diag([1.0, 1.0, 2.0])), pin.SE3.Identity())
    cart.addFrame(pin.Frame("deck", root, pin.SE3.Identity(), pin.FrameType.OP_FRAME))
    placement = pin.SE3(np.eye(3), np.array([0.0, 0.0, float(as_array("height", height, ()))]))
    whole = pin.appendModel(cart, arm.model, cart.getFrameId("deck"), placement)
    whole.name = cart.name
    whole.gravity, whole.armature = arm.model.gravity, np.append(np.zeros(3), arm.model.armature)  # not by appendModel
    return Robot(whole, np.append([0.0, 0.0, 1.0, 0.0], arm.q0), equipment=_beside(arm, 3, 0))


def _beside(robot: Robot, before: int, after: int) -> Equipment:
    """Equipment of a robot beside other degrees of freedom, each with a control of its own."""
    own, ends = robot.equipment, (before, after)
    S = limits = None
    if own.drives:
        nu = robot.actuation.shape[1]
        S, limits = np.eye(before + robot.nv + after, before + nu + after), np.pad(robot.control_limits, (ends, (0, 0)))
        S[before:, before:] = 0.0
        S[before : before + robot.nv, before : before + nu] = robot.actuation
        S[before + robot.nv :, before + nu :] = np.eye(after)
        limits[:before], limits[before + nu :] = (-np.inf, np.inf), (-np.inf, np.inf)
    stiffness, springref = (None if values is None else np.pad(values, ends) for values in own[2:4])
    return Equipment(S, limits, stiffness, springref, own.damped)


def reach(
    robot: checks.RobotLike = "ur5", position: ArrayLike = (1.5, 1.0, 0.8), horizon: int = 100, dt: float = 0.05
) -> Problem:
    """Reach from a posture at rest for a place [m] beyond the arm's own reach, and rest there, in 5 s.

    Controls: the cart's speed [m/s] and turning [rad/s], and the joints' rates [rad/s].
    """
    whole = on_wheels(robot)
    system = KinematicDynamics(whole, dt, np.delete(np.eye(whole.nv), 1, axis=1))
    arm = whole.nv - 3
    x0 = np.concatenate([whole.q0, np.zeros(whole.nv)])
    effort = ControlCost(np.zeros(system.nu), np.repeat([1.0, 0.2], [2, arm]))
    posture = StateCost(system, x0, np.concatenate([np.zeros(3), np.full(arm, 0.1), np.zeros(whole.nv)]))
    place = FramePosition(whole, tool_of(checks.loaded(robot)), as_array("position", position, (3,)), 1000.0)
    still = StateCost(system, x0, np.repeat([0.0, 1.0], whole.nv))
    return Problem(system, [effort, posture], [place, still], x0, horizon, guess=np.zeros((horizon, system.nu)))


RADIUS, TRACK = 0.15, 0.5
"""Radius of wheels, and how far they are apart [m]."""


def driven(robot: checks.RobotLike = "ur5", height: float = 0.4) -> Robot:
    """An arm on a cart as of `on_wheels`, with two wheels that turn: joints and frames "left wheel", "right wheel"."""
    whole = on_wheels(robot, height)
    model, root = pin.Model(whole.model), whole.model.getJointId("cart")
    turning = 0.5 * 2.0 * RADIUS**2 * np.diag([0.5, 1.0, 0.5])
    for name, side in (("left wheel", 0.5), ("right wheel", -0.5)):
        place = pin.SE3(np.eye(3), np.array([0.0, side * TRACK, RADIUS]))
        wheel = model.addJoint(root, pin.JointModelRY(), place, name)
        model.appendBodyToJoint(wheel, pin.Inertia(2.0, np.zeros(3), turning), pin.SE3.Identity())
        model.addFrame(pin.Frame(name, wheel, 0, pin.SE3.Identity(), pin.FrameType.OP_FRAME))
    model.name = f"{whole.name} that turn"
    return Robot(model, np.append(whole.q0, [0.0, 0.0]), equipment=_beside(whole, 0, 2))


def drive(
    robot: checks.RobotLike = "ur5", position: ArrayLike = (1.5, 1.0, 0.8), horizon: int = 100, dt: float = 0.02
) -> Problem:
    """Reach from a posture at rest for a place [m] beyond the arm's own reach, and rest there, in 2 s.

    Controls: torques [N m] of the joints and the two wheels, which roll without slipping; the right one's contact gives
    way along the axle, where the left one's holds already.
    """
    whole = driven(robot)
    wheels = [
        Contact("left wheel", "rolling", radius=RADIUS, axis=(0.0, 1.0, 0.0)),
        Contact("right wheel", "rolling", radius=RADIUS, axis=(0.0, 1.0, 0.0), slides=0.0),
    ]
    limits = whole.control_limits[3:] if whole.equipment.drives else None
    system = PhasedDynamics(whole, dt, Phase(wheels, horizon), whole.actuation[:, 3:], control_limits=limits)
    x0, arm = np.concatenate([whole.q0, np.zeros(whole.nv)]), whole.nv - 5
    torques = system.nominal_control(x0)
    effort = ControlCost(torques, np.repeat([1e-4, 1e-3], [system.nu - 2, 2]))
    posture = StateCost(system, x0, np.repeat([0.0, 0.1, 0.0, 0.01], [3, arm, 2, whole.nv]))
    place = FramePosition(whole, tool_of(checks.loaded(robot)), as_array("position", position, (3,)), 1000.0)
    still = StateCost(system, x0, np.repeat([0.0, 10.0], whole.nv))
    return Problem(system, [effort, posture], [place, still], x0, horizon, guess=np.tile(torques, (horizon, 1)))
