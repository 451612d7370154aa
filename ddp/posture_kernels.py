# mypy: allow-untyped-defs, allow-untyped-calls
"""Compiled parts of posture_guesses.py: steps to ends of motions, and controls along straight ways there.

Ends are minima of many small estimates, to which Gauss-Newton's steps, damped as by Levenberg and Marquardt, lead:

    estimate(y) = cost(x0 ⊕ (m + L y)) + ½ |y|²
"""

import numpy as np

from ddp.compiling.kernel import inline, kernel
from ddp.costs.cost_table import place
from ddp.machine.addresses import array_at
from ddp.machine.algebra import PIVOT, factorize
from ddp.machine.aligned import aligned_zeros, working_memory
from ddp.machine.declared import each
from ddp.machine.fields import Fields, vector
from ddp.machine.memory import floats_at, memory_of, rows_of
from ddp.machine.number import WIDTH, spread, where_less
from ddp.machine.packing import pack
from ddp.machine.tiles import padded, product, upper_product
from ddp.protocols import Array

DAMPED, FALL, RISE = 1e-1, 0.2, 5.0
"""The first damping relative to the Hessian's diagonal, how it falls where a step helps, and rises elsewhere."""

IDLE = 1e-12
"""Price of controls that nearly do the same as others on straight ways, relative to what they move."""


class Room(Fields):
    """Eight points in lanes: best ones y, their gradients g and Hessians H, row by row from the diagonal on; damping.

    tried: points to estimate next.   move: m + L tried.   x, inverse, D: a step, and factors of what it solves.
    """

    y, g, tried, move = each(4, vector, "n")
    damping, H = vector("1"), vector("half")
    x, inverse = each(2, vector, "n")
    D = vector("half")


class DampedSteps:
    """Steps to minima of S estimates of each of M problems at once, each by itself.

    mean (M, 1, n), axes (M, n, n): m and L.   Y (M, S, n): points to begin from.
    f (M, S): the least estimates so far.   moves (M S, n) to states that are tried next, m + L y, of which l (M S,),
    lz (M S, nz) and lzz (M S, nz, nz) are to become the costs, from zeros.
    """

    def __init__(self, mean: Array, axes: Array, Y: Array, nu: int) -> None:
        (M, S, n), nz, ld = Y.shape, Y.shape[2] + nu, padded(Y.shape[2])
        self.f, self._shape = np.full((M, S), np.inf), Y.shape
        self._mean, self._axes = np.ascontiguousarray(mean[:, 0]), np.zeros((M, n, ld))
        self._axes[:, :, :n] = axes
        self.moves = (mean + Y @ axes.swapaxes(1, 2)).reshape(-1, n)
        self.l, self.lz, self.lzz = np.zeros(M * S), np.zeros((M * S, nz)), aligned_zeros((M * S, nz, nz))
        half = n * (n + 1) // 2
        self._points = aligned_zeros((M, -(-S // WIDTH), Room.size(n=n, half=half), WIDTH))
        _begin(np.ascontiguousarray(Y), self._points)

    @property
    def Y(self) -> Array:
        """Points (M, S, n) of the least estimates so far."""
        M, S, n = self._shape
        return np.ascontiguousarray(self._points[:, :, :n].swapaxes(2, 3).reshape(M, -1, n)[:, :S])

    def go_on(self) -> None:
        """Keep points that were tried where they are better, make costs zeros again, and find the next points."""
        n, ld = self._axes.shape[1:]
        memory = working_memory((2 * n + 1) * ld // WIDTH)
        _go_on(self._points, self.f, self._mean, self._axes, self.moves, self.l, self.lz, self.lzz, memory)


@kernel
def _begin(Y, points):
    """Begin with Y as points that are tried."""
    n, half = Y.shape[2], Y.shape[2] * (Y.shape[2] + 1) // 2
    for m in range(len(Y)):
        for group in range(points.shape[1]):
            r = Room(memory_of(points[m, group]), n, half)
            pack(rows_of(Y[m]), WIDTH * group, r.tried, n)
            r.damping[0] = spread(DAMPED / FALL, r.tried[0])


@kernel
def _go_on(points, f, mean, axes, moves, l, lz, lzz, memory):
    """Go on with each point by itself: see `DampedSteps`."""
    (M, S), n, nz = f.shape, axes.shape[1], lz.shape[1]
    half = n * (n + 1) // 2
    for m in range(M):
        for group in range(points.shape[1]):
            own, count = points[m, group], min(WIDTH, S - WIDTH * group)
            for lane in range(count):
                s = WIDTH * group + lane
                i = m * S + s
                estimate = l[i]
                for j in range(n):
                    estimate += 0.5 * own[2 * n + j, lane] * own[2 * n + j, lane]
                better = estimate < f[m, s]
                own[4 * n, lane] *= FALL if better else RISE
                if better:
                    f[m, s] = estimate
                    keep(own, lane, axes, m, lz, lzz, i, memory)
                l[i] = 0.0
                for j in range(nz):
                    lz[i, j] = 0.0
                    for k in range(nz):
                        lzz[i, j, k] = 0.0
            r = Room(memory_of(own), n, half)
            propose(n, r)
            for j in range(n):
                move = spread(mean[m, j], r.tried[0])
                for k in range(n):
                    move += axes[m, j, k] * r.tried[k]
                r.move[j] = move
            for lane in range(count):
                for j in range(n):
                    moves[m * S + WIDTH * group + lane, j] = own[3 * n + j, lane]


@kernel
def keep(own, lane, axes, m, lz, lzz, i, memory):
    """Write a better point, its gradient and its Hessian Lᵀ l_xx L + 1 into a lane of a `Room`."""
    n, ld, nz = axes.shape[1], axes.shape[2], lz.shape[1]
    product_at, L = place(memory), place(axes) + 8 * m * n * ld
    H_at, none = product_at + 8 * n * ld, product_at + 16 * n * ld
    zeros, H = floats_at(none), array_at(H_at, (n, ld))
    for j in range(ld):
        zeros[j] = 0.0
    product(product_at, ld, none, 0, n, ld, place(lzz) + 8 * i * nz * nz, nz, 1, L, ld, n)
    upper_product(H_at, ld, none, 0, 0, n, ld, L, 1, ld, product_at, ld, n)
    at = 4 * n + 1
    for j in range(n):
        y = own[2 * n + j, lane]
        g = y
        for k in range(n):
            g += lz[i, k] * axes[m, k, j]
        own[j, lane], own[n + j, lane] = y, g
        H[j, j] += 1.0
        for k in range(j, n):
            own[at + k - j, lane] = H[j, k]
        at += n - j


@kernel
def propose(n, r):
    """Find points that are tried next: by damped steps, or the best ones again where Hessians are not positive."""
    D, x, positive, begin = r.D, r.x, spread(1.0, r.y[0]), 0
    for i in range(n):
        x[i] = r.g[i]
        D[begin] = r.H[begin] + r.H[begin] * r.damping[0]
        for k in range(1, n - i):
            D[begin + k] = r.H[begin + k]
        begin += n - i
    begin = 0
    for i in range(n):
        pivot = D[begin]
        positive = where_less(PIVOT * r.H[begin], pivot, positive, 0.0)
        r.inverse[i] = reciprocal = 1.0 / pivot
        below = begin + n - i
        for k in range(1, n - i):
            factor = D[begin + k] * reciprocal
            x[i + k] -= factor * x[i]
            for l in range(k, n - i):
                D[below + l - k] -= factor * D[begin + l]
            below += n - i - k
        begin += n - i
    for i in range(n - 1, -1, -1):
        begin -= n - i
        total = x[i]
        for k in range(1, n - i):
            total -= D[begin + k] * x[i + k]
        x[i] = total * r.inverse[i]
        r.tried[i] = where_less(0.5, positive, r.y[i] - x[i], r.y[i])


@kernel
def choose(f, Y, apart, chosen):
    """chosen (M, K) := rows of Y (M, S, n) that are not the same ones, those of the least f (M, S) first, then -1.

    apart: distance of others, relative to a chosen one.
    """
    (M, S), n = f.shape, Y.shape[2]
    left = np.empty(S)
    for m in range(M):
        for s in range(S):
            left[s] = f[m, s]
        for c in range(chosen.shape[1]):
            best, least = -1, np.inf
            for s in range(S):
                if left[s] < least:
                    best, least = s, left[s]
            chosen[m, c] = best
            for s in range(S if best >= 0 else 0):
                distance, size = 0.0, 0.0
                for j in range(n):
                    size += Y[m, best, j] * Y[m, best, j]
                    distance += (Y[m, s, j] - Y[m, best, j]) ** 2
                if distance <= apart * apart * size:
                    left[s] = np.inf


@kernel
def keep_to(A, B, missed, rest, out):
    """Find controls that make up for what is missed (K, n) in steps with A (K, n, n), B (K, n, nu), by least squares.

    out (K, nu, 1): controls, beside rest (K, nu); or (K, nu, 1 + n): and the gains behind them, of what A does.
    """
    n, nu, columns = B.shape[1], B.shape[2], out.shape[2]
    back, L, units = np.empty((nu, n)), np.empty((nu, nu)), np.empty(nu)
    for t in range(B.shape[0]):
        for i in range(nu):
            size = 0.0
            for j in range(n):
                back[i, j] = B[t, j, i]
                size += back[i, j] * back[i, j]
            units[i] = np.sqrt(size) if size > 0.0 else 1.0  # of which controls move states equally far
            for c in range(columns):
                out[t, i, c] = 0.0
            for j in range(n):
                back[i, j] /= units[i]
                out[t, i, 0] += back[i, j] * missed[t, j]
                for c in range(1, columns):
                    out[t, i, c] -= back[i, j] * A[t, j, c - 1]
            for k in range(i + 1):
                L[i, k] = IDLE if k == i else 0.0
                for j in range(n):
                    L[i, k] += back[i, j] * back[k, j]
        factorize(L)  # NaN leads to NaN, and nothing else fails
        for i in range(nu):
            for j in range(i):
                add_multiple(out[t], i, -L[i, j], j)
            divide(out[t], i, L[i, i])
        for i in range(nu - 1, -1, -1):
            for j in range(i + 1, nu):
                add_multiple(out[t], i, -L[j, i], j)
            divide(out[t], i, L[i, i])
        for i in range(nu):
            divide(out[t], i, units[i])
            out[t, i, 0] += rest[t, i]


@inline
def add_multiple(M, i, factor, j):
    """Add a multiple of row j of a matrix to row i."""
    for k in range(M.shape[1]):
        M[i, k] += factor * M[j, k]


@inline
def divide(M, i, by):
    """Divide a row of a matrix."""
    for k in range(M.shape[1]):
        M[i, k] /= by
