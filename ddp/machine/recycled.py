"""Memory of arrays that nobody holds any more, for the next ones: fresh pages cost more than arithmetic."""

import math
import threading
import weakref
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

KEPT, LARGEST, HUGE, LOOSE = 16, 2**25, 2**22, 4
"""Limits of what a thread keeps: arrays, and numbers in all of them, of those below `HUGE` numbers and of the others,
which are held for longer; and how many times as large as asked one may be."""

_ALIGNMENT = 64
_local = threading.local()


def recycled_rows(count: int, *shapes: tuple[int, ...]) -> list[Array]:
    """Arrays (count, ...) as `recycled`, in memory of a power of two of numbers, which fits others of about as many."""
    sizes = [count * math.prod(shape) for shape in shapes]
    whole, ends = recycled((1 << sum(sizes).bit_length(),)), accumulate(sizes)
    parts = zip(ends, sizes, shapes, strict=True)
    return [whole[end - size : end].reshape(count, *shape) for end, size, shape in parts]


def recycled(shape: tuple[int, ...]) -> Array:
    """An array, not initialised, aligned to cache lines. No other array, view or buffer shares its memory.

    Memory is handed out as an array that this module holds by a weak reference alone. Views and buffers hold that
    array, so the memory is free when the reference is dead; no reference is counted.
    """
    size = math.prod(shape)
    if not size:
        return np.empty(shape)
    try:
        kept: list[tuple[int, weakref.ref[Array], memoryview]] = _local.kept[size >= HUGE]
    except AttributeError:
        _local.kept = [], []
        kept = _local.kept[size >= HUGE]
    free = [(n, i) for i, (n, holder, _) in enumerate(kept) if size <= n <= LOOSE * size and holder() is None]
    if free:
        known, _, memory = kept.pop(min(free)[1])
    else:
        raw = np.empty(size + _ALIGNMENT // 8)
        start = -(raw.ctypes.data // 8) % (_ALIGNMENT // 8)
        known, memory = size, raw[start : start + size].data  # arrays of a buffer are not known as parts of `raw`
    whole = np.frombuffer(memory, count=size)
    kept.append((known, weakref.ref(whole), memory))  # what has not been used for longest goes first
    while len(kept) > KEPT or sum(n for n, _, _ in kept) > LARGEST:
        del kept[0]
    return whole.reshape(shape)
