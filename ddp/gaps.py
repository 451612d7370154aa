"""What open gaps do to the model of a knot: dx' = J F z + gap, with J and a curvature where space is curved.

See `protocols.Dynamics.closing`; m stands for the multiplier of the knot, the value's or the cost's gradient there.
"""

from __future__ import annotations

import numpy as np

from ddp.algebra import add_transposed_product
from ddp.kernel import call_contraction, kernel


@kernel
def load(A, B, F):
    """F = [A B]."""
    n = A.shape[1]
    F[:, :n] = A
    F[:, n:] = B


@kernel
def close_gap(gap, address, context, m, F, D, J, w):
    """Across an open gap of a curved space, with the multiplier m: F := J F, D := the F before, w := Jᵀ m.

    Returns whether there is such a gap; w is m if not. J[1] then holds the curvature, the Hessian in F z.
    """
    n, nz = F.shape
    w[:] = m
    if address == 0 or not gap.any():
        return False
    gap_at, m_at, J_at = np.int64(gap.ctypes.data), np.int64(m.ctypes.data), np.int64(J.ctypes.data)
    call_contraction(address, context, gap_at, m_at, J_at)
    D[:] = F
    for i in range(n):
        total = 0.0
        for j in range(n):
            total += J[0, j, i] * m[j]
        w[i] = total
        for j in range(nz):
            F[i, j] = 0.0
            for l in range(n):
                F[i, j] += J[0, i, l] * D[l, j]
    return True


@kernel
def add_curvature(C, F, T):
    """T += Fᵀ C F; C has few entries that are not zero."""
    n, nz = F.shape
    for l in range(n):
        for m in range(n):
            if C[l, m] != 0.0:
                for i in range(nz):
                    for j in range(nz):
                        T[i, j] += C[l, m] * F[l, i] * F[m, j]


@kernel
def bend(A, B, gaps, closing, context, costates, second, c):
    """Add the curvature of every gap to the contracted second order of its knot."""
    for t in range(B.shape[0]):
        if closing == 0 or not gaps[t].any():
            continue
        load(A[t], B[t], c.F)
        if close_gap(gaps[t], closing, context, costates[t], c.F, c.D, c.J, c.w):
            add_curvature(c.J[1], c.D, second[t])


@kernel
def weigh(start, stop, A, B, lz, gaps, closing, context, costates, weights, c):
    """The costates p = l_x + Aᵀ p of the states after the knots start .. stop-1, from that in c.p unless stop is N.

    weights: these through the gaps, what contracts second orders.
    """
    N, n = B.shape[:2]
    if stop == N:
        c.p[:] = lz[N, :n]
    for t in range(stop - 1, start - 1, -1):
        costates[t] = c.p
        weights[t] = c.p
        c.g[:] = lz[t]
        if closing == 0 or not gaps[t].any():
            add_transposed_product(A[t], c.p, c.g)
        else:
            load(A[t], B[t], c.F)
            close_gap(gaps[t], closing, context, c.p, c.F, c.D, c.J, c.w)
            weights[t] = c.w
            add_transposed_product(c.F, c.p, c.g)
        c.p[:] = c.g[:n]
