"""Obstacles, and the constraint that a robot's body stays clear of them.

A sphere is a point and a radius, a capsule a segment and a radius; both as obstacles, fixed in the world, and as bodies
of the robot, carried by its frames. Their signed distance is that of the axes less both radii, negative where they
overlap. It is smooth except where the axes touch (there the world's z axis stands in for the normal, and leads out),
where two parallel segments face each other, and, in its second derivative, where the nearest point passes an end.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from ddp.constraints.bound import CompiledConstraint
from ddp.errors import ProblemError, as_array, at_least_zero, flag, instances, said, suggesting
from ddp.errors import numbers as numbers_of
from ddp.protocols import Array
from ddp.tracing.quantities import Quantity
from dynamics.geometry.solids import Capsule as Capsule
from dynamics.geometry.solids import Mark
from dynamics.geometry.solids import Sphere as Sphere
from dynamics.quantities import frames
from dynamics.rigid_bodies.traced import spaces_of
from dynamics.robots.capsules import BodyCapsule
from dynamics.robots.model import Robot
from problems import checks
from problems.kernels.clearances import clearance
from problems.kernels.quantities import along
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
    _body: Body
    _obstacles: Array
    movable: ClassVar[tuple[str, ...]] = "centers", "starts", "ends", "radii"

    @property
    def centers(self) -> Array:
        """Middles (K, 3) of obstacles [m]."""
        return np.asarray(0.5 * (self.starts + self.ends))

    @property
    def starts(self) -> Array:
        """Where obstacles start (K, 3) [m]."""
        return self._obstacles[:, COLUMNS["starts"]].copy()

    @property
    def ends(self) -> Array:
        """Where obstacles end (K, 3) [m], spheres where they start."""
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

    @abstractmethod
    def _frames(self) -> tuple[str, ...]:
        """Names of the frames that carry the body."""

    def _bound(self) -> CompiledConstraint:
        own, taken = (self._body, self._obstacles), self._body.ends.dof
        spaces, size = spaces_of(self.robot), len(self._obstacles)
        return along(Quantity("clearance", self, size, spaces, taken, clearance, own))


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

    def __post_init__(self) -> None:
        flag("at_end", self.at_end)
        branch = checks.branch(self.robot, self.frame)
        body = Body(frames.pair(branch, branch), at_least_zero("radius", self.radius, " m"), False)
        _settle(self, body, self.obstacles, self.margin)

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

    def __post_init__(self) -> None:
        flag("at_end", self.at_end)
        names = self.frames
        if not isinstance(names, Sequence) or isinstance(names, str) or len(names) != 2:
            raise ProblemError(f"frames: expected the names of two frames, got {said(names)}")
        for name in names:
            checks.frame_name(self.robot, name, "frames")
        ends = frames.pair(*(frames.branch(self.robot, name) for name in names))
        if ends.count == 0:
            raise ProblemError(f"frames: no joint of {self.robot.name} moves {names[0]!r} or {names[1]!r}")
        body = Body(ends, at_least_zero("radius", self.radius, " m"), True)
        _settle(self, body, self.obstacles, self.margin)

    def _frames(self) -> tuple[str, ...]:
        return tuple(self.frames)


def _settle(constraint: Clearance, body: Body, obstacles: Sequence[Capsule] | Capsule, margin: float) -> None:
    """Check obstacles and margin, and write them into the constraint."""
    one = "Sphere(...) or Capsule(...) (FramePositionLimits keeps a frame off a plane)"
    obstacles = (obstacles,) if isinstance(obstacles, Capsule) else obstacles
    obstacles = instances("obstacles", obstacles, Capsule, "spheres and capsules", one, some=True)
    rows = np.array([[*obstacle.start, *obstacle.end, obstacle.radius] for obstacle in obstacles])
    lower = np.full(len(rows), at_least_zero("margin", margin, " m"))
    upper = np.full(len(rows), np.inf)
    checks.settle(constraint, obstacles=obstacles, lower=lower, upper=upper, _body=body, _obstacles=rows)
