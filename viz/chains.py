"""Robots with rods as the viewer moves them: models of rigid bodies, in which a rod is a chain of short ones."""

from __future__ import annotations

import math
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from dynamics.robots.chain import configurations, linked
from dynamics.robots.libraries import pin
from dynamics.robots.rods import Rod
from dynamics.robots.surroundings import Cylinder, Plane
from dynamics.rods.hybrid_robot import HybridRobot
from dynamics.rods.hybrid_trees import Recipe
from viz.bodies import Bodies, Drawable, bodies, skeleton
from viz.shapes import Array, Color, Mesh, box, lathe, sharpen, tube, turned_to

LINKS = 20
"""Rigid bodies that draw a rod, about."""
SILICONE: Color = (0.93, 0.62, 0.46, 1.0)
AROUND_CABLES: Color = (0.93, 0.66, 0.52, 0.5)
CABLE: Color = (0.25, 0.27, 0.30, 1.0)
SURFACE: Color = (0.45, 0.55, 0.65, 0.22)
WATER: Color = (0.20, 0.50, 0.80, 0.16)

_known: WeakKeyDictionary[HybridRobot, Chain] = WeakKeyDictionary()


def drawn(robot: Any) -> Any:
    """Robots as they are drawn: those with rods as a `Chain`, others as they are."""
    if not isinstance(robot, HybridRobot):
        return robot
    if robot not in _known:
        _known[robot] = Chain(robot)
    return _known[robot]


class Chain:
    """A robot with rods to draw.

    name, nq, nv: the robot's.   model: rigid bodies, with frames by the robot's names.   shapes: meshes of joints.
    missing: names of meshes.   cables: of each tendon its name and, by joint, the piece of it that the joint carries.
    surfaces: what rods press on, and whether there is water about them.
    """

    def __init__(self, robot: HybridRobot) -> None:
        self.name, self.nq, self.nv = robot.name, robot.nq, robot.nv
        self._recipe, self._first = robot.recipe, robot.tree.iq.copy()
        self.cables: list[tuple[str, dict[int, Mesh]]] = []
        self.surfaces, self.wet = [springs.surface for springs in robot.surfaces], robot.water is not None
        rods: Bodies = {}
        self.model, made = linked(self._recipe.model, self._recipe.rods, _links)
        for b, rod in self._recipe.rods.items():
            tendons = self._recipe.tendons[b]
            rods |= _tube(rod, made[b], AROUND_CABLES if tendons else SILICONE)
            self.cables += [(one.name, _cable(rod, made[b], one.path)) for one in tendons]
        rigid, self.missing = _rigid(self._recipe, self.model, made)
        self.shapes: Bodies = dict(sorted((rods | rigid).items()))
        _add_frames(self._recipe, self.model, made)

    def visuals(self) -> tuple[pin.GeometryModel, list[str]]:
        """None: its shapes are made already."""
        return pin.GeometryModel(), list(self.missing)

    def configurations(self, Q: Array) -> Array:
        """Configurations (N, model.nq) of the robot's, (N, nq)."""
        return configurations(self._recipe.rods, self._first, Q, _pieces)


def shapes_of(robot: Drawable) -> tuple[Bodies, tuple[str, ...]]:
    """The meshes of a robot as it is drawn, and the names of those that are missing or broken."""
    return (robot.shapes, robot.missing) if isinstance(robot, Chain) else bodies(robot)


def tension_color(share: float) -> tuple[float, float, float]:
    """Colour of a cable at a share of the largest tension: from dark grey by orange to red."""
    low, middle, high = np.array(CABLE[:3]), np.array([0.95, 0.60, 0.10]), np.array([0.85, 0.05, 0.05])
    x = 2.0 * min(max(share, 0.0), 1.0)
    mixed = low + x * (middle - low) if x < 1.0 else middle + (x - 1.0) * (high - middle)
    return float(mixed[0]), float(mixed[1]), float(mixed[2])


def surroundings_of(chain: Chain, low: Array, high: Array) -> dict[str, list[Mesh]]:
    """Surfaces and water about a motion within a box, by their names in the legend."""
    size = float(np.linalg.norm(high - low))
    found: dict[str, list[Mesh]] = {}
    for surface in chain.surfaces:
        point = np.asarray(surface.point)
        if isinstance(surface, Cylinder):
            axis, reach = np.asarray(surface.axis), 0.75 * size
            along = point + axis * float(axis @ (0.5 * (low + high) - point))
            outline = np.full(2, surface.radius), np.array([-reach, reach])
            mesh = lathe(*outline, SURFACE).moved(turned_to(axis), along)
        elif isinstance(surface, Plane):
            normal = np.asarray(surface.normal)
            flat = box(np.array([2.0 * size, 2.0 * size, 0.004 * size]), SURFACE)
            center = 0.5 * (low + high)
            mesh = flat.moved(turned_to(normal), center - normal * float(normal @ (center - point)))
        found.setdefault("surface", []).append(mesh)
    if chain.wet:
        sheet = box(np.array([2.2 * size, 2.2 * size, 0.002 * size]), WATER)
        top = np.array([*(0.5 * (low + high))[:2], high[2] + 0.15 * size])
        found["surface of the water"] = [sheet.moved(np.eye(3), top)]
    return found


# -- rods ------------------------------------------------------------------------------------------------------------


def _pieces(rod: Rod) -> int:
    """Rigid bodies that draw a segment of a rod."""
    return max(1, math.ceil(LINKS / (len(rod.points) - 1)))


def _stations(rod: Rod) -> Array:
    """Arc lengths [m] at the ends of the bodies that draw a rod."""
    n = _pieces(rod)
    steps = np.diff(rod.points)[:, None] * np.arange(1, n + 1) / n
    return np.concatenate([[0.0], (rod.points[:-1, None] + steps).ravel()])


def _links(model: pin.Model, parent: int, placement: pin.SE3, name: str, rod: Rod) -> list[int]:
    """Add a free-flyer for each body that draws a rod; their indices."""
    joints = []
    for k in range(1, len(rod.points)):
        for l in range(1, _pieces(rod) + 1):
            parent = model.addJoint(parent, pin.JointModelFreeFlyer(), placement, f"{name} {k} {l}")
            placement = pin.SE3.Identity()
            joints.append(parent)
    return joints


def _tube(rod: Rod, joints: list[int], color: Color) -> Bodies:
    """The pieces of a rod, in the axes of their ends, x along it."""
    stations, found = _stations(rod), {}
    turned = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])  # z to x
    y, z = (np.interp(stations, rod.points, widths) for widths in rod.outline)
    for k, joint in enumerate(joints):
        length, ends = stations[k + 1] - stations[k], slice(k, k + 2)
        if rod.is_round:
            radius, height = y[ends], np.array([-1.02 * length, 0.0])
            if joint == joints[-1]:
                radius, height = np.append(radius, 0.0), np.append(height, 0.0)
            found[joint] = [lathe(radius, height, color).moved(turned, np.zeros(3))]
        else:
            sides = np.array([1.02 * length, y[ends].sum(), z[ends].sum()])
            found[joint] = [sharpen(box(sides, color)).moved(np.eye(3), np.array([-0.5 * length, 0.0, 0.0]))]
    return found


def _cable(rod: Rod, joints: list[int], path: Any) -> dict[int, Mesh]:
    """The pieces of a cable that the bodies of its rod carry, in the axes of their ends."""
    stations = _stations(rod)
    places = np.array([[0.0, *path(x / rod.length)] for x in stations])
    found = {}
    for joint, before, after, length in zip(joints, places[:-1], places[1:], np.diff(stations), strict=True):
        start = before - np.array([1.02 * length, 0.0, 0.0])
        found[joint] = tube(np.array([start, after]), 0.006 * rod.length, CABLE)
    return found


# -- the rest --------------------------------------------------------------------------------------------------------


def _rigid(recipe: Recipe, model: pin.Model, made: list[list[int]]) -> tuple[Bodies, tuple[str, ...]]:
    """Meshes of joints: of the robot that rods were added to, or a skeleton; the names of those that are missing."""
    joints = [own[0] for b, own in enumerate(made) if b not in recipe.rods]
    shapes, missing = ({}, ()) if recipe.begun is None else bodies(recipe.begun)
    found = {made[joint - 1][0] if joint > 0 else 0: meshes for joint, meshes in shapes.items()}
    bare = skeleton(model) if any(joint not in found for joint in joints) else {}
    first = len(recipe.begun.joint_names) if recipe.begun is not None else 0
    return found | {joint: bare[joint] for joint in joints[first:] if joint not in found}, missing


def _add_frames(recipe: Recipe, model: pin.Model, made: list[list[int]]) -> None:
    for name, place in recipe.places.items():
        joint = made[place.body][-1] if place.body >= 0 else 0
        if place.point is not None:
            joint = made[place.body][place.point * _pieces(recipe.rods[place.body]) - 1]
        if not model.existFrame(name):
            model.addFrame(pin.Frame(name, joint, place.pose, pin.FrameType.OP_FRAME))
