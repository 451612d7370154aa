"""Bodies of robots with rods as loops see them: where they are, and how degrees of freedom move them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ddp.errors import ModelError
from dynamics.geometry.configuration import integrate_batch
from dynamics.robots.chain import Segment, segments_of
from dynamics.robots.libraries import pin
from dynamics.robots.rods import Rod

if TYPE_CHECKING:
    from dynamics.rods.hybrid_robot import HybridRobot
from dynamics.rods.parts import Part

Array = NDArray[np.float64]


class HybridMechanism:
    """Bodies of a robot with rods: see ``Mechanism``."""

    def __init__(self, robot: HybridRobot) -> None:
        self.robot, self.name, self.nv, self.tree = robot, robot.name, robot.nv, robot.tree
        self.segments = [segments_of(p.moves) if isinstance(p.moves, Rod) else [] for p in robot.recipe.parts]

    def place(self, frame: str) -> tuple[int, pin.SE3]:
        body, pose, point = self.robot.carrier(frame)
        if point is not None:
            raise ModelError(f"loop: expected the base or the tip of a rod, got the point {frame!r} within it")
        return body, pin.SE3(pose[:9].reshape(3, 3), pose[9:])

    def poses(self, q: Array) -> list[tuple[pin.SE3, Array]]:
        found: list[tuple[pin.SE3, Array]] = []
        for b, part in enumerate(self.robot.recipe.parts):
            pose, J = found[part.parent] if part.parent >= 0 else (pin.SE3.Identity(), np.zeros((6, self.nv)))
            mine = q[self.tree.iq[b] : self.tree.iq[b] + part.nq]
            moved, own = self._rod(b, pose * part.placement, mine) if part.is_rod else _joint(part, pose, mine)
            J = J.copy()
            J[:, self.tree.iv[b] : self.tree.iv[b] + self.tree.nj[b]] = own
            found.append((moved, J))
        return found

    def _rod(self, b: int, pose: pin.SE3, q: Array) -> tuple[pin.SE3, Array]:
        """Pose of the tip, and its motions by the rod's coordinates, of a rod whose base is at a pose."""
        J = np.zeros((6, len(q)))
        for one in self.segments[b]:
            twist = pin.Motion(one.twist(q))
            pose = pose * pin.exp6(twist)
            J += pose.action @ (pin.Jexp6(twist) @ _slope(one, q))
        return pose, J

    def moved(self, q: Array, dq: Array) -> Array:
        end, still = np.zeros((1, len(q) + self.nv)), np.zeros(self.nv)
        integrate_batch(self.tree, np.append(q, still)[None], np.append(dq, still)[None], end)
        return end[0, : len(q)]

    def dofs(self, body: int) -> list[int]:
        found: list[int] = []
        while body >= 0:
            first = int(self.tree.iv[body])
            found = [*range(first, first + int(self.tree.nj[body])), *found]
            body = int(self.tree.parent[body])
        return found

    def root(self, body: int) -> int:
        return int(self.tree.root[body])


def _joint(part: Part, pose: pin.SE3, q: Array) -> tuple[pin.SE3, Array]:
    """Pose of a joint's body, and its motions by the joint, on a body at a pose."""
    model: pin.Model = part.moves
    data = model.createData()
    pin.computeJointJacobians(model, data, q)
    moved = pose * part.placement * data.oMi[1]
    return moved, (moved.action @ pin.getJointJacobian(model, data, 1, pin.LOCAL)).reshape(6, -1)


def _slope(one: Segment, q: Array) -> Array:
    """∂Ω/∂q (6, n) of a segment."""
    first, second = one.reference + np.tensordot(one.basis, q, (1, 0))
    h, c = one.length, np.sqrt(3.0) / 12.0 * one.length**2
    x, y = one.basis[0].T, one.basis[1].T
    return np.asarray(0.5 * h * (x + y) + c * (pin.Motion(first).action @ y - pin.Motion(second).action @ x))
