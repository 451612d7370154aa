"""Things that stand in the way: they are drawn where they are and do not move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from ddp.errors import instances
from dynamics.geometry.solids import Capsule as Capsule
from dynamics.geometry.solids import Sphere as Sphere
from dynamics.robots.capsules import BodyCapsule
from dynamics.robots.libraries import pin
from viz.shapes import Color, Mesh, capsule

OBSTACLE: Color = (0.80, 0.52, 0.25, 0.45)

Obstacle: TypeAlias = Capsule


def as_obstacles(obstacles: Sequence[Obstacle] | Obstacle) -> list[Obstacle]:
    """Obstacles, or one alone, checked."""
    one = "a viz.Sphere or a viz.Capsule"
    several = (obstacles,) if isinstance(obstacles, Capsule) else obstacles
    return list(instances("obstacles", several, Capsule, "viz.Spheres and viz.Capsules", one))


def solid(segment: Capsule | BodyCapsule) -> Mesh:
    """All points within the radius of a segment, as a mesh."""
    a, b = np.asarray(segment.start, dtype=np.float64), np.asarray(segment.end, dtype=np.float64)
    length = float(np.linalg.norm(b - a))
    turn = pin.Quaternion.FromTwoVectors(np.array([0.0, 0.0, 1.0]), b - a).matrix() if length > 0.0 else np.eye(3)
    return capsule(segment.radius, length, OBSTACLE).moved(turn, 0.5 * (a + b))
