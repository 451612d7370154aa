"""A robot that does not touch itself: capsules around its bodies, from its own shapes, stay apart."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ddp.constraints.bound import CompiledConstraint
from ddp.errors import ProblemError, at_least_zero, choice, flag, items, said, suggesting
from ddp.tracing.quantities import Quantity
from dynamics.rigid_bodies.traced import spaces_of
from dynamics.robots.capsules import BodyCapsule, adjacent, capsules
from dynamics.robots.model import Robot, check_rigid
from problems import checks
from problems.kernels.quantities import along
from problems.kernels.self_clearances import self_clearance
from problems.state_constraints import RobotConstraint


@suggesting
@dataclass(frozen=True, eq=False)
class SelfClearance(RobotConstraint):
    """Distances (K,) [m] between K pairs of a robot's bodies, at least ``margin`` each.

        SelfClearance(robot)                                                  # all pairs that can be kept apart
        SelfClearance(robot, [("wrist_1_joint", "shoulder_lift_joint")], margin=0.02)

    Each body is the smallest of some capsules around all its shapes, those for contacts where the file has any. It is
    called by the joint that moves it, "universe" if none does.
    pairs: names of two joints each. Default: all bodies that are not next to each other, whose capsules are apart by
        the margin in ``robot.q0``; afterwards those that are held.
    left_out: pairs that would be held by default, but are too close there: capsules say nothing about them.
    margin: 0 [m], touching, or more.
    """

    robot: Robot
    pairs: Sequence[tuple[str, str]] | None = None
    margin: float = 0.0
    at_end: bool = True
    left_out: tuple[tuple[str, str], ...] = field(init=False, repr=False, default=())
    _capsules: tuple[BodyCapsule, ...] = field(init=False, repr=False)
    _pairs: NDArray[np.int64] = field(init=False, repr=False)

    def bodies(self) -> list[BodyCapsule]:
        """Capsules around the robot's bodies."""
        return [*self._capsules]

    def __post_init__(self) -> None:
        flag("at_end", self.at_end)
        robot, margin = checks.robot("robot", self.robot), at_least_zero("margin", self.margin, " m")
        check_rigid(robot, ProblemError)
        found, missing = capsules(robot)
        names = [str(robot.model.names[one.joint]) for one in found]
        if missing or len(found) < 2:
            reason = f"its meshes {', '.join(missing[:3])} are missing" if missing else "it has none of two bodies"
            raise ProblemError(f"robot: expected one with shapes of its bodies, got {robot.name}: {reason}")
        model = robot.model
        apart = [
            (i, j) for i, j in itertools.combinations(range(len(found)), 2)
            if not adjacent(model, found[i].joint, found[j].joint)
        ]  # fmt: skip
        checks.settle(self, margin=margin, _capsules=tuple(found))
        if self.pairs is not None:
            pairs = items("pairs", self.pairs, "pairs of names of joints", some=True)
            self._hold([_named(pair, names, robot.name) for pair in pairs], names)
            return
        self._hold(apart, names)
        x = np.concatenate([robot.q0, np.zeros(robot.nv)])
        clear = self.values(x[None], np.zeros((1, 0)))[0] > margin
        if not clear.any():
            raise ProblemError(f"pairs: no two bodies of {robot.name} are apart by {margin:g} m in its posture q0")
        checks.settle(self, left_out=tuple(itertools.compress(self.pairs or (), ~clear)))
        self._hold(list(itertools.compress(apart, clear)), names)

    def _hold(self, chosen: list[tuple[int, int]], names: list[str]) -> None:
        """Write pairs, their bounds and names."""
        vars(self).pop("compiled", None)
        checks.settle(self, _pairs=np.array(chosen, dtype=np.int64).reshape(-1, 2))
        lower, upper = np.full(len(chosen), self.margin), np.full(len(chosen), np.inf)
        checks.settle(self, lower=lower, upper=upper, pairs=tuple((names[i], names[j]) for i, j in chosen))

    def _bound(self) -> CompiledConstraint:
        bodies = np.array([one.joint - 1 for one in self._capsules], dtype=np.int64)
        ends = np.array([np.concatenate([one.start, one.end]) for one in self._capsules])
        radii = np.array([one.radius for one in self._capsules])
        own, taken = (self.robot.tree, bodies, ends, radii, self._pairs), np.arange(self.robot.nv)
        spaces, size = spaces_of(self.robot), len(self._pairs)
        return along(Quantity("self_clearance", self, size, spaces, taken, self_clearance, own))


def _named(pair: tuple[str, str], names: list[str], robot: str) -> tuple[int, int]:
    """Indices of the capsules of two joints."""
    if isinstance(pair, str) or not isinstance(pair, Sequence) or len(pair) != 2 or pair[0] == pair[1]:
        raise ProblemError(f"pairs: expected names of two joints, got {said(pair)}")
    for name in pair:
        choice("pairs", name, names, f"{robot} has no shapes at a joint")
    return names.index(pair[0]), names.index(pair[1])
