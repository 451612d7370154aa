"""A body that balances on a ball, which rolls without slipping: after OCS2's ballbot, with its weights.

Joints: the ball's place (x, y) and the body's yaw, pitch and roll about the ball's centre. That the ball rolls is in
its mass: ½ (m + I / r²) (x'² + y'²). Controls are torques of the body on the ball, in the body's own axes.
"""

from typing import Any

import numpy as np

from ddp.errors import positive
from ddp.problem import Problem
from dynamics.robots.libraries import pin
from dynamics.robots.model import Robot, load
from dynamics.steps import augment
from dynamics.steps.augmented import Augmented
from dynamics.steps.robot_dynamics import RobotDynamics
from problems.costs import ControlCost, StateCost
from problems.lifted import LiftedTerm

BALL, RADIUS, BALL_INERTIA, BODY, HEIGHT = 2.65, 0.125, 0.0166, 18.66, 0.2
"""Mass [kg], radius [m] and inertia [kg m²] of the ball; mass [kg] of the body, and how far its centre is above [m]."""


def ballbot() -> Robot:
    """The ball's place, and the body on it."""
    model = pin.Model()
    model.name = "ballbot"
    rolling = pin.Inertia(BALL + BALL_INERTIA / RADIUS**2, np.zeros(3), np.zeros((3, 3)))
    body = pin.Inertia(BODY, np.array([0.0, 0.0, HEIGHT]), np.diag([1.8, 1.8, 0.7]))
    joints = pin.JointModelPX(), pin.JointModelPY(), pin.JointModelRZ(), pin.JointModelRY(), pin.JointModelRX()
    last = 0
    for name, joint in zip(("x", "y", "yaw", "pitch", "roll"), joints, strict=True):
        last = model.addJoint(last, joint, pin.SE3.Identity(), name)
        carried = {"y": rolling, "roll": body}.get(name)
        if carried is not None:
            model.appendBodyToJoint(last, carried, pin.SE3.Identity())
    model.addFrame(pin.Frame("top", last, pin.SE3(np.eye(3), np.array([0.0, 0.0, 0.6])), pin.FrameType.OP_FRAME))
    return load(model)


def pushes(x: Any, r: Any) -> Any:
    """Generalised forces of torques r (3,) on the ball: t = R r turns it, and the body against that."""
    cz, sz, cy, sy = np.cos(x[2]), np.sin(x[2]), np.cos(x[3]), np.sin(x[3])
    cx, sx = np.cos(x[4]), np.sin(x[4])
    across = cx * r[1] - sx * r[2]
    down = sx * r[1] + cx * r[2]
    along = cy * r[0] + sy * down
    t = np.array([cz * along - sz * across, sz * along + cz * across, -sy * r[0] + cy * down])
    pitch = -sz * t[0] + cz * t[1]
    roll = cy * (cz * t[0] + sz * t[1]) - sy * t[2]
    return np.array([t[1] / RADIUS, -t[0] / RADIUS, -t[2], -pitch, -roll])


def driven(dt: float) -> Augmented:
    """The ballbot, driven by three torques."""
    return augment.driven(RobotDynamics(ballbot(), positive("dt", dt)), pushes, 3)


def roll_away(distance: float = 1.0, yaw: float = 0.5, horizon: int = 200, dt: float = 0.01) -> Problem:
    """Roll from rest at the origin to rest ``distance`` [m] ahead and aside, turned by ``yaw`` [rad], in 2 s."""
    system = driven(dt)
    goal = np.array([distance, distance, yaw, *np.zeros(7)])
    away = StateCost(system.system, goal, np.array([100.0, 100.0, *[500.0] * 3, 100.0, 100.0, *[50.0] * 3]))
    effort = ControlCost(np.zeros(3), np.full(3, 2.0))
    end = StateCost(system.system, goal, np.repeat([1e4, 1e3], 5))
    return Problem(
        system, [LiftedTerm(away, system), effort], [LiftedTerm(end, system)], np.zeros(10), horizon,
        guess=np.zeros((horizon, 3)),
    )  # fmt: skip
