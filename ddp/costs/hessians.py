# mypy: allow-untyped-defs, allow-untyped-calls
"""Costs' Hessians (N+1, nz, nz), or at separable knots their diagonals (N+1, nz)."""

import numpy as np

from ddp.compiling.kernel import kernel

EPSILON = float(np.finfo(float).eps)

DOWN_TO = 1e-6
"""The cost does not count as less than this fraction of what it fell by, or of ½ Σ l_xx x² + ½ Σ l_uu u² where that is
less, as after a guess that led far away, nor as less than rounding of rounding of the fall: both may end at zero."""


@kernel
def scales(l, separable, H, diagonal, X, U, cost, highest):
    """Find what judgements are relative to, see `Iterate`: magnitude, weight, unit, resolution, noise, grain.

    l (N+1,): costs, in all ``cost``, which was ``highest`` once.
    """
    N, n, nu, magnitude, effort, own, others = U.shape[0], H.shape[1] - U.shape[1], U.shape[1], 0.0, 0.0, 0.0, 0.0
    for t in range(N + 1):  # the sums of a knot wait for no other's
        of_x, of_u, spent = 0.0, 0.0, 0.0
        for i in range(n):
            of_x += abs(diagonal[t, i] if separable[t] else H[t, i, i])
        for i in range(nu if t < N else 0):
            entry = abs(diagonal[t, n + i] if separable[t] else H[t, n + i, n + i])
            of_u += entry
            spent += 0.5 * entry * U[t, i] ** 2
        magnitude, others, own, effort = magnitude + abs(l[t]), others + of_x, own + of_u, effort + spent
    weight = 1.0
    for candidate in (magnitude, others / ((N + 1) * n), own / (N * nu)):
        if 0.0 < candidate < np.inf:
            weight = candidate
    changed = effort + max(0.0, highest - cost)
    size = 0.5 * (others * largest_square(X) + own * largest_square(U))
    unit = max(min(magnitude, changed), DOWN_TO * min(changed, size), EPSILON**2 * changed)
    grain = N * EPSILON**2 * size
    return magnitude, weight, unit, EPSILON * magnitude, max(grain, 1e-12 * (unit + abs(cost))), grain


@kernel
def largest_square(a):
    """The square of the largest of numbers (., .)."""
    largest = 0.0
    for t in range(a.shape[0]):
        of_row = 0.0
        for i in range(a.shape[1]):
            of_row = max(of_row, abs(a[t, i]))
        largest = max(largest, of_row)
    return largest * largest
