# mypy: allow-untyped-defs, allow-untyped-calls
"""The inverse of the Delassus matrix J M⁻¹ Jᵀ + ε, and of K = [M -Jᵀ ; J ε] by it.

Arguments r are relations of contacts/relation.py. Floats are solved by factors or, with ε, by eigenvectors; lanes by
factors alone, without ε.
"""

from __future__ import annotations

import numpy as np
from numba.extending import overload

from ddp.compiling.kernel import kernel
from dynamics.arrays.lanes import LaneArrayType
from dynamics.contacts.products import dense_product

REDUNDANT = 1e-10
"""Contacts are redundant where a pivot of the Delassus matrix falls below this part of its diagonal."""


def invert_delassus(epsilon, r):  # type: ignore[no-untyped-def]
    """r.S := (J M⁻¹ Jᵀ + ε)⁻¹, r.JM := J M⁻¹ inside kernels, and the pivots; needs J and M⁻¹."""


@overload(invert_delassus)
def _invert_delassus(epsilon, r):  # type: ignore[no-untyped-def]
    if isinstance(r.types[0], LaneArrayType):
        return lambda epsilon, r: _invert_factors(r)
    return lambda epsilon, r: _invert_any(epsilon, r)


@kernel
def _invert_any(epsilon, r):
    """By factors where ε is zero, by eigenvectors else: their rounding is not magnified by 1/ε² but by 1/ε."""
    if epsilon == 0.0:
        _invert_factors(r)
        return
    _form_delassus(r)
    r.pivots[:] = 1.0
    if not np.isfinite(r.S.real).all():
        r.S[:] = np.nan
        return
    values, vectors = np.linalg.eigh(r.S)
    largest = np.max(np.abs(values))
    for i in range(r.S.shape[0]):
        for j in range(i + 1):
            total = 0.0
            for k in range(values.size):
                value = values[k] if values[k] > REDUNDANT * largest else 0.0
                total += vectors[i, k] * vectors[j, k] / (value + epsilon)
            r.S[i, j] = r.S[j, i] = total


@kernel
def _form_delassus(r):
    nc, nv = r.J.shape
    dense_product(1.0, r.J, r.Minv, r.JM)
    for i in range(nc):
        for j in range(i + 1):
            total = 0.0 * r.D[0]
            for k in range(nv):
                total = total + r.JM[i, k] * r.J[j, k]
            r.S[i, j] = total
            r.S[j, i] = total


@kernel
def _invert_factors(r):
    """S⁻¹ = L⁻ᵀ D⁻¹ L⁻¹; in a corner of K⁻¹, N, the factor L, then its inverse."""
    _form_delassus(r)
    nc, S, N = r.J.shape[0], r.S, r.Kinv
    for i in range(nc):
        for j in range(i):
            total = S[i, j]
            for k in range(j):
                total = total - N[i, k] * S[k, k] * N[j, k]
            N[i, j] = total / S[j, j]
        total = S[i, i]
        for k in range(i):
            total = total - N[i, k] * N[i, k] * S[k, k]
        r.pivots[i] = total / S[i, i]
        S[i, i] = total
    for i in range(nc):  # L⁻¹, in the upper triangle of N
        for j in range(i):
            total = -N[i, j]
            for k in range(j + 1, i):
                total = total - N[i, k] * N[j, k]
            N[j, i] = total
    for i in range(nc):
        N[i, i] = 1.0 / S[i, i]
    for i in range(nc):
        for j in range(i + 1):
            total = N[i, i] if i == j else N[j, i] * N[i, i]
            for k in range(i + 1, nc):
                total = total + N[i, k] * N[k, k] * N[j, k]
            S[i, j] = total
            S[j, i] = total


@kernel
def are_independent(r):
    """Whether no contact holds what others hold already."""
    for i in range(r.pivots.size):
        if not r.pivots[i].real > REDUNDANT:
            return False
    return True


@kernel
def respond(r, gap):
    """f = -(J M⁻¹ Jᵀ + ε)⁻¹ gap, and a += M⁻¹ Jᵀ f."""
    nc, nv = r.J.shape
    for i in range(nc):
        total = 0.0 * gap[i]
        for j in range(nc):
            total = total - r.S[i, j] * gap[j]
        r.f[i] = total
    for i in range(nv):
        total = r.a[i]
        for k in range(nc):
            total = total + r.JM[k, i] * r.f[k]
        r.a[i] = total


@kernel
def invert_kkt(r):
    """K⁻¹ of a solved relation."""
    nc, nv = r.J.shape
    K, JM, S = r.Kinv, r.JM, r.S
    for i in range(nc):
        for j in range(nc):
            K[nv + i, nv + j] = S[i, j]
    for i in range(nc):
        for j in range(nv):
            total = S[i, 0] * JM[0, j]
            for k in range(1, nc):
                total = total + S[i, k] * JM[k, j]
            K[nv + i, j] = -total
            K[j, nv + i] = total
    for i in range(nv):
        for j in range(i + 1):
            total = r.Minv[i, j]
            for k in range(nc):
                total = total - K[i, nv + k] * JM[k, j]
            K[i, j] = K[j, i] = total
