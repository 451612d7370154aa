"""Surroundings of a motion: the ground under it, the background and the camera."""

import math

import numpy as np

from ddp.errors import ProblemError, as_array
from viz.messages import Message, set_property
from viz.shapes import Array, Color, Mesh, grid

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


def distance_to_see(radius: float) -> float:
    """Distance of a camera from the middle of a ball that it sees whole [m]."""
    return ROOM * radius / math.sin(math.radians(0.5 * FIELD_OF_VIEW))


def surroundings(radius: float, eye: Array | None = None) -> list[Message]:
    """Background, and a camera at ``eye`` (3,) that looks at the origin: by default it sees a ball of ``radius``."""
    x, y, z = distance_to_see(radius) * VIEW / np.linalg.norm(VIEW) if eye is None else eye
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
