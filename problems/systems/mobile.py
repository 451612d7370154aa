"""An arm on a cart with wheels reaches: the cart drives and turns and cannot slip aside, velocities are commanded."""

from __future__ import annotations

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike

from ddp.errors import as_array
from ddp.problem import Problem
from dynamics.robots.model import Robot, load
from dynamics.steps.kinematic import KinematicDynamics
from problems import checks
from problems.costs import ControlCost, FramePosition, StateCost


def on_wheels(robot: checks.RobotLike = "ur5", height: float = 0.4) -> Robot:
    """An arm on a cart: a planar joint, its axes those of the cart, x ahead; height [m] of the arm's base."""
    arm = checks.loaded(robot)
    cart = pin.Model()
    cart.name = f"{arm.name} on wheels"
    root = cart.addJoint(0, pin.JointModelPlanar(), pin.SE3.Identity(), "cart")
    cart.appendBodyToJoint(root, pin.Inertia(30.0, np.zeros(3), np.diag([1.0, 1.0, 2.0])), pin.SE3.Identity())
    cart.addFrame(pin.Frame("deck", root, pin.SE3.Identity(), pin.FrameType.OP_FRAME))
    placement = pin.SE3(np.eye(3), np.array([0.0, 0.0, float(as_array("height", height, ()))]))
    whole = pin.appendModel(cart, arm.model, cart.getFrameId("deck"), placement)
    whole.name = cart.name
    return load(whole)


def reach(
    robot: checks.RobotLike = "ur5", position: ArrayLike = (1.5, 1.0, 0.8), horizon: int = 100, dt: float = 0.05
) -> Problem:
    """From a posture at rest to a place [m] that the arm alone cannot reach, and rest there, in 5 s.

    Controls: the cart's speed [m/s] and turning [rad/s], and the joints' rates [rad/s].
    """
    whole = on_wheels(robot)
    system = KinematicDynamics(whole, dt, np.delete(np.eye(whole.nv), 1, axis=1))
    arm = whole.nv - 3
    q0 = np.array([0.0, 0.0, 1.0, 0.0, *checks.loaded(robot).q0[-arm:]])
    x0 = np.concatenate([q0, np.zeros(whole.nv)])
    effort = ControlCost(np.zeros(system.nu), np.repeat([1.0, 0.2], [2, arm]))
    posture = StateCost(system, x0, np.concatenate([np.zeros(3), np.full(arm, 0.1), np.zeros(whole.nv)]))
    place = FramePosition(whole, "tool0", as_array("position", position, (3,)), 1000.0)
    still = StateCost(system, x0, np.repeat([0.0, 1.0], whole.nv))
    return Problem(system, [effort, posture], [place, still], x0, horizon, guess=np.zeros((horizon, system.nu)))
