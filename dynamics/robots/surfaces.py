"""Meshes read one by one before a robot's shapes are put together, so that one that is broken is known by its name."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from dynamics.robots.libraries import coal

_INDICES = ("p", "vcount", "v", "h")
"""Elements of COLLADA whose text is whole numbers, on which the native parser waits for ever where it is not."""


def flaw(loader: coal.MeshLoader, path: str, scale: ArrayLike) -> str:
    """Why a mesh file cannot be drawn, empty if it can; a cached loader keeps what it has read."""
    try:
        if Path(path).suffix.lower() == ".dae":
            _check_indices(path)
        surface = loader.load(path, np.asarray(scale, dtype=np.float64))
    except (OSError, ValueError, RuntimeError, MemoryError, ElementTree.ParseError):
        return "broken, or not of the format that its name says"
    if not surface.num_tris:
        return "no triangles"
    return "" if np.isfinite(surface.vertices()).all() else "a vertex that is not finite"


def _check_indices(path: str) -> None:
    """Raise ValueError if a COLLADA file has something else than a number in a list of indices."""
    for _, element in ElementTree.iterparse(path):
        if element.tag.rpartition("}")[2] in _INDICES and not re.fullmatch(r"[\d\s]*", element.text or "", re.ASCII):
            raise ValueError(f"{path}: expected indices in <{element.tag}>")
        if not len(element):
            element.clear()
