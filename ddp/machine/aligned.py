"""Memory that begins where a register does."""

from __future__ import annotations

import math

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
