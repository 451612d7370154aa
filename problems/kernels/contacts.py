# mypy: allow-untyped-defs, allow-untyped-calls
"""Contact forces of many knots as functions of states and controls through the dynamics, and their derivatives.

Two kinds: forces of accelerations under contacts, and of held steps (phases/held_steps.py), whose time step h they
depend on. X (M, nx), U (M, nu), forces F (M, nc), z = (dx, du); Hessians are those of g·f, g (M, nc), in exponential
coordinates.

Costs on forces that the dynamics have found already read them in their notes and records, knot by knot: by rows
``r = R f - target`` (nr,), which cost ``½ w Σ_i e_i²``, e_i how far r_i is beyond its limits. With g = R' w e, the
gradient is ``f_z' g`` and the Hessian ``f_z' R' w R f_z`` of the rows that are beyond, and, if exact, that of g·f: for
that g is left in the record, where the dynamics' own contraction finds it.
"""

from __future__ import annotations

import numpy as np

from ddp.compiling.kernel import kernel
from ddp.costs.bound import EXACT, VALUES
from dynamics.contacts.axes import turn_derivatives, turn_forces
from dynamics.contacts.batch import contracted, related, solved_contact
from dynamics.contacts.hessian import curvature
from dynamics.contacts.kinematics import places
from dynamics.contacts.relation import derive, relation
from dynamics.phases.contraction import contract_motion
from dynamics.phases.held_steps import CLOSE, relate_held, solve_held
from dynamics.phases.modes import HELD, whole
from dynamics.phases.steps import bench
from dynamics.rigid_bodies.forward import is_positive
from dynamics.rigid_bodies.kinematics import workspace
from dynamics.rigid_bodies.passive import actuate
from problems.kernels.states import beyond, row_of


@kernel
def contact_forces(tree, contacts, nc, S, X, U, F):
    """Forces F of every knot, in the axes asked for; NaN where the mass matrix is singular."""
    nv = S.shape[0]
    nq = X.shape[1] - nv
    ws, place, r = workspace(tree, X), places(tree, contacts, X), relation(nv, nc, X)
    tau, no_fext = np.zeros(nv), np.zeros((0, 6))
    for k in range(X.shape[0]):
        actuate(tree, S, U[k], X[k, :nq], X[k, nq:], tau)
        solved_contact(tree, contacts, 0.0, X[k, :nq], X[k, nq:], tau, no_fext, ws, place, r)
        F[k] = r.f
        turn_forces(contacts, place, 0, F[k])
        if not is_positive(r.D, r.a):
            F[k] = np.nan


@kernel
def held_forces(tree, contacts, nc, S, h, X, U, F):
    """Likewise for held steps; NaN where there is none."""
    nv = S.shape[0]
    nq, w = X.shape[1] - nv, bench(tree, contacts, nc, X)
    for k in range(X.shape[0]):
        q, v = X[k, :nq], X[k, nq:]
        actuate(tree, S, U[k], q, v, w.tau)
        error = solve_held(tree, contacts, h, q, v, w.tau, w.no_fext, w.ws, w.place, w.r, w.end)
        F[k] = w.r.f if error < CLOSE * CLOSE else np.nan * w.r.f


@kernel
def differentiate(tree, contacts, nc, S, X, U, g, exact, Fz, H):
    """∂f/∂z into Fz (M, nc, nz) and, if ``exact``, the Hessians of g·f into H (M, nz, nz), which come in as zeros."""
    nv = S.shape[0]
    nq = X.shape[1] - nv
    ws, place, r, h = workspace(tree, X), places(tree, contacts, X), relation(nv, nc, X), curvature(nv, nc, X)
    tau, no_fext, weight = np.zeros(nv), np.zeros((0, 6)), np.zeros(nv + nc)
    fq, fv, ft = np.zeros((nc, nv)), np.zeros((nc, nv)), np.zeros((nc, nv))
    qq, qv, vv, qt = np.zeros((nv, nv)), np.zeros((nv, nv)), np.zeros((nv, nv)), np.zeros((nv, nv))
    for k in range(X.shape[0]):
        q, v = X[k, :nq], X[k, nq:]
        actuate(tree, S, U[k], q, v, tau)
        related(tree, contacts, 0.0, q, v, tau, no_fext, ws, place, r)
        fq[:], fv[:], ft[:] = r.zq[nv:], r.zv[nv:], r.Kinv[nv:, :nv]
        turn_derivatives(tree, contacts, ws, place, r.f, fq, fv, ft)
        Fz[k, :, :nv], Fz[k, :, nv : 2 * nv], Fz[k, :, 2 * nv :] = fq, fv, np.dot(ft, S)
        if exact:
            weight[:nv], weight[nv:] = 0.0, g[k]
            contracted(tree, contacts, weight, ws, place, r, h, qq, qv, vv, qt)
            add_blocks(S, qq, qv, vv, qt, H[k])


@kernel
def differentiate_held(tree, contacts, nc, S, h, X, U, g, exact, Fz, H):
    """Likewise for held steps."""
    nv, nu = S.shape
    n, nq = 2 * nv, X.shape[1] - nv
    nz, ld = nv + nc, whole(n + nu)
    w, weight, K, Z = bench(tree, contacts, nc, X), np.zeros(n), np.zeros((nz, whole(nz))), np.zeros((nz, ld))
    for k in range(X.shape[0]):
        q, v, r = X[k, :nq], X[k, nq:], w.r
        actuate(tree, S, U[k], q, v, w.tau)
        relate_held(tree, contacts, h, q, v, w.tau, w.no_fext, w.ws, w.place, r, w.end)
        derive(r)
        K[:, :nz], Z[:, :nv], Z[:, nv:n], Z[:, n : n + nu] = r.Kinv, r.zq, r.zv, np.dot(r.Kinv[:, :nv].copy(), S)
        Fz[k] = Z[nv:, : n + nu]
        if exact:
            motion = q, v, r.a, r.f
            contract_motion(tree, contacts, 0.0, HELD, h, nu, motion, weight, g[k], K, whole(nz), Z, ld, H[k])


@kernel
def add_blocks(S, qq, qv, vv, qt, H):
    """Add blocks by q, v, τ = S u to a Hessian by (q, v, u), the iterated qq made symmetric."""
    nv, nu = S.shape
    qu = np.dot(qt, S)
    for i in range(nv):
        for j in range(nv):
            H[i, j] += 0.5 * (qq[i, j] + qq[j, i])
            H[i, nv + j] += qv[i, j]
            H[nv + j, i] += qv[i, j]
            H[nv + i, nv + j] += vv[i, j]
        for j in range(nu):
            H[i, 2 * nv + j] += qu[i, j]
            H[2 * nv + j, i] += qu[i, j]


@kernel
def excess(R, target, lower, upper, f, e):
    """How far each row of R f - target is beyond its limits, into e (nr,); the sum of squares."""
    total = 0.0
    for i in range(R.shape[0]):
        value = -target[i]
        for j in range(R.shape[1]):
            value += R[i, j] * f[j]
        e[i] = beyond(value, lower[i], upper[i])
        total += e[i] * e[i]
    return total


@kernel
def pulled(R, e, weight, g):
    """g := w R' e."""
    for j in range(g.size):
        g[j] = 0.0
        for i in range(R.shape[0]):
            g[j] += weight * e[i] * R[i, j]


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
def force_cost(where, R, targets, lower, upper, weight, first, X, U, known, scale, order, l, lz, lzz):
    """ForceLimits of forces that are known: of values noted by rollouts, of derivatives recorded by expansions.

    The Hessian of g·f is not among these: g is left in the record, whose contraction adds it.
    where: the first of the forces in a record, of g, of their derivatives, and how far rows of those are apart.
    """
    nc = R.shape[1]
    forces, asked, begin, ld = where
    if order == VALUES:
        forces = 0
    e, g = np.zeros(R.shape[0]), np.zeros(nc)
    for k in range(X.shape[0]):
        cost = excess(R, row_of(targets, first + k), lower, upper, known[k, forces : forces + nc], e)
        l[k] += scale * 0.5 * weight * cost
        if order == VALUES or cost == 0.0:
            continue
        pulled(R, e, weight, g)
        fz = known[k, begin : begin + nc * ld].reshape(nc, ld)
        add_products(fz, R, e, g, scale, weight, lz[k], lzz[k])
        if order == EXACT:
            for j in range(nc):
                known[k, asked + j] += scale * g[j]
