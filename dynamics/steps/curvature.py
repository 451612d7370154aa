# mypy: allow-untyped-defs, allow-untyped-calls
"""Second order of a semi-implicit Euler step on the manifold, contracted with a weight.

With ξ = h v', η = h δv', A = Ad_{Exp(-ξ)} and Jr the right Jacobian of Exp, joint by joint,

    δq' = A δq + w + ½ [A δq, w],    w = Jr(ξ) η + ½ (D_η Jr(ξ)) η

exactly to second order; δv' carries the second order of the acceleration. With weights (w_q, w_v) on (δq', δv'), the
Hessian of the step is h times that of the acceleration weighted by w_v + h Jrᵀ w_q, plus the joints' own
curvature in (δq, η), of free-flyers, spherical and planar joints alone: for the others A = Jr = 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ddp.compiling.kernel import kernel
from ddp.machine.memory import address_of, as_matrix, rows_of
from ddp.machine.rows import clear_rows
from ddp.machine.tiles import add_product
from dynamics.geometry.joint_motion import is_group, joint_curvature, joint_jacobian, twist_of
from dynamics.rigid_bodies.hessian import inverse_dynamics_hessian, virtual_velocities
from dynamics.rigid_bodies.implicit import adjoint_weight, second_order
from dynamics.rigid_bodies.kinematics import composites
from dynamics.steps.linearization import next_twist


class Second(NamedTuple):
    """Scratch of a contraction: blocks of the Hessian of ωᵀ ID, products with z_y, 6 x 6 and 6 x nz blocks.

    qq, qv, vv, qa stay zero where degrees of freedom are unrelated.
    """

    effective: np.ndarray
    omega: np.ndarray
    qq: np.ndarray
    qv: np.ndarray
    vv: np.ndarray
    qa: np.ndarray
    cross: np.ndarray
    through_v: np.ndarray
    through_u: np.ndarray
    J: np.ndarray
    C: np.ndarray
    D: np.ndarray
    eta: np.ndarray
    curved: np.ndarray


@kernel
def second_scratch(tree, nu):
    """Scratch for contractions of a tree with nu controls."""
    nv = tree.nv
    nz = 2 * nv + nu
    return Second(
        np.empty(nv), np.empty(nv), np.zeros((nv, nv)), np.zeros((nv, nv)), np.zeros((nv, nv)), np.zeros((nv, nv)),
        np.empty((nv, nv)), np.empty((nv, nv)), np.empty((nv, nu)),
        np.empty((6, 6)), np.empty((6, 6)), np.empty((6, 6)), np.empty((6, nz)), np.empty((6, nz)),
    )  # fmt: skip


@kernel
def accelerations_of(record, start, nv, nu):
    """a_q, a_v, a_u of a record."""
    m = nv * nv
    aq = record[start : start + m].reshape(nv, nv)
    av = record[start + m : start + 2 * m].reshape(nv, nv)
    return aq, av, record[start + 2 * m :].reshape(nv, nu)


@kernel
def acceleration_hessian(tree, q, v, a, Minv, aq, av, au, ws, c, H):
    """H := Hessian of c.effective·a in exponential coordinates of (q, v, u), upper triangle, by the ID-FD relation."""
    nv, nu = au.shape
    nz = 2 * nv + nu
    adjoint_weight(nv, Minv, c.effective, c.omega)
    composites(tree, rows_of(q), rows_of(v), rows_of(a), as_matrix(ws.end, 0, 6), ws)
    virtual_velocities(tree, c.omega, ws)
    inverse_dynamics_hessian(tree, ws, c.qq, c.qv, c.vv, c.qa)
    second_order(tree, nu, c.qa, aq, av, au, c.qq, c.qv, c.cross, H[:nv, :nv], c.through_v, c.through_u)
    for i in range(nv):
        for j in range(i, nv):
            H[i, j] = 0.5 * (H[i, j] + H[j, i])
        for j in range(nv):
            H[i, nv + j] = c.through_v[i, j]
            H[nv + i, nv + j] = c.vv[i, j]
        for j in range(nu):
            H[i, 2 * nv + j] = c.through_u[i, j]
            H[nv + i, 2 * nv + j] = 0.0
    for i in range(2 * nv, nz):
        for j in range(i, nz):
            H[i, j] = 0.0


@kernel
def weigh_accelerations(tree, h, v, a, w, J, effective):
    """effective (nv,) := -h (w_v + h Jrᵀ w_q); J (6, 6): scratch."""
    nv = tree.nv
    for i in range(nv):
        effective[i] = -h * (w[nv + i] + h * w[i])
    for b in range(tree.nb):
        kind, iv, nj = tree.kind[b], tree.iv[b], tree.nj[b]
        if is_group(kind):
            joint_jacobian(kind, nj, next_twist(kind, v, a, iv, h), J)
            for i in range(nj):
                total = J[0, i] * w[iv]
                for k in range(1, nj):
                    total += J[k, i] * w[iv + k]
                effective[iv + i] = -h * (w[nv + iv + i] + h * total)


@kernel
def add_group_curvature(tree, b, xi, weight, c, H):
    """Add the upper triangle of the Hessian of w·(½ (D_η Jr) η + ½ [A δq, Jr η]) of one joint's ``q ⊕ ξ``; Jr in c.J.

    w: weight (nv,) at the joint's degrees of freedom;  η = c.eta δz, its first nj rows (nj, nz).
    """
    iv, nj, kind, nz = tree.iv[b], tree.nj[b], tree.kind[b], H.shape[0]
    joint_curvature(kind, nj, xi, twist_of(kind, weight, iv, 1.0), c.J, c.C, c.D)
    multiply_rows(nj, c.C, c.eta, c.curved)
    for k in range(nj):
        for i in range(nz):
            for j in range(i, nz):
                H[i, j] += c.eta[k, i] * c.curved[k, j]
    multiply_rows(nj, c.D, c.eta, c.curved)
    for i in range(nj):
        for j in range(iv + i + 1):
            H[j, iv + i] += c.curved[i, j]
        for j in range(iv + i, nz):
            H[iv + i, j] += c.curved[i, j]


@kernel
def multiply_rows(nj, M, X, out):
    """out (nj, m) := M X, of which M is (nj, nj) and X (nj, m)."""
    for i in range(nj):
        for j in range(X.shape[1]):
            out[i, j] = M[i, 0] * X[0, j]
        for k in range(1, nj):
            for j in range(X.shape[1]):
                out[i, j] += M[i, k] * X[k, j]


@kernel
def weigh_residuals(K, lk, nz, on_z, omega):
    """omega := K⁻ᵀ on_z, in whole registers: with on_z = -w, the weights ω on residuals. K⁻¹ has rows of lk numbers."""
    at, lx = address_of(omega), (nz + 7) // 8 * 8
    clear_rows(at, lx, 1, lx)
    add_product(at, lx, 1, lx, address_of(on_z), nz, 1, address_of(K), lk, nz)
