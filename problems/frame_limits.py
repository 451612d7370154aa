"""Bounds on where a frame or the centre of mass is, along any axes, and on how a frame moves."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ddp.constraints.bound import CompiledConstraint
from ddp.errors import ProblemError, as_array, axes, suggesting
from ddp.protocols import Array
from dynamics.geometry.solids import Mark
from dynamics.quantities import traced as quantities
from dynamics.quantities.frames import REFERENCES
from dynamics.robots.model import Robot
from problems import checks
from problems.kernels.quantities import along
from problems.state_constraints import RobotConstraint, bounded


class _AlongAxes(RobotConstraint):
    """``lower <= axes p(q) <= upper`` of a point p: the origin of a frame, or the centre of mass where it has none."""

    axes: ArrayLike | None
    _axes: Array

    def _settle(self) -> None:
        """Keep the axes that have a bound."""
        directions = np.eye(3) if self.axes is None else self.axes
        one = axes(directions) == 1
        array = as_array("axes", directions, (3,) if one else (None, 3)).reshape(-1, 3)
        if len(array) == 0 or not (np.abs(array).max(axis=1) > 0.0).all():
            raise ProblemError("axes: expected directions that are not zero, at least one")
        kept = bounded(self, self.lower, self.upper, len(array))
        checks.settle(self, _axes=array[kept].copy())
        if self.axes is not None or len(kept) < len(array):
            checks.settle(self, axes=array[kept].copy())  # what copies with other numbers are made of

    def marks(self) -> list[Mark]:
        """Walls at finite bounds, one where the two are equal."""
        found = []
        for row, (axis, low, high) in enumerate(zip(self._axes, self.lower, self.upper, strict=True)):
            size = np.linalg.norm(axis)
            for bound, side in ((low, -1), (high, 1)) if low < high else ((low, 0),):
                if np.isfinite(bound):
                    at, inward = axis * (bound / size**2), axis / size * (-1.0 if side > 0 else 1.0)
                    found.append(Mark("wall", at, at + inward, frame=getattr(self, "frame", ""), row=row, side=side))
        return found


@suggesting
@dataclass(frozen=True, eq=False)
class FramePositionLimits(_AlongAxes):
    """``lower <= axes p(q) <= upper`` of a frame's origin p in the world [m].

        FramePositionLimits(robot, "tool0", lower=[-np.inf, -np.inf, 0.1])               # 10 cm above the ground
        FramePositionLimits(robot, "tool0", lower=0.3, upper=0.3, axes=[0.0, 1.0, 0.0])  # in the plane y = 0.3

    axes: directions (K, 3), or one (3,); default the world's x, y and z.
    lower, upper (K,), or one number for all: infinite where there is none, equal for an equality.
    """

    robot: Robot
    frame: str
    lower: Array = -np.inf  # type: ignore[assignment]
    upper: Array = np.inf  # type: ignore[assignment]
    axes: ArrayLike | None = None
    at_end: bool = True
    _axes: Array = field(init=False, repr=False)

    def _settle(self) -> None:
        checks.branch(self.robot, self.frame)
        super()._settle()

    def _bound(self) -> CompiledConstraint:
        return along(quantities.frame_position(self.robot, self.frame), self._axes)


@suggesting
@dataclass(frozen=True, eq=False)
class CenterOfMassLimits(_AlongAxes):
    """``lower <= axes c(q) <= upper`` of the centre of mass c in the world [m]; as `FramePositionLimits` of a frame."""

    robot: Robot
    lower: Array = -np.inf  # type: ignore[assignment]
    upper: Array = np.inf  # type: ignore[assignment]
    axes: ArrayLike | None = None
    at_end: bool = True
    _axes: Array = field(init=False, repr=False)

    def _settle(self) -> None:
        checks.robot("robot", self.robot)
        super()._settle()

    def _bound(self) -> CompiledConstraint:
        return along(quantities.center_of_mass(self.robot), self._axes)


@suggesting
@dataclass(frozen=True, eq=False)
class FrameVelocityLimits(RobotConstraint):
    """``lower <= V <= upper`` of a frame's velocity V (6,) = [linear m/s; angular rad/s].

    lower, upper (6,), or one number for all: infinite where there is none, equal for an equality.
    reference: "local", V in the frame's own axes; "world", the spatial velocity at the world's origin;
    "local-world-aligned", the velocity of the frame's origin in the world's axes.
    """

    robot: Robot
    frame: str
    lower: Array = -np.inf  # type: ignore[assignment]
    upper: Array = np.inf  # type: ignore[assignment]
    reference: str = "local"
    at_end: bool = True
    _rows: Array = field(init=False, repr=False)

    def _settle(self) -> None:
        checks.one_of("reference", self.reference, REFERENCES)
        checks.branch(self.robot, self.frame)
        checks.settle(self, _rows=bounded(self, self.lower, self.upper, 6))

    def varied(self, **numbers: Any) -> "FrameVelocityLimits":
        """Copy with other numbers, see `Problem.varying`; bounds are of those components that have one."""
        full: dict[str, Any] = {"lower": np.full(6, -np.inf), "upper": np.full(6, np.inf)}
        for name, bound in full.items():
            given = numbers.pop(name, getattr(self, name))
            bound[self._rows] = as_array(name, given, (len(self._rows),), finite=False)
        return replace(self, **full, **numbers)

    def _bound(self) -> CompiledConstraint:
        return along(quantities.frame_velocity(self.robot, self.frame, self.reference), np.eye(6)[self._rows])
