"""Obstacles, and the constraints that a robot's body stays clear of them, and of the robot itself.

A sphere is a point and a radius, a capsule a segment and a radius; both as obstacles, fixed in the world, and as bodies
of the robot, carried by its frames. Their signed distance is that of the axes less both radii, negative where they
overlap. It is smooth except where the axes touch (there the world's z axis stands in for the normal, and leads out),
where two parallel segments face each other, and, in its second derivative, where the nearest point passes an end.
"""

import itertools
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ddp.constraints.bound import CompiledConstraint, Together
from ddp.errors import ProblemError, as_array, at_least_zero, choice, instances, items, said, suggesting
from ddp.errors import numbers as numbers_of
from ddp.protocols import Array
from ddp.tracing.quantities import Quantity
from dynamics.geometry.solids import Capsule as Capsule
from dynamics.geometry.solids import Mark
from dynamics.geometry.solids import Sphere as Sphere
from dynamics.quantities import frames
from dynamics.quantities.clearances import chain_of, clearance, together
from dynamics.rigid_bodies.traced import spaces_of
from dynamics.robots.capsules import BodyCapsule, adjacent, capsules
from dynamics.robots.model import Robot, check_rigid
from problems import checks
from problems.kernels.quantities import along
from problems.kernels.self_clearances import self_clearance
from problems.state_constraints import RobotConstraint

COLUMNS: dict[str, Any] = {"starts": slice(0, 3), "ends": slice(3, 6), "radii": 6}
"""Where rows of obstacles (K, 7) have their numbers."""


class Body(NamedTuple):
    """A capsule that two frames of a robot carry, for the kernels; without length if not ``long``."""

    ends: frames.Pair
    radius: float
    long: bool


class Clearance(RobotConstraint):
    """Distances (K,) [m] of a body of the robot to K obstacles, at least a margin each: the base of both clearances."""

    obstacles: Sequence[Capsule]
    margin: float
    _body: Body
    _obstacles: Array
    movable: ClassVar[tuple[str, ...]] = "centers", "starts", "ends", "radii"

    @property
    def centers(self) -> Array:
        """Middles (K, 3) of obstacles [m]."""
        return np.asarray(0.5 * (self.starts + self.ends))

    @property
    def starts(self) -> Array:
        """Starts of obstacles (K, 3) [m]."""
        return self._obstacles[:, COLUMNS["starts"]].copy()

    @property
    def ends(self) -> Array:
        """Ends of obstacles (K, 3) [m], of spheres their starts."""
        return self._obstacles[:, COLUMNS["ends"]].copy()

    @property
    def radii(self) -> Array:
        """Radii (K,) of obstacles [m]."""
        return self._obstacles[:, COLUMNS["radii"]].copy()

    def varied(self, **numbers: Any) -> Self:
        """Copy with other numbers, see `Problem.varying`; where obstacles alone change, only they are checked.

        centers move obstacles as they lie, starts and ends their ends.
        """
        moved = {name: as_array(name, numbers.pop(name), getattr(self, name).shape)
                 for name in self.movable if name in numbers}  # fmt: skip
        made: Any = self
        if numbers:
            made = replace(made, **numbers)
        if not moved:
            return made
        rows = self._obstacles.copy()
        if (centers := moved.pop("centers", None)) is not None:
            if moved.keys() - {"radii"}:
                raise ProblemError("centers: expected them, or starts and ends, got both")
            half = 0.5 * (self.ends - self.starts)
            rows[:, :3], rows[:, 3:6] = centers - half, centers + half
        for name, given in moved.items():
            rows[:, COLUMNS[name]] = given
        if not (rows[:, 6] > 0.0).all():
            raise ProblemError(f"radii: expected positive numbers, got {numbers_of(rows[:, 6])}")
        twin = object.__new__(type(self))
        vars(twin).update(made.__getstate__(), _obstacles=rows, obstacles=[Capsule.of(row) for row in rows])
        return twin

    def marks(self) -> list[Mark]:
        """Obstacles, one for each row."""
        return [Mark("obstacle", one.start, one.end, one.radius, row=k) for k, one in enumerate(self.obstacles)]

    def bodies(self) -> list[BodyCapsule]:
        """The body, as far as one joint carries it."""
        if self.robot.is_hybrid:  # whose bodies bend
            return []
        model, names = self.robot.model, self._frames()
        found = [model.frames[self.robot.frame_id(name)] for name in names]
        start, end = found[0], found[-1]
        if start.parentJoint != end.parentJoint or self._body.radius == 0.0:
            return []
        a, b = (np.array(frame.placement.translation) for frame in (start, end))
        return [BodyCapsule(int(start.parentJoint), a, b, self._body.radius)]

    def _settle(self) -> None:
        body = self._carried()
        one = "Sphere(...) or Capsule(...) (FramePositionLimits keeps a frame off a plane)"
        obstacles = instances("obstacles", self.obstacles, Capsule, "spheres and capsules", one, some=True)
        rows = np.array([[*obstacle.start, *obstacle.end, obstacle.radius] for obstacle in obstacles])
        lower = np.full(len(rows), at_least_zero("margin", self.margin, " m"))
        upper = np.full(len(rows), np.inf)
        checks.settle(self, obstacles=obstacles, lower=lower, upper=upper, _body=body, _obstacles=rows)

    @abstractmethod
    def _carried(self) -> Body:
        """The body, its fields checked."""

    @abstractmethod
    def _frames(self) -> tuple[str, ...]:
        """Names of the frames that carry the body."""

    def _bound(self) -> CompiledConstraint:
        own, ends, spaces = (self._body, self._obstacles), self._body.ends, spaces_of(self.robot)
        quantity = Quantity("clearance", self, len(self._obstacles), spaces, ends.dof, clearance, own)
        made = along(quantity)
        if (chain := chain_of(ends)) is not None:
            made.together = Together(partial(together, *own), quantity.bound, self.robot, chain)
        return made


@suggesting
@dataclass(frozen=True, eq=False)
class SphereClearance(Clearance):
    """A ball about a frame's origin stays ``margin`` clear of every obstacle.

    radius [m]: of the ball, 0 for a point.   obstacles: spheres and capsules, or one alone.
    margin [m]: 0, touching, or more.
    """

    robot: Robot
    frame: str
    radius: float
    obstacles: Sequence[Capsule]
    margin: float = 0.0
    at_end: bool = True

    def _carried(self) -> Body:
        branch = checks.branch(self.robot, self.frame)
        return Body(frames.pair(branch, branch), at_least_zero("radius", self.radius, " m"), False)

    def _frames(self) -> tuple[str, ...]:
        return (self.frame,)


@suggesting
@dataclass(frozen=True, eq=False)
class CapsuleClearance(Clearance):
    """A capsule between the origins of two frames stays ``margin`` clear of every obstacle.

    frames: the names of the two, different links or not.   The rest as in `SphereClearance`.
    """

    robot: Robot
    frames: tuple[str, str]
    radius: float
    obstacles: Sequence[Capsule]
    margin: float = 0.0
    at_end: bool = True

    def _carried(self) -> Body:
        names = self.frames
        if not isinstance(names, Sequence) or isinstance(names, str) or len(names) != 2:
            raise ProblemError(f"frames: expected the names of two frames, got {said(names)}")
        for name in names:
            checks.frame_name(self.robot, name, "frames")
        ends = frames.pair(*(frames.branch(self.robot, name) for name in names))
        if ends.count == 0:
            raise ProblemError(f"frames: no joint of {self.robot.name} moves {names[0]!r} or {names[1]!r}")
        return Body(ends, at_least_zero("radius", self.radius, " m"), True)

    def _frames(self) -> tuple[str, ...]:
        return tuple(self.frames)


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

    @property
    def row_names(self) -> tuple[str, ...]:
        return tuple(" and ".join(pair) for pair in self.pairs or ())

    def bodies(self) -> list[BodyCapsule]:
        """Capsules around the robot's bodies."""
        return [*self._capsules]

    def _settle(self) -> None:
        robot, margin = checks.robot("robot", self.robot), at_least_zero("margin", self.margin, " m")
        check_rigid(robot, ProblemError)
        found, missing = capsules(robot)
        names = [str(robot.model.names[one.joint]) for one in found]
        if missing or len(found) < 2:
            reason = f"its meshes {', '.join(missing[:3])} are missing" if missing else "it has none of two bodies"
            raise ProblemError(f"robot: expected one with shapes of its bodies, got {robot.name}: {reason}")
        model, shaped = robot.model, {one.joint for one in found}
        apart = [
            (i, j) for i, j in itertools.combinations(range(len(found)), 2)
            if not adjacent(model, shaped, found[i].joint, found[j].joint)
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
