"""Motions as Drake has them: a ``PiecewisePolynomial`` of positions, or the samples to make it of."""

from typing import Any, NamedTuple

import numpy as np

from ddp.protocols import Array
from ddp.solutions.solution import Solution
from problems.interop.motion import BALL, FREE, angle, displaced, joints_of, optional, robot_of, rotations, turned


class DrakeSamples(NamedTuple):
    """Samples of a motion in Drake's order.

    names: of the joints, in order.   breaks (N+1,) [s].   q (nq, N+1), q_dot (nq, N+1): positions and their rates;
    of a free base a quaternion w x y z, then a place in the world [m].   v (nv, N+1): velocities; of a free base
    angular, then linear, both in the world's axes.
    """

    names: tuple[str, ...]
    breaks: Array
    q: Array
    q_dot: Array
    v: Array


def drake_samples(solution: Solution) -> DrakeSamples:
    """Samples of a robot's motion, in the order of joints that the robot has here.

    Where time stands still, at an impact, the state after it counts: Drake's breaks increase.
    """
    robot = robot_of(solution)
    t, X = np.asarray(solution.t), np.asarray(solution.X)
    after = np.append(np.diff(t) > 0.0, True)
    t, q, v = t[after], X[after, : robot.nq], X[after, robot.nq :]
    places, rates, speeds = [], [], []
    joints = joints_of(robot)
    for joint in joints:
        if joint.kind in (FREE, BALL):
            quaternion = q[:, joint.iq : joint.iq + 4]
            if joint.kind == FREE:
                place, quaternion = np.split(displaced(joint.place, q[:, joint.iq : joint.iq + 7]), [3], axis=1)
            R = rotations(quaternion)
            own = v[:, joint.iv + 3 : joint.iv + 6] if joint.kind == FREE else v[:, joint.iv : joint.iv + 3]
            omega = turned(R, own)
            wxyz = np.roll(quaternion, 1, axis=1)
            places.append(wxyz)
            rates.append(0.5 * _times(omega, wxyz))
            speeds.append(omega if joint.kind == FREE else own)
            if joint.kind == FREE:
                linear = turned(R, v[:, joint.iv : joint.iv + 3])
                places.append(place)
                rates.append(linear)
                speeds.append(linear)
        else:
            places.append(angle(q, v, t, joint)[:, None])
            rates.append(v[:, joint.iv : joint.iv + 1])
            speeds.append(rates[-1])
    stacked = (np.concatenate(part, axis=1).T for part in (places, rates, speeds))
    return DrakeSamples(tuple(joint.name for joint in joints), t, *stacked)


def to_drake(solution: Solution) -> Any:
    """Positions of a motion as Drake's ``PiecewisePolynomial``: cubic, through the samples with their rates.

    Raises ProblemError where pydrake is not installed; `drake_samples` does without.
    """
    trajectories = optional("pydrake.trajectories", "to_drake")
    samples = drake_samples(solution)
    return trajectories.PiecewisePolynomial.CubicHermite(samples.breaks, samples.q, samples.q_dot)


def _times(omega: Array, wxyz: Array) -> Array:
    """Products of quaternions (0, ω) and q (N, 4), w x y z."""
    w, xyz = wxyz[:, :1], wxyz[:, 1:]
    return np.concatenate([-(omega * xyz).sum(axis=1, keepdims=True), w * omega + np.cross(omega, xyz)], axis=1)
