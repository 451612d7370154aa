# mypy: allow-untyped-defs, allow-untyped-calls
"""Kernels of a full-space point: sums and moves over whole trajectories, one pass each."""

import math

import numpy as np
from numba import float64
from numba.types import UniTuple

from ddp.compiling.kernel import apart, inline, kernel
from ddp.constraints.bounds import rooms
from ddp.machine.memory import floats_at, rows_of
from ddp.machine.number import WIDTH, lane_of, where_less
from ddp.machine.simd import load_some, multiply_add, store_some
from ddp.machine.triangles import magnitude

HALFWAY = 0.5**0.5
"""Shares of a power of two below this are nearer to its half, by their ratio."""


@inline
def nearest_power(size):
    """The power of two next to a size, by their ratio: also of one midway as many times larger where the size is."""
    share, exponent = math.frexp(size)
    return math.ldexp(1.0, exponent - 1 if share < HALFWAY else exponent)


@kernel
def to_powers_of_two(sizes):
    """Make each of some sizes (M,) the power of two next to it."""
    for i in range(sizes.shape[0]):
        sizes[i] = nearest_power(sizes[i])


@kernel
def weights(separable, diagonal, H, n):
    """Sums (nz,) over the horizon of the diagonals of Hessians of costs, as absolute numbers.

    separable, H, diagonal: as of `ddp.costs.hessians.scales`.
    """
    nz, found, h, of_z = H.shape[1], np.zeros(H.shape[1]), rows_of(H), rows_of(diagonal)
    total = rows_of(found)
    for t in range(len(h)):
        apart, entries = nz + 1, h[t]
        if separable[t]:
            apart, entries = 1, of_z[t]
        for i in range(nz if t < len(h) - 1 else n):
            total[i] += abs(entries[i * apart])
    return found


@kernel
def gauge(size, out):
    """Factors out (N, n) of gaps := inverses of powers of two next to sizes (nz,) of states; whether any is not one."""
    any_other, own, factors = False, rows_of(size), rows_of(out)
    for i in range(out.shape[1]):
        factor = 1.0 / nearest_power(own[i])
        any_other = any_other or factor != 1.0
        for t in range(len(factors)):
            factors[t, i] = factor
    return any_other


@kernel
def sizes(of_gaps, residual, count):
    """The 2-norm of gaps, of which are `sums`, and residual (count,), and the largest of each; all NaN if a number is.

    Numbers of this kernel, and of `absolute`, `sums`, `slope` and `priced`, are at addresses: arrays, of seven words,
    would make compiling the callers take longer.
    """
    squares, _, gap = of_gaps
    others, _, missed = sums(residual, count)
    squares += others
    if squares != squares:
        return squares, squares, squares
    return np.sqrt(squares), gap, missed


@kernel
def absolute(numbers, count):
    """The largest of |numbers| (count,), and their sum; both NaN if one is."""
    _, total, largest = sums(numbers, count)
    return largest if total == total else total, total


@kernel
def sums(numbers, count):
    """Σ x², Σ |x| and the largest |x| of (count,), each of eight parts side by side; only sums know NaN."""
    x = floats_at(numbers)
    squares = total = largest = load_some(x, 0, 0)
    for i in range(0, count, WIDTH):
        a = load_some(x, i, count - i)
        size = magnitude(a)
        squares, total, largest = squares + a * a, total + size, where_less(largest, size, size, largest)
    most = 0.0
    for lane in range(WIDTH):
        most = max(most, lane_of(largest, lane))
    return sum_of(squares), sum_of(total), most


@inline
def sum_of(parts):
    """The sum of eight numbers."""
    total = lane_of(parts, 0)
    for lane in range(1, WIDTH):
        total += lane_of(parts, lane)
    return total


@kernel
def slope(lz, x, u, N, n, nu):
    """The change of the cost of gradients lz (N+1, nz) along x (N+1, n), u (N, nu)."""
    g, dx, du = floats_at(lz), floats_at(x), floats_at(u)
    total = load_some(g, 0, 0)
    for t in range(N + 1):
        total = add_products(total, g[t * (n + nu) :], dx[t * n :], n)
        if t < N:
            total = add_products(total, g[t * (n + nu) + n :], du[t * nu :], nu)
    return sum_of(total)


@inline
def add_products(total, a, b, count):
    """Add products a_i b_i of (count,) to eight sums side by side."""
    for i in range(0, count, WIDTH):
        total = multiply_add(load_some(a, i, count - i), load_some(b, i, count - i), total)
    return total


@kernel
def priced(multipliers, numbers, count):
    """Σ |multiplier · number| of (count,)."""
    y, x = floats_at(multipliers), floats_at(numbers)
    total = load_some(x, 0, 0)
    for i in range(0, count, WIDTH):
        total += magnitude(load_some(y, i, count - i) * load_some(x, i, count - i))
    return sum_of(total)


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
    """Copy so many numbers from an address to another."""
    move(floats_at(to), floats_at(place), count)


@inline
def move(out, x, count):
    """out (count,) := x, register by register."""
    for i in range(0, count, WIDTH):
        store_some(out, i, load_some(x, i, count - i), count - i)


@kernel
def put(to, numbers):
    """Numbers (M,) into others."""
    for i in range(numbers.shape[0]):
        to[i] = numbers[i]


@apart
def in_units(rows, count, size, units):
    """Multiply rows (count, size) by units of their numbers, of which there may be more."""
    x, unit = floats_at(rows), floats_at(units)
    for t in range(count):
        for i in range(size):
            x[t * size + i] *= unit[i]


@apart(returns=UniTuple(float64, 2))
def absolute_in_units(rows, count, size, units):
    """`absolute` of rows (count, size) that are multiplied by units of their numbers."""
    largest, total, x, unit = 0.0, 0.0, floats_at(rows), floats_at(units)
    for t in range(count):
        for i in range(size):
            own = abs(x[t * size + i]) * unit[i]
            largest, total = max(largest, own), total + own
    return largest if total == total else total, total


@kernel
def multiply(numbers, factors):
    """Multiply each of some numbers (M,) by its factor."""
    for i in range(numbers.shape[0]):
        numbers[i] *= factors[i]


@kernel
def approach(alpha, place, towards, count):
    """Move so many numbers at an address the fraction alpha of the way to those at another."""
    x, ends = floats_at(place), floats_at(towards)
    for i in range(0, count, WIDTH):
        now = load_some(x, i, count - i)
        store_some(x, i, now + alpha * (load_some(ends, i, count - i) - now), count - i)


@apart
def spread(dense, separable, coupled, diagonal, H, out):
    """out (N+1, nz, nz) := H at knots that are dense, or its diagonal (N+1, nz) where it is known to be separable.

    coupled (N+1,): so many rows and columns of ``out``, the first ones, are written, and the diagonal.
    """
    nz, x, to = H.shape[1], rows_of(H), rows_of(out)
    for t in range(H.shape[0]):
        if dense[t] and separable[t]:
            for i in range(coupled[t]):
                clear(to[t][nz * i :], coupled[t])
            for i in range(nz):
                to[t, (nz + 1) * i] = diagonal[t, i]
        elif dense[t] and coupled[t] < nz:
            for i in range(coupled[t]):
                move(to[t][nz * i :], x[t][nz * i :], coupled[t])
            for i in range(coupled[t], nz):
                to[t, (nz + 1) * i] = x[t, (nz + 1) * i]
        elif dense[t]:
            move(to[t], x[t], nz * nz)


@inline
def clear(out, count):
    """out (count,) := 0."""
    zero = load_some(out, 0, 0)
    for i in range(0, count, WIDTH):
        store_some(out, i, zero, count - i)
