"""Bodies of robots with rods as loops see them: where they are, and how degrees of freedom move them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ddp.errors import ModelError
from dynamics.robots.chain import Segment, segments_of
from dynamics.robots.libraries import pin
from dynamics.robots.loop import Mechanism

if TYPE_CHECKING:
    from dynamics.rods.hybrid_robot import HybridRobot

Array = NDArray[np.float64]


class HybridMechanism(Mechanism):
    """Bodies of a robot with rods: see ``Mechanism``."""

    def __init__(self, robot: HybridRobot) -> None:
        super().__init__(robot.recipe.model)
        self.robot = robot
        self.segments = {b: segments_of(rod) for b, rod in robot.recipe.rods.items()}

    def place(self, frame: str) -> tuple[int, pin.SE3]:
        body, pose, point = self.robot.carrier(frame)
        if point is not None:
            raise ModelError(f"loop: expected the base or the tip of a rod, got the point {frame!r} within it")
        return body, pin.SE3(pose[:9].reshape(3, 3), pose[9:])

    def poses(self, q: Array) -> list[tuple[pin.SE3, Array]]:
        found = [(pin.SE3.Identity(), np.zeros((6, self.nv)))]
        for j in range(1, self.model.njoints):
            (pose, J), joint = found[self.model.parents[j]], self.model.joints[j]
            pose, J = pose * self.model.jointPlacements[j], J.copy()
            if j - 1 in self.segments:
                pose, own = self._tip(self.segments[j - 1], pose, q[joint.idx_q : joint.idx_q + joint.nq])
            else:
                moved = joint.createData()
                joint.calc(moved, q)
                pose = pose * moved.M
                own = pose.action @ np.asarray(moved.S).reshape(6, -1)
            J[:, joint.idx_v : joint.idx_v + joint.nv] = own
            found.append((pose, J))
        return found[1:]

    @staticmethod
    def _tip(segments: list[Segment], pose: pin.SE3, q: Array) -> tuple[pin.SE3, Array]:
        """Pose of the tip, and its motions by the rod's coordinates, of a rod whose base is at a pose."""
        J = np.zeros((6, len(q)))
        for one in segments:
            twist = pin.Motion(one.twist(q))
            pose = pose * pin.exp6(twist)
            J += pose.action @ (pin.Jexp6(twist) @ _slope(one, q))
        return pose, J


def _slope(one: Segment, q: Array) -> Array:
    """∂Ω/∂q (6, n) of a segment."""
    first, second = one.reference + np.tensordot(one.basis, q, (1, 0))
    h, c = one.length, np.sqrt(3.0) / 12.0 * one.length**2
    x, y = one.basis[0].T, one.basis[1].T
    return np.asarray(0.5 * h * (x + y) + c * (pin.Motion(first).action @ y - pin.Motion(second).action @ x))
