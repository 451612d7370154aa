# mypy: allow-untyped-defs, allow-untyped-calls
"""Functions of (x, u, y) and quantities y(x, u): values and, by the chain rule, first and second derivatives.

With the traced function's gradient and Hessian by e = (dx, du, y), and the Jacobian E of y by z = (dx, du), whose
columns ``whole`` alone are not zero,

    g = g_z + Eᵀ g_y        H = H_zz + H_zy E + (H_zy E)ᵀ + Eᵀ H_yy E + Σ_i g_yi ∂²y_i

Without the last sum it is Gauss-Newton's, if H by e is positive semidefinite.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp.compiling.kernel import call_contraction, kernel
from ddp.machine.addresses import address_of_words
from ddp.machine.number import WIDTH
from ddp.protocols import Array
from ddp.tracing.evaluate import fill, place
from ddp.tracing.layout import Block
from ddp.tracing.quantities import SECOND, VALUES


class Curvature(NamedTuple):
    """A Hessian by e without its zeros: the rows (m,) that are not zero, and a block of (m, m).

    direct: how many of the rows belong to z; those of y come behind them.
    """

    rows: NDArray[np.int64]
    direct: int
    template: Array
    places: NDArray[np.int64]


def curvature_of(block: Block, size: int, nz: int) -> Curvature:
    """A Hessian (size, size) by e without its zeros."""
    there = block.template.reshape(size, size) != 0.0
    i, j = np.divmod(block.places[:, 1], size)
    there[i, j] = True
    rows = np.flatnonzero(there.any(axis=1))
    at = len(rows) * np.searchsorted(rows, i) + np.searchsorted(rows, j)
    own = np.ascontiguousarray(block.template.reshape(size, size)[np.ix_(rows, rows)].ravel())
    return Curvature(rows, int(np.searchsorted(rows, nz)), own, np.stack([block.places[:, 0], at], axis=1))


@kernel
def ask(uses, i, order, x, u, a, y, weight, J, H):
    """Use i of quantities at one knot: its numbers into y, and from order FIRST on J and H.

    a, J, H: memory for arguments, a Jacobian and a Hessian.   y, weight (ny,): of all quantities.
    """
    t, nx = uses.table, x.shape[0]
    for j in range(t[i, 3]):
        at = uses.entries[t[i, 5] + j]
        a[j] = uses.constants[-1 - at] if at < 0 else (x[at] if at < nx else u[at - nx])
    if order == SECOND:
        for j in range(t[i, 4] * t[i, 4]):
            H[j] = 0.0
    own, result = 8 * t[i, 7], (J.ctypes.data, H.ctypes.data)
    block = address_of_words((a.ctypes.data, y.ctypes.data + own, weight.ctypes.data + own, *result))
    call_contraction(t[i, 0], t[i, 1], block, order, 0)


@kernel
def measure(uses, X, U, first, a, Y):
    """Y (WIDTH, ny) := all quantities at knots first, first + 1, ... as far as there are any."""
    none = np.empty(0)
    for lane in range(min(WIDTH, X.shape[0] - first)):
        for i in range(uses.table.shape[0]):
            ask(uses, i, VALUES, X[first + lane], U[first + lane], a, Y[lane], none, none, none)


@kernel
def room(uses):
    """Numbers of the longest arguments, Jacobian and Hessian; and numbers of all quantities."""
    t, count, first, second, size = uses.table, 1, 1, 1, 0
    for i in range(t.shape[0]):
        count, first = max(count, t[i, 3]), max(first, t[i, 2] * t[i, 4])
        second, size = max(second, t[i, 4] * t[i, 4]), size + t[i, 2]
    return count, first, second, size


@kernel
def evaluate_chained(address, uses, X, U, W, count, template, places, out):
    """out (M, size) := a function of rows of X, U, quantities and W (M, .) with ``count`` outputs."""
    nx, nz = X.shape[1], X.shape[1] + U.shape[1]
    longest, _, _, ny = room(uses)
    a, Y = np.empty(longest), np.zeros((WIDTH, ny))
    inputs, outputs = np.empty(WIDTH * (nz + ny + W.shape[1])), np.empty(WIDTH * count)
    for first in range(0, out.shape[0], WIDTH):
        measure(uses, X, U, first, a, Y)
        fill(inputs, 0, X, first)
        fill(inputs, nx, U, first)
        fill(inputs, nz, Y, 0)
        fill(inputs, nz + ny, W, first)
        call_contraction(address, inputs.ctypes.data, outputs.ctypes.data, 0, 0)
        place(outputs, template, places, first, out)


@kernel
def differentiate(uses, order, x, u, weight, scale, a, y, J, C, E, H):
    """E (ny, c) := Jacobian of all quantities in columns ``whole``; with order SECOND, H += scale Σ weight_i ∂²y_i."""
    t = uses.table
    for i in range(E.shape[0]):
        for j in range(E.shape[1]):
            E[i, j] = 0.0
    for i in range(t.shape[0]):
        ask(uses, i, order, x, u, a, y, weight, J, C)
        n, first = t[i, 4], t[i, 6]
        for k in range(n):
            column = uses.into[first + k]
            if column >= 0:
                for r in range(t[i, 2]):
                    E[t[i, 7] + r, column] += J[r * n + k]
        if order == SECOND:
            for j in range(n):
                row = uses.columns[first + j]
                if row >= 0:
                    for k in range(n):
                        column = uses.columns[first + k]
                        if column >= 0:
                            H[row, column] += scale * C[j * n + k]


@kernel
def add_pulled_back(uses, rows, direct, G, E, nz, scale, T, H):
    """H (nz, nz) += scale times a Hessian G (m, m) by e, without Σ g_y ∂²y; T: memory (m, c)."""
    m, whole = rows.shape[0], uses.whole
    for i in range(direct):
        for j in range(direct):
            H[rows[i], rows[j]] += scale * G[i, j]
    if direct == m:
        return
    c = whole.shape[0]
    for i in range(m):
        for j in range(c):
            T[i, j] = 0.0
        for k in range(direct, m):
            g = G[i, k]
            if g != 0.0:
                for j in range(c):
                    T[i, j] += g * E[rows[k] - nz, j]
    for i in range(direct):
        for j in range(c):
            H[rows[i], whole[j]] += scale * T[i, j]
            H[whole[j], rows[i]] += scale * T[i, j]
    for k in range(direct, m):
        for i in range(c):
            e = scale * E[rows[k] - nz, i]
            if e != 0.0:
                for j in range(c):
                    H[whole[i], whole[j]] += e * T[k, j]


