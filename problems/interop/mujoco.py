"""States of MuJoCo's own models, both ways, by names of joints.

MuJoCo's quaternions are w x y z; the linear velocity of a free joint is in the world's axes, the angular one in the
body's. Here quaternions are x y z w, and both velocities are in the body's axes.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ddp.errors import ProblemError, as_array, axes, nearest, said, suggesting
from ddp.protocols import Array
from dynamics.robots.mjcf.bodies import joint_name
from dynamics.robots.mjcf.state_map import StateMap
from dynamics.robots.model import Robot
from problems.interop import motion

TYPES = {motion.FREE: 0, motion.BALL: 1, motion.SLIDE: 2, motion.HINGE: 3, motion.CIRCLE: 3}
"""MuJoCo's numbers of kinds of joints, mjtJoint."""


@suggesting
def to_mujoco(robot: Robot, model: Any, X: ArrayLike) -> tuple[Array, Array]:
    """``qpos`` (N, model.nq) and ``qvel`` (N, model.nv) of states X (N, nx), or those of one state (nx,).

    model: a ``mujoco.MjModel`` with joints of the robot's names, in any order, and one free joint where the robot has
    one. Joints that the robot lacks keep MuJoCo's ``qpos0``, at rest.
    Raises ProblemError for a joint that the model lacks, or that is of another kind there.
    """
    matched = state_map(robot, model)
    given = np.atleast_2d(as_array("X", X, (None,) * max(1, axes(X))))
    if given.shape[1] != robot.nq + robot.nv:
        raise ProblemError(f"X: expected states of {robot.nq + robot.nv} numbers, got {given.shape[1]}")
    qpos = np.tile(np.asarray(model.qpos0, dtype=np.float64), (len(given), 1))
    qvel = np.zeros((len(given), int(model.nv)))
    for x, places, rates in zip(given, qpos, qvel, strict=True):
        matched.write(x[: robot.nq], x[robot.nq :], places, rates)
    angles = [their for _, their in matched.circles]
    qpos[:, angles] = np.unwrap(qpos[:, angles], axis=0)  # without jumps by whole turns
    return (qpos, qvel) if axes(X) > 1 else (qpos[0], qvel[0])


@suggesting
def from_mujoco(robot: Robot, model: Any, qpos: ArrayLike, qvel: ArrayLike | None = None) -> Array:
    """States X (N, nx) of MuJoCo's ``qpos`` (N, model.nq) and ``qvel`` (N, model.nv), or one; qvel None: at rest.

    Other arguments and errors as of `to_mujoco`, whose inverse it is.
    """
    matched = state_map(robot, model)
    places = np.atleast_2d(as_array("qpos", qpos, (None,) * (axes(qpos) - 1) + (int(model.nq),)))
    rates = np.zeros((len(places), int(model.nv)))
    if qvel is not None:
        rates = np.atleast_2d(as_array("qvel", qvel, (None,) * (axes(qvel) - 1) + (int(model.nv),)))
    if len(rates) != len(places):
        raise ProblemError(f"qvel: expected {len(places)} rows, as qpos has, got {len(rates)}")
    states = [np.concatenate(matched.read(*sample)) for sample in zip(places, rates, strict=True)]
    X = np.array(states).reshape(len(places), robot.nq + robot.nv)
    return X if axes(qpos) > 1 else np.asarray(X[0])


def state_map(robot: Robot, model: Any) -> StateMap:
    """Places of a robot's numbers in qpos and qvel of a model; ProblemError where they do not fit."""
    joints = motion.joints_of(robot)
    if not all(hasattr(model, name) for name in ("jnt_type", "jnt_qposadr", "jnt_dofadr", "njnt", "qpos0")):
        raise ProblemError(f"model: expected a mujoco.MjModel, got {said(model)}")
    known = {joint_name(model, j): j for j in range(int(model.njnt))}  # those without one are called as `load` does
    free = [j for j in range(int(model.njnt)) if int(model.jnt_type[j]) == TYPES[motion.FREE]]
    found = []
    for joint in joints:
        j = known.get(joint.name, free[0] if joint.kind == motion.FREE and len(free) == 1 else None)
        if j is None:
            raise ProblemError(f"model: expected a joint {said(joint.name)}; {nearest(joint.name, known)}")
        if int(model.jnt_type[j]) != TYPES[joint.kind]:
            raise ProblemError(f"model: its joint {said(joint.name)} is of another kind than the robot's")
        found.append((int(model.jnt_qposadr[j]), int(model.jnt_dofadr[j])))
    return StateMap(robot, found)
