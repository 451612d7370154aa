"""Memory that begins where a register does."""

import math
import threading
from ctypes import addressof, c_char

import numpy as np
from numpy.typing import NDArray

from ddp.machine.recycled import recycled

WIDTH = 8
"""Doubles in a register."""


MANY = 2**14
"""Numbers from which on an allocator commonly asks the system for fresh pages, 128 KiB."""


def aligned_zeros(shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Zeros whose registers do not lie across two cache lines, which would cost two writes each."""
    size = math.prod(shape)
    if size >= MANY:
        found = recycled(shape)
        found.fill(0.0)
        return found
    return _from_register(np.zeros(size + WIDTH)).reshape(shape)


def aligned_memory(size: int) -> NDArray[np.float64]:
    """Memory of ``size`` numbers that begins where a register does, not initialised."""
    return recycled((size,)) if size >= MANY else _from_register(np.empty(size + WIDTH))


def _from_register(memory: NDArray[np.float64]) -> NDArray[np.float64]:
    """All but eight numbers of some memory, from the first that begins a register."""
    begin = -(addressof(c_char.from_buffer(memory.data)) // 8) % WIDTH  # a third of the time that numpy takes
    return memory[begin : begin + len(memory) - WIDTH]


class _Kept(threading.local):
    """Memory that a thread keeps, as rows of registers and as floats."""

    lanes: NDArray[np.float64] = np.zeros((0, WIDTH))
    floats: NDArray[np.float64] = np.zeros(0)


_kept = _Kept()


def working_memory(size: int, width: int = WIDTH) -> NDArray[np.float64]:
    """Memory of the calling thread for ``size`` numbers of so many floats, (., 8) or (.,), as kernels take it.

    One memory a thread, kept between calls, since fresh pages cost more than arithmetic: every call that is given it
    starts anew. It is aligned to registers.
    """
    if len(_kept.lanes) < size:
        _kept.lanes = aligned_zeros((size, WIDTH))
        _kept.floats = _kept.lanes.reshape(-1)
    return _kept.lanes if width == WIDTH else _kept.floats
