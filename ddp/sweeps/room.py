# mypy: allow-untyped-defs, allow-untyped-calls
"""Working memory of the backward sweep: one knot's matrices in one piece, padded as tiles.py wants them."""

from functools import cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numba import int64

from ddp.compiling.kernel import kernel
from ddp.machine.aligned import aligned_zeros
from ddp.machine.memory import rows_at
from ddp.machine.tiles import WIDTH, padded
from ddp.protocols import Array

ROWS = 3
"""Rows of gradients: the value's, the costate, and the cost's gradient under the policy's gains alone."""


class Room(NamedTuple):
    """Sizes and addresses: n, nu, and ld, lx, padded nz and n.   halved: whether steps are semi-implicit, 0 or 1.

    runs: how many runs of bent rows there are, see riccati.py.

    Z (n, ld) between H (n, ld) and G (n + rows, ld), of which semi-implicit steps have fewer rows, so that H ends above
    Z and G begins below; Q (nz, ld), V (n, lx), v (rows, lx) after its rows, q (rows, ld), N (nu, ld), K (nu, lx),
    U (6, 6), inverse, size, y (nu,), and P, M (n + rows, lx) of semi-implicit steps: see riccati.py.
    more: rows of gradients beside those of the cost, in which costs have no part.   zeros (ld,).
    """

    n: int
    nu: int
    ld: int
    lx: int
    halved: int
    runs: int
    more: int
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


SIZES = Room._fields.index("Z")
"""Number of these that are sizes."""

_sizes, _addresses = rows_at(int64, SIZES, True), rows_at(int64, len(Room._fields) - SIZES, True)


def sizes_of(n: int, nu: int, halved: bool, runs: int, more: int = 0) -> tuple[int, ...]:
    """The sizes of a ``Room``."""
    return n, nu, padded(n + nu), padded(n), int(halved), runs, more


@cache
def places_of(sizes: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """Places of what a ``Room`` of some sizes has in one piece of memory, and how long that is, in numbers."""
    n, nu, ld, lx, _, _, more = sizes
    rows = ROWS + more
    extended = (n + rows) * lx
    lengths = (
        n * ld, (2 * n + rows) * ld, (n + nu) * ld, max(lx * lx, extended), extended, extended, nu * ld, nu * lx,
        36, nu, nu, nu, rows * ld, ld,
    )  # fmt: skip
    spaced = [padded(length) + WIDTH for length in lengths]  # registers may reach beyond the last row
    spaced[0] = lengths[0]
    _, Z, Q, V, *others, end = accumulate(spaced, initial=0)
    return (Z, Q, V, V + n * lx, *others), end


class RoomOwner:
    """A ``Room`` behind one address, alive as long as this object is; V (n, n), v (rows, n): views."""

    def __init__(self, n: int, nu: int, halved: bool, runs: int, more: int = 0) -> None:
        sizes = sizes_of(n, nu, halved, runs, more)
        places, length = places_of(sizes)
        self._memory: Array = aligned_zeros((length,))
        begin, lx = self._memory.ctypes.data, padded(n)
        self.V = self._memory[places[2] :][: n * lx].reshape(n, lx)[:, :n]
        self.v = self._memory[places[3] :][: (ROWS + more) * lx].reshape(-1, lx)[:, :n]
        self._words = np.array([*sizes, *(begin + 8 * place for place in places)], dtype=np.int64)
        self.address = int(self._words.ctypes.data)


@kernel
def sizes_at(address):
    """The sizes of the ``Room`` at an address."""
    return _sizes(address)[0]


@kernel
def read_room(address):
    """The ``Room`` at an address."""
    return Room(*(sizes_at(address) + _addresses(address + 8 * SIZES)[0]))
