# mypy: allow-untyped-defs, allow-untyped-calls
"""The kernels of inverse and forward dynamics over batches of samples, one compiled call each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ddp.compiling.kernel import kernel
from dynamics.arrays.views import views_of
from dynamics.rigid_bodies import forward, hessian, inverse, tensors
from dynamics.rigid_bodies.implicit import adjoint_weight, first_order, second_order
from dynamics.rigid_bodies.inverse import first_felt
from dynamics.rigid_bodies.kinematics import add_accelerations, clear, composites, workspace
from dynamics.rigid_bodies.tensor_entries import SLOTS, spread


@kernel
def inverse_dynamics(tree, Q, V, A, fext, tau):
    """τ of every sample."""
    ws = workspace(tree, Q)
    for t in range(Q.shape[0]):
        inverse.inverse_dynamics(tree, Q[t], V[t], A[t], fext[t], ws, tau[t])


@kernel
def inverse_dynamics_derivatives(tree, Q, V, A, fext, out):
    """∂τ/∂q, ∂τ/∂v, M of every sample: out (3, N, nv, nv)."""
    ws = workspace(tree, Q)
    out[:] = 0.0
    for t in range(Q.shape[0]):
        composites(tree, Q[t], V[t], A[t], fext[t], ws)
        inverse.mass_matrix(tree, ws, out[2, t])
        inverse.inverse_dynamics_derivatives(tree, ws, out[0, t], out[1, t])


@kernel
def inverse_dynamics_tensors(tree, Q, V, A, fext, entries, dqdq, dvdv, dvdq, dadq):
    """The four tensors of every sample, by the ``Entries`` of the tree."""
    ws, values = workspace(tree, Q), np.empty((entries.triples + 1, SLOTS), Q.dtype)
    for t in range(Q.shape[0]):
        composites(tree, Q[t], V[t], A[t], fext[t], ws)
        tensors.inverse_dynamics_tensors(tree, ws, values)
        spread(values, entries.places[0], dqdq[t])
        spread(values, entries.places[1], dvdv[t])
        spread(values, entries.places[2], dvdq[t])
        spread(values, entries.places[3], dadq[t])


@kernel
def contracted(tree, mu, ws, qq, qv, vv, qa):
    """The Hessian of μᵀ ID of one sample, after ``composites``."""
    hessian.virtual_velocities(tree, mu, ws)
    hessian.inverse_dynamics_hessian(tree, ws, qq, qv, vv, qa)


@kernel
def inverse_dynamics_hessian(tree, Q, V, A, mu, fext, out):
    """The Hessian of μᵀ ID of every sample, blocks qq, qv, vv, qa: out (4, N, nv, nv)."""
    ws = workspace(tree, Q)
    out[:] = 0.0
    for t in range(Q.shape[0]):
        composites(tree, Q[t], V[t], A[t], fext[t], ws)
        contracted(tree, mu[t], ws, out[0, t], out[1, t], out[2, t], out[3, t])


@kernel
def forward_dynamics(tree, Q, V, tau, fext, A):
    """a of every sample; the first whose mass matrix is not positive definite, or -1."""
    nv = tree.nv
    ws = workspace(tree, Q)
    LD, D = np.zeros((nv, nv), Q.dtype), np.empty(nv, Q.dtype)
    for t in range(Q.shape[0]):
        forward.forward_dynamics(tree, Q[t], V[t], tau[t], fext[t], ws, LD, D, A[t])
        if not forward.is_positive(D, A[t]):
            return t
    return -1


class Relation(NamedTuple):
    """The ID-FD relation at one sample: a, D (nv,), M⁻¹ (nv, nv), a_q, a_v (nv, nv), and scratch.

    LD, dq and dv stay zero where degrees of freedom are unrelated; cross need not.
    """

    a: np.ndarray
    D: np.ndarray
    Minv: np.ndarray
    aq: np.ndarray
    av: np.ndarray
    LD: np.ndarray
    dq: np.ndarray
    dv: np.ndarray
    cross: np.ndarray
    omega: np.ndarray


@kernel
def relation(tree, like):
    """Arrays for one sample, of the number type of ``like``."""
    nv, dtype = tree.nv, like.dtype
    return Relation(
        np.empty(nv, dtype), np.empty(nv, dtype), np.empty((nv, nv), dtype), np.empty((nv, nv), dtype),
        np.empty((nv, nv), dtype), np.zeros((nv, nv), dtype), np.zeros((nv, nv), dtype), np.zeros((nv, nv), dtype),
        np.empty((nv, nv), dtype), np.empty(nv, dtype),
    )  # fmt: skip


@kernel
def relate(tree, q, v, tau, fext, ws, r):
    """Fill a ``Relation``; meaningless unless ``is_positive(r.D, r.a)``."""
    forward.forward_dynamics(tree, q, v, tau, fext, ws, r.LD, r.D, r.a)
    forward.invert(tree, r.LD, r.dq, r.dv, r.Minv)
    add_accelerations(tree, r.a, ws)
    inverse.inverse_dynamics_derivatives(tree, ws, r.dq, r.dv)
    first_order(tree, r.Minv, r.dq, first_felt(tree), r.aq)
    first_order(tree, r.Minv, r.dv, 0, r.av)


@kernel
def write(r, t, out):
    """Sample t of out (3, N, nv, nv): ∂a/∂q, ∂a/∂v, M⁻¹."""
    for i in range(r.aq.shape[0]):
        for j in range(r.aq.shape[1]):
            out[0, t, i, j] = r.aq[i, j]
            out[1, t, i, j] = r.av[i, j]
            out[2, t, i, j] = r.Minv[i, j]


@kernel
def forward_dynamics_derivatives(tree, Q, V, tau, fext, out):
    """∂a/∂q, ∂a/∂v, M⁻¹ of every sample, out (3, N, nv, nv); the first that fails, or -1."""
    ws, r = workspace(tree, Q), relation(tree, Q)
    for t in range(Q.shape[0]):
        relate(tree, Q[t], V[t], tau[t], fext[t], views_of(ws), r)
        write(r, t, out)
        if not forward.is_positive(r.D, r.a):
            return t
    return -1


@kernel
def relate_twice(tree, weight, ws, r, qq, qv, vv, qtau):
    """The Hessian of weight·a by blocks, qq iterated, after ``relate``; vv comes in as zeros."""
    adjoint_weight(r.Minv, weight, r.omega)
    contracted(tree, r.omega, ws, r.dq, r.dv, vv, r.LD)
    second_order(tree, r.LD, r.aq, r.av, r.Minv, r.dq, r.dv, r.cross, qq, qv, qtau)


@kernel
def forward_dynamics_hessian(tree, Q, V, tau, weight, fext, first, out):
    """The Hessian of weight·a of every sample, blocks qq (iterated), qv, vv, qτ; the first that fails, or -1.

    out (4, N, nv, nv).  first (3, N or 0, nv, nv): where a_q, a_v and M⁻¹ go, if they are wanted.
    """
    ws, r = workspace(tree, Q), relation(tree, Q)
    for t in range(Q.shape[0]):
        relate(tree, Q[t], V[t], tau[t], fext[t], views_of(ws), r)
        if not forward.is_positive(r.D, r.a):
            return t
        clear(out[2, t])
        relate_twice(tree, weight[t], ws, r, out[0, t], out[1, t], out[2, t], out[3, t])
        if first.shape[1] > 0:
            write(r, t, first)
    return -1


@kernel
def forward_dynamics_tensors(tree, Q, V, tau, fext, entries, dqdq, dvdv, dvdq, dtaudq):
    """The four tensors of every sample, dqdq iterated; the first that fails, or -1.

    The relation of implicit.py column by column: S_l = R_yy[l] + ... for each torque l, then -M⁻¹ over l.
    """
    nv = tree.nv
    ws, r = workspace(tree, Q), relation(tree, Q)
    R, S = np.empty((4, nv, nv, nv)), np.empty((2, nv, nv, nv))
    values, Ryz = np.empty((entries.triples + 1, SLOTS)), np.empty((nv, nv))
    for t in range(Q.shape[0]):
        relate(tree, Q[t], V[t], tau[t], fext[t], views_of(ws), r)
        if not forward.is_positive(r.D, r.a):
            return t
        tensors.inverse_dynamics_tensors(tree, ws, values)
        for k in range(4):
            spread(values, entries.places[k], R[k])
        qq, vv, vq, aq, qv, qtau = R[0], R[1], R[2], R[3], S[0], S[1]
        for l in range(nv):
            transpose(vq[l], qv[l])
            transpose(aq[l], Ryz)
            second_order(tree, Ryz, r.aq, r.av, r.Minv, qq[l], qv[l], r.cross, qq[l], qv[l], qtau[l])
            transpose(qv[l], vq[l])
            transpose(qtau[l], aq[l])
        accelerate(r.Minv, qq, dqdq[t])
        accelerate(r.Minv, vv, dvdv[t])
        accelerate(r.Minv, vq, dvdq[t])
        accelerate(r.Minv, aq, dtaudq[t])
    return -1


@kernel
def transpose(A, out):
    """out := Aᵀ, of other memory."""
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            out[j, i] = A[i, j]


@kernel
def accelerate(Minv, S, out):
    """out := -M⁻¹ S, tensors (nv, nv, nv) over their first index."""
    columns = out.shape[1] * out.shape[2]
    target = out.reshape(out.shape[0], columns)
    np.dot(Minv, S.reshape(S.shape[0], columns), target)
    for l in range(target.shape[0]):
        for j in range(columns):
            target[l, j] = -target[l, j]
