"""The compiled loops of the costs on contact forces, which depend on states and controls through the dynamics.

Forces f (nc,) enter by rows ``r = R f - target`` (nr,), which cost ``½ w Σ_i e_i²``, e_i how far r_i is beyond its
limits. With f = f(x, u) and g = R' w e, the gradient is ``f_z' g`` and the Hessian ``f_z' R' w R f_z`` of the rows
that are beyond, and, if exact, the Hessian of g·f. Knots whose rows are all within their limits cost no derivative.
The conventions are those of state_kernels.py.
"""

from __future__ import annotations

import numpy as np

from ddp.kernel import call_contraction, inline, kernel
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
    fz = np.zeros((nc, nz))
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
        pulled(R, e, weight, g[nv:])
        add_products(fz, R, e, g[nv:], scale, weight, lz[k], lzz[k])
        if exact:
            contracted(tree, contacts, g, ws, place, r, h, qq, qv, vv, qt)
            add_blocks(scale, S, qq, qv, vv, qt, lzz[k])


@kernel
def add_products(fz, R, e, g, scale, weight, lz, lzz):
    """lz += scale f_z' g;  lzz += scale w Σ (R_i f_z)' (R_i f_z) over the rows with e_i not zero."""
    nz = lz.size
    row = np.empty(nz)
    for j in range(fz.shape[0]):
        for a in range(nz):
            lz[a] += scale * g[j] * fz[j, a]
    for i in range(R.shape[0]):
        if e[i] != 0.0:
            row[:] = 0.0
            for j in range(fz.shape[0]):
                if R[i, j] != 0.0:
                    for a in range(nz):
                        row[a] += R[i, j] * fz[j, a]
            for a in range(nz):
                if row[a] != 0.0:
                    x = scale * weight * row[a]
                    for b in range(nz):
                        lzz[a, b] += x * row[b]


@kernel
def pulled(R, e, weight, g):
    """g := w R' e."""
    for j in range(g.size):
        g[j] = 0.0
        for i in range(R.shape[0]):
            g[j] += weight * e[i] * R[i, j]


@kernel
def expand_recorded(where, of_forces, R, targets, lower, upper, weight, record, scale, exact, l, lz, lzz):
    """Expansion of ForceLimits at knots whose dynamics have been expanded: `PhasedDynamics.recorded`.

    where: first of the forces in a record, of their derivatives and between rows of those.
    of_forces: address and context of what contracts their second order.
    """
    nc, nz = R.shape[1], lz.shape[1]
    first, begin, ld = where
    e, g, T = np.zeros(R.shape[0]), np.zeros(nc), np.empty((nz, nz))
    for k in range(record.shape[0]):
        cost = excess(R, row_of(targets, k), lower, upper, record[k, first : first + nc], e)
        if cost == 0.0:
            continue
        l[k] += scale * 0.5 * weight * cost
        pulled(R, e, weight, g)
        fz = record[k, begin : begin + nc * ld].reshape(nc, ld)
        add_products(fz, R, e, g, scale, weight, lz[k], lzz[k])
        if exact:
            address, context = of_forces
            call_contraction(address, context, record[k].ctypes.data, g.ctypes.data, T.ctypes.data)
            for a in range(nz):
                for b in range(nz):
                    lzz[k, a, b] += scale * T[a, b]


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
