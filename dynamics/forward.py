"""Forward dynamics: the sparse factorisation M = Lᵀ D L of Featherstone (ch. 6), and a = M⁻¹ (τ - bias)."""

from __future__ import annotations

import numpy as np

from ddp.kernel import kernel
from dynamics.inverse import generalized_forces, mass_matrix
from dynamics.kinematics import accelerations, clear, composite_inertias, place_bodies, sum_over_subtrees, velocities


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
def invert(tree, LD, N, Minv):
    """M⁻¹ = N D⁻¹ Nᵀ with N = L⁻¹, which has the sparsity of L; N (nv, nv) is scratch.

    N's lower triangle holds N, and its upper one D⁻¹ Nᵀ.
    """
    clear(N)
    for i in range(tree.body.size):
        j = tree.previous[i]
        while j >= 0:
            N[i, j] -= LD[i, j]
            k = tree.previous[j]
            while k >= 0:
                N[i, k] -= LD[i, j] * N[j, k]
                k = tree.previous[k]
            N[j, i] = N[i, j] * LD[j, j]
            j = tree.previous[j]
        N[i, i] = LD[i, i]
    for i in range(tree.body.size):
        for j in range(i):
            Minv[i, j] = Minv[j, i] = _common_ancestors(tree, N, i, j, N[j, i])
        Minv[i, i] = _common_ancestors(tree, N, i, i, N[i, i])


@kernel
def _common_ancestors(tree, N, i, j, total):
    """total + Σ_k N_ik D_k⁻¹ N_jk over the proper ancestors k of j (N_ik vanishes unless k is one of i's, too)."""
    k = tree.previous[j]
    while k >= 0:
        total = total + N[i, k] * N[k, j]
        k = tree.previous[k]
    return total


@kernel
def forward_dynamics(tree, q, qd, tau, fext, ws, LD, D, qdd):
    """a = M⁻¹ (τ - ID(q, q', 0)); leaves M's factors in LD and D. Meaningless unless ``is_positive``."""
    place_bodies(tree, q, True, ws)
    velocities(tree, qd, ws)
    for i in range(tree.body.size):
        qdd[i] = 0.0
    accelerations(tree, qd, qdd, fext, ws)
    sum_over_subtrees(tree, ws.f)
    composite_inertias(tree, ws)
    mass_matrix(tree, ws, LD)
    factorize(tree, LD, D)
    generalized_forces(tree, qdd, ws, qdd)
    for i in range(tree.body.size):
        qdd[i] = tau[i] - qdd[i]
    solve(tree, LD, qdd)
