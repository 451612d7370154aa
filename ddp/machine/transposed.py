# mypy: allow-untyped-defs, allow-untyped-calls
"""Products of transposed dense matrices, whose rows are as long as they are, and vectors, which are padded."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ddp.compiling.kernel import kernel
from ddp.machine.registers import VECTOR, WIDTH, WORD, at, load, load_some, plus, scalar, store, times

ABREAST = 4
"""Rows that have sums of their own, so that one does not wait for another."""


def _columns_tile(registers: int) -> Any:
    """Eight columns to each of some registers: ``(out, w, M, ldm, rows, some)``; ``some`` of the last one's."""

    @intrinsic
    def tile(typingctx, out, w, M, ldm, rows, some):  # type: ignore[no-untyped-def]
        def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
            out, w, M, ldm, rows, some = args
            last = ir.Constant(WORD, 8 * WIDTH * (registers - 1))
            factors = at(builder, w)

            def row_of(k: Any) -> list[Any]:
                start = builder.add(M, times(builder, builder.mul(k, ldm), 8))
                whole = [load(builder, at(builder, start), ir.Constant(WORD, WIDTH * v)) for v in range(registers - 1)]
                return [*whole, load_some(builder, builder.add(start, last), some)]

            sums = [[cgutils.alloca_once(builder, VECTOR) for _ in range(registers)] for _ in range(ABREAST)]
            for own in sums:
                for place in own:
                    builder.store(ir.Constant(VECTOR, [0.0] * WIDTH), place)

            def add(own: list[Any], k: Any) -> None:
                factor = scalar(builder, factors, k)
                for place, x in zip(own, row_of(k), strict=True):
                    product = builder.fmul(factor, x, flags=("contract",))
                    builder.store(builder.fadd(builder.load(place), product, flags=("contract",)), place)

            groups = builder.udiv(rows, ir.Constant(WORD, ABREAST))
            with cgutils.for_range(builder, groups) as loop:
                for i, own in enumerate(sums):
                    add(own, plus(builder, times(builder, loop.index, ABREAST), i))
            with cgutils.for_range(builder, builder.urem(rows, ir.Constant(WORD, ABREAST))) as loop:
                add(sums[0], builder.add(times(builder, groups, ABREAST), loop.index))
            for v in range(registers):
                a, b, c, d = (builder.load(own[v]) for own in sums)
                total, place = builder.fadd(builder.fadd(a, b), builder.fadd(c, d)), ir.Constant(WORD, WIDTH * v)
                store(builder, builder.fadd(load(builder, at(builder, out), place), total), at(builder, out), place)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 6), codegen

    return tile


_three, _two, _one = _columns_tile(3), _columns_tile(2), _columns_tile(1)


@kernel
def add_transposed_times(out, w, M, ldm, rows, columns):
    """out += Mᵀ w, M (rows, columns): addresses, all three; out has whole registers."""
    while columns > 24:
        _three(out, w, M, ldm, rows, WIDTH)
        out, M, columns = out + 192, M + 192, columns - 24
    if columns > 16:
        _three(out, w, M, ldm, rows, columns - 16)
    elif columns > 8:
        _two(out, w, M, ldm, rows, columns - 8)
    elif columns > 0:
        _one(out, w, M, ldm, rows, columns)
