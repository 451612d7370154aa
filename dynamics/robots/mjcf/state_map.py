"""States of a robot in a model of MuJoCo that has its joints, in whatever order, and back: see states.py."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ddp.protocols import Array
from dynamics.geometry.joint_motion import CONTINUOUS, FREE_FLYER, SPHERICAL
from dynamics.robots.libraries import pin
from dynamics.robots.mjcf.compiling import import_mujoco
from dynamics.robots.mjcf.states import FROM_OURS, TO_OURS, rotation, unit
from dynamics.robots.model import Robot

Pairs = list[tuple[int, int]]


class StateMap:
    """Places of the numbers of a robot's states among MuJoCo's.

    v (2, nv): places of velocities, the robot's and MuJoCo's.   circles: of each angle that is kept by cosine and sine
    its first number in q, and its number in qpos.   free: of each free base its first numbers in q, v, qpos and qvel,
    and its place in the world.
    """

    def __init__(self, robot: Robot, joints: Iterable[tuple[int, int]]) -> None:
        """joints: where joints 1, 2, ... begin in qpos and in qvel."""
        self._sizes, self._product = (robot.nq, robot.nv), import_mujoco().mju_mulQuat
        self.free: list[tuple[int, int, int, int, pin.SE3]] = []
        self.circles, self._balls = Pairs(), Pairs()
        q, v = Pairs(), Pairs()
        for j, (i, k) in enumerate(joints, 1):
            joint, kind = robot.model.joints[j], int(robot.tree.kind[j - 1])
            v += [(joint.idx_v + l, k + l) for l in range(joint.nv)]
            if kind == FREE_FLYER:
                self.free.append((joint.idx_q, joint.idx_v, i, k, robot.model.jointPlacements[j]))
            elif kind == SPHERICAL:
                self._balls.append((joint.idx_q, i))
            elif kind == CONTINUOUS:
                self.circles.append((joint.idx_q, i))
            else:
                q += [(joint.idx_q + l, i + l) for l in range(joint.nq)]
        self._q, self.v = (np.array(pairs, dtype=np.int64).reshape(-1, 2).T for pairs in (q, v))

    def write(self, q: Array, v: Array, qpos: Array, qvel: Array) -> None:
        """Write a state q (nq,), v (nv,) of the robot into MuJoCo's."""
        qpos[self._q[1]], qvel[self.v[1]] = q[self._q[0]], v[self.v[0]]
        for own, their in self._balls:
            qpos[their : their + 4] = q[own : own + 4][FROM_OURS]
        for own, their in self.circles:
            qpos[their] = np.arctan2(q[own + 1], q[own])
        for own, first, i, k, base in self.free:
            qpos[i : i + 3] = base.act(q[own : own + 3])
            turn, quaternion = pin.Quaternion(base.rotation).coeffs(), q[own + 3 : own + 7]
            self._product(qpos[i + 3 : i + 7], turn[FROM_OURS], quaternion[FROM_OURS])
            qvel[k : k + 3] = base.rotation @ rotation(quaternion[FROM_OURS]) @ v[first : first + 3]

    def rates(self, qpos: Array, count: int) -> Array:
        """T (count, nv) of qvel = T v, MuJoCo's velocities from the robot's, at a qpos."""
        T = np.zeros((count, self._sizes[1]))
        T[self.v[1], self.v[0]] = 1.0
        for _, first, i, k, _ in self.free:
            T[k : k + 3, first : first + 3] = rotation(unit(qpos[i + 3 : i + 7]))
        return T

    def read(self, qpos: Array, qvel: Array) -> tuple[Array, Array]:
        """The state q (nq,), v (nv,) of the robot in MuJoCo's, quaternions of length one."""
        q, v = (np.empty(size) for size in self._sizes)
        q[self._q[0]], v[self.v[0]] = qpos[self._q[1]], qvel[self.v[1]]
        for own, their in self._balls:
            q[own : own + 4] = unit(qpos[their : their + 4])[TO_OURS]
        for own, their in self.circles:
            q[own : own + 2] = np.cos(qpos[their]), np.sin(qpos[their])
        for own, first, i, k, base in self.free:
            turned, back = np.empty(4), pin.Quaternion(base.rotation.T).coeffs()
            self._product(turned, back[FROM_OURS], unit(qpos[i + 3 : i + 7]))
            q[own + 3 : own + 7] = turned[TO_OURS]
            q[own : own + 3] = base.actInv(qpos[i : i + 3])
            R = pin.Quaternion(q[own + 3 : own + 7]).matrix()
            v[first : first + 3] = R.T @ base.rotation.T @ qvel[k : k + 3]
        return q, v
