"""Messages to meshcat's viewer from within its page: objects, places, properties, movements."""

from __future__ import annotations

import math
import uuid
from collections.abc import Sequence
from typing import Any

import numpy as np
import umsgpack
from numpy.typing import NDArray

from viz.shapes import Array, Mesh

Message = dict[str, Any]

HELD = 2300
"""three.js's name for keys that hold until the next one."""


def safe(name: str) -> str:
    """``name`` as one step of a path."""
    return name.replace("/", "_") or "_"


def set_property(path: str, name: str, value: Any) -> Message:
    """A property of what is at ``path``."""
    return {"type": "set_property", "path": path, "property": name, "value": value}


def set_transform(path: str, translation: Array, rotation: Array | None = None) -> Message:
    """Where what is at ``path`` is in its parent: ``p -> rotation p + translation`` [m]."""
    matrix = np.eye(4)
    matrix[:3, 3] = translation
    if rotation is not None:
        matrix[:3, :3] = rotation
    return {"type": "set_transform", "path": path, "matrix": matrix.T.ravel().tolist()}


def set_object(path: str, mesh: Mesh) -> Message:
    """A mesh at ``path``, translucent if its colour is."""
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


def track(name: str, kind: str, times: Sequence[float], values: NDArray[Any], held: bool = False) -> Message:
    """One property over time [s], linear between its keys, or constant from key to key if ``held``.

    kind: "vector3", "quaternion" or "bool". A held track keeps only the keys that change it, and the last one.
    """
    rows = values.tolist()
    used = [k for k in range(len(rows)) if not held or k in (0, len(rows) - 1) or rows[k] != rows[k - 1]]
    message = {"name": name, "type": kind, "keys": [{"time": times[k], "value": rows[k]} for k in used]}
    return message | {"interpolation": HELD} if held else message


def clip(path: str, tracks: Sequence[Message]) -> Message:
    """How the object at ``path`` moves."""
    return {"path": path, "clip": {"fps": 1.0, "name": "motion", "tracks": list(tracks)}}


def set_animation(clips: Sequence[Message]) -> Message:
    """All that moves, over and over; every clip has to end at the same time."""
    options = {"play": True, "repetitions": math.inf}
    return {"type": "set_animation", "path": "", "animations": list(clips), "options": options}
