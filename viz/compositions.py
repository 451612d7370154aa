"""Robots inside of compositions, whose states are a part of the composition's."""

from __future__ import annotations

from typing import Any

import numpy as np

from dynamics.steps.augmented import Augmented
from dynamics.steps.free_start import FreeStart
from viz.shapes import Array


def inside(system: Any, X: Array) -> tuple[Any, Array]:
    """The system in compositions, and its part of their states X (N+1, .)."""
    while isinstance(system, (Augmented, FreeStart)):
        if isinstance(system, FreeStart):
            X = X[system.before :]
        system = system.system
        X = np.ascontiguousarray(X[:, : system.nx])
    return system, X
