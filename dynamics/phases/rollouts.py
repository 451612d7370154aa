# mypy: allow-untyped-defs, allow-untyped-calls
"""Steps of four states of a hybrid system at once, and rollouts of four step lengths.

Contacts that turn out to be redundant are for phases/steps.py: kernels return False where they have met them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ddp.compiling.kernel import kernel
from ddp.machine.number import QUAD, where_less
from dynamics.arrays.lanes import quad_memory
from dynamics.arrays.tables import scatter
from dynamics.contacts.kinematics import place_contacts
from dynamics.contacts.motion import (
    Push,
    is_any_redundant,
    push_at,
    push_size,
    quads_at,
    respond_to_units,
    see_impact,
    see_motion,
    solve_contacts,
)
from dynamics.contacts.response import REDUNDANT
from dynamics.geometry.configuration import difference_state, integrate_configuration
from dynamics.phases.held_steps import CLOSE, End, end_at, end_size, hold
from dynamics.phases.steps import run_end
from dynamics.rigid_bodies.articulated import (
    Bodies,
    accelerate,
    articulate,
    bodies_at,
    column,
    numbers,
    place,
    room_of_bodies,
)
from dynamics.robots.tree import Tree
from dynamics.steps.lane_rollouts import actuated, entries_of, feedback, open_gap, poison
from dynamics.steps.modes import HELD, IMPACT, contacts_of, step_of


class Bench(NamedTuple):
    """Memory for steps of one mode of nc forces, a, τ, f and pivots as memory too."""

    w: Bodies
    push: Push
    end: End
    a: np.ndarray
    tau: np.ndarray
    f: np.ndarray
    pivots: np.ndarray


def size(tree: Tree, nq: int, nu: int, m: int, nc: int) -> int:
    """How many lanes the arena must hold for any kernel here, for at most m contacts and nc forces; two quads each."""
    nv = tree.nv
    bench = room_of_bodies(tree) + push_size(tree, m, nc) + end_size(tree, m, nc) + 2 * nv + 2 * nc
    return int(bench + 2 * nq + 6 * nv + nu + 6 * QUAD) // 2 + 2 * QUAD


@kernel
def bench(tree, contacts, nc, arena):
    """Memory for a mode of nc forces."""
    nb, nv, m = tree.nb, tree.nv, contacts.body.size
    a, tau, pivots, f = quad_memory(arena, nv), quad_memory(arena, nv), quad_memory(arena, nc), quad_memory(arena, nc)
    bodies = quad_memory(arena, 52 * nb + 14 * nv).ctypes.data
    pushes, ends = quad_memory(arena, push_size(tree, m, nc)), quad_memory(arena, end_size(tree, m, nc))
    push = push_at(pushes.ctypes.data, a.ctypes.data, f.ctypes.data, pivots.ctypes.data, tree, m, nc)
    return Bench(bodies_at(bodies, nb, nv), push, end_at(quads_at(ends.ctypes.data), tree, m, nc), a, tau, f, pivots)


@kernel
def move(tree, contacts, restitution, kind, h, entries, x, v, u, w):
    """a and f of states x, their speeds v, under u, all of them memory; lanes that are no motions become NaN in a."""
    nv, nc = tree.nv, w.f.shape[0]
    q, speeds, a, tau = column(x.ctypes.data), column(v.ctypes.data), column(w.a.ctypes.data), column(w.tau.ctypes.data)
    actuated(tree, entries, column(u.ctypes.data), q, speeds, tau)
    place(tree, q, speeds, w.w)
    pivot = articulate(tree, tau, w.w)
    wrong = poison(pivot, speeds, nv)
    if kind == HELD:
        place_contacts(tree, contacts, q, w.w, w.push.place)
        accelerate(tree, w.w, a)
        respond_to_units(tree, contacts, w.w, w.push, w.end.xi)
        wrong += poison(pivot, a, nv)
        error = hold(tree, contacts, nc, h, q, speeds, w.push, w.end)
        w.push.pivots[0] = where_less(error, CLOSE * CLOSE, w.push.pivots[0], wrong)
    else:
        if kind == IMPACT:
            see_impact(tree, contacts, nc, restitution, q, w.w, w.push)
            for i in range(nv):
                w.w.u[i] = 0.0
        else:
            see_motion(tree, contacts, q, w.w, w.push)
        solve_contacts(tree, contacts, nc, w.w, w.push)
        accelerate(tree, w.w, a)
        wrong += poison(pivot, a, nv)
    for i in range(nv):
        a[i] += wrong


@kernel
def advance(tree, contacts, restitution, kind, entries, h, nq, x, u, xi, w):
    """x := its next state, all of them memory; xi: room for a tangent vector."""
    v, impact = x[nq:], kind == IMPACT
    move(tree, contacts, restitution, kind, h, entries, x, v, u, w)
    a, new, step, share = column(w.a.ctypes.data), column(v.ctypes.data), column(xi.ctypes.data), 1.0 if impact else h
    for i in range(tree.nv):
        new[i] += share * a[i]
        step[i] = h * new[i]
    if not impact:
        integrate_configuration(tree, column(x.ctypes.data), step, 1.0, column(x.ctypes.data))


@kernel
def take_states(X, U, begin, end, x, u):
    """Knots begin..begin+3 into lanes, the last before ``end`` repeated."""
    for lane in range(QUAD):
        knot = min(begin + lane, end - 1)
        for i in range(X.shape[1]):
            x[i, lane] = X[knot, i]
        for i in range(U.shape[1]):
            u[i, lane] = U[knot, i]


@kernel
def step(tree, arena, modes, schedule, S, X, U, Xn):
    """Xn (M, nx) := the next states of knots with the modes of ``schedule`` (M,)."""
    nx, nu, t, entries = X.shape[1], U.shape[1], 0, entries_of(S)
    nv = tree.nv
    nq = nx - nv
    x, u, xi = quad_memory(arena, nx + QUAD), quad_memory(arena, nu), quad_memory(arena, nv)
    start = arena[0, 0]
    while t < U.shape[0]:
        end, mode = run_end(schedule, t), schedule[t]
        contacts, e = contacts_of(modes, mode)
        arena[0, 0] = start
        w = bench(tree, contacts, modes.table[mode, 2], arena)
        for begin in range(t, end, QUAD):
            take_states(X, U, begin, end, x, u)
            h = step_of(modes, mode)
            advance(tree, contacts, e, modes.table[mode, 0], entries, h, nq, x, u, xi, w)
            if is_any_redundant(w.pivots, end - begin, REDUNDANT):
                return False
            for i in range(0, nx, QUAD):
                out = Xn.ctypes.data + 8 * (begin * nx + i)
                scatter(x.ctypes.data + 32 * i, nx - i, out, nx, min(QUAD, end - begin))
        t = end
    return True


@kernel
def track(tree, arena, modes, schedule, S, X, U, k, K, alphas, gaps, lower, upper, Xs, Us, notes):
    """Rollouts Xs (s, N+1, nx), Us (s, N, nu) from X[0], for as many α as there are, four at a time.

    notes (s, N, .): forces f of every step, points' in the world's axes and surfaces' in their own.
    """
    N, nu = U.shape
    nx, n, tables, entries = X.shape[1], gaps.shape[1], tree, entries_of(S)
    nv = tree.nv
    nq = nx - nv
    x, u, dx = quad_memory(arena, nx + QUAD), quad_memory(arena, nu + QUAD), quad_memory(arena, n)
    xi, lengths = quad_memory(arena, nx), quad_memory(arena, 1)
    start = arena[0, 0]
    contacts, e = contacts_of(modes, schedule[0])
    for begin in range(0, alphas.size, QUAD):
        count = min(QUAD, alphas.size - begin)
        for lane in range(QUAD):
            lengths[0, lane] = alphas[begin + min(lane, count - 1)]
        alpha = column(lengths.ctypes.data)[0]
        for i in range(nx):
            x[i] = X[0, i]
        arena[0, 0] = start
        contacts, e = contacts_of(modes, schedule[0])
        w = bench(tree, contacts, modes.table[schedule[0], 2], arena)
        for t in range(N + 1):
            for i in range(0, nx, QUAD):
                out = Xs.ctypes.data + 8 * ((begin * (N + 1) + t) * nx + i)
                scatter(x.ctypes.data + 32 * i, nx - i, out, (N + 1) * nx, count)
            if t == N:
                break
            mode = schedule[t]
            if t > 0 and mode != schedule[t - 1]:
                arena[0, 0] = start
                contacts, e = contacts_of(modes, mode)
                w = bench(tree, contacts, modes.table[mode, 2], arena)
            states, controls, between_states = column(x.ctypes.data), column(u.ctypes.data), column(dx.ctypes.data)
            difference_state(tables, numbers(X[t].ctypes.data), states, between_states)
            feedback(alpha, U[t], k[t], K[t], lower[t], upper[t], n, between_states, controls)
            for i in range(0, nu, QUAD):
                out = Us.ctypes.data + 8 * ((begin * N + t) * nu + i)
                scatter(u.ctypes.data + 32 * i, nu - i, out, N * nu, count)
            h = step_of(modes, mode)
            advance(tree, contacts, e, modes.table[mode, 0], entries, h, nq, x, u, xi, w)
            if is_any_redundant(w.pivots, count, REDUNDANT):
                return False
            for i in range(0, w.f.shape[0], QUAD):
                out, size = notes[begin, t, i:].ctypes.data, notes.shape[2]
                scatter(w.f.ctypes.data + 32 * i, w.f.shape[0] - i, out, N * size, count)
            open_gap(tables, nq, alpha, gaps[t], states, between_states, column(xi.ctypes.data))
    return True
