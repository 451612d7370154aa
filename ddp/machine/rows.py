# mypy: allow-untyped-defs, allow-untyped-calls
"""Rows of small matrices on raw addresses, as tiles.py has them: copies, sums, and transposition by blocks of 8 x 8."""

from __future__ import annotations

from llvmlite import ir
from numba import carray, types
from numba.extending import intrinsic

from ddp.compiling.kernel import kernel, pointer
from ddp.machine.registers import (
    VECTOR,
    WIDTH,
    WORD,
    at,
    exchange,
    load,
    load_some,
    shuffle,
    splat,
    store,
    store_some,
    times,
)


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

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        out, ldo, x, ldx, keep = args
        out, x = at(builder, out), at(builder, x)
        old = [load(builder, x, times(builder, ldx, i)) for i in range(WIDTH)]
        keep = builder.icmp_signed("!=", keep, ir.Constant(WORD, 0))
        for i, new in enumerate(exchange(builder, old)):
            upper = shuffle(builder, new, old[i], [k if k < i else WIDTH + k for k in range(WIDTH)])
            store(builder, builder.select(keep, upper, new), out, times(builder, ldo, i))
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
        target, source = out + 8 * j, x + 8 * j
        for _ in range(rows):
            copy_some(target, source, columns - j)
            target += 8 * ldo
            source += 8 * ldx


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
    for j in range(0, columns, WIDTH):
        target, source = out + 8 * j, x + 8 * j
        for _ in range(rows):
            add_some(target, factor, source, columns - j)
            target += 8 * ldo
            source += 8 * ldx


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
