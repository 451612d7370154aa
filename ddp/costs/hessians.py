# mypy: allow-untyped-defs, allow-untyped-calls
"""Costs' Hessians (N+1, nz, nz), or at separable knots their diagonals (N+1, nz)."""

from __future__ import annotations

from ddp.compiling.kernel import kernel


@kernel
def scales(l, separable, H, diagonal, U):
    """The sum of |l| (N+1,); that of ½ |H_ii| u_i² over controls; the means of their |H_ii|, and of all others."""
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
    return magnitude, effort, own / ((H.shape[0] - 1) * nu), others / (H.shape[0] * (nz - nu))


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
