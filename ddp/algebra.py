"""Small dense algebra of one knot."""

from __future__ import annotations

import numpy as np

from ddp.kernel import kernel

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
def dot(a, b, size):
    """Σ a_i b_i of two vectors' first entries, in four sums that do not wait for each other."""
    first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
    whole = size // 4 * 4
    for i in range(0, whole, 4):
        first += a[i] * b[i]
        second += a[i + 1] * b[i + 1]
        third += a[i + 2] * b[i + 2]
        fourth += a[i + 3] * b[i + 3]
    for i in range(whole, size):
        first += a[i] * b[i]
    return (first + second) + (third + fourth)
