"""A motion as a list of messages that meshcat's viewer understands."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike

from ddp.errors import ModelError, ProblemError, as_array, axes, items, nearest, said, text
from viz import arrows
from viz.bodies import Bodies, Drawable, bodies
from viz.contacts import as_forces, instants
from viz.messages import Message, clip, safe, set_animation, set_object, set_transform, track
from viz.obstacles import OBSTACLE, Obstacle, standing
from viz.shapes import COLORS, Array, Color, Mesh, merge, tube
from viz.surroundings import GROUND, grid_under, surroundings

PAUSE = 0.6
"""How long the last state is held before the motion starts over [s]."""
GHOST: Color = (0.16, 0.50, 0.73, 0.28)
BESIDE = "the motion beside it"
"""Name of a second motion in the legend."""


class Scene(NamedTuple):
    """messages, in the order to send them; legend: what colours mean; duration [s]; missing meshes' names."""

    messages: list[Message]
    legend: list[tuple[str, Color]]
    duration: float
    missing: tuple[str, ...]


def build(
    robot: Drawable,
    X: ArrayLike,
    dt: ArrayLike,
    frames: Sequence[str] = (),
    ghost: ArrayLike | None = None,
    *,
    forces: Mapping[str, ArrayLike] | None = None,
    force_scale: float | None = None,
    cones: float | Mapping[str, float] | None = None,
    obstacles: Sequence[Obstacle] = (),
    ground: float | None = None,
    beside: ArrayLike | None = None,
    beside_title: str = BESIDE,
) -> Scene:
    """The scene of a robot that moves along X (N+1, nx) or (N+1, nq); the other arguments as in ``save_html``."""
    model = getattr(robot, "model", None)
    if not isinstance(model, pin.Model):
        raise ProblemError(f"robot: expected a Robot from dynamics.load, got {said(robot)}")
    frames = items("frames", frames, "names of frames")
    for name in frames:
        text("frames: a name", name)
    Q = _configurations("X", X, model)
    times = instants(dt, len(Q))
    acting = as_forces({} if forces is None else forces, (len(Q) - 1, len(Q)))
    names = list(dict.fromkeys([*frames, *acting]))
    indices = [_frame(robot, "frames" if name in frames else "forces", name) for name in names]
    places, positions = _kinematics(model, Q, indices)
    paths = dict(zip(names, positions, strict=True))
    colors = dict(zip(names, itertools.cycle(COLORS), strict=False))
    contacts = arrows.contacts(model, Q[0], paths, colors, acting, force_scale, cones)
    shapes, missing = bodies(robot)
    ghosts = None if ghost is None else _configurations("ghost", ghost, model)
    still = None if ghosts is None else _ghost(model, shapes, ghosts)
    fixed = standing(obstacles)
    other = None if beside is None else _beside(beside, model, len(Q))
    moving = _points(shapes, places if other is None else np.concatenate([places, other]), positions, still)
    points = np.concatenate([moving, *(contact.tips for contact in contacts), *(mesh.vertices for mesh in fixed)])
    low, high = points.min(axis=0), points.max(axis=0)
    center = 0.5 * (low + high)
    radius = max(float(np.linalg.norm(points - center, axis=1).max()), 1e-2)

    messages = [*surroundings(radius), set_transform("/mayne", -center)]
    floor, cell = grid_under(center, radius, float(moving[:, 2].min()), ground)
    messages += [set_object(f"/mayne/ground/{k}", mesh) for k, mesh in enumerate(floor)]
    messages += [set_object(f"/mayne/obstacles/{k}", mesh) for k, mesh in enumerate(fixed)]
    for joint, meshes in shapes.items():
        path = _path(model, joint)
        messages += [set_object(f"{path}/{k}", mesh) for k, mesh in enumerate(meshes)]
        if joint > 0:
            start = places[0, joint]
            messages.append(set_transform(path, start[:3], pin.Quaternion(start[3:]).matrix()))
    ends = [*times.tolist(), float(times[-1]) + PAUSE]
    clips = [_clip(_path(model, joint), places[:, joint], ends) for joint in shapes if joint > 0]
    legend = [(f"grid of {cell:g} m", GROUND)]
    if other is not None:
        legend.append((text("beside_title", beside_title), GHOST))
        for joint, meshes in shapes.items():
            path = f"{_path(model, joint)} beside"
            if joint > 0:
                messages += [set_object(f"{path}/{k}", mesh._replace(color=GHOST)) for k, mesh in enumerate(meshes)]
                clips.append(_clip(path, other[:, joint], ends))
    for name in names:
        shown = [what for what, where in (("path", frames), ("force", acting)) if name in where]
        legend.append((f"{' and '.join(shown)} of {name}", colors[name]))
        if name in frames:
            messages.append(set_object(f"/mayne/traces/{safe(name)}", tube(paths[name], 0.004 * radius, colors[name])))
    for contact in contacts:
        drawn, moves = arrows.draw(contact, ends, min(0.008 * radius, 0.03 * contact.reach))
        messages, clips = messages + drawn, clips + moves
    legend += arrows.legend(contacts)
    if fixed:
        legend.append(("obstacle", OBSTACLE))
    if still is not None and ghosts is not None:
        known = {"its first state": Q[:1], "its last state": Q[-1:]}
        same = [what for what, state in known.items() if np.array_equal(ghosts, state)]
        legend.append((same[-1] if same else "ghost", GHOST))
        messages.append(set_object("/mayne/ghost", still))
    messages.append(set_animation(clips))
    return Scene(messages, legend, float(times[-1]), missing)


def _configurations(field: str, X: ArrayLike, model: pin.Model) -> Array:
    if hasattr(X, "X") and hasattr(X, "U"):
        raise ProblemError(f"{field}: expected states (N+1, nx), got a {said(X)}: pass its X")
    array = np.atleast_2d(as_array(field, X, (None, None) if axes(X) > 1 else (None,)))
    if array.shape[1] not in (model.nq, model.nq + model.nv):
        raise ProblemError(
            f"{field}: expected states of {model.nq + model.nv} numbers or configurations of {model.nq}"
            f" for {model.name}, got {array.shape[1]}"
        )
    if len(array) == 0:
        raise ProblemError(f"{field}: expected at least one state, got none")
    return array[:, : model.nq]


def _beside(X: ArrayLike, model: pin.Model, count: int) -> Array:
    """Places (count, njoints, 7) of every joint of another motion."""
    Q = _configurations("beside", X, model)
    if len(Q) != count:
        raise ProblemError(f"beside: expected {count} states, as many as X has, got {len(Q)}")
    return _kinematics(model, Q, [])[0]


def _frame(robot: Drawable, field: str, name: str) -> int:
    if not (isinstance(name, str) and name.isprintable() and robot.model.existFrame(name)):
        known = [frame.name for frame in robot.model.frames]
        raise ModelError(f"{field}: {robot.name} has no frame {said(name)}; {nearest(name, known)}")
    return int(robot.model.getFrameId(name))


def _kinematics(model: pin.Model, Q: Array, frames: list[int]) -> tuple[Array, Array]:
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


def _ghost(model: pin.Model, shapes: Bodies, Q: Array) -> Mesh:
    places, _ = _kinematics(model, Q, [])
    parts = [
        mesh.moved(pin.Quaternion(place[joint, 3:]).matrix(), place[joint, :3])
        for place in places
        for joint, meshes in shapes.items()
        for mesh in meshes
        if joint > 0
    ]
    return merge(parts)._replace(color=GHOST)


def _points(shapes: Bodies, places: Array, paths: Array, still: Mesh | None) -> Array:
    """Points (P, 3) that enclose the robot, traces and ghost, over some forty moments of the motion."""
    seen = [paths.reshape(-1, 3)]
    for joint, meshes in shapes.items():
        points = np.concatenate([mesh.vertices for mesh in meshes])
        ends = np.stack([points.min(axis=0), points.max(axis=0)])
        corners = np.array(list(itertools.product(*ends.T)))
        for place in places[:: max(1, len(places) // 40), joint]:
            seen.append(corners @ pin.Quaternion(place[3:]).matrix().T + place[:3])
    if still is not None:
        seen.append(still.vertices)
    return np.concatenate(seen)


def _clip(path: str, places: Array, times: Sequence[float]) -> Message:
    held = np.concatenate([places, places[-1:]])
    moves = [track(".position", "vector3", times, held[:, :3]), track(".quaternion", "quaternion", times, held[:, 3:])]
    return clip(path, moves)


def _path(model: pin.Model, joint: int) -> str:
    return f"/mayne/robot/{joint} {safe(model.names[joint])}"
