# mypy: allow-untyped-defs, allow-untyped-calls
"""All rows of a problem's constraints in one call: values, Jacobians, curvature, products with Jacobians.

A table has a row of words for each constraint, see the names below. Numbers of rows of all knots are one vector (m,),
constraint after constraint and knot after knot (`Placed.own`); Jacobians another (p,), of each constraint
(M, size, width). Trajectories are X (N+1, nx), U (N, nu), zeros stand for u_N.
"""

import numpy as np
from numpy.typing import NDArray

from ddp.compiling.kernel import apart, call_contraction, inline, kernel
from ddp.constraints.bound import BLOCK, CURVATURE, JACOBIAN, CompiledConstraint
from ddp.costs.cost_table import place
from ddp.machine.addresses import integers_at
from ddp.machine.algebra import add_product, add_square
from ddp.machine.memory import rows_of

ADDRESS, CONTEXT, BEGIN, END, SIZE, WIDTH, COLUMNS, DIAGONAL, CURVED, ROW, NUMBER, COUNT = range(12)
"""Words: C function (0: none) and context; knots begin .. end-1; rows of a knot, kept columns, where their indices are;
whether each row has its own column; whether there is curvature; where the first row and the first number of J are; how
many constraints from this one on the C function is for: more than one of `bound.Together`, whose contexts are at
``CONTEXT``; none if it is one of those before."""

WORDS = 12


def words_of(found: CompiledConstraint, begin: int, end: int, size: int, row: int, number: int) -> list[int]:
    """The words of a constraint with ``size`` rows at each of the knots begin .. end-1."""
    own = size, found.width, int(found.columns.ctypes.data), int(found.diagonal), int(found.curved)
    return [found.address, found.context, begin, end, *own, row, number, 1]


def alone(found: CompiledConstraint, M: int, size: int) -> NDArray[np.int64]:
    """The table of one constraint at M knots."""
    return np.array([words_of(found, 0, M, size, 0, 0)], dtype=np.int64)


@apart
def evaluate(table, order, start, stop, X, U, y, out, H):
    """Evaluate at the knots start .. stop-1.

    order VALUES: out (m,) := c.   JACOBIAN: out (p,) := J.   CURVATURE: H (N+1, nz, nz) += Σ y_i ∂²c_i, y (m,).
    """
    none, blocks = np.zeros(U.shape[1]), np.empty((table.shape[0], BLOCK), dtype=np.int64)
    for i in range(table.shape[0]):
        e = table[i]
        if e[ADDRESS] == 0 or e[COUNT] == 0 or (order == CURVATURE and e[CURVED] == 0):
            continue
        begin, last = max(start, e[BEGIN]), min(stop, e[END])
        while begin < last:
            end = min(last, U.shape[0]) if begin < U.shape[0] else last
            for k in range(e[COUNT]):
                write_block(table[i + k], order, begin, end, X, U, none, y, out, H, blocks[k])
            call_contraction(e[ADDRESS], e[CONTEXT], place(blocks), order, e[COUNT])
            begin = end


@inline
def write_block(e, order, begin, end, X, U, none, y, out, H, block):
    """Write the words of a block, see `bound`, of a constraint at the knots begin .. end-1."""
    nx, nu, nz, row = X.shape[1], U.shape[1], H.shape[1], e[SIZE] * (begin - e[BEGIN])
    u = place(U) + 8 * nu * begin if begin < U.shape[0] else place(none)
    own = e[NUMBER] + e[WIDTH] * row if order == JACOBIAN else e[ROW] + row
    block[0], block[1], block[2], block[3], block[4], block[5] = end - begin, nx, nu, nz, e[SIZE], e[WIDTH]
    block[6], block[7], block[8] = place(X) + 8 * nx * begin, u, place(y) + 8 * (e[ROW] + row)
    block[9], block[10] = place(out) + 8 * own, place(H) + 8 * nz * nz * begin


@inline
def columns_of(e):
    """The columns of a constraint, one after another."""
    return integers_at(e[COLUMNS], (e[SIZE] if e[DIAGONAL] != 0 else e[WIDTH],))


@inline
def run_of(e, columns):
    """The first column of a constraint whose columns ascend one by one, so that they are a run; -1 if they do not."""
    last = columns.size - 1
    return columns[0] if last >= 0 and columns[last] - columns[0] == last else -1


@apart
def add_forces(table, J, y, lz):
    """lz (N+1, nz) += Jᵀ y."""
    of_J, of_y, of_lz = rows_of(J), rows_of(y), rows_of(lz)
    for i in range(table.shape[0]):
        e = table[i]
        columns, size, width, a, p = columns_of(e), e[SIZE], e[WIDTH], e[ROW], e[NUMBER]
        first, is_diagonal = run_of(e, columns), e[DIAGONAL] != 0
        for k in range(e[BEGIN], e[END]):
            g = of_lz[k]
            if is_diagonal:
                for r in range(size):
                    g[first + r if first >= 0 else columns[r]] += of_J[p + r] * of_y[a + r]
            elif first >= 0:
                add_product(g[first:], of_J[p:], of_y[a:], size, width, width)
            else:
                for r in range(size):
                    for j in range(width):
                        g[columns[j]] += of_J[p + r * width + j] * of_y[a + r]
            a, p = a + size, p + size * width


@kernel
def slopes(table, J, units, out):
    """out (m,) := the largest number of a row's J at any knot, for ``units`` (nz,) of the columns; their limits."""
    of_J, least, largest = rows_of(J), np.inf, 0.0
    for i in range(table.shape[0]):
        e = table[i]
        columns, size, width, knots = columns_of(e), e[SIZE], e[WIDTH], e[END] - e[BEGIN]
        for r in range(size):
            most = 0.0
            for k in range(knots):
                for j in range(width):
                    column = columns[r if e[DIAGONAL] != 0 else j]
                    most = max(most, abs(of_J[e[NUMBER] + (k * size + r) * width + j]) * units[column])
            for k in range(knots):
                out[e[ROW] + k * size + r] = most
            least, largest = min(least, most), max(largest, most)
    return least, largest


@apart
def scale(table, J, factors):
    """Multiply each row of J by its factor (m,)."""
    of_J = rows_of(J)
    for i in range(table.shape[0]):
        e = table[i]
        p, width = e[NUMBER], e[WIDTH]
        for a in range(e[ROW], e[ROW] + e[SIZE] * (e[END] - e[BEGIN])):
            for j in range(width):
                of_J[p + j] *= factors[a]
            p += width


@apart
def add_squares(table, J, w, separable, H, diagonal):
    """Add Jᵀ diag(w) J to H (N+1, nz, nz), at separable knots (N+1,) to the diagonal (N+1, nz) and not to H."""
    nz, of_J, of_w, of_H, of_diagonal = H.shape[1], rows_of(J), rows_of(w), rows_of(H), rows_of(diagonal)
    for i in range(table.shape[0]):
        e = table[i]
        columns, size, width, a, p = columns_of(e), e[SIZE], e[WIDTH], e[ROW], e[NUMBER]
        first, is_diagonal = run_of(e, columns), e[DIAGONAL] != 0
        for k in range(e[BEGIN], e[END]):
            if is_diagonal:
                out, apart = (of_diagonal[k], 1) if separable[k] else (of_H[k], nz + 1)
                for r in range(size):
                    out[apart * (first + r if first >= 0 else columns[r])] += of_w[a + r] * of_J[p + r] * of_J[p + r]
            elif first >= 0:
                add_square(of_J[p:], of_w[a:], size, width, of_H[k][first * (nz + 1) :], nz)
            else:
                for j in range(width):
                    for l in range(j + 1):
                        total = 0.0
                        for r in range(size):
                            total += w[a + r] * J[p + width * r + j] * J[p + width * r + l]
                        H[k, columns[j], columns[l]] += total
                        if l < j:
                            H[k, columns[l], columns[j]] += total
            a, p = a + size, p + size * width


@apart
def along(table, J, dX, dU, out):
    """out (m,) := J dz of dX (N+1, n), dU (N, nu)."""
    n, (of_J, of_X, of_U, to) = dX.shape[1], (rows_of(J), rows_of(dX), rows_of(dU), rows_of(out))
    for i in range(table.shape[0]):
        e = table[i]
        columns, size, width, a, p = columns_of(e), e[SIZE], e[WIDTH], e[ROW], e[NUMBER]
        first, is_diagonal = run_of(e, columns), e[DIAGONAL] != 0
        of_states = first >= 0 and columns[columns.size - 1] < n
        for k in range(e[BEGIN], e[END]):
            for r in range(size):
                moved, count = 0.0, 1 if is_diagonal else width
                begin = r if is_diagonal else 0
                for j in range(count):
                    column = first + begin + j if first >= 0 else columns[begin + j]
                    if of_states or column < n:
                        moved += of_J[p + j] * of_X[k][column]
                    elif k < dU.shape[0]:
                        moved += of_J[p + j] * of_U[k][column - n]
                to[a] = moved
                a, p = a + 1, p + width


@kernel
def worst(c, lower, upper):
    """The largest amount by which c (m,) is beyond its bounds, at least 0; NaN if one is that has bounds."""
    most = 0.0
    for i in range(c.shape[0]):
        beyond = max(c[i] - upper[i], lower[i] - c[i])
        if beyond > most or (beyond != beyond and (lower[i] > -np.inf or upper[i] < np.inf)):
            most = beyond
            if most != most:
                break
    return most
