"""Steps, rollouts and first order of a hybrid system: semi-implicit Euler under contacts, and impacts.

A step is ``v' = v + h a``, ``q' = q ⊕ h v'`` with the acceleration of motion under contacts; an impact ``v' = v⁺``,
``q' = q``, whose control acts on nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ddp.kernel import kernel
from dynamics.configuration import difference_state, integrate_configuration, integrate_state
from dynamics.contact_batch import related, related_impact, solved_contact, solved_impact
from dynamics.contact_kinematics import Place, places
from dynamics.contact_relation import Relation, relation
from dynamics.forward import is_positive
from dynamics.held_curvature import euler_rows
from dynamics.held_steps import Hold, hold, relate_held, solve_held
from dynamics.kinematics import Workspace, workspace
from dynamics.modes import HELD, IMPACT, contacts_of, parts_of, without_gravity
from dynamics.rollouts import clipped, scaled
from dynamics.steps import actuate


class Bench(NamedTuple):
    """Scratch of one mode's steps."""

    ws: Workspace
    place: Place
    r: Relation
    tau: np.ndarray
    zero: np.ndarray
    seen: np.ndarray
    no_fext: np.ndarray
    end: Hold


@kernel
def bench(tree, contacts, nc, like):
    """Scratch for a mode of nc forces; like (M, nx): states."""
    nv = tree.body.size
    end = hold(tree, contacts, nc, like.shape[1] - nv, like)
    return Bench(
        workspace(tree, like), places(tree, contacts, like), relation(nv, nc, like), np.zeros(nv), np.zeros(nv),
        np.zeros(nv), np.zeros((0, 6)), end,
    )  # fmt: skip


@kernel
def euler_step(tree, contacts, S, h, x, u, w, xn):
    """x' of a step of time under contacts; False where it is not finite."""
    nv = tree.body.size
    nq = x.size - nv
    q, v = x[:nq], x[nq:]
    actuate(tree, S, u, v, w.tau)
    solved_contact(tree, contacts, 0.0, q, v, w.tau, w.no_fext, w.ws, w.place, w.r)
    for i in range(nv):
        xn[nq + i] = v[i] + h * w.r.a[i]
    integrate_configuration(tree, q, xn[nq:], h, xn)
    return is_positive(w.r.D, w.r.a)


@kernel
def held_step(tree, contacts, S, h, x, u, w, xn):
    """x' of a step of time that ends where contacts are held; False where there is none."""
    nv = tree.body.size
    nq = x.size - nv
    q, v = x[:nq], x[nq:]
    actuate(tree, S, u, v, w.tau)
    found = solve_held(tree, contacts, h, q, v, w.tau, w.no_fext, w.ws, w.place, w.r, w.end)
    for i in range(nv):
        xn[nq + i] = v[i] + h * w.r.a[i]
    integrate_configuration(tree, q, xn[nq:], h, xn)
    return found


@kernel
def impact_step(tree, contacts, e, x, w, xn):
    """x' of an impact; tree without gravity."""
    nv = tree.body.size
    nq = x.size - nv
    q, v = x[:nq], x[nq:]
    solved_impact(tree, contacts, 0.0, e, q, v, w.zero, w.no_fext, w.ws, w.place, w.r)
    for i in range(nq):
        xn[i] = q[i]
    for i in range(nv):
        xn[nq + i] = v[i] + w.r.a[i]
    return is_positive(w.r.D, w.r.a)


@kernel
def step(tree, still, modes, mode, contacts, e, S, h, x, u, w, xn):
    """x' of one knot of a mode with these contacts and restitution; still: the tree without gravity."""
    if modes.table[mode, 0] == IMPACT:
        return impact_step(still, contacts, e, x, w, xn)
    if modes.table[mode, 0] == HELD:
        return held_step(tree, contacts, S, h, x, u, w, xn)
    return euler_step(tree, contacts, S, h, x, u, w, xn)


@kernel
def steps(tree, modes, schedule, S, h, X, U, Xn):
    """The next states of knots with the modes of ``schedule`` (M,); NaN where one is not finite."""
    still = without_gravity(tree)
    for t in range(U.shape[0]):
        contacts, e = contacts_of(modes, schedule[t])
        w = bench(tree, contacts, modes.table[schedule[t], 2], X)
        if not step(tree, still, modes, schedule[t], contacts, e, S, h, X[t], U[t], w, Xn[t]):
            Xn[t] = np.nan


@kernel
def track(tree, modes, schedule, S, h, X, U, k, K, alphas, gaps, lower, upper, Xs, Us):
    """Closed-loop rollouts from X[0], one for each α: u = clip(U + α k + K (x ⊖ X)), x' = f(x, u) ⊕ (α - 1) gap."""
    still = without_gravity(tree)
    dx, diverged = np.zeros(2 * tree.body.size), np.zeros(alphas.size, np.bool_)
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
                Xn[t + 1], Un[t] = np.nan, np.nan
                continue
            difference_state(tree, X[t], Xn[t], dx)
            for i in range(U.shape[1]):
                total = U[t, i] + alpha * k[t, i]
                for j in range(dx.size):
                    total += K[t, i, j] * dx[j]
                Un[t, i] = clipped(total, lower[t, i], upper[t, i])
            if not step(tree, still, modes, schedule[t], contacts, e, S, h, Xn[t], Un[t], w, Xn[t + 1]):
                Xn[t + 1] = np.nan
                diverged[m] = True
            elif scaled(alpha - 1.0, gaps[t], dx):
                integrate_state(tree, Xn[t + 1], dx, Xn[t + 1])


@kernel
def run_end(schedule, t):
    """The first knot after t of another mode."""
    end = t + 1
    while end < schedule.size and schedule[end] == schedule[t]:
        end += 1
    return end


@kernel
def linearize_step(tree, contacts, mode, S, h, x, u, w, A, B, record):
    """One knot of a step, as if every joint's motions commuted."""
    nv, nu = S.shape
    nq, nc, r = x.size - nv, w.r.f.size, w.r
    actuate(tree, S, u, x[nq:], w.tau)
    related(tree, contacts, 0.0, x[:nq], x[nq:], w.tau, w.no_fext, w.ws, w.place, r)
    keep(x, mode, nq, nu, r, record)
    zu = parts_of(record, nq, nv, nu, nc)[7]
    for i in range(nv + nc):
        for j in range(nu):
            total = 0.0
            for k in range(nv):
                if S[k, j] != 0.0:
                    total += S[k, j] * r.Kinv[i, k]
            zu[i, j] = total
    for i in range(nv):
        for j in range(nv):
            A[nv + i, j] = h * r.zq[i, j]
            A[i, j] = h * h * r.zq[i, j]
            A[nv + i, nv + j] = h * r.zv[i, j]
            A[i, nv + j] = h * h * r.zv[i, j]
        A[i, i] += 1.0
        A[i, nv + i] += h
        A[nv + i, nv + i] += 1.0
        for j in range(nu):
            B[nv + i, j] = h * zu[i, j]
            B[i, j] = h * h * zu[i, j]
    if not is_positive(r.D, r.a):
        A[:] = np.nan


@kernel
def linearize_held(tree, contacts, mode, S, h, x, u, w, A, B, record):
    """One knot of a held step, as if every joint's motions commuted."""
    nv, nu = S.shape
    nq, nc, r = x.size - nv, w.r.f.size, w.r
    actuate(tree, S, u, x[nq:], w.tau)
    found = relate_held(tree, contacts, h, x[:nq], x[nq:], w.tau, w.no_fext, w.ws, w.place, r, w.end)
    keep(x, mode, nq, nu, r, record)
    _, _, _, _, _, zq, zv, zu = parts_of(record, nq, nv, nu, nc)
    zu[:] = np.dot(np.ascontiguousarray(r.Kinv[:, :nv]), S)
    euler_rows(h, zq, zv, zu, A, B)
    if not found:
        A[:] = np.nan


@kernel
def linearize_impact(tree, contacts, mode, e, x, w, A, B, record):
    """One knot of an impact; tree without gravity."""
    nv, r = tree.body.size, w.r
    nq = x.size - nv
    related_impact(tree, contacts, 0.0, e, x[:nq], x[nq:], w.seen, w.zero, w.no_fext, w.ws, w.place, r)
    keep(x, mode, nq, B.shape[1], r, record)
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
def keep(x, mode, nq, nu, r, record):
    """Everything of a relation but z_u into a record."""
    nc, nv = r.J.shape
    record[:] = 0.0
    _, _, a, f, Kinv, zq, zv, _ = parts_of(record, nq, nv, nu, nc)
    record[: x.size] = x
    record[nq + 2 * nv] = mode
    a[:] = r.a
    f[:] = r.f
    Kinv[:] = r.Kinv
    zq[:] = r.zq
    zv[:] = r.zv
