# mypy: allow-untyped-defs, allow-untyped-calls
"""Steps, rollouts and first order of a hybrid system: semi-implicit Euler under contacts, and impacts.

A step is ``v' = v + h a``, ``q' = q ⊕ h v'`` with the acceleration of motion under contacts; an impact ``v' = v⁺``,
``q' = q``, whose control acts on nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ddp.compiling.kernel import inline, kernel
from ddp.machine.memory import memory_of
from ddp.machine.rows import write_scaled
from dynamics.contacts.batch import related, related_impact, solved_contact, solved_impact
from dynamics.contacts.kinematics import Place, places
from dynamics.contacts.relation import Relation, derive, relation
from dynamics.geometry.configuration import difference_state, integrate_configuration, integrate_state
from dynamics.phases.held_steps import CLOSE, End, end_at, end_size, relate_held, solve_held
from dynamics.rigid_bodies.forward import is_positive
from dynamics.rigid_bodies.kinematics import Workspace, workspace
from dynamics.rigid_bodies.passive import actuate
from dynamics.steps.modes import HELD, IMPACT, contacts_of, step_of


class Bench(NamedTuple):
    """Scratch of one mode's steps; kept: the memory of ``end``."""

    ws: Workspace
    place: Place
    r: Relation
    tau: np.ndarray
    zero: np.ndarray
    seen: np.ndarray
    no_fext: np.ndarray
    end: End
    kept: np.ndarray


@kernel
def bench(tree, contacts, nc, like):
    """Scratch for a mode of nc forces; like (M, nx): states."""
    nv = tree.nv
    m = contacts.body.size
    kept = np.empty(end_size(tree, m, nc))
    return Bench(
        workspace(tree, like), places(tree, contacts, like), relation(nv, nc, like), np.zeros(nv), np.zeros(nv),
        np.zeros(nv), np.zeros((0, 6)), end_at(memory_of(kept), tree, m, nc), kept,
    )  # fmt: skip


@kernel
def euler_step(tree, contacts, S, h, x, u, w, xn):
    """x' of a step of time under contacts; False where it is not finite."""
    nv = tree.nv
    nq = x.size - nv
    q, v = x[:nq], x[nq:]
    actuate(tree, S, u, q, v, w.tau)
    solved_contact(tree, contacts, 0.0, q, v, w.tau, w.no_fext, w.ws, w.place, w.r)
    for i in range(nv):
        xn[nq + i] = v[i] + h * w.r.a[i]
    integrate_configuration(tree, q, xn[nq:], h, xn)
    return is_positive(w.r.D, w.r.a)


@kernel
def held_step(tree, contacts, S, h, x, u, w, xn):
    """x' of a step of time that ends where contacts are held; False where there is none."""
    nv = tree.nv
    nq = x.size - nv
    q, v = x[:nq], x[nq:]
    actuate(tree, S, u, q, v, w.tau)
    error = solve_held(tree, contacts, w.r.f.size, h, q, v, w.tau, w.no_fext, w.ws, w.place, w.r, w.end)
    for i in range(nv):
        xn[nq + i] = v[i] + h * w.r.a[i]
    integrate_configuration(tree, q, xn[nq:], h, xn)
    return error < CLOSE * CLOSE and is_positive(w.r.D, w.r.a)


@kernel
def impact_step(tree, contacts, e, x, w, xn):
    """x' of an impact; tree without gravity."""
    nv = tree.nv
    nq = x.size - nv
    q, v = x[:nq], x[nq:]
    solved_impact(tree, contacts, 0.0, e, q, v, w.zero, w.no_fext, w.ws, w.place, w.r)
    for i in range(nq):
        xn[i] = q[i]
    for i in range(nv):
        xn[nq + i] = v[i] + w.r.a[i]
    return is_positive(w.r.D, w.r.a)


@kernel
def step(tree, still, modes, mode, contacts, e, S, x, u, w, xn):
    """x' of one knot of a mode with these contacts and restitution; still: the tree without gravity."""
    if modes.table[mode, 0] == IMPACT:
        return impact_step(still, contacts, e, x, w, xn)
    if modes.table[mode, 0] == HELD:
        return held_step(tree, contacts, S, step_of(modes, mode), x, u, w, xn)
    return euler_step(tree, contacts, S, step_of(modes, mode), x, u, w, xn)


@kernel
def steps(tree, modes, schedule, S, X, U, Xn):
    """The next states of knots with the modes of ``schedule`` (M,); NaN where one is not finite."""
    still = tree.weightless
    for t in range(U.shape[0]):
        contacts, e = contacts_of(modes, schedule[t])
        w = bench(tree, contacts, modes.table[schedule[t], 2], X)
        if not step(tree, still, modes, schedule[t], contacts, e, S, X[t], U[t], w, Xn[t]):
            Xn[t] = np.nan


@inline
def clipped(u, lower, upper):
    """u within its limits; NaN stays NaN."""
    return lower if u < lower else (upper if u > upper else u)


@kernel
def scaled(factor, gap, out):
    """out := factor gap, and whether any of it is not zero."""
    moved = False
    for i in range(gap.size):
        out[i] = factor * gap[i]
        moved = moved or out[i] != 0.0
    return moved


@kernel
def track(tree, modes, schedule, S, X, U, k, K, alphas, gaps, lower, upper, Xs, Us, notes):
    """Closed-loop rollouts from X[0], one for each α: u = clip(U + α k + K (x ⊖ X)), x' = f(x, u) ⊕ (α - 1) gap.

    notes (s, N, .): forces f of every step, points' in the world's axes and surfaces' in their own.
    """
    still = tree.weightless
    dx, diverged = np.zeros(2 * tree.nv), np.zeros(alphas.size, np.bool_)
    Xs[:, 0] = X[0]
    contacts, e = contacts_of(modes, schedule[0])
    w = bench(tree, contacts, modes.table[schedule[0], 2], X)
    for t in range(U.shape[0]):
        if t > 0 and schedule[t] != schedule[t - 1]:
            contacts, e = contacts_of(modes, schedule[t])
            w = bench(tree, contacts, modes.table[schedule[t], 2], X)
        for m in range(alphas.size):
            alpha, Xn, Un = alphas[m], Xs[m], Us[m]
            if diverged[m]:
                Xn[t + 1], Un[t], notes[m, t] = np.nan, np.nan, np.nan
                continue
            difference_state(tree, X[t], Xn[t], dx)
            for i in range(U.shape[1]):
                total = U[t, i] + alpha * k[t, i]
                for j in range(dx.size):
                    total += K[t, i, j] * dx[j]
                Un[t, i] = clipped(total, lower[t, i], upper[t, i])
            if not step(tree, still, modes, schedule[t], contacts, e, S, Xn[t], Un[t], w, Xn[t + 1]):
                Xn[t + 1] = np.nan
                diverged[m] = True
            notes[m, t, : w.r.f.size] = w.r.f
            if diverged[m]:
                continue
            if scaled(alpha - 1.0, gaps[t], dx):
                integrate_state(tree, Xn[t + 1], dx, Xn[t + 1])


@kernel
def run_end(schedule, t):
    """The first knot after t of another mode."""
    end = t + 1
    while end < schedule.size and schedule[end] == schedule[t]:
        end += 1
    return end


@kernel
def linearize_step(tree, contacts, mode, where, S, h, x, u, w, A, B, record):
    """One knot of a step, as if every joint's motions commuted; where: the layout of records."""
    nq, r = x.size - tree.nv, w.r
    actuate(tree, S, u, x[:nq], x[nq:], w.tau)
    related(tree, contacts, 0.0, x[:nq], x[nq:], w.tau, w.no_fext, w.ws, w.place, r)
    keep(x, mode, where, nq, r, record)
    drive(S, r.Kinv, driven(where, S.shape[0], r.Kinv.shape[0], record))
    spread_step(record[where.Z :], where.ld, h, A, B)
    if not is_positive(r.D, r.a):
        A[:] = np.nan


@kernel
def linearize_held(tree, contacts, mode, where, S, h, x, u, w, A, B, record):
    """One knot of a held step, likewise."""
    nq = x.size - tree.nv
    actuate(tree, S, u, x[:nq], x[nq:], w.tau)
    relate_held(tree, contacts, h, x[:nq], x[nq:], w.tau, w.no_fext, w.ws, w.place, w.r, w.end)
    derive(w.r)
    keep(x, mode, where, nq, w.r, record)
    drive(S, w.r.Kinv, driven(where, S.shape[0], w.r.Kinv.shape[0], record))
    spread_step(record[where.Z :], where.ld, h, A, B)
    if not (w.r.pivots[0] > 0.0 and is_positive(w.r.D, w.r.a)):
        A[:] = np.nan


@kernel
def drive(S, Kinv, zu):
    """z_u := K⁻¹ S, the motion's columns of K⁻¹; zu (nz, .) may be wider."""
    nv, nu = S.shape
    for i in range(Kinv.shape[0]):
        for j in range(nu):
            zu[i, j] = 0.0
    for k in range(nv):
        for j in range(nu):
            if S[k, j] != 0.0:
                for i in range(Kinv.shape[0]):
                    zu[i, j] += S[k, j] * Kinv[i, k]


@kernel
def driven(where, nv, nz, record):
    """z_u of a record (nz, .)."""
    return record[where.Z : where.Z + nz * where.ld].reshape(nz, where.ld)[:, 2 * nv :]


@kernel
def spread_step(Z, ld, h, A, B):
    """A, B of a step with accelerations z_y, the first nv rows of ld numbers."""
    n, nu = B.shape
    nv, z, to_A, to_B = n // 2, Z.ctypes.data, A.ctypes.data, B.ctypes.data
    write_scaled(to_A, n, h * h, z, ld, nv, n)
    write_scaled(to_A + 8 * nv * n, n, h, z, ld, nv, n)
    write_scaled(to_B, nu, h * h, z + 8 * n, ld, nv, nu)
    write_scaled(to_B + 8 * nv * nu, nu, h, z + 8 * n, ld, nv, nu)
    for i in range(nv):
        A[i, i] += 1.0
        A[i, nv + i] += h
        A[nv + i, nv + i] += 1.0


@kernel
def linearize_impact(tree, contacts, mode, where, e, x, w, A, B, record):
    """One knot of an impact; tree without gravity, where: the layout of records."""
    nv, r = tree.nv, w.r
    nq = x.size - nv
    related_impact(tree, contacts, 0.0, e, x[:nq], x[nq:], w.seen, w.zero, w.no_fext, w.ws, w.place, r)
    keep(x, mode, where, nq, r, record)
    B[:] = 0.0
    for i in range(nv):
        for j in range(nv):
            A[i, j] = 0.0
            A[i, nv + j] = 0.0
            A[nv + i, j] = r.zq[i, j]
            A[nv + i, nv + j] = r.zv[i, j]
        A[i, i] = 1.0
    if not is_positive(r.D, r.a):
        A[:] = np.nan


@kernel
def keep(x, mode, where, nq, r, record):
    """Write everything of a relation but z_u into a record."""
    nc, nv = r.J.shape
    nz = nv + nc
    lk, n = where.lk, nq + 2 * nv
    record[:] = 0.0
    record[: x.size] = x
    record[x.size : n] = r.a
    record[n] = mode
    record[n + 1 : n + 1 + nc] = r.f
    for i in range(nz):
        K, z = record[where.K + i * lk :], record[where.Z + i * where.ld :]
        K[:nz] = r.Kinv[i]
        z[:nv], z[nv : 2 * nv] = r.zq[i], r.zv[i]
