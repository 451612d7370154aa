"""The adjoint recursion: from the gradient of a sum over knots to its gradient in the controls."""

from __future__ import annotations

import numpy as np

from ddp.protocols import Array


def control_gradient(A: Array, B: Array, lz: Array) -> Array:
    """``∂/∂U`` (N, nu) of a sum whose knots have the gradients lz (N+1, nz) in z = (dx, du).

    λ_N = ℓ_x;  λ_k = ℓ_x + Aᵀ λ_{k+1};  gradient ℓ_u + Bᵀ λ_{k+1}.   A (N, n, n), B (N, n, nu): the dynamics'.
    """
    N, n, nu = B.shape
    costate, gradient = lz[-1, :n], np.empty((N, nu))
    with np.errstate(all="ignore"):
        for k in reversed(range(N)):
            gradient[k] = lz[k, n:] + B[k].T @ costate
            costate = lz[k, :n] + A[k].T @ costate
    return gradient
