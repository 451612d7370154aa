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

SMALLEST, SMALLEST_OPEN = 2.0**-4, 2.0**-12
"""The smallest β that is tried; and without feedback, K = 0 in the formula, where that does not help: then the step is
that of projected Newton to the letter, which lowers the cost of a convex model for some β."""


@kernel
def improve(
    A, B, lz, lzz, exact, diagonal, separable, second, bends, blend, mu, gaps, low, high, k, K, value, u, x, U, X, W,
    held,
):  # fmt: skip
    """Improve the model's step u (N, nu), x (N+1, n), of cost ``value``, by a policy: new cost, slope, whether done.

    separable (N+1,): where ``diagonal`` (N+1, nz) is all there is of l_zz and the exact Hessian.
    bends (N, 2, n, n): J and C of every gap, see gaps.py; (0, 2, n, n) where none is open, or states are flat.
    U, W, X: work space of the same shapes. Nothing changes, and ``value`` is returned, where no β brings a decrease.
    """
    y = np.zeros_like(X)
    model = lz, lzz, exact, diagonal, separable, second, bends, blend, mu
    for gain in (1.0, 0.0):
        beta, smallest, target = 1.0, SMALLEST, k
        if gain == 0.0:
            roll(A, B, bends, gaps, low, high, False, k, K, 1.0, 1.0, u, x, W, X, y)
            smallest, target = SMALLEST_OPEN, W
        while beta >= smallest:
            clipped = roll(A, B, bends, gaps, low, high, True, target, K, gain, beta, u, x, U, X, y)
            cost, slope = model_cost(*model, U, X, y)
            if cost < value:
                for t in range(len(x)):
                    for i in range(x.shape[1]):
                        x[t, i] = X[t, i]
                    if t < len(u):
                        for i in range(u.shape[1]):
                            u[t, i] = U[t, i]
                new = find_held(A, B, *model, low, high, u, x, y, held)
                return cost, slope, gain * beta == 1.0 and not clipped and not new
            beta *= 0.5
    return value, 0.0, True


@kernel
def roll(A, B, bends, gaps, low, high, limited, k, K, gain, beta, u, x, U, X, y):
    """(U, X): the model's rollout, clipped if ``limited``, and whether anything was; y[t + 1] = F z of knot t."""
    N, nu = u.shape
    n = X.shape[1]
    clipped = False
    dx = np.empty(n)
    X[0] = 0.0
    for t in range(N):
        for j in range(n):
            dx[j] = X[t, j] + (beta - 1.0) * x[t, j]
        for i in range(nu):
            total = u[t, i] + beta * (k[t, i] - u[t, i]) + gain * dot(K[t, i], dx, n)
            U[t, i] = total
            if limited:
                U[t, i] = min(max(total, low[t, i]), high[t, i])
            clipped = clipped or abs(U[t, i] - total) > 1e-9 * (1.0 + abs(total))
        for i in range(n):
            y[t + 1, i] = dot(A[t, i], X[t], n) + dot(B[t, i], U[t], nu)
        for i in range(n):
            X[t + 1, i] = gaps[t, i] + (y[t + 1, i] if len(bends) == 0 else dot(bends[t, 0, i], y[t + 1], n))
    return clipped


@kernel
def gradient_at(t, lz, lzz, exact, diagonal, separable, second, bends, blend, mu, U, X, y, g, c):
    """g (nz,) := l_z + H z of knot t, the last of which has no controls; c (n,) := C y of the gap before it."""
    nz, n, N = g.size, X.shape[1], U.shape[0]
    size = nz if t < N else n
    for i in range(size):
        g[i] = lz[t, i]
    for j in range(size):
        z = X[t, j] if j < n else U[t, j - n]
        g[j] += mu * z
        if separable[t]:
            g[j] += diagonal[t, j] * z
        if blend < 1.0 and not separable[t]:
            for i in range(size):
                g[i] += (1.0 - blend) * lzz[t, j, i] * z
        if blend > 0.0 and not separable[t]:
            for i in range(size):
                g[i] += blend * exact[t, j, i] * z
        if blend > 0.0 and t < N:
            for i in range(size):
                g[i] += blend * second[t, j, i] * z
    for i in range(n):
        c[i] = blend * dot(bends[t - 1, 1, i], y[t], n) if t > 0 and len(bends) > 0 else 0.0


@kernel
def model_cost(lz, lzz, exact, diagonal, separable, second, bends, blend, mu, U, X, y):
    """Σ l_z·z + ½ zᵀ H z + ½ yᵀ C y, and its linear part."""
    N, nu = U.shape
    n = X.shape[1]
    g, c = np.zeros(n + nu), np.zeros(n)
    cost, slope = 0.0, 0.0
    for t in range(N + 1):
        gradient_at(t, lz, lzz, exact, diagonal, separable, second, bends, blend, mu, U, X, y, g, c)
        for i in range(n):
            cost += 0.5 * ((g[i] + lz[t, i]) * X[t, i] + c[i] * y[t, i])
            slope += lz[t, i] * X[t, i]
        if t < N:
            for i in range(nu):
                cost += 0.5 * (g[n + i] + lz[t, n + i]) * U[t, i]
                slope += lz[t, n + i] * U[t, i]
    return cost, slope


@kernel
def find_held(A, B, lz, lzz, exact, diagonal, separable, second, bends, blend, mu, low, high, U, X, y, held):
    """held (N, nu): -1, 1 of controls that the model's gradient pushes against a limit; whether that is new."""
    N, nu = U.shape
    n = X.shape[1]
    g, c, s, m = np.zeros(n + nu), np.zeros(n), np.zeros(n), np.zeros(n)
    released = False
    for t in range(N, -1, -1):
        gradient_at(t, lz, lzz, exact, diagonal, separable, second, bends, blend, mu, U, X, y, g, c)
        if t < N:
            for i in range(n):
                for j in range(n):
                    g[j] += A[t, i, j] * m[i]
                for j in range(nu):
                    g[n + j] += B[t, i, j] * m[i]
            for i in range(nu):
                slope, before = g[n + i], held[t, i]
                held[t, i] = 0.0
                if U[t, i] <= low[t, i] and slope > 0.0:
                    held[t, i] = -1.0
                elif U[t, i] >= high[t, i] and slope < 0.0:
                    held[t, i] = 1.0
                released = released or held[t, i] != before
        bent = t > 0 and len(bends) > 0
        for i in range(n):  # m: the gradient in y of the gap before knot t
            s[i] = g[i]
            m[i] = c[i] if bent else g[i]
        if bent:
            for i in range(n):
                for j in range(n):
                    m[j] += bends[t - 1, 0, i, j] * s[i]
    return released
