"""Memory that begins where a register does."""

from __future__ import annotations

import math
import threading

import numpy as np
from numpy.typing import NDArray

WIDTH = 8
"""Doubles in a register."""


def aligned_zeros(shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Zeros whose registers do not lie across two cache lines, which would cost two writes each."""
    size = math.prod(shape)
    memory = np.zeros(size + WIDTH)
    begin = -(memory.ctypes.data // 8) % WIDTH
    return memory[begin : begin + size].reshape(shape)


_local = threading.local()


def working_memory(size: int, width: int = WIDTH) -> NDArray[np.float64]:
    """Memory of the calling thread for ``size`` numbers of so many floats, (., 8) or (.,), as kernels take it.

    One memory a thread, kept between calls, since fresh pages cost more than arithmetic: every call that is given it
    starts anew. It is aligned to registers.
    """
    kept = getattr(_local, "kept", None)
    if kept is None or len(kept[0]) < size:
        lanes = aligned_zeros((size, WIDTH))
        kept = _local.kept = lanes, lanes.reshape(-1)
    return kept[0] if width == WIDTH else kept[1]
