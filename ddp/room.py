"""Where the backward sweep works: one knot's matrices in one piece of memory, padded as tiles.py wants them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import carray

from ddp.kernel import integer_pointer, kernel, pointer
from ddp.protocols import Array
from ddp.tiles import WIDTH, padded

ROWS = 3
"""Rows of gradients: the value's, the costate, and the cost's gradient under the policy's gains alone."""


class Room(NamedTuple):
    """Sizes and addresses: n, nu, and ld, lx, padded nz and n.

    F (n, ld), Q (nz, ld), W = V (lx, lx), G (n or nu, ld), N (nu, ld), K (nu, lx), U (6, 6), inverse, size, y (nu,):
    see riccati.py; of semi-implicit steps C, H (n, lx) and R (n, ld), some of its rows.
    v, w (3, lx), q (3, ld): gradients of the value, the next value, the action value.
    box (4, nu), L (nu, nu): see box.py.
    """

    n: int
    nu: int
    ld: int
    lx: int
    F: int
    Q: int
    W: int
    G: int
    C: int
    H: int
    R: int
    N: int
    K: int
    U: int
    inverse: int
    size: int
    y: int
    v: int
    w: int
    q: int
    box: int
    L: int


class RoomOwner:
    """A ``Room`` behind one address, alive as long as this object is."""

    def __init__(self, n: int, nu: int) -> None:
        nz = n + nu
        ld, lx = padded(nz), padded(n)
        sizes = (
            n * ld, nz * ld, lx * lx, max(n, nu) * ld, n * lx, max(n, ROWS) * lx, n * ld, nu * ld, nu * lx, 36,
            nu, nu, nu, ROWS * lx, ROWS * lx, ROWS * ld, 4 * nu, nu * nu,
        )  # fmt: skip
        spaced = [padded(size) + WIDTH for size in sizes]  # registers may reach beyond the last row
        self._memory: Array = np.zeros(sum(spaced) + WIDTH)
        begin = self._memory.ctypes.data + -self._memory.ctypes.data % (8 * WIDTH)
        addresses = begin + 8 * np.cumsum([0, *spaced[:-1]])
        self._header = np.array([n, nu, ld, lx, *addresses], dtype=np.int64)
        self.address = int(self._header.ctypes.data)


@kernel
def read_room(address):
    """The ``Room`` at an address."""
    x = carray(integer_pointer(address), 22)
    return Room(
        x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], x[8], x[9], x[10], x[11], x[12], x[13], x[14], x[15], x[16],
        x[17], x[18], x[19], x[20], x[21],
    )  # fmt: skip


@kernel
def rows_at(address, rows, columns):
    """The matrix at an address."""
    return carray(pointer(address), (rows, columns))


@kernel
def numbers_at(address, size):
    """The vector at an address."""
    return carray(pointer(address), size)
