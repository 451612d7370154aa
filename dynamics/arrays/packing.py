# mypy: allow-untyped-defs, allow-untyped-calls
"""Knots between rows of ordinary arrays and lanes: one to a lane, by transposing eight of them at a time.

Where fewer than eight knots are left, the last one is repeated: its lanes hold, and write, the same numbers.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ddp.compiling.kernel import kernel
from ddp.machine.number import WIDTH, lane_of, lanes
from ddp.machine.registers import exchange, shuffle
from dynamics.arrays.lanes import flat, lane_array
from dynamics.arrays.views import rows_of, view

_VECTOR = ir.VectorType(ir.DoubleType(), WIDTH)
_HALF = ir.VectorType(ir.DoubleType(), WIDTH // 2)
_I32 = ir.IntType(32)
_BYTES = ir.IntType(8).as_pointer()
AHEAD = 2
"""How many registers on a cache line is asked for while one is written."""


@intrinsic
def _gather(typingctx, a, b, c, d, e, f, g, h):  # type: ignore[no-untyped-def]
    """Eight floats as lanes."""

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        total = ir.Constant(_VECTOR, ir.Undefined)
        for k, x in enumerate(args):
            total = builder.insert_element(total, x, ir.Constant(_I32, k))
        return total

    return lanes(*[types.float64] * WIDTH), codegen


def transposed(builder, addresses):  # type: ignore[no-untyped-def]
    """Eight times eight floats, from eight addresses, as eight registers the other way round.

    Blocks of four, two and one are exchanged between registers as far apart; the fours by loading halves.
    """

    def half(i, k):  # type: ignore[no-untyped-def]
        start = builder.bitcast(addresses[i], ir.DoubleType().as_pointer())
        where = builder.gep(start, [ir.Constant(ir.IntType(64), k * WIDTH // 2)])
        load = builder.load(builder.bitcast(where, _HALF.as_pointer()))
        load.align = 8
        return load

    rows = [shuffle(builder, half(i % 4, i // 4), half(i % 4 + 4, i // 4), range(WIDTH)) for i in range(WIDTH)]
    return exchange(builder, rows, (2, 1))


def _row_starts(builder, rows, first):  # type: ignore[no-untyped-def]
    """Addresses of rows first..first+7, or the last."""
    word = first.type
    count, columns = builder.extract_value(rows.shape, 0), builder.extract_value(rows.shape, 1)
    last = builder.sub(count, ir.Constant(word, 1))
    starts = []
    for lane in range(WIDTH):
        row = builder.add(first, ir.Constant(word, lane))
        row = builder.select(builder.icmp_signed("<", row, last), row, last)
        starts.append(builder.gep(rows.data, [builder.mul(row, columns)]))
    return starts


@intrinsic
def _transposed_load(typingctx, rows, first, column, out):  # type: ignore[no-untyped-def]
    """Columns column..column+7 of rows first..first+7, or the last, to fields column.. of out (m,), lanes."""

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        rows = cgutils.create_struct_proxy(sig.args[0])(context, builder, value=args[0])
        target = cgutils.create_struct_proxy(sig.args[3])(context, builder, value=args[3])
        starts = [builder.gep(start, [args[2]]) for start in _row_starts(builder, rows, args[1])]
        for i, register in enumerate(transposed(builder, starts)):
            where = builder.gep(target.data, [builder.add(args[2], ir.Constant(args[2].type, i))])
            builder.store(register, where).align = 8
        return context.get_dummy_value()

    return types.void(rows, types.intp, types.intp, out), codegen


@kernel
def pack(rows, first, out):
    """The numbers that out (m,), lanes, has room for of knots first..first+7 of an array (N, ...)."""
    y, x = rows_of(rows), lane_array(out)
    last = y.shape[0] - 1
    a, b, c, d = min(first, last), min(first + 1, last), min(first + 2, last), min(first + 3, last)
    e, f, g, h = min(first + 4, last), min(first + 5, last), min(first + 6, last), min(first + 7, last)
    whole = x.size - x.size % WIDTH
    for column in range(0, whole, WIDTH):
        _transposed_load(y, first, column, x)
    for i in range(whole, x.size):
        x[i] = _gather(y[a, i], y[b, i], y[c, i], y[d, i], y[e, i], y[f, i], y[g, i], y[h, i])


def _write_transposed(builder, fields, rows, first, column, soon):  # type: ignore[no-untyped-def]
    """Eight registers, at their addresses, transposed to columns column.. of rows first..first+7 or the last.

    The lines of columns ``soon`` are asked for: waiting for a line takes longer than writing it.
    """
    kind = ir.FunctionType(ir.VoidType(), [_BYTES, _I32, _I32, _I32])
    prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    for begin, register in zip(_row_starts(builder, rows, first), transposed(builder, fields), strict=True):
        where, ahead = builder.gep(begin, [column]), builder.bitcast(builder.gep(begin, [soon]), _BYTES)
        builder.call(prefetch, [ahead, *(ir.Constant(_I32, k) for k in (1, 3, 1))])  # to write, and to keep
        builder.store(register, builder.bitcast(where, _VECTOR.as_pointer())).align = 8


@intrinsic
def _transposed_store(typingctx, source, field, rows, first, begin, soon):  # type: ignore[no-untyped-def]
    """Fields field..field+7 of source (m,) to columns begin+field.. of rows first..first+7, or the last."""

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        src = cgutils.create_struct_proxy(sig.args[0])(context, builder, value=args[0])
        dst = cgutils.create_struct_proxy(sig.args[2])(context, builder, value=args[2])
        fields = [builder.gep(src.data, [builder.add(args[1], ir.Constant(args[1].type, i))]) for i in range(WIDTH)]
        _write_transposed(builder, fields, dst, args[3], builder.add(args[1], args[4]), builder.add(args[5], args[4]))
        return context.get_dummy_value()

    return types.void(source, types.intp, rows, types.intp, types.intp, types.intp), codegen


@intrinsic
def _gathered_store(typingctx, source, places, begin, rows, first, soon):  # type: ignore[no-untyped-def]
    """The fields of source (m,) at places[begin], .. to columns begin.. of rows first..first+7, or the last."""

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        src = cgutils.create_struct_proxy(sig.args[0])(context, builder, value=args[0])
        at = cgutils.create_struct_proxy(sig.args[1])(context, builder, value=args[1])
        dst = cgutils.create_struct_proxy(sig.args[3])(context, builder, value=args[3])
        wanted = [builder.gep(at.data, [builder.add(args[2], ir.Constant(args[2].type, i))]) for i in range(WIDTH)]
        fields = [builder.gep(src.data, [builder.load(where)]) for where in wanted]
        _write_transposed(builder, fields, dst, args[4], args[2], args[5])
        return context.get_dummy_value()

    return types.void(source, places, types.intp, rows, types.intp, types.intp), codegen


@kernel
def unpack(source, rows, first):
    """An array of m lanes into knots first..first+7 of an array (N, ...) of m numbers each, as many as there are."""
    unpack_columns(source, rows, first, 0)


@kernel
def unpack_columns(source, rows, first, begin):
    """``unpack`` into the columns from ``begin`` of wider rows: by eights, the last of which may overlap."""
    x, y = flat(lane_array(source)), rows_of(rows)
    m = x.size
    if m >= WIDTH:
        for field in range(0, m, WIDTH):
            _transposed_store(x, min(field, m - WIDTH), y, first, begin, field + AHEAD * WIDTH)
    else:
        for i in range(m):
            for lane in range(min(WIDTH, y.shape[0] - first)):
                y[first + lane, begin + i] = lane_of(x[i], lane)


@kernel
def unpack_groups(source, groups, rows, first):
    """``unpack`` of groups of eight fields alone, those that begin at ``groups``; the others stay as they are."""
    y, at = rows_of(rows), view(groups)
    for g in range(at.size):
        _transposed_store(source, at[g], y, first, 0, at[min(g + AHEAD, at.size - 1)])


@kernel
def unpack_places(source, places, groups, bounds, k, rows, first):
    """``unpack`` of entries that are at some places of source: the groups of eight from bounds[k] to bounds[k + 1].

    The others stay as they are.
    """
    x, y, at = flat(source), rows_of(rows), view(places)
    end = bounds[k + 1]
    for g in range(bounds[k], end):
        _gathered_store(x, at, groups[g], y, first, groups[min(g + AHEAD, end - 1)])
    if at.size < WIDTH:
        for i in range(at.size):
            for lane in range(min(WIDTH, y.shape[0] - first)):
                y[first + lane, i] = lane_of(x[at[i]], lane)
