# mypy: allow-untyped-defs, allow-untyped-calls
"""All compiled cost terms of a problem, evaluated along a trajectory in one call.

A table has a row for each: where its C function is, its context, the knots begin .. end-1 that it belongs to, and what
multiplies it. Costs of knots are sums over the rows, in their order. Controls beyond the last one are zeros. Notes have
a row for each knot, or none where no term reads any.
"""

from collections.abc import Iterable
from struct import pack, unpack

import numpy as np
from numpy.typing import NDArray

from ddp.compiling.kernel import apart, call_contraction, inline, kernel
from ddp.costs.batch import CompiledCost
from ddp.costs.bound import VALUES
from ddp.machine.addresses import address_of_words
from ddp.machine.memory import floats_at

Table = NDArray[np.int64]
"""(terms, 5); the last column holds the bits of a float."""

NO_NOTES, NONE = np.zeros((0, 0)), np.zeros((0, 5), np.int64)
"""No notes, and no terms."""


def table_of(rows: Iterable[tuple[CompiledCost, int, int, float]]) -> Table:
    """The table of terms, their knots and what multiplies them; the caller keeps the terms alive."""
    found = [
        (term.address, term.context, begin, end, *unpack("q", pack("d", weight))) for term, begin, end, weight in rows
    ]
    return np.array(found, dtype=np.int64).reshape(-1, 5)


@inline
def place(array):
    """Address of an array."""
    return np.int64(array.ctypes.data)


@kernel
def clear(where, count):
    """Write zeros for so many floats at an address."""
    out = floats_at(where)
    for i in range(count):
        out[i] = 0.0


@kernel
def values(table, X, U, notes, costs):
    """costs (M,) := those of the knots of X (M, nx), U (M, nu) or (M-1, nu)."""
    clear(place(costs), costs.shape[0])
    add_terms(table, VALUES, 0, X.shape[0], X, U, notes, (place(costs), 0, 0), 0, (0, 0, 0))


@kernel
def total(table, X, U, notes, costs):
    """The sum of `values`, which go into ``costs``; infinity where X does not end in numbers."""
    for i in range(X.shape[1]):
        if not abs(X[X.shape[0] - 1, i]) < np.inf:
            return np.inf
    values(table, X, U, notes, costs)
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
def last_values(table, X, U, costs):
    """costs (M, 2) := those of the last step and the last state of M trajectories X (M, N+1, nx), U (M, N, nu)."""
    costs[:] = 0.0
    N, steps = U.shape[1], (0, 0, 0)
    for m in range(X.shape[0]):
        add_terms(table, VALUES, N - 1, N + 1, X[m], U[m], X[m, :0], (place(costs[m]), 0, 0), 0, steps)


@kernel
def add_terms(table, order, start, stop, X, U, notes, places, nz, steps):
    """Add the terms of a table, to an order of `bound`, at the knots start .. stop-1.

    places: addresses of these knots' l, lz and Hessians.   steps: how far an entry of the Hessians is from those of the
    next knot, row and column [bytes].
    """
    nx, nu, width = X.shape[1], U.shape[1], notes.shape[1]
    none = np.zeros(nu)
    for i in range(table.shape[0]):
        begin, end = max(start, table[i, 2]), min(stop, table[i, 3])
        if begin < end:
            x, k = place(X) + 8 * nx * begin, begin - start
            u = place(U) + 8 * nu * begin if begin < U.shape[0] else place(none)
            own = places[0] + 8 * k, places[1] + 8 * nz * k, places[2] + steps[0] * k
            noted = width, place(notes) + 8 * width * begin
            block = address_of_words((end - begin, nx, nu, nz, table[i, 4], x, u, *own, *noted, *steps))
            call_contraction(table[i, 0], table[i, 1], block, order, begin - table[i, 2])


@kernel
def expand_matrices(table, order, X, U, l, lz, lzz):
    """Add all terms at all knots of X, with Hessians in lzz even if they are diagonal."""
    nz = lz.shape[1]
    places, steps = (place(l), place(lz), place(lzz)), (8 * nz * nz, 8 * nz, 8)
    add_terms(table, order, 0, X.shape[0], X, U, X[:0], places, nz, steps)


@kernel
def expand(table, order, runs, start, stop, X, U, record, l, lz, lzz, diagonal, again):
    """Costs, gradients and Hessians, of Gauss-Newton or exact by ``order``, of the knots start .. stop-1.

    runs (., 3): of knots begin .. end-1, and how many of the first numbers of z their Hessians couple, as in
    `Objective.coupled`; 0: they go into ``diagonal`` (N+1, nz), and not into lzz. What is not coupled stays as it is.
    again: whether those of the other order are known, and so all of separable knots.
    """
    nz = lz.shape[1]
    for r in range(runs.shape[0]):
        begin, end, coupled = max(start, runs[r, 0]), min(stop, runs[r, 1]), runs[r, 2]
        M = end - begin
        if M > 0 and not (again and coupled == 0):
            of_l, of_lz = place(l) + 8 * begin, place(lz) + 8 * nz * begin
            hessians, steps = place(lzz), (8 * nz * nz, 8 * nz, 8)
            if coupled == 0:
                hessians, steps = place(diagonal), (8 * nz, 8, 0)
            hessians += steps[0] * begin
            clear(of_l, M)
            clear(of_lz, M * nz)
            if coupled == 0 or coupled == nz:
                clear(hessians, M * steps[0] // 8)
            else:
                clear_coupled(coupled, hessians, M, nz)
            places = of_l, of_lz, hessians
            add_terms(table, order, begin, end, X, U, record, places, nz, steps)


@apart
def clear_coupled(coupled, hessians, M, nz):
    """Hessians (M, nz, nz) := 0 in so many of the first rows and columns, and on the diagonal: all takes longer."""
    H = floats_at(hessians)
    for k in range(M):
        own = H[k * nz * nz :]
        for i in range(coupled):
            for j in range(coupled):
                own[i * nz + j] = 0.0
        for i in range(coupled, nz):
            own[i * (nz + 1)] = 0.0
