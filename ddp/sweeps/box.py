# mypy: allow-untyped-defs, allow-untyped-calls
"""Control limits at one knot: controls that are held at a limit become constants, the policy is that of the others.

Which ones are held is found over the whole horizon, see limits.py; here it is given.
"""

from numba import float64

from ddp.compiling.kernel import apart, kernel
from ddp.machine.addresses import array_at
from ddp.machine.memory import floats_at
from ddp.sweeps.horizon import Horizon
from ddp.sweeps.room import read_room


@kernel
def step_of_held(p, t, i):
    """Step that takes a held control to its limit."""
    return p.low[t, i] if p.held[t, i] < 0.0 else p.high[t, i]


@apart(returns=float64)
def hold(horizon, room, t, known):
    """Make held controls constants of knot t; returns what their steps add to the value, by the model.

    Unless they are ``known`` those are held, too, that are at a limit which the gradient pushes them against.

    ``rows`` of the knot become those of u in Q, and q_u. Then q is the gradient with held controls in place; their rows
    and columns among rows u of Q become those of the unit matrix, so that the policy of what is left has zeros there.
    """
    p, r = Horizon(horizon), read_room(room)
    n, nu = r.n, r.nu
    nz = n + nu
    Q, q, rows = array_at(r.Q, (nz, r.ld)), floats_at(r.q), p.rows[t]
    some = False
    for i in range(nu):
        for j in range(nz):
            rows[i * (nz + 1) + j] = Q[n + i, j]
        rows[i * (nz + 1) + nz] = q[n + i]
        if not known and p.held[t, i] == 0.0:
            if p.low[t, i] == 0.0 and q[n + i] > 0.0:
                p.held[t, i] = -1.0
            elif p.high[t, i] == 0.0 and q[n + i] < 0.0:
                p.held[t, i] = 1.0
        some = some or p.held[t, i] != 0.0
    constant = 0.0
    if some:
        for i in range(nu):
            if p.held[t, i] != 0.0:
                step = step_of_held(p, t, i)
                constant += step * rows[i * (nz + 1) + nz]
                for j in range(nu):
                    if p.held[t, j] != 0.0:
                        constant += 0.5 * step * step_of_held(p, t, j) * rows[i * (nz + 1) + n + j]
                for j in range(nz):
                    q[j] += step * rows[i * (nz + 1) + j]
        separate(p, Q, q, t, n, nu)
    return constant


@kernel
def separate(p, Q, q, t, n, nu):
    """Rows and columns of held controls := those of the unit matrix, and their gradients zero."""
    for i in range(nu):
        if p.held[t, i] != 0.0:
            q[n + i] = 0.0
            for j in range(n + nu):
                Q[n + i, j] = 0.0
            for j in range(nu):
                Q[n + j, n + i] = 0.0
            Q[n + i, n + i] = 1.0
