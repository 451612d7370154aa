"""Checks that all ways out share: solutions of robots with rigid bodies, and their joints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ddp.errors import ProblemError
from ddp.feedback.angles import unwound
from ddp.protocols import Array
from ddp.solutions.solution import Solution
from dynamics.geometry.joint_motion import CONTINUOUS, FREE_FLYER, PRISMATIC, SPHERICAL
from dynamics.robots.libraries import pin
from dynamics.robots.model import Robot, check_rigid
from problems.lifted import problem_of

HINGE, SLIDE, CIRCLE, BALL, FREE = "hinge", "slide", "circle", "ball", "free"


class Joint(NamedTuple):
    """Joint of a robot: its name, its kind, where its numbers begin in q and in v, and its place on its parent."""

    name: str
    kind: str
    iq: int
    iv: int
    place: pin.SE3


def joints_of(robot: Robot) -> list[Joint]:
    """Joints of a robot; ProblemError for those that other programs have in another form."""
    check_rigid(robot, ProblemError)
    kinds = {FREE_FLYER: FREE, SPHERICAL: BALL, CONTINUOUS: CIRCLE, PRISMATIC: SLIDE}
    found = []
    for j, kind in enumerate(robot.tree.kind.tolist(), 1):
        joint, name = robot.model.joints[j], str(robot.model.names[j])
        if kind not in kinds and (joint.nq != 1 or joint.shortname().startswith("JointModelH")):
            raise ProblemError(f"robot: expected hinges, sliders, balls and free bases, got {name}")
        if kind == FREE_FLYER and robot.model.parents[j] > 0:
            raise ProblemError(f"robot: expected free bases on the world alone, got {name} on another body")
        place = robot.model.jointPlacements[j]
        found.append(Joint(name, kinds.get(kind, HINGE), int(joint.idx_q), int(joint.idx_v), place))
    return found


def displaced(place: pin.SE3, poses: Array) -> Array:
    """Poses (N, 7), x y z and quaternions x y z w, behind a displacement: of free bases in the world, by their q."""
    x, y, z, w = pin.Quaternion(place.rotation).coeffs()
    turn = np.array([[w, -z, y, x], [z, w, -x, y], [-y, x, w, z], [-x, -y, -z, w]])
    return np.hstack([poses[:, :3] @ place.rotation.T + place.translation, poses[:, 3:] @ turn.T])


def robot_of(solution: Solution) -> Robot:
    """The robot that a solution moves."""
    system = problem_of(solution).dynamics
    robot = getattr(system, "robot", None)
    if not isinstance(robot, Robot):
        raise ProblemError(f"solution: expected one of a robot, got one of {type(system).__name__}")
    return robot


def rotations(quaternions: Array) -> Array:
    """Matrices (N, 3, 3) of quaternions (N, 4), x y z w."""
    return np.array([pin.Quaternion(q / np.linalg.norm(q)).matrix() for q in quaternions]).reshape(-1, 3, 3)


def turned(R: Array, v: Array) -> Array:
    """Vectors ``R v`` (N, 3)."""
    return np.einsum("nij,nj->ni", R, v)


def singles(joints: list[Joint]) -> Iterator[Joint]:
    """Joints with one degree of freedom."""
    return (joint for joint in joints if joint.kind in (HINGE, SLIDE, CIRCLE))


def angle(q: Array, v: Array, t: Array, joint: Joint) -> Array:
    """Position (N,) of a joint with one degree of freedom [rad, m] at times t [s], without jumps by whole turns."""
    if joint.kind != CIRCLE:
        return np.asarray(q[:, joint.iq])
    return unwound(q[:, joint.iq : joint.iq + 2], v[:, joint.iv], t)


def optional(name: str, purpose: str) -> Any:
    """A module that is not needed otherwise; ProblemError that names it where it is missing."""
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError:
        raise ProblemError(f"{purpose}: needs {name.partition('.')[0]}, which is not installed") from None
