"""Register tiles: small dense linear algebra on raw addresses, for matrices far below what BLAS is made for.

A matrix is (address, ld): row i begins ld doubles after row i - 1, and ld is a multiple of ``WIDTH``, so that every
row may be read and written in whole SIMD registers of eight doubles. Columns between a matrix's last and the next
multiple of eight are padding: they are computed with, and mean nothing. Addresses are plain integers because an array
argument is seven words and a reference count, more work than a tile.

One micro-kernel does most,  C[0:m, j:j+8k] := S[0:m, j:j+8k] + a B[:, j:j+8k]  with the sums in registers, m in
(6, 2, 1), k in (3, 2, 1). S may be C, or a row of zeros, which serves for all of them with lds = 0. Element (r, k) of
a is at r ai + k ak: strides make it a matrix or its transpose. To subtract, pass -a. Beside it there are transposition
by blocks of 8 x 8, copies and sums of rows; triangular systems are in triangles.py.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, types
from numba.core import cgutils
from numba.extending import intrinsic

from ddp.compiling.kernel import for_constants, integer_pointer, kernel, pointer
from ddp.matrices.registers import (
    HALF,
    VECTOR,
    WORD,
    at,
    load,
    load_some,
    plus,
    scalar,
    splat,
    store,
    store_some,
    times,
)
from ddp.matrices.registers import WIDTH as WIDTH
from ddp.protocols import Array


def padded(columns: int) -> int:
    """The next multiple of ``WIDTH``."""
    return -(-columns // WIDTH) * WIDTH


def aligned_zeros(shape: tuple[int, ...]) -> Array:
    """Zeros that begin where a register does: whoever writes a register across two cache lines pays for both."""
    size = math.prod(shape)
    memory = np.zeros(size + WIDTH)
    begin = -(memory.ctypes.data // 8) % WIDTH
    return memory[begin : begin + size].reshape(shape)


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


_t63, _t62, _t61 = _product_tile(6, 3), _product_tile(6, 2), _product_tile(6, 1)
_t23, _t22, _t21 = _product_tile(2, 3), _product_tile(2, 2), _product_tile(2, 1)
_t13, _t12, _t11 = _product_tile(1, 3), _product_tile(1, 2), _product_tile(1, 1)


@for_constants
def _six_rows(C, ldc, S, lds, begin, end, a, ai, ak, B, ldb, K):
    j = begin
    while end - j >= 24:
        _t63(C + 8 * j, ldc, S + 8 * j, lds, a, ai, ak, B + 8 * j, ldb, K)
        j += 24
    if end - j >= 16:
        _t62(C + 8 * j, ldc, S + 8 * j, lds, a, ai, ak, B + 8 * j, ldb, K)
    elif end - j >= 8:
        _t61(C + 8 * j, ldc, S + 8 * j, lds, a, ai, ak, B + 8 * j, ldb, K)


@for_constants
def _two_rows(C, ldc, S, lds, begin, end, a, ai, ak, B, ldb, K):
    j = begin
    while end - j >= 24:
        _t23(C + 8 * j, ldc, S + 8 * j, lds, a, ai, ak, B + 8 * j, ldb, K)
        j += 24
    if end - j >= 16:
        _t22(C + 8 * j, ldc, S + 8 * j, lds, a, ai, ak, B + 8 * j, ldb, K)
    elif end - j >= 8:
        _t21(C + 8 * j, ldc, S + 8 * j, lds, a, ai, ak, B + 8 * j, ldb, K)


@for_constants
def _one_row(C, ldc, S, lds, begin, end, a, ai, ak, B, ldb, K):
    j = begin
    while end - j >= 24:
        _t13(C + 8 * j, ldc, S + 8 * j, lds, a, ai, ak, B + 8 * j, ldb, K)
        j += 24
    if end - j >= 16:
        _t12(C + 8 * j, ldc, S + 8 * j, lds, a, ai, ak, B + 8 * j, ldb, K)
    elif end - j >= 8:
        _t11(C + 8 * j, ldc, S + 8 * j, lds, a, ai, ak, B + 8 * j, ldb, K)


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
    """The same of the rows first .. rows-1, on and above the diagonal; below it C is left half computed."""
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
    """The same on and above the diagonal of C, whose lower triangle is left half computed."""
    upper_product(C, ldc, C, ldc, 0, rows, end, a, ai, ak, B, ldb, K)


def bands(entries: Any) -> Any:
    """Where panels of rows (6, 2 or 1) of a matrix have entries: (panels, 2), whole registers of columns."""
    found, i = [], 0
    while i < len(entries):
        rows = next(size for size in (6, 2, 1) if size <= len(entries) - i)
        columns = np.flatnonzero(np.any(entries[i : i + rows], axis=0))
        found.append([columns[0] // WIDTH * WIDTH, padded(columns[-1] + 1)] if len(columns) else [0, 0])
        i += rows
    return np.array(found, dtype=np.int64)


@for_constants(but=("K",))
def banded_product(C, ldc, S, lds, rows, bands, a, ai, ak, B, ldb, K):
    """``product`` within the columns that ``bands``, at its address, has for each panel of rows."""
    i = 0
    while rows - i >= 6:
        begin, end = _two_words(bands)
        _six_rows(C + 8 * i * ldc, ldc, S + 8 * i * lds, lds, begin, end, a + 8 * i * ai, ai, ak, B, ldb, K)
        i, bands = i + 6, bands + 16
    while rows - i >= 2:
        begin, end = _two_words(bands)
        _two_rows(C + 8 * i * ldc, ldc, S + 8 * i * lds, lds, begin, end, a + 8 * i * ai, ai, ak, B, ldb, K)
        i, bands = i + 2, bands + 16
    if rows > i:
        begin, end = _two_words(bands)
        _one_row(C + 8 * i * ldc, ldc, S + 8 * i * lds, lds, begin, end, a + 8 * i * ai, ai, ak, B, ldb, K)


@kernel
def _two_words(address):
    words = carray(integer_pointer(address), 2)
    return words[0], words[1]


@intrinsic
def _add_scaled(typingctx, out, x, factor, y):  # type: ignore[no-untyped-def]
    """Eight numbers out := x + factor y."""

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        zero = ir.Constant(WORD, 0)
        out, x, y = at(builder, args[0]), at(builder, args[1]), at(builder, args[3])
        product = builder.fmul(splat(builder, args[2]), load(builder, y, zero), flags=("contract",))
        store(builder, builder.fadd(load(builder, x, zero), product, flags=("contract",)), out, zero)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.float64, types.int64), codegen


@intrinsic
def copy_some(typingctx, out, x, count):  # type: ignore[no-untyped-def]
    """Eight numbers out := the first ``count`` of x, then zeros; nothing of x is touched beyond them."""

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        loaded = load_some(builder, args[1], args[2])
        store(builder, loaded, at(builder, args[0]), ir.Constant(WORD, 0))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic
def add_some(typingctx, out, factor, x, count):  # type: ignore[no-untyped-def]
    """Eight numbers out += factor times the first ``count`` of x; nothing of x is touched beyond them."""

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        out, zero = at(builder, args[0]), ir.Constant(WORD, 0)
        product = builder.fmul(splat(builder, args[1]), load_some(builder, args[2], args[3]), flags=("contract",))
        store(builder, builder.fadd(load(builder, out, zero), product, flags=("contract",)), out, zero)
        return context.get_dummy_value()

    return types.void(types.int64, types.float64, types.int64, types.int64), codegen


@intrinsic
def _transpose(typingctx, out, ldo, x, ldx, keep):  # type: ignore[no-untyped-def]
    """A block of 8 x 8 out := xᵀ; with ``keep`` what x has above its diagonal stays where it is."""

    def shuffle(builder, a, b, mask):  # type: ignore[no-untyped-def]
        return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(HALF, WIDTH), mask))

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        out, ldo, x, ldx, keep = args
        out, x = at(builder, out), at(builder, x)
        old = [load(builder, x, times(builder, ldx, i)) for i in range(WIDTH)]
        v = list(old)
        for span in (1, 2, 4):  # exchange blocks of span between registers span apart
            w = list(v)
            for i in range(WIDTH):
                if not i & span:
                    low = [k if not k & span else WIDTH + k - span for k in range(WIDTH)]
                    high = [k + span if not k & span else WIDTH + k for k in range(WIDTH)]
                    w[i] = shuffle(builder, v[i], v[i + span], low)
                    w[i + span] = shuffle(builder, v[i], v[i + span], high)
            v = w
        keep = builder.icmp_signed("!=", keep, ir.Constant(WORD, 0))
        for i in range(WIDTH):
            upper = shuffle(builder, v[i], old[i], [k if k < i else WIDTH + k for k in range(WIDTH)])
            store(builder, builder.select(keep, upper, v[i]), out, times(builder, ldo, i))
        return context.get_dummy_value()

    return types.void(*[types.int64] * 5), codegen


@intrinsic
def _copy(typingctx, out, x):  # type: ignore[no-untyped-def]
    """Eight numbers out := x."""

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        zero = ir.Constant(WORD, 0)
        store(builder, load(builder, at(builder, args[1]), zero), at(builder, args[0]), zero)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


@intrinsic
def _clear(typingctx, out):  # type: ignore[no-untyped-def]
    """Eight numbers out := 0."""

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        store(builder, ir.Constant(VECTOR, [0.0] * WIDTH), at(builder, args[0]), ir.Constant(WORD, 0))
        return context.get_dummy_value()

    return types.void(types.int64), codegen


@intrinsic
def _write_some(typingctx, out, x, count):  # type: ignore[no-untyped-def]
    """The first ``count`` of eight numbers out := those of x; nothing of out is touched beyond them."""

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        store_some(builder, load(builder, at(builder, args[1]), ir.Constant(WORD, 0)), args[0], args[2])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic
def _write_scaled(typingctx, out, factor, x, count):  # type: ignore[no-untyped-def]
    """The first ``count`` of eight numbers out := factor times those of x; nothing is touched beyond them."""

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        out, factor, x, count = args
        store_some(builder, builder.fmul(splat(builder, factor), load_some(builder, x, count)), out, count)
        return context.get_dummy_value()

    return types.void(types.int64, types.float64, types.int64, types.int64), codegen


@kernel
def copy_rows(out, ldo, x, ldx, rows, columns):
    """out := rows of x, which may be dense: exactly its ``columns`` are read; zeros to the next multiple of eight."""
    for j in range(0, columns, WIDTH):
        for i in range(rows):
            copy_some(out + 8 * (i * ldo + j), x + 8 * (i * ldx + j), columns - j)


@kernel
def copy_upper(out, ldo, x, ldx, rows, end):
    """On and above its diagonal out := x, in whole registers."""
    for i in range(rows):
        target, source = out + 8 * i * ldo, x + 8 * i * ldx
        for j in range(i // WIDTH * WIDTH, end, WIDTH):
            _copy(target + 8 * j, source + 8 * j)


@kernel
def write_rows(out, ldo, x, ldx, rows, columns):
    """out := rows of x; out may be dense: exactly its ``columns`` are written."""
    for i in range(rows):
        for j in range(0, columns, WIDTH):
            _write_some(out + 8 * (i * ldo + j), x + 8 * (i * ldx + j), columns - j)


@kernel
def write_scaled(out, ldo, factor, x, ldx, rows, columns):
    """out := factor times rows of x; both may be dense: exactly their ``columns`` are touched."""
    for i in range(rows):
        for j in range(0, columns, WIDTH):
            _write_scaled(out + 8 * (i * ldo + j), factor, x + 8 * (i * ldx + j), columns - j)


@kernel
def clear_rows(out, ldo, rows, end):
    """out := 0, in whole registers."""
    for j in range(0, end, WIDTH):
        for i in range(rows):
            _clear(out + 8 * (i * ldo + j))


@kernel
def add_rows(out, ldo, factor, x, ldx, rows, columns):
    """out += factor times rows of x, which may be dense: exactly its ``columns`` are read."""
    for i in range(rows):
        for j in range(0, columns, WIDTH):
            add_some(out + 8 * (i * ldo + j), factor, x + 8 * (i * ldx + j), columns - j)


@kernel
def add_scaled(out, ldo, x, ldx, factor, y, ldy, rows, end):
    """out := x + factor y, in whole registers: ``end`` is a multiple of eight."""
    for i in range(rows):
        for j in range(0, end, WIDTH):
            _add_scaled(out + 8 * (i * ldo + j), x + 8 * (i * ldx + j), factor, y + 8 * (i * ldy + j))


@kernel
def mirror(x, ld):
    """Below its diagonal, x (ld, ld) := what is above."""
    for i in range(0, ld, WIDTH):
        _transpose(x + 8 * (i * ld + i), ld, x + 8 * (i * ld + i), ld, 1)
        for j in range(i + WIDTH, ld, WIDTH):
            _transpose(x + 8 * (j * ld + i), ld, x + 8 * (i * ld + j), ld, 0)


@kernel
def add_transposed(x, ld, size, block):
    """On and above its diagonal x (size, size) += xᵀ; size is a multiple of eight, block: room for 8 x 8."""
    for i in range(0, size, WIDTH):
        for j in range(i, size, WIDTH):
            _transpose(block, WIDTH, x + 8 * (j * ld + i), ld, 0)
            own = x + 8 * (i * ld + j)
            add_scaled(own, ld, own, ld, 1.0, block, WIDTH, WIDTH, WIDTH)


@kernel
def write_dense(out, x, ldx, size):
    """The dense matrix out (size, size) := x."""
    whole = size // WIDTH * WIDTH
    for i in range(size):
        row, source = out + 8 * i * size, x + 8 * i * ldx
        for j in range(0, whole, WIDTH):
            _copy(row + 8 * j, source + 8 * j)
        if whole < size:
            rest, last = carray(pointer(row), size), carray(pointer(source), size)
            for j in range(whole, size):
                rest[j] = last[j]
