"""Quantities of robots for users' functions, costs and constraints: their kernels (batch.py), what they depend on.

Those of (q, v) are of states, so ``taken`` are also the tangent numbers of a state that they depend on.
"""

from typing import Any

import numpy as np

from ddp.errors import choice
from ddp.protocols import Array
from ddp.tracing.quantities import Quantity
from dynamics.quantities import batch, frames, whole
from dynamics.quantities.whole import POINTS
from dynamics.rigid_bodies.traced import spaces_of
from dynamics.robots.model import Robot


def _at_frame(name: str, robot: Robot, frame: str, size: int, kernel: Any, *own: Any) -> Quantity:
    """A quantity of a frame's placement, of the degrees of freedom that move it."""
    arguments, dof = (frames.own_branch(robot, frame), *own), frames.branch(robot, frame).dof
    return Quantity(name, (robot, frame), size, spaces_of(robot), dof, kernel, arguments)


def frame_placement(robot: Robot, frame: str) -> Quantity:
    """R by rows, then p."""
    return _at_frame("frame_placement", robot, frame, 12, batch.placement)


def frame_position(robot: Robot, frame: str) -> Quantity:
    """The origin of a frame."""
    return _at_frame("frame_position", robot, frame, 3, batch.position)


def pose_error(robot: Robot, frame: str, target: Array) -> Quantity:
    """log6(target⁻¹ M) of a frame's placement M; target (12,): R by rows, then p."""
    return _at_frame("pose_error", robot, frame, 6, batch.pose_error, target)


def frame_velocity(robot: Robot, frame: str, reference: str) -> Quantity:
    """A frame's velocity, as the reference asks for it."""
    choice("reference", reference, frames.REFERENCES)
    branch, dof = frames.own_branch(robot, frame), frames.branch(robot, frame).dof
    key, own = (robot, frame, reference), (branch, dof, frames.REFERENCES[reference], robot.nq)
    taken = np.concatenate([dof, robot.nv + dof])
    return Quantity("frame_velocity", key, 6, spaces_of(robot, "v"), taken, batch.velocity, own)


def center_of_mass(robot: Robot) -> Quantity:
    """The centre of mass."""
    own = robot.tree, whole.floating(robot), 0, 0
    return Quantity("center_of_mass", robot, 3, spaces_of(robot), np.arange(robot.nv), whole.center_of_all, own)


def energy(robot: Robot) -> Quantity:
    """Kinetic and potential energy."""
    own, taken = (robot.tree, whole.floating(robot), 0, 1), np.arange(2 * robot.nv)
    return Quantity("energy", robot, 1, spaces_of(robot, "v"), taken, whole.energy_of_all, own)


def momentum(robot: Robot, about: str) -> Quantity:
    """Momentum about the centre of mass or the origin."""
    choice("about", about, POINTS)
    own, taken = (robot.tree, whole.floating(robot), POINTS[about], 1), np.arange(2 * robot.nv)
    return Quantity("momentum", (robot, about), 6, spaces_of(robot, "v"), taken, whole.momentum_of_all, own)


def matrix(y: Any) -> Any:
    """The homogeneous matrix of a placement's numbers."""
    M = type(y)((4, 4), dtype=object)
    M[:3, :3], M[:3, 3], M[3] = y[:9].reshape(3, 3), y[9:], (0.0, 0.0, 0.0, 1.0)
    return M
