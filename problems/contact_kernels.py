"""The compiled loops of the costs on contact forces, which depend on states and controls through the dynamics.

Forces f (nc,) enter by rows ``r = R f - target`` (nr,), which cost ``½ w Σ_i e_i²``, e_i how far r_i is beyond its
limits. With f = f(x, u) and g = R' w e, the gradient is ``f_z' g`` and the Hessian ``f_z' R' w R f_z`` of the rows
that are beyond, and, if exact, the Hessian of g·f. Knots whose rows are all within their limits cost no derivative.
The conventions are those of state_kernels.py.
"""

from __future__ import annotations

import numpy as np

from ddp.kernel import inline, kernel
from dynamics.contact_axes import turn_derivatives, turn_forces
from dynamics.contact_batch import contracted, related, solved_contact
from dynamics.contact_hessian import curvature
from dynamics.contact_kinematics import places
from dynamics.contact_relation import relation
from dynamics.forward import is_positive
from dynamics.kinematics import workspace
from dynamics.steps import actuate
from problems.state_kernels import row_of


@inline
def _beyond(value, lower, upper):
    return value - upper if value > upper else (value - lower if value < lower else 0.0 * value)


@kernel
def excess(R, target, lower, upper, f, e):
    """How far each row of R f - target is beyond its limits, into e (nr,); the sum of squares."""
    total = 0.0
    for i in range(R.shape[0]):
        value = -target[i]
        for j in range(R.shape[1]):
            value += R[i, j] * f[j]
        e[i] = _beyond(value, lower[i], upper[i])
        total += e[i] * e[i]
    return total


@kernel
def forces_at(tree, contacts, epsilon, q, v, tau, no_fext, ws, place, r, f):
    """f (nc,) := the forces in the axes asked for; NaN where the mass matrix is singular."""
    solved_contact(tree, contacts, epsilon, q, v, tau, no_fext, ws, place, r)
    f[:] = r.f
    turn_forces(contacts, place, 0, f)
    if not is_positive(r.D, r.a):
        f[:] = np.nan


@kernel
def contact_forces(tree, contacts, nc, epsilon, S, X, U, F):
    """Forces F (M, nc) of every knot."""
    nv = S.shape[0]
    nq = X.shape[1] - nv
    ws, place, r = workspace(tree, X), places(tree, contacts, X), relation(nv, nc, X)
    tau, no_fext = np.zeros(nv), np.zeros((0, 6))
    for k in range(X.shape[0]):
        actuate(tree, S, U[k], X[k, nq:], tau)
        forces_at(tree, contacts, epsilon, X[k, :nq], X[k, nq:], tau, no_fext, ws, place, r, F[k])


@kernel
def force_values(R, targets, lower, upper, weight, F, out):
    """Values of ForceLimits of forces F (M, nc)."""
    e = np.zeros(R.shape[0])
    for k in range(F.shape[0]):
        out[k] = 0.5 * weight * excess(R, row_of(targets, k), lower, upper, F[k], e)


@kernel
def expand_forces(
    tree, contacts, nc, epsilon, S, R, targets, lower, upper, weight, X, U, F, scale, exact, l, lz, lzz
):
    """Expansion of ForceLimits; F (M, nc): the forces of ``contact_forces`` at X, U."""
    nv, nu = S.shape
    nq, nz = X.shape[1] - nv, 2 * nv + nu
    ws, place, r, h = workspace(tree, X), places(tree, contacts, X), relation(nv, nc, X), curvature(nv, nc, X)
    tau, no_fext, e, g = np.zeros(nv), np.zeros((0, 6)), np.zeros(R.shape[0]), np.zeros(nv + nc)
    fz, Rz = np.zeros((nc, nz)), np.zeros((R.shape[0], nz))
    fq, fv, ft = np.zeros((nc, nv)), np.zeros((nc, nv)), np.zeros((nc, nv))
    qq, qv, vv, qt = np.zeros((nv, nv)), np.zeros((nv, nv)), np.zeros((nv, nv)), np.zeros((nv, nv))
    for k in range(X.shape[0]):
        cost = excess(R, row_of(targets, k), lower, upper, F[k], e)
        if cost == 0.0:
            continue
        q, v = X[k, :nq], X[k, nq:]
        actuate(tree, S, U[k], v, tau)
        l[k] += scale * 0.5 * weight * cost
        related(tree, contacts, epsilon, q, v, tau, no_fext, ws, place, r)
        fq[:], fv[:], ft[:] = r.zq[nv:], r.zv[nv:], r.Kinv[nv:, :nv]
        turn_derivatives(tree, contacts, ws, place, r.f, fq, fv, ft)
        fz[:, :nv], fz[:, nv : 2 * nv], fz[:, 2 * nv :] = fq, fv, np.dot(ft, S)
        Rz[:] = np.dot(R, fz)
        g[:] = 0.0
        for i in range(R.shape[0]):
            if e[i] == 0.0:
                Rz[i] = 0.0
            for j in range(nc):
                g[nv + j] += weight * e[i] * R[i, j]
        add_products(fz, Rz, g[nv:], scale, weight, lz[k], lzz[k])
        if exact:
            contracted(tree, contacts, g, ws, place, r, h, qq, qv, vv, qt)
            add_blocks(scale, S, qq, qv, vv, qt, lzz[k])


@kernel
def add_products(fz, Rz, g, scale, weight, lz, lzz):
    """lz += scale f_z' g;  lzz += scale w (R f_z)' (R f_z)."""
    nz = fz.shape[1]
    for a in range(nz):
        for j in range(fz.shape[0]):
            lz[a] += scale * fz[j, a] * g[j]
        for b in range(nz):
            total = 0.0
            for i in range(Rz.shape[0]):
                total += Rz[i, a] * Rz[i, b]
            lzz[a, b] += scale * weight * total


@kernel
def add_blocks(scale, S, qq, qv, vv, qt, lzz):
    """Add blocks by q, v, τ = S u to a Hessian by (q, v, u), the iterated qq made symmetric."""
    nv, nu = S.shape
    qu = np.dot(qt, S)
    for i in range(nv):
        for j in range(nv):
            lzz[i, j] += 0.5 * scale * (qq[i, j] + qq[j, i])
            lzz[i, nv + j] += scale * qv[i, j]
            lzz[nv + j, i] += scale * qv[i, j]
            lzz[nv + i, nv + j] += scale * vv[i, j]
        for j in range(nu):
            lzz[i, 2 * nv + j] += scale * qu[i, j]
            lzz[2 * nv + j, i] += scale * qu[i, j]
