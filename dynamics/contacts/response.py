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
from ddp.machine.number import where_less
from dynamics.arrays.lanes import LaneArrayType
from dynamics.contacts.products import dense_product, path_product

REDUNDANT = 1e-10
"""Contacts are redundant where a pivot of C G falls below this part of its diagonal."""


def invert_delassus(tree, contacts, epsilon, r):  # type: ignore[no-untyped-def]
    """r.G := M⁻¹ Jᵀ and r.S := (J G + ε)⁻¹, inside kernels; needs J and M⁻¹."""


@by_types(invert_delassus)
def _invert_delassus(tree, contacts, epsilon, r):  # type: ignore[no-untyped-def]
    return _invert_exactly if isinstance(r.types[0], LaneArrayType) else _invert_any


@kernel
def _invert_exactly(tree, contacts, epsilon, r):
    respond_to_units(tree, contacts, r)
    invert_response(tree, contacts, r.J, r)


@kernel
def _invert_any(tree, contacts, epsilon, r):
    if epsilon == 0.0:
        _invert_exactly(tree, contacts, epsilon, r)
    else:
        respond_to_units(tree, contacts, r)
        _regularize(tree, contacts, epsilon, r)


@kernel
def respond_to_units(tree, contacts, r):
    """r.G := M⁻¹ Jᵀ; r.CM is scratch."""
    nc, nv = r.J.shape
    path_product(tree, contacts, r.J, r.Minv, nv, r.CM)
    for i in range(nc):
        for j in range(nv):
            r.G[j, i] = r.CM[i, j]


@kernel
def form_response(tree, contacts, nc, C, r):
    """r.S := C G."""
    path_product(tree, contacts, C, r.G, nc, r.S)


@kernel
def eliminate(n, A, x, pivots):
    """x := A⁻¹ x by Gauss, pivot by pivot; their sizes relative to the diagonal. A is overwritten.

    The symmetric part of C G is positive definite where contacts are independent, C being J but for O(h): no choice of
    pivots is needed.
    """
    for i in range(n):
        pivots[i] = 1.0 / A[i, i]
    for j in range(n):
        size = pivots[j] * A[j, j]
        pivots[j] = where_less(size, 0.0, -size, size)
        inverse = 1.0 / A[j, j]
        A[j, j] = inverse
        for i in range(j + 1, n):
            factor = A[i, j] * inverse
            for k in range(j + 1, n):
                A[i, k] -= factor * A[j, k]
            x[i] -= factor * x[j]
    for j in range(n - 1, -1, -1):
        own = x[j] * A[j, j]
        x[j] = own
        for i in range(j):
            x[i] -= A[i, j] * own


@kernel
def invert_response(tree, contacts, C, r):
    """r.S := (C G)⁻¹ by Gauss and Jordan, r.pivots as ``eliminate`` has them, r.CM := C M⁻¹; needs G."""
    nc, nv = r.J.shape
    path_product(tree, contacts, C, r.Minv, nv, r.CM)
    form_response(tree, contacts, nc, C, r)
    S = r.S
    for c in range(nc):
        r.pivots[c] = 1.0 / S[c, c]
    for c in range(nc):
        size = r.pivots[c] * S[c, c]
        r.pivots[c] = where_less(size, 0.0, -size, size)
        inverse = 1.0 / S[c, c]
        S[c, c] = 1.0
        for j in range(nc):
            S[c, j] = S[c, j] * inverse
        for i in range(nc):
            if i != c:
                factor = S[i, c]
                S[i, c] = 0.0
                for j in range(nc):
                    S[i, j] -= factor * S[c, j]


@kernel
def _regularize(tree, contacts, epsilon, r):
    """r.S := (J G + ε)⁻¹ by eigenvectors, whose rounding is magnified by 1/ε and not by 1/ε²; needs J and M⁻¹."""
    nc, nv = r.J.shape
    path_product(tree, contacts, r.J, r.Minv, nv, r.CM)
    form_response(tree, contacts, nc, r.J, r)
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
