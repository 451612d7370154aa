"""Small dense algebra of one knot."""

from __future__ import annotations

import numpy as np

from ddp.kernel import kernel

LARGE = 5
"""From this n on, products go to BLAS; below, its 0.15 us a call is more than the product."""

PIVOT = 1e-15
"""A pivot this much smaller than its diagonal entry is rounding: the matrix counts as singular."""


@kernel
def factorise(L):
    """Factorise a symmetric matrix in place, L lower; False if it is not positive definite, or NaN."""
    n = L.shape[0]
    for j in range(n):
        diagonal = L[j, j]
        pivot = diagonal
        for m in range(j):
            pivot -= L[j, m] * L[j, m]
        if not (pivot > PIVOT * abs(diagonal)):
            return False
        L[j, j] = np.sqrt(pivot)
        for i in range(j + 1, n):
            total = L[i, j]
            for m in range(j):
                total -= L[i, m] * L[j, m]
            L[i, j] = total / L[j, j]
    return True


@kernel
def solve(L, b):
    """b := (L Lᵀ)⁻¹ b."""
    n = L.shape[0]
    for i in range(n):
        for j in range(i):
            b[i] -= L[i, j] * b[j]
        b[i] /= L[i, i]
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            b[i] -= L[j, i] * b[j]
        b[i] /= L[i, i]


@kernel
def congruence(F, V, W, Q):
    """Q = Fᵀ V F with V symmetric, by way of W = V F."""
    n, nz = F.shape
    if n >= LARGE:
        np.dot(V, F, W)
        np.dot(F.T, W, Q)
        return
    for i in range(n):
        for j in range(nz):
            total = 0.0
            for m in range(n):
                total += V[i, m] * F[m, j]
            W[i, j] = total
    for i in range(nz):
        for j in range(i, nz):
            total = 0.0
            for m in range(n):
                total += F[m, i] * W[m, j]
            Q[i, j] = total
            Q[j, i] = total


@kernel
def gram(Y, G):
    """G = Yᵀ Y."""
    nu, n = Y.shape
    if n >= LARGE:
        np.dot(Y.T, Y, G)
        return
    for i in range(n):
        for j in range(n):
            total = 0.0
            for m in range(nu):
                total += Y[m, i] * Y[m, j]
            G[i, j] = total


@kernel
def add_transposed_product(F, v, q):
    """Add Fᵀ v to q."""
    for i in range(F.shape[0]):
        for j in range(F.shape[1]):
            q[j] += F[i, j] * v[i]
