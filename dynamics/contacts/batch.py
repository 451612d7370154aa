# mypy: allow-untyped-defs, allow-untyped-calls
"""The kernels of motion under contacts and of impacts over batches of samples, one compiled call each.

They return the first sample whose mass matrix is not positive definite, or -1.
"""

from __future__ import annotations

import numpy as np

from ddp.compiling.kernel import kernel
from dynamics.contacts.axes import add_turning_curvature, turn_derivatives, turn_forces, turn_weights
from dynamics.contacts.hessian import contact_hessian, curvature, impact_hessian
from dynamics.contacts.kinematics import places
from dynamics.contacts.relation import contact_forward, impact_forward, relate_contact, relate_impact, relation
from dynamics.rigid_bodies.forward import is_positive
from dynamics.rigid_bodies.kinematics import workspace


@kernel
def contact_dynamics(tree, contacts, nc, epsilon, Q, V, tau, fext, A, F):
    """a (N, nv), f (N, nc) of every sample."""
    ws, place, r = workspace(tree, Q), places(tree, contacts, Q), relation(V.shape[1], nc, Q)
    for t in range(Q.shape[0]):
        contact_forward(tree, contacts, epsilon, Q[t], V[t], tau[t], fext[t], ws, place, r)
        A[t], F[t] = r.a, r.f
        turn_forces(contacts, place, 0, F[t])
        if not is_positive(r.D, r.a):
            return t
    return -1


@kernel
def impact_dynamics(tree, contacts, nc, epsilon, restitution, Q, V, A, F):
    """v⁺ (N, nv), Λ (N, nc) of every sample."""
    ws, place, r, zero = workspace(tree, Q), places(tree, contacts, Q), relation(V.shape[1], nc, Q), np.zeros_like(V[0])
    no_fext = np.zeros((0, 6))
    for t in range(Q.shape[0]):
        impact_forward(tree, contacts, epsilon, restitution, Q[t], V[t], zero, no_fext, ws, place, r)
        A[t], F[t] = V[t] + r.a, r.f
        turn_forces(contacts, place, 0, F[t])
        if not is_positive(r.D, r.a):
            return t
    return -1


@kernel
def contact_derivatives(tree, contacts, nc, epsilon, Q, V, tau, fext, zq, zv, zt):
    """∂(a, f)/∂q, ∂v, ∂τ (N, nv + nc, nv) of every sample."""
    nv = V.shape[1]
    ws, place, r = workspace(tree, Q), places(tree, contacts, Q), relation(nv, nc, Q)
    for t in range(Q.shape[0]):
        relate_contact(tree, contacts, epsilon, Q[t], V[t], tau[t], fext[t], ws, place, r)
        zq[t], zv[t], zt[t] = r.zq, r.zv, r.Kinv[:, :nv]
        turn_derivatives(tree, contacts, ws, place, r.f, zq[t, nv:], zv[t, nv:], zt[t, nv:])
        if not is_positive(r.D, r.a):
            return t
    return -1


@kernel
def impact_derivatives(tree, contacts, nc, epsilon, restitution, Q, V, zq, zv):
    """∂(v⁺, Λ)/∂q, ∂v (N, nv + nc, nv) of every sample."""
    nv = V.shape[1]
    ws, place, r = workspace(tree, Q), places(tree, contacts, Q), relation(nv, nc, Q)
    zero, seen, no_fext, unused = np.zeros_like(V[0]), np.zeros_like(V[0]), np.zeros((0, 6)), np.zeros((nc, 0))
    for t in range(Q.shape[0]):
        relate_impact(tree, contacts, epsilon, restitution, Q[t], V[t], seen, zero, no_fext, ws, place, r)
        zq[t], zv[t] = r.zq, r.zv
        turn_derivatives(tree, contacts, ws, place, r.f, zq[t, nv:], zv[t, nv:], unused)
        if not is_positive(r.D, r.a):
            return t
    return -1


@kernel
def contracted(tree, contacts, weight, ws, place, r, h, qq, qv, vv, qt):
    """Hessian of weight·(a, f) of one sample, qq iterated, after ``relate_contact``; weight (nv + nc,) is turned."""
    nv = qq.shape[0]
    turn_weights(contacts, place, nv, weight)
    contact_hessian(tree, contacts, weight, ws, place, r.Kinv, r.zq, r.zv, r.f, h)
    qq[:], qv[:], vv[:] = h.qq, h.qv, h.vv
    zt = np.ascontiguousarray(r.Kinv[:, :nv])
    qt[:] = np.dot(h.qz, zt)
    w, fq, fv, ft = weight[nv:], r.zq[nv:], r.zv[nv:], zt[nv:]
    add_turning_curvature(tree, contacts, ws, place, w, r.f, fq, fv, ft, qq, qv, qt)


@kernel
def contact_hessians(tree, contacts, nc, epsilon, Q, V, tau, fext, weights, qq, qv, vv, qt):
    """Hessians (N, W, nv, nv) of W weights (N, W, nv + nc) on (a, f) of every sample."""
    nv = V.shape[1]
    ws, place, r, h = workspace(tree, Q), places(tree, contacts, Q), relation(nv, nc, Q), curvature(nv, nc, Q)
    weight = np.zeros(nv + nc)
    for t in range(Q.shape[0]):
        relate_contact(tree, contacts, epsilon, Q[t], V[t], tau[t], fext[t], ws, place, r)
        if not is_positive(r.D, r.a):
            return t
        for i in range(weights.shape[1]):
            weight[:] = weights[t, i]
            contracted(tree, contacts, weight, ws, place, r, h, qq[t, i], qv[t, i], vv[t, i], qt[t, i])
    return -1


@kernel
def impact_hessians(tree, contacts, nc, epsilon, restitution, Q, V, weights, qq, qv):
    """Hessians (N, W, nv, nv) of W weights (N, W, nv + nc) on (v⁺, Λ) of every sample."""
    nv = V.shape[1]
    ws, place, r, h = workspace(tree, Q), places(tree, contacts, Q), relation(nv, nc, Q), curvature(nv, nc, Q)
    zero, seen, no_fext, unused = np.zeros_like(V[0]), np.zeros_like(V[0]), np.zeros((0, 6)), np.zeros((nc, 0))
    weight, none = np.zeros(nv + nc), np.zeros((nv, 0))
    for t in range(Q.shape[0]):
        relate_impact(tree, contacts, epsilon, restitution, Q[t], V[t], seen, zero, no_fext, ws, place, r)
        if not is_positive(r.D, r.a):
            return t
        for i in range(weights.shape[1]):
            weight[:] = weights[t, i]
            turn_weights(contacts, place, nv, weight)
            impact_hessian(tree, contacts, restitution, weight, V[t], zero, no_fext, ws, place, r, h)
            qq[t, i], qv[t, i] = h.qq, h.qv
            w, fq, fv = weight[nv:], r.zq[nv:], r.zv[nv:]
            add_turning_curvature(tree, contacts, ws, place, w, r.f, fq, fv, unused, qq[t, i], qv[t, i], none)
    return -1
