"""A motion as a list of messages that a meshcat viewer understands, live or inlined in a file."""

from __future__ import annotations

import itertools
import math
import uuid
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import pinocchio as pin
import umsgpack
from numpy.typing import ArrayLike

from ddp.errors import ModelError, ProblemError, as_array, nearest, positive
from viz.bodies import Bodies, Drawable, bodies
from viz.shapes import Array, Color, Mesh, capsule, grid, merge, tube

Message = dict[str, Any]

PAUSE = 0.6
"""How long the last state is held before the motion starts over [s]."""
FIELD_OF_VIEW = 40.0
GROUND: Color = (0.62, 0.66, 0.70, 1.0)
OBSTACLE: Color = (0.80, 0.47, 0.20, 0.55)
GHOST: Color = (0.16, 0.50, 0.73, 0.28)
TRACES: list[Color] = [
    (0.84, 0.15, 0.16, 1.0),
    (0.12, 0.47, 0.71, 1.0),
    (0.17, 0.63, 0.17, 1.0),
    (1.00, 0.50, 0.05, 1.0),
    (0.58, 0.40, 0.74, 1.0),
    (0.55, 0.34, 0.29, 1.0),
]
"""The colours of the traces, in turn."""


class Obstacle(Protocol):
    """All points within a radius [m] of the segment from start (3,) to end (3,) [m], in the world."""

    @property
    def start(self) -> Array: ...
    @property
    def end(self) -> Array: ...
    @property
    def radius(self) -> float: ...


class Scene(NamedTuple):
    """messages, in the order to send them; legend: what colours mean; duration [s]; missing meshes' names."""

    messages: list[Message]
    legend: list[tuple[str, Color]]
    duration: float
    missing: tuple[str, ...]


def build(
    robot: Drawable, X: ArrayLike, dt: float, frames: Sequence[str] = (), ghost: ArrayLike | None = None,
    obstacles: Sequence[Obstacle] = (),
) -> Scene:  # fmt: skip
    """The scene of a robot that moves along X (N, nx) or (N, nq), one state every dt [s].

    frames: names of frames whose path is drawn; ghost: a state, or several, drawn translucent and still;
    obstacles: spheres and capsules, fixed in the world.
    """
    dt = positive("dt", dt)
    model = robot.model
    Q = _configurations("X", X, model)
    places, paths = _kinematics(model, Q, [_frame(robot, name) for name in frames])
    shapes, missing = bodies(robot)
    ghosts = None if ghost is None else _configurations("ghost", ghost, model)
    still = None if ghosts is None else _ghost(model, shapes, ghosts)
    solids = [_solid(obstacle) for obstacle in obstacles]
    points = np.concatenate([_points(shapes, places, paths, still), *(solid.vertices for solid in solids)])
    low, high = points.min(axis=0), points.max(axis=0)
    center = 0.5 * (low + high)
    radius = max(float(np.linalg.norm(points - center, axis=1).max()), 1e-2)

    messages = [*_surroundings(radius), _transform("/mayne", -center)]
    ground, cell = _ground(center, radius, min(0.0, float(low[2])))
    messages.append(_object("/mayne/ground", ground))
    for joint, meshes in shapes.items():
        path = _path(model, joint)
        messages += [_object(f"{path}/{k}", mesh) for k, mesh in enumerate(meshes)]
        if joint > 0:
            start = places[0, joint]
            messages.append(_transform(path, start[:3], pin.Quaternion(start[3:]).matrix()))
    legend = [(f"grid of {cell:g} m", GROUND)]
    for k, (name, trace) in enumerate(zip(frames, paths, strict=True)):
        color = TRACES[k % len(TRACES)]
        legend.append((f"path of {name}", color))
        messages.append(_object(f"/mayne/traces/{_safe(name)}", tube(trace, 0.004 * radius, color)))
    if solids:
        legend.append(("obstacles", OBSTACLE))
        messages.append(_object("/mayne/obstacles", merge(solids)))
    if still is not None and ghosts is not None:
        known = {"its first state": Q[:1], "its last state": Q[-1:]}
        same = [what for what, state in known.items() if np.array_equal(ghosts, state)]
        legend.append((same[-1] if same else "ghost", GHOST))
        messages.append(_object("/mayne/ghost", still))
    messages.append(_animation(model, [joint for joint in shapes if joint > 0], places, dt))
    return Scene(messages, legend, (len(Q) - 1) * dt, missing)


def _solid(obstacle: Obstacle) -> Mesh:
    along = obstacle.end - obstacle.start
    length = float(np.linalg.norm(along))
    up = np.array([0.0, 0.0, 1.0])
    turn = np.asarray(pin.Quaternion.FromTwoVectors(up, along if length > 0.0 else up).matrix())
    return capsule(obstacle.radius, length, OBSTACLE).moved(turn, 0.5 * (obstacle.start + obstacle.end))


def _configurations(field: str, X: ArrayLike, model: pin.Model) -> Array:
    array = as_array(field, np.atleast_2d(np.asarray(X, dtype=np.float64)), (None, None))
    if array.shape[1] not in (model.nq, model.nq + model.nv):
        raise ProblemError(
            f"{field}: expected states of {model.nq + model.nv} numbers or configurations of {model.nq}"
            f" for {model.name}, got {array.shape[1]}"
        )
    if len(array) == 0:
        raise ProblemError(f"{field}: expected at least one state, got none")
    return array[:, : model.nq]


def _frame(robot: Drawable, name: str) -> int:
    if not robot.model.existFrame(name):
        known = [frame.name for frame in robot.model.frames]
        raise ModelError(f"frames: {robot.name} has no frame {name!r}; {nearest(name, known)}")
    return int(robot.model.getFrameId(name))


def _kinematics(model: pin.Model, Q: Array, frames: list[int]) -> tuple[Array, Array]:
    """Position and quaternion (N, njoints, 7) of every joint, positions (len(frames), N, 3) of the frames."""
    data = model.createData()
    places, paths = np.empty((len(Q), model.njoints, 7)), np.empty((len(frames), len(Q), 3))
    for k, q in enumerate(Q):
        pin.forwardKinematics(model, data, q)
        places[k] = [pin.SE3ToXYZQUAT(place) for place in data.oMi]
        for i, frame in enumerate(frames):
            paths[i, k] = pin.updateFramePlacement(model, data, frame).translation
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
    """Points (P, 3) that enclose all that is seen, over some forty moments of the motion."""
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


def _ground(center: Array, radius: float, height: float) -> tuple[Mesh, float]:
    """A grid under the motion, lined up with the origin, and its cell: 1, 2 or 5 times a power of ten [m]."""
    decade = 10.0 ** math.floor(math.log10(0.3 * radius))
    cell = decade * max(step for step in (1.0, 2.0, 5.0) if step * decade <= 0.3 * radius)
    lines = grid(4.0 * radius, cell, 0.0035 * radius, GROUND)
    x, y = cell * np.round(center[:2] / cell)
    middle = np.array([x, y, height - 0.002 * radius])
    return lines.moved(np.eye(3), middle), cell


def _surroundings(radius: float) -> list[Message]:
    """Background, and a camera that sees a ball of ``radius`` about the origin."""
    distance = 0.95 * radius / math.sin(math.radians(0.5 * FIELD_OF_VIEW))
    direction = np.array([0.74, -0.55, 0.38])
    x, y, z = distance * direction / np.linalg.norm(direction)
    camera = {
        "uuid": str(uuid.uuid4()), "type": "PerspectiveCamera", "fov": FIELD_OF_VIEW, "aspect": 1.0,
        "near": 0.02 * distance, "far": 50.0 * distance, "zoom": 1.0,
        "focus": 10.0, "filmGauge": 35.0, "filmOffset": 0.0,
    }  # fmt: skip
    return [
        _property("/Background", "top_color", [0.86, 0.90, 0.94]),
        _property("/Background", "bottom_color", [0.98, 0.98, 0.97]),
        _property("/Axes", "visible", False),
        _property("/Grid", "visible", False),
        {"type": "set_object", "path": "/Cameras/default/rotated", "object": {"object": camera}},
        _property("/Cameras/default/rotated/<object>", "position", [x, z, -y]),  # its y axis points up
    ]


def _animation(model: pin.Model, joints: list[int], places: Array, dt: float) -> Message:
    times = [*range(len(places)), len(places) - 1 + PAUSE / dt]
    held = np.concatenate([places, places[-1:]])

    def track(name: str, kind: str, values: Array) -> Message:
        keys = [{"time": t, "value": v} for t, v in zip(times, values.tolist(), strict=True)]
        return {"name": name, "type": kind, "keys": keys}

    clips = [
        {
            "path": _path(model, joint),
            "clip": {
                "fps": 1.0 / dt,
                "name": "motion",
                "tracks": [
                    track(".position", "vector3", held[:, joint, :3]),
                    track(".quaternion", "quaternion", held[:, joint, 3:]),
                ],
            },
        }
        for joint in joints
    ]
    options = {"play": True, "repetitions": math.inf}
    return {"type": "set_animation", "path": "", "animations": clips, "options": options}


def _safe(name: str) -> str:
    return name.replace("/", "_") or "_"


def _path(model: pin.Model, joint: int) -> str:
    return f"/mayne/robot/{joint} {_safe(model.names[joint])}"


def _property(path: str, name: str, value: Any) -> Message:
    return {"type": "set_property", "path": path, "property": name, "value": value}


def _transform(path: str, translation: Array, rotation: Array | None = None) -> Message:
    matrix = np.eye(4)
    matrix[:3, 3] = translation
    if rotation is not None:
        matrix[:3, :3] = rotation
    return {"type": "set_transform", "path": path, "matrix": matrix.T.ravel().tolist()}


def _object(path: str, mesh: Mesh) -> Message:
    shape, material = str(uuid.uuid4()), str(uuid.uuid4())
    red, green, blue = (round(255 * min(max(c, 0.0), 1.0)) for c in mesh.color[:3])
    opacity = mesh.color[3]
    triangles = mesh.triangles.astype("<u4")
    data = {
        "attributes": {"position": _array("Float32Array", 0x17, mesh.vertices.astype("<f4"))},
        "index": _array("Uint32Array", 0x16, triangles),
    }
    return {
        "type": "set_object",
        "path": path,
        "object": {
            "metadata": {"version": 4.5, "type": "Object"},
            "geometries": [{"uuid": shape, "type": "BufferGeometry", "data": data}],
            "materials": [
                {
                    "uuid": material, "type": "MeshPhongMaterial", "color": red << 16 | green << 8 | blue,
                    "specular": 0x1C1C1C, "shininess": 30, "side": 2, "opacity": opacity,
                    "transparent": opacity < 1.0, "depthWrite": opacity >= 1.0,
                    # a ghost yields to what it coincides with
                    "polygonOffset": opacity < 1.0, "polygonOffsetFactor": 1.0, "polygonOffsetUnits": 8.0,
                }
            ],
            "object": {
                "uuid": str(uuid.uuid4()), "type": "Mesh", "geometry": shape, "material": material,
                "matrix": np.eye(4).ravel().tolist(),
            },
        },
    }  # fmt: skip


def _array(kind: str, code: int, rows: np.ndarray[Any, Any]) -> Message:
    return {"itemSize": 3, "type": kind, "array": umsgpack.Ext(code, rows.tobytes()), "normalized": False}


def pack(message: Message) -> bytes:
    """A message as the bytes that the viewer reads."""
    return bytes(umsgpack.packb(message))
