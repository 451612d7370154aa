"""First order of a semi-implicit Euler step on the manifold.

About a nominal step, with ξ = h v' and, joint by joint, T = Ad_{Exp(-ξ)} and J = Jr(ξ) the right Jacobian of Exp,

    δv' = E δz,  E = [h a_q | 1 + h a_v | h a_u],        δq' = T δq + h J δv'

T = J = 1 but for free-flyers, spherical and planar joints, whose rows are worked on as six, see groups.py.
"""

from __future__ import annotations

import numpy as np

from ddp.kernel import kernel
from dynamics.forward import forward_dynamics, invert
from dynamics.groups import twist_of
from dynamics.implicit import first_order
from dynamics.inverse import inverse_dynamics_derivatives
from dynamics.joints import is_group, slot
from dynamics.kinematics import accelerations, sum_over_subtrees, workspace
from dynamics.lie import adjoint_inverse, right_jacobian6
from dynamics.steps import actuate, step_scratch


@kernel
def acceleration_jacobian(tree, S, x, u, no_fext, ws, c):
    """a and c.zy = [a_q a_v a_u] = -M⁻¹ [∂τ/∂q ∂τ/∂v -S], by the ID-FD relation."""
    nv, nu = S.shape
    q, v = x[: x.size - nv], x[x.size - nv :]
    actuate(S, u, c.tau)
    forward_dynamics(tree, q, v, c.tau, no_fext, ws, c.LD, c.a)
    invert(tree, c.LD, c.dq, c.Minv)
    accelerations(tree, v, c.a, no_fext, ws)
    sum_over_subtrees(tree, ws.f)
    sum_over_subtrees(tree, ws.hK)
    inverse_dynamics_derivatives(tree, ws, c.dq, c.dv)
    for i in range(nv):
        for j in range(nv):
            c.Ry[i, j] = c.dq[i, j]
            c.Ry[i, nv + j] = c.dv[i, j]
        for j in range(nu):
            c.Ry[i, 2 * nv + j] = -S[i, j]
    first_order(c.Minv, c.Ry, c.zy)


@kernel
def linearize(tree, S, h, X, U, A, B, record):
    """A, B of many knots, and each one's record (q, v, a, M⁻¹, [a_q a_v a_u])."""
    no_fext = np.zeros((0, 6))
    nv, nu = S.shape
    nq = X.shape[1] - nv
    nz = 2 * nv + nu
    ws, c = workspace(tree, X), step_scratch(tree, nu)
    rows = np.zeros((nv, nz))
    for t in range(U.shape[0]):
        acceleration_jacobian(tree, S, X[t], U[t], no_fext, ws, c)
        write_record(X[t], c, record[t])
        for i in range(nv):  # δv' = E δz, δq' = δq + h δv'
            for j in range(nz):
                rows[i, j] = h * c.zy[i, j]
            rows[i, nv + i] += 1.0
            for j in range(2 * nv):
                A[t, nv + i, j] = rows[i, j]
                A[t, i, j] = h * rows[i, j]
            for j in range(nu):
                B[t, nv + i, j] = rows[i, 2 * nv + j]
                B[t, i, j] = h * rows[i, 2 * nv + j]
            A[t, i, i] += 1.0
        for b in range(tree.parent.size):
            if is_group(tree.kind[b]):
                turn_group_rows(tree, b, h, X[t, nq:], c, rows, A[t], B[t])


@kernel
def write_record(x, c, record):
    """Everything the contraction of a knot needs beside the weight."""
    nv, nz = c.zy.shape
    nx = x.size
    record[:nx] = x
    record[nx : nx + nv] = c.a
    record[nx + nv : nx + nv + nv * nv] = c.Minv.reshape(nv * nv)
    record[nx + nv + nv * nv :] = c.zy.reshape(nv * nz)


@kernel
def turn_group_rows(tree, b, h, v, c, rows, A, B):
    """δq' = T δq + h J E δz for the rows of a joint whose motions do not commute, ξ = h v'."""
    iv, nj, kind, nv, nu = tree.iv[b], tree.nj[b], tree.kind[b], v.size, B.shape[1]
    xi = next_twist(kind, v, c.a, iv, h)
    adjoint_inverse(xi, c.T)
    right_jacobian6(xi, c.J)
    embed_rows(kind, nj, rows[iv : iv + nj], c.six)
    multiply6(c.J, c.six, c.turned)
    for i in range(nj):
        si = slot(kind, i)
        for j in range(2 * nv):
            A[iv + i, j] = h * c.turned[si, j]
        for j in range(nu):
            B[iv + i, j] = h * c.turned[si, 2 * nv + j]
        for j in range(nj):
            A[iv + i, iv + j] += c.T[si, slot(kind, j)]


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
