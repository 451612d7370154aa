"""Checks of symmetric and definite matrices."""

import numpy as np

from ddp.errors import Array, DDPError, ProblemError


def symmetric(field: str, matrices: Array, share: float = 1e-3, error: type[DDPError] = ProblemError) -> Array:
    """Exactly symmetric matrices (..., k, k); the error where halves differ by more than a share of the largest entry.

    One half alone of a Hessian would count half of every mixed derivative. NaN passes.
    """
    turned = np.swapaxes(matrices, -1, -2)
    with np.errstate(invalid="ignore"):  # the difference of infinities
        off = np.abs(matrices - turned)
    if matrices.size and off.max() > share * np.abs(matrices).max():
        *_, i, j = at = np.unravel_index(int(off.argmax()), off.shape)
        halves = f"{matrices[at]:.6g} at [{i}, {j}] and {turned[at]:.6g} at [{j}, {i}]"
        raise error(f"{field}: expected a symmetric matrix, got {halves}")
    return np.asarray(0.5 * (matrices + turned))


def definite(field: str, matrices: Array, share: float, strictly: bool = False) -> Array:
    """`symmetric` matrices without negative eigenvalues, or ``strictly`` with positive ones alone, else ProblemError.

    share: of the largest entry, by which halves may differ, and eigenvalues be below zero.
    """
    W = symmetric(field, matrices, share)
    least = float(np.linalg.eigvalsh(W).min(initial=np.inf))
    if least <= 0.0 if strictly else least < -share * np.abs(W).max(initial=0.0):
        kind = "definite" if strictly else "semidefinite"
        raise ProblemError(f"{field}: expected a positive {kind} matrix, got one with an eigenvalue of {least:.3g}")
    return W
