"""Triangle meshes: the one kind of shape that is drawn, and how simple solids become one."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddp.errors import ProblemError, instances
from dynamics.geometry.solids import Capsule as Capsule
from dynamics.geometry.solids import Sphere as Sphere
from dynamics.robots.capsules import BodyCapsule
from dynamics.robots.libraries import pin

Array = NDArray[np.float64]
Indices = NDArray[np.int64]
Color = tuple[float, float, float, float]

GREY: Color = (0.75, 0.76, 0.78, 1.0)
COLORS: list[Color] = [
    (0.84, 0.15, 0.16, 1.0),
    (0.12, 0.47, 0.71, 1.0),
    (0.17, 0.63, 0.17, 1.0),
    (1.00, 0.50, 0.05, 1.0),
    (0.58, 0.40, 0.74, 1.0),
    (0.55, 0.34, 0.29, 1.0),
    (0.89, 0.47, 0.76, 1.0),
    (0.60, 0.60, 0.10, 1.0),
    (0.09, 0.70, 0.76, 1.0),
    (0.20, 0.20, 0.35, 1.0),
]
"""The colours of traces, forces, feet and joints, in turn: an arm of seven joints and two fingers has each once."""
SIDES, AROUND = 24, 8
"""Segments around a round solid, and around a thin tube."""
SHARP = np.radians(35.0)
"""Angle from which edges are sharp [rad]."""

DRAWABLE = 1e100
"""Bound of numbers that are drawn: their squares and sums are finite."""

OBSTACLE: Color = (0.80, 0.52, 0.25, 0.45)
WALL: Color = (*OBSTACLE[:3], 0.30)

Obstacle: TypeAlias = Capsule


def css(color: Color) -> str:
    """A colour as pages have it; what is translucent can still be told."""
    red, green, blue = (round(255 * c) for c in color[:3])
    return f"rgba({red}, {green}, {blue}, {max(color[3], 0.5):.2f})"


class Mesh(NamedTuple):
    """vertices (V, 3) [m]; triangles (F, 3), counter-clockwise from outside; one colour (RGBA)."""

    vertices: Array
    triangles: Indices
    color: Color = GREY

    def moved(self, rotation: Array, translation: Array) -> "Mesh":
        """The mesh under ``p -> rotation p + translation``."""
        return self._replace(vertices=self.vertices @ rotation.T + translation)


def merge(meshes: Sequence[Mesh]) -> Mesh:
    """Several meshes as one, in the first one's colour."""
    first = np.cumsum([0] + [len(mesh.vertices) for mesh in meshes])
    triangles = [mesh.triangles + start for mesh, start in zip(meshes, first[:-1], strict=True)]
    return Mesh(np.concatenate([mesh.vertices for mesh in meshes]), np.concatenate(triangles), meshes[0].color)


def box(sides: Array, color: Color = GREY) -> Mesh:
    """A cuboid centred at the origin with edges of ``sides`` (3,)."""
    corners = np.array([[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)])
    faces = np.array([[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]])
    return Mesh(corners * sides, faces[:, [0, 1, 2, 0, 2, 3]].reshape(-1, 3), color)


def lathe(radius: Array, height: Array, color: Color = GREY) -> Mesh:
    """The solid of revolution about z whose outline passes from below to above through (radius, height)."""
    angle = np.arange(SIDES) * (2.0 * np.pi / SIDES)
    ring = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    vertices = np.concatenate(
        [radius[:, None, None] * ring, np.broadcast_to(height[:, None, None], (len(height), SIDES, 1))],
        axis=-1,
    )
    return Mesh(vertices.reshape(-1, 3), _sleeve(len(radius), SIDES), color)


def cylinder(radius: float, length: float, color: Color = GREY) -> Mesh:
    """A cylinder about z, centred at the origin."""
    h = 0.5 * length
    return lathe(np.array([0.0, radius, radius, 0.0]), np.array([-h, -h, h, h]), color)


def cone(radius: float, length: float, color: Color = GREY) -> Mesh:
    """A cone about z with its tip up, centred at the origin."""
    h = 0.5 * length
    return lathe(np.array([0.0, radius, 0.0]), np.array([-h, -h, h]), color)


def capsule(radius: float, length: float, color: Color = GREY) -> Mesh:
    """A cylinder of ``length`` about z with a half sphere at either end; a sphere if the length is zero."""
    angle = np.linspace(0.0, 0.5 * np.pi, SIDES // 4 + 1)
    outline = np.concatenate([np.cos(angle[::-1]), np.cos(angle)])
    rise = np.concatenate([-np.sin(angle[::-1]) * radius - 0.5 * length, np.sin(angle) * radius + 0.5 * length])
    return lathe(radius * outline, rise, color)


def ellipsoid(radii: Array, color: Color = GREY) -> Mesh:
    """An ellipsoid with half-axes ``radii`` (3,) along x, y, z."""
    ball = capsule(1.0, 0.0, color)
    return ball._replace(vertices=ball.vertices * radii)


def turned_to(axis: Array) -> Array:
    """A rotation that takes z to an axis (3,)."""
    return np.asarray(pin.Quaternion.FromTwoVectors(np.array([0.0, 0.0, 1.0]), axis).matrix())


def rod(start: Array, end: Array, radius: float, color: Color = GREY) -> Mesh:
    """A cylinder from ``start`` to ``end``, both (3,)."""
    along = end - start
    length = float(np.linalg.norm(along))
    z = along / length
    x = np.cross(z, np.eye(3)[np.argmin(np.abs(z))])
    x /= np.linalg.norm(x)
    frame = np.stack([x, np.cross(z, x), z], axis=1)
    return cylinder(radius, length, color).moved(frame, 0.5 * (start + end))


def tube(path: Array, radius: float, color: Color = GREY) -> Mesh:
    """A thin tube along the points ``path`` (N, 3); points that stand still are left out."""
    moves = np.linalg.norm(np.diff(path, axis=0), axis=1) > 1e-3 * radius
    points = path[np.concatenate([[True], moves])]
    if len(points) < 2:
        return capsule(radius, 0.0, color).moved(np.eye(3), path[0])
    tangent = np.gradient(points, axis=0)
    tangent /= np.maximum(np.linalg.norm(tangent, axis=1, keepdims=True), 1e-12)
    normal = np.cross(tangent[0], np.eye(3)[np.argmin(np.abs(tangent[0]))])
    angle = np.arange(AROUND) * (2.0 * np.pi / AROUND)
    rings = []
    for point, t in zip(points, tangent, strict=True):
        normal = normal - (normal @ t) * t  # carried along without twist
        normal /= max(float(np.linalg.norm(normal)), 1e-12)
        across = np.cross(t, normal)
        rings.append(point + radius * (np.cos(angle)[:, None] * normal + np.sin(angle)[:, None] * across))
    return Mesh(np.concatenate(rings), _sleeve(len(points), AROUND), color)


def grid(half: float, cell: float, width: float, color: Color) -> Mesh:
    """Lines in the plane z = 0, ``cell`` apart, out to ``half`` in x and y."""
    count = max(1, round(half / cell))
    at = cell * np.arange(-count, count + 1)
    line = box(np.array([width, 2.0 * cell * count, 0.0]), color)
    along = [line.moved(np.eye(3), np.array([x, 0.0, 0.0])) for x in at]
    turn = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    return merge(along + [mesh.moved(turn, np.zeros(3)) for mesh in along])


def _sleeve(rings: int, sides: int) -> Indices:
    """Triangles (2 (rings-1) sides, 3) that join consecutive rings of ``sides`` vertices."""
    ring, side = np.meshgrid(np.arange(rings - 1), np.arange(sides), indexing="ij")
    a, b = ring * sides + side, ring * sides + (side + 1) % sides
    quads = np.stack([a, b, b + sides, a, b + sides, a + sides], axis=-1)
    return quads.reshape(-1, 3)


def distinct(rows: NDArray[Any]) -> tuple[Indices, Indices]:
    """Places of the first of equal rows (M, n), in ascending order of rows; and which of these each row (M,) equals.

    `numpy.unique(rows, axis=0)` finds as much, but by comparing records, and makes a TypeError of Ctrl-C meanwhile.
    """
    order = np.lexsort(rows.T[::-1])
    ordered, new = rows[order], np.ones(len(rows), dtype=bool)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    number = np.empty(len(rows), dtype=np.int64)
    number[order] = np.cumsum(new) - 1
    return order[new], number


def sharpen(mesh: Mesh) -> Mesh:
    """Weld a surface where it is smooth and split it along edges sharper than `SHARP`.

    A viewer averages normals over the triangles that share a vertex: edges stay crisp only if their sides
    share none. Corners of triangles are joined across smooth edges; each connected set of them becomes one
    vertex.
    """
    from scipy.sparse import coo_array  # a quarter of a second to import, which programs that draw nothing need not
    from scipy.sparse.csgraph import connected_components

    resolution = 1e-6 * float(np.ptp(mesh.vertices, axis=0).max())
    rounded = np.rint(mesh.vertices / resolution).astype(np.int64)
    first, weld = distinct(rounded)
    points, t = mesh.vertices[first], weld[mesh.triangles]
    t = t[(t[:, 0] != t[:, 1]) & (t[:, 1] != t[:, 2]) & (t[:, 2] != t[:, 0])]
    once, _ = distinct(np.sort(t, axis=1))  # some files hold triangles twice
    t = t[np.sort(once)]
    normal = np.cross(points[t[:, 1]] - points[t[:, 0]], points[t[:, 2]] - points[t[:, 0]])
    normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-30)
    corner = np.arange(t.size).reshape(-1, 3)
    ends = np.stack([t, np.roll(t, -1, axis=1)], axis=-1).reshape(-1, 2)  # edge i joins corners i, i + 1
    corners = np.stack([corner, np.roll(corner, -1, axis=1)], axis=-1).reshape(-1, 2)
    swap = ends[:, 0] > ends[:, 1]
    ends[swap], corners[swap] = ends[swap, ::-1], corners[swap, ::-1]
    order = np.lexsort((ends[:, 1], ends[:, 0]))
    one, other = order[:-1], order[1:]
    shared = (ends[one] == ends[other]).all(axis=1)
    one, other = one[shared], other[shared]
    smooth = np.einsum("ij,ij->i", normal[one // 3], normal[other // 3]) > np.cos(SHARP)
    joined = corners[one[smooth]].ravel(), corners[other[smooth]].ravel()
    graph = coo_array((np.ones(len(joined[0]), dtype=np.int8), joined), shape=(t.size, t.size))
    count, vertex = connected_components(graph, directed=False)
    vertices = np.empty((count, 3))
    vertices[vertex] = points[t.ravel()]
    return Mesh(vertices, vertex.reshape(-1, 3).astype(np.int64), mesh.color)


def as_obstacles(obstacles: Sequence[Obstacle] | Obstacle) -> list[Obstacle]:
    """Obstacles, or one alone, checked."""
    one = "a viz.Sphere or a viz.Capsule"
    several = (obstacles,) if isinstance(obstacles, Capsule) else obstacles
    found = list(instances("obstacles", several, Capsule, "viz.Spheres and viz.Capsules", one))
    if any(np.abs([*obstacle.start, *obstacle.end, obstacle.radius]).max() > DRAWABLE for obstacle in found):
        raise ProblemError(f"obstacles: expected places and radii of at most {DRAWABLE:g} m, got larger ones")
    return found


def solid(segment: Capsule | BodyCapsule) -> Mesh:
    """All points within the radius of a segment, as a mesh."""
    a, b = np.asarray(segment.start, dtype=np.float64), np.asarray(segment.end, dtype=np.float64)
    length = float(np.linalg.norm(b - a))
    turn = turned_to(b - a) if length > 0.0 else np.eye(3)
    return capsule(segment.radius, length, OBSTACLE).moved(turn, 0.5 * (a + b))
