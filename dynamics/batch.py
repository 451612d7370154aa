"""The kernels of inverse and forward dynamics over batches of samples, one compiled call each."""

from __future__ import annotations

import numpy as np

from ddp.kernel import kernel
from dynamics import forward, hessian, inverse, tensors
from dynamics.implicit import adjoint_weight, first_order, second_order
from dynamics.kinematics import (
    accelerations,
    composite_inertias,
    place_bodies,
    sum_over_subtrees,
    velocities,
    workspace,
)


@kernel
def inverse_dynamics(tree, Q, V, A, fext, tau):
    """τ of every sample."""
    ws = workspace(tree, Q)
    for t in range(Q.shape[0]):
        inverse.inverse_dynamics(tree, Q[t], V[t], A[t], fext[t], ws, tau[t])


@kernel
def composites(tree, q, v, a, fext, ws):
    """Everything the derivatives of inverse dynamics need of one sample."""
    place_bodies(tree, q, True, ws)
    velocities(tree, v, ws)
    accelerations(tree, v, a, fext, ws)
    composite_inertias(tree, ws)
    sum_over_subtrees(tree, ws.f)
    sum_over_subtrees(tree, ws.hK)


@kernel
def inverse_dynamics_derivatives(tree, Q, V, A, fext, dq, dv, da):
    """∂τ/∂q, ∂τ/∂v, M of every sample."""
    ws = workspace(tree, Q)
    for t in range(Q.shape[0]):
        composites(tree, Q[t], V[t], A[t], fext[t], ws)
        inverse.inverse_dynamics_derivatives(tree, ws, dq[t], dv[t])
        inverse.mass_matrix(tree, ws, da[t])


@kernel
def inverse_dynamics_tensors(tree, Q, V, A, fext, dqdq, dvdv, dvdq, dadq):
    """The four tensors of every sample."""
    ws = workspace(tree, Q)
    for t in range(Q.shape[0]):
        composites(tree, Q[t], V[t], A[t], fext[t], ws)
        tensors.inverse_dynamics_tensors(tree, ws, dqdq[t], dvdv[t], dvdq[t], dadq[t])


@kernel
def contracted(tree, q, v, a, mu, fext, ws, qq, qv, vv, qa):
    """The Hessian of μᵀ ID of one sample."""
    place_bodies(tree, q, True, ws)
    velocities(tree, v, ws)
    accelerations(tree, v, a, fext, ws)
    hessian.virtual_velocities(tree, mu, ws)
    hessian.sum_composites(tree, ws)
    hessian.inverse_dynamics_hessian(tree, ws, qq, qv, vv, qa)


@kernel
def inverse_dynamics_hessian(tree, Q, V, A, mu, fext, qq, qv, vv, qa):
    """The Hessian of μᵀ ID of every sample."""
    ws = workspace(tree, Q)
    for t in range(Q.shape[0]):
        contracted(tree, Q[t], V[t], A[t], mu[t], fext[t], ws, qq[t], qv[t], vv[t], qa[t])


@kernel
def forward_dynamics(tree, Q, V, tau, fext, A):
    """a of every sample; the first whose mass matrix is not positive definite, or -1."""
    ws = workspace(tree, Q)
    LD = np.empty((tree.body.size, tree.body.size), Q.dtype)
    for t in range(Q.shape[0]):
        if not forward.forward_dynamics(tree, Q[t], V[t], tau[t], fext[t], ws, LD, A[t]):
            return t
    return -1


@kernel
def jacobian(tree, q, v, tau, fext, ws, LD, Ry, a, Minv, zy):
    """a, M⁻¹ and z_y = [∂a/∂q ∂a/∂v ∂a/∂τ] of one sample; whether its mass matrix is positive definite."""
    nv = v.size
    if not forward.forward_dynamics(tree, q, v, tau, fext, ws, LD, a):
        return False
    dq, dv = np.empty((nv, nv), q.dtype), np.empty((nv, nv), q.dtype)
    forward.invert(tree, LD, dq, Minv)
    accelerations(tree, v, a, fext, ws)
    sum_over_subtrees(tree, ws.f)
    sum_over_subtrees(tree, ws.hK)
    inverse.inverse_dynamics_derivatives(tree, ws, dq, dv)
    Ry[:, :nv] = dq
    Ry[:, nv : 2 * nv] = dv
    Ry[:, 2 * nv :] = 0.0
    for i in range(nv):
        Ry[i, 2 * nv + i] = -1.0
    first_order(Minv, Ry, zy)
    return True


@kernel
def forward_dynamics_derivatives(tree, Q, V, tau, fext, dq, dv, dtau):
    """∂a/∂q, ∂a/∂v, M⁻¹ of every sample; the first that fails, or -1."""
    nv = tree.body.size
    ws = workspace(tree, Q)
    LD, a, Minv = np.empty((nv, nv), Q.dtype), np.empty(nv, Q.dtype), np.empty((nv, nv), Q.dtype)
    Ry, zy = np.empty((nv, 3 * nv), Q.dtype), np.empty((nv, 3 * nv), Q.dtype)
    for t in range(Q.shape[0]):
        if not jacobian(tree, Q[t], V[t], tau[t], fext[t], ws, LD, Ry, a, Minv, zy):
            return t
        dq[t] = zy[:, :nv]
        dv[t] = zy[:, nv : 2 * nv]
        dtau[t] = Minv
    return -1


@kernel
def forward_dynamics_hessian(tree, Q, V, tau, weight, fext, qq, qv, vv, qtau):
    """The Hessian of weight·a of every sample, qq iterated; the first that fails, or -1."""
    nv = tree.body.size
    ws = workspace(tree, Q)
    LD, a, Minv = np.empty((nv, nv), Q.dtype), np.empty(nv, Q.dtype), np.empty((nv, nv), Q.dtype)
    Ry, zy, cross = np.empty((nv, 3 * nv)), np.empty((nv, 3 * nv)), np.empty((nv, 3 * nv))
    Ryy, H, qa, omega = np.zeros((3 * nv, 3 * nv)), np.empty((3 * nv, 3 * nv)), np.empty((nv, nv)), np.empty(nv)
    for t in range(Q.shape[0]):
        if not jacobian(tree, Q[t], V[t], tau[t], fext[t], ws, LD, Ry, a, Minv, zy):
            return t
        adjoint_weight(Minv, weight[t], omega)
        contracted(tree, Q[t], V[t], a, omega, fext[t], ws, qq[t], qv[t], vv[t], qa)
        Ryy[:nv, :nv] = qq[t]
        Ryy[:nv, nv : 2 * nv] = qv[t]
        Ryy[nv : 2 * nv, :nv] = qv[t].T
        Ryy[nv : 2 * nv, nv : 2 * nv] = vv[t]
        second_order(Ryy, qa, zy, cross, H)
        qq[t] = H[:nv, :nv]
        qv[t] = H[:nv, nv : 2 * nv]
        vv[t] = H[nv : 2 * nv, nv : 2 * nv]
        qtau[t] = H[:nv, 2 * nv :]
    return -1


@kernel
def forward_dynamics_tensors(tree, Q, V, tau, fext, dqdq, dvdv, dvdq, dtaudq):
    """The four tensors of every sample, dqdq iterated; the first that fails, or -1.

    The relation of implicit.py column by column: S_l = R_yy[l] + ... for each torque l, then -M⁻¹ over l.
    """
    nv = tree.body.size
    ws = workspace(tree, Q)
    LD, a, Minv = np.empty((nv, nv), Q.dtype), np.empty(nv, Q.dtype), np.empty((nv, nv), Q.dtype)
    Ry, zy, cross = np.empty((nv, 3 * nv)), np.empty((nv, 3 * nv)), np.empty((nv, 3 * nv))
    Tqq, Tvv, Tvq, Taq = (
        np.empty((nv, nv, nv)), np.empty((nv, nv, nv)), np.empty((nv, nv, nv)), np.empty((nv, nv, nv)),
    )  # fmt: skip
    Ryy, S = np.zeros((3 * nv, 3 * nv)), np.empty((nv, 3 * nv, 3 * nv))
    for t in range(Q.shape[0]):
        if not jacobian(tree, Q[t], V[t], tau[t], fext[t], ws, LD, Ry, a, Minv, zy):
            return t
        composites(tree, Q[t], V[t], a, fext[t], ws)
        tensors.inverse_dynamics_tensors(tree, ws, Tqq, Tvv, Tvq, Taq)
        for l in range(nv):
            Ryy[:nv, :nv] = Tqq[l]
            Ryy[:nv, nv : 2 * nv] = Tvq[l].T
            Ryy[nv : 2 * nv, :nv] = Tvq[l]
            Ryy[nv : 2 * nv, nv : 2 * nv] = Tvv[l]
            second_order(Ryy, np.ascontiguousarray(Taq[l].T), zy, cross, S[l])
        T = np.dot(Minv, S.reshape(nv, 9 * nv * nv)).reshape(nv, 3 * nv, 3 * nv)
        dqdq[t] = -T[:, :nv, :nv]
        dvdv[t] = -T[:, nv : 2 * nv, nv : 2 * nv]
        dvdq[t] = -T[:, nv : 2 * nv, :nv]
        dtaudq[t] = -T[:, 2 * nv :, :nv]
    return -1
