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
from dynamics.kinematics import add_accelerations, clear, lane_workspace, lane_workspace_size
from dynamics.lanes import WIDTH, lane_array, lane_matrix, lane_memory, lane_vector
from dynamics.lie import adjoint_inverse, right_jacobian6
from dynamics.model import Model
from dynamics.packing import pack, unpack


class Block(NamedTuple):
    """Eight knots: state, controls, A and B as packed, and the record (q, v, a, M⁻¹, a_q, a_v, a_u)."""

    u: np.ndarray
    A: np.ndarray
    B: np.ndarray
    record: np.ndarray


def size(tree: Model, nu: int, record_size: int) -> int:
    """How many lanes the arena must hold for ``linearize``."""
    nv = len(tree.body)
    return lane_workspace_size(tree) + (2 * nv + nu) * (2 * nv) + record_size + 3 * nv**2 + 2 * nv + nu


@kernel
def linearize(tree, arena, S, h, X, U, A, B, record):
    """A (N, n, n), B (N, n, nu) and record (N, size) of every knot, as much of it as is of first order."""
    N, nu = U.shape
    nv = tree.body.size
    n = 2 * nv
    block = Block(
        lane_memory(arena, nu), lane_memory(arena, n * n), lane_memory(arena, n * nu),
        lane_memory(arena, X.shape[1] + nv + nv * nv + nv * (n + nu)),
    )  # fmt: skip
    ws = lane_workspace(tree, arena)
    scratch = relation_scratch(tree, arena)
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
def relation_scratch(tree, arena):
    """What ``relate_controls`` works on."""
    nv = tree.body.size
    LD, dq, dv = lane_matrix(arena, nv, nv), lane_matrix(arena, nv, nv), lane_matrix(arena, nv, nv)
    clear(LD)
    clear(dq)
    clear(dv)
    return LD, dq, dv, lane_vector(arena, nv), lane_vector(arena, nv), lane_matrix(arena, 0, 6)


@kernel
def linearize_block(tree, S, h, nq, block, ws, scratch):
    """A, B and record of eight knots, as if every joint had T = J = 1."""
    nv, nu = S.shape
    n = 2 * nv
    aq, av, au = relate_controls(tree, S, nq, lane_array(block.u), block.record, ws, scratch)
    A, B = lane_array(block.A.reshape(n, n, WIDTH)), lane_array(block.B.reshape(n, nu, WIDTH))
    for i in range(nv):
        for j in range(nv):
            A[nv + i, j] = h * aq[i, j]
            A[i, j] = (h * h) * aq[i, j]
            A[nv + i, nv + j] = h * av[i, j]
            A[i, nv + j] = (h * h) * av[i, j]
        A[i, i] += 1.0
        A[i, nv + i] += h
        A[nv + i, nv + i] += 1.0
        for j in range(nu):
            B[nv + i, j] = h * au[i, j]
            B[i, j] = (h * h) * au[i, j]


@kernel
def relate_controls(tree, S, nq, u, x, ws, scratch):
    """a = M⁻¹ (S u - damping v - bias), M⁻¹, a_q, a_v, a_u into the packed record x that holds q, v; the last three."""
    nv, nu = S.shape
    n, m = 2 * nv, nv * nv
    q, v, a = lane_array(x[:nq]), lane_array(x[nq : nq + nv]), lane_array(x[nq + nv : nq + n])
    Minv, aq, av = square(x, nq + n, nv), square(x, nq + n + m, nv), square(x, nq + n + 2 * m, nv)
    au = lane_array(x[nq + n + 3 * m :].reshape(nv, nu, WIDTH))
    LD, dq, dv, D, tau, no_fext = scratch
    for i in range(nv):
        tau[i] = -tree.damping[i] * v[i]
        for j in range(nu):
            tau[i] += S[i, j] * u[j]
    forward_dynamics(tree, q, v, tau, no_fext, ws, LD, D, a)
    invert(tree, LD, dq, dv, Minv)
    add_accelerations(tree, a, ws)
    inverse_dynamics_derivatives(tree, ws, dq, dv, LD)
    for i in range(nv):
        dv[i, i] += tree.damping[i]
    first_order(tree, Minv, dq, aq)
    first_order(tree, Minv, dv, av)
    for i in range(nv):
        for j in range(nu):
            total = 0.0 * D[i]
            for k in range(nv):
                if S[k, j] != 0.0:
                    total = total + S[k, j] * Minv[i, k]
            au[i, j] = total
    return aq, av, au


@kernel
def square(memory, start, n):
    """n² lanes of memory as an (n, n) array."""
    return lane_array(memory[start : start + n * n].reshape(n, n, WIDTH))


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
