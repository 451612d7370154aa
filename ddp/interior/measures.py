# mypy: allow-untyped-defs, allow-untyped-calls
"""Kernels of a full-space point: sums and moves over whole trajectories, one pass each."""

from __future__ import annotations

import numpy as np

from ddp.compiling.kernel import inline, kernel
from ddp.constraints.bounds import rooms
from ddp.machine.algebra import dot
from ddp.machine.memory import floats_at, rows_of


@kernel
def sizes(gaps, residual):
    """The 2-norm of all numbers of gaps (M,) and residual (M,), and the largest of each; all NaN if a number is."""
    squares, _, gap = sums(gaps)
    others, _, missed = sums(residual)
    squares += others
    if squares != squares:
        return squares, squares, squares
    return np.sqrt(squares), gap, missed


@kernel
def absolute(numbers):
    """The largest of |numbers| (M,), and their sum; both NaN if one is."""
    _, total, largest = sums(numbers)
    return largest if total == total else total, total


@kernel
def sums(numbers):
    """Σ x², Σ |x| and the largest |x| of (M,), each of four parts side by side; only sums know NaN."""
    x, count = rows_of(numbers), numbers.shape[0]
    squares, total, largest = (0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0)
    whole = count // 4 * 4
    for i in range(0, whole, 4):
        a, b, c, d = abs(x[i]), abs(x[i + 1]), abs(x[i + 2]), abs(x[i + 3])
        squares = squares[0] + a * a, squares[1] + b * b, squares[2] + c * c, squares[3] + d * d
        total = total[0] + a, total[1] + b, total[2] + c, total[3] + d
        largest = max(largest[0], a), max(largest[1], b), max(largest[2], c), max(largest[3], d)
    square, one, most = sum4(squares), sum4(total), max(max(largest[0], largest[1]), max(largest[2], largest[3]))
    for i in range(whole, count):
        a = abs(x[i])
        square, one, most = square + a * a, one + a, max(most, a)
    return square, one, most


@inline
def sum4(parts):
    """The sum of four numbers."""
    return (parts[0] + parts[1]) + (parts[2] + parts[3])


@kernel
def slope(lz, x, u):
    """The change of the cost of gradients lz (N+1, nz) along x (N+1, n), u (N, nu)."""
    total, n, nu, g, dx, du = 0.0, x.shape[1], u.shape[1], rows_of(lz), rows_of(x), rows_of(u)
    for t in range(x.shape[0]):
        total += dot(g[t], dx[t], n)
        if t < u.shape[0]:
            total += dot(g[t][n:], du[t], nu)
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
def copy(to, place, count):
    """So many numbers at an address to another."""
    x, out = floats_at(place), floats_at(to)
    for i in range(count):
        out[i] = x[i]


@kernel
def put(to, numbers):
    """Numbers (M,) into others."""
    for i in range(numbers.shape[0]):
        to[i] = numbers[i]


@kernel
def multiply(numbers, factors):
    """Multiply each of some numbers (M,) by its factor."""
    for i in range(numbers.shape[0]):
        numbers[i] *= factors[i]


@kernel
def approach(alpha, place, towards, count):
    """So many numbers at an address go the fraction alpha of the way to those at another."""
    x, ends = floats_at(place), floats_at(towards)
    for i in range(count):
        x[i] += alpha * (ends[i] - x[i])


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
