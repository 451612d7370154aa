# mypy: allow-untyped-defs, allow-untyped-calls
"""A and B of motion in continuous time, eight samples at a time: see linearize.py for what they are."""

from __future__ import annotations

import numpy as np

from ddp.compiling.kernel import kernel
from ddp.machine.memory import rows_of
from ddp.machine.number import WIDTH
from dynamics.arrays.lanes import flat, lane_matrix
from dynamics.arrays.packing import unpack_columns
from dynamics.geometry.joint_motion import is_group, joint_bracket, twist_of
from dynamics.rigid_bodies import lane_batch
from dynamics.rigid_bodies.batch import relate
from dynamics.rigid_bodies.kinematics import lane_workspace
from dynamics.rigid_bodies.passive import drive
from dynamics.robots.tree import Tree


def size(tree: Tree, nu: int) -> int:
    """How many lanes the arena must hold for ``linearize``."""
    return lane_batch.size(tree) + tree.nv * nu


@kernel
def linearize(context, arena, pulls, Q, V, tau, fext, A, B):
    """A (N, n, n), B (N, n, nu) of every sample; the first whose mass matrix is not positive definite, or -1.

    pulls (., 3): ``entries_of`` S.
    """
    tree = Tree(context)
    entries, nv, nu = rows_of(pulls), tree.nv, B.shape[2]
    n = 2 * nv
    ws, x = lane_workspace(tree, arena), lane_batch.take_arguments(arena, Q, V, fext)
    r, au = lane_batch.lane_relation(nv, arena), lane_matrix(arena, nv, nu)
    for t in range(0, Q.shape[0], WIDTH):
        lane_batch.pack_arguments(x, Q, V, tau, fext, t)
        relate(tree, x.q, x.first, x.second, x.fext, ws, r)
        drive(entries, nv, nu, r.Minv, au)
        end = min(t + WIDTH, Q.shape[0])
        move(tree, V[t:end], A[t:end], B[t:end])
        aq, av = flat(r.aq), flat(r.av)
        for i in range(nv):
            unpack_columns(aq[i * nv : (i + 1) * nv], A, t, (nv + i) * n)
            unpack_columns(av[i * nv : (i + 1) * nv], A, t, (nv + i) * n + nv)
        unpack_columns(au, B, t, nv * nu)
        failed = lane_batch.first_failure(r.D, r.a, t, Q.shape[0])
        if failed >= 0:
            return failed
    return -1


@kernel
def move_all(context, V, A, B):
    """Write the rows of A and B that say how configurations move."""
    move(Tree(context), V, A, B)


@kernel
def move(tree, V, A, B):
    """Rows [-ad_v | 1] of A (M, n, n) and zeros of B (M, n, nu), joint by joint: Δ' = δv - v × Δ."""
    nv = tree.nv
    bracket = np.empty((6, 6))
    for t in range(V.shape[0]):
        A[t, :nv] = 0.0
        B[t, :nv] = 0.0
        for i in range(nv):
            A[t, i, nv + i] = 1.0
        for b in range(tree.nb):
            kind, nj, iv = tree.kind[b], tree.nj[b], tree.iv[b]
            if is_group(kind):
                joint_bracket(kind, nj, twist_of(kind, V[t], iv, 1.0), bracket)
                for i in range(nj):
                    for j in range(nj):
                        A[t, iv + i, iv + j] = -bracket[i, j]
