# mypy: allow-untyped-defs, allow-untyped-calls
"""Control limits over the whole horizon: the quadratic model's step, kept in the box by projected Newton.

A backward sweep finds which controls are held while the states are at their nominal; where its own policy leads them
it is others, and with weak actuators quite others. So the model's step (û, x̂) is rolled out in the linear model
and clipped,

    u = clip(û + β (k + K x̂ - û) + K (x - x̂)),    y = F z,    x' = gap + J y,

with β = 1, 1/2, ... until the model's cost Σ l_z·z + ½ zᵀ H z + ½ yᵀ C y falls; the next sweep holds what the
gradient holds. It ends where nothing was clipped and no control is held that the gradient pulls off its limit: the
minimum of the model in the box. Every step on the way may be taken, and its promise is known exactly.
"""

from __future__ import annotations

import numpy as np

from ddp.compiling.kernel import kernel
from ddp.machine.algebra import dot
from ddp.sweeps.horizon import Horizon

SMALLEST, SMALLEST_OPEN = 2.0**-4, 2.0**-12
"""The smallest β that is tried; and without feedback, K = 0 in the formula, where that does not help: then the step is
that of projected Newton to the letter, which lowers the cost of a convex model for some β."""


@kernel
def improve(horizon, blend, mu, value, u, x):
    """Improve the model's step u (N, nu), x (N+1, n), of cost ``value``, by the policy of the last sweep.

    horizon: the address of a `Horizon`, whose ``held`` becomes what the gradient at the new step holds. Returns the new
    cost, the slope, and whether nothing is left to improve. Nothing changes, and ``value`` is returned, where no β
    brings a decrease.
    """
    p = Horizon(horizon)
    U, X, W, y = np.empty_like(u), np.empty_like(x), np.empty_like(u), np.zeros_like(x)
    G, C = np.zeros((p.N + 1, p.n + p.nu)), np.zeros_like(x)
    for gain in (1.0, 0.0):
        beta, smallest = 1.0, SMALLEST
        if gain == 0.0:
            roll(p, False, 1.0, 1.0, u, x, W, W, X, y)
            smallest = SMALLEST_OPEN
        while beta >= smallest:
            clipped = roll(p, True, gain, beta, u, x, W, U, X, y)
            cost, slope = model_cost(p, blend, mu, U, X, y, G, C)
            if cost < value:
                keep(u, U)
                keep(x, X)
                new = find_held(p, u, G, C)
                return cost, slope, gain * beta == 1.0 and not clipped and not new
            beta *= 0.5
    return value, 0.0, True


@kernel
def keep(out, rows):
    """out := rows."""
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            out[i, j] = rows[i, j]


@kernel
def write_policy(horizon, u, x, k, K):
    """k (N, nu), K (N, nu n) := the policy that leads to the model's step u, x, with the gains of the last sweep."""
    p = Horizon(horizon)
    for t in range(p.N):
        for i in range(p.nu):
            k[t, i] = u[t, i] - dot(p.K[t][i * p.n :], x[t], p.n)
        for i in range(p.nu * p.n):
            K[t, i] = p.K[t, i]


@kernel
def is_bent(p):
    """Whether gaps bend what they are crossed by: J and C are in ``bends`` then, for every one."""
    return p.torn != 0 and p.closing != 0


@kernel
def roll(p, limited, gain, beta, u, x, W, U, X, y):
    """(U, X): the model's rollout, clipped if ``limited``, and whether anything was; y[t + 1] = F z of knot t.

    It goes to the policy's k with feedback, ``gain`` = 1, to the controls W without, ``gain`` = 0.
    """
    n, nu, bent = p.n, p.nu, is_bent(p)
    clipped = False
    dx = np.empty(n)
    X[0] = 0.0
    for t in range(p.N):
        for j in range(n):
            dx[j] = X[t, j] + (beta - 1.0) * x[t, j]
        for i in range(nu):
            aim = p.k[t, i] if gain > 0.0 else W[t, i]
            total = u[t, i] + beta * (aim - u[t, i]) + gain * dot(p.K[t][i * n :], dx, n)
            U[t, i] = total
            if limited:
                U[t, i] = min(max(total, p.low[t, i]), p.high[t, i])
            clipped = clipped or abs(U[t, i] - total) > 1e-9 * (1.0 + abs(total))
        for i in range(n):
            y[t + 1, i] = dot(p.A[t][i * n :], X[t], n) + dot(p.B[t][i * nu :], U[t], nu)
        for i in range(n):
            X[t + 1, i] = p.gaps[t, i] + (dot(p.bends[t][i * n :], y[t + 1], n) if bent else y[t + 1, i])
    return clipped


@kernel
def gradient_at(p, t, blend, mu, U, X, y, g, c):
    """g (nz,) := l_z + H z of knot t, the last of which has no controls; c (n,) := C y of the gap before it."""
    n, nz, bent = p.n, p.n + p.nu, is_bent(p) and t > 0
    size = nz if t < p.N else n
    for i in range(size):
        g[i] = p.lz[t, i]
    for j in range(size):
        z = X[t, j] if j < n else U[t, j - n]
        g[j] += mu * z
        if p.separable[t]:
            g[j] += p.diagonal[t, j] * z
        elif blend < 1.0:
            add_times(g, (1.0 - blend) * z, p.lzz[t][j * nz :], size)
        if blend > 0.0 and not p.separable[t]:
            add_times(g, blend * z, p.exact[t][j * nz :], size)
        if blend > 0.0 and t < p.N:
            add_times(g, blend * z, p.T[t][j * nz :], size)
    for i in range(n):
        c[i] = blend * dot(p.bends[t - 1][(n + i) * n :], y[t], n) if bent else 0.0


@kernel
def add_times(g, factor, row, size):
    """g += factor times a row, their first ``size`` numbers."""
    for i in range(size):
        g[i] += factor * row[i]


@kernel
def model_cost(p, blend, mu, U, X, y, G, C):
    """Σ l_z·z + ½ zᵀ H z + ½ yᵀ C y, and its linear part; G (N+1, nz), C (N+1, n): see `gradient_at`."""
    n, nu = p.n, p.nu
    cost, slope = 0.0, 0.0
    for t in range(p.N + 1):
        g, c = G[t], C[t]
        gradient_at(p, t, blend, mu, U, X, y, g, c)
        for i in range(n):
            cost += 0.5 * ((g[i] + p.lz[t, i]) * X[t, i] + c[i] * y[t, i])
            slope += p.lz[t, i] * X[t, i]
        if t < p.N:
            for i in range(nu):
                cost += 0.5 * (g[n + i] + p.lz[t, n + i]) * U[t, i]
                slope += p.lz[t, n + i] * U[t, i]
    return cost, slope


@kernel
def find_held(p, U, G, C):
    """held (N, nu): -1, 1 of controls that the model's gradient pushes against a limit; whether that is new.

    G, C: as `model_cost` leaves them; they are used up.
    """
    n, nu = p.n, p.nu
    s, m = np.zeros(n), np.zeros(n)
    released = False
    for t in range(p.N, -1, -1):
        g, c = G[t], C[t]
        if t < p.N:
            for i in range(n):
                add_times(g, m[i], p.A[t][i * n :], n)
                add_times(g[n:], m[i], p.B[t][i * nu :], nu)
            for i in range(nu):
                slope, before = g[n + i], p.held[t, i]
                p.held[t, i] = 0.0
                if U[t, i] <= p.low[t, i] and slope > 0.0:
                    p.held[t, i] = -1.0
                elif U[t, i] >= p.high[t, i] and slope < 0.0:
                    p.held[t, i] = 1.0
                released = released or p.held[t, i] != before
        bent = is_bent(p) and t > 0
        for i in range(n):  # m: the gradient in y of the gap before knot t
            s[i] = g[i]
            m[i] = c[i] if bent else g[i]
        if bent:
            for i in range(n):
                add_times(m, s[i], p.bends[t - 1][i * n :], n)
    return released
