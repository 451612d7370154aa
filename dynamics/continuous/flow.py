# mypy: allow-untyped-defs, allow-untyped-calls
"""A and B of motion in continuous time, eight samples at a time: see linearize.py for what they are."""

from __future__ import annotations

import numpy as np

from ddp.compiling.kernel import kernel
from ddp.machine.fields import Fields, matrix_of
from ddp.machine.memory import hold, rows_of
from ddp.machine.number import width
from ddp.machine.packing import unpack_columns
from dynamics.geometry.joint_motion import is_group, joint_bracket, twist_of
from dynamics.rigid_bodies import batch
from dynamics.rigid_bodies.kinematics import clear
from dynamics.rigid_bodies.passive import drive
from dynamics.robots.tree import Tree


class Controlled(Fields):
    """a_u."""

    au = matrix_of("nv", "nu")


def size(tree: Tree, nu: int) -> int:
    """Numbers of memory that ``linearize`` takes."""
    return batch.size(tree.nb, tree.nq, tree.nv) + Controlled.size(tree, nu=nu)


@kernel
def linearize(address, memory, pulls, Q, V, tau, fext, A, B):
    """Lower halves of A (N, n, n), B (N, n, nu) of every sample; the first whose mass matrix is not positive, or -1.

    pulls (., 4): ``entries_of`` S.
    """
    nu = B.shape[2]
    pulls, Q, V, tau, fext, A, B = (
        rows_of(pulls), rows_of(Q), rows_of(V), rows_of(tau), rows_of(fext), rows_of(A), rows_of(B),
    )  # fmt: skip
    tree, ws, x, r = batch.relating(address, memory, fext)
    nv, n = tree.nv, 2 * tree.nv
    c = Controlled(r.end, tree, nu)
    for t in range(0, len(Q), width(ws.end)):
        batch.take(x, tree, Q, V, tau, fext, t)
        batch.relate(tree, x.q, x.first, x.second, x.fext, ws, r)
        drive(pulls, nv, nu, r.Minv, c.au)
        for i in range(nv):
            unpack_columns(r.aq[i], nv, A, t, (nv + i) * n)
            unpack_columns(r.av[i], nv, A, t, (nv + i) * n + nv)
            unpack_columns(c.au[i], nu, B, t, (nv + i) * nu)
        failed = batch.first_failure(tree, r.D, r.a, t, len(Q))
        if failed >= 0:
            return failed
    return -1


@kernel
def move(address, V, A, B):
    """Upper halves, [-ad_v | 1] of A (N, n, n) and zeros of B (N, n, nu), joint by joint: Δ' = δv - v × Δ."""
    made, V, A, B, nu = np.empty((6, 6)), rows_of(V), rows_of(A), rows_of(B), B.shape[2]
    bracket, tree = rows_of(made), Tree(address)
    nv, n = tree.nv, 2 * tree.nv
    for t in range(len(V)):
        clear(A[t], nv * n)
        clear(B[t], nv * nu)
        for i in range(nv):
            A[t, i * n + nv + i] = 1.0
        for b in range(tree.nb):
            kind, nj, iv = tree.kind[b], tree.nj[b], tree.iv[b]
            if is_group(kind):
                joint_bracket(kind, nj, twist_of(kind, V[t], iv, 1.0), bracket)
                for i in range(nj):
                    for j in range(nj):
                        A[t, (iv + i) * n + iv + j] = -bracket[i, j]
    hold(made)
