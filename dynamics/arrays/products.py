# mypy: allow-untyped-defs, allow-untyped-calls
"""Products of small matrices in tiles of registers: eighteen sums at a time.

A column of such a matrix has entries for the relatives of its degree of freedom (ancestors, itself, descendants) only,
and neighbours on one chain have the same ones: ``tree.segment`` and ``tree.relatives``.
"""

from typing import Any, NamedTuple

from numba import types

from ddp.compiling.kernel import by_types, inline, kernel
from ddp.machine.memory import as_vector, columns_of
from ddp.machine.number import WIDTH
from ddp.machine.simd import add_outer, load_tile, stack, store
from dynamics.geometry.joint_motion import ROD
from dynamics.geometry.spatial import add3, add6, load3_at, load6_at, scale3, scale6, store_at


class Columns(NamedTuple):
    """Columns of a matrix with entries where ``relatives`` say, as ``Tree`` has them of its degrees of freedom."""

    ns: Any
    segment: Any
    relatives: Any


def _begin(start, i, j, A):  # type: ignore[no-untyped-def]
    """Start of a sum: an entry of ``start``, or zero."""
    return 0.0 if start is None else start[i, j]


@by_types(_begin)
def _which_begin(start, i, j, A):  # type: ignore[no-untyped-def]
    return _zero if isinstance(start, types.NoneType) else _entry


@inline
def _zero(start, i, j, A):
    return 0.0 * A[i, i]


@inline
def _entry(start, i, j, A):
    return start[i, j]


@kernel
def symmetric_product(tree, A, B, out):
    """out := A B, which is symmetric; B (nv, nv) has entries between a column's ancestors and itself only."""
    n = tree.nv
    for t in range(tree.ns):
        first, end, start, stop = tree.segment[t, 0], tree.segment[t, 1], tree.segment[t, 2], tree.segment[t, 3]
        while tree.relatives[stop - 1] >= end:
            stop -= 1
        path, count = tree.relatives[start:], stop - start
        whole = end - (end - first) % 3
        for j in range(first, whole, 3):
            i = j
            while i + 6 <= n:
                _tall_tile(path, count, 1.0, A, B, out, i, j)
                i += 6
            for r in range(i, n):
                _row_tile(path, count, A, B, out, r, j)
            for r in range(j + 1, n):
                for k in range(j, min(r, j + 3)):
                    out[k, r] = out[r, k]
        for j in range(whole, end):
            for r in range(j, n):
                out[r, j] = out[j, r] = _sum(path, count, A, B, r, j)


def product(tree, n, sign, A, B, begin, out):  # type: ignore[no-untyped-def]
    """out := sign A B inside kernels, of n rows, where B has entries between related degrees of freedom only.

    The columns of B before ``begin`` are zero. For floats a dense product of whole registers takes less time than
    related entries one by one: ``OneSample`` takes 17.7 µs for Talos with it, and 22.7 µs without.
    """


@by_types(product)
def _product(tree, n, sign, A, B, begin, out):  # type: ignore[no-untyped-def]
    are_floats = all(one.number == types.float64 and one.is_contiguous for one in (out, A, B))
    return _float_product if are_floats else _related_product


@kernel
def _float_product(tree, n, sign, A, B, begin, out):
    m = tree.segment[tree.ns - 1, 1]
    if m < WIDTH or n < 6:
        _related_product(tree, n, sign, A, B, begin, out)
        return
    zeros, x, y, z = stack(8), as_vector(A), as_vector(B), as_vector(out)
    lda, ldb, ldo = columns_of(A), columns_of(B), columns_of(out)
    store(zeros, 0, 0.0)
    for panel in range(0, m, WIDTH):
        j = min(panel, m - WIDTH)  # the last ones once more where sizes are no multiples
        for rows in range(0, n, 6):
            i = min(rows, n - 6)
            tile = load_tile(zeros, 0, 0, 6, 1)
            for k in range(n):
                tile = add_outer(tile, x, i * lda + k, lda, y, k * ldb + j)
            for r in range(6):
                store(z, (i + r) * ldo + j, sign * tile[r][0])


@kernel
def _related_product(tree, n, sign, A, B, begin, out):
    for i in range(n):
        for j in range(begin):
            out[i, j] = 0.0
    whole_rows = n - n % 3
    for t in range(tree.ns):
        j, end = max(begin, tree.segment[t, 0]), tree.segment[t, 1]
        rows, count = tree.relatives[tree.segment[t, 2] :], tree.segment[t, 3] - tree.segment[t, 2]
        while j + 6 <= end:
            for i in range(0, whole_rows, 3):
                _wide_tile(rows, count, sign, None, A, B, out, i, j)
            for i in range(whole_rows, n):
                _long_row_tile(rows, count, sign, None, A, B, out, i, j)
            j += 6
        whole_columns = end - (end - j) % 3
        for panel in range(0, n, 6):
            i = min(panel, n - 6)  # the last six once more where n is no multiple of six
            if i >= 0:
                for column in range(j, whole_columns, 3):
                    _tall_tile(rows, count, sign, A, B, out, i, column)
                for column in range(whole_columns, end):
                    _column_tile(rows, count, sign, A, B, out, i, column)
            else:
                for r in range(n):
                    for column in range(j, end):
                        out[r, column] = sign * _sum(rows, count, A, B, r, column)


@kernel
def dense_product(n, m, inner, sign, A, B, out):
    """out (n, m) := sign A B, of other memory, A (n, inner)."""
    whole_rows = n - n % 3
    for panel in range(0, m, 6):
        j = min(panel, m - 6)  # the last six once more where m is no multiple of six
        if j >= 0:
            for i in range(0, whole_rows, 3):
                x = load6_at(B, 0, j)
                a, b, c = scale6(A[i, 0], x), scale6(A[i + 1, 0], x), scale6(A[i + 2, 0], x)
                for k in range(1, inner):
                    x = load6_at(B, k, j)
                    a, b = add6(a, scale6(A[i, k], x)), add6(b, scale6(A[i + 1, k], x))
                    c = add6(c, scale6(A[i + 2, k], x))
                store_at(out, i, j, scale6(sign, a))
                store_at(out, i + 1, j, scale6(sign, b))
                store_at(out, i + 2, j, scale6(sign, c))
            for i in range(whole_rows, n):
                a = scale6(A[i, 0], load6_at(B, 0, j))
                for k in range(1, inner):
                    a = add6(a, scale6(A[i, k], load6_at(B, k, j)))
                store_at(out, i, j, scale6(sign, a))
        else:
            for i in range(n):
                for c in range(m):
                    total = A[i, 0] * B[0, c]
                    for k in range(1, inner):
                        total = total + A[i, k] * B[k, c]
                    out[i, c] = sign * total


@kernel
def coupling_product(tree, start, A, B, m, out):
    """out := start + A B of m columns, start (nv, m) other memory than out, or None; A is ∂²(ωᵀτ)/∂q∂a.

    A has entries between related degrees of freedom only, and none in the rows of joints on the world, whose own
    displacement, unlike that of a rod, the mass matrix does not see.
    """
    for t in range(tree.ns):
        first, end = tree.segment[t, 0], tree.segment[t, 1]
        columns, count = tree.relatives[tree.segment[t, 2] :], tree.segment[t, 3] - tree.segment[t, 2]
        while first < end and tree.parent[tree.body[first]] < 0 and tree.kind[tree.body[first]] != ROD:
            for j in range(m):
                out[first, j] = _begin(start, first, j, A)
            first += 1
        whole_rows = end - (end - first) % 3
        for panel in range(0, m, 6):
            j = min(panel, m - 6)
            if j >= 0:
                for i in range(first, whole_rows, 3):
                    _wide_tile(columns, count, 1.0, start, A, B, out, i, j)
                for i in range(whole_rows, end):
                    _long_row_tile(columns, count, 1.0, start, A, B, out, i, j)
            else:
                for i in range(first, end):
                    for k in range(m):
                        out[i, k] = _begin(start, i, k, A) + _sum(columns, count, A, B, i, k)


@inline
def _begin6(start, i, j, A):
    """Start of six sums in a row."""
    return (
        _begin(start, i, j, A), _begin(start, i, j + 1, A), _begin(start, i, j + 2, A),
        _begin(start, i, j + 3, A), _begin(start, i, j + 4, A), _begin(start, i, j + 5, A),
    )  # fmt: skip


@inline
def _tall_tile(inner, count, sign, A, B, out, i, j):
    """6 x 3 entries of sign A B from (i, j)."""
    m = inner[0]
    x = load3_at(B, m, j)
    a, b, c = scale3(A[i, m], x), scale3(A[i + 1, m], x), scale3(A[i + 2, m], x)
    d, e, f = scale3(A[i + 3, m], x), scale3(A[i + 4, m], x), scale3(A[i + 5, m], x)
    for k in range(1, count):
        m = inner[k]
        x = load3_at(B, m, j)
        a, b = add3(a, scale3(A[i, m], x)), add3(b, scale3(A[i + 1, m], x))
        c, d = add3(c, scale3(A[i + 2, m], x)), add3(d, scale3(A[i + 3, m], x))
        e, f = add3(e, scale3(A[i + 4, m], x)), add3(f, scale3(A[i + 5, m], x))
    store_at(out, i, j, scale3(sign, a))
    store_at(out, i + 1, j, scale3(sign, b))
    store_at(out, i + 2, j, scale3(sign, c))
    store_at(out, i + 3, j, scale3(sign, d))
    store_at(out, i + 4, j, scale3(sign, e))
    store_at(out, i + 5, j, scale3(sign, f))


@inline
def _row_tile(inner, count, A, B, out, i, j):
    """1 x 3 entries of A B from (i, j)."""
    a = scale3(A[i, inner[0]], load3_at(B, inner[0], j))
    for k in range(1, count):
        a = add3(a, scale3(A[i, inner[k]], load3_at(B, inner[k], j)))
    store_at(out, i, j, a)


@inline
def _column_tile(inner, count, sign, A, B, out, i, j):
    """6 x 1 entries of sign A B from (i, j)."""
    m = inner[0]
    x = B[m, j]
    a, b, c, d, e, f = A[i, m] * x, A[i + 1, m] * x, A[i + 2, m] * x, A[i + 3, m] * x, A[i + 4, m] * x, A[i + 5, m] * x
    for k in range(1, count):
        m = inner[k]
        x = B[m, j]
        a, b, c = a + A[i, m] * x, b + A[i + 1, m] * x, c + A[i + 2, m] * x
        d, e, f = d + A[i + 3, m] * x, e + A[i + 4, m] * x, f + A[i + 5, m] * x
    out[i, j], out[i + 1, j], out[i + 2, j] = sign * a, sign * b, sign * c
    out[i + 3, j], out[i + 4, j], out[i + 5, j] = sign * d, sign * e, sign * f


@inline
def _wide_tile(inner, count, sign, start, A, B, out, i, j):
    """3 x 6 entries of sign (start + A B) from (i, j)."""
    a, b, c = _begin6(start, i, j, A), _begin6(start, i + 1, j, A), _begin6(start, i + 2, j, A)
    for k in range(count):
        m = inner[k]
        x = load6_at(B, m, j)
        a = add6(a, scale6(A[i, m], x))
        b = add6(b, scale6(A[i + 1, m], x))
        c = add6(c, scale6(A[i + 2, m], x))
    store_at(out, i, j, scale6(sign, a))
    store_at(out, i + 1, j, scale6(sign, b))
    store_at(out, i + 2, j, scale6(sign, c))


@inline
def _long_row_tile(inner, count, sign, start, A, B, out, i, j):
    """1 x 6 entries of sign (start + A B) from (i, j)."""
    a = _begin6(start, i, j, A)
    for k in range(count):
        a = add6(a, scale6(A[i, inner[k]], load6_at(B, inner[k], j)))
    store_at(out, i, j, scale6(sign, a))


@inline
def _sum(inner, count, A, B, i, j):
    """The entry (i, j) of A B."""
    total = A[i, inner[0]] * B[inner[0], j]
    for k in range(1, count):
        total = total + A[i, inner[k]] * B[inner[k], j]
    return total
