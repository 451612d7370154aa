"""Bodies of a robot as coloured triangle meshes, each fixed to one joint."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from dynamics.robots.libraries import coal, pin
from viz import collada
from viz.shapes import Array, Color, Mesh, box, capsule, cone, cylinder, ellipsoid, merge, rod, sharpen

logger = logging.getLogger("mayne")

JOINT: Color = (0.20, 0.29, 0.37, 1.0)
LINK: Color = (0.78, 0.80, 0.82, 1.0)
MASS: Color = (0.90, 0.49, 0.13, 1.0)


class Drawable(Protocol):
    """Robot that can be drawn: ``dynamics.Robot`` is one."""

    @property
    def name(self) -> str: ...
    @property
    def model(self) -> pin.Model: ...
    def visuals(self) -> tuple[pin.GeometryModel, list[str]]:
        """The shapes to draw, and the names of meshes that are missing."""


Bodies = dict[int, list[Mesh]]
"""Joint index (0: the world) to its meshes in the joint's frame, one for each colour."""


def listed(names: Sequence[str]) -> str:
    """Text of the first four names, and how many more there are."""
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def bodies(robot: Drawable) -> tuple[Bodies, tuple[str, ...]]:
    """The meshes of a robot, and the names of those that are missing or broken.

    Joints that have nothing to show, because the model has no shapes or their files are missing or broken, are drawn
    as a skeleton.
    """
    geometry, absent = robot.visuals()
    absent = list(absent)
    found: Bodies = {}
    for shape in geometry.geometryObjects:
        meshes = _meshes(shape)
        surfaces = [mesh for mesh in meshes if _is_a_surface(mesh)]
        if (meshes and not surfaces) or not all(np.isfinite(mesh.vertices).all() for mesh in meshes):
            absent.append(shape.meshPath if Path(shape.meshPath).is_file() else shape.name)
        elif surfaces:
            moved = [mesh.moved(shape.placement.rotation, shape.placement.translation) for mesh in surfaces]
            found.setdefault(shape.parentJoint, []).extend(moved)
    missing = tuple(dict.fromkeys(absent))
    if missing:
        logger.warning("%s: meshes are missing or broken, a skeleton is drawn instead: %s", robot.name, listed(missing))
    if missing or not found:
        for joint, meshes in skeleton(robot.model).items():
            found.setdefault(joint, meshes)
    made = {joint: _by_color(meshes) for joint, meshes in sorted(found.items())}
    return {joint: meshes for joint, meshes in made.items() if meshes}, missing


def _is_a_surface(mesh: Mesh) -> bool:
    """Whether a triangle has an area."""
    a, b, c = np.moveaxis(mesh.vertices[mesh.triangles], 1, 0)
    return bool(np.nan_to_num(np.cross(b - a, c - a)).any())


def _by_color(meshes: list[Mesh]) -> list[Mesh]:
    colors = dict.fromkeys(mesh.color for mesh in meshes)
    merged = [sharpen(merge([mesh for mesh in meshes if mesh.color == color])) for color in colors]
    return [mesh for mesh in merged if len(mesh.triangles)]


def _meshes(shape: pin.GeometryObject) -> list[Mesh]:
    """One of Pinocchio's shapes, in its own frame; nothing for those without a surface of finite size."""
    r, g, b, a = (float(c) for c in shape.meshColor)
    color = (r, g, b, a if a > 0.0 else 1.0)
    solid = shape.geometry
    if isinstance(solid, coal.BVHModelBase):
        read = _from_collada(shape, np.asarray(solid.vertices())) if solid.num_tris else []
        read = read or _triangles(solid, color)
        return [mesh._replace(color=color) for mesh in read] if shape.overrideMaterial else read
    if isinstance(solid, coal.Box):
        return [box(2.0 * np.asarray(solid.halfSide), color)]
    if isinstance(solid, coal.Sphere):
        return [capsule(solid.radius, 0.0, color)]
    if isinstance(solid, coal.Ellipsoid):
        return [ellipsoid(np.asarray(solid.radii), color)]
    if isinstance(solid, coal.Capsule):
        return [capsule(solid.radius, 2.0 * solid.halfLength, color)]
    if isinstance(solid, coal.Cylinder):
        return [cylinder(solid.radius, 2.0 * solid.halfLength, color)]
    if isinstance(solid, coal.Cone):
        return [cone(solid.radius, 2.0 * solid.halfLength, color)]
    if isinstance(solid, coal.ConvexBase):
        return _triangles(solid, color)
    logger.info("shape %s (%s) is not drawn", shape.name, type(solid).__name__)
    return []


def _triangles(solid: Any, color: Color) -> list[Mesh]:
    if isinstance(solid, coal.BVHModelBase):
        vertices, faces = solid.vertices(), [solid.tri_indices(i) for i in range(solid.num_tris)]
    else:
        vertices, faces = solid.points(), [solid.polygons(i) for i in range(solid.num_polygons)]
    indices = np.array([(face[0], face[1], face[2]) for face in faces], dtype=np.int64).reshape(-1, 3)
    return [Mesh(np.array(vertices, dtype=np.float64), indices, color)] if len(indices) else []


def _from_collada(shape: pin.GeometryObject, own: Array) -> list[Mesh]:
    """The meshes of a COLLADA file with their colours, if they are the shape of Pinocchio's vertices.

    Pinocchio drops colours, and of files with several surfaces it numbers the triangles of all but the first wrongly.
    """
    if Path(shape.meshPath).suffix.lower() != ".dae":
        return []
    scale = np.diag(np.asarray(shape.meshScale))
    try:
        scaled = [mesh.moved(scale, np.zeros(3)) for mesh in collada.read(shape.meshPath)]
    except (ValueError, OSError) as reason:
        logger.info("%s", reason)
        return []
    theirs, ours = _extent(own), _extent(np.concatenate([mesh.vertices for mesh in scaled]))
    if not np.abs(theirs - ours).max() <= 1e-3 * np.ptp(theirs, axis=0).max():  # nor if a number is not finite
        logger.info("%s: drawn without its colours", shape.meshPath)
        return []
    return scaled


def _extent(points: Array) -> Array:
    return np.stack([points.min(axis=0), points.max(axis=0)])


def skeleton(model: pin.Model) -> Bodies:
    """Rods from joint to joint, balls at joints, boxes at sliders, a ball at the mass where the tree ends."""
    size = _size(model)
    found: Bodies = {}
    for j in range(1, model.njoints):
        sliding = "P" in model.joints[j].shortname().removeprefix("JointModel")[:2]
        here = box(np.full(3, 1.6 * size), JOINT) if sliding else capsule(0.6 * size, 0.0, JOINT)
        found[j] = [here]
        children = [child for child in range(1, model.njoints) if model.parents[child] == j]
        tips = [np.asarray(model.jointPlacements[child].translation) for child in children]
        if not tips:
            mass = np.asarray(model.inertias[j].lever)
            tips = [mass]
            found[j].append(capsule(size, 0.0, MASS).moved(np.eye(3), mass))
        long = [tip for tip in tips if np.linalg.norm(tip) > 0.1 * size]
        found[j] += [rod(np.zeros(3), tip, 0.3 * size, LINK) for tip in long]
    return found


def _size(model: pin.Model) -> float:
    """A radius [m] that suits the lengths of a model's links, and of chains of many."""
    placed = [float(np.linalg.norm(placement.translation)) for placement in model.jointPlacements]
    lengths = placed[2:] + [float(np.linalg.norm(inertia.lever)) for inertia in model.inertias[1:]]
    reach = [0.0] * model.njoints
    for j in range(1, model.njoints):
        parent = model.parents[j]
        reach[j] = reach[parent] + placed[j] if parent > 0 else 0.0
    return max(0.07 * max([length for length in lengths if length > 1e-3], default=1.0), 0.02 * max(reach))
