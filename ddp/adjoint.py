"""The adjoint recursion: from the gradient of a sum over knots to its gradient in the controls."""

from __future__ import annotations

import numpy as np

from ddp.protocols import Array


def control_gradient(A: Array, B: Array, lz: Array) -> Array:
    """``∂/∂U`` (N, nu) of a sum whose knots have the gradients lz (N+1, nz) in z = (dx, du).

    λ_N = ℓ_x;  λ_k = ℓ_x + Aᵀ λ_{k+1};  gradient ℓ_u + Bᵀ λ_{k+1}.   A (N, n, n), B (N, n, nu): the dynamics'.
    """
    n = A.shape[1]
    with np.errstate(all="ignore"):
        return np.asarray(lz[:-1, n:] + np.einsum("kij,ki->kj", B, costates(A, lz)[1:]))


def costates(A: Array, lz: Array) -> Array:
    """Costates λ (N+1, n) of `control_gradient`."""
    n = A.shape[1]
    costate = lz[:, :n].copy()
    with np.errstate(all="ignore"):
        for k in reversed(range(len(A))):
            costate[k] += A[k].T @ costate[k + 1]
    return costate
