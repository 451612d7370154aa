# mypy: allow-untyped-defs, allow-untyped-calls
"""Products of full small matrices, of floats by BLAS and of lanes in register tiles."""

from __future__ import annotations

import numpy as np

from ddp.compiling.kernel import by_types, kernel
from dynamics.arrays.lanes import LaneArrayType


def dense_product(sign, A, B, out):  # type: ignore[no-untyped-def]
    """out := sign A B inside kernels."""
    np.dot(A, B, out)
    out *= sign


@by_types(dense_product)
def _dense_product(sign, A, B, out):  # type: ignore[no-untyped-def]
    return _lane_product if isinstance(A, LaneArrayType) else _float_product


@kernel
def _float_product(sign, A, B, out):
    np.dot(A, B, out)
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = sign * out[i, j]


@kernel
def _lane_product(sign, A, B, out):
    """Tiles of 3 x 3: nine accumulators stay in registers, six loads feed nine multiply-adds."""
    n, m = out.shape
    rows, columns = n - n % 3, m - m % 3
    for i in range(0, rows, 3):
        for j in range(0, columns, 3):
            _tile(sign, A, B, out, i, j)
        for j in range(columns, m):
            for r in range(i, i + 3):
                _entry(sign, A, B, out, r, j)
    for i in range(rows, n):
        for j in range(m):
            _entry(sign, A, B, out, i, j)


@kernel
def _tile(sign, A, B, out, i, j):
    a, b, c = A[i, 0], A[i + 1, 0], A[i + 2, 0]
    x, y, z = B[0, j], B[0, j + 1], B[0, j + 2]
    ax, ay, az, bx, by, bz, cx, cy, cz = a * x, a * y, a * z, b * x, b * y, b * z, c * x, c * y, c * z
    for k in range(1, A.shape[1]):
        a, b, c = A[i, k], A[i + 1, k], A[i + 2, k]
        x, y, z = B[k, j], B[k, j + 1], B[k, j + 2]
        ax, ay, az = ax + a * x, ay + a * y, az + a * z
        bx, by, bz = bx + b * x, by + b * y, bz + b * z
        cx, cy, cz = cx + c * x, cy + c * y, cz + c * z
    out[i, j], out[i, j + 1], out[i, j + 2] = sign * ax, sign * ay, sign * az
    out[i + 1, j], out[i + 1, j + 1], out[i + 1, j + 2] = sign * bx, sign * by, sign * bz
    out[i + 2, j], out[i + 2, j + 1], out[i + 2, j + 2] = sign * cx, sign * cy, sign * cz


@kernel
def _entry(sign, A, B, out, i, j):
    total = A[i, 0] * B[0, j]
    for k in range(1, A.shape[1]):
        total = total + A[i, k] * B[k, j]
    out[i, j] = sign * total
