# mypy: allow-untyped-defs, allow-untyped-calls
"""The recursion of backward.py on register tiles: the knots of a horizon, or of a part of it, from last to earliest."""

import numpy as np
from numba.types import UniTuple, float64

from ddp.compiling.kernel import apart, call_contraction, inline, kernel
from ddp.machine.addresses import array_at
from ddp.machine.memory import address_of, floats_at
from ddp.machine.number import all_less, spread, where_less
from ddp.machine.rows import clear_rows, copy_rows, copy_upper, write_rows
from ddp.machine.tiles import add_product
from ddp.machine.triangles import magnitude
from ddp.sweeps.box import hold, step_of_held
from ddp.sweeps.gaps import arrive, cross
from ddp.sweeps.horizon import SLOPED, Horizon, add_costs, load_costs, own
from ddp.sweeps.riccati import (
    SMALLEST,
    action_value,
    add_blocks,
    add_coupling,
    add_diagonal,
    add_ends,
    add_hessian,
    bend,
    complete,
    factorize,
    forget_idle,
    is_given,
    load_step,
    policy,
    value,
)
from ddp.sweeps.room import read_room
from ddp.systems.system import COUPLED, ENDING

MANY = 32
"""States and controls from which on less time is taken by the parts of Hessians that costs couple than by a copy."""

NOTHING = (0.0, 0.0, 0.0)
"""Sums of a sweep at its end: slope, change, and the max-norm of the gradient."""


@apart
def start_at_end(horizon, room, blend, mu):
    """The room's value := that of the last knot."""
    p, r = Horizon(horizon), read_room(room)
    nz = r.n + r.nu
    if is_whole(p, r, p.N):
        load_costs(p, r, p.N, blend)
    else:
        clear_rows(r.Q, r.ld, nz, r.ld)
    complete_costs(p, r, p.N, blend, mu)
    copy_upper(r.V, r.lx, r.Q, r.ld, r.n, r.lx)
    complete(r)
    copy_rows(r.v, r.lx, address_of(p.lz[p.N]), 0, 3, r.n)


@kernel
def act(p, r, t, rows, blend, mu):
    """The action value of knot t from the next value, where that arrives, and from T of this knot."""
    start, stride = begin_with_costs(p, r, t, blend)
    T, bent, second = 0, p.bent, has_second(blend)
    if second and has_blocks(p):
        T = own(p.T, t)
        bend(r, blend, T, bent)
        if has_ends(p):
            add_ends(r, blend, T, bent)
    load_step(r, bent, address_of(p.A[t]), address_of(p.B[t]))
    action_value(r, p.h[t:], bent, rows, start, stride, address_of(p.lz[t]), blend, T)
    if is_given(T):
        add_blocks(r, blend, T)
        if has_coupling(p):
            add_coupling(r, blend, T, bent)
    elif second:
        add_hessian(r, blend, own(p.T, t))
    complete_costs(p, r, t, blend, mu)  # last, registers wait for numbers


@kernel
def begin_with_costs(p, r, t, blend):
    """Address and stride of what products of knot t are added to: its costs, or zeros where these couple little."""
    if is_whole(p, r, t):
        load_costs(p, r, t, blend)
        return r.Q, r.ld
    return r.zeros, 0


@inline
def is_whole(p, r, t):
    """Whether costs of knot t are read as a whole: they may couple all states and controls, or these are few."""
    return p.coupled[t] == r.n + r.nu or (p.coupled[t] > 0 and r.n + r.nu < MANY)


@kernel
def complete_costs(p, r, t, blend, mu):
    """Add mu to the diagonal of Q, and costs of knot t that couple little."""
    if p.coupled[t] == 0:
        add_diagonal(r, mu, address_of(p.diagonal[t]))
        return
    if not is_whole(p, r, t):
        add_costs(p, r, t, blend)
    add_diagonal(r, mu, 0)


@inline
def has_second(blend):
    """Whether the second order of the dynamics has a share."""
    return not all_less(blend, SMALLEST)


@inline
def has_blocks(p):
    """Whether second orders are blocks."""
    return p.in_blocks != 0


@inline
def has_coupling(p):
    """Whether second orders are blocks of controls, too."""
    return p.in_blocks >= COUPLED


@inline
def has_ends(p):
    """Whether second orders are blocks of where steps end, too."""
    return p.in_blocks == ENDING


@inline
def contract(p, r, t):
    """Contract the second order of knot t with the next value's gradient."""
    call_contraction(p.contraction, p.context, address_of(p.record[t]), r.v, own(p.T, t))


@kernel
def sweep(horizon, room, start, stop, before, blend, mu, by_costate, kept, known):
    """The knots start .. stop-1: the failed one (or -1), the slope, the full step's change, the gradient's max-norm.

    It begins with the last knot's value, or, where stop < N, with the value that the room holds.
    horizon, room: addresses of a `Horizon` and a `Room`.
    before: slope, change and max-norm of later knots, which it continues: zeros where it begins.
    by_costate: what gaps' curvature is contracted with.
    kept: whether T is that of an earlier sweep; known: whether bends are, and no control is held but those that are.
    Within limits the slope is to be found by a rollout, see limits.py; across gaps it is only where these are `SLOPED`.
    Of lanes, ``before``, blend, mu and what is returned are lanes: where one has failed others go on.
    """
    p, r = Horizon(horizon), read_room(room)
    n, nu = r.n, r.nu
    q, limited = array_at(r.q, (2, r.ld)), p.limited != 0
    torn, sloped = p.torn != 0, p.torn == SLOPED
    slope, change, steepest = before
    failed = spread(-1.0, change)
    if stop == p.N:
        start_at_end(horizon, room, blend, mu)
    for t in range(stop - 1, start - 1, -1):
        if torn:
            moved = cross_gap(horizon, room, t, blend, by_costate, known)
            slope, change = slope + moved[0], change + moved[1]
        if not kept and has_second(blend):
            contract(p, r, t)
        act(p, r, t, 3 if sloped else 2, blend, mu)
        for i in range(nu):
            g = q[1, n + i]
            if limited and is_pushed(p, t, i, g):
                continue
            larger = where_less(magnitude(g), steepest, steepest, magnitude(g))
            steepest = where_less(steepest, np.inf, larger, steepest)  # max would forget a NaN
        write_rows(address_of(p.action), nu, r.Q + 8 * n * (r.ld + 1), r.ld, nu, nu)
        forget_idle(r)
        if limited:
            change += hold(horizon, room, t, known)
        positive, brought = solve(p, r, t)
        failed = where_less(positive, 0.5, where_less(failed, 0.0, float(t), failed), failed)
        if all_less(-0.5, failed):
            return knot_of(failed), slope, change, steepest
        if limited:
            for i in range(nu):
                if p.held[t, i] != 0.0:
                    p.k[t, i] = step_of_held(p, t, i)
        value(r)
        change += brought
        if sloped:
            slope += follow(horizon, room, t)
        elif not torn:
            slope = 2.0 * change
        failed = where_less(magnitude(change), np.inf, failed, where_less(failed, 0.0, float(t), failed))
        if all_less(-0.5, failed):
            p.action[0] = np.nan
            return knot_of(failed), slope, change, steepest
    return knot_of(failed), slope, change, steepest


@inline
def knot_of(failed):
    """The number of a knot as an integer."""
    return int(failed)


@kernel
def is_pushed(p, t, i, g):
    """Whether a control is at a limit that a gradient pushes it against."""
    return (p.low[t, i] == 0.0 and g > 0.0) or (p.high[t, i] == 0.0 and g < 0.0)


@apart(returns=UniTuple(float64, 2))
def cross_gap(horizon, room, t, blend, by_costate, known):
    """The value where the dynamics arrive, from that behind the gap; what crossing it changes of slope and value."""
    p, r = Horizon(horizon), read_room(room)
    moved = arrive(r, p.gaps[t])
    if p.closing != 0:
        bend_across(horizon, room, t, blend, by_costate, known)
    return moved


@apart
def bend_across(horizon, room, t, blend, by_costate, known):
    """Bend the value, on the manifold, by how a gap bends derivatives."""
    p, r = Horizon(horizon), read_room(room)
    J = own(p.bends, t)
    if not known:
        weight = r.v + (8 * r.lx if by_costate else 0)
        call_contraction(p.closing, p.closing_context, address_of(p.gaps[t]), weight, J)
    cross(r, p.crossed, J, J + 8 * r.n * r.n, blend)


@kernel
def solve(p, r, t):
    """Write the policy of knot t: 1 if there is one, else 0, and what its step changes, by the model."""
    positive = factorize(r)
    brought = spread(0.0, positive)
    if not all_less(positive, 0.5):
        brought = -0.5 * policy(r, address_of(p.k[t]), address_of(p.K[t]))
    return positive, brought


@apart(returns=float64)
def follow(horizon, room, t):
    """The gradient of the cost under the policy, v[2] := q_x + Kᵀ q_u of q[2]; and the slope q_u·k along k."""
    p, r = Horizon(horizon), read_room(room)
    k, gradient = p.k[t], floats_at(r.q + 8 * (2 * r.ld + r.n))
    slope = 0.0
    for i in range(r.nu):
        slope += gradient[i] * k[i]
    out = r.v + 16 * r.lx
    copy_rows(out, r.lx, r.q + 16 * r.ld, r.ld, 1, r.n)
    add_product(out, r.lx, 1, r.lx, r.q + 8 * (2 * r.ld + r.n), r.nu, 1, r.K, r.lx, r.nu)
    return slope
