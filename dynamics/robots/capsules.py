"""Capsules around the bodies of a robot, from its own shapes."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from ddp.protocols import Array
from dynamics.robots.libraries import coal, pin
from dynamics.robots.model import Robot

ROUND = 16
"""Corners of the polygons that stand for circles, around them."""


class BodyCapsule(NamedTuple):
    """All points within a radius [m] of a segment that a body carries.

    joint: of Pinocchio's model, 0 for the world.   start, end (3,) [m]: in the joint's frame.
    """

    joint: int
    start: Array
    end: Array
    radius: float


def capsules(robot: Robot) -> tuple[list[BodyCapsule], list[str]]:
    """One capsule around all shapes of each body that has some, by joint; and the names of meshes that are missing."""
    geometry, missing = robot.collisions()
    found: dict[int, list[tuple[Array, float]]] = {}
    for shape in geometry.geometryObjects:
        points, radius = _balls(shape.geometry)
        if len(points):
            moved = points @ shape.placement.rotation.T + shape.placement.translation
            found.setdefault(shape.parentJoint, []).append((moved, radius))
    made = []
    for joint, parts in sorted(found.items()):
        points = np.concatenate([points for points, _ in parts])
        radii = np.concatenate([np.full(len(points), radius) for points, radius in parts])
        made.append(BodyCapsule(joint, *around(points, radii)))
    return made, list(missing)


def around(points: Array, radii: Array) -> tuple[Array, Array, float]:
    """Ends and radius of a capsule around balls at points (K, 3): the smallest about one of the principal axes."""
    axes = np.linalg.eigh(np.cov((points - points.mean(axis=0)).T))[1].T if len(points) > 1 else np.eye(3)
    return min(
        (_about(points, radii, axis) for axis in axes),
        key=lambda found: found[2] ** 2 * (np.linalg.norm(found[1] - found[0]) + 4.0 / 3.0 * found[2]),
    )


def _about(points: Array, radii: Array, axis: Array) -> tuple[Array, Array, float]:
    """A capsule along an axis, through the middle of the shadow that balls cast along it."""
    side = np.linalg.svd(axis[None])[2][1:]
    shadow = points @ side.T
    center = _middle(shadow, radii)
    off = np.linalg.norm(shadow - center, axis=1)
    radius = float((off + radii).max())
    along, reach = points @ axis, np.sqrt(np.maximum((radius - radii) ** 2 - off**2, 0.0))
    low, high = float((along + reach).min()), float((along - reach).max())
    if low > high:
        low = high = 0.5 * (low + high)
    middle = center @ side
    return middle + low * axis, middle + high * axis, radius


def _middle(shadow: Array, radii: Array) -> Array:
    """The centre of a small circle around discs (Badoiu & Clarkson 2003)."""
    first = center = 0.5 * (shadow.min(axis=0) + shadow.max(axis=0))
    for k in range(200):
        far = np.linalg.norm(shadow - center, axis=1) + radii
        center = center + (shadow[np.argmax(far)] - center) / (k + 2.0) ** 1.5
    return min((first, center), key=lambda c: float((np.linalg.norm(shadow - c, axis=1) + radii).max()))


def _balls(solid: object) -> tuple[Array, float]:
    """Balls (K, 3) of one radius whose convex hull holds one of coal's shapes; none for those without end."""
    if isinstance(solid, coal.Sphere):
        return np.zeros((1, 3)), float(solid.radius)
    if isinstance(solid, coal.Capsule):
        return np.array([[0.0, 0.0, -solid.halfLength], [0.0, 0.0, solid.halfLength]]), float(solid.radius)
    if isinstance(solid, (coal.Box, coal.Ellipsoid)):
        half = np.asarray(solid.halfSide if isinstance(solid, coal.Box) else solid.radii)
        return np.array(list(itertools.product((-1.0, 1.0), repeat=3))) * half, 0.0
    if isinstance(solid, (coal.Cylinder, coal.Cone)):
        angles = 2.0 * np.pi * np.arange(ROUND) / ROUND
        ring = solid.radius / np.cos(np.pi / ROUND) * np.stack([np.cos(angles), np.sin(angles), 0.0 * angles], axis=1)
        up = np.array([0.0, 0.0, solid.halfLength])
        top = up[None] if isinstance(solid, coal.Cone) else ring + up
        return np.concatenate([ring - up, top]), 0.0
    if isinstance(solid, coal.BVHModelBase):
        return np.asarray(solid.vertices(), dtype=np.float64).reshape(-1, 3), 0.0
    if isinstance(solid, coal.ConvexBase):
        return np.asarray(solid.points(), dtype=np.float64).reshape(-1, 3), 0.0
    return np.zeros((0, 3)), 0.0


def adjacent(model: pin.Model, shaped: set[int], one: int, other: int) -> bool:
    """Whether bodies behind two joints are one, or next to each other, so that they touch always.

    shaped: joints that carry shapes.
    """
    return one == other or one in _before(model, shaped, other) or other in _before(model, shaped, one)


def _before(model: pin.Model, shaped: set[int], joint: int) -> list[int]:
    """Joints before another, to the first that carries mass or shapes: those of one body, as of hip hinges, do not."""
    found = [int(model.parents[joint])]
    while found[-1] not in shaped and model.inertias[found[-1]].mass == 0.0 and found[-1]:
        found.append(int(model.parents[found[-1]]))
    return found
