"""A motion as a list of messages that meshcat's viewer understands; ground, background, camera and cables with it."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ddp.errors import ProblemError, as_array, items, said, text
from viz import arrows
from viz.chains import CABLE, Chain, surroundings_of, tension_color
from viz.contacts import as_forces, named
from viz.details import Details, Entry, of_limits, of_planes, of_robot, of_world
from viz.messages import Message, clip, safe, set_animation, set_object, set_property, set_transform, track
from viz.motions import Motion, Played, Run, as_motions, configurations
from viz.robots import GHOST, ROBOT, Drawing, Shapes, draw, drawings_of, enclosing, kinematics, path_of, stand, trace_of
from viz.shapes import COLORS, Array, Color, Mesh, Obstacle, as_obstacles, grid, solid, tube
from viz.signals import Signal, motion_of
from viz.world import World

PAUSE = 0.6
"""Time that the last state is held before the motion starts over [s]."""
BESIDE, PLAN = "the motion beside it", "the plan"
"""Names of a second motion in the legend, and of the plan beside a simulated one."""
TINTS: list[Color] = [
    (0.78, 0.27, 0.18, 0.80), (0.12, 0.44, 0.71, 0.80), (0.23, 0.57, 0.23, 0.80),
    (0.54, 0.36, 0.69, 0.80), (0.79, 0.54, 0.11, 0.80), (0.33, 0.33, 0.33, 0.80),
]  # fmt: skip
"""Colours of several motions, in turn: those of their curves in plots."""


class Scene(NamedTuple):
    """messages, in the order to send them; legend: what colours mean; duration [s]; missing meshes' names.

    name: of the robot.
    radius [m]: of a ball that all fits into, about the origin of the picture; 0: the camera was placed by hand.
    center (3,): that origin in the world [m].   times (M,) [s], path (M, 3) [m]: what a camera may follow.
    size [m]: that radius, however the camera was placed.   cell [m]: of the grid.
    drawing: of the first motion.   traced: frames with paths.
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
    size: float
    cell: float
    drawing: Drawing
    traced: tuple[str, ...]


def build(
    robot: Any, X: Any = None, dt: ArrayLike | None = None, frames: Sequence[str] | None = None,
    ghost: ArrayLike | None = None, *, forces: Mapping[str, ArrayLike] | None = None, force_scale: float | None = None,
    cones: float | Mapping[str, float] | None = None, obstacles: Sequence[Obstacle] | Obstacle | None = None,
    ground: float | None = None, beside: ArrayLike | None = None, beside_title: str = BESIDE,
    camera: tuple[ArrayLike, ArrayLike] | None = None, signals: Mapping[str, Signal] | None = None,
    tensions: ArrayLike | None = None, read: Shapes | None = None,
) -> Scene:  # fmt: skip
    """The scene of one motion or several; the arguments as in ``save_html``.   read: shapes of earlier scenes."""
    robot = motion_of(robot)
    if isinstance(robot, Played) and X is None and dt is None:
        robot = Run.of(robot)
        beside, beside_title = (robot.plan, PLAN) if beside is None else (beside, beside_title)
    motions = as_motions(robot, X, dt)
    own = {} if signals is None else named("signals", signals, "Signals", Signal, "a viz.Signal")
    first = motions[0] = motions[0]._replace(signals={**motions[0].signals, **own})
    if tensions is not None:
        first = motions[0] = first._replace(tensions=as_tensions(first, tensions))
    alone = len(motions) == 1
    world = _world(first, alone, forces, obstacles, ground)
    model, Q = first.robot.model, first.Q
    frames = _paths(world, motions) if frames is None else items("frames", frames, "names of frames")
    for name in frames:
        text("frames: a name", name)
    acting = world.forces
    names = list(dict.fromkeys([*frames, *acting]))
    tints: list[Color | None] = [None] if alone else [TINTS[k % len(TINTS)] for k in range(len(motions))]
    if beside is not None:
        motions = [*motions, _beside(beside, text("beside_title", beside_title), first)]
        tints.append(GHOST)
    drawings, missing = drawings_of(motions, tints, frames, names, Shapes() if read is None else read)
    colors = dict(zip(names, itertools.cycle(COLORS), strict=False))
    paths = dict(zip(names, drawings[0].positions, strict=True))
    touching = arrows.contacts(model, Q[0], paths, colors, acting, force_scale, cones, world.friction)
    ghosts = Q[-1:] if ghost is None and alone and first.world is not None and beside is None else None
    hidden = ghost is None and bool(world.feet)  # which stand where footholds are: the ghost hides more than it tells
    ghosts = ghosts if ghost is None else configurations("ghost", ghost, first.robot)
    still = np.empty((0, model.njoints, 7)) if ghosts is None else kinematics(model, ghosts, [])[0]
    solids = [solid(obstacle) for obstacle, _ in world.obstacles]
    moving = np.concatenate([enclosing(d.shapes, d.places, d.positions) for d in drawings])
    if len(still):
        moving = np.concatenate([moving, enclosing(drawings[0].shapes, still, np.empty((0, 3)))])
    marks = [mark.start[None] for mark in world.targets] + [world.footholds]
    points = np.concatenate([moving, *marks, *(one.tips for one in touching), *(mesh.vertices for mesh in solids)])
    center, radius, eye = _camera(points, camera)

    messages = [*surroundings(radius, eye), set_transform("/mayne", -center)]
    floor, cell = grid_under(center, radius, float(moving[:, 2].min()), world.ground)
    messages += [set_object(f"/mayne/ground/{k}", mesh) for k, mesh in enumerate(floor)]
    duration = max(float(motion.times[-1]) for motion in motions)
    made = Details(messages, [], [Entry(f"grid of {cell:g} m", GROUND, ("/mayne/ground",))])
    for d in drawings:
        shown, moves = draw(d, duration + PAUSE)
        made.add(Details(shown, moves, []))
        if d.motion.name and d.color is not None:
            traces = tuple(trace_of(d, name) for name in frames) if d.root != ROBOT or not alone else ()
            made.legend.append(Entry(d.motion.name, d.color, (d.root, *traces)))
    for i, name in enumerate(names):
        shown_as = [what for what, where in (("path", frames), ("force", acting)) if name in where]
        tubes = [d for d in drawings if name in frames and d.positions.size]
        lines = [trace_of(d, name) for d in tubes] + ([arrows.root(name)] if name in acting else [])
        for d in tubes:
            color = colors[name] if d.root == ROBOT and len(tubes) == 1 else d.color or colors[name]
            made.messages.append(set_object(trace_of(d, name), tube(d.positions[i], 0.004 * radius, color)))
        shade = colors[name] if len(tubes) < 2 else GROUND  # each motion's is in the motion's colour
        made.legend.append(Entry(f"{' and '.join(shown_as)} of {name}", shade, tuple(lines)))
    ends = [*first.times.tolist(), duration + PAUSE]
    for contact in touching:
        shown, moves = arrows.draw(contact, ends, min(0.008 * radius, 0.03 * contact.reach))
        made.add(Details(shown, moves, []))
    made.legend.extend(Entry(label, color) for label, color in arrows.legend(touching))
    for d in drawings:
        if isinstance(d.motion.robot, Chain) and d.motion.robot.cables and d.root == ROBOT:
            made.add(Details(*draw_cables(d, duration + PAUSE)))
    if isinstance(first.robot, Chain):
        for label, meshes in surroundings_of(first.robot, moving.min(axis=0), moving.max(axis=0)).items():
            path = f"/mayne/{safe(label)}"
            about = [Entry(label, meshes[0].color, (path,))]
            made.add(Details([set_object(f"{path}/{k}", mesh) for k, mesh in enumerate(meshes)], [], about))
    made.add(of_world(world, ends, 0.06 * radius))
    made.add(of_planes(drawings[0], world, ends, center, radius))
    if ghosts is not None:
        known = {"its first state": Q[:1], "its last state": Q[-1:]}
        same = [what for what, state in known.items() if np.array_equal(ghosts, state)]
        made.legend.append(Entry(same[-1] if same else "ghost", GHOST, ("/mayne/ghost",), shown=not hidden))
        for k, places in enumerate(still):
            made.messages.extend(stand(drawings[0], f"/mayne/ghost/{k}", places, GHOST))
    if alone:
        made.add(of_limits(drawings[0], world, ends, 0.05 * radius))
        made.add(of_robot(drawings[0], world, ends, 0.06 * radius))
    made.messages.append(set_animation(made.clips))
    plotted = [(d.motion.name, d.color, d.motion.signals) for d in drawings if d.motion.signals]
    middle = drawings[0].places[:, 1:, :3].mean(axis=1)
    return Scene(
        made.messages, made.legend, duration, missing, first.robot.name,
        radius if eye is None else 0.0, center, first.times, middle, plotted,
        radius, cell, drawings[0], tuple(frames),
    )  # fmt: skip


def _world(
    first: Motion, alone: bool, forces: Mapping[str, ArrayLike] | None, obstacles: Sequence[Obstacle] | Obstacle | None,
    ground: float | None,
) -> World:  # fmt: skip
    """Surroundings of a solution, with those that are given instead; forces of one motion alone are drawn."""
    world = World() if first.world is None else first.world()
    if not alone:
        obstacles_of, walls = ([(one, None) for one, _ in world.obstacles], [(one, None) for one, _ in world.walls])
        world = world._replace(forces={}, obstacles=obstacles_of, walls=walls)
    if forces is not None:
        world = world._replace(forces=as_forces(forces, (len(first.Q) - 1, len(first.Q))))
    if obstacles is not None:
        world = world._replace(obstacles=[(obstacle, None) for obstacle in as_obstacles(obstacles)], shown={})
    return world if ground is None else world._replace(ground=ground)


def _paths(world: World, motions: Sequence[Motion]) -> list[str]:
    """Frames whose paths are drawn by default: those with targets, and feet, that all robots have."""
    wanted = dict.fromkeys([*(mark.frame for mark in world.targets), *world.feet])
    return [name for name in wanted if name and all(one.robot.model.existFrame(name) for one in motions)]


def _beside(X: ArrayLike, name: str, first: Motion) -> Motion:
    """Another motion at the times of the first."""
    Q = configurations("beside", X, first.robot)
    if len(Q) != len(first.Q):
        raise ProblemError(f"beside: expected {len(first.Q)} states, as many as X has, got {len(Q)}")
    return Motion(name, first.robot, Q, first.times)


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


def as_tensions(motion: Motion, tensions: ArrayLike) -> Array:
    """Tensions (N, tendons) [N] of a motion's cables, checked."""
    cables = motion.robot.cables if isinstance(motion.robot, Chain) else []
    if not cables:
        raise ProblemError(f"tensions: expected a robot with tendons, got {motion.robot.name}, which has none")
    return as_array("tensions", tensions, (len(motion.Q) - 1, len(cables)))


def draw_cables(d: Drawing, end: float) -> tuple[list[Message], list[Message], list[Entry]]:
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
            path = f"{path_of(d, d.root, joint)}/cable {c}"
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


FIELD_OF_VIEW = 40.0
"""Angle between the upper and the lower edge of the picture [deg]."""
ROOM = 1.12
"""Distance of the camera over that from which a ball touches the edges of the picture."""
VIEW = np.array([0.74, -0.55, 0.38])
"""From what is seen to the camera."""
FARTHEST = 1e6
"""Largest height of the ground [m] that is drawn."""
GROUND: Color = (0.62, 0.66, 0.70, 1.0)
PLANE: Color = (0.93, 0.94, 0.95, 1.0)


def grid_under(center: Array, radius: float, lowest: float, ground: float | None) -> tuple[list[Mesh], float]:
    """A grid under the motion, lined up with the origin, and its cell: 1, 2 or 5 times a power of ten [m].

    ground: the height of a plane in which the grid lies; None: no plane, and the grid below all that is seen.
    """
    decade = 10.0 ** math.floor(math.log10(0.3 * radius))
    cell = decade * max(step for step in (1.0, 2.0, 5.0) if step * decade <= 0.3 * radius)
    lines = grid(4.0 * radius, cell, 0.0035 * radius, GROUND)
    middle = np.array([*cell * np.round(center[:2] / cell), min(0.0, lowest) if ground is None else height(ground)])
    shown = [lines.moved(np.eye(3), middle - np.array([0.0, 0.0, 0.002 * radius]))]
    if ground is not None:
        half = float(lines.vertices[:, 0].max())
        corners = np.array([[-half, -half, 0.0], [half, -half, 0.0], [half, half, 0.0], [-half, half, 0.0]])
        plane = Mesh(corners, np.array([[0, 1, 2], [0, 2, 3]]), PLANE)
        shown.append(plane.moved(np.eye(3), middle - np.array([0.0, 0.0, 0.004 * radius])))
    return shown, cell


def height(ground: float) -> float:
    """The height of the ground [m], checked."""
    found = float(as_array("ground", ground, ()))
    if abs(found) > FARTHEST:
        raise ProblemError(f"ground: expected a height of at most {FARTHEST:g} m, got {found:g}")
    return found


def surroundings(radius: float, eye: Array | None = None) -> list[Message]:
    """Background, and a camera at ``eye`` (3,) that looks at the origin: by default it sees a ball of ``radius``."""
    away = ROOM * radius / math.sin(math.radians(0.5 * FIELD_OF_VIEW))
    x, y, z = away * VIEW / np.linalg.norm(VIEW) if eye is None else eye
    distance = float(np.linalg.norm([x, y, z]))
    camera = {
        "uuid": "camera", "type": "PerspectiveCamera", "fov": FIELD_OF_VIEW, "aspect": 1.0,
        "near": 0.02 * distance, "far": 50.0 * distance, "zoom": 1.0,
        "focus": 10.0, "filmGauge": 35.0, "filmOffset": 0.0,
    }  # fmt: skip
    return [
        set_property("/Background", "top_color", [0.86, 0.90, 0.94]),
        set_property("/Background", "bottom_color", [0.98, 0.98, 0.97]),
        set_property("/Axes", "visible", False),
        set_property("/Grid", "visible", False),
        {"type": "set_object", "path": "/Cameras/default/rotated", "object": {"object": camera}},
        set_property("/Cameras/default/rotated/<object>", "position", [x, z, -y]),  # its y axis points up
    ]
