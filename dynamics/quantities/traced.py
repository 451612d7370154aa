"""Quantities in functions of users: their kernels (batch.py), and which numbers they depend on."""

from __future__ import annotations

from typing import Any

import numpy as np

from ddp.errors import choice
from ddp.tracing.quantities import Quantity
from dynamics.quantities import batch, frames
from dynamics.quantities.momentum import POINTS
from dynamics.rigid_bodies.traced import Traced, spaces_of
from dynamics.robots.model import Robot


def _branch(robot: Robot, frame: str) -> tuple[frames.Branch, Any]:
    """The branch of a frame whose degrees of freedom are its own, and which of the robot's they are."""
    found = frames.branch(robot, frame)
    return found.replace(dof=np.arange(found.count)), found.dof


def placement_of(robot: Robot, q: Any, frame: str) -> Traced:
    """`quantities.frame_placement`."""
    spaces, (branch, taken) = spaces_of(robot), _branch(robot, frame)

    def matrix(y: Any) -> Any:
        M = type(y)((4, 4), dtype=object)
        M[:3, :3], M[:3, 3], M[3] = y[:9].reshape(3, 3), y[9:], (0.0, 0.0, 0.0, 1.0)
        return M

    return Quantity("frame_placement", (robot, frame), 12, spaces, taken, batch.placement, (branch,)), (q,), matrix


def position_of(robot: Robot, q: Any, frame: str) -> Traced:
    """`quantities.frame_position`."""
    spaces, (branch, taken) = spaces_of(robot), _branch(robot, frame)
    return Quantity("frame_position", (robot, frame), 3, spaces, taken, batch.position, (branch,)), (q,), _itself


def velocity_of(robot: Robot, q: Any, v: Any, frame: str, reference: str = "local") -> Traced:
    """`quantities.frame_velocity`."""
    choice("reference", reference, frames.REFERENCES)
    spaces, (branch, dof) = spaces_of(robot, "v"), _branch(robot, frame)
    taken = np.concatenate([dof, robot.nv + dof])
    key, own = (robot, frame, reference), (branch, dof, frames.REFERENCES[reference], robot.nq)
    return Quantity("frame_velocity", key, 6, spaces, taken, batch.velocity, own), (q, v), _itself


def center_of(robot: Robot, q: Any) -> Traced:
    """`quantities.center_of_mass`."""
    spaces, taken = spaces_of(robot), np.arange(robot.nv)
    return Quantity("center_of_mass", robot, 3, spaces, taken, batch.center, (robot.tree,)), (q,), _itself


def energy_of(robot: Robot, q: Any, v: Any) -> Traced:
    """`quantities.energy`."""
    spaces, taken, own = spaces_of(robot, "v"), np.arange(2 * robot.nv), (robot.tree, robot.nq)
    return Quantity("energy", robot, 1, spaces, taken, batch.whole_energy, own), (q, v), lambda y: y[0]


def momentum_of(robot: Robot, q: Any, v: Any, about: str = "center-of-mass") -> Traced:
    """`quantities.momentum`."""
    choice("about", about, POINTS)
    spaces, taken, own = spaces_of(robot, "v"), np.arange(2 * robot.nv), (robot.tree, POINTS[about], robot.nq)
    return Quantity("momentum", (robot, about), 6, spaces, taken, batch.whole_momentum, own), (q, v), _itself


def _itself(y: Any) -> Any:
    return y
