# mypy: allow-untyped-defs, allow-untyped-calls
"""What the compiled sweep is told: sizes and addresses, and one knot's costs from there."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import carray
from numpy.typing import NDArray

from ddp.compiling.kernel import integer_pointer, kernel
from ddp.derivatives import Derivatives
from ddp.matrices.rows import clear_rows
from ddp.protocols import Array, Contraction, Dynamics
from ddp.sweeps.riccati import add_hessian, load_hessian
from ddp.sweeps.room import read_room


class Model(NamedTuple):
    """N, n, nu, and addresses: of `Derivatives`, of contracted second orders T, of a policy, of C functions.

    stride: from one record to the next, in bytes.  step: the same of T; 0 where one place serves all knots.
    blocks: whether T are those of `protocols.Blockwise`.  bent (g, 2), of number runs: where their nn has entries.
    k (N, nu), K (N, nu, n).  bends (., 2, n, n): what `protocols.Dynamics.closing` says of gaps.  turn: as step.
    """

    N: int
    n: int
    nu: int
    A: int
    B: int
    lz: int
    lzz: int
    exact: int
    diagonal: int
    record: int
    stride: int
    T: int
    step: int
    k: int
    K: int
    bends: int
    turn: int
    contraction: int
    context: int
    closing: int
    closing_context: int
    bent: int
    number: int
    blocks: int
    knot: int


class ModelOwner:
    """A ``Model`` behind one address, and what it points to, alive as long as this object is."""

    def __init__(
        self, d: Derivatives, second: Array, k: Array, K: Array, bends: Array, closing: Contraction,
        bent: NDArray[np.int64], knot: int,
    ) -> None:  # fmt: skip
        self._alive = d, k, K, bends, closing, bent
        arrays = d.A, d.B, d.lz, d.lzz, d.exact, d.diagonal, d.record, second, k, K, bends
        at = [array.ctypes.data for array in arrays]
        step, turn = (array.strides[0] if len(array) == len(k) else 0 for array in (second, bends))
        numbers = [
            *d.B.shape, *at[:7], d.record.strides[0], at[7], step, *at[8:], turn, 0, 0, *closing[:2],
            bent.ctypes.data, len(bent), 0, knot,
        ]  # fmt: skip
        self._header = np.array(numbers, dtype=np.int64)
        self.address = int(self._header.ctypes.data)
        self._taken = second

    def contract_by(self, dynamics: Dynamics) -> None:
        """Take the C function of these dynamics' second order, which is not compiled before it is wanted."""
        if not self._header[17]:
            self._contraction = dynamics.contraction()
            self._header[17:19] = self._contraction[:2]

    def take(self, second: Array, blocks: bool) -> None:
        """Contracted second orders T, one for each knot or one place for all, as Hessians or as blocks."""
        if second is not self._taken:
            self._taken = second
            step = second.strides[0] if len(second) > 1 else 0
            self._header[11], self._header[12], self._header[23] = second.ctypes.data, step, blocks


@kernel
def read_model(address):
    """The ``Model`` at an address."""
    x = carray(integer_pointer(address), 25)
    return Model(
        x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], x[8], x[9], x[10], x[11], x[12], x[13], x[14], x[15], x[16],
        x[17], x[18], x[19], x[20], x[21], x[22], x[23], x[24],
    )  # fmt: skip


@kernel
def load_costs(model, room, t, blend):
    """Q := l_zz + blend (exact - l_zz) of knot t."""
    p, r = read_model(model), read_room(room)
    place = 8 * t * (p.n + p.nu) * (p.n + p.nu)
    if blend == 0.0:
        load_hessian(room, p.lzz + place)
    elif blend == 1.0:
        load_hessian(room, p.exact + place)
    else:
        clear_rows(r.Q, r.ld, r.n + r.nu, r.ld)
        add_hessian(room, 1.0 - blend, p.lzz + place)
        add_hessian(room, blend, p.exact + place)
