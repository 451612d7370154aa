"""The adjoint recursion: from the gradient of a sum over knots to its gradient in the controls."""

import numpy as np
from numpy.typing import NDArray

from ddp.compiling.kernel import kernel
from ddp.protocols import Array

FIRM = 1e-8
"""A multiplier of a control limit that is larger than this, relative to what it is a sum of, holds the control."""


def control_gradient(A: Array, B: Array, lz: Array) -> Array:
    """``∂/∂U`` (N, nu) of a sum whose knots have the gradients lz (N+1, nz) in z = (dx, du).

    λ_N = ℓ_x;  λ_k = ℓ_x + Aᵀ λ_{k+1};  gradient ℓ_u + Bᵀ λ_{k+1}.   A (N, n, n), B (N, n, nu): the dynamics'.
    """
    n = A.shape[1]
    with np.errstate(all="ignore"):
        return np.asarray(lz[:-1, n:] + np.einsum("kij,ki->kj", B, costates(A, lz)[1:]))


def holding(B: Array, lz: Array, costate: Array, low: Array, high: Array) -> tuple[Array, NDArray[np.int64]]:
    """The gradient of `control_gradient`, of its costates, and which limit holds a control by it: -1, 1, else 0.

    low, high (N, nu): distances to the lower and to the upper limits.
    """
    own, on_next = lz[:-1, -B.shape[2] :], costate[1:]
    slope = own + np.einsum("kij,ki->kj", B, on_next)
    firm = FIRM * (np.abs(own) + np.einsum("kij,ki->kj", np.abs(B), np.abs(on_next)))
    return slope, np.where((low >= 0.0) & (slope > firm), -1, np.where((high <= 0.0) & (slope < -firm), 1, 0))


def costates(A: Array, lz: Array) -> Array:
    """Costates λ (N+1, n) of `control_gradient`."""
    costate = lz[:, : A.shape[1]].copy()
    pull_back(A, costate)
    return costate


@kernel
def pull_back(A, costate):  # type: ignore[no-untyped-def]
    """costate (N+1, n): from gradients in states of the knots alone to λ."""
    for k in range(A.shape[0] - 1, -1, -1):
        for j in range(A.shape[1]):
            for i in range(A.shape[2]):
                costate[k, i] += A[k, j, i] * costate[k + 1, j]
