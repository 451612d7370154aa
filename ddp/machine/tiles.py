# mypy: allow-untyped-defs, allow-untyped-calls
"""Register tiles: small dense linear algebra on raw addresses, for matrices far below what BLAS is made for.

A matrix is (address, ld): row i begins ld doubles after row i - 1, and ld is a multiple of ``WIDTH``, so that every
row may be read and written in whole SIMD registers of eight doubles. Columns between a matrix's last and the next
multiple of eight are padding: they are computed with, and mean nothing. Addresses are plain integers because an array
argument is seven words and a reference count, more work than a tile.

One micro-kernel does most,  C[0:m, j:j+8k] := S[0:m, j:j+8k] + a B[:, j:j+8k]  with the sums in registers, m in
(6, 2, 1), k in (3, 2, 1). S may be C, or a row of zeros, which serves for all of them with lds = 0. Element (r, k) of
a is at r ai + k ak: strides make it a matrix or its transpose. To subtract, pass -a. Copies, sums and transposition are
in rows.py, triangular systems in triangles.py.
"""

from ddp.compiling.kernel import for_constants, inline
from ddp.machine.memory import floats_at
from ddp.machine.number import WIDTH as WIDTH
from ddp.machine.simd import add_outer, load_tile, store_tile


def padded(columns: int) -> int:
    """The next multiple of ``WIDTH``."""
    return -(-columns // WIDTH) * WIDTH


@inline
def _plus_product(tile, a, i, ai, ak, B, j, ldb, K):
    """A tile + a B."""
    for k in range(K):
        tile = add_outer(tile, a, i + k * ak, ai, B, j + k * ldb)
    return tile


@for_constants(but=("ldc", "lds", "begin", "end"))
def _strip(rows, C, ldc, S, lds, begin, end, a, ai, ak, B, ldb, K):
    """C := S + a B of 6, 2 or 1 rows."""
    C, S, a, B = floats_at(C), floats_at(S), floats_at(a), floats_at(B)
    j = begin
    while end - j >= 24:
        store_tile(C, j, ldc, _plus_product(load_tile(S, j, lds, rows, 3), a, 0, ai, ak, B, j, ldb, K))
        j += 24
    if end - j >= 16:
        store_tile(C, j, ldc, _plus_product(load_tile(S, j, lds, rows, 2), a, 0, ai, ak, B, j, ldb, K))
    elif end - j >= 8:
        store_tile(C, j, ldc, _plus_product(load_tile(S, j, lds, rows, 1), a, 0, ai, ak, B, j, ldb, K))


@for_constants(but=("ldc", "lds", "first", "rows", "end"))
def _strips(upper, C, ldc, S, lds, first, rows, end, a, ai, ak, B, ldb, K):
    """C := S + a B in the rows first .. rows-1, from the first column or from the diagonal on."""
    i = first
    while rows - i >= 6:
        begin, factor = upper * (i // WIDTH * WIDTH), a + 8 * i * ai
        _strip(6, C + 8 * i * ldc, ldc, S + 8 * i * lds, lds, begin, end, factor, ai, ak, B, ldb, K)
        i += 6
    while rows - i >= 2:
        begin, factor = upper * (i // WIDTH * WIDTH), a + 8 * i * ai
        _strip(2, C + 8 * i * ldc, ldc, S + 8 * i * lds, lds, begin, end, factor, ai, ak, B, ldb, K)
        i += 2
    if rows > i:
        begin, factor = upper * (i // WIDTH * WIDTH), a + 8 * i * ai
        _strip(1, C + 8 * i * ldc, ldc, S + 8 * i * lds, lds, begin, end, factor, ai, ak, B, ldb, K)


@for_constants(but=("ldc", "lds", "rows", "end"))
def product(C, ldc, S, lds, rows, end, a, ai, ak, B, ldb, K):
    """C[:rows, :end] := S[:rows, :end] + a B[:, :end], a being (rows, K); end is a multiple of eight."""
    _strips(0, C, ldc, S, lds, 0, rows, end, a, ai, ak, B, ldb, K)


@for_constants(but=("ldc", "lds", "first", "rows", "end"))
def upper_product(C, ldc, S, lds, first, rows, end, a, ai, ak, B, ldb, K):
    """Product in the rows first .. rows-1, on and above the diagonal; below it C is left half computed."""
    _strips(1, C, ldc, S, lds, first, rows, end, a, ai, ak, B, ldb, K)


@for_constants(but=("ldc", "rows", "end"))
def add_product(C, ldc, rows, end, a, ai, ak, B, ldb, K):
    """C[:rows, :end] += a B[:, :end]."""
    product(C, ldc, C, ldc, rows, end, a, ai, ak, B, ldb, K)


@for_constants(but=("ldc", "rows", "end"))
def add_upper_product(C, ldc, rows, end, a, ai, ak, B, ldb, K):
    """Add a product on and above the diagonal of C, whose lower triangle is left half computed."""
    upper_product(C, ldc, C, ldc, 0, rows, end, a, ai, ak, B, ldb, K)
