"""Knots between rows of ordinary arrays and lanes: one to a lane, by transposing eight of them at a time.

Where fewer than eight knots are left, the last one is repeated: its lanes hold, and write, the same numbers.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ddp.kernel import kernel
from dynamics.lanes import WIDTH, lane_array, lanes

_VECTOR = ir.VectorType(ir.DoubleType(), WIDTH)
_HALF = ir.VectorType(ir.DoubleType(), WIDTH // 2)
_I32 = ir.IntType(32)


def _shuffle(builder, a, b, mask):  # type: ignore[no-untyped-def]
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_I32, len(mask)), list(mask)))


@intrinsic
def _gather(typingctx, a, b, c, d, e, f, g, h):  # type: ignore[no-untyped-def]
    """Eight floats as lanes."""

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        total = ir.Constant(_VECTOR, ir.Undefined)
        for k, x in enumerate(args):
            total = builder.insert_element(total, x, ir.Constant(_I32, k))
        return total

    return lanes(*[types.float64] * WIDTH), codegen


@kernel
def pack(rows, first, out):
    """Knots first..first+7 of an array (N, m) into lanes: out (m, 8)."""
    last, x = rows.shape[0] - 1, lane_array(out)
    a, b, c, d = min(first, last), min(first + 1, last), min(first + 2, last), min(first + 3, last)
    e, f, g, h = min(first + 4, last), min(first + 5, last), min(first + 6, last), min(first + 7, last)
    for i in range(rows.shape[1]):
        x[i] = _gather(
            rows[a, i], rows[b, i], rows[c, i], rows[d, i], rows[e, i], rows[f, i], rows[g, i], rows[h, i]
        )


@intrinsic
def _transposed_store(typingctx, source, field, rows, first, begin):  # type: ignore[no-untyped-def]
    """Fields field..field+7 of source (m, 8), transposed, to columns begin+field.. of rows first..first+7 or the last.

    Blocks of four, two and one are exchanged between registers as far apart; the fours by loading halves.
    """

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        src = context.make_array(sig.args[0])(context, builder, args[0])
        dst = context.make_array(sig.args[2])(context, builder, args[2])
        word = args[1].type
        start = builder.gep(src.data, [builder.mul(args[1], ir.Constant(word, WIDTH))])

        def half(i, k):  # type: ignore[no-untyped-def]
            where = builder.gep(start, [ir.Constant(word, i * WIDTH + k * WIDTH // 2)])
            load = builder.load(builder.bitcast(where, _HALF.as_pointer()))
            load.align = 8
            return load

        v = [_shuffle(builder, half(i % 4, i // 4), half(i % 4 + 4, i // 4), range(WIDTH)) for i in range(WIDTH)]
        for span in (2, 1):
            w = list(v)
            for i in range(WIDTH):
                if not i & span:
                    low = [k if not k & span else WIDTH + k - span for k in range(WIDTH)]
                    high = [k + span if not k & span else WIDTH + k for k in range(WIDTH)]
                    w[i] = _shuffle(builder, v[i], v[i + span], low)
                    w[i + span] = _shuffle(builder, v[i], v[i + span], high)
            v = w
        count, columns = builder.extract_value(dst.shape, 0), builder.extract_value(dst.shape, 1)
        last = builder.sub(count, ir.Constant(word, 1))
        for lane in range(WIDTH):
            row = builder.add(args[3], ir.Constant(word, lane))
            row = builder.select(builder.icmp_signed("<", row, last), row, last)
            where = builder.gep(dst.data, [builder.add(builder.mul(row, columns), builder.add(args[1], args[4]))])
            store = builder.store(v[lane], builder.bitcast(where, _VECTOR.as_pointer()))
            store.align = 8
        return context.get_dummy_value()

    two = types.Array(types.float64, 2, "C")
    return types.void(two, types.intp, two, types.intp, types.intp), codegen


@kernel
def unpack(source, rows, first):
    """Lanes source (m, 8) into knots first..first+7 of an array (N, m), as many as there are."""
    m = source.shape[0]
    for field in range(0, m - WIDTH + 1, WIDTH):
        _transposed_store(source, field, rows, first, 0)
    unpack_rest(source, rows, first)


@kernel
def unpack_columns(source, rows, first, begin):
    """``unpack`` of a multiple of eight fields into the columns from ``begin`` of wider rows."""
    for field in range(0, source.shape[0], WIDTH):
        _transposed_store(source, field, rows, first, begin)


@kernel
def unpack_groups(source, rows, first, groups):
    """``unpack`` of some groups of eight fields (all of the last m % 8 fields): the others stay as they are."""
    for group in groups:
        _transposed_store(source, group * WIDTH, rows, first, 0)
    unpack_rest(source, rows, first)


@kernel
def unpack_rest(source, rows, first):
    """The last m % 8 fields, by the last eight if there are as many."""
    m = source.shape[0]
    if m >= WIDTH:
        if m % WIDTH > 0:
            _transposed_store(source, m - WIDTH, rows, first, 0)
    else:
        for i in range(m):
            for lane in range(min(WIDTH, rows.shape[0] - first)):
                rows[first + lane, i] = source[i, lane]
