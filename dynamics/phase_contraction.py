"""The contraction of a hybrid system's second order as a C function, for the compiled backward sweep."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import carray

from ddp.kernel import callback, integer_pointer, kernel, pointer
from dynamics.flattened import Packed
from dynamics.model import Model
from dynamics.modes import Modes
from dynamics.packed import read_numbers, read_tree
from dynamics.phase_curvature import contract


class PackedPhases:
    """A tree, its step h, number of controls and modes behind one address; alive as long as this object is."""

    def __init__(self, tree: Model, nq: int, nu: int, h: float, modes: Modes, size: int) -> None:
        self.system, self.modes = Packed(tree, nq, nu, h), modes
        where = [array.ctypes.data for array in modes]
        sizes = [len(modes.table), len(modes.integers), len(modes.reals)]
        self.header = np.array([self.system.address, size, *sizes, *where], dtype=np.int64)

    @property
    def address(self) -> int:
        """Where the header stands."""
        return int(self.header.ctypes.data)


@kernel
def read_modes(context):
    """The modes of a ``PackedPhases``, the address of its ``Packed``, floats in a record."""
    header = carray(integer_pointer(context), 8)
    table = carray(integer_pointer(header[5]), (header[2], 5))
    integers, reals = carray(integer_pointer(header[6]), header[3]), carray(pointer(header[7]), header[4])
    return Modes(table, integers, reals), header[0], header[1]


def contract_at(context, record, weight, hessian):  # type: ignore[no-untyped-def]
    """The C function: addresses of a ``PackedPhases`` header, a record, a weight (n,), the Hessian to write."""
    modes, system, size = read_modes(context)
    nq, nu, h, _, _ = read_numbers(system)
    tree = read_tree(system)
    n = 2 * tree.body.size
    H = carray(pointer(hessian), (n + nu, n + nu))
    contract(tree, modes, nq, nu, h, carray(pointer(record), size), carray(pointer(weight), n), H)


@cache
def phase_contraction_callback() -> Any:
    """``contract_at``, compiled on first use."""
    return callback(contract_at)
