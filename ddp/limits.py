"""Control limits over the whole horizon: the quadratic model's step, kept in the box by projected Newton.

A backward sweep finds which controls are held while the states are at their nominal; where its own policy leads them
it is others, and with weak actuators quite others. So the model's step (û, x̂) is rolled out in the linear model
and clipped,

    u = clip(û + β (k + K x̂ - û) + K (x - x̂)),    x' = F z + gap,

with β = 1, 1/2, ... until the model's cost Σ l_z·z + ½ zᵀ H z falls; the next sweep holds what the gradient holds.
It ends where nothing was clipped and no control is held that the gradient pulls off its limit: the minimum of the model
in the box. Every step on the way may be taken, and its promise is known exactly.
"""

from __future__ import annotations

import numpy as np

from ddp.gaps import close_gap, load
from ddp.kernel import kernel

SMALLEST, SMALLEST_OPEN = 2.0**-4, 2.0**-12
"""The smallest β that is tried; and without feedback, K = 0 in the formula, where that does not help: then the step is
that of projected Newton to the letter, which lowers the cost of a convex model for some β."""


@kernel
def improve(
    A, B, lz, lzz, exact, second, blend, mu, gaps, closing, context, low, high, k, K, value, u, x, U, X, W, held, c
):  # fmt: skip
    """Improve the model's step u (N, nu), x (N+1, n), of cost ``value``, by a policy: new cost, slope, whether done.

    U, W, X: work space of the same shapes. Nothing changes, and ``value`` is returned, where no β brings a decrease.
    """
    for gain in (1.0, 0.0):
        beta, smallest, target = 1.0, SMALLEST, k
        if gain == 0.0:
            roll(A, B, gaps, closing, context, low, high, False, k, K, 1.0, 1.0, u, x, W, X, c)
            smallest, target = SMALLEST_OPEN, W
        while beta >= smallest:
            clipped = roll(A, B, gaps, closing, context, low, high, True, target, K, gain, beta, u, x, U, X, c)
            cost, slope = model_cost(lz, lzz, exact, second, blend, mu, U, X)
            if cost < value:
                u[:], x[:] = U, X
                new = find_held(
                    A, B, lz, lzz, exact, second, blend, mu, gaps, closing, context, low, high, u, x, held, c
                )  # fmt: skip
                return cost, slope, gain * beta == 1.0 and not clipped and not new
            beta *= 0.5
    return value, 0.0, True


@kernel
def roll(A, B, gaps, closing, context, low, high, limited, k, K, gain, beta, u, x, U, X, c):
    """(U, X): the model's rollout, clipped if ``limited``, and whether anything was."""
    N, nu = u.shape
    n = X.shape[1]
    clipped = False
    X[0] = 0.0
    for t in range(N):
        load(A[t], B[t], c.F)
        close_gap(gaps[t], closing, context, c.v, c.F, c.D, c.J, c.w)
        for i in range(nu):
            total = u[t, i] + beta * (k[t, i] - u[t, i])
            for j in range(n):
                total += gain * K[t, i, j] * (X[t, j] + (beta - 1.0) * x[t, j])
            U[t, i] = total
            if limited:
                U[t, i] = min(max(total, low[t, i]), high[t, i])
            clipped = clipped or abs(U[t, i] - total) > 1e-9 * (1.0 + abs(total))
        for i in range(n):
            total = gaps[t, i]
            for j in range(n):
                total += c.F[i, j] * X[t, j]
            for j in range(nu):
                total += c.F[i, n + j] * U[t, j]
            X[t + 1, i] = total
    return clipped


@kernel
def gradient_at(t, lz, lzz, exact, second, blend, mu, U, X, g):
    """g (nz,) := l_z + H z of knot t; the last knot has no controls."""
    nz, n, N = g.size, X.shape[1], U.shape[0]
    size = nz if t < N else n
    for i in range(size):
        g[i] = lz[t, i]
        for j in range(size):
            h = lzz[t, i, j]
            if blend > 0.0:
                h += blend * (exact[t, i, j] - lzz[t, i, j] + (second[t, i, j] if t < N else 0.0))
            if i == j:
                h += mu
            g[i] += h * (X[t, j] if j < n else U[t, j - n])


@kernel
def model_cost(lz, lzz, exact, second, blend, mu, U, X):
    """Σ l_z·z + ½ zᵀ H z, and its linear part."""
    N, nu = U.shape
    n = X.shape[1]
    g = np.zeros(n + nu)
    cost, slope = 0.0, 0.0
    for t in range(N + 1):
        gradient_at(t, lz, lzz, exact, second, blend, mu, U, X, g)
        for i in range(n):
            cost += 0.5 * (g[i] + lz[t, i]) * X[t, i]
            slope += lz[t, i] * X[t, i]
        if t < N:
            for i in range(nu):
                cost += 0.5 * (g[n + i] + lz[t, n + i]) * U[t, i]
                slope += lz[t, n + i] * U[t, i]
    return cost, slope


@kernel
def find_held(A, B, lz, lzz, exact, second, blend, mu, gaps, closing, context, low, high, U, X, held, c):
    """held (N, nu): -1, 1 of controls that the model's gradient pushes against a limit; whether that is new."""
    N, nu = U.shape
    n = X.shape[1]
    released = False
    for t in range(N, -1, -1):
        gradient_at(t, lz, lzz, exact, second, blend, mu, U, X, c.g)
        if t < N:
            load(A[t], B[t], c.F)
            close_gap(gaps[t], closing, context, c.s, c.F, c.D, c.J, c.w)
            for i in range(n):
                for j in range(n + nu):
                    c.g[j] += c.F[i, j] * c.s[i]
            for i in range(nu):
                g, before = c.g[n + i], held[t, i]
                held[t, i] = 0.0
                if U[t, i] <= low[t, i] and g > 0.0:
                    held[t, i] = -1.0
                elif U[t, i] >= high[t, i] and g < 0.0:
                    held[t, i] = 1.0
                released = released or held[t, i] != before
        for i in range(n):
            c.s[i] = c.g[i]
    return released
