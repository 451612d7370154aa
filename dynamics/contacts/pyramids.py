"""Pyramids that stand for cones of friction."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

UP = np.array([0.0, 0.0, 1.0])
UP.setflags(write=False)


def pyramid(mu: float, faces: int, inside: float | None = None, normal: Array = UP) -> Array:
    """Rows R (faces, 3) of a pyramid about a normal, ``R f <= 0`` for a force f within it.

    inside: part of mu that it has; with cos(π / faces), the default, it is the largest one within the cone.
    """
    n = normal / np.linalg.norm(normal)
    first = np.eye(3)[0] if abs(n[0]) < 0.9 else np.eye(3)[1]
    t = first - n * (n @ first)
    t /= np.linalg.norm(t)
    angles = 2.0 * np.pi * np.arange(faces) / faces
    around = np.outer(np.cos(angles), t) + np.outer(np.sin(angles), np.cross(n, t))
    share = np.cos(np.pi / faces) if inside is None else inside
    return np.asarray(np.where(np.abs(around) < 1e-15, 0.0, around) - share * mu * n)
