# mypy: allow-untyped-defs, allow-untyped-calls
"""The full-space Newton step that a backward sweep leaves: states that move linearly, and the multipliers with them.

With g, H the gradient and Hessian that were swept, dx' = gap + J (A dx + B du), J of a gap as in `sweeps.gaps`,

    du = k + K dx                                                        the step
    w = Jᵀ λ',   λ = g_x + H_x dz + Aᵀ w + Kᵀ (g_u + H_u dz + Bᵀ w)      multipliers of the dynamics

which solves the Karush-Kuhn-Tucker system of the whole horizon. The bracket is zero but for rounding; with it λ stays
small where motion is unstable.
"""

from __future__ import annotations

import numpy as np

from ddp.compiling.kernel import call_contraction, kernel
from ddp.machine.memory import address_of
from ddp.sweeps.horizon import Horizon, own
from ddp.sweeps.limits import add_times, gradient_at, is_bent, roll


@kernel
def bend(horizon, weights):
    """J and C of all gaps, see `sweeps.gaps`, C contracted with weights (N, n): for sweeps that find them known."""
    p = Horizon(horizon)
    if is_bent(p):
        weight = np.int64(weights.ctypes.data)
        for t in range(p.N):
            at = weight + 8 * t * p.n
            call_contraction(p.closing, p.closing_context, address_of(p.gaps[t]), at, own(p.bends, t))


@kernel
def newton_step(horizon, x, u, y):
    """x (N+1, n), u (N, nu): the step of the last sweep; y (N+1, n): where the dynamics arrive, before their gaps."""
    p = Horizon(horizon)
    roll(p, False, u, x, y)


@kernel
def multipliers(horizon, blend, mu, x, u, y, follows, costate, weights):
    """costate (N+1, n): λ, weights (N, n): w of a step, or where x, u, y are zeros, of the point itself.

    follows: whether the gains are those of the last sweep; else they are zeros.
    """
    p = Horizon(horizon)
    n, nu, bent = p.n, p.nu, is_bent(p)
    g, c, m = np.zeros(n + nu), np.zeros(n), np.zeros(n)
    for t in range(p.N, -1, -1):
        gradient_at(p, t, blend, mu, u, x, y, g, c)
        if t < p.N:
            for i in range(n):
                add_times(g, m[i], p.A[t][i * n :], n)
                add_times(g[n:], m[i], p.B[t][i * nu :], nu)
            if follows:
                for i in range(nu):
                    add_times(g, g[n + i], p.K[t][i * n :], n)
        for i in range(n):
            costate[t, i] = m[i] = g[i]
        if t > 0:
            if bent:
                for i in range(n):
                    m[i] = c[i]
                for i in range(n):
                    add_times(m, g[i], p.bends[t - 1][i * n :], n)
            for i in range(n):
                weights[t - 1, i] = m[i]


@kernel
def stationarity(horizon, lz, costate, weights, out):
    """out (N+1, nz): the Lagrangian's gradient, lz + Fᵀ w - (λ, 0), without that in x_0, which is given."""
    p = Horizon(horizon)
    n, nu = p.n, p.nu
    for t in range(p.N + 1):
        g = out[t]
        for i in range(n + nu):
            g[i] = lz[t, i] if i < n or t < p.N else 0.0
        for i in range(n):
            g[i] -= costate[t, i]
            if t < p.N:
                add_times(g, weights[t, i], p.A[t][i * n :], n)
                add_times(g[n:], weights[t, i], p.B[t][i * nu :], nu)
    for i in range(n):
        out[0, i] = 0.0
