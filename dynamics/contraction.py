"""The contraction of a robot's second order as a C function, for the compiled backward sweep."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import carray

from ddp.kernel import callback, integer_pointer, kernel, pointer
from dynamics.curvature import contract, second_scratch
from dynamics.kinematics import workspace
from dynamics.model import Model


class Packed:
    """A tree, its step h and its number of controls behind one address; alive as long as this object is."""

    def __init__(self, tree: Model, nq: int, nu: int, h: float) -> None:
        lists = (tree.parent, tree.kind, tree.iq, tree.iv, tree.nj, tree.body, tree.previous)
        self.integers = np.concatenate([*lists, tree.segment.ravel(), tree.relatives])
        blocks = (tree.placement, tree.axis, tree.inertia, tree.armature, tree.gravity, [h])
        self.reals = np.concatenate([np.ravel(block) for block in blocks])
        where = [self.integers.ctypes.data, self.reals.ctypes.data]
        sizes = [len(tree.parent), len(tree.body), nq, nu, len(tree.segment), len(tree.relatives), *where]
        self.header = np.array(sizes, dtype=np.int64)

    @property
    def address(self) -> int:
        """Where the header stands."""
        return int(self.header.ctypes.data)


@kernel
def unpack(nb, nv, ns, n, x):
    """The tree that ``Packed`` flattened into integers n and reals x."""
    d, e = 5 * nb, 5 * nb + 2 * nv
    return Model(
        n[:nb], n[nb : 2 * nb], n[2 * nb : 3 * nb], n[3 * nb : 4 * nb], n[4 * nb : d],
        x[: 12 * nb].reshape(nb, 12), x[12 * nb : 15 * nb].reshape(nb, 3), x[15 * nb : 25 * nb].reshape(nb, 10),
        x[25 * nb : 25 * nb + nv], x[25 * nb + nv : 25 * nb + nv + 6], n[d : d + nv], n[d + nv : e],
        n[e : e + 4 * ns].reshape(ns, 4), n[e + 4 * ns :],
    )  # fmt: skip


@kernel
def contract_one(tree, nq, nu, h, record, weight, H):
    """``contract`` with scratch of its own."""
    no_fext = np.zeros((0, 6))
    contract(tree, nq, nu, h, record, weight, no_fext, workspace(tree, record), second_scratch(tree, nu), H)


def contract_at(context, record, weight, hessian):  # type: ignore[no-untyped-def]
    """The C function: addresses of a ``Packed`` header, a record, a weight (n,) and the Hessian (nz, nz) to write."""
    header = carray(integer_pointer(context), 8)
    nb, nv, nq, nu, ns = header[0], header[1], header[2], header[3], header[4]
    n, nz = 2 * nv, 2 * nv + nu
    integers = carray(integer_pointer(header[6]), 5 * nb + 2 * nv + 4 * ns + header[5])
    reals = carray(pointer(header[7]), 25 * nb + nv + 7)
    tree = unpack(nb, nv, ns, integers, reals)
    stored = carray(pointer(record), nq + 2 * nv + nv * nv + nv * nz)
    H = carray(pointer(hessian), (nz, nz))
    contract_one(tree, nq, nu, reals[25 * nb + nv + 6], stored, carray(pointer(weight), n), H)


@cache
def contraction_callback() -> Any:
    """``contract_at``, compiled on first use."""
    return callback(contract_at)
