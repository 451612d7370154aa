# mypy: allow-untyped-defs, allow-untyped-calls
"""Kernels of a full-space point: sums and moves over whole trajectories, one pass each."""

from __future__ import annotations

import numpy as np

from ddp.compiling.kernel import kernel
from ddp.constraints.bounds import rooms


@kernel
def sizes(gaps, residual):
    """The 2-norm of all numbers of gaps (N, n) and residual (M,), and the largest of each; all NaN if a number is."""
    squares, gap, missed = 0.0, 0.0, 0.0
    for t in range(gaps.shape[0]):
        for i in range(gaps.shape[1]):
            squares += gaps[t, i] * gaps[t, i]
            gap = max(gap, abs(gaps[t, i]))
    for i in range(residual.shape[0]):
        squares += residual[i] * residual[i]
        missed = max(missed, abs(residual[i]))
    if squares != squares:
        return squares, squares, squares
    return np.sqrt(squares), gap, missed


@kernel
def absolute(numbers):
    """The largest of |numbers| (M, n), and their sum; both NaN if one is."""
    largest, total = 0.0, 0.0
    for t in range(numbers.shape[0]):
        for i in range(numbers.shape[1]):
            largest = max(largest, abs(numbers[t, i]))
            total += abs(numbers[t, i])
    return largest if total == total else total, total


@kernel
def slope(lz, x, u):
    """The change of the cost of gradients lz (N+1, nz) along x (N+1, n), u (N, nu)."""
    total, n = 0.0, x.shape[1]
    for t in range(x.shape[0]):
        for i in range(n):
            total += lz[t, i] * x[t, i]
        if t < u.shape[0]:
            for i in range(u.shape[1]):
                total += lz[t, n + i] * u[t, i]
    return total


@kernel
def priced(multipliers, numbers):
    """Σ |multiplier · number| of (M,)."""
    total = 0.0
    for i in range(numbers.shape[0]):
        total += abs(multipliers[i] * numbers[i])
    return total


@kernel
def let_limits_hold(error, U, lower, upper):
    """Take what limits hold out of the Lagrangian's gradient ``error`` (N+1, nz) in controls U (N, nu)."""
    n = error.shape[1] - U.shape[1]
    for t in range(U.shape[0]):
        for i in range(U.shape[1]):
            low, high = rooms(U[t, i], lower[t, i], upper[t, i])
            slope = error[t, n + i]
            if (low >= 0.0 and slope > 0.0) or (high <= 0.0 and slope < 0.0):
                error[t, n + i] = 0.0


@kernel
def stay_off(U, lower, upper, share, low, high):
    """low, high := limits lower, upper of controls U (N, nu), each moved a share of its distance to these inside."""
    for t in range(U.shape[0]):
        for i in range(U.shape[1]):
            u, below, above = U[t, i], lower[t, i], upper[t, i]
            low[t, i] = below + share * (u - below) if abs(below) < np.inf else below
            high[t, i] = above + share * (u - above) if abs(above) < np.inf else above


@kernel
def copy(to, numbers):
    """Numbers (M, n) into others."""
    for t in range(numbers.shape[0]):
        for i in range(numbers.shape[1]):
            to[t, i] = numbers[t, i]


@kernel
def put(to, numbers):
    """Numbers (M,) into others."""
    for i in range(numbers.shape[0]):
        to[i] = numbers[i]


@kernel
def approach(alpha, numbers, towards):
    """Numbers (M, n) go the fraction alpha of the way."""
    for t in range(numbers.shape[0]):
        for i in range(numbers.shape[1]):
            numbers[t, i] += alpha * (towards[t, i] - numbers[t, i])


@kernel
def spread(dense, separable, diagonal, H, out):
    """out (N+1, nz, nz) := H at knots that are dense, or its diagonal (N+1, nz) where it is known to be separable."""
    for t in range(H.shape[0]):
        if dense[t]:
            for i in range(H.shape[1]):
                for j in range(H.shape[1]):
                    out[t, i, j] = 0.0 if separable[t] else H[t, i, j]
                if separable[t]:
                    out[t, i, i] = diagonal[t, i]
