"""Products of small matrices, of floats by BLAS and of lanes in register tiles."""

from __future__ import annotations

import numpy as np
from numba.extending import overload

from ddp.kernel import kernel
from dynamics.lanes import LaneArrayType


def product(tree, sign, A, B, out):  # type: ignore[no-untyped-def]
    """out := sign A B inside kernels, where B (nv, nv) has entries between related degrees of freedom only."""
    np.dot(A, B, out)
    out *= sign


def coupling_product(tree, A, B, out):  # type: ignore[no-untyped-def]
    """out := A B inside kernels, where A (nv, nv) is ∂²(ωᵀτ)/∂q∂a: entries between related degrees of freedom
    only, and none in the rows of joints on the world, whose own displacement the mass matrix does not see.
    """
    np.dot(A, B, out)


@overload(product)
def _product(tree, sign, A, B, out):  # type: ignore[no-untyped-def]
    if isinstance(A, LaneArrayType):
        return lambda tree, sign, A, B, out: _lane_product(tree, sign, A, B, out)
    return lambda tree, sign, A, B, out: _float_product(sign, A, B, out)


@overload(coupling_product)
def _coupling_product(tree, A, B, out):  # type: ignore[no-untyped-def]
    if isinstance(A, LaneArrayType):
        return lambda tree, A, B, out: _lane_coupling_product(tree, A, B, out)
    return lambda tree, A, B, out: _float_product(1.0, A, B, out)


@kernel
def _float_product(sign, A, B, out):
    np.dot(A, B, out)
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = sign * out[i, j]


@kernel
def _lane_product(tree, sign, A, B, out):
    """Tiles of 3 x 3: nine accumulators stay in registers, six loads feed nine multiply-adds."""
    n = out.shape[0]
    whole_rows = n - n % 3
    for t in range(tree.segment.shape[0]):
        first, end = tree.segment[t, 0], tree.segment[t, 1]
        rows = tree.relatives[tree.segment[t, 2] : tree.segment[t, 3]]
        whole_columns = end - (end - first) % 3
        for i in range(0, whole_rows, 3):
            for j in range(first, whole_columns, 3):
                _tile(rows, sign, A, B, out, i, j)
            for j in range(whole_columns, end):
                for r in range(i, i + 3):
                    _entry(rows, sign, A, B, out, r, j)
        for i in range(whole_rows, n):
            for j in range(first, end):
                _entry(rows, sign, A, B, out, i, j)


@kernel
def _lane_coupling_product(tree, A, B, out):
    """The same tiles, by segments of rows."""
    m = out.shape[1]
    whole_columns = m - m % 3
    for t in range(tree.segment.shape[0]):
        first, end = tree.segment[t, 0], tree.segment[t, 1]
        columns = tree.relatives[tree.segment[t, 2] : tree.segment[t, 3]]
        while first < end and tree.parent[tree.body[first]] < 0:
            for j in range(m):
                out[first, j] = 0.0
            first += 1
        whole_rows = end - (end - first) % 3
        for i in range(first, whole_rows, 3):
            for j in range(0, whole_columns, 3):
                _tile(columns, 1.0, A, B, out, i, j)
            for j in range(whole_columns, m):
                for r in range(i, i + 3):
                    _entry(columns, 1.0, A, B, out, r, j)
        for i in range(whole_rows, end):
            for j in range(m):
                _entry(columns, 1.0, A, B, out, i, j)


@kernel
def _tile(rows, sign, A, B, out, i, j):
    m = rows[0]
    a, b, c = A[i, m], A[i + 1, m], A[i + 2, m]
    x, y, z = B[m, j], B[m, j + 1], B[m, j + 2]
    ax, ay, az, bx, by, bz, cx, cy, cz = a * x, a * y, a * z, b * x, b * y, b * z, c * x, c * y, c * z
    for k in range(1, rows.size):
        m = rows[k]
        a, b, c = A[i, m], A[i + 1, m], A[i + 2, m]
        x, y, z = B[m, j], B[m, j + 1], B[m, j + 2]
        ax, ay, az = ax + a * x, ay + a * y, az + a * z
        bx, by, bz = bx + b * x, by + b * y, bz + b * z
        cx, cy, cz = cx + c * x, cy + c * y, cz + c * z
    out[i, j], out[i, j + 1], out[i, j + 2] = sign * ax, sign * ay, sign * az
    out[i + 1, j], out[i + 1, j + 1], out[i + 1, j + 2] = sign * bx, sign * by, sign * bz
    out[i + 2, j], out[i + 2, j + 1], out[i + 2, j + 2] = sign * cx, sign * cy, sign * cz


@kernel
def _entry(rows, sign, A, B, out, i, j):
    total = A[i, rows[0]] * B[rows[0], j]
    for k in range(1, rows.size):
        total = total + A[i, rows[k]] * B[rows[k], j]
    out[i, j] = sign * total
