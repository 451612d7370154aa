"""Messages of a scene as one compressed block that its page unpacks: JSON, then numbers of meshes, each mesh once.

Vertices are counted in 65535ths of their mesh's longest side, a hundredth of a millimetre on a metre; both they and the
triangles are written as differences from one to the next, byte by byte, which is what compression makes small.
"""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from viz.messages import Message

LEVELS = 65535
"""Steps that the longest side of a mesh is divided into."""
DIGITS = 6
"""Digits after the point of numbers that are no meshes: micrometres, microseconds."""


def pack(header: Message, messages: list[Message]) -> str:
    """Text (base64) of a compressed block that holds ``header``, a record of its own, and the messages."""
    arrays: dict[int, tuple[Message, bytes]] = {}

    def plain(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            if id(value) not in arrays:
                arrays[id(value)] = _array(value)
            return {"array": list(arrays).index(id(value))}
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        if isinstance(value, list):
            return [plain(item) for item in value]
        return round(value, DIGITS) if isinstance(value, float) else value

    known = plain(header) | {"messages": plain(messages), "arrays": [about for about, _ in arrays.values()]}
    text = json.dumps(known, separators=(",", ":"), allow_nan=False).encode()
    block = len(text).to_bytes(4, "little") + text + b"".join(body for _, body in arrays.values())
    return base64.b64encode(gzip.compress(block, mtime=0)).decode()


def _array(rows: NDArray[Any]) -> tuple[Message, bytes]:
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
