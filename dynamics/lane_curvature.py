"""The contractions of curvature.py of many knots at once, eight to a register: for weights known beforehand."""

from __future__ import annotations

import numpy as np

from ddp.kernel import kernel
from dynamics.curvature import accelerations_of, add_joint_curvature, second_scratch, weigh_acceleration
from dynamics.hessian import inverse_dynamics_hessian, virtual_velocities
from dynamics.implicit import adjoint_weight, second_order
from dynamics.joints import is_group
from dynamics.kinematics import clear, composites, lane_workspace, lane_workspace_size
from dynamics.lanes import WIDTH, lane_array, lane_matrix, lane_memory, lane_vector
from dynamics.model import Model
from dynamics.packing import pack, unpack


def size(tree: Model, nu: int, record_size: int) -> int:
    """How many lanes the arena must hold for ``contract_knots``."""
    nv = len(tree.body)
    return lane_workspace_size(tree) + record_size + 2 * nv + 7 * nv**2 + nv * nu + (2 * nv + nu) ** 2


@kernel
def contract_knots(tree, arena, nq, nu, h, record, weight, out):
    """out (M, nz, nz): the Hessians of weight·(f(x ⊕ dx, u + du) ⊖ f(x, u)) of knots, from their records (M, .)."""
    M, nv = record.shape[0], tree.body.size
    nz = 2 * nv + nu
    groups = False
    for b in range(tree.parent.size):
        groups = groups or is_group(tree.kind[b])
    c, effective = second_scratch(tree, nu), np.empty((WIDTH, nv))
    ws, packed, packed_weight = lane_workspace(tree, arena), lane_memory(arena, record.shape[1]), lane_memory(arena, nv)
    H, omega = lane_memory(arena, nz * nz), lane_vector(arena, nv)
    qq, qv, vv, qa = (
        lane_matrix(arena, nv, nv), lane_matrix(arena, nv, nv), lane_matrix(arena, nv, nv), lane_matrix(arena, nv, nv),
    )  # fmt: skip
    cross, through_q = lane_matrix(arena, nv, nv), lane_matrix(arena, nv, nv)
    through_v, through_u = lane_matrix(arena, nv, nv), lane_matrix(arena, nv, nu)
    clear(qq)
    clear(qv)
    clear(vv)
    clear(qa)
    H[:] = 0.0
    q, v, a = lane_array(packed[:nq]), lane_array(packed[nq : nq + nv]), lane_array(packed[nq + nv : nq + 2 * nv])
    k, m = nq + 2 * nv, nv * nv
    Minv = lane_array(packed[k : k + m].reshape(nv, nv, WIDTH))
    aq = lane_array(packed[k + m : k + 2 * m].reshape(nv, nv, WIDTH))
    av = lane_array(packed[k + 2 * m : k + 3 * m].reshape(nv, nv, WIDTH))
    au = lane_array(packed[k + 3 * m :].reshape(nv, nu, WIDTH))
    no_fext = lane_matrix(arena, 0, 6)
    for t in range(0, M, WIDTH):
        count = min(WIDTH, M - t)
        for i in range(count):
            knot = record[t + i]
            weigh_acceleration(tree, h, knot[nq:], knot[nq + nv :], weight[t + i], c.J, effective[i])
        pack(record, t, packed)
        pack(effective[:count], 0, packed_weight)
        adjoint_weight(Minv, lane_array(packed_weight), omega)
        composites(tree, q, v, a, no_fext, ws)
        virtual_velocities(tree, omega, ws)
        inverse_dynamics_hessian(tree, ws, qq, qv, vv, qa)
        second_order(tree, qa, aq, av, au, qq, qv, cross, through_q, through_v, through_u)
        assemble(through_q, through_v, vv, through_u, lane_array(H.reshape(nz, nz, WIDTH)))
        unpack(H, out.reshape(M, nz * nz), t)
    if groups:
        for t in range(M):
            knot = record[t]
            by_q, by_v, by_u = accelerations_of(knot, k + m, nv, nu)
            add_joint_curvature(tree, h, knot[nq:], knot[nq + nv :], by_q, by_v, by_u, weight[t], c, out[t])
            for i in range(nz):
                for j in range(i):
                    out[t, i, j] = out[t, j, i]


@kernel
def assemble(qq, qv, vv, qu, H):
    """The symmetric H of its blocks; those of u with v and u are zero already."""
    nv, nu = qu.shape
    for i in range(nv):
        for j in range(nv):
            H[i, j] = 0.5 * (qq[i, j] + qq[j, i])
            H[i, nv + j] = H[nv + j, i] = qv[i, j]
            H[nv + i, nv + j] = vv[i, j]
        for j in range(nu):
            H[i, 2 * nv + j] = H[2 * nv + j, i] = qu[i, j]
