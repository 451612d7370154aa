# mypy: allow-untyped-defs, allow-untyped-calls
"""Where the backward sweep works: one knot's matrices in one piece of memory, padded as tiles.py wants them."""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numba import carray

from ddp.compiling.kernel import integer_pointer, kernel, pointer
from ddp.matrices.tiles import WIDTH, padded
from ddp.protocols import Array

ROWS = 3
"""Rows of gradients: the value's, the costate, and the cost's gradient under the policy's gains alone."""


class Room(NamedTuple):
    """Sizes and addresses: n, nu, and ld, lx, padded nz and n.

    Z (n, ld) between H (n, ld) and G (n + 3, ld), of which semi-implicit steps have fewer rows, so that H ends above Z
    and G begins below; Q (nz, ld), V (n, lx), v (3, lx) after its rows, q (3, ld), N (nu, ld), K (nu, lx), U (6, 6) or
    (nu, nu), inverse, size, y (nu,), and P, M (n + 3, lx) of semi-implicit steps: see riccati.py, knot_code.py.
    zeros (ld,).  kept (nu, ld), box (4, nu), L (nu, nu): see box.py.
    """

    n: int
    nu: int
    ld: int
    lx: int
    Z: int
    Q: int
    V: int
    v: int
    P: int
    M: int
    N: int
    K: int
    U: int
    inverse: int
    size: int
    y: int
    q: int
    zeros: int
    kept: int
    box: int
    L: int


class RoomOwner:
    """A ``Room`` behind one address, alive as long as this object is."""

    def __init__(self, n: int, nu: int) -> None:
        nz = n + nu
        ld, lx = padded(nz), padded(n)
        extended = (n + ROWS) * lx
        sizes = (
            n * ld, (2 * n + ROWS) * ld, nz * ld, max(lx * lx, extended), extended, extended, nu * ld, nu * lx,
            max(36, nu * nu), nu, nu, nu, ROWS * ld, ld, nu * ld, 4 * nu, nu * nu,
        )  # fmt: skip
        spaced = [padded(size) + WIDTH for size in sizes]  # registers may reach beyond the last row
        spaced[0] = sizes[0]
        self._memory: Array = np.zeros(sum(spaced) + WIDTH)
        begin = self._memory.ctypes.data
        begin += -begin % (8 * WIDTH)
        _, Z, Q, V, *others = (begin + 8 * place for place in accumulate(spaced[:-1], initial=0))
        self._header = np.array([n, nu, ld, lx, Z, Q, V, V + 8 * n * lx, *others], dtype=np.int64)
        self.address = int(self._header.ctypes.data)


@kernel
def read_room(address):
    """The ``Room`` at an address."""
    x = carray(integer_pointer(address), 21)
    return Room(
        x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], x[8], x[9], x[10], x[11], x[12], x[13], x[14], x[15], x[16],
        x[17], x[18], x[19], x[20],
    )  # fmt: skip


@kernel
def rows_at(address, rows, columns):
    """The matrix at an address."""
    return carray(pointer(address), (rows, columns))


@kernel
def numbers_at(address, size):
    """The vector at an address."""
    return carray(pointer(address), size)
