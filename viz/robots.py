"""Robots as they are drawn: their bodies as shapes of a scene, and how these move."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ddp.errors import ModelError, nearest, said
from dynamics.robots.libraries import pin
from viz.bodies import Bodies, Drawable
from viz.chains import shapes_of
from viz.messages import Message, clip, safe, set_object, set_transform, track
from viz.motions import Motion
from viz.shapes import Array, Color

ROBOT = "/mayne/robot"
"""Path of the first robot in the scene."""
GHOST: Color = (0.16, 0.50, 0.73, 0.28)


class Drawing(NamedTuple):
    """Motion as it is drawn.

    places (N+1, njoints, 7): position and quaternion of its joints.   positions (F, N+1, 3): of frames that are traced.
    root: where in the scene.   color: of the whole robot; None: its own colours.
    """

    motion: Motion
    shapes: Bodies
    places: Array
    positions: Array
    root: str
    color: Color | None


class Shapes:
    """Shapes of robots, read once for all that come from the same file and are built alike."""

    def __init__(self) -> None:
        self._known: list[tuple[Drawable, tuple[Bodies, tuple[str, ...]]]] = []

    def of(self, robot: Drawable) -> tuple[Bodies, tuple[str, ...]]:
        """The meshes of a robot, and the names of those that are missing."""
        for other, found in self._known:
            if other is robot or _alike(other, robot):
                return found
        found = shapes_of(robot)
        self._known = [*self._known[-3:], (robot, found)]  # bodies that change are made by few numbers
        return found


def _alike(one: Drawable, other: Drawable) -> bool:
    """Whether two robots look alike: of one file, their models equal in all numbers."""
    source = getattr(one, "source", None)
    return source is not None and source == getattr(other, "source", None) and one.model == other.model


def drawings_of(
    motions: Sequence[Motion], tints: Sequence[Color | None], frames: Sequence[str], names: Sequence[str],
    read: Shapes,
) -> tuple[list[Drawing], tuple[str, ...]]:  # fmt: skip
    """Motions as they are drawn, the shapes of each robot read once; and the meshes that are missing."""
    absent: list[str] = []
    found = []
    for k, (motion, tint) in enumerate(zip(motions, tints, strict=True)):
        robot = motion.robot
        shapes, missing = read.of(robot)
        absent += missing
        traced = names if k == 0 else frames if tint is not GHOST else ()
        indices = [_frame(robot, "frames" if name in frames else "forces", name) for name in traced]
        places, positions = kinematics(robot.model, motion.Q, indices)
        found.append(Drawing(motion, shapes, places, positions, ROBOT if k == 0 else f"/mayne/motion {k}", tint))
    return found, tuple(dict.fromkeys(absent))


def draw(d: Drawing, end: float) -> tuple[list[Message], list[Message]]:
    """Messages and clips of a motion that holds its last state until ``end`` [s]."""
    messages = stand(d, d.root, d.places[0], d.color, world=d.root == ROBOT)
    ends = [*d.motion.times.tolist(), end]
    return messages, [move(path_of(d, d.root, joint), d.places[:, joint], ends) for joint in d.shapes if joint > 0]


def stand(d: Drawing, root: str, places: Array, color: Color | None, world: bool = False) -> list[Message]:
    """A robot's bodies where its joints are at ``places`` (njoints, 7), with those of the world if asked for."""
    messages = []
    for joint, meshes in d.shapes.items():
        if joint == 0 and not world:
            continue
        path = path_of(d, root, joint)
        messages += [set_object(f"{path}/{k}", mesh, None if joint == 0 else color) for k, mesh in enumerate(meshes)]
        if joint > 0:
            place = places[joint]
            messages.append(set_transform(path, place[:3], pin.Quaternion(place[3:]).matrix()))
    return messages


def _frame(robot: Drawable, field: str, name: str) -> int:
    if not (isinstance(name, str) and name.isprintable() and robot.model.existFrame(name)):
        known = [frame.name for frame in robot.model.frames]
        raise ModelError(f"{field}: {robot.name} has no frame {said(name)}; {nearest(name, known)}")
    return int(robot.model.getFrameId(name))


def kinematics(model: pin.Model, Q: Array, frames: list[int]) -> tuple[Array, Array]:
    """Position and quaternion (N, njoints, 7) of every joint, positions (len(frames), N, 3) of the frames."""
    joints = [model.joints[j] for j in range(1, model.njoints)]
    moved = [joint.createData() for joint in joints]  # a pinocchio.Data has tensors of nv³ numbers
    parents, inside = list(model.parents)[1:], list(model.jointPlacements)[1:]
    attached = [(model.frames[frame].parentJoint, model.frames[frame].placement) for frame in frames]
    places, paths = np.empty((len(Q), model.njoints, 7)), np.empty((len(frames), len(Q), 3))
    for k, q in enumerate(Q):
        world = [pin.SE3.Identity()]
        for joint, data, parent, here in zip(joints, moved, parents, inside, strict=True):
            joint.calc(data, q)
            world.append(world[parent] * here * data.M)
        places[k] = [pin.SE3ToXYZQUAT(place) for place in world]
        for i, (parent, here) in enumerate(attached):
            paths[i, k] = world[parent].act(here.translation)
    return places, paths


def enclosing(shapes: Bodies, places: Array, paths: Array) -> Array:
    """Points (P, 3) that enclose the robot and its traces, over some forty moments of the motion."""
    seen = [paths.reshape(-1, 3)]
    for joint, meshes in shapes.items():
        points = np.concatenate([mesh.vertices for mesh in meshes])
        ends = np.stack([points.min(axis=0), points.max(axis=0)])
        corners = np.array(list(itertools.product(*ends.T)))
        for place in places[:: max(1, len(places) // 40), joint]:
            seen.append(corners @ pin.Quaternion(place[3:]).matrix().T + place[:3])
    return np.concatenate(seen)


def move(path: str, places: Array, times: Sequence[float]) -> Message:
    """Clip of what goes through places (N, 7) and holds the last; times (N+1,)."""
    held = np.concatenate([places, places[-1:]])
    moves = [track(".position", "vector3", times, held[:, :3]), track(".quaternion", "quaternion", times, held[:, 3:])]
    return clip(path, moves)


def path_of(d: Drawing, root: str, joint: int) -> str:
    """Path of a joint's bodies in the scene."""
    return f"{root}/{joint} {safe(d.motion.robot.model.names[joint])}"


def trace_of(d: Drawing, frame: str) -> str:
    """Path of a frame's trace in the scene."""
    return f"/mayne/traces/{safe(frame)}" + ("" if d.root == ROBOT else f" of {safe(d.root)}")
