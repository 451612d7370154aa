# mypy: allow-untyped-defs, allow-untyped-calls
"""Steps of four states at once, and closed-loop rollouts of four step lengths: a line search for the price of one.

Under α:  u = clip(U + α k + K (x ⊖ X)),  x' = f(x, u) ⊕ (α - 1) gap  for steps of semi-implicit Euler, v' = v + h a
and q' = q ⊕ h v', and for those of runge_kutta.py. Lanes that diverge become NaN and stay so; the others do not notice.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ddp.compiling.kernel import inline, kernel
from ddp.machine.number import QUAD, spread, square_root, where_less
from dynamics.arrays.tables import scatter
from dynamics.arrays.views import folded, row_of, rows_of
from dynamics.geometry.configuration import difference_state, integrate_configuration
from dynamics.geometry.joint_motion import add_joint_bracket, is_group
from dynamics.rigid_bodies.articulated import (
    bodies_at,
    column,
    forward_dynamics,
    numbers,
    room_of_bodies,
)
from dynamics.rigid_bodies.passive import passive_torque
from dynamics.robots.tree import Tree


def size(tree: Tree, nq: int, nu: int, stages: int) -> int:
    """How many lanes the arena must hold for rollouts, two quads to each."""
    nv = tree.nv
    return (room_of_bodies(tree) + 2 * nq + 9 * nv + 2 * nu + 2 * stages * nv + 3 * QUAD) // 2 + 1


@kernel
def feedback(alpha, U, k, K, lower, upper, n, dx, u):
    """u := clip(U + α k + K dx), four controls at a time."""
    nu = U.size
    i = 0
    while i + 4 <= nu:
        a, b = U[i] + alpha * k[i], U[i + 1] + alpha * k[i + 1]
        c, d = U[i + 2] + alpha * k[i + 2], U[i + 3] + alpha * k[i + 3]
        for j in range(n):
            e = dx[j]
            a += K[i, j] * e
            b += K[i + 1, j] * e
            c += K[i + 2, j] * e
            d += K[i + 3, j] * e
        u[i], u[i + 1], u[i + 2], u[i + 3] = a, b, c, d
        i += 4
    while i < nu:
        a = U[i] + alpha * k[i]
        for j in range(n):
            a += K[i, j] * dx[j]
        u[i] = a
        i += 1
    for i in range(nu):
        low, high = lower[i], upper[i]
        x = where_less(u[i], low, low, u[i])
        u[i] = where_less(high, x, high, x)


@kernel
def entries_of(S):
    """(row, column, entry) of all that S (nv, nu) has but zeros, row after row: few, of most robots."""
    out, count = np.empty((S.size, 3)), 0
    for i in range(S.shape[0]):
        for j in range(S.shape[1]):
            if S[i, j] != 0.0:
                out[count, 0], out[count, 1], out[count, 2] = i, j, S[i, j]
                count += 1
    return out[:count]


@kernel
def actuated(tree, entries, u, q, v, tau):
    """τ := S u and what joints exert of themselves."""
    e = 0
    for i in range(tree.nv):
        total = passive_torque(tree, i, q, v)
        while e < entries.shape[0] and entries[e, 0] == i:
            total += entries[e, 2] * u[int(entries[e, 1])]
            e += 1
        tau[i] = total


@inline
def poison(pivot, a, nv):
    """Zero; NaN in the lanes whose pivot is not positive or whose accelerations are not numbers."""
    total = a[0]
    for i in range(1, nv):
        total += a[i]
    return 0.0 * total + 0.0 / square_root(pivot)


@kernel
def bracket(tree, scale, v, i, j, out):
    """out += scale [v_i, v_j], joint by joint, of the i-th and the j-th of some tangent vectors."""
    for b in range(tree.nb):
        iv, kind = tree.iv[b], tree.kind[b]
        if is_group(kind):
            add_joint_bracket(kind, tree.nj[b], scale, v, i * tree.nv + iv, j * tree.nv + iv, out, iv)


@kernel
def euler_step(tree, entries, h, nq, x, u, w, memory):
    """x := its next state by semi-implicit Euler; memory: lanes for τ, a and ξ."""
    nv = tree.nv
    q, v = column(x), column(x + 32 * nq)
    tau, a, xi = column(memory), column(memory + 32 * nv), column(memory + 64 * nv)
    actuated(tree, entries, u, q, v, tau)
    wrong = poison(forward_dynamics(tree, q, v, tau, w, a), a, nv)
    for i in range(nv):
        v[i] += h * a[i] + wrong
        xi[i] = h * v[i]
    integrate_configuration(tree, q, xi, 1.0, q)


class Stages(NamedTuple):
    """Tables of any number: v and a (stages nv,) of the stages so far, ξ (nv,) of the last one reached."""

    v: Any
    a: Any
    xi: Any


@kernel
def reach_stage(tree, method, h, i, q, v, zero, s, qi, vi):
    """qi, vi := q_i, v_i of a stage, or of the step's end, which may be q and v; zero: what is added to v_i and ξ_i."""
    nv, stages = tree.nv, len(method) - 1
    for j in range(nv):
        s.xi[j] = zero
        vi[j] = v[j] + zero
    for k in range(i):
        share = h * method[i, k]
        if share != 0.0:
            for j in range(nv):
                s.xi[j] += share * s.v[k * nv + j]
                vi[j] += share * s.a[k * nv + j]
    if method[i, stages] != 0.0:
        scale = h * h * method[i, stages]
        bracket(tree, scale, s.v, int(method[i, stages + 1]), int(method[i, stages + 2]), s.xi)
    integrate_configuration(tree, q, s.xi, 1.0, qi)


@kernel
def explicit_step(tree, entries, h, method, nq, x, u, w, memory):
    """x := its next state by a method; memory: lanes for τ, ξ, a configuration, v and a of all stages."""
    nv, stages = tree.nv, len(method) - 1
    q, v = column(x), column(x + 32 * nq)
    tau, qi, first = column(memory), column(memory + 64 * nv), memory + 32 * (2 * nv + nq)
    s = Stages(column(first), column(first + 32 * stages * nv), column(memory + 32 * nv))
    wrong = spread(0.0, v[0])
    for i in range(stages):
        vi, ai = column(first + 32 * i * nv), column(first + 32 * (stages + i) * nv)
        reach_stage(tree, method, h, i, q, v, wrong, s, qi, vi)
        actuated(tree, entries, u, qi, vi, tau)
        wrong += poison(forward_dynamics(tree, qi, vi, tau, w, ai), ai, nv)
    reach_stage(tree, method, h, stages, q, v, wrong, s, q, v)


@kernel
def one_step(tree, entries, h, method, nq, x, u, w, memory):
    """x := its next state by either method."""
    if len(method) == 1:
        euler_step(tree, entries, h, nq, x, u, w, memory)
    else:
        explicit_step(tree, entries, h, method, nq, x, u, w, memory)


@kernel
def step(context, arena, S, h, method, X, U, Xn):
    """Xn (M, nx) := the next states of X (M, nx) under U (M, nu)."""
    M, nx = X.shape
    nu, tree, entries = U.shape[1], Tree(context), entries_of(S)
    nv = tree.nv
    x = arena.ctypes.data + 64
    u = x + 32 * (nx + QUAD)
    memory = u + 32 * nu
    w = bodies_at(memory + 32 * (2 * nv + nx + 2 * (len(method) - 1) * nv), tree.nb, nv)
    states, controls = numbers(x), numbers(u)
    for begin in range(0, M, QUAD):
        for lane in range(QUAD):
            t = min(begin + lane, M - 1)
            for i in range(nx):
                states[QUAD * i + lane] = X[t, i]
            for i in range(nu):
                controls[QUAD * i + lane] = U[t, i]
        one_step(tree, entries, h, method, nx - nv, x, column(u), w, memory)
        for i in range(0, nx, QUAD):
            scatter(x + 32 * i, nx - i, Xn.ctypes.data + 8 * (begin * nx + i), nx, min(QUAD, M - begin))


@kernel
def rollout(context, arena, S, h, method, U, X):
    """Open-loop rollout from X[0] (N+1, nx); NaN from the first knot where it diverges."""
    N, nu = U.shape
    nx, tree, entries = X.shape[1], Tree(context), entries_of(S)
    nv = tree.nv
    x = arena.ctypes.data + 64
    u = x + 32 * (nx + QUAD)
    memory = u + 32 * nu
    w = bodies_at(memory + 32 * (2 * nv + nx + 2 * (len(method) - 1) * nv), tree.nb, nv)
    for i in range(nx):
        column(x)[i] = X[0, i]
    for t in range(N):
        for i in range(nu):
            column(u)[i] = U[t, i]
        one_step(tree, entries, h, method, nx - nv, x, column(u), w, memory)
        for i in range(0, nx, QUAD):
            scatter(x + 32 * i, nx - i, X.ctypes.data + 8 * ((t + 1) * nx + i), nx, 1)


@kernel
def track(context, arena, S, h, method, X, U, k, K, alphas, gaps, lower, upper, Xs, Us):
    """Rollouts Xs (s, N+1, nx), Us (s, N, nu) from X[0], for as many α as there are, four at a time.

    Rows of a knot are views: to count references to an array for each costs more than a small step.
    """
    N, nu = U.shape
    nx, n, torn = X.shape[1], gaps.shape[1], gaps.any()
    controls, steps, gains = rows_of(U), rows_of(k), rows_of(K)
    low, high, open_gaps = rows_of(lower), rows_of(upper), rows_of(gaps)
    old, to_X, to_U = X.ctypes.data, Xs.ctypes.data, Us.ctypes.data
    tree, entries = Tree(context), entries_of(S)
    nv, nq = tree.nv, nx - tree.nv
    x = arena.ctypes.data + 64
    dx = x + 32 * (nx + QUAD)
    u = dx + 32 * n
    memory = u + 32 * (nu + QUAD)
    w = bodies_at(memory + 32 * (3 * nv + nq + 2 * (len(method) - 1) * nv), tree.nb, nv)
    for begin in range(0, alphas.size, QUAD):
        count = min(QUAD, alphas.size - begin)
        lane = numbers(memory)
        for i in range(QUAD):
            lane[i] = alphas[begin + min(i, count - 1)]
        alpha = column(memory)[0]
        for i in range(nx):
            column(x)[i] = X[0, i]
        for t in range(N + 1):
            for i in range(0, nx, QUAD):
                scatter(x + 32 * i, nx - i, to_X + 8 * ((begin * (N + 1) + t) * nx + i), (N + 1) * nx, count)
            if t == N:
                break
            difference_state(tree, numbers(old + 8 * t * nx), column(x), column(dx))
            feedback(
                alpha, row_of(controls, t), row_of(steps, t), folded(row_of(gains, t), nu, n), row_of(low, t),
                row_of(high, t), n, column(dx), column(u),
            )  # fmt: skip
            for i in range(0, nu, QUAD):
                scatter(u + 32 * i, nu - i, to_U + 8 * ((begin * N + t) * nu + i), N * nu, count)
            one_step(tree, entries, h, method, nq, x, column(u), w, memory)
            if torn:
                open_gap(tree, nq, alpha, row_of(open_gaps, t), column(x), column(dx), column(memory))


@kernel
def open_gap(tree, nq, alpha, gap, x, dx, new):
    """x := x ⊕ (α - 1) gap, and to the last bit x where α = 1; new: a table for a configuration."""
    closed = True
    for i in range(gap.size):
        closed = closed and gap[i] == 0.0
    if closed:
        return
    share = alpha - 1.0
    for i in range(gap.size):
        dx[i] = share * gap[i]
    integrate_configuration(tree, x, dx, 1.0, new)
    for i in range(nq):
        x[i] = where_less(share * share, 1e-300, x[i], new[i])
    for i in range(tree.nv):
        x[nq + i] += dx[tree.nv + i]
