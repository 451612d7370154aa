# mypy: allow-untyped-defs, allow-untyped-calls
"""Products of small matrices: full ones, of floats by BLAS and of lanes in register tiles, and those of contacts."""

from __future__ import annotations

import numpy as np

from ddp.compiling.kernel import by_types, inline, kernel
from dynamics.arrays.lanes import LaneArrayType
from dynamics.contacts.contact import POINT


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


# -- rows of contacts have entries on a contact's way to the root alone ------------------------------------------------


@inline
def threes(contacts, i):
    """How many threes of rows a contact has."""
    return 1 if contacts.kind[i] == POINT else 2


@inline
def last_dof(tree, contacts, i):
    """The degree of freedom that is nearest to contact i."""
    b = contacts.body[i]
    return tree.iv[b] + tree.nj[b] - 1


@kernel
def path_product(tree, contacts, C, X, m, out):
    """out (nc, m) := C X for rows C (nc, nv) of contacts, in tiles of 3 x 3."""
    for i in range(contacts.body.size):
        last = last_dof(tree, contacts, i)
        for part in range(threes(contacts, i)):
            r, c = contacts.row[i] + 3 * part, 0
            while c + 3 <= m:
                _path_tile(tree.previous, last, C, X, r, c, out)
                c += 3
            while c < m:
                _path_column(tree.previous, last, C, X, r, c, out)
                c += 1


@inline
def _path_tile(previous, last, C, X, r, c, out):
    s, t, u = C[r, last], C[r + 1, last], C[r + 2, last]
    x, y, z = X[last, c], X[last, c + 1], X[last, c + 2]
    sx, sy, sz, tx, ty, tz, ux, uy, uz = s * x, s * y, s * z, t * x, t * y, t * z, u * x, u * y, u * z
    k = previous[last]
    while k >= 0:
        s, t, u = C[r, k], C[r + 1, k], C[r + 2, k]
        x, y, z = X[k, c], X[k, c + 1], X[k, c + 2]
        sx, sy, sz = sx + s * x, sy + s * y, sz + s * z
        tx, ty, tz = tx + t * x, ty + t * y, tz + t * z
        ux, uy, uz = ux + u * x, uy + u * y, uz + u * z
        k = previous[k]
    out[r, c], out[r, c + 1], out[r, c + 2] = sx, sy, sz
    out[r + 1, c], out[r + 1, c + 1], out[r + 1, c + 2] = tx, ty, tz
    out[r + 2, c], out[r + 2, c + 1], out[r + 2, c + 2] = ux, uy, uz


@inline
def _path_column(previous, last, C, X, r, c, out):
    x = X[last, c]
    s, t, u = C[r, last] * x, C[r + 1, last] * x, C[r + 2, last] * x
    k = previous[last]
    while k >= 0:
        x = X[k, c]
        s, t, u = s + C[r, k] * x, t + C[r + 1, k] * x, u + C[r + 2, k] * x
        k = previous[k]
    out[r, c], out[r + 1, c], out[r + 2, c] = s, t, u
