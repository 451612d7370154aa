# mypy: allow-untyped-defs, allow-untyped-calls
"""Response of constraints to forces at contacts, and the inverse of K = [M -Jᵀ ; C ε] by it.

C is what a constraint sees of accelerations: J, but for steps that end where contacts are held (phases/held_steps.py).
With G = M⁻¹ Jᵀ and S = (C G + ε)⁻¹, for C = J the inverse of the Delassus matrix,

    K⁻¹ = [M⁻¹ - G S C M⁻¹   G S ; -S C M⁻¹   S]

Arguments r are relations of contacts/relation.py, of any number. ε is for floats and C = J alone.
"""

from __future__ import annotations

import numpy as np

from ddp.compiling.kernel import by_types, kernel
from dynamics.arrays.lanes import LaneArrayType
from dynamics.contacts.products import dense_product

REDUNDANT = 1e-10
"""Contacts are redundant where a pivot of C G falls below this part of its diagonal."""


@kernel
def invert_response(C, r):
    """r.S := (C G)⁻¹ by Gauss and Jordan, and r.pivots relative to the diagonal; needs J and M⁻¹.

    The symmetric part of C G is positive definite where contacts are independent, C being J but for O(h): its pivots
    need no choice.
    """
    dense_product(1.0, C, r.Minv, r.CM)
    dense_product(1.0, C, r.G, r.S)
    S, n = r.S, r.J.shape[0]
    for c in range(n):
        r.pivots[c] = 1.0 / S[c, c]
    for c in range(n):
        r.pivots[c] = r.pivots[c] * S[c, c]
        inverse = 1.0 / S[c, c]
        S[c, c] = 1.0
        for j in range(n):
            S[c, j] = S[c, j] * inverse
        for i in range(n):
            if i != c:
                factor = S[i, c]
                S[i, c] = 0.0
                for j in range(n):
                    S[i, j] -= factor * S[c, j]


def invert_delassus(epsilon, r):  # type: ignore[no-untyped-def]
    """r.G := M⁻¹ Jᵀ and r.S := (J G + ε)⁻¹, inside kernels; needs J and M⁻¹."""


@by_types(invert_delassus)
def _invert_delassus(epsilon, r):  # type: ignore[no-untyped-def]
    return _invert_exactly if isinstance(r.types[0], LaneArrayType) else _invert_any


@kernel
def _invert_exactly(epsilon, r):
    respond_by_unit_forces(r)
    if r.J.shape[0] > 0:
        invert_response(r.J, r)


@kernel
def _invert_any(epsilon, r):
    if epsilon == 0.0:
        _invert_exactly(epsilon, r)
    else:
        respond_by_unit_forces(r)
        _regularize(epsilon, r)


@kernel
def respond_by_unit_forces(r):
    """r.G := M⁻¹ Jᵀ; r.CM is scratch."""
    dense_product(1.0, r.J, r.Minv, r.CM)
    for i in range(r.J.shape[0]):
        for j in range(r.J.shape[1]):
            r.G[j, i] = r.CM[i, j]


@kernel
def _regularize(epsilon, r):
    """r.S := (J G + ε)⁻¹ by eigenvectors, whose rounding is magnified by 1/ε and not by 1/ε²; needs J and M⁻¹."""
    dense_product(1.0, r.J, r.Minv, r.CM)
    dense_product(1.0, r.J, r.G, r.S)
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
def are_independent(r):
    """Whether no contact holds what others hold already."""
    for i in range(r.pivots.size):
        if not r.pivots[i].real > REDUNDANT:
            return False
    return True


@kernel
def respond(r, gap):
    """f = -S gap, and a += G f."""
    nc, nv = r.J.shape
    for i in range(nc):
        total = 0.0 * gap[i]
        for j in range(nc):
            total = total - r.S[i, j] * gap[j]
        r.f[i] = total
    for i in range(nv):
        total = r.a[i]
        for k in range(nc):
            total = total + r.G[i, k] * r.f[k]
        r.a[i] = total


@kernel
def invert_kkt(r):
    """K⁻¹ of a solved relation, its blocks among the scratch as well."""
    nc, nv = r.J.shape
    K = r.Kinv
    for i in range(nv):
        for j in range(nv):
            K[i, j] = r.Minv[i, j]
    if nc == 0:
        return
    dense_product(-1.0, r.S, r.CM, r.down)
    dense_product(1.0, r.G, r.S, r.right)
    dense_product(1.0, r.G, r.down, r.corner)
    for i in range(nv):
        for j in range(nv):
            K[i, j] += r.corner[i, j]
        for j in range(nc):
            K[i, nv + j] = r.right[i, j]
    for i in range(nc):
        for j in range(nv):
            K[nv + i, j] = r.down[i, j]
        for j in range(nc):
            K[nv + i, nv + j] = r.S[i, j]
