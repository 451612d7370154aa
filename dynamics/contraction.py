"""The contraction of a robot's second order as a C function, for the compiled backward sweep."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import carray

from ddp.kernel import call_contraction, callback, integer_pointer, kernel, pointer
from dynamics.curvature import contract, second_scratch
from dynamics.kinematics import workspace
from dynamics.model import Model
from dynamics.runge_kutta_curvature import adjoint_scratch, contract_explicit
from dynamics.runge_kutta_linearization import stage_sizes


class Packed:
    """A tree, its step h, number of controls and stages behind one address; alive as long as this object is."""

    def __init__(self, tree: Model, nq: int, nu: int, h: float, stages: int = 0) -> None:
        lists = (tree.parent, tree.kind, tree.iq, tree.iv, tree.nj, tree.body, tree.previous)
        self.integers = np.concatenate([*lists, tree.segment.ravel(), tree.relatives])
        blocks = (tree.placement, tree.inertia, tree.subspace, tree.armature, tree.damping, tree.gravity, [h])
        self.reals = np.concatenate([np.ravel(block) for block in blocks])
        where = [self.integers.ctypes.data, self.reals.ctypes.data]
        sizes = [len(tree.parent), len(tree.body), nq, nu, len(tree.segment), len(tree.relatives), *where, stages]
        self.header = np.array(sizes, dtype=np.int64)

    @property
    def address(self) -> int:
        """Where the header stands."""
        return int(self.header.ctypes.data)


@kernel
def unpack(nb, nv, ns, n, x):
    """The tree that ``Packed`` flattened into integers n and reals x."""
    d, e, s = 5 * nb, 5 * nb + 2 * nv, 22 * nb
    a = s + 6 * nv
    return Model(
        parent=n[:nb], kind=n[nb : 2 * nb], iq=n[2 * nb : 3 * nb], iv=n[3 * nb : 4 * nb], nj=n[4 * nb : d],
        placement=x[: 12 * nb].reshape(nb, 12), subspace=x[s:a].reshape(nv, 6),
        inertia=x[12 * nb : s].reshape(nb, 10), armature=x[a : a + nv], gravity=x[a + 2 * nv : a + 2 * nv + 6],
        damping=x[a + nv : a + 2 * nv], body=n[d : d + nv], previous=n[d + nv : e],
        segment=n[e : e + 4 * ns].reshape(ns, 4), relatives=n[e + 4 * ns :],
    )  # fmt: skip


@kernel
def contract_one(tree, nq, nu, h, record, weight, H):
    """``contract`` with scratch of its own."""
    no_fext = np.zeros((0, 6))
    contract(tree, nq, nu, h, record, weight, no_fext, workspace(tree, record), second_scratch(tree, nu), H)


@kernel
def contract_explicit_one(tree, nq, nu, h, stages, record, weight, H):
    """``contract_explicit`` with scratch of its own."""
    ws, c, d = workspace(tree, record), second_scratch(tree, nu), adjoint_scratch(tree, nu, stages)
    contract_explicit(tree, nq, nu, h, stages, record, weight, np.zeros((0, 6)), ws, c, d, H)


@kernel
def read_header(context):
    """nq, nu, h, stages and the tree of a ``Packed``."""
    header = carray(integer_pointer(context), 9)
    nb, nv, ns = header[0], header[1], header[4]
    integers = carray(integer_pointer(header[6]), 5 * nb + 2 * nv + 4 * ns + header[5])
    reals = carray(pointer(header[7]), 22 * nb + 8 * nv + 7)
    return header[2], header[3], reals[22 * nb + 8 * nv + 6], header[8], unpack(nb, nv, ns, integers, reals)


def contract_at(context, record, weight, hessian):  # type: ignore[no-untyped-def]
    """The C function: addresses of a ``Packed`` header, a record, a weight (n,) and the Hessian (nz, nz) to write."""
    nq, nu, h, _, tree = read_header(context)
    nv = tree.body.size
    n, nz = 2 * nv, 2 * nv + nu
    stored = carray(pointer(record), nq + 2 * nv + nv * nv + nv * nz)
    H = carray(pointer(hessian), (nz, nz))
    contract_one(tree, nq, nu, h, stored, carray(pointer(weight), n), H)


def contract_explicit_at(context, record, weight, hessian):  # type: ignore[no-untyped-def]
    """The same for the explicit steps of runge_kutta.py."""
    nq, nu, h, stages, tree = read_header(context)
    nv = tree.body.size
    n, nz = 2 * nv, 2 * nv + nu
    stored = carray(pointer(record), stages * stage_sizes(nq, nv, nu)[1])
    H = carray(pointer(hessian), (nz, nz))
    contract_explicit_one(tree, nq, nu, h, stages, stored, carray(pointer(weight), n), H)


@kernel
def contract_knots(address, context, record, weight, out):
    """Call a contraction for each of M knots: record (M, .), weight (M, n), out (M, nz, nz)."""
    for t in range(record.shape[0]):
        row, w, H = np.int64(record[t].ctypes.data), np.int64(weight[t].ctypes.data), np.int64(out[t].ctypes.data)
        call_contraction(address, context, row, w, H)


@cache
def contraction_callback(explicit: bool = False) -> Any:
    """``contract_at`` or ``contract_explicit_at``, compiled on first use."""
    return callback(contract_explicit_at if explicit else contract_at)
