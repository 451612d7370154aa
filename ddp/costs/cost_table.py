# mypy: allow-untyped-defs, allow-untyped-calls
"""All compiled cost terms of a problem, evaluated along a trajectory in one call.

A table has a row for each: where its C function is, its context, the knots begin .. end-1 that it belongs to, and what
multiplies it. Costs of knots are sums over the rows, in their order. Controls beyond the last one are zeros. Notes have
a row for each knot, or none where no term reads any.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ddp.compiling.kernel import call_contraction, kernel
from ddp.costs.batch import CompiledCost
from ddp.costs.bound import BLOCK, EXACT, VALUES
from ddp.costs.hessians import clear_hessians

Table = NDArray[np.int64]
"""(terms, 5); the last column holds the bits of a float."""

NO_NOTES, NONE = np.zeros((0, 0)), np.zeros((0, 5), np.int64)
"""No notes, and no terms."""


def table_of(rows: Iterable[tuple[CompiledCost, int, int, float]]) -> Table:
    """The table of terms, their knots and what multiplies them; the caller keeps the terms alive."""
    found = [[term.address, term.context, begin, end, _bits(weight)] for term, begin, end, weight in rows]
    return np.array(found, dtype=np.int64).reshape(-1, 5)


def _bits(number: float) -> int:
    return int(np.float64(number).view(np.int64))


@kernel
def values(table, X, U, costs):
    """costs (M,) := those of the knots of X (M, nx), U (M, nu) or (M-1, nu)."""
    costs[:] = 0.0
    add_values(table, X, U, X[:0], costs)


@kernel
def note_rows(block, notes, begin):
    """The notes from knot ``begin`` on, into a block."""
    if begin < notes.shape[0]:
        block[10], block[11] = notes.shape[1], notes.ctypes.data + 8 * notes.shape[1] * begin


@kernel
def add_values(table, X, U, notes, costs):
    """Add the costs of the terms of a table, which are `expand_rows` to order zero."""
    M, no_lz, no_lzz = X.shape[0], np.empty((X.shape[0], 0)), np.empty((X.shape[0], 0, 0))
    expand_rows(table, VALUES, one_run(0, M), 0, M, X, U, costs, no_lz, no_lzz, no_lz, 0, notes)


@kernel
def total(table, noted, X, U, notes, costs):
    """The sum of `values` of two tables, which go into ``costs``; infinity where X does not end in numbers."""
    for i in range(X.shape[1]):
        if not abs(X[X.shape[0] - 1, i]) < np.inf:
            return np.inf
    values(table, X, U, costs)
    if noted.shape[0] > 0:
        add_values(noted, X, U, notes, costs)
    return sum_of(costs)


@kernel
def sum_of(costs):
    """The sum of costs, with what rounding loses of it (Neumaier 1974)."""
    result, lost = 0.0, 0.0
    for cost in costs:
        after = result + cost
        lost += (result - after) + cost if abs(result) >= abs(cost) else (cost - after) + result
        result = after
    return result + lost if abs(result) < np.inf else result


@kernel
def expand_rows(table, order, runs, start, stop, X, U, l, lz, lzz, diagonal, offset, notes):
    """Add all terms at the knots start .. stop-1, to an order of `bound`; row 0 of l and lz is knot ``offset``'s.

    runs (., 3): of knots begin .. end-1, and whether their Hessians go into ``diagonal`` (N+1, nz), and not into lzz.
    """
    nx, nu, nz = X.shape[1], U.shape[1], lz.shape[1]
    block, none = np.zeros(BLOCK, np.int64), np.zeros(nu)
    block[1], block[2], block[3] = nx, nu, nz
    for i in range(table.shape[0]):
        for r in range(runs.shape[0]):
            begin, end = max(start, table[i, 2], runs[r, 0]), min(stop, table[i, 3], runs[r, 1])
            if begin >= end:
                continue
            block[0], block[4] = end - begin, table[i, 4]
            block[5] = X.ctypes.data + 8 * nx * begin
            block[6] = U.ctypes.data + 8 * nu * begin if begin < U.shape[0] else none.ctypes.data
            block[7] = l.ctypes.data + 8 * (begin - offset)
            block[8] = lz.ctypes.data + 8 * nz * (begin - offset)
            if runs[r, 2] != 0:
                block[9], block[12], block[13], block[14] = diagonal.ctypes.data, 8 * nz, 8, 0
            else:
                block[9], block[12], block[13], block[14] = lzz.ctypes.data, 8 * nz * nz, 8 * nz, 8
            block[9] += block[12] * begin
            note_rows(block, notes, begin)
            call_contraction(table[i, 0], table[i, 1], block.ctypes.data, order, begin - table[i, 2])


@kernel
def expand_matrices(table, order, X, U, l, lz, lzz):
    """Add all terms at all knots of X, with Hessians in lzz even if they are diagonal."""
    expand_rows(table, order, one_run(0, X.shape[0]), 0, X.shape[0], X, U, l, lz, lzz, lz, 0, X[:0])


@kernel
def one_run(begin, end):
    """The runs of knots that are one, of matrices."""
    runs = np.zeros((1, 3), np.int64)
    runs[0, 0], runs[0, 1] = begin, end
    return runs


@kernel
def expand(table, noted, order, runs, start, stop, X, U, record, l, lz, lzz, diagonal):
    """Costs, gradients and Hessians, of Gauss-Newton or exact by ``order``, of the knots start .. stop-1."""
    l[start:stop] = 0.0
    lz[start:stop] = 0.0
    clear_hessians(runs, start, stop, lzz, diagonal)
    expand_rows(table, order, runs, start, stop, X, U, l, lz, lzz, diagonal, 0, X[:0])
    expand_rows(noted, order, runs, start, stop, X, U, l, lz, lzz, diagonal, 0, record)


@kernel
def expand_exact(table, noted, curved, start, stop, X, U, record, exact):
    """Exact Hessians of the knots start .. stop-1; curved (., 2): the runs of those that are not separable."""
    for i in range(curved.shape[0]):
        begin, end = max(start, curved[i, 0]), min(stop, curved[i, 1])
        if begin < end:
            exact[begin:end] = 0.0
            runs, l, lz = one_run(begin, end), np.zeros(end - begin), np.zeros((end - begin, exact.shape[1]))
            expand_rows(table, EXACT, runs, begin, end, X, U, l, lz, exact, lz, begin, X[:0])
            expand_rows(noted, EXACT, runs, begin, end, X, U, l, lz, exact, lz, begin, record)
