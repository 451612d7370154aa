# mypy: allow-untyped-defs, allow-untyped-calls
"""Costs' Hessians (N+1, nz, nz), or at separable knots their diagonals (N+1, nz)."""

import numpy as np

from ddp.compiling.kernel import kernel

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
    weights = np.zeros(n + nu)
    for t in range(N + 1):  # the sums of a knot wait for no other's
        of_x, of_u, spent = 0.0, 0.0, 0.0
        for i in range(n):
            entry = abs(diagonal[t, i] if separable[t] else H[t, i, i])
            of_x += entry
            weights[i] += entry
        for i in range(nu if t < N else 0):
            entry = abs(diagonal[t, n + i] if separable[t] else H[t, n + i, n + i])
            of_u += entry
            weights[n + i] += entry
            spent += 0.5 * entry * (U[t, i] * U[t, i])
        magnitude, others, own, effort = magnitude + abs(l[t]), others + of_x, own + of_u, effort + spent
    weight = 1.0
    for candidate in (magnitude, others / ((N + 1) * n), own / (N * nu)):
        if 0.0 < candidate < np.inf:
            weight = candidate
    changed = effort + max(0.0, highest - cost)
    size = 0.5 * (weighed(weights, 0, n, X, 2) + weighed(weights, n, n + nu, U, 2))
    unit = max(min(magnitude, changed), DOWN_TO * min(changed, size), OF_ROUNDING * changed)
    grain = N * OF_ROUNDING * size
    least, noise = damping(weight, weights, A, B), max(grain, 1e-12 * (unit + abs(cost)))
    return magnitude, weight, least, unit, EPSILON * magnitude, noise, grain


@kernel
def damping(weight, weights, A, B):
    """Number that mu is relative to: the weight of controls, or where that is `BEYOND` it, the least of all.

    mu is added to V and Q_uu alike: where states are of 1e6, or controls of very different size, the mean weight would
    hold some of them still. The least is that of any of the controls, or of what it costs to move any state.
    weights (n + nu,): sums over the horizon.   reach (n,): squares of how far a control that costs one half moves each
    state.
    """
    N, n, nu = B.shape
    step, reach, least = max(1, N // KNOTS), np.zeros(n), weight
    for j in range(nu):
        own = weights[n + j] / N
        if 0.0 < own < np.inf:
            least = min(least, own)
            for t in range(0, N, step):
                for i in range(n):
                    reach[i] = max(reach[i], B[t, i, j] * B[t, i, j] / own)
    for _ in range(STEPS):
        before = reach.copy()
        for t in range(0, N, step):
            for i in range(n):
                for j in range(n):
                    reach[i] = max(reach[i], A[t, i, j] * A[t, i, j] * before[j])
    for i in range(n):
        if reach[i] * least > 1.0:
            least = 1.0 / reach[i]
    return least if weight > BEYOND * least > 0.0 else weight


@kernel
def weighed(weights, begin, end, a, power):
    """Σ w_i max_t |a_ti|^power of rows a (., m), power 1 or 2, weights w from ``begin`` to before ``end``.

    Where these are not m, as on manifolds, all are of the largest number of a.
    """
    own, most, total = a.shape[1] == end - begin, 0.0, 0.0
    for i in range(a.shape[1]):
        largest = 0.0 if own else most
        for t in range(a.shape[0]):
            largest = max(largest, abs(a[t, i]))
        most = largest
        if own:
            total += weights[begin + i] * (largest * largest if power == 2 else largest)
    if not own:
        for i in range(begin, end):
            total += weights[i]
        total *= most * most if power == 2 else most
    return total
