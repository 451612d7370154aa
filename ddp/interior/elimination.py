# mypy: allow-untyped-defs, allow-untyped-calls
"""Gains that keep what binds, exactly: rows C z = 0 of constraints at their bounds are solved for controls.

From the last knot on, rows of a knot and what later knots leave, L x' = 0, are turned by reflections until

    C_x x + C_u u = 0,  L (A x + B u) = 0   →   R u_p + R_f u_f + R_x x = 0,   L x = 0

R is triangular, of as many controls u_p as rows have independent slopes by controls; limits hold other controls. So
u = S (x, u_f), and a sweep over the controls u_f that are left gives all gains (Laine & Tomlin 2019). L x = 0 is left
to the knot before: of rows that no control enters, and nothing of rows that depend on others. At the first knot it is
forgotten, as x_0 is given. Where controls are too few to meet all rows from any x, as at the last knots before an end
that is given, least squares of what is missed come first, and the cost then.

Sweeps in which rows weigh 1 / δ have these gains as δ goes to zero. But with numbers, δ has to be much smaller than
C_u Q_uu⁻¹ C_uᵀ, and 1e16 times δ much larger, at all knots: gains of a rail, or a landing, were wrong by a tenth.

Whether numbers are rounding is judged in units of states and controls that tell how far these move: see scaling.py.
"""

from typing import TYPE_CHECKING

import numpy as np

from ddp.compiling.kernel import kernel
from ddp.constraints.row_table import BEGIN, COLUMNS, DIAGONAL, END, NUMBER, ROW, SIZE, WIDTH
from ddp.interior.passes import condense, sweep
from ddp.interior.row_steps import COMPLIANCE, EQUAL, FREE, PRICE
from ddp.interior.scaling import units_of
from ddp.machine.addresses import array_at, integers_at
from ddp.protocols import Array
from ddp.sweeps.riccati import coupling_at
from ddp.systems.system import COUPLED, MOTIONS

if TYPE_CHECKING:
    from ddp.interior.point import Point

ROUNDING, CLOSE = 1e-11, 1e-9
"""Numbers that are smaller, relative to what they are sums of, are zero; derivatives before a step that changes
controls by a smaller share serve after it."""


@kernel
def reflect(W, first, stop, begin, end, size, order):
    """Reflect rows first .. stop-1 of W until its columns begin .. end-1, in an order, are a trapezoid; where it ends.

    size (nz,): of what the numbers of each column are sums of.   order (nz,): columns, which those of pivots begin.
    """
    for j in range(begin, end):
        order[j] = j
    if first == stop:
        return first
    sums = np.empty(W.shape[1])
    for k in range(begin, end):
        row, pivot, found = first + k - begin, 0.0, -1
        sums[:] = 0.0
        for i in range(row, stop):
            for j in range(begin, end):
                sums[j] += W[i, j] * W[i, j]
        for j in range(k, end):
            length = np.sqrt(sums[order[j]])
            if length > max(pivot, ROUNDING * size[order[j]]):
                pivot, found = length, j
        if found < 0:
            return row
        c = order[found]
        order[found], order[k] = order[k], c
        pivot = -np.copysign(pivot, W[row, c])
        W[row, c] -= pivot
        sums[:] = 0.0
        for i in range(row, stop):
            along = W[i, c]
            for j in range(W.shape[1]):
                sums[j] += along * W[i, j]
        scale = 1.0 / (pivot * W[row, c])
        for i in range(row, stop):
            along = scale * W[i, c]
            for j in range(W.shape[1]):
                W[i, j] += along * sums[j]
        W[row, c] = pivot
        W[row + 1 : stop, c] = 0.0
    return first + end - begin


@kernel
def gather(table, J, binds, t, units, W, rows, size):
    """Add the rows of knot t that bind to W after so many others, and to sizes of columns; how many there are then."""
    for e in table:
        if e[BEGIN] <= t < e[END]:
            count, width = e[SIZE], e[WIDTH]
            columns, first = integers_at(e[COLUMNS], (max(count, width),)), count * (t - e[BEGIN])
            for r in range(count):
                if binds[e[ROW] + first + r]:
                    W[rows] = 0.0
                    for j in range(width):
                        c = columns[r if e[DIAGONAL] else j]
                        W[rows, c] = units[c] * J[e[NUMBER] + width * (first + r) + j]
                    largest = 0.0
                    for c in range(len(size)):
                        largest = max(largest, abs(W[rows, c]))
                    for c in range(len(size)):
                        size[c] += largest
                    rows += 1
    return rows


@kernel
def pull_back(W, first, rows, A, B, units, size, L):
    """Rows of W := its rows from the first on, of x', as those of x and u, x' = A x + B u; how many there are.

    Rounding grows as what it is of.   units (nz,): in which W is, see `eliminate`.   L (nz, nz): working memory.
    """
    (n, nu), left, before, after, level = B.shape, rows - first, 0.0, 0.0, size[0]
    for i in range(left):
        for j in range(n):
            before = max(before, abs(W[first + i, j]))
            L[i, j] = W[first + i, j] / units[j]
    size[:] = 0.0
    for i in range(left):
        W[i] = 0.0
        for l in range(n):
            for j in range(n):
                W[i, j] += L[i, l] * A[l, j]
            for j in range(nu):
                W[i, n + j] += L[i, l] * B[l, j]
        for j in range(n + nu):
            W[i, j] *= units[j]
        for j in range(n):
            after = max(after, abs(W[i, j]))
    for l in range(n if left > 0 else 0):
        for j in range(nu):
            size[n + j] = max(size[n + j], level * abs(B[l, j]) * units[n + j] / units[l])
    for j in range(n if left > 0 else 0):
        size[j] = level * after / before
    return left


@kernel
def turn(knots, H, coupled, diagonal, S, M):
    """Hessians H (., nz, nz) at some knots := those by x and v, where u = S (x, v).

    coupled, diagonal: of H, see `Horizon`.   M (nz, nz): working memory.
    """
    nu, nz = S.shape[1:]
    n = nz - nu
    for t in knots:
        own, by = H[t], S[t]
        for i in range(nz):
            for j in range(i, nz):
                if j >= coupled[t] and i < j:
                    own[i, j] = 0.0
                elif coupled[t] == 0:
                    own[i, j] = diagonal[t, i]
                own[j, i] = own[i, j]  # the upper triangle is known
        for i in range(nz):
            for j in range(nz):
                M[i, j] = own[i, j] if j < n else 0.0
                for l in range(nu):
                    M[i, j] += own[i, n + l] * by[l, j]
        for i in range(nz):
            for j in range(nz):
                own[i, j] = M[i, j] if i < n else 0.0
                for l in range(nu):
                    own[i, j] += by[l, i] * M[n + l, j]


@kernel
def turn_coupling(knots, T, bent, S, H):
    """H (., nz, nz) at some knots += their blocks uq of T by x and v, where u = S (x, v); these become zeros."""
    nu, nz = S.shape[1:]
    m = (nz - nu) // 2
    for t in knots:
        uq = array_at(coupling_at(T[t].ctypes.data, m, bent, len(bent)), (nu, m))
        for i in range(m):
            for j in range(nz):
                total = 0.0
                for l in range(nu):
                    total += uq[l, i] * S[t, l, j]
                H[t, i, j] += total
                H[t, j, i] += total
        uq[:] = 0.0


@kernel
def substitute(A, B, lz, S, row):
    """A, B, lz (nz,) := those by x and v, where u = S (x, v).   row (nz,): working memory."""
    n, nu = B.shape
    for i in range(n + 1):
        for j in range(n + nu):
            row[j] = 0.0 if j >= n else A[i, j] if i < n else lz[j]
            for l in range(nu):
                row[j] += (B[i, l] if i < n else lz[n + l]) * S[l, j]
        for j in range(n + nu):
            if i == n:
                lz[j] = row[j]
            elif j < n:
                A[i, j] = row[j]
            else:
                B[i, j - n] = row[j]


@kernel
def eliminate(table, J, binds, A, B, lz, units, held, S, W, M):
    """Solve the rows (m,) that bind for controls, which are ``held`` (N, nu) from then on; others may be before.

    S (N, nu, nz): u = S (x, v), v the controls that are left. Where any are solved for A, B, lz become those by x, v.
    Returns these knots.   units (nz,): of x and u, of W and while S is found.   W (., nz), M (nz, nz): working memory.
    """
    N, n, nu = B.shape
    size, order, knots, count = np.zeros(n + nu), np.empty(n + nu, np.int64), np.empty(N, np.int64), 0
    done, left = 0, reflect(W, 0, gather(table, J, binds, N, units, W, 0, size), 0, n, size, order)
    for t in range(N - 1, -1, -1):
        rows = gather(table, J, binds, t, units, W, pull_back(W, done, left, A[t], B[t], units, size, M), size)
        for i in range(nu):
            if held[t, i] != 0.0:
                W[:rows, n + i] = 0.0
        done = reflect(W, 0, rows, n, n + nu, size, order)
        for k in range(nu):
            c = order[n + k]
            if k < done:
                held[t, c - n] = 1.0
            else:
                S[t, c - n, c] = 1.0
        for j in range(n + nu):
            if j < n or held[t, j - n] == 0.0:
                for i in range(done - 1, -1, -1):
                    total = -W[i, j]
                    for l in range(i + 1, done):
                        total -= W[i, order[n + l]] * S[t, order[n + l] - n, j]
                    S[t, order[n + i] - n, j] = total / W[i, order[n + i]]
        left = reflect(W, done, rows, 0, n, size, order)
        for i in range(nu):
            for j in range(n + nu):
                S[t, i, j] *= units[n + i] / units[j]
        if done > 0:
            substitute(A[t], B[t], lz[t], S[t], M[0])
            knots[count] = t
            count += 1
    return knots[:count]


@kernel
def lead(knots, S, k, K):
    """k (N, nu), K (N, nu, n) := those of u at some knots, from those of v, where u = S (x, v)."""
    nu, n = K.shape[1:]
    row = np.empty((nu, n + 1))
    for t in knots:
        for i in range(nu):
            for j in range(n + 1):
                row[i, j] = S[t, i, j] if j < n else 0.0
                for l in range(nu):
                    row[i, j] += S[t, i, n + l] * (K[t, l, j] if j < n else k[t, l])
        for i in range(nu):
            k[t, i] = row[i, n]
            for j in range(n):
                K[t, i, j] = row[i, j]


def exact_gains(point: "Point", blend: float, known: bool) -> tuple[Array, Array] | None:
    """k (N, nu), K (N, nu, n) at a point, with a share of the exact Hessian; known: whether its derivatives may be.

    They are if the last step was short.

    None where no constraint binds but those that give way, so that gains are exact anyway; and where no sweep succeeds.
    """
    place, given, b, d = point.place, point.place.bounds, point.place.imposed, point.place.swept
    y, first, sweeps, table = place.own["forces"], point.first, point.backward, point.rows.table
    if first == 0:  # there are limits of controls alone, which hold anyway
        b.kind.fill(FREE)
        return None
    held = ((given.kind == EQUAL) | ((given.kind != FREE) & (y != 0.0))) & (np.abs(y) < given.give[PRICE])
    held[first:], gives = False, given.give[COMPLIANCE] > 0.0
    binds = held & ~gives
    b.kind[:] = np.where(held & gives, EQUAL, FREE)
    if not binds.any():
        return None
    units = units_of(point.problem, d, point.X, point.U, even=True)
    still = np.abs(point.u) <= CLOSE * (units[d.A.shape[1] :] + np.abs(point.U).max(axis=0))
    if not (known and still.all()):
        point.differentiate()
        point.contract()
    b.y[:] = y
    point.do(condense)
    if blend < 1.0:
        point.do(sweep, blend, 0.0, False)  # writes Gauss-Newton's Hessians, too
    h, (N, n, nu) = sweeps.apart, d.B.shape
    h.held[:] = sweeps.held if point.boxed else np.sign(y[first:]).reshape(N, nu) if point.limited else 0.0
    h.A[:], h.B[:], h.coupled[:] = d.A, d.B, sweeps.coupled
    S, M, W = np.zeros((N, nu, n + nu)), np.empty((n + nu, n + nu)), np.empty((n + int(table[:, SIZE].sum()), n + nu))
    knots = eliminate(table, place.own["J"], binds, h.A, h.B, d.lz, units, h.held, S, W, M)
    for H in [d.exact] * (blend > 0.0) + [d.lzz] * (blend < 1.0):
        turn(knots, H, h.coupled, d.diagonal, S, M)
    h.coupled[knots] = n + nu
    if blend > 0.0 and sweeps.blockwise >= COUPLED:
        turn_coupling(knots, sweeps.second, h.bent, S, d.exact)
    elif blend > 0.0 and not sweeps.blockwise:
        turn(knots, sweeps.second, h.coupled, d.diagonal, S, M)
    if blend > 0.0 and sweeps.blockwise != MOTIONS:
        point.contracted = 0
    if not sweeps.sweep_apart(blend):
        return None
    lead(knots, S, h.k, h.K)
    return h.k.copy(), h.K.copy()
