"""Forward dynamics: the sparse factorisation M = Lᵀ D L of Featherstone (ch. 6), and a = M⁻¹ (τ - bias)."""

from __future__ import annotations

import numpy as np

from ddp.kernel import kernel
from dynamics.inverse import generalized_forces, mass_matrix
from dynamics.kinematics import forces, place_bodies, sum_composites
from dynamics.products import symmetric_product


@kernel
def factorize(tree, M, D):
    """Overwrite M by L (unit lower triangle) and D⁻¹ (diagonal), without fill-in along the tree; D (nv,) apart."""
    for k in range(tree.body.size - 1, -1, -1):
        D[k] = M[k, k]
        inverse = 1.0 / M[k, k]
        M[k, k] = inverse
        i = tree.previous[k]
        while i >= 0:
            factor = M[k, i] * inverse
            j = i
            while j >= 0:
                M[i, j] -= factor * M[k, j]
                j = tree.previous[j]
            M[k, i] = factor
            i = tree.previous[i]


@kernel
def is_positive(D, a):
    """Whether the mass matrix behind the diagonal D (nv,) is positive definite and the accelerations a are numbers."""
    for i in range(a.size):
        if not (D[i].real > 0.0 and np.isfinite(a[i].real)):
            return False
    return True


@kernel
def solve(tree, LD, x):
    """x := M⁻¹ x."""
    for i in range(x.size - 1, -1, -1):
        j = tree.previous[i]
        while j >= 0:
            x[j] -= LD[i, j] * x[i]
            j = tree.previous[j]
    for i in range(x.size):
        total = x[i] * LD[i, i]
        j = tree.previous[i]
        while j >= 0:
            total -= LD[i, j] * x[j]
            j = tree.previous[j]
        x[i] = total


@kernel
def invert(tree, LD, N, U, Minv):
    """M⁻¹ = N U with N = L⁻¹, which has the sparsity of L, and U = D⁻¹ Nᵀ; N, U (nv, nv) are scratch, in as zeros.

    In as zeros but for entries between related degrees of freedom, which are written.
    """
    for i in range(tree.body.size):
        k = tree.previous[i]
        while k >= 0:  # L N = 1
            total = LD[i, k]
            j = tree.previous[i]
            while j != k:
                total = total + LD[i, j] * N[j, k]
                j = tree.previous[j]
            N[i, k] = -total
            N[k, i] = 0.0
            U[k, i] = -total * LD[k, k]
            U[i, k] = 0.0
            k = tree.previous[k]
        N[i, i] = 1.0
        U[i, i] = LD[i, i]
    symmetric_product(tree, N, U, Minv)


@kernel
def forward_dynamics(tree, q, qd, tau, fext, ws, LD, D, qdd):
    """a = M⁻¹ (τ - ID(q, q', 0)); leaves M's factors in LD and D. Meaningless unless ``is_positive``.

    LD (nv, nv) comes in as zeros where degrees of freedom are unrelated. The composites left are those of q'' = 0.
    """
    place_bodies(tree, q, True, ws)
    for i in range(tree.body.size):
        qdd[i] = 0.0
    forces(tree, qd, qdd, fext, ws)
    sum_composites(tree, ws)
    mass_matrix(tree, ws, LD)
    factorize(tree, LD, D)
    generalized_forces(tree, qdd, ws, qdd)
    for i in range(tree.body.size):
        qdd[i] = tau[i] - qdd[i]
    solve(tree, LD, qdd)
