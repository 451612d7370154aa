# mypy: allow-untyped-defs, allow-untyped-calls
"""Costs' Hessians (N+1, nz, nz), or at separable knots their diagonals (N+1, nz)."""

import numpy as np

from ddp.compiling.kernel import inline, kernel
from ddp.machine.memory import hold, rows_of

EPSILON = float(np.finfo(float).eps)
OF_ROUNDING = EPSILON * EPSILON
"""Rounding, and rounding of rounding; products, as for powers numba compiles a loop in every first solve."""

DOWN_TO = 1e-6
"""The cost does not count as less than this fraction of what it fell by, or of ½ Σ l_xx x² + ½ Σ l_uu u² where that is
less, as after a guess that led far away, nor as less than rounding of rounding of the fall: both may end at zero."""

BEYOND, KNOTS, STEPS = 1e4, 4, 2
"""How many times the least of all weights, see `damping`, the mean weight of controls may be, as more tells of other
units; about how many knots tell, and in how many more steps of the dynamics controls move states."""


@kernel
def scales(l, separable, H, diagonal, A, B, X, U, cost, highest):
    """Find what judgements are relative to, see `Iterate`: magnitude, weight, damping, unit, resolution, noise, grain.

    l (N+1,): costs, in all ``cost``, which was ``highest`` once.   A (N, n, n), B (N, n, nu): of the dynamics.
    """
    N, n, nu, magnitude, effort, own, others = U.shape[0], H.shape[1] - U.shape[1], U.shape[1], 0.0, 0.0, 0.0, 0.0
    found, h, of_z, u, costs = np.zeros(n + nu), rows_of(H), rows_of(diagonal), rows_of(U), rows_of(l)
    weights = rows_of(found)
    for t in range(N + 1):  # the sums of a knot wait for no other's
        of_x, of_u, spent, apart, entries = 0.0, 0.0, 0.0, n + nu + 1, h[t]
        if separable[t]:
            apart, entries = 1, of_z[t]
        for i in range(n):
            entry = abs(entries[i * apart])
            of_x += entry
            weights[i] += entry
        for i in range(nu if t < N else 0):
            entry = abs(entries[(n + i) * apart])
            of_u += entry
            weights[n + i] += entry
            spent += 0.5 * entry * (u[t, i] * u[t, i])
        magnitude, others, own, effort = magnitude + abs(costs[t]), others + of_x, own + of_u, effort + spent
    weight = chosen(chosen(chosen(1.0, magnitude), others / ((N + 1) * n)), own / (N * nu))
    changed = effort + max(0.0, highest - cost)
    size = 0.5 * (weighed(found, 0, n, X, 2) + weighed(found, n, n + nu, U, 2))
    unit = max(min(magnitude, changed), DOWN_TO * min(changed, size), OF_ROUNDING * changed)
    grain = N * OF_ROUNDING * size
    least, noise = damping(weight, found, A, B), max(grain, 1e-12 * (unit + abs(cost)))
    return magnitude, weight, least, unit, EPSILON * magnitude, noise, grain


@inline
def chosen(weight, candidate):
    """A candidate if it is above zero and a number, else the weight."""
    return candidate if 0.0 < candidate < np.inf else weight


@kernel
def damping(weight, weights, A, B):
    """Number that mu is relative to: the weight of controls, or where that is `BEYOND` it, the least of all.

    mu is added to V and Q_uu alike: where states are of 1e6, or controls of very different size, the mean weight would
    hold some of them still. The least is that of any of the controls, or of what it costs to move any state.
    weights (n + nu,): sums over the horizon.   reach (n,): squares of how far a control that costs one half moves each
    state.
    """
    (N, n, nu), least, memory = B.shape, weight, np.zeros(2 * len(weights))
    a, b, w = rows_of(A), rows_of(B), rows_of(weights)
    step, reach, before = max(1, N // KNOTS), rows_of(memory), rows_of(memory)[n:]
    for j in range(nu):
        own = w[n + j] / N
        if 0.0 < own < np.inf:
            least = min(least, own)
            for t in range(0, N, step):
                for i in range(n):
                    moved = b[t, i * nu + j]
                    reach[i] = max(reach[i], moved * moved / own)
    for _ in range(STEPS):
        for i in range(n):
            before[i] = reach[i]
        for t in range(0, N, step):
            for i in range(n):
                for j in range(n):
                    moved = a[t, i * n + j]
                    reach[i] = max(reach[i], moved * moved * before[j])
    for i in range(n):
        if reach[i] * least > 1.0:
            least = 1.0 / reach[i]
    hold(memory)
    return least if weight > BEYOND * least > 0.0 else weight


@kernel
def weighed(weights, begin, end, a, power):
    """Σ w_i max_t |a_ti|^power of rows a (., m), power 1 or 2, weights w from ``begin`` to before ``end``.

    Where these are not m, as on manifolds, all are of the largest number of a.
    """
    x, w, columns, most, total = rows_of(a), rows_of(weights), a.shape[1], 0.0, 0.0
    own = columns == end - begin
    for i in range(columns):
        largest = 0.0 if own else most
        for t in range(len(x)):
            largest = max(largest, abs(x[t, i]))
        most = largest
        if own:
            total += w[begin + i] * (largest * largest if power == 2 else largest)
    if not own:
        for i in range(begin, end):
            total += w[i]
        total *= most * most if power == 2 else most
    return total
