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

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ddp.compiling.kernel import for_constants, specialised
from ddp.machine.registers import VECTOR, at, load, plus, scalar, store, times
from ddp.machine.registers import WIDTH as WIDTH


def padded(columns: int) -> int:
    """The next multiple of ``WIDTH``."""
    return -(-columns // WIDTH) * WIDTH


def _product_tile(rows: int, registers: int) -> Any:
    """The micro-kernel of one size: ``(C, ldc, S, lds, a, ai, ak, B, ldb, K)``, all int64."""

    @intrinsic
    def tile(typingctx, C, ldc, S, lds, a, ai, ak, B, ldb, K):  # type: ignore[no-untyped-def]
        def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
            C, ldc, S, lds, a, ai, ak, B, ldb, K = args
            C, S, a, B = (at(builder, address) for address in (C, S, a, B))

            def place(stride: Any, r: int, v: int) -> Any:
                return plus(builder, times(builder, stride, r), WIDTH * v)

            sums = [[cgutils.alloca_once(builder, VECTOR) for _ in range(registers)] for _ in range(rows)]
            for r in range(rows):
                for v in range(registers):
                    builder.store(load(builder, S, place(lds, r, v)), sums[r][v])
            with cgutils.for_range(builder, K) as loop:
                row, column = builder.mul(loop.index, ldb), builder.mul(loop.index, ak)
                b = [load(builder, B, plus(builder, row, WIDTH * v)) for v in range(registers)]
                for r in range(rows):
                    factor = scalar(builder, a, builder.add(column, times(builder, ai, r)))
                    for v in range(registers):
                        product = builder.fmul(factor, b[v], flags=("contract",))
                        builder.store(builder.fadd(builder.load(sums[r][v]), product, flags=("contract",)), sums[r][v])
            for r in range(rows):
                for v in range(registers):
                    store(builder, builder.load(sums[r][v]), C, place(ldc, r, v))
            return context.get_dummy_value()

        return types.void(*[types.int64] * 10), codegen

    return tile


def _product_tiles(rows: int) -> list[Any]:
    return [_product_tile(rows, registers) for registers in (3, 2, 1)]


_three, _two, _one = _product_tiles(6)


@for_constants
def _six_rows(C, ldc, S, lds, begin, end, a, ai, ak, B, ldb, K):
    j = begin
    while end - j >= 24:
        _three(C + 8 * j, ldc, S + 8 * j, lds, a, ai, ak, B + 8 * j, ldb, K)
        j += 24
    if end - j >= 16:
        _two(C + 8 * j, ldc, S + 8 * j, lds, a, ai, ak, B + 8 * j, ldb, K)
    elif end - j >= 8:
        _one(C + 8 * j, ldc, S + 8 * j, lds, a, ai, ak, B + 8 * j, ldb, K)


def _as_six(rows: int, name: str) -> Any:
    """``_six_rows`` of fewer."""
    three, two, one = _product_tiles(rows)
    return for_constants(specialised(_six_rows.py_func, name, _three=three, _two=two, _one=one))


_two_rows, _one_row = _as_six(2, "_two_rows"), _as_six(1, "_one_row")


@for_constants
def product(C, ldc, S, lds, rows, end, a, ai, ak, B, ldb, K):
    """C[:rows, :end] := S[:rows, :end] + a B[:, :end], a being (rows, K); end is a multiple of eight."""
    i = 0
    while rows - i >= 6:
        _six_rows(C + 8 * i * ldc, ldc, S + 8 * i * lds, lds, 0, end, a + 8 * i * ai, ai, ak, B, ldb, K)
        i += 6
    while rows - i >= 2:
        _two_rows(C + 8 * i * ldc, ldc, S + 8 * i * lds, lds, 0, end, a + 8 * i * ai, ai, ak, B, ldb, K)
        i += 2
    if rows > i:
        _one_row(C + 8 * i * ldc, ldc, S + 8 * i * lds, lds, 0, end, a + 8 * i * ai, ai, ak, B, ldb, K)


@for_constants
def upper_product(C, ldc, S, lds, first, rows, end, a, ai, ak, B, ldb, K):
    """Product in the rows first .. rows-1, on and above the diagonal; below it C is left half computed."""
    i = first
    while rows - i >= 6:
        _six_rows(C + 8 * i * ldc, ldc, S + 8 * i * lds, lds, i // 8 * 8, end, a + 8 * i * ai, ai, ak, B, ldb, K)
        i += 6
    while rows - i >= 2:
        _two_rows(C + 8 * i * ldc, ldc, S + 8 * i * lds, lds, i // 8 * 8, end, a + 8 * i * ai, ai, ak, B, ldb, K)
        i += 2
    if rows > i:
        _one_row(C + 8 * i * ldc, ldc, S + 8 * i * lds, lds, i // 8 * 8, end, a + 8 * i * ai, ai, ak, B, ldb, K)


@for_constants
def add_product(C, ldc, rows, end, a, ai, ak, B, ldb, K):
    """C[:rows, :end] += a B[:, :end]."""
    product(C, ldc, C, ldc, rows, end, a, ai, ak, B, ldb, K)


@for_constants
def add_upper_product(C, ldc, rows, end, a, ai, ak, B, ldb, K):
    """Add a product on and above the diagonal of C, whose lower triangle is left half computed."""
    upper_product(C, ldc, C, ldc, 0, rows, end, a, ai, ak, B, ldb, K)
