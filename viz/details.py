"""Details of a scene that its legend switches: targets, obstacles, limits, centre of mass, frames, solids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from dynamics.geometry.solids import Mark
from dynamics.robots.libraries import pin
from viz.messages import Message, clip, safe, set_object, set_property, set_transform, track
from viz.robots import Drawing, kinematics, path_of
from viz.shapes import SIDES, WALL, Array, Color, Mesh, box, capsule, lathe, merge, rod, sharpen, solid, tube, turned_to
from viz.world import Flags, World

TARGET: Color = (0.72, 0.16, 0.55, 1.0)
FOOTHOLD: Color = (0.16, 0.55, 0.50, 0.70)
STEP: Color = (0.70, 0.73, 0.77, 1.0)
LEVEL = 1e-3
"""Footholds within this height of each other are on one level [m]."""
HELD = np.array([0.88, 0.12, 0.10])
"""Colour (RGB) of what holds the motion."""
CENTER: Color = (0.95, 0.76, 0.06, 1.0)
AXES: list[Color] = [(0.84, 0.15, 0.16, 1.0), (0.17, 0.63, 0.17, 1.0), (0.12, 0.30, 0.80, 1.0)]
SOLID: Color = (0.30, 0.55, 0.75, 0.30)


class Entry(NamedTuple):
    """Line of the legend; paths: of what its tick box hides, none: it has no box.

    shown: whether its box is ticked at first.   switches: "visible", or "wireframe" of all bodies at its paths.
    """

    label: str
    color: Color
    paths: tuple[str, ...] = ()
    shown: bool = True
    switches: str = "visible"


@dataclass
class Details:
    """Messages, clips and lines of the legend."""

    messages: list[Message] = field(default_factory=list)
    clips: list[Message] = field(default_factory=list)
    legend: list[Entry] = field(default_factory=list)

    def add(self, other: Details) -> None:
        """Append another's."""
        self.messages += other.messages
        self.clips += other.clips
        self.legend += other.legend


def of_world(world: World, times: Sequence[float], size: float) -> Details:
    """Targets, footholds and obstacles of a motion; times (N+2,) [s]: of its states and the end, size [m]: of marks."""
    found = Details()
    for k, mark in enumerate(world.targets):
        path = f"/mayne/targets/{k}"
        if mark.rotation is None:
            found.messages.append(set_object(path, capsule(0.3 * size, 0.0, TARGET).moved(np.eye(3), mark.start)))
        else:
            ball = capsule(0.18 * size, 0.0, TARGET)
            for j, mesh in enumerate([ball, *triad(size)]):
                found.messages.append(set_object(f"{path}/{j}", mesh.moved(mark.rotation, mark.start)))
    if world.targets:
        label = _names("target", [mark.frame for mark in world.targets])
        found.legend.append(Entry(label, TARGET, ("/mayne/targets",)))
    if len(world.footholds):
        thin = 0.04 * size
        disc = lathe(np.array([0.0, 0.5, 0.5, 0.0]) * size, np.array([0.0, 0.0, thin, thin]), FOOTHOLD)
        found.messages.append(
            set_object("/mayne/footholds", merge([disc.moved(np.eye(3), place) for place in world.footholds]))
        )
        found.legend.append(Entry("footholds", FOOTHOLD, ("/mayne/footholds",)))
    if raised := _steps(world, size):
        found.messages.append(set_object("/mayne/steps", merge(raised)))
        found.legend.append(Entry("steps of the ground", STEP, ("/mayne/steps",)))
    obstacles = [(solid(obstacle), holding) for obstacle, holding in world.obstacles]
    what = "moving obstacle" if len(world.shown) == len(obstacles) else "obstacle"
    found.add(_holding(what, "/mayne/obstacles", obstacles, times))
    for k, there in world.shown.items():
        path, flags = f"/mayne/obstacles/{k}", np.append(there, there[-1])
        found.messages.append(set_property(path, "visible", bool(flags[0])))
        found.clips.append(clip(path, [track(".visible", "bool", times, flags, held=True)]))
    return found


def of_planes(d: Drawing, world: World, times: Sequence[float], center: Array, radius: float) -> Details:
    """Walls beside the paths of what they limit, and slopes; center (3,), radius [m]: of a ball, the picture."""
    found, model = Details(), d.motion.robot.model
    for frame in dict.fromkeys(mark.frame for mark, _ in world.walls):
        if frame and not model.existFrame(frame):
            continue
        _, paths = kinematics(model, d.motion.Q, [model.getFrameId(frame)] if frame else [])
        path = paths[0] if frame else center_of_mass(model, d.places)
        own = [(_square(mark, WALL, path, radius), holding) for mark, holding in world.walls if mark.frame == frame]
        found.add(_holding(_names("limit", [frame]), f"/mayne/walls/{safe(frame)}", own, times))
    around = center + radius * np.array([[-1.0, -1.0, 0.0], [1.0, 1.0, 0.0]])
    if world.slopes:
        slopes = [_square(mark, STEP, around, radius) for mark in world.slopes]
        found.messages.append(set_object("/mayne/slopes", merge(slopes)))
        found.legend.append(Entry("slope", STEP, ("/mayne/slopes",)))
    return found


def _square(wall: Mark, color: Color, path: Array, radius: float) -> Mesh:
    """Square in a plane, beside a path (M, 3)."""
    turn = turned_to(wall.end - wall.start)
    seen = (path - wall.start) @ turn
    low, high = seen.min(axis=0), seen.max(axis=0)
    half = 0.6 * float((high - low)[:2].max()) + 0.1 * radius
    middle = np.array([*0.5 * (low + high)[:2], 0.0])
    flat = box(np.array([2.0 * half, 2.0 * half, 0.002 * radius]), color)
    return sharpen(flat).moved(turn, wall.start + turn @ middle)


def _steps(world: World, size: float) -> list[Mesh]:
    """Boxes from the ground up to the footholds that are above it; they leave room for those of other heights."""
    found = []
    for place in world.footholds if world.ground is not None else ():
        high = float(place[2]) - (world.ground or 0.0)
        others = world.footholds[np.abs(world.footholds[:, 2] - place[2]) > LEVEL]
        room = np.abs(others[:, :2] - place[:2]).max(axis=1).min(initial=np.inf)
        half = min(2.0 * size, max(0.5 * room, 0.3 * size))
        if high > LEVEL:
            block = sharpen(box(np.array([2.0 * half, 2.0 * half, high]), STEP))
            found.append(block.moved(np.eye(3), place - [0.0, 0.0, 0.5 * high]))
    return found


def _holding(what: str, root: str, solids: Sequence[tuple[Mesh, Flags | None]], times: Sequence[float]) -> Details:
    """Solids that are red at the states at which they hold the motion."""
    found = Details()
    for k, (mesh, holding) in enumerate(solids):
        path = f"{root}/{k}"
        found.messages.append(set_object(path, mesh))
        if holding is not None and holding.any():
            colors = np.where(np.append(holding, holding[-1])[:, None], HELD, np.array(mesh.color[:3]))
            found.clips.append(clip(f"{path}/<object>", [track(".material.color", "color", times, colors, held=True)]))
    if solids:
        label = f"{what}, red while it holds the motion" if found.clips else what
        found.legend.append(Entry(label, solids[0][0].color, (root,)))
    return found


def of_limits(d: Drawing, world: World, times: Sequence[float], size: float) -> Details:
    """A red ring around each joint while its control, or a constraint on it, is at a limit."""
    found = Details()
    outline = np.linspace(0.0, 2.0 * np.pi, SIDES // 2 + 1)
    ring = lathe(size * (1.0 + 0.18 * np.cos(outline)), 0.18 * size * np.sin(outline), (*HELD, 1.0))
    for joint, holding in world.limits.items():
        path = f"{path_of(d, d.root, joint)}/limit"
        found.messages += [set_property(path, "visible", False), set_object(f"{path}/ring", ring)]
        flags = np.append(holding, holding[-1])
        found.clips.append(clip(path, [track(".visible", "bool", times, flags, held=True)]))
    if world.limits:
        paths = tuple(f"{path_of(d, d.root, joint)}/limit/ring" for joint in world.limits)
        found.legend.append(Entry("ring: a joint or its control at a limit", (*HELD, 1.0), paths))
    return found


def of_robot(d: Drawing, world: World, times: Sequence[float], size: float) -> Details:
    """Centre of mass and its path, frames of the joints, solids of constraints, wireframe: hidden until asked for."""
    found = Details()
    model = d.motion.robot.model
    masses = np.array([inertia.mass for inertia in model.inertias])
    if masses[1:].sum() > 0.0 and model.njoints > 2:
        path = center_of_mass(model, d.places)
        root = "/mayne/center of mass"
        found.messages += [
            set_object(f"{root}/ball", capsule(0.35 * size, 0.0, CENTER)),
            set_object(f"{root}/path", tube(path, 0.08 * size, CENTER)),
            set_transform(f"{root}/ball", path[0]),
        ]
        moving = np.concatenate([path, path[-1:]])
        found.clips.append(clip(f"{root}/ball", [track(".position", "vector3", times, moving)]))
        found.legend.append(Entry("centre of mass and its path", CENTER, (root,), shown=False))
    frames, axes = [], triad(0.8 * size)
    for joint in range(1, model.njoints):
        root = f"{path_of(d, d.root, joint)}/axes"
        found.messages += [set_object(f"{root}/{k}", mesh) for k, mesh in enumerate(axes)]
        frames.append(root)
    found.legend.append(Entry("frames of joints: x red, y green, z blue", AXES[0], tuple(frames), shown=False))
    solids = []
    for k, body in enumerate(world.bodies):
        root = f"{path_of(d, d.root, body.joint)}/solid {k}" if body.joint else f"/mayne/solids/{k}"
        found.messages.append(set_object(root, solid(body)._replace(color=SOLID)))
        solids.append(root)
    if solids:
        found.legend.append(Entry("solids that constraints keep apart", SOLID, tuple(solids), shown=False))
    found.legend.append(Entry("wireframe", (0.5, 0.5, 0.5, 1.0), (d.root,), shown=False, switches="wireframe"))
    return found


def center_of_mass(model: pin.Model, places: Array) -> Array:
    """Centre of mass (N, 3) [m] of a robot whose joints are at ``places`` (N, njoints, 7)."""
    masses = np.array([inertia.mass for inertia in model.inertias])
    levers = np.array([inertia.lever for inertia in model.inertias])
    turned = np.array([[pin.Quaternion(place[3:]).matrix() @ lever for place, lever in zip(row, levers, strict=True)]
                       for row in places])  # fmt: skip
    return ((places[:, 1:, :3] + turned[:, 1:]) * masses[1:, None]).sum(axis=1) / masses[1:].sum()


def triad(length: float) -> list[Mesh]:
    """Axes x, y and z of a frame as rods of a length [m]."""
    return [rod(np.zeros(3), length * axis, 0.06 * length, color) for axis, color in zip(np.eye(3), AXES, strict=True)]


def _names(what: str, frames: Sequence[str]) -> str:
    known = list(dict.fromkeys(name or "the centre of mass" for name in frames))
    return f"{what} of {', '.join(known[:3])}{' and more' if len(known) > 3 else ''}"
