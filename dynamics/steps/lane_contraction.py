# mypy: allow-untyped-defs, allow-untyped-calls
"""The second order of semi-implicit steps, contracted with weights that are known before: eight knots to a register.

In δq, δv and δv' a step is the relation of inverse dynamics with a = (v' - v)/h: its Hessian is that of ωᵀ ID with
ω = -h M⁻ᵀ (w_v + h Jrᵀ w_q), and no product with derivatives of accelerations is formed. With L of
rigid_bodies/hessian.py,

    qq = ½ (L_qq + L_qqᵀ)     qv = L_qv - L_qa/h     vv = L_vv     nq = (L_qa/h)ᵀ     nn = 0

and for joints whose motions do not commute nq += h Dᵀ, nn = h² C, see `joint_motion.joint_curvature`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ddp.compiling.kernel import kernel
from ddp.machine.number import WIDTH
from ddp.machine.tiles import padded
from dynamics.arrays.lanes import lane_matrix, lane_vector
from dynamics.arrays.packing import pack, unpack, unpack_groups
from dynamics.arrays.views import folded
from dynamics.geometry.joint_motion import is_group, joint_curvature, twist_of
from dynamics.rigid_bodies.batch import contracted
from dynamics.rigid_bodies.kinematics import clear, composites, lane_workspace, lane_workspace_size
from dynamics.robots.tree import Tree
from dynamics.steps.curvature import weigh_accelerations, weigh_residuals
from dynamics.steps.linearization import next_twist


def written(tree: Tree, bent: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Where groups of eight begin, among the numbers of one knot's blocks, that have entries.

    bent (nb,): which bodies' joints have motions that do not commute.
    """
    nv = tree.nv
    related = np.zeros((nv, nv), dtype=bool)
    for first, end, begin, stop in tree.segment:
        related[first:end, tree.relatives[begin:stop]] = True
    carried = tree.parent[tree.body] >= 0
    upper, own = np.triu(related), np.equal.outer(tree.body, tree.body) & bent[tree.body]
    nn = np.ones((tree.nj[bent] ** 2).sum(), dtype=bool)
    blocks = upper, related & carried[:, None], upper, (related & carried) | own, nn
    entries = np.concatenate([np.pad(block.ravel(), (0, -block.size % WIDTH)) for block in blocks])
    return np.flatnonzero(entries.reshape(-1, WIDTH).any(axis=1)) * WIDTH


def size(tree: Tree, nq: int, bent: NDArray[np.bool_]) -> int:
    """How many lanes the arena must hold for ``contract_knots``."""
    nv = tree.nv
    blocks = 4 * padded(nv * nv) + padded((tree.nj[bent] ** 2).sum()) + nv * nv
    return lane_workspace_size(tree) + nq + 6 * nv + 108 + blocks


@kernel
def contract_knots(context, arena, nq, h, groups, record, weight, out):
    """The blocks of M knots, see `system.Abilities`, from their records and weights (M, n); groups: `written`."""
    tree = Tree(context)
    nb, nv, numbers = tree.nb, tree.nv, out.shape[1]
    lx, P = (nv + 7) // 8 * 8, (nv * nv + 7) // 8 * 8
    ws, no_fext = lane_workspace(tree, arena), lane_matrix(arena, 0, 6)
    packed, w = lane_vector(arena, nq + 2 * nv), lane_vector(arena, 2 * nv)
    effective, omega = lane_vector(arena, nv), lane_vector(arena, nv)
    q, v, a = packed[:nq], packed[nq : nq + nv], packed[nq + nv : nq + 2 * nv]
    J, C, D = lane_matrix(arena, 6, 6), lane_matrix(arena, 6, 6), lane_matrix(arena, 6, 6)
    qa, blocks = lane_matrix(arena, nv, nv), lane_vector(arena, numbers)
    clear(folded(blocks, 1, numbers))
    qq, qv = block(blocks, 0, P, nv), block(blocks, 1, P, nv)
    vv, n_q = block(blocks, 2, P, nv), block(blocks, 3, P, nv)
    rows, omegas = np.empty((WIDTH, nv)), np.empty((WIDTH, lx))
    for t in range(0, record.shape[0], WIDTH):
        pack(record, t, packed)
        pack(weight, t, w)
        weigh_accelerations(tree, h, v, a, w, J, effective)
        unpack(effective, rows, 0)
        count = min(WIDTH, record.shape[0] - t)
        for k in range(count):
            weigh_residuals(record[t + k, nq + 2 * nv :], nv, nv, rows[k], omegas[k])
        pack(omegas[:count], 0, omega)
        composites(tree, q, v, a, no_fext, ws)
        contracted(tree, omega, ws, qq, qv, vv, qa)
        eliminate_accelerations(tree, h, qq, qv, qa, n_q)
        own = 4 * P
        for b in range(nb):
            if is_group(tree.kind[b]):
                end = own + tree.nj[b] * tree.nj[b]
                add_group_blocks(tree, b, h, v, a, w, J, C, D, qa, n_q, blocks[own:end])
                own = end
        unpack_groups(blocks, groups, out, t)


@kernel
def block(blocks, k, P, nv):
    """The k-th of some blocks (nv, nv), P lanes apart."""
    return folded(blocks[k * P : k * P + nv * nv], nv, nv)


@kernel
def eliminate_accelerations(tree, h, qq, qv, qa, nq):
    """a = (v' - v)/h in blocks qq, of which the upper triangle becomes that of a symmetric one, qv and qa, that is nq.

    The joints on the world have no rows of qv and qa.
    """
    rate = 1.0 / h
    for t in range(tree.ns):
        columns = tree.relatives[tree.segment[t, 2] :]
        for i in range(tree.segment[t, 0], tree.segment[t, 1]):
            if tree.parent[tree.body[i]] >= 0:
                for k in range(tree.segment[t, 3] - tree.segment[t, 2]):
                    j = columns[k]
                    x = rate * qa[i, j]
                    nq[j, i] = x
                    qv[i, j] = qv[i, j] - x
    for b in range(tree.nb):
        for i in range(tree.iv[b], tree.iv[b] + tree.nj[b]):
            for j in range(tree.iv[b], i):
                qq[j, i] = 0.5 * (qq[i, j] + qq[j, i])


@kernel
def add_group_blocks(tree, b, h, v, a, w, J, C, D, qa, nq, nn):
    """Add the curvature of one joint's ``q ⊕ h v'`` to nq; nn (nj²,) := its own of nn."""
    iv, nj, kind, rate = tree.iv[b], tree.nj[b], tree.kind[b], 1.0 / h
    joint_curvature(kind, nj, next_twist(kind, v, a, iv, h), twist_of(kind, w, iv, 1.0), J, C, D)
    for i in range(nj):
        for k in range(nj):
            nq[iv + k, iv + i] = rate * qa[iv + i, iv + k] + h * D[i, k]
            nn[i * nj + k] = (h * h) * C[i, k]
