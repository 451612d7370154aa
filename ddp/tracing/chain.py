# mypy: allow-untyped-defs, allow-untyped-calls
"""Functions of (x, u, y) and quantities y(x, u): values and, by the chain rule, first and second derivatives.

With the traced function's gradient and Hessian by e = (dx, du, y), and the Jacobian E of y by z = (dx, du), whose
columns ``whole`` alone are not zero,

    g = g_z + Eᵀ g_y        H = H_zz + H_zy E + (H_zy E)ᵀ + Eᵀ H_yy E + Σ_i g_yi ∂²y_i

Without the last sum it is Gauss-Newton's, if H by e is positive semidefinite.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp.compiling.kernel import call_contraction, inline, kernel
from ddp.machine.addresses import address_of_words
from ddp.machine.number import WIDTH
from ddp.protocols import Array
from ddp.tracing.evaluate import fill, place, share
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


class Memory(NamedTuple):
    """Memory for eight knots, by uses: arguments, numbers y, weights on them, Jacobians; and Hessians of one use."""

    arguments: Array
    y: Array
    weights: Array
    J: Array
    H: Array


@kernel
def memory_for(uses):
    """Make memory."""
    t, hessian, y, J = uses.table, 0, 0, 0
    for i in range(t.shape[0]):
        y, J, hessian = y + t[i, 2], J + t[i, 2] * t[i, 4], max(hessian, t[i, 4] * t[i, 4])
    y, J, first = WIDTH * y, WIDTH * J, WIDTH * uses.entries.shape[0]
    all = np.zeros(first + 2 * y + J + WIDTH * hessian)  # one: each takes time
    at = first + 2 * y
    return Memory(all[:first], all[first : first + y], all[first + y : at], all[at : at + J], all[at + J :])


@kernel
def count_of(uses):
    """Count the numbers of all quantities."""
    count = 0
    for i in range(uses.table.shape[0]):
        count += uses.table[i, 2]
    return count


@inline
def arguments_of(uses, X, U):
    """Count the numbers that a function takes of a knot: x, u, parameters and those of quantities."""
    return X.shape[1] + U.shape[1] + uses.p.shape[0] + count_of(uses)


@kernel
def gather(uses, X, U, first, memory):
    """Arguments of all uses at knots first, first + 1, ...; how many of these there are."""
    t, nx, many = uses.table, X.shape[1], min(WIDTH, X.shape[0] - first)
    for i in range(t.shape[0]):
        begin, count = t[i, 5], t[i, 3]
        for lane in range(many):
            for j in range(count):
                at, own = uses.entries[begin + j], WIDTH * begin + lane * count + j
                if at < 0:
                    memory.arguments[own] = uses.constants[-1 - at]
                else:
                    memory.arguments[own] = X[first + lane, at] if at < nx else U[first + lane, at - nx]
    return many


@kernel
def ask(uses, i, order, many, memory):
    """Use i at as many knots: numbers, from order FIRST on with Jacobians, or for SECOND weighted Hessians alone."""
    t = uses.table
    if order == SECOND:
        for j in range(many * t[i, 4] * t[i, 4]):
            memory.H[j] = 0.0
    own, wide = 8 * WIDTH * t[i, 7], 8 * WIDTH
    block = address_of_words((
        many, t[i, 3], t[i, 2], t[i, 4], memory.arguments.ctypes.data + wide * t[i, 5], memory.y.ctypes.data + own,
        memory.weights.ctypes.data + own, memory.J.ctypes.data + wide * t[i, 8], memory.H.ctypes.data,
    ))  # fmt: skip
    call_contraction(t[i, 0], t[i, 1], block, order, 0)


@kernel
def measure(uses, order, X, U, first, inputs, begin, memory):
    """Numbers of all quantities at eight knots into inputs from ``begin`` on, and with order FIRST their Jacobians."""
    many, t = gather(uses, X, U, first, memory), uses.table
    for i in range(t.shape[0]):
        ask(uses, i, order, many, memory)
        for lane in range(WIDTH):
            for r in range(t[i, 2]):
                y = memory.y[WIDTH * t[i, 7] + min(lane, many - 1) * t[i, 2] + r]
                inputs[WIDTH * (begin + t[i, 7] + r) + lane] = y


@kernel
def load(uses, order, X, U, begin, inputs, memory):
    """Arguments of eight knots into inputs; the Jacobians of quantities with order FIRST."""
    nz = X.shape[1] + U.shape[1]
    fill(inputs, 0, X, begin)
    fill(inputs, X.shape[1], U, begin)
    share(inputs, nz, uses.p)
    if uses.table.shape[0] > 0:
        measure(uses, order, X, U, begin, inputs, nz + uses.p.shape[0], memory)


@kernel
def evaluate_chained(function, uses, X, U, out):
    """out (M, size) := a function of rows of X, U and quantities."""
    memory = memory_for(uses)
    inputs = np.empty(WIDTH * arguments_of(uses, X, U))
    outputs = np.empty(WIDTH * function.outputs)
    for begin in range(0, out.shape[0], WIDTH):
        load(uses, VALUES, X, U, begin, inputs, memory)
        call_contraction(function.address, inputs.ctypes.data, outputs.ctypes.data, 0, 0)
        place(outputs, function.template, function.places, begin, out)


@kernel
def write_jacobian(uses, lane, memory, E):
    """E (ny, c) := Jacobian of all quantities at a knot of the eight, in columns ``whole``."""
    t = uses.table
    for i in range(E.shape[0]):
        for j in range(E.shape[1]):
            E[i, j] = 0.0
    for i in range(t.shape[0]):
        size, n, first, row = t[i, 2], t[i, 4], t[i, 6], t[i, 7]
        begin = WIDTH * t[i, 8] + lane * size * n
        for k in range(n):
            column = uses.into[first + k]
            if column >= 0:
                for r in range(size):
                    E[row + r, column] += memory.J[begin + r * n + k]


@kernel
def weigh(uses, lane, weight, memory):
    """Weights (ny,) on all quantities at a knot of the eight."""
    t = uses.table
    for i in range(t.shape[0]):
        for r in range(t[i, 2]):
            memory.weights[WIDTH * t[i, 7] + lane * t[i, 2] + r] = weight[t[i, 7] + r]


@kernel
def add_curvatures(uses, many, first, scale, memory, H):
    """H (M, nz, nz) += scale times Hessians of quantities by their weights, at as many knots from ``first`` on."""
    t = uses.table
    for i in range(t.shape[0]):
        ask(uses, i, SECOND, many, memory)
        n, begin = t[i, 4], t[i, 6]
        for lane in range(many):
            for j in range(n):
                row = uses.columns[begin + j]
                if row >= 0:
                    for k in range(n):
                        column = uses.columns[begin + k]
                        if column >= 0:
                            H[first + lane, row, column] += scale * memory.H[(lane * n + j) * n + k]


@inline
def add_direct(rows, direct, G, scale, H):
    """H (nz, nz) += scale times that part of a Hessian G (m, m) by e that belongs to z."""
    for i in range(direct):
        for j in range(direct):
            H[rows[i], rows[j]] += scale * G[i, j]


@kernel
def add_pulled_back(uses, rows, direct, G, E, nz, scale, T, H):
    """H (nz, nz) += scale times all else of a Hessian G (m, m) by e, but Σ g_y ∂²y; T: memory (m, c)."""
    m, whole, c = rows.shape[0], uses.whole, uses.whole.shape[0]
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
