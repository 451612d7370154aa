"""First order of a semi-implicit Euler step on the manifold, eight knots at a time.

About a nominal step, with ξ = h v' and, joint by joint, T = Ad_{Exp(-ξ)} and J = Jr(ξ) the right Jacobian of Exp,

    δv' = E δz,  E = [h a_q | 1 + h a_v | h a_u],        δq' = T δq + h J δv'

T = J = 1 but for free-flyers, spherical and planar joints, whose rows are worked on as six, see groups.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ddp.kernel import kernel
from dynamics.forward import forward_dynamics, invert
from dynamics.groups import twist_of
from dynamics.implicit import first_order
from dynamics.inverse import inverse_dynamics_derivatives
from dynamics.joints import is_group, slot
from dynamics.kinematics import accelerations, lane_matrix, lane_workspace, sum_over_subtrees
from dynamics.lanes import WIDTH, lane_array, pack, unpack
from dynamics.lie import adjoint_inverse, right_jacobian6


class Block(NamedTuple):
    """Eight knots: state, controls, A and B as packed, and the record (q, v, a, M⁻¹, z_y = [a_q a_v a_u])."""

    u: np.ndarray
    A: np.ndarray
    B: np.ndarray
    record: np.ndarray


@kernel
def linearize(tree, S, h, X, U, A, B, record):
    """A (N, n, n), B (N, n, nu) and record (N, size) of every knot."""
    N, nu = U.shape
    nv = tree.body.size
    n = 2 * nv
    block = Block(
        np.empty((nu, WIDTH)), np.empty((n * n, WIDTH)), np.empty((n * nu, WIDTH)), np.empty((record.shape[1], WIDTH))
    )
    ws = lane_workspace(tree)
    scratch = (lane_matrix(nv, nv), lane_matrix(nv, nv), lane_matrix(nv, nv), lane_matrix(nv, n + nu))
    for t in range(0, N, WIDTH):
        pack(X, t, block.record)
        pack(U, t, block.u)
        linearize_block(tree, S, h, X.shape[1] - nv, block, ws, scratch)
        unpack(block.A, A.reshape(N, n * n), t)
        unpack(block.B, B.reshape(N, n * nu), t)
        unpack(block.record, record, t)
    for b in range(tree.parent.size):
        if is_group(tree.kind[b]):
            turn_group_rows(tree, b, h, X.shape[1] - nv, record, A, B)


@kernel
def linearize_block(tree, S, h, nq, block, ws, scratch):
    """A, B and record of eight knots, as if every joint had T = J = 1."""
    nv, nu = S.shape
    n, nz = 2 * nv, 2 * nv + nu
    x = block.record
    q, v, a = lane_array(x[:nq]), lane_array(x[nq : nq + nv]), lane_array(x[nq + nv : nq + n])
    Minv = lane_array(x[nq + n : nq + n + nv * nv].reshape(nv, nv, WIDTH))
    zy = lane_array(x[nq + n + nv * nv :].reshape(nv, nz, WIDTH))
    relate_controls(tree, S, q, v, lane_array(block.u), a, Minv, zy, ws, scratch)
    A, B = lane_array(block.A.reshape(n, n, WIDTH)), lane_array(block.B.reshape(n, nu, WIDTH))
    for i in range(nv):
        for j in range(n):
            e = h * zy[i, j] + (1.0 if j == nv + i else 0.0)
            A[nv + i, j] = e
            A[i, j] = h * e + (1.0 if j == i else 0.0)
        for j in range(nu):
            e = h * zy[i, n + j]
            B[nv + i, j] = e
            B[i, j] = h * e


@kernel
def relate_controls(tree, S, q, v, u, a, Minv, zy, ws, scratch):
    """a, M⁻¹ and z_y = [a_q a_v a_u] of eight knots, a = M⁻¹ (S u - damping v - bias), by the ID-FD relation."""
    nv, nu = S.shape
    n = 2 * nv
    LD, dq, dv, Ry = scratch
    tau, D, no_fext = lane_array(np.empty((nv, WIDTH))), lane_array(np.empty((nv, WIDTH))), lane_matrix(0, 6)
    for i in range(nv):
        tau[i] = -tree.damping[i] * v[i]
        for j in range(nu):
            tau[i] += S[i, j] * u[j]
    forward_dynamics(tree, q, v, tau, no_fext, ws, LD, D, a)
    invert(tree, LD, dq, Minv)
    accelerations(tree, v, a, no_fext, ws)
    sum_over_subtrees(tree, ws.f)
    sum_over_subtrees(tree, ws.hK)
    inverse_dynamics_derivatives(tree, ws, dq, dv)
    for i in range(nv):
        for j in range(nv):
            Ry[i, j] = dq[i, j]
            Ry[i, nv + j] = dv[i, j]
        Ry[i, nv + i] += tree.damping[i]
        for j in range(nu):
            Ry[i, n + j] = -S[i, j]
    first_order(Minv, Ry, zy)


@kernel
def turn_group_rows(tree, b, h, nq, record, A, B):
    """δq' = T δq + h J E δz for the rows of a joint whose motions do not commute, ξ = h v'."""
    iv, nj, kind, nv, n, nu = tree.iv[b], tree.nj[b], tree.kind[b], tree.body.size, A.shape[2], B.shape[2]
    T, J = np.empty((6, 6)), np.empty((6, 6))
    rows, turned = np.zeros((6, n + nu)), np.empty((6, n + nu))
    for t in range(A.shape[0]):
        v, a = record[t, nq : nq + nv], record[t, nq + nv : nq + 2 * nv]
        xi = next_twist(kind, v, a, iv, h)
        adjoint_inverse(xi, T)
        right_jacobian6(xi, J)
        for i in range(nj):
            rows[slot(kind, i), :n] = A[t, nv + iv + i]
            rows[slot(kind, i), n:] = B[t, nv + iv + i]
        multiply6(J, rows, turned)
        for i in range(nj):
            si = slot(kind, i)
            for j in range(n):
                A[t, iv + i, j] = h * turned[si, j]
            for j in range(nu):
                B[t, iv + i, j] = h * turned[si, n + j]
            for j in range(nj):
                A[t, iv + i, iv + j] += T[si, slot(kind, j)]


@kernel
def embed_rows(kind, nj, rows, six):
    """six (6, m) := the rows (nj, m) of a joint where its twist has them, zeros elsewhere."""
    if nj < 6:
        six[:] = 0.0
    for i in range(nj):
        six[slot(kind, i)] = rows[i]


@kernel
def multiply6(C, X, out):
    """out := C X for a 6 x 6 matrix C."""
    for i in range(6):
        for j in range(X.shape[1]):
            out[i, j] = (
                C[i, 0] * X[0, j] + C[i, 1] * X[1, j] + C[i, 2] * X[2, j]
                + C[i, 3] * X[3, j] + C[i, 4] * X[4, j] + C[i, 5] * X[5, j]
            )  # fmt: skip


@kernel
def next_twist(kind, v, a, iv, h):
    """ξ = h v' = h (v + h a) of the joint whose first velocity is v[iv]."""
    x, y = twist_of(kind, v, iv, h), twist_of(kind, a, iv, h * h)
    return (x[0] + y[0], x[1] + y[1], x[2] + y[2], x[3] + y[3], x[4] + y[4], x[5] + y[5])
