"""The second order of semi-implicit steps, contracted with weights that are known before: eight knots to a register.

In δq, δv and δv' a step is the relation of inverse dynamics with a = (v' - v)/h: its Hessian is that of ωᵀ ID with
ω = -h M⁻ᵀ (w_v + h Jrᵀ w_q), and no product with derivatives of accelerations is formed. With L of hessian.py,

    qq = ½ (L_qq + L_qqᵀ)     qv = L_qv - L_qa/h     vv = L_vv     qn = L_qa/h     nn = 0

and for joints whose motions do not commute, with C and D of `knot_curvature.add_group_curvature`, qn += h D, nn = h² C.
"""

from __future__ import annotations

import numpy as np

from ddp.kernel import kernel
from dynamics.batch import contracted
from dynamics.groups import twist_of
from dynamics.joints import is_group, slot
from dynamics.kinematics import composites, lane_workspace, lane_workspace_size
from dynamics.lanes import WIDTH, lane_array, lane_matrix, lane_memory, lane_vector
from dynamics.lie import adjoint_inverse, right_jacobian6, right_jacobian6_contracted
from dynamics.linearization import next_twist
from dynamics.model import Model
from dynamics.packed import views_of
from dynamics.packing import pack, unpack_columns
from dynamics.spatial import cross_motion, dot6
from dynamics.views import folded

FILLED = 5
"""Blocks that are written eight knots at a time: all but nn."""


def size(tree: Model, nq: int) -> int:
    """How many lanes the arena must hold for ``contract_knots``."""
    nv = len(tree.body)
    return lane_workspace_size(tree) + nq + 3 * nv + FILLED * (nv * nv + WIDTH)


@kernel
def contract_knots(model, arena, nq, h, record, weight, out):
    """The blocks of M knots, as `protocols.Batched` says, from their records and weights (M, n)."""
    tree = views_of(model)
    nv, P = tree.body.size, out.shape[1] // 6
    ws, no_fext = lane_workspace(tree, arena), lane_matrix(arena, 0, 6)
    packed, omega = lane_memory(arena, nq + 2 * nv), lane_vector(arena, nv)
    q, v, a = lane_array(packed[:nq]), lane_array(packed[nq : nq + nv]), lane_array(packed[nq + nv :])
    memory = lane_memory(arena, FILLED * P)
    memory[:] = 0.0
    blocks = lane_array(memory)
    qq, qv, vv = block(blocks, 0, P, nv), block(blocks, 1, P, nv), block(blocks, 2, P, nv)
    qn, turned = block(blocks, 3, P, nv), block(blocks, 4, P, nv)
    omegas = np.empty((record.shape[0], nv))
    weigh_relations(model, nq, h, record, weight, omegas)
    for t in range(0, record.shape[0], WIDTH):
        pack(record, t, packed)
        pack(omegas, t, omega)
        composites(tree, q, v, a, no_fext, ws)
        contracted(tree, omega, ws, qq, qv, vv, qn)
        eliminate_accelerations(tree, h, qq, qv, qn, turned)
        unpack_columns(memory, out, t, 0)
    for b in range(model.parent.size):
        if is_group(model.kind[b]):
            add_group_blocks(model, b, nq, h, record, weight, out)


@kernel
def block(blocks, k, P, nv):
    """The k-th of some blocks (nv, nv), P lanes apart."""
    return folded(blocks[k * P : k * P + nv * nv], nv, nv)


@kernel
def weigh_relations(tree, nq, h, record, weight, omegas):
    """omegas (M, nv) := -h M⁻ᵀ (w_v + h Jrᵀ w_q)."""
    nv = tree.body.size
    effective, J = np.empty(nv), np.empty((6, 6))
    for t in range(record.shape[0]):
        w, omega = weight[t], omegas[t]
        for i in range(nv):
            effective[i] = -h * (w[nv + i] + h * w[i])
        for b in range(tree.parent.size):
            kind, iv, nj = tree.kind[b], tree.iv[b], tree.nj[b]
            if is_group(kind):
                right_jacobian6(next_twist(kind, record[t, nq : nq + nv], record[t, nq + nv : nq + 2 * nv], iv, h), J)
                for i in range(nj):
                    total = 0.0
                    for k in range(nj):
                        total += J[slot(kind, k), slot(kind, i)] * w[iv + k]
                    effective[iv + i] = -h * (w[nv + iv + i] + h * total)
        for j in range(nv):
            omega[j] = 0.0
        for i in range(nv):
            row = nq + 2 * nv + i * nv
            for j in range(nv):
                omega[j] += record[t, row + j] * effective[i]


@kernel
def eliminate_accelerations(tree, h, qq, qv, qn, turned):
    """a = (v' - v)/h in blocks qq, qv and qa, which becomes qn, turned its transpose; qq symmetric."""
    nv, rate = tree.body.size, 1.0 / h
    for i in range(nv):
        for j in range(nv):
            x = rate * qn[i, j]
            qn[i, j] = x
            turned[j, i] = x
            qv[i, j] = qv[i, j] - x
    for b in range(tree.parent.size):
        for i in range(tree.iv[b], tree.iv[b] + tree.nj[b]):
            for j in range(tree.iv[b], i):
                qq[i, j] = qq[j, i] = 0.5 * (qq[i, j] + qq[j, i])


@kernel
def add_group_blocks(tree, b, nq, h, record, weight, out):
    """Add the curvature of one joint's ``q ⊕ h v'`` to qn and nq, and write it to nn."""
    iv, nj, kind, nv, P = tree.iv[b], tree.nj[b], tree.kind[b], tree.body.size, out.shape[1] // 6
    T, J, C = np.empty((6, 6)), np.empty((6, 6)), np.empty((6, 6))
    for t in range(record.shape[0]):
        xi = next_twist(kind, record[t, nq : nq + nv], record[t, nq + nv : nq + 2 * nv], iv, h)
        w = twist_of(kind, weight[t], iv, 1.0)
        adjoint_inverse(xi, T)
        right_jacobian6(xi, J)
        right_jacobian6_contracted(xi, w, C)
        for i in range(nj):
            si = slot(kind, i)
            Ai = (T[0, si], T[1, si], T[2, si], T[3, si], T[4, si], T[5, si])
            for k in range(nj):
                sk = slot(kind, k)
                D = 0.5 * h * dot6(w, cross_motion(Ai, (J[0, sk], J[1, sk], J[2, sk], J[3, sk], J[4, sk], J[5, sk])))
                out[t, 3 * P + (iv + i) * nv + iv + k] += D
                out[t, 4 * P + (iv + k) * nv + iv + i] += D
                out[t, 5 * P + (iv + i) * nv + iv + k] = h * h * C[si, sk]
