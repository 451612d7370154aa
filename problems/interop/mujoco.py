"""States of MuJoCo's own models, both ways, by names of joints.

MuJoCo's quaternions are w x y z; the linear velocity of a free joint is in the world's axes, the angular one in the
body's. Here quaternions are x y z w, and both velocities are in the body's axes.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ddp.errors import ProblemError, as_array, axes, nearest, said
from ddp.protocols import Array
from dynamics.robots.mjcf.bodies import joint_name
from dynamics.robots.model import Robot
from problems.interop import motion

TYPES = {motion.FREE: 0, motion.BALL: 1, motion.SLIDE: 2, motion.HINGE: 3, motion.CIRCLE: 3}
"""MuJoCo's numbers of kinds of joints, mjtJoint."""


def to_mujoco(robot: Robot, model: Any, X: ArrayLike) -> tuple[Array, Array]:
    """``qpos`` (N, model.nq) and ``qvel`` (N, model.nv) of states X (N, nx), or those of one state (nx,).

    model: a ``mujoco.MjModel`` with joints of the robot's names, in any order, and one free joint where the robot has
    one. Joints that the robot lacks keep MuJoCo's ``qpos0``, at rest.
    Raises ProblemError for a joint that the model lacks, or that is of another kind there.
    """
    matched = _matched(robot, model)
    given = np.atleast_2d(as_array("X", X, (None,) * max(1, axes(X))))
    if given.shape[1] != robot.nq + robot.nv:
        raise ProblemError(f"X: expected states of {robot.nq + robot.nv} numbers, got {given.shape[1]}")
    q, v = given[:, : robot.nq], given[:, robot.nq :]
    qpos = np.tile(np.asarray(model.qpos0, dtype=np.float64), (len(given), 1))
    qvel = np.zeros((len(given), int(model.nv)))
    for joint, i, k in matched:
        if joint.kind == motion.FREE:
            place, quaternion = np.split(motion.displaced(joint.place, q[:, joint.iq : joint.iq + 7]), [3], axis=1)
            qpos[:, i : i + 3], qpos[:, i + 3 : i + 7] = place, np.roll(quaternion, 1, axis=1)
            qvel[:, k : k + 3] = motion.turned(motion.rotations(quaternion), v[:, joint.iv : joint.iv + 3])
            qvel[:, k + 3 : k + 6] = v[:, joint.iv + 3 : joint.iv + 6]
        elif joint.kind == motion.BALL:
            qpos[:, i : i + 4] = np.roll(q[:, joint.iq : joint.iq + 4], 1, axis=1)
            qvel[:, k : k + 3] = v[:, joint.iv : joint.iv + 3]
        else:
            qpos[:, i], qvel[:, k] = motion.angle(q, joint), v[:, joint.iv]
    return (qpos, qvel) if axes(X) > 1 else (qpos[0], qvel[0])


def from_mujoco(robot: Robot, model: Any, qpos: ArrayLike, qvel: ArrayLike | None = None) -> Array:
    """States X (N, nx) of MuJoCo's ``qpos`` (N, model.nq) and ``qvel`` (N, model.nv), or one; qvel None: at rest.

    Other arguments and errors as of `to_mujoco`, whose inverse it is.
    """
    matched = _matched(robot, model)
    places = np.atleast_2d(as_array("qpos", qpos, (None,) * (axes(qpos) - 1) + (int(model.nq),)))
    rates = np.zeros((len(places), int(model.nv)))
    if qvel is not None:
        rates = np.atleast_2d(as_array("qvel", qvel, (None,) * (axes(qvel) - 1) + (int(model.nv),)))
    if len(rates) != len(places):
        raise ProblemError(f"qvel: expected {len(places)} rows, as qpos has, got {len(rates)}")
    q, v = np.zeros((len(places), robot.nq)), np.zeros((len(places), robot.nv))
    for joint, i, k in matched:
        if joint.kind == motion.FREE:
            quaternion = _unit(places[:, i + 3 : i + 7])
            poses = np.hstack([places[:, i : i + 3], quaternion])
            q[:, joint.iq : joint.iq + 7] = motion.displaced(joint.place.inverse(), poses)
            into_base = motion.rotations(quaternion).swapaxes(1, 2)
            v[:, joint.iv : joint.iv + 3] = motion.turned(into_base, rates[:, k : k + 3])
            v[:, joint.iv + 3 : joint.iv + 6] = rates[:, k + 3 : k + 6]
        elif joint.kind == motion.BALL:
            q[:, joint.iq : joint.iq + 4] = _unit(places[:, i : i + 4])
            v[:, joint.iv : joint.iv + 3] = rates[:, k : k + 3]
        elif joint.kind == motion.CIRCLE:
            q[:, joint.iq], q[:, joint.iq + 1] = np.cos(places[:, i]), np.sin(places[:, i])
            v[:, joint.iv] = rates[:, k]
        else:
            q[:, joint.iq], v[:, joint.iv] = places[:, i], rates[:, k]
    X = np.concatenate([q, v], axis=1)
    return X if axes(qpos) > 1 else np.asarray(X[0])


def _unit(quaternions: Array) -> Array:
    """Quaternions x y z w of length one from w x y z; no turn of zeros, which are that to MuJoCo."""
    length = np.linalg.norm(quaternions, axis=1, keepdims=True)
    given = np.where(length > 0.0, quaternions / np.where(length > 0.0, length, 1.0), (1.0, 0.0, 0.0, 0.0))
    return np.roll(given, -1, axis=1)


def _matched(robot: Robot, model: Any) -> list[tuple[motion.Joint, int, int]]:
    """Each joint of the robot, and where its numbers begin in qpos and in qvel."""
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
        found.append((joint, int(model.jnt_qposadr[j]), int(model.jnt_dofadr[j])))
    return found
