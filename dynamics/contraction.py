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
        self.integers = np.concatenate([tree.parent, tree.kind, tree.iq, tree.iv, tree.nj, tree.body, tree.previous])
        blocks = (tree.placement, tree.inertia, tree.subspace, tree.armature, tree.damping, tree.gravity, [h])
        self.reals = np.concatenate([np.ravel(block) for block in blocks])
        sizes = [len(tree.parent), len(tree.body), nq, nu, self.integers.ctypes.data, self.reals.ctypes.data]
        self.header = np.array(sizes, dtype=np.int64)

    @property
    def address(self) -> int:
        """Where the header stands."""
        return int(self.header.ctypes.data)


@kernel
def unpack(nb, nv, n, x):
    """The tree that ``Packed`` flattened into integers n and reals x."""
    d, s = 5 * nb, 22 * nb
    a = s + 6 * nv
    return Model(
        parent=n[:nb], kind=n[nb : 2 * nb], iq=n[2 * nb : 3 * nb], iv=n[3 * nb : 4 * nb], nj=n[4 * nb : d],
        placement=x[: 12 * nb].reshape(nb, 12), subspace=x[s:a].reshape(nv, 6),
        inertia=x[12 * nb : s].reshape(nb, 10), armature=x[a : a + nv], gravity=x[a + 2 * nv : a + 2 * nv + 6],
        damping=x[a + nv : a + 2 * nv], body=n[d : d + nv], previous=n[d + nv : d + 2 * nv],
    )  # fmt: skip


@kernel
def contract_one(tree, nq, nu, h, record, weight, H):
    """``contract`` with scratch of its own."""
    no_fext = np.zeros((0, 6))
    contract(tree, nq, nu, h, record, weight, no_fext, workspace(tree, record), second_scratch(tree, nu), H)


def contract_at(context, record, weight, hessian):  # type: ignore[no-untyped-def]
    """The C function: addresses of a ``Packed`` header, a record, a weight (n,) and the Hessian (nz, nz) to write."""
    header = carray(integer_pointer(context), 6)
    nb, nv, nq, nu = header[0], header[1], header[2], header[3]
    n, nz = 2 * nv, 2 * nv + nu
    integers = carray(integer_pointer(header[4]), 5 * nb + 2 * nv)
    reals = carray(pointer(header[5]), 22 * nb + 8 * nv + 7)
    tree = unpack(nb, nv, integers, reals)
    stored = carray(pointer(record), nq + 2 * nv + nv * nv + nv * nz)
    H = carray(pointer(hessian), (nz, nz))
    contract_one(tree, nq, nu, reals[22 * nb + 8 * nv + 6], stored, carray(pointer(weight), n), H)


@cache
def contraction_callback() -> Any:
    """``contract_at``, compiled on first use."""
    return callback(contract_at)
