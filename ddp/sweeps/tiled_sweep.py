# mypy: allow-untyped-defs, allow-untyped-calls
"""The recursion of backward.py on register tiles: the knots of a horizon, or of a part of it, from last to earliest."""

from __future__ import annotations

import numpy as np
from numba import carray

from ddp.compiling.kernel import call_contraction, integer_pointer, kernel
from ddp.matrices.rows import clear_rows, copy_rows, copy_upper
from ddp.matrices.tiles import add_product
from ddp.sweeps.box import clamp
from ddp.sweeps.gaps import arrive, cross
from ddp.sweeps.model import load_costs, read_model
from ddp.sweeps.riccati import (
    action_value,
    add_blocks,
    add_diagonal,
    add_hessian,
    bend,
    complete,
    complete_in_place,
    factorize,
    forget_idle,
    load,
    policy,
    value,
)
from ddp.sweeps.room import numbers_at, read_room, rows_at
from ddp.sweeps.sized_knot import call_knot
from ddp.sweeps.small_knot import is_small, small_knot

NOTHING = (0.0, 0.0, 0.0)
"""What the knots after the last one come to: slope, change, and the max-norm of the gradient."""


@kernel
def start_at_end(model, room, blend, mu, separable):
    """The room's value := that of the last knot."""
    p, r = read_model(model), read_room(room)
    nz = p.n + p.nu
    if separable[p.N]:
        clear_rows(r.Q, r.ld, nz, r.ld)
    else:
        load_costs(model, room, p.N, blend)
    add_diagonal(room, mu, p.diagonal + 8 * p.N * nz if separable[p.N] else 0)
    copy_upper(r.V, r.lx, r.Q, r.ld, p.n, r.lx)
    complete(room)
    copy_rows(r.v, r.lx, p.lz + 8 * p.N * nz, 0, 3, p.n)


@kernel
def act(model, room, t, rows, blend, mu, separable, h, bent):
    """The action value of knot t from the next value, where that arrives, and from T of this knot.

    separable (N+1,): where l_zz is diagonal.  h, bent (g, 2): of semi-implicit steps, see riccati.py; h = 0 for others.
    """
    p, r = read_model(model), read_room(room)
    n, nz = p.n, p.n + p.nu
    start, stride, T = r.zeros, 0, 0
    if not separable[t]:
        start, stride = r.Q, r.ld
        load_costs(model, room, t, blend)
    if blend > 0.0 and p.blocks != 0:
        T = p.T + t * p.step
    load(room, h, bent, p.A + 8 * t * n * n, p.B + 8 * t * n * p.nu)
    action_value(room, h, bent, rows, start, stride, p.lz + 8 * t * nz, blend, T)
    if T != 0:
        add_blocks(room, blend, T)
    elif blend > 0.0:
        add_hessian(room, blend, p.T + t * p.step)
    add_diagonal(room, mu, p.diagonal + 8 * t * nz if separable[t] else 0)  # last, registers wait for numbers


@kernel
def bend_value(model, room, t, blend):
    """What a second order adds to the next value, once before `act`."""
    p = read_model(model)
    if blend > 0.0 and p.blocks != 0 and p.number > 0:
        bend(room, blend, p.T + t * p.step, carray(integer_pointer(p.bent), (p.number, 2)))


@kernel
def step_small(model, room, t, blend, mu, separable):
    """`small_knot` of knot t."""
    p = read_model(model)
    n, nz = p.n, p.n + p.nu
    lzz, exact, T = p.lzz + 8 * t * nz * nz, p.exact + 8 * t * nz * nz, 0
    if separable:
        lzz = exact = p.diagonal + 8 * t * nz
    elif blend == 0.0:
        exact = lzz
    elif blend == 1.0:
        lzz = exact  # Gauss-Newton's may not be there
    if blend > 0.0:
        T = p.T + t * p.step
    return small_knot(
        room, n, p.A + 8 * t * n * n, p.B + 8 * t * n, p.lz + 8 * t * nz, lzz, exact, separable, blend, T, mu,
        p.k + 8 * t, p.K + 8 * t * n,
    )  # fmt: skip


@kernel
def sweep(
    start, stop, before, model, room, blend, mu, by_costate, kept, separable, h, bent, gaps, torn, blocks, limited, low,
    high, known, held, action,
):  # fmt: skip
    """The knots start .. stop-1: the failed one (or -1), the slope, the full step's change, the gradient's max-norm.

    It begins with the last knot's value, or, where stop < N, with the value that the room holds.
    before: slope, change and max-norm of later knots, which it continues: zeros where it begins.
    separable (N+1,): where l_zz is diagonal and equal to exact.  kept: T is that of an earlier sweep.
    gaps (N, n), torn: whether any is open, blocks (g, 2): see gaps.py.  low, high, held (N, nu), known: see box.py.
    action (nu, nu): where a knot fails, its Q_uu, for diagnoses.
    """
    p, r = read_model(model), read_room(room)
    n, nu, nz = p.n, p.nu, p.n + p.nu
    Q, q = rows_at(r.Q, nz, r.ld), rows_at(r.q, 2, r.ld)
    plain = not limited and not torn
    rows = 2 if plain else 3
    regular = plain and (blend == 0.0 or p.blocks != 0)
    small = regular and is_small(n, nu) and p.number == 0
    sized = regular and p.knot != 0
    slope, change, steepest = before
    if stop == p.N:
        start_at_end(model, room, blend, mu, separable)
    for t in range(stop - 1, start - 1, -1):
        if small:
            pivot, brought, g = step_small(model, room, t, blend, mu, separable[t])
            if abs(g) > steepest or np.isnan(g):
                steepest = abs(g)
            change += brought
            slope = 2.0 * change
            if pivot > 0.0 and abs(change) < np.inf:
                continue
            action[0, 0] = pivot if not pivot > 0.0 else np.nan
            return t, slope, change, steepest
        if torn:
            moved = arrive(room, gaps[t])
            slope, change = slope + moved[0], change + moved[1]
            if p.closing != 0:
                J = p.bends + t * p.turn
                weight = r.v + (8 * r.lx if by_costate else 0)
                if not known:
                    call_contraction(p.closing, p.closing_context, gaps[t].ctypes.data, weight, J)
                cross(room, blocks, J, J + 8 * n * n, blend)
        if blend > 0.0 and not kept:
            call_contraction(p.contraction, p.context, p.record + t * p.stride, r.v, p.T + t * p.step)
        bend_value(model, room, t, blend)
        brought = 1.0
        if sized:
            brought = call_knot(p.knot, model, room, t, separable[t], h, blend, mu)
        done = not brought > 0.0
        if not done:
            if sized:
                complete_in_place(room)
            act(model, room, t, rows, blend, mu, separable, h, bent)
        for i in range(nu):
            g = q[1, n + i]
            if limited and ((low[t, i] == 0.0 and g > 0.0) or (high[t, i] == 0.0 and g < 0.0)):
                continue
            if abs(g) > steepest or np.isnan(g):  # max would forget a NaN
                steepest = abs(g)
        if not done:
            forget_idle(room)
            if limited:
                done, brought = solve_in_box(model, room, t, low[t], high[t], known, held[t])
            else:
                done, brought = solve(model, room, t)
            if not done:
                act(model, room, t, rows, blend, mu, separable, h, bent)
                for i in range(nu):
                    for j in range(nu):
                        action[i, j] = Q[n + i, n + j]
                return t, slope, change, steepest
            value(room)
        change += brought
        if plain:
            slope = 2.0 * change
        else:
            slope += follow(model, room, t, limited)
        if not (abs(change) < np.inf):
            action[0, 0] = np.nan
            return t, slope, change, steepest
    return -1, slope, change, steepest


@kernel
def solve(model, room, t):
    """The policy of knot t: whether there is one, and what its step changes, by the model."""
    p = read_model(model)
    if not factorize(room):
        return False, 0.0
    return True, -0.5 * policy(room, p.k + 8 * t * p.nu, p.K + 8 * t * p.nu * p.n)


@kernel
def solve_in_box(model, room, t, low, high, known, held):
    """The same within limits: of the free controls, where others are held. The search is spared where all are free."""
    p, r = read_model(model), read_room(room)
    n, nu, ld = p.n, p.nu, r.ld
    nz, rows = n + nu, r.Q + 8 * n * ld
    k, box = numbers_at(p.k + 8 * t * nu, nu), rows_at(r.box, 4, nu)
    if not known:
        copy_rows(r.kept, ld, rows, ld, nu, nz)
        done, brought = solve(model, room, t)
        for i in range(nu):
            done = done and low[i] <= k[i] <= high[i]
        if done:
            for i in range(nu):
                held[i], box[0, i] = 0.0, 0.0
            return True, brought
        copy_rows(rows, ld, r.kept, ld, nu, nz)
    Q, q, L = rows_at(r.Q, nz, ld), numbers_at(r.q, nz), rows_at(r.L, nu, nu)
    done, constant = clamp(n, Q, q, low, high, known, held, box, L)
    if done:
        done, brought = solve(model, room, t)
        constant += brought
    return done, constant


@kernel
def follow(model, room, t, limited):
    """The gradient of the cost under the policy, v[2] := q_x + Kᵀ q_u of q[2]; and the slope q_u·k along k.

    With limits, k is completed by the steps of the controls that they hold.
    """
    p, r = read_model(model), read_room(room)
    k, gradient = numbers_at(p.k + 8 * t * p.nu, p.nu), numbers_at(r.q + 8 * (2 * r.ld + p.n), p.nu)
    steps = numbers_at(r.box, p.nu)
    slope = 0.0
    for i in range(p.nu):
        if limited:
            k[i] += steps[i]
        slope += gradient[i] * k[i]
    out = r.v + 16 * r.lx
    copy_rows(out, r.lx, r.q + 16 * r.ld, r.ld, 1, p.n)
    add_product(out, r.lx, 1, r.lx, r.q + 8 * (2 * r.ld + p.n), 0, 1, r.K, r.lx, p.nu)
    return slope
