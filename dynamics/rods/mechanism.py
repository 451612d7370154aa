"""Bodies of robots with rods as loops see them, by the chain of rigid segments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

from ddp.errors import ModelError
from dynamics.geometry.configuration import integrate_batch
from dynamics.robots.chain import Segment, bracket, segments_of
from dynamics.robots.rods import Rod

if TYPE_CHECKING:
    from dynamics.rods.assembly import HybridRobot

Array = NDArray[np.float64]


class HybridMechanism:
    """Bodies of a robot with rods: see ``Mechanism``."""

    def __init__(self, robot: HybridRobot) -> None:
        self.robot, self.name, self.nv = robot, robot.name, robot.nv
        self.chain, self.tree = robot.chain, robot.tree
        parts = robot.recipe.parts
        self.segments = [segments_of(part.moves) if isinstance(part.moves, Rod) else [] for part in parts]
        self.sizes = [max(6 * len(own), part.moves.nv if not own else 0) for own, part in zip(
            self.segments, parts, strict=True)]  # fmt: skip
        last = [f"{part.name}/{len(own)}" if own else part.name for own, part in zip(self.segments, parts, strict=True)]
        self.ends = [self.chain.getJointId(name) for name in last]

    def place(self, frame: str) -> tuple[int, pin.SE3]:
        body, pose, point = self.robot.carrier(frame)
        if point is not None:
            raise ModelError(f"loop: expected the base or the tip of a rod, got the point {frame!r} within it")
        return body, pin.SE3(pose[:9].reshape(3, 3), pose[9:])

    def poses(self, q: Array) -> list[tuple[pin.SE3, Array]]:
        numbers, B, at = [], np.zeros((self.chain.nv, self.nv)), 0
        for b, own in enumerate(self.segments):
            begin, first = int(self.tree.iq[b]), int(self.tree.iv[b])
            n, count = int(self.tree.nj[b]), self.robot.recipe.parts[b].nq
            mine = q[begin : begin + count]
            if not own:
                numbers.append(mine)
                B[at : at + n, first : first + n] = np.eye(n)
            for k, one in enumerate(own):
                twist = pin.Motion(one.twist(mine))
                numbers.append(pin.SE3ToXYZQUAT(pin.exp6(twist)))
                B[at + 6 * k : at + 6 * k + 6, first : first + n] = pin.Jexp6(twist) @ _slope(one, mine)
            at += self.sizes[b]
        data = self.chain.createData()
        pin.computeJointJacobians(self.chain, data, np.concatenate(numbers))
        world = pin.WORLD
        return [(data.oMi[j], np.asarray(pin.getJointJacobian(self.chain, data, j, world)) @ B) for j in self.ends]

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


def _slope(one: Segment, q: Array) -> Array:
    """∂Ω/∂q (6, n) of a segment."""
    first, second = one.reference + np.tensordot(one.basis, q, (1, 0))
    h, c = one.length, np.sqrt(3.0) / 12.0 * one.length**2
    pairs = zip(*one.basis, strict=True)
    return np.array([0.5 * h * (x + y) + c * (bracket(first, y) + bracket(x, second)) for x, y in pairs]).T
