"""Memory of arrays that nobody holds any more, for the next ones: fresh pages cost more than arithmetic."""

from __future__ import annotations

import math
import threading
import weakref

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

KEPT, LARGEST = 16, 2**25
"""Limits of what a thread keeps: arrays, and numbers in all of them."""

_ALIGNMENT = 64
_local = threading.local()


def recycled_rows(count: int, *shapes: tuple[int, ...]) -> list[Array]:
    """Arrays (count, ...) as `recycled`, from memory for a power of two of rows, which fits others of about as many."""
    room, sizes = 1 << (count - 1).bit_length(), [math.prod(shape) for shape in shapes]
    parts = np.split(recycled((room * sum(sizes),)), np.cumsum([room * size for size in sizes])[:-1])
    return [
        part[: count * size].reshape(count, *shape) for part, size, shape in zip(parts, sizes, shapes, strict=True)
    ]


def recycled(shape: tuple[int, ...]) -> Array:
    """An array, not initialised, aligned to cache lines. No other array, view or buffer shares its memory.

    Memory is handed out as an array that this module holds by a weak reference alone. Views and buffers hold that
    array, so the memory is free when the reference is dead; no reference is counted.
    """
    size = math.prod(shape)
    if not size:
        return np.empty(shape)
    try:
        kept: list[tuple[int, weakref.ref[Array], memoryview]] = _local.kept
    except AttributeError:
        kept = _local.kept = []
    for place, (known, holder, memory) in enumerate(kept):
        if known == size and holder() is None:
            whole = np.frombuffer(memory)
            kept[place] = size, weakref.ref(whole), memory
            return whole.reshape(shape)
    raw = np.empty(size + _ALIGNMENT // 8)
    start = -(raw.ctypes.data // 8) % (_ALIGNMENT // 8)
    memory = raw[start : start + size].data  # arrays of a buffer are not known as parts of `raw`
    whole = np.frombuffer(memory)
    kept.append((size, weakref.ref(whole), memory))
    while len(kept) > KEPT or sum(known for known, _, _ in kept) > LARGEST:
        del kept[0]
    return whole.reshape(shape)
