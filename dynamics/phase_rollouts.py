"""Steps of eight states of a hybrid system at once, their contact forces, and rollouts of eight step lengths.

What takes branches, surfaces pulled to a pose and contacts that turn out to be redundant, is for phase_steps.py:
kernels return False where they have met such a thing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ddp.kernel import kernel
from dynamics.articulated import column, numbers, tables_of
from dynamics.contact_axes import turn_forces
from dynamics.contact_delassus import REDUNDANT
from dynamics.contact_kinematics import Place, lane_places, lane_places_size, move_contacts
from dynamics.contact_motion import (
    Factors,
    factor_motion,
    factor_sigma,
    is_any_redundant,
    lane_factors,
    lane_factors_size,
    push_back,
    reduce_jacobian,
    see_impact,
)
from dynamics.kinematics import Workspace, lane_workspace, lane_workspace_size
from dynamics.lane_rollouts import actuated, between, feedback, moved, open_gap, poison
from dynamics.lanes import WIDTH, lane_array, lane_matrix, lane_memory
from dynamics.model import Model
from dynamics.modes import IMPACT, contacts_of, step_of, without_gravity
from dynamics.packing import unpack
from dynamics.phase_steps import run_end
from dynamics.tables import lane_smaller, scatter, spread


class Bench(NamedTuple):
    """Memory for steps of one mode, a, f, D and pivots as memory too; no_fext has no row."""

    ws: Workspace
    place: Place
    s: Factors
    a: np.ndarray
    f: np.ndarray
    D: np.ndarray
    pivots: np.ndarray
    tau: np.ndarray
    still: np.ndarray
    no_fext: np.ndarray


def size(tree: Model, nq: int, nu: int, m: int, nc: int) -> int:
    """How many lanes the arena must hold for any kernel here, for at most m contacts and nc forces."""
    nv = len(tree.body)
    bench = lane_workspace_size(tree) + lane_places_size(tree, m) + lane_factors_size(nv, nc) + 4 * nv + 2 * nc
    return bench + 2 * nq + 6 * nv + nu + 5 * WIDTH


@kernel
def bench(tree, contacts, nc, arena):
    """Memory for a mode of nc forces."""
    nv = tree.body.size
    a, D, pivots, f = lane_memory(arena, nv), lane_memory(arena, nv), lane_memory(arena, nc), lane_memory(arena, nc)
    tau, still = lane_memory(arena, nv), lane_memory(arena, nv)
    still[:] = 0.0
    return Bench(
        lane_workspace(tree, arena), lane_places(tree, contacts, arena), lane_factors(arena, a, f, D, pivots), a, f,
        D, pivots, tau, still, lane_matrix(arena, 0, 6),
    )  # fmt: skip


@kernel
def advance(tree, still, contacts, restitution, impact, S, h, nq, x, u, xi, w):
    """x := its next state, all of them memory; xi: room for a tangent vector."""
    tables, nv = tables_of(tree), tree.body.size
    q, v, a = x.ctypes.data, x[nq:].ctypes.data, column(w.a.ctypes.data)
    actuated(tables, S, column(u.ctypes.data), column(v), column(w.tau.ctypes.data))
    current, speed, torque = (still, w.still, w.still) if impact else (tree, x[nq : nq + nv], w.tau)
    factor_motion(
        current, contacts, lane_array(x[:nq]), lane_array(speed), lane_array(torque), w.no_fext, w.ws, w.place, w.s,
    )  # fmt: skip
    if impact:
        see_impact(restitution, lane_array(x[nq : nq + nv]), w.s)
    else:
        move_contacts(tree, contacts, w.ws, w.place, w.s.c)
    reduce_jacobian(tree, contacts, w.s)
    factor_sigma(w.s)
    push_back(tree, contacts, w.s)
    pivot, D, new, step = spread(np.inf), column(w.D.ctypes.data), column(v), column(xi.ctypes.data)
    for i in range(nv):
        pivot = lane_smaller(pivot, D[i])
    wrong, share = poison(pivot, a, nv), 1.0 if impact else h
    for i in range(nv):
        new[i] += share * a[i] + wrong
        step[i] = h * new[i]
    if not impact:
        moved(tables, column(q), step, column(q))


@kernel
def take_states(X, U, begin, end, x, u):
    """Knots begin..begin+7 into lanes, the last before ``end`` repeated."""
    for lane in range(WIDTH):
        knot = min(begin + lane, end - 1)
        for i in range(X.shape[1]):
            x[i, lane] = X[knot, i]
        for i in range(U.shape[1]):
            u[i, lane] = U[knot, i]


@kernel
def forces(tree, arena, contacts, nc, S, X, U, F):
    """F (M, nc) := contact forces, in the axes asked for; NaN where the mass matrix is singular."""
    nv = tree.body.size
    N, nq = X.shape[0], X.shape[1] - nv
    x, u, w = lane_memory(arena, X.shape[1]), lane_memory(arena, U.shape[1]), bench(tree, contacts, nc, arena)
    q, v, tau = lane_array(x[:nq]), x[nq:], lane_array(w.tau)
    for t in range(0, N, WIDTH):
        take_states(X, U, t, N, x, u)
        actuated(tables_of(tree), S, column(u.ctypes.data), column(v.ctypes.data), column(w.tau.ctypes.data))
        factor_motion(tree, contacts, q, lane_array(v), tau, w.no_fext, w.ws, w.place, w.s)
        move_contacts(tree, contacts, w.ws, w.place, w.s.c)
        reduce_jacobian(tree, contacts, w.s)
        factor_sigma(w.s)
        push_back(tree, contacts, w.s)
        if is_any_redundant(w.pivots, N - t, REDUNDANT):
            return False
        turn_forces(contacts, w.place, 0, w.s.f)
        unpack(w.f, F, t)
        for lane in range(min(WIDTH, N - t)):
            for i in range(nv):
                if not (w.D[i, lane] > 0.0 and np.isfinite(w.a[i, lane])):
                    F[t + lane] = np.nan
    return True


@kernel
def step(tree, arena, modes, schedule, S, X, U, Xn):
    """Xn (M, nx) := the next states of knots with the modes of ``schedule`` (M,)."""
    nx, nu, still, t = X.shape[1], U.shape[1], without_gravity(tree), 0
    nv = tree.body.size
    x, u, xi = lane_memory(arena, nx + WIDTH), lane_memory(arena, nu), lane_memory(arena, nv)
    start = arena[0, 0]
    while t < U.shape[0]:
        end, mode = run_end(schedule, t), schedule[t]
        contacts, e = contacts_of(modes, mode)
        arena[0, 0] = start
        w = bench(tree, contacts, modes.table[mode, 2], arena)
        for begin in range(t, end, WIDTH):
            take_states(X, U, begin, end, x, u)
            h = step_of(modes, mode)
            advance(tree, still, contacts, e, modes.table[mode, 0] == IMPACT, S, h, nx - nv, x, u, xi, w)
            if is_any_redundant(w.pivots, end - begin, REDUNDANT):
                return False
            for i in range(0, nx, WIDTH):
                out = Xn.ctypes.data + 8 * (begin * nx + i)
                scatter(x.ctypes.data + 64 * i, nx - i, out, nx, min(WIDTH, end - begin))
        t = end
    return True


@kernel
def track(tree, arena, modes, schedule, S, X, U, k, K, alphas, gaps, lower, upper, Xs, Us):
    """Rollouts Xs (s, N+1, nx), Us (s, N, nu) from X[0], for as many α as there are, eight at a time."""
    N, nu = U.shape
    nx, n, still, tables = X.shape[1], gaps.shape[1], without_gravity(tree), tables_of(tree)
    nv = tree.body.size
    nq = nx - nv
    x, u, dx = lane_memory(arena, nx + WIDTH), lane_memory(arena, nu + WIDTH), lane_memory(arena, n)
    xi, lengths = lane_memory(arena, nx), lane_memory(arena, 1)
    start = arena[0, 0]
    contacts, e = contacts_of(modes, schedule[0])
    for begin in range(0, alphas.size, WIDTH):
        count = min(WIDTH, alphas.size - begin)
        for lane in range(WIDTH):
            lengths[0, lane] = alphas[begin + min(lane, count - 1)]
        alpha = column(lengths.ctypes.data)[0]
        for i in range(nx):
            x[i] = X[0, i]
        arena[0, 0] = start
        contacts, e = contacts_of(modes, schedule[0])
        w = bench(tree, contacts, modes.table[schedule[0], 2], arena)
        for t in range(N + 1):
            for i in range(0, nx, WIDTH):
                out = Xs.ctypes.data + 8 * ((begin * (N + 1) + t) * nx + i)
                scatter(x.ctypes.data + 64 * i, nx - i, out, (N + 1) * nx, count)
            if t == N:
                break
            mode = schedule[t]
            if t > 0 and mode != schedule[t - 1]:
                arena[0, 0] = start
                contacts, e = contacts_of(modes, mode)
                w = bench(tree, contacts, modes.table[mode, 2], arena)
            states, controls, between_states = column(x.ctypes.data), column(u.ctypes.data), column(dx.ctypes.data)
            between(tables, nq, numbers(X[t].ctypes.data), states, between_states)
            feedback(alpha, U[t], k[t], K[t], lower[t], upper[t], n, between_states, controls)
            for i in range(0, nu, WIDTH):
                out = Us.ctypes.data + 8 * ((begin * N + t) * nu + i)
                scatter(u.ctypes.data + 64 * i, nu - i, out, N * nu, count)
            h = step_of(modes, mode)
            advance(tree, still, contacts, e, modes.table[mode, 0] == IMPACT, S, h, nq, x, u, xi, w)
            if is_any_redundant(w.pivots, count, REDUNDANT):
                return False
            open_gap(tables, nq, alpha, gaps[t], states, between_states, column(xi.ctypes.data))
    return True
