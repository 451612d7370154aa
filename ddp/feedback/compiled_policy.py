# mypy: allow-untyped-defs, allow-untyped-calls
"""Controls of a policy as one C function: a difference on the manifold and a product of a matrix with it.

A table has a row for each step of time, of these numbers:

    t, 1/h [s, 1/s]       when the step begins, earlier by `ROUNDING`, and how long it lasts
    X (nx), D (n)         the state there, and X' ⊖ X to the one at its end
    U, B, A (nu)          the control in its middle, at its beginning and at its end
    lower, upper (nu)     limits of controls
    G (nu, n)             feedback on e = x ⊖ (X ⊕ s D), s the part of the step that is over
    C (nu), D (n), b      once for each limit: C du + D e <= b of what is added to the control
"""

import numpy as np

from ddp.compiling.kernel import call_contraction, callback, kernel
from ddp.machine.addresses import array_at
from ddp.machine.declared import each
from ddp.machine.memory import hold
from ddp.machine.struct import Struct, integer, matrix, real
from ddp.protocols import Array

SWEEPS = 8
"""Passes over the limits: of bounds on slippery ground, 20 have the same errors."""

ROUNDING = 1e-6
"""Part of a step by which a time may be off its beginning, and off the horizon."""


class Steps(Struct):
    """The table, sizes, how many limits a step has, the C function of `Tracked.deviation`, and the delay [s]."""

    table: Array = matrix()
    nx, n, nu, limits, deviation, context = each(6, integer)
    delay: float = real()


@kernel
def row_of(table, t):
    """Find the last row that begins at t or before, the first one if none does."""
    low, high = 0, len(table)
    while high - low > 1:
        middle = (low + high) // 2
        if table[middle][0] <= t:
            low = middle
        else:
            high = middle
    return low


@kernel
def part_of(row, t):
    """Part of a row's step that is over at t, between 0 and 1."""
    s = (t - row[0]) * row[1] - ROUNDING
    return 0.0 if s < ROUNDING else min(s, 1.0)


@kernel
def planned(row, s, at, nu, i):
    """Control i of a row, whose controls begin ``at``, when a part s of its step is over."""
    u = row[at + i]
    side = row[at + nu + i] if s < 0.5 else row[at + 2 * nu + i]
    return u + abs(2.0 * s - 1.0) * (side - u)


@kernel
def keep_limits(row, at, limits, n, nu, e, du):
    """du := the vector closest to du with C du + D e <= b, of limits that begin ``at``: Hildreth's method.

    Each limit in turn is met by a step along its C, of length 1, which it takes back as soon as it need not hold.
    """
    stride = nu + n + 1
    taken, room = np.zeros(limits), np.empty(limits)
    for i in range(limits):
        first = at + i * stride
        room[i] = row[first + nu + n]
        for j in range(n):
            room[i] -= row[first + nu + j] * e[j]
    for _ in range(SWEEPS):
        moved = 0.0
        for i in range(limits):
            first, beyond = at + i * stride, -room[i]
            for j in range(nu):
                beyond += row[first + j] * du[j]
            step = max(beyond, -taken[i])
            if step != 0.0:
                taken[i] += step
                moved += abs(step)
                for j in range(nu):
                    du[j] -= step * row[first + j]
        if moved == 0.0:
            break


@kernel
def follow(steps, t, x, u):
    """u := clip(U(t + delay) + du, lower, upper), du near G (x ⊖ X(t)) within limits, of the address of `Steps`."""
    p = Steps(steps)
    table, nx, n, nu = p.table, p.nx, p.n, p.nu
    row = table[row_of(table, t)]
    s = part_of(row, t)
    at, e = np.empty(nx + n), np.empty(n)
    for i in range(nx):
        at[i] = row[2 + i]
    for i in range(n):
        at[nx + i] = s * row[2 + nx + i]
    call_contraction(p.deviation, p.context, at.ctypes.data, x.ctypes.data, e.ctypes.data)
    hold(at)
    ahead, later = row, t + p.delay
    if later != t:
        ahead = table[row_of(table, later)]
        s = part_of(ahead, later)
    controls = 2 + nx + n
    limits = controls + 3 * nu
    gain, du = limits + 2 * nu, np.zeros(nu)
    for i in range(nu):
        for j in range(n):
            du[i] += row[gain + i * n + j] * e[j]
    keep_limits(row, gain + nu * n, p.limits, n, nu, e, du)
    for i in range(nu):
        value = planned(ahead, s, controls, nu, i) + du[i]
        u[i] = min(max(value, row[limits + i]), row[limits + nu + i])


@callback
def follow_at(steps, t, x, u):  # type: ignore[no-untyped-def]
    """The C function: addresses of `Steps`, of t, x (nx,) and u (nu,) to write."""
    p = Steps(steps)
    follow(steps, array_at(t, (1,))[0], array_at(x, (p.nx,)), array_at(u, (p.nu,)))
