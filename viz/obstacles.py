"""Things that stand in the way: they are drawn where they are and do not move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike

from ddp.errors import ProblemError, as_array, items, positive, said
from viz.shapes import Color, Mesh, capsule

OBSTACLE: Color = (0.80, 0.52, 0.25, 0.45)


@dataclass(frozen=True)
class Sphere:
    """A ball: its center (3,) in world axes and its radius, both in [m]; bad input is a ProblemError."""

    center: ArrayLike
    radius: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "center", _point("center of a sphere", self.center))
        object.__setattr__(self, "radius", positive("radius of a sphere", self.radius))


@dataclass(frozen=True)
class Capsule:
    """All that is within ``radius`` [m] of the segment from a to b, (3,) each, in world axes [m].

    Bad input is a ProblemError; a may equal b.
    """

    a: ArrayLike
    b: ArrayLike
    radius: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "a", _point("a of a capsule", self.a))
        object.__setattr__(self, "b", _point("b of a capsule", self.b))
        object.__setattr__(self, "radius", positive("radius of a capsule", self.radius))


Obstacle = Sphere | Capsule


def _point(field: str, value: ArrayLike) -> tuple[float, ...]:
    return tuple(as_array(field, value, (3,)).tolist())


def standing(obstacles: Sequence[Obstacle]) -> list[Mesh]:
    """One mesh for each obstacle, in world axes."""
    if isinstance(obstacles, Obstacle):
        raise ProblemError(f"obstacles: expected a sequence of them, got one {type(obstacles).__name__}")
    given = items("obstacles", obstacles, "viz.Spheres and viz.Capsules")
    return [_mesh(f"obstacles[{i}]", obstacle) for i, obstacle in enumerate(given)]


def _mesh(field: str, obstacle: Obstacle) -> Mesh:
    if isinstance(obstacle, Sphere):
        return capsule(obstacle.radius, 0.0, OBSTACLE).moved(np.eye(3), np.asarray(obstacle.center))
    if isinstance(obstacle, Capsule):
        a, b = np.asarray(obstacle.a, dtype=np.float64), np.asarray(obstacle.b, dtype=np.float64)
        length = float(np.linalg.norm(b - a))
        turn = pin.Quaternion.FromTwoVectors(np.array([0.0, 0.0, 1.0]), b - a).matrix() if length > 0.0 else np.eye(3)
        return capsule(obstacle.radius, length, OBSTACLE).moved(turn, 0.5 * (a + b))
    raise ProblemError(f"{field}: expected a viz.Sphere or a viz.Capsule, got {said(obstacle)}")
