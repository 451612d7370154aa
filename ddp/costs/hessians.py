"""Costs' Hessians (N+1, nz, nz), or at separable knots their diagonals (N+1, nz)."""

from __future__ import annotations

import numpy as np

from ddp.compiling.kernel import kernel
from ddp.matrices.algebra import positive_part


@kernel
def clear_hessians(runs, start, stop, H, diagonal):
    """Hessians := 0 at the knots start .. stop-1; runs (., 3): of knots begin .. end-1, and whether separable."""
    for r in range(runs.shape[0]):
        begin, end = max(start, runs[r, 0]), min(stop, runs[r, 1])
        if begin < end and runs[r, 2] != 0:
            diagonal[begin:end] = 0.0
        elif begin < end:
            H[begin:end] = 0.0


@kernel
def scales(l, separable, H, diagonal, nu):
    """The sum of |l| (N+1,); the mean of the Hessians' diagonals in the last nu coordinates."""
    nz, magnitude, total = H.shape[1], abs(l[-1]), 0.0
    for t in range(H.shape[0] - 1):
        magnitude += abs(l[t])
        for i in range(nz - nu, nz):
            total += diagonal[t, i] if separable[t] else H[t, i, i]
    return magnitude, total / ((H.shape[0] - 1) * nu)


@kernel
def clear_diagonals(separable, start, stop, H):
    """H_ii := 0 at separable ones of the knots start .. stop-1, for `add_diagonals`: what else is there is not read."""
    for t in range(start, stop):
        if separable[t]:
            for i in range(H.shape[1]):
                H[t, i, i] = 0.0


@kernel
def add_diagonals(separable, start, stop, H, diagonal):
    """The diagonal += H_ii at separable ones of the knots start .. stop-1."""
    for t in range(start, stop):
        if separable[t]:
            for i in range(H.shape[1]):
                diagonal[t, i] += H[t, i, i]


@kernel
def convex_part(knots, exact, lzz, out):
    """out (K, nz, nz) := (exact - l_zz)₊ at K knots, told by the upper triangles; zero where that is not finite."""
    nz = lzz.shape[1]
    used = np.empty(nz, np.int64)
    out[:] = 0.0
    for k in range(knots.size):
        H, G = exact[knots[k]], lzz[knots[k]]
        count = 0
        for i in range(nz):
            differs = False
            for j in range(nz):
                a, b = min(i, j), max(i, j)
                differs = differs or H[a, b] != G[a, b]
            if differs:
                used[count] = i
                count += 1
        block = np.empty((count, count))
        for i in range(count):
            for j in range(i, count):
                block[i, j] = H[used[i], used[j]] - G[used[i], used[j]]
                block[j, i] = block[i, j]
        if count > 0:
            positive_part(block)
        for i in range(count):
            for j in range(count):
                if abs(block[i, j]) < np.inf:
                    out[k, used[i], used[j]] = block[i, j]
