# mypy: allow-untyped-defs, allow-untyped-calls
"""Elimination in matrices that have the entries of a tree but need not be symmetric, for any number.

K (n, n) has entries between related unknowns alone. From the last one to the first, each is eliminated from those
before it on its way to the root, ``previous``, which leaves no other entries behind. No pivot is chosen: K is the mass
matrix but for what a step of time adds to it, and forces that hold loops come first, so that they are eliminated last.
"""

from ddp.compiling.kernel import kernel


@kernel
def eliminate(previous, n, K):
    """K := its factors: inverse pivots on the diagonal, what rows were multiplied by above, what is left below."""
    for k in range(n - 1, -1, -1):
        inverse = 1.0 / K[k, k]
        K[k, k] = inverse
        i = previous[k]
        while i >= 0:
            K[i, k] = K[i, k] * inverse
            i = previous[i]
        j = previous[k]
        while j >= 0:  # run by run of neighbours
            first = j
            while first > 0 and previous[first] == first - 1:
                first -= 1
            pivots, m, i = K[k][first:], j + 1 - first, previous[k]
            while i >= 0:
                subtract(K[i, k], pivots, K[i][first:], m)
                i = previous[i]
            j = previous[first]


@kernel
def solve(previous, n, K, x):
    """x := K⁻¹ x, of the factors of ``eliminate``."""
    for k in range(n - 1, -1, -1):
        i = previous[k]
        while i >= 0:
            x[i] -= K[i, k] * x[k]
            i = previous[i]
    for k in range(n):
        total = x[k]
        j = previous[k]
        while j >= 0:
            total -= K[k, j] * x[j]
            j = previous[j]
        x[k] = total * K[k, k]


@kernel
def solve_transposed(previous, n, K, x):
    """x := K⁻ᵀ x, of the factors of ``eliminate``."""
    for k in range(n - 1, -1, -1):
        x[k] = x[k] * K[k, k]
        j = previous[k]
        while j >= 0:
            x[j] -= K[k, j] * x[k]
            j = previous[j]
    for k in range(n):
        total = x[k]
        i = previous[k]
        while i >= 0:
            total -= K[i, k] * x[i]
            i = previous[i]
        x[k] = total


@kernel
def solve_columns(previous, n, K, X, m):
    """X := K⁻¹ X of m columns, of the factors of ``eliminate``."""
    for k in range(n - 1, -1, -1):
        i = previous[k]
        while i >= 0:
            subtract(K[i, k], X[k], X[i], m)
            i = previous[i]
    for k in range(n):
        j = previous[k]
        while j >= 0:
            subtract(K[k, j], X[j], X[k], m)
            j = previous[j]
        inverse, row = K[k, k], X[k]
        for c in range(m):
            row[c] = row[c] * inverse


@kernel
def subtract(factor, x, y, m):
    """y -= factor x, of m numbers."""
    for c in range(m):
        y[c] -= factor * x[c]
