"""Simple solids in the world, and places there that costs and constraints are about."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from ddp.errors import DDPError, ProblemError, as_array, positive, settle, suggesting
from ddp.protocols import Array


@suggesting
@dataclass(frozen=True, eq=False)
class Capsule:
    """All points within ``radius`` [m] of the segment from start (3,) to end (3,) [m], in world axes.

    start may equal end: a ball. Raises ProblemError for what is no point, and for a radius that is not positive.
    """

    start: Any
    end: Any
    radius: float

    def __post_init__(self) -> None:
        start, end = (as_array(f"{name} of a capsule", getattr(self, name), (3,)).copy() for name in ("start", "end"))
        settle(self, start=start, end=end, radius=positive("radius of a capsule", self.radius))

    @classmethod
    def of(cls, numbers: Array) -> "Capsule":
        """Capsule of start, end and radius (7,), which are not checked."""
        made = object.__new__(cls)
        settle(made, start=numbers[:3], end=numbers[3:6], radius=float(numbers[6]))
        return made

    @property
    def center(self) -> Array:
        """Middle (3,) of the segment [m]."""
        return np.asarray(0.5 * (self.start + self.end))


@suggesting
def Sphere(center: ArrayLike, radius: float) -> Capsule:
    """All points within ``radius`` [m] of ``center`` (3,) [m], in world axes: a capsule without length."""
    point = as_array("center of a sphere", center, (3,))
    return Capsule(point, point, positive("radius of a sphere", radius))


class Mark(NamedTuple):
    """Place in the world that a cost or a constraint is about, for pictures and reports.

    kind: "target", where something shall be, "obstacle", or "wall": a plane that something stays on one side of.
    start, end (3,) [m]: ends of a segment, equal for a point; of a wall a point, and one 1 m off it on the free side.
    radius [m]: around it, 0 of a point.   rotation (3, 3): of a target with an orientation, else None.
    frame: of the robot, that it is about; "" where that is the centre of mass, or an obstacle.
    row: of the constraint's numbers that belong to it, None: all.   side: of a wall, the sign of multipliers that press
    against it, 0: either.
    """

    kind: str
    start: Array
    end: Array
    radius: float = 0.0
    rotation: Array | None = None
    frame: str = ""
    row: int | None = None
    side: int = 0


@runtime_checkable
class Marked(Protocol):
    """Cost or constraint that is about places in the world."""

    def marks(self) -> list[Mark]: ...


def direction(field: str, value: ArrayLike, error: type[DDPError] = ProblemError) -> Array:
    """A vector (3,) made one of length one."""
    vector = as_array(field, value, (3,), error)
    largest = float(np.abs(vector).max())
    if not largest > 1e-12:
        raise error(f"{field}: expected a direction, got {'zero' if largest == 0.0 else vector}")
    return np.asarray(vector / largest / np.linalg.norm(vector / largest))


_POSE = np.array([0, 1, 2, 4, 5, 6, 8, 9, 10, 3, 7, 11])
"""Numbers of a homogeneous matrix that `pose` keeps."""


def pose(field: str, value: Any) -> Array:
    """A rigid pose (12,), rotation row-major, then position, from a pin.SE3 or a homogeneous (4, 4) matrix."""
    if isinstance(value, (list, tuple)) and len(value) == 2:
        raise ProblemError(f"{field}: expected a pin.SE3 or its matrix, got two: pin.SE3(rotation, place) makes one")
    matrix = as_array(field, getattr(value, "homogeneous", value), (4, 4), finite=False)
    (a, b, c, x), (d, e, f, y), (g, h, i, z), last = matrix.tolist()
    squares = a * a + b * b + c * c - 1.0, d * d + e * e + f * f - 1.0, g * g + h * h + i * i - 1.0
    products = a * d + b * e + c * f, a * g + b * h + c * i, d * g + e * h + f * i
    determinant = a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)
    off = *squares, *products, *last[:3], last[3] - 1.0
    if not (math.hypot(*off) <= 1e-6 and determinant > 0.0 and math.hypot(x, y, z) < math.inf):
        as_array(field, matrix, (4, 4))  # with numbers that are all finite
        error = max(map(abs, off))
        if error > 1e-6 or determinant < 0.0:
            raise ProblemError(
                f"{field}: expected a pose [R p; 0 1] with a right-handed rotation R (R Rᵀ = 1), got one that is"
                f" off by {error:.3g}, det R = {determinant:.3g}"
            )
    return matrix.ravel()[_POSE]
