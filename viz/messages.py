"""Messages to meshcat's viewer from within its page: objects, places, properties, movements.

They are in it as one compressed block that it unpacks: JSON, then numbers of meshes, each mesh once.
"""

import base64
import gzip
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viz.shapes import Array, Color, Mesh

Message = dict[str, Any]

FOREVER = 10**9
"""Number of times that a motion starts over."""
HELD = 2300
"""three.js's name for keys that hold until the next one."""

LEVELS = 65535
"""Steps that the longest side of a mesh is divided into."""
DIGITS = 6
"""Digits after the point of numbers that are no meshes: micrometres, microseconds."""


def safe(name: str) -> str:
    """``name`` as one step of a path."""
    return name.replace("/", "_") or "_"


def set_property(path: str, name: str, value: Any) -> Message:
    """A property of what is at ``path``."""
    return {"type": "set_property", "path": path, "property": name, "value": value}


def set_transform(path: str, translation: Array, rotation: Array | None = None) -> Message:
    """Place what is at ``path`` in its parent: ``p -> rotation p + translation`` [m]."""
    matrix = np.eye(4)
    matrix[:3, 3] = translation
    if rotation is not None:
        matrix[:3, :3] = rotation
    return {"type": "set_transform", "path": path, "matrix": matrix.T.ravel().tolist()}


def set_object(path: str, mesh: Mesh, color: Color | None = None) -> Message:
    """A mesh at ``path``, in ``color`` or its own, translucent if that is."""
    shape, material = f"{path} shape", f"{path} material"
    red, green, blue, opacity = mesh.color if color is None else color
    paint = sum(round(255 * min(max(c, 0.0), 1.0)) << bits for c, bits in ((red, 16), (green, 8), (blue, 0)))
    data = {
        "attributes": {"position": _array("Float32Array", mesh.vertices)},
        "index": _array("Uint32Array", mesh.triangles),
    }
    return {
        "type": "set_object",
        "path": path,
        "object": {
            "metadata": {"version": 4.5, "type": "Object"},
            "geometries": [{"uuid": shape, "type": "BufferGeometry", "data": data}],
            "materials": [
                {
                    "uuid": material, "type": "MeshPhongMaterial", "color": paint,
                    "specular": 0x1C1C1C, "shininess": 30, "side": 2, "opacity": opacity,
                    "transparent": opacity < 1.0, "depthWrite": opacity >= 1.0,
                    # a ghost yields to what it coincides with
                    "polygonOffset": opacity < 1.0, "polygonOffsetFactor": 1.0, "polygonOffsetUnits": 8.0,
                }
            ],
            "object": {
                "uuid": path, "type": "Mesh", "geometry": shape, "material": material,
                "matrix": np.eye(4).ravel().tolist(),
            },
        },
    }  # fmt: skip


def _array(kind: str, rows: NDArray[Any]) -> Message:
    """An attribute of a shape; `pack` writes its numbers, once for all objects that have them."""
    return {"itemSize": 3, "type": kind, "array": rows, "normalized": False}


def track(name: str, kind: str, times: Sequence[float], values: NDArray[Any], held: bool = False) -> Message:
    """One property over time [s], linear between its keys, or constant from key to key if ``held``.

    kind: "vector3", "quaternion" or "bool". A held track keeps only the keys that change it, and the last one.
    """
    rows = values.tolist()
    used = [k for k in range(len(rows)) if not held or k in (0, len(rows) - 1) or rows[k] != rows[k - 1]]
    message = {"name": name, "type": kind, "keys": [{"time": times[k], "value": rows[k]} for k in used]}
    return message | {"interpolation": HELD} if held else message


def clip(path: str, tracks: Sequence[Message]) -> Message:
    """Motion of the object at ``path``."""
    return {"path": path, "clip": {"fps": 1.0, "name": "motion", "tracks": list(tracks)}}


def set_animation(clips: Sequence[Message]) -> Message:
    """All that moves, over and over; every clip has to end at the same time."""
    options = {"play": True, "repetitions": FOREVER}
    return {"type": "set_animation", "path": "", "animations": list(clips), "options": options}


def pack(header: Message, messages: list[Message]) -> str:
    """Text (base64) of a compressed block that holds ``header``, a record of its own, and the messages."""
    arrays: dict[int, tuple[Message, bytes]] = {}

    def plain(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            if id(value) not in arrays:
                arrays[id(value)] = _encoded(value)
            return {"array": list(arrays).index(id(value))}
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        if isinstance(value, list):
            return [plain(item) for item in value]
        return round(value, DIGITS) if isinstance(value, float) else value

    known = plain(header) | {"messages": plain(messages), "arrays": [about for about, _ in arrays.values()]}
    text = json.dumps(known, separators=(",", ":"), allow_nan=False).encode()
    block = len(text).to_bytes(4, "little") + text + b"".join(body for _, body in arrays.values())
    return base64.b64encode(gzip.compress(block, 6, mtime=0)).decode()


def _encoded(rows: NDArray[Any]) -> tuple[Message, bytes]:
    """Describe how an array (count, 3) of vertices (floats) or triangles (integers) is written, and give its bytes."""
    if rows.dtype.kind == "i":
        moves = np.diff(rows.ravel(), prepend=0)
        zigzag = ((moves << 1) ^ (moves >> 63)).astype("<u4")
        return {"kind": "triangles", "count": len(rows)}, _planes(zigzag)
    low = rows.min(axis=0)
    step = max(float(np.ptp(rows, axis=0).max()), 1e-12) / LEVELS
    counted = np.rint((rows - low) / step).astype(np.int64)
    moves = np.diff(counted, axis=0, prepend=0).astype("<u2")
    body = b"".join(_planes(column) for column in moves.T)
    return {"kind": "vertices", "count": len(rows), "low": low.tolist(), "step": step}, body


def _planes(words: NDArray[Any]) -> bytes:
    """All lowest bytes of some words, then all second ones, and so on."""
    return np.ascontiguousarray(words).view(np.uint8).reshape(len(words), -1).T.tobytes()
