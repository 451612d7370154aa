"""A motion as a list of messages that meshcat's viewer understands."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike

from ddp.errors import ModelError, ProblemError, as_array, items, nearest, said, text
from viz import arrows
from viz.bodies import Bodies, Drawable
from viz.chains import CABLE, Chain, shapes_of, surroundings_of, tension_color
from viz.contacts import as_forces
from viz.messages import Message, clip, safe, set_animation, set_object, set_transform, track
from viz.motions import Motion, as_motions, configurations
from viz.obstacles import OBSTACLE, Obstacle, standing
from viz.shapes import COLORS, Array, Color, tube
from viz.signals import Signal, as_signals
from viz.surroundings import GROUND, grid_under, surroundings

PAUSE = 0.6
"""How long the last state is held before the motion starts over [s]."""
GHOST: Color = (0.16, 0.50, 0.73, 0.28)
BESIDE = "the motion beside it"
"""Name of a second motion in the legend."""
TINTS: list[Color] = [
    (0.78, 0.27, 0.18, 0.80), (0.12, 0.44, 0.71, 0.80), (0.23, 0.57, 0.23, 0.80),
    (0.54, 0.36, 0.69, 0.80), (0.79, 0.54, 0.11, 0.80), (0.33, 0.33, 0.33, 0.80),
]  # fmt: skip
"""Colours of several motions, in turn: those of their curves in plots."""
ROBOT = "/mayne/robot"


class Entry(NamedTuple):
    """Line of the legend; paths: of what its tick box hides, none: it has no box."""

    label: str
    color: Color
    paths: tuple[str, ...] = ()


class Scene(NamedTuple):
    """messages, in the order to send them; legend: what colours mean; duration [s]; missing meshes' names.

    name: of the robot.
    radius [m]: of a ball that all fits into, about the origin of the picture; 0: the camera was placed by hand.
    center (3,): that origin in the world [m].   times (M,) [s], path (M, 3) [m]: what a camera may follow.
    """

    messages: list[Message]
    legend: list[Entry]
    duration: float
    missing: tuple[str, ...]
    name: str
    radius: float
    center: Array
    times: Array
    path: Array
    signals: list[tuple[str, Color | None, Mapping[str, Signal]]]


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


def build(
    robot: Any,
    X: Any = None,
    dt: ArrayLike | None = None,
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
    camera: tuple[ArrayLike, ArrayLike] | None = None,
    signals: Mapping[str, Signal] | None = None,
    tensions: ArrayLike | None = None,
) -> Scene:
    """The scene of one motion or several; the arguments as in ``save_html``."""
    motions = as_motions(robot, X, dt)
    own = {} if signals is None else as_signals(signals)
    first = motions[0] = motions[0]._replace(signals={**motions[0].signals, **own})
    if tensions is not None:
        first = motions[0] = first._replace(tensions=_tensions(first, tensions))
    model, Q = first.robot.model, first.Q
    frames = items("frames", frames, "names of frames")
    for name in frames:
        text("frames: a name", name)
    acting = as_forces({} if forces is None else forces, (len(Q) - 1, len(Q)))
    names = list(dict.fromkeys([*frames, *acting]))
    tints: list[Color | None] = [None] if len(motions) == 1 else [TINTS[k % len(TINTS)] for k in range(len(motions))]
    if beside is not None:
        motions = [*motions, _beside(beside, text("beside_title", beside_title), first)]
        tints.append(GHOST)
    drawings, missing = _drawings(motions, tints, frames, names)
    colors = dict(zip(names, itertools.cycle(COLORS), strict=False))
    paths = dict(zip(names, drawings[0].positions, strict=True))
    contacts = arrows.contacts(model, Q[0], paths, colors, acting, force_scale, cones)
    ghosts = None if ghost is None else configurations("ghost", ghost, first.robot)
    still = np.empty((0, model.njoints, 7)) if ghosts is None else kinematics(model, ghosts, [])[0]
    fixed = standing(obstacles)
    moving = np.concatenate([_points(d.shapes, d.places, d.positions) for d in drawings])
    if len(still):
        moving = np.concatenate([moving, _points(drawings[0].shapes, still, np.empty((0, 3)))])
    points = np.concatenate([moving, *(contact.tips for contact in contacts), *(mesh.vertices for mesh in fixed)])
    center, radius, eye = _camera(points, camera)

    messages = [*surroundings(radius, eye), set_transform("/mayne", -center)]
    floor, cell = grid_under(center, radius, float(moving[:, 2].min()), ground)
    messages += [set_object(f"/mayne/ground/{k}", mesh) for k, mesh in enumerate(floor)]
    messages += [set_object(f"/mayne/obstacles/{k}", mesh) for k, mesh in enumerate(fixed)]
    duration = max(float(motion.times[-1]) for motion in motions)
    legend = [Entry(f"grid of {cell:g} m", GROUND, ("/mayne/ground",))]
    clips: list[Message] = []
    for d in drawings:
        shown, moves = _draw(d, duration + PAUSE)
        messages, clips = messages + shown, clips + moves
        if d.motion.name and d.color is not None:
            traces = tuple(_trace(d, name) for name in frames) if d.root != ROBOT or len(motions) > 1 else ()
            legend.append(Entry(d.motion.name, d.color, (d.root, *traces)))
    for i, name in enumerate(names):
        shown_as = [what for what, where in (("path", frames), ("force", acting)) if name in where]
        tubes = [d for d in drawings if name in frames and d.positions.size]
        marks = [_trace(d, name) for d in tubes] + ([arrows.root(name)] if name in acting else [])
        for d in tubes:
            color = colors[name] if d.root == ROBOT and len(tubes) == 1 else d.color or colors[name]
            messages.append(set_object(_trace(d, name), tube(d.positions[i], 0.004 * radius, color)))
        shade = colors[name] if len(tubes) < 2 else GROUND  # each motion's is in the motion's colour
        legend.append(Entry(f"{' and '.join(shown_as)} of {name}", shade, tuple(marks)))
    ends = [*first.times.tolist(), duration + PAUSE]
    for contact in contacts:
        drawn, moves = arrows.draw(contact, ends, min(0.008 * radius, 0.03 * contact.reach))
        messages, clips = messages + drawn, clips + moves
    legend += [Entry(label, color) for label, color in arrows.legend(contacts)]
    for d in drawings:
        if isinstance(d.motion.robot, Chain) and d.motion.robot.cables and d.root == ROBOT:
            shown, moves, about = _cables(d, duration + PAUSE)
            messages, clips, legend = messages + shown, clips + moves, legend + about
    if isinstance(first.robot, Chain):
        for label, meshes in surroundings_of(first.robot, moving.min(axis=0), moving.max(axis=0)).items():
            path = f"/mayne/{safe(label)}"
            messages += [set_object(f"{path}/{k}", mesh) for k, mesh in enumerate(meshes)]
            legend.append(Entry(label, meshes[0].color, (path,)))
    if fixed:
        legend.append(Entry("obstacle", OBSTACLE, ("/mayne/obstacles",)))
    if ghosts is not None:
        known = {"its first state": Q[:1], "its last state": Q[-1:]}
        same = [what for what, state in known.items() if np.array_equal(ghosts, state)]
        legend.append(Entry(same[-1] if same else "ghost", GHOST, ("/mayne/ghost",)))
        for k, places in enumerate(still):
            messages += _stand(drawings[0], f"/mayne/ghost/{k}", places, GHOST)
    messages.append(set_animation(clips))
    plotted = [(d.motion.name, d.color, d.motion.signals) for d in drawings if d.motion.signals]
    middle = drawings[0].places[:, 1:, :3].mean(axis=1)
    return Scene(
        messages, legend, duration, missing, first.robot.name,
        radius if eye is None else 0.0, center, first.times, middle, plotted,
    )  # fmt: skip


def _beside(X: ArrayLike, name: str, first: Motion) -> Motion:
    """Another motion at the times of the first."""
    Q = configurations("beside", X, first.robot)
    if len(Q) != len(first.Q):
        raise ProblemError(f"beside: expected {len(first.Q)} states, as many as X has, got {len(Q)}")
    return Motion(name, first.robot, Q, first.times)


def _drawings(
    motions: Sequence[Motion], tints: Sequence[Color | None], frames: Sequence[str], names: Sequence[str]
) -> tuple[list[Drawing], tuple[str, ...]]:
    """Motions as they are drawn, the shapes of each robot read once; and the meshes that are missing."""
    known: dict[int, tuple[Bodies, tuple[str, ...]]] = {}
    found = []
    for k, (motion, tint) in enumerate(zip(motions, tints, strict=True)):
        robot = motion.robot
        if id(robot) not in known:
            known[id(robot)] = shapes_of(robot)
        shapes, _ = known[id(robot)]
        traced = names if k == 0 else frames if tint is not GHOST else ()
        indices = [_frame(robot, "frames" if name in frames else "forces", name) for name in traced]
        places, positions = kinematics(robot.model, motion.Q, indices)
        found.append(Drawing(motion, shapes, places, positions, ROBOT if k == 0 else f"/mayne/motion {k}", tint))
    return found, tuple(dict.fromkeys(name for _, missing in known.values() for name in missing))


def _draw(d: Drawing, end: float) -> tuple[list[Message], list[Message]]:
    """Messages and clips of a motion that holds its last state until ``end`` [s]."""
    messages = _stand(d, d.root, d.places[0], d.color, world=d.root == ROBOT)
    ends = [*d.motion.times.tolist(), end]
    return messages, [_clip(_path(d, d.root, joint), d.places[:, joint], ends) for joint in d.shapes if joint > 0]


def _stand(d: Drawing, root: str, places: Array, color: Color | None, world: bool = False) -> list[Message]:
    """A robot's bodies where its joints are at ``places`` (njoints, 7), with those of the world if asked for."""
    messages = []
    for joint, meshes in d.shapes.items():
        if joint == 0 and not world:
            continue
        path = _path(d, root, joint)
        messages += [
            set_object(f"{path}/{k}", mesh, None if joint == 0 else color) for k, mesh in enumerate(meshes)
        ]
        if joint > 0:
            place = places[joint]
            messages.append(set_transform(path, place[:3], pin.Quaternion(place[3:]).matrix()))
    return messages


def _tensions(motion: Motion, tensions: ArrayLike) -> Array:
    """Tensions (N, tendons) [N] of a motion's cables, checked."""
    cables = motion.robot.cables if isinstance(motion.robot, Chain) else []
    if not cables:
        raise ProblemError(f"tensions: expected a robot with tendons, got {motion.robot.name}, which has none")
    return as_array("tensions", tensions, (len(motion.Q) - 1, len(cables)))


def _cables(d: Drawing, end: float) -> tuple[list[Message], list[Message], list[Entry]]:
    """Messages, clips and legend of cables, which are coloured by their tensions where these are known."""
    messages: list[Message] = []
    clips: list[Message] = []
    assert isinstance(d.motion.robot, Chain)
    pulls, cables = d.motion.tensions, d.motion.robot.cables
    times = [*d.motion.times.tolist(), end]
    most = 0.0 if pulls is None or pulls.size == 0 else float(pulls.max())
    for c, (_, pieces) in enumerate(cables):
        colors = None
        if pulls is not None and most > 0.0:
            held = np.concatenate([pulls[:, c], pulls[-1:, c], pulls[-1:, c]])
            colors = np.array([tension_color(pull / most) for pull in held])
        for joint, mesh in pieces.items():
            path = f"{_path(d, d.root, joint)}/cable {c}"
            messages.append(set_object(path, mesh))
            if colors is not None:
                clips.append(clip(f"{path}/<object>", [track(".material.color", "color", times, colors)]))
    legend = [Entry("cables", CABLE)]
    if most > 0.0:
        legend = [
            Entry("cable without tension", (*tension_color(0.0), 1.0)),
            Entry(f"cable at {0.5 * most:.3g} N", (*tension_color(0.5), 1.0)),
            Entry(f"cable at {most:.3g} N", (*tension_color(1.0), 1.0)),
        ]
    return messages, clips, legend


def _camera(points: Array, camera: tuple[ArrayLike, ArrayLike] | None) -> tuple[Array, float, Array | None]:
    """Origin of the picture in the world (3,), radius of a ball about it that holds all points [m], and the eye."""
    low, high = points.min(axis=0), points.max(axis=0)
    center, eye = 0.5 * (low + high), None
    if camera is not None:
        points_of = items("camera", camera, "a point to look from and one to look at")
        if len(points_of) != 2:
            raise ProblemError(f"camera: expected a point to look from and one to look at, got {said(camera)}")
        eye, center = (as_array(f"camera[{k}]", point, (3,)) for k, point in enumerate(points_of))
        eye = eye - center
        if not 1e-3 < np.linalg.norm(eye) < 1e6:
            raise ProblemError("camera: expected points that are at least 1 mm and at most 1000 km apart")
    return center, max(float(np.linalg.norm(points - center, axis=1).max()), 1e-2), eye


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


def _points(shapes: Bodies, places: Array, paths: Array) -> Array:
    """Points (P, 3) that enclose the robot and its traces, over some forty moments of the motion."""
    seen = [paths.reshape(-1, 3)]
    for joint, meshes in shapes.items():
        points = np.concatenate([mesh.vertices for mesh in meshes])
        ends = np.stack([points.min(axis=0), points.max(axis=0)])
        corners = np.array(list(itertools.product(*ends.T)))
        for place in places[:: max(1, len(places) // 40), joint]:
            seen.append(corners @ pin.Quaternion(place[3:]).matrix().T + place[:3])
    return np.concatenate(seen)


def _clip(path: str, places: Array, times: Sequence[float]) -> Message:
    held = np.concatenate([places, places[-1:]])
    moves = [track(".position", "vector3", times, held[:, :3]), track(".quaternion", "quaternion", times, held[:, 3:])]
    return clip(path, moves)


def _path(d: Drawing, root: str, joint: int) -> str:
    return f"{root}/{joint} {safe(d.motion.robot.model.names[joint])}"


def _trace(d: Drawing, frame: str) -> str:
    return f"/mayne/traces/{safe(frame)}" + ("" if d.root == ROBOT else f" of {safe(d.root)}")
