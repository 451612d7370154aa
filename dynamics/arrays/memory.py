"""Memory of results that nobody holds any more, for the next ones: fresh pages cost more than arithmetic."""

from __future__ import annotations

import math
import sys
import threading

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

KEPT = 4
"""How many results' memory a thread keeps."""

LARGEST = 64 * 2**20
"""Larger ones [bytes] are not kept."""

_UNUSED = 4
"""References to memory that nothing but its list, the view in it, a loop and ``getrefcount`` knows."""

_ALIGNMENT = 64
_local = threading.local()


def recycled(shape: tuple[int, ...]) -> Array:
    """An array, not initialised, aligned to cache lines. No other array, view or buffer shares its memory."""
    try:
        kept: list[tuple[tuple[int, ...], Array, Array]] = _local.kept
    except AttributeError:
        kept = _local.kept = []
    for known, whole, raw in kept:
        if known == shape and sys.getrefcount(raw) == _UNUSED:
            return whole.view()
    size = math.prod(shape)
    raw = np.empty(size + _ALIGNMENT // 8)
    start = -(raw.ctypes.data // 8) % (_ALIGNMENT // 8)
    whole = raw[start : start + size].reshape(shape)
    if raw.nbytes <= LARGEST:
        kept.append((shape, whole, raw))
        del kept[:-KEPT]
    return whole.view()
