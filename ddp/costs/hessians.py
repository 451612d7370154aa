# mypy: allow-untyped-defs, allow-untyped-calls
"""Costs' Hessians (N+1, nz, nz), or at separable knots their diagonals (N+1, nz)."""

from __future__ import annotations

import numpy as np

from ddp.compiling.kernel import kernel

EPSILON = float(np.finfo(float).eps)

DOWN_TO = 1e-6
"""The cost does not count as less than this fraction of what it fell by: it may end at zero."""


@kernel
def scales(l, separable, H, diagonal, X, U, cost, highest):
    """Find what judgements are relative to, see `Iterate`: magnitude, weight, unit, resolution, noise, grain.

    l (N+1,): costs, in all ``cost``, which was ``highest`` once.
    """
    nz, nu, magnitude, effort, own, others = H.shape[1], U.shape[1], 0.0, 0.0, 0.0, 0.0
    for t in range(H.shape[0]):
        magnitude += abs(l[t])
        for i in range(nz):
            entry = abs(diagonal[t, i] if separable[t] else H[t, i, i])
            if i < nz - nu:
                others += entry
            elif t < H.shape[0] - 1:
                own += entry
                effort += 0.5 * entry * U[t, i - nz + nu] ** 2
    weight = 1.0
    for candidate in (magnitude, others / (H.shape[0] * (nz - nu)), own / ((H.shape[0] - 1) * nu)):
        if 0.0 < candidate < np.inf:
            weight = candidate
    changed = effort + max(0.0, highest - cost)
    unit = max(min(magnitude, changed), DOWN_TO * changed)
    grain = 0.5 * U.shape[0] * EPSILON**2 * (others * largest_square(X) + own * largest_square(U))
    return magnitude, weight, unit, EPSILON * magnitude, max(grain, 1e-12 * (unit + abs(cost))), grain


@kernel
def largest_square(a):
    """The square of the largest of numbers (., .)."""
    largest = 0.0
    for t in range(a.shape[0]):
        for i in range(a.shape[1]):
            largest = max(largest, abs(a[t, i]))
    return largest * largest
