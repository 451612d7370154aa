"""Sensors of robots, for observers: joints, and poses, positions and velocities of frames, of states x = (q, v)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ddp.errors import ProblemError, choice, flag, items, settle
from ddp.protocols import Array
from dynamics.geometry.configuration import difference_batch
from dynamics.quantities import quantities
from dynamics.robots.libraries import pin
from dynamics.robots.model import Robot, check_robot

KINDS = {"pose": 6, "position": 3, "velocity": 6}
"""Quantities of frames that are measured, and how many numbers describe their deviations."""


@dataclass(frozen=True, eq=False)
class JointSensor:
    """Numbers of joints in q [m, rad, or as the joint has them] and in v [m/s, rad/s], one after the other.

    joints: their names; default all but a root that floats.   velocities: whether v is measured.
    """

    robot: Robot
    joints: Sequence[str] | None = None
    velocities: bool = True

    def __post_init__(self) -> None:
        check_robot(self.robot, ProblemError)
        flag("velocities", self.velocities)
        names, floating = self.robot.joint_names, set(self.robot.tree.body[self.robot.floating_dofs].tolist())
        known = [name for b, name in enumerate(names) if b not in floating]
        chosen = items("joints", known if self.joints is None else self.joints, "names of joints", some=True)
        for i, name in enumerate(chosen):
            choice(f"joints[{i}]", name, names, f"{self.robot.name} has no joint")
        settle(self, joints=chosen)

    @property
    def size(self) -> int:
        """Degrees of freedom, twice with velocities."""
        return len(self._dofs) * (1 + self.velocities)

    def values(self, X: Array) -> Array:
        """Numbers (M, .) of states X (M, nx)."""
        nq = self.robot.nq
        return np.hstack([X[:, self._numbers], X[:, nq:][:, self._dofs if self.velocities else []]])

    def jacobian(self, X: Array) -> Array:
        """Derivatives (M, size, n) by deviations of the state."""
        eye, nv = np.eye(2 * self.robot.nv), self.robot.nv
        rows = np.vstack([eye[self._dofs], eye[nv:][self._dofs if self.velocities else []]])
        return np.broadcast_to(rows, (len(X), *rows.shape))

    def difference(self, Y0: Array, Y1: Array) -> Array:
        """``Y1 ⊖ Y0`` (M, size), on the manifold of the joints."""
        robot, both = self.robot, []
        for Y in (Y0, Y1):
            X = np.tile(np.concatenate([robot.neutral(), np.zeros(robot.nv)]), (len(Y), 1))
            X[:, self._numbers] = Y[:, : len(self._numbers)]
            if self.velocities:
                X[:, [robot.nq + i for i in self._dofs]] = Y[:, len(self._numbers) :]
            both.append(X)
        out = np.empty((len(Y0), 2 * robot.nv))
        difference_batch(robot.tree, *both, out)
        return np.hstack([out[:, self._dofs], out[:, robot.nv :][:, self._dofs if self.velocities else []]])

    @cached_property
    def _numbers(self) -> list[int]:
        return [i for name in self.joints or () for i in self.robot.numbers_of(name)[0]]

    @cached_property
    def _dofs(self) -> list[int]:
        return [i for name in self.joints or () for i in self.robot.numbers_of(name)[1]]


@dataclass(frozen=True, eq=False)
class FrameSensor:
    """Measurement of a frame: its "pose" (4, 4) or "position" (3,) [m] in the world, or its "velocity" (6,).

    A velocity is [linear m/s; angular rad/s] in the frame's own axes. Poses deviate by log6(M0⁻¹ M1).
    """

    robot: Robot
    frame: str
    kind: str = "pose"

    def __post_init__(self) -> None:
        check_robot(self.robot, ProblemError)
        self.robot.carrier(self.frame)
        choice("kind", self.kind, KINDS)

    @property
    def size(self) -> int:
        """Numbers of a deviation."""
        return KINDS[self.kind]

    def values(self, X: Array) -> Array:
        """Poses (M, 4, 4), positions (M, 3) or velocities (M, 6) of states X (M, nx)."""
        q, v = self._parts(X)
        if self.kind == "velocity":
            return quantities.frame_velocity(self.robot, q, v, self.frame)
        M = quantities.frame_placement(self.robot, q, self.frame)
        return M if self.kind == "pose" else M[:, :3, 3]

    def jacobian(self, X: Array) -> Array:
        """Derivatives (M, size, n) by deviations of the state."""
        q, v = self._parts(X)
        if self.kind == "velocity":
            return np.concatenate(quantities.frame_velocity_derivatives(self.robot, q, v, self.frame), axis=2)
        J = quantities.frame_placement_derivatives(self.robot, q, self.frame)
        if self.kind == "position":
            J = quantities.frame_placement(self.robot, q, self.frame)[:, :3, :3] @ J[:, :3]
        return np.concatenate([J, np.zeros_like(J)], axis=2)

    def difference(self, Y0: Array, Y1: Array) -> Array:
        """``Y1 ⊖ Y0`` (M, size)."""
        if self.kind != "pose":
            return Y1 - Y0
        moved = [pin.log6(np.linalg.solve(M0, M1)).vector for M0, M1 in zip(Y0, Y1, strict=True)]
        return np.array(moved).reshape(-1, 6)

    def _parts(self, X: Array) -> tuple[Array, Array]:
        return X[:, : self.robot.nq], X[:, self.robot.nq :]


@dataclass(frozen=True, eq=False)
class InnerSensor:
    """Sensor of a robot in a composition around it, of whose states (q, v, s) it measures q and v."""

    sensor: JointSensor | FrameSensor

    @property
    def size(self) -> int:
        """Numbers of a deviation."""
        return self.sensor.size

    def values(self, X: Array) -> Array:
        """Measurements (M, ...) in states X (M, nx)."""
        return self.sensor.values(self._inner(X))

    def jacobian(self, X: Array) -> Array:
        """Derivatives (M, size, n) by deviations of the state, zeros by those of s."""
        inner = self._inner(X)
        return np.pad(self.sensor.jacobian(inner), ((0, 0), (0, 0), (0, X.shape[1] - inner.shape[1])))

    def difference(self, Y0: Array, Y1: Array) -> Array:
        """``Y1 ⊖ Y0`` (M, size)."""
        return self.sensor.difference(Y0, Y1)

    def _inner(self, X: Array) -> Array:
        return np.ascontiguousarray(X[:, : self.sensor.robot.nq + self.sensor.robot.nv])
