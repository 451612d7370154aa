"""Register tiles: small dense linear algebra on raw addresses, for matrices far below what BLAS is made for.

A matrix is (address, ld): row i begins ld doubles after row i - 1, and ld is a multiple of ``WIDTH``, so that every
row may be read and written in whole SIMD registers of eight doubles. Columns between a matrix's last and the next
multiple of eight are padding: they are computed with, and mean nothing. Addresses are plain integers because an array
argument is seven words and a reference count, more work than a tile.

One micro-kernel does most,  C[0:m, j:j+8k] += a B[:, j:j+8k]  with C in registers, m in (6, 2, 1), k in (3, 2, 1).
Element (r, k) of a is at r ai + k ak: strides make it a matrix or its transpose. To subtract, pass -a. Beside it there
are triangular systems of up to six rows, transposition by blocks of 8 x 8, and sums of rows.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, types
from numba.core import cgutils
from numba.extending import intrinsic

from ddp.kernel import integer_pointer, kernel, pointer
from ddp.protocols import Array

WIDTH = 8
_DOUBLE, _WORD, _HALF = ir.DoubleType(), ir.IntType(64), ir.IntType(32)
_VECTOR = ir.VectorType(_DOUBLE, WIDTH)


def padded(columns: int) -> int:
    """The next multiple of ``WIDTH``."""
    return -(-columns // WIDTH) * WIDTH


def aligned_zeros(shape: tuple[int, ...]) -> Array:
    """Zeros that begin where a register does: whoever writes a register across two cache lines pays for both."""
    size = math.prod(shape)
    memory = np.zeros(size + WIDTH)
    begin = -(memory.ctypes.data // 8) % WIDTH
    return memory[begin : begin + size].reshape(shape)


def _pointer(builder: Any, address: Any) -> Any:
    return builder.inttoptr(address, _DOUBLE.as_pointer())


def _splat(builder: Any, x: Any) -> Any:
    """A double in every lane."""
    one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), x, ir.Constant(_HALF, 0))
    mask = ir.Constant(ir.VectorType(_HALF, WIDTH), [0] * WIDTH)
    return builder.shuffle_vector(one, ir.Constant(_VECTOR, ir.Undefined), mask)


def _scalar(builder: Any, base: Any, offset: Any) -> Any:
    """The double at an offset, in every lane."""
    return _splat(builder, builder.load(builder.gep(base, [offset])))


def _register(builder: Any, base: Any, offset: Any) -> Any:
    return builder.bitcast(builder.gep(base, [offset]), _VECTOR.as_pointer())


def _load(builder: Any, base: Any, offset: Any) -> Any:
    load = builder.load(_register(builder, base, offset))
    load.align = 8
    return load


def _store(builder: Any, value: Any, base: Any, offset: Any) -> None:
    store = builder.store(value, _register(builder, base, offset))
    store.align = 8


def _times(builder: Any, index: Any, factor: int) -> Any:
    return builder.mul(index, ir.Constant(_WORD, factor))


def _plus(builder: Any, index: Any, addend: int) -> Any:
    return builder.add(index, ir.Constant(_WORD, addend))


def _product_tile(rows: int, registers: int) -> Any:
    """The micro-kernel of one size: ``(C, ldc, a, ai, ak, B, ldb, K)``, all int64."""

    @intrinsic
    def tile(typingctx, C, ldc, a, ai, ak, B, ldb, K):  # type: ignore[no-untyped-def]
        def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
            C, ldc, a, ai, ak, B, ldb, K = args
            C, a, B = _pointer(builder, C), _pointer(builder, a), _pointer(builder, B)
            where = [
                [_plus(builder, _times(builder, ldc, r), WIDTH * v) for v in range(registers)] for r in range(rows)
            ]
            sums = [[cgutils.alloca_once(builder, _VECTOR) for _ in range(registers)] for _ in range(rows)]
            for r in range(rows):
                for v in range(registers):
                    builder.store(_load(builder, C, where[r][v]), sums[r][v])
            with cgutils.for_range(builder, K) as loop:
                row, column = builder.mul(loop.index, ldb), builder.mul(loop.index, ak)
                b = [_load(builder, B, _plus(builder, row, WIDTH * v)) for v in range(registers)]
                for r in range(rows):
                    factor = _scalar(builder, a, builder.add(column, _times(builder, ai, r)))
                    for v in range(registers):
                        product = builder.fmul(factor, b[v], flags=("contract",))
                        builder.store(builder.fadd(builder.load(sums[r][v]), product, flags=("contract",)), sums[r][v])
            for r in range(rows):
                for v in range(registers):
                    _store(builder, builder.load(sums[r][v]), C, where[r][v])
            return context.get_dummy_value()

        return types.void(*[types.int64] * 8), codegen

    return tile


_t63, _t62, _t61 = _product_tile(6, 3), _product_tile(6, 2), _product_tile(6, 1)
_t23, _t22, _t21 = _product_tile(2, 3), _product_tile(2, 2), _product_tile(2, 1)
_t13, _t12, _t11 = _product_tile(1, 3), _product_tile(1, 2), _product_tile(1, 1)


@kernel
def _six_rows(C, ldc, begin, end, a, ai, ak, B, ldb, K):
    j = begin
    while end - j >= 24:
        _t63(C + 8 * j, ldc, a, ai, ak, B + 8 * j, ldb, K)
        j += 24
    if end - j >= 16:
        _t62(C + 8 * j, ldc, a, ai, ak, B + 8 * j, ldb, K)
    elif end - j >= 8:
        _t61(C + 8 * j, ldc, a, ai, ak, B + 8 * j, ldb, K)


@kernel
def _two_rows(C, ldc, begin, end, a, ai, ak, B, ldb, K):
    j = begin
    while end - j >= 24:
        _t23(C + 8 * j, ldc, a, ai, ak, B + 8 * j, ldb, K)
        j += 24
    if end - j >= 16:
        _t22(C + 8 * j, ldc, a, ai, ak, B + 8 * j, ldb, K)
    elif end - j >= 8:
        _t21(C + 8 * j, ldc, a, ai, ak, B + 8 * j, ldb, K)


@kernel
def _one_row(C, ldc, begin, end, a, ai, ak, B, ldb, K):
    j = begin
    while end - j >= 24:
        _t13(C + 8 * j, ldc, a, ai, ak, B + 8 * j, ldb, K)
        j += 24
    if end - j >= 16:
        _t12(C + 8 * j, ldc, a, ai, ak, B + 8 * j, ldb, K)
    elif end - j >= 8:
        _t11(C + 8 * j, ldc, a, ai, ak, B + 8 * j, ldb, K)


@kernel
def add_product(C, ldc, rows, end, a, ai, ak, B, ldb, K):
    """C[:rows, :end] += a B[:, :end], a being (rows, K); end is a multiple of eight."""
    i = 0
    while rows - i >= 6:
        _six_rows(C + 8 * i * ldc, ldc, 0, end, a + 8 * i * ai, ai, ak, B, ldb, K)
        i += 6
    while rows - i >= 2:
        _two_rows(C + 8 * i * ldc, ldc, 0, end, a + 8 * i * ai, ai, ak, B, ldb, K)
        i += 2
    if rows > i:
        _one_row(C + 8 * i * ldc, ldc, 0, end, a + 8 * i * ai, ai, ak, B, ldb, K)


@kernel
def add_upper_product(C, ldc, rows, end, a, ai, ak, B, ldb, K):
    """The same on and above the diagonal of C, whose lower triangle is left half computed."""
    i = 0
    while rows - i >= 6:
        _six_rows(C + 8 * i * ldc, ldc, i // 8 * 8, end, a + 8 * i * ai, ai, ak, B, ldb, K)
        i += 6
    while rows - i >= 2:
        _two_rows(C + 8 * i * ldc, ldc, i // 8 * 8, end, a + 8 * i * ai, ai, ak, B, ldb, K)
        i += 2
    if rows > i:
        _one_row(C + 8 * i * ldc, ldc, i // 8 * 8, end, a + 8 * i * ai, ai, ak, B, ldb, K)


def bands(entries: Any) -> Any:
    """Where panels of rows (6, 2 or 1) of a matrix have entries: (panels, 2), whole registers of columns."""
    found, i = [], 0
    while i < len(entries):
        rows = next(size for size in (6, 2, 1) if size <= len(entries) - i)
        columns = np.flatnonzero(np.any(entries[i : i + rows], axis=0))
        found.append([columns[0] // WIDTH * WIDTH, padded(columns[-1] + 1)] if len(columns) else [0, 0])
        i += rows
    return np.array(found, dtype=np.int64)


@kernel
def add_banded_product(C, ldc, rows, bands, a, ai, ak, B, ldb, K):
    """``add_product`` within the columns that ``bands``, at its address, has for each panel of rows."""
    i = 0
    while rows - i >= 6:
        begin, end = _two_words(bands)
        _six_rows(C + 8 * i * ldc, ldc, begin, end, a + 8 * i * ai, ai, ak, B, ldb, K)
        i, bands = i + 6, bands + 16
    while rows - i >= 2:
        begin, end = _two_words(bands)
        _two_rows(C + 8 * i * ldc, ldc, begin, end, a + 8 * i * ai, ai, ak, B, ldb, K)
        i, bands = i + 2, bands + 16
    if rows > i:
        begin, end = _two_words(bands)
        _one_row(C + 8 * i * ldc, ldc, begin, end, a + 8 * i * ai, ai, ak, B, ldb, K)


@kernel
def _two_words(address):
    words = carray(integer_pointer(address), 2)
    return words[0], words[1]


def _substitution_tile(rows: int) -> Any:
    """``(X, ldx, U, si, sk, inverse, step)``: in eight columns, x_i := (x_i - Σ_{k<i} u_ik x_k) inverse_i downwards.

    u_ik is at i si + k sk from U; with negative strides the same goes upwards.
    """

    @intrinsic
    def tile(typingctx, X, ldx, U, si, sk, inverse, step):  # type: ignore[no-untyped-def]
        def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
            X, ldx, U, si, sk, inverse, step = args
            X, U, inverse = _pointer(builder, X), _pointer(builder, U), _pointer(builder, inverse)
            solved: list[Any] = []
            for i in range(rows):
                x = _load(builder, X, _times(builder, ldx, i))
                for k, other in enumerate(solved):
                    at = builder.add(_times(builder, si, i), _times(builder, sk, k))
                    product = builder.fmul(_scalar(builder, U, at), other, flags=("contract",))
                    x = builder.fsub(x, product, flags=("contract",))
                solved.append(builder.fmul(x, _scalar(builder, inverse, _times(builder, step, i))))
            for i, x in enumerate(solved):
                _store(builder, x, X, _times(builder, ldx, i))
            return context.get_dummy_value()

        return types.void(*[types.int64] * 7), codegen

    return tile


_s6, _s2, _s1 = _substitution_tile(6), _substitution_tile(2), _substitution_tile(1)


@kernel
def substitute(X, ldx, rows, end, U, si, sk, inverse, step):
    """Solve the triangular system of ``rows`` (6, 2 or 1) unknown rows for the columns [0, end), in place."""
    for j in range(0, end, WIDTH):
        if rows == 6:
            _s6(X + 8 * j, ldx, U, si, sk, inverse, step)
        elif rows == 2:
            _s2(X + 8 * j, ldx, U, si, sk, inverse, step)
        else:
            _s1(X + 8 * j, ldx, U, si, sk, inverse, step)


@kernel
def panel(rows):
    """How many of the remaining rows the next panel takes."""
    return 6 if rows >= 6 else (2 if rows >= 2 else 1)


@intrinsic
def _add_scaled(typingctx, out, x, factor, y):  # type: ignore[no-untyped-def]
    """Eight numbers out := x + factor y."""

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        zero = ir.Constant(_WORD, 0)
        out, x, y = _pointer(builder, args[0]), _pointer(builder, args[1]), _pointer(builder, args[3])
        product = builder.fmul(_splat(builder, args[2]), _load(builder, y, zero), flags=("contract",))
        _store(builder, builder.fadd(_load(builder, x, zero), product, flags=("contract",)), out, zero)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.float64, types.int64), codegen


def _load_some(builder: Any, address: Any, count: Any) -> Any:
    """The first ``count`` of eight numbers, then zeros."""
    words = ir.VectorType(_WORD, WIDTH)
    one = builder.insert_element(ir.Constant(words, ir.Undefined), count, ir.Constant(_HALF, 0))
    first = ir.Constant(ir.VectorType(_HALF, WIDTH), [0] * WIDTH)
    count = builder.shuffle_vector(one, ir.Constant(words, ir.Undefined), first)
    mask = builder.icmp_signed("<", ir.Constant(words, list(range(WIDTH))), count)
    bits = ir.VectorType(ir.IntType(1), WIDTH)
    kind = ir.FunctionType(_VECTOR, [_VECTOR.as_pointer(), _HALF, bits, _VECTOR])
    name = f"llvm.masked.load.v{WIDTH}f64.p0v{WIDTH}f64"
    masked = cgutils.get_or_insert_function(builder.module, kind, name)
    source = _register(builder, _pointer(builder, address), ir.Constant(_WORD, 0))
    return builder.call(masked, [source, ir.Constant(_HALF, 8), mask, ir.Constant(_VECTOR, [0.0] * WIDTH)])


@intrinsic
def copy_some(typingctx, out, x, count):  # type: ignore[no-untyped-def]
    """Eight numbers out := the first ``count`` of x, then zeros; nothing of x is touched beyond them."""

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        loaded = _load_some(builder, args[1], args[2])
        _store(builder, loaded, _pointer(builder, args[0]), ir.Constant(_WORD, 0))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic
def add_some(typingctx, out, factor, x, count):  # type: ignore[no-untyped-def]
    """Eight numbers out += factor times the first ``count`` of x; nothing of x is touched beyond them."""

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        out, zero = _pointer(builder, args[0]), ir.Constant(_WORD, 0)
        product = builder.fmul(_splat(builder, args[1]), _load_some(builder, args[2], args[3]), flags=("contract",))
        _store(builder, builder.fadd(_load(builder, out, zero), product, flags=("contract",)), out, zero)
        return context.get_dummy_value()

    return types.void(types.int64, types.float64, types.int64, types.int64), codegen


@intrinsic
def _transpose(typingctx, out, ldo, x, ldx, keep):  # type: ignore[no-untyped-def]
    """A block of 8 x 8 out := xᵀ; with ``keep`` what x has above its diagonal stays where it is."""

    def shuffle(builder, a, b, mask):  # type: ignore[no-untyped-def]
        return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_HALF, WIDTH), mask))

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        out, ldo, x, ldx, keep = args
        out, x = _pointer(builder, out), _pointer(builder, x)
        old = [_load(builder, x, _times(builder, ldx, i)) for i in range(WIDTH)]
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
        keep = builder.icmp_signed("!=", keep, ir.Constant(_WORD, 0))
        for i in range(WIDTH):
            upper = shuffle(builder, v[i], old[i], [k if k < i else WIDTH + k for k in range(WIDTH)])
            _store(builder, builder.select(keep, upper, v[i]), out, _times(builder, ldo, i))
        return context.get_dummy_value()

    return types.void(*[types.int64] * 5), codegen


@intrinsic
def _copy(typingctx, out, x):  # type: ignore[no-untyped-def]
    """Eight numbers out := x."""

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        zero = ir.Constant(_WORD, 0)
        _store(builder, _load(builder, _pointer(builder, args[1]), zero), _pointer(builder, args[0]), zero)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), codegen


@kernel
def copy_rows(out, ldo, x, ldx, rows, columns):
    """out := rows of x, which may be dense: exactly its ``columns`` are read; zeros to the next multiple of eight."""
    for i in range(rows):
        target, source = out + 8 * i * ldo, x + 8 * i * ldx
        for j in range(0, columns, WIDTH):
            copy_some(target + 8 * j, source + 8 * j, columns - j)


@kernel
def clear_rows(out, ldo, rows, end):
    """out := 0, in whole registers."""
    for i in range(rows):
        for j in range(0, end, WIDTH):
            copy_some(out + 8 * (i * ldo + j), out, 0)


@kernel
def add_scaled(out, ldo, x, ldx, factor, y, ldy, rows, end):
    """out := x + factor y, in whole registers: ``end`` is a multiple of eight."""
    for i in range(rows):
        a, b, c = out + 8 * i * ldo, x + 8 * i * ldx, y + 8 * i * ldy
        for j in range(0, end, WIDTH):
            _add_scaled(a + 8 * j, b + 8 * j, factor, c + 8 * j)


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
