# mypy: allow-untyped-defs, allow-untyped-calls
"""Elimination in matrices that have the entries of a tree but need not be symmetric, for any number.

K has entries between related degrees of freedom alone. From the last one to the first, each is eliminated from those
before it on its way to the root, which leaves no other entries behind. No pivots are chosen: K is the mass matrix but
for what a step of time adds to it.
"""

from __future__ import annotations

from ddp.compiling.kernel import kernel


@kernel
def eliminate(tree, K):
    """K := its factors: inverse pivots on the diagonal, what rows were multiplied by above, what is left below."""
    for k in range(tree.nv - 1, -1, -1):
        inverse = 1.0 / K[k, k]
        K[k, k] = inverse
        i = tree.previous[k]
        while i >= 0:
            factor = K[i, k] * inverse
            j = tree.previous[k]
            while j >= 0:
                K[i, j] -= factor * K[k, j]
                j = tree.previous[j]
            K[i, k] = factor
            i = tree.previous[i]


@kernel
def solve(tree, K, x):
    """x := K⁻¹ x, of the factors of ``eliminate``."""
    for k in range(tree.nv - 1, -1, -1):
        i = tree.previous[k]
        while i >= 0:
            x[i] -= K[i, k] * x[k]
            i = tree.previous[i]
    for k in range(tree.nv):
        total = x[k]
        j = tree.previous[k]
        while j >= 0:
            total -= K[k, j] * x[j]
            j = tree.previous[j]
        x[k] = total * K[k, k]


@kernel
def solve_transposed(tree, K, x):
    """x := K⁻ᵀ x, of the factors of ``eliminate``."""
    for k in range(tree.nv - 1, -1, -1):
        x[k] = x[k] * K[k, k]
        j = tree.previous[k]
        while j >= 0:
            x[j] -= K[k, j] * x[k]
            j = tree.previous[j]
    for k in range(tree.nv):
        total = x[k]
        i = tree.previous[k]
        while i >= 0:
            total -= K[i, k] * x[i]
            i = tree.previous[i]
        x[k] = total


@kernel
def solve_columns(tree, K, X, m):
    """X := K⁻¹ X of m columns, of the factors of ``eliminate``."""
    for k in range(tree.nv - 1, -1, -1):
        i = tree.previous[k]
        while i >= 0:
            _subtract(K[i, k], X[k], X[i], m)
            i = tree.previous[i]
    for k in range(tree.nv):
        j = tree.previous[k]
        while j >= 0:
            _subtract(K[k, j], X[j], X[k], m)
            j = tree.previous[j]
        inverse, row = K[k, k], X[k]
        for c in range(m):
            row[c] = row[c] * inverse


@kernel
def _subtract(factor, x, y, m):
    """y -= factor x, of m numbers."""
    for c in range(m):
        y[c] -= factor * x[c]
