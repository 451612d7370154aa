# mypy: allow-untyped-defs, allow-untyped-calls
"""SIMD registers of eight floats in kernels: between rows of floats (memory.py) and numbers of the type ``lanes``.

Here x is a vector of floats, ``rows_at`` of an address say; i, j, ld are places and distances in it, in numbers.

    load(x, i)                      the eight floats from x[i] on, as lanes
    load_some(x, i, count)          the first ``count`` of them, then zeros; nothing is read beyond them
    load_between(x, i, begin, end)  those from the ``begin``-th to before the ``end``-th, zeros else, none read there
    one_hot(y, k)                   zeros, but y in the k-th lane
    store(x, i, y)                  x[i], x[i + 1], .. := the lanes of y
    store_some(x, i, y, count)      the first ``count`` of them; nothing is written beyond them
    multiply_add(x, y, z)           x y + z, rounded once
    transpose(x)                    the 8 x 8 floats of x := their transpose
    prefetch(x, i)                  ask for the cache line of x[i], to write to it soon
    stack(count)                    floats that live as long as the kernel runs: registers where loops over them unroll

A tile is some rows of some registers each, for sums that wait for many products:

    load_tile(x, i, ld, rows, registers)     rows that begin ``ld`` apart; the last two are written out, as numbers
    store_tile(x, i, ld, tile)
    add_outer(tile, x, i, ld, y, j)          row r of the tile += x[i + r ld] times as many numbers from y[j] on

Counts may be larger than eight, or below zero. ``lanes`` of number.py have all arithmetic besides.
"""

from functools import wraps
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ddp.machine.memory import RowsType, after, loaded, made, part, word
from ddp.machine.number import WIDTH, called, common, lanes

REGISTER = lanes.vector
_MASK, _INT, _VOID = ir.VectorType(ir.IntType(1), WIDTH), ir.IntType(32), ir.VoidType()
_INTS = ir.VectorType(ir.IntType(64), WIDTH)
_FUSED = ("contract",)


def _on_registers(define: Any) -> Any:
    """An intrinsic that reads or writes registers: numbers that follow each other, so it refuses rows of others."""

    @wraps(define)
    def checked(typingctx: Any, *args: Any) -> Any:
        follow = all(one.is_contiguous for one in args if isinstance(one, RowsType))
        return define(typingctx, *args) if follow else None

    return intrinsic(checked)


def _place(builder: Any, x: Any, i: Any) -> Any:
    """The place of a register in rows of floats."""
    return builder.bitcast(after(builder, part(builder, x, 0), i), REGISTER.as_pointer())


def _load(builder: Any, x: Any, i: Any) -> Any:
    return loaded(builder, RowsType(lanes), _place(builder, x, i))


def _store(builder: Any, x: Any, i: Any, value: Any) -> None:
    builder.store(value, _place(builder, x, i)).align = 8


def _spread(builder: Any, x: Any, kind: Any) -> Any:
    """A scalar in all elements of a vector."""
    undefined = ir.Constant(kind, ir.Undefined)
    one = builder.insert_element(undefined, x, ir.Constant(_INT, 0))
    return builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(_INT, kind.count), [0] * kind.count))


def _first(builder: Any, count: Any) -> Any:
    """The mask of the first ``count`` of eight."""
    return builder.icmp_signed("<", ir.Constant(_INTS, list(range(WIDTH))), _spread(builder, count, _INTS))


def _between(builder: Any, begin: Any, end: Any) -> Any:
    """The mask of those of eight from ``begin`` on, before ``end``."""
    return builder.and_(builder.not_(_first(builder, begin)), _first(builder, end))


def _masked(builder: Any, name: str, result: Any, *args: Any) -> Any:
    """A call of LLVM's load or store by a mask."""
    kind = ir.FunctionType(result, [arg.type for arg in args])
    full = f"llvm.masked.{name}.v{WIDTH}f64.p0v{WIDTH}f64"
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, full), args)


@_on_registers
def load(typingctx, x, i):  # type: ignore[no-untyped-def]
    """Eight floats from x[i] on, as lanes."""
    return lanes(x, types.intp), lambda context, builder, sig, args: _load(builder, *args)


@_on_registers
def load_some(typingctx, x, i, count):  # type: ignore[no-untyped-def]
    """The first ``count`` of eight floats from x[i] on, then zeros; nothing is read beyond them."""

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        zeros, mask = ir.Constant(REGISTER, [0.0] * WIDTH), _first(builder, args[2])
        return _masked(builder, "load", REGISTER, _place(builder, *args[:2]), ir.Constant(_INT, 8), mask, zeros)

    return lanes(x, types.intp, types.intp), codegen


@_on_registers
def load_between(typingctx, x, i, begin, end):  # type: ignore[no-untyped-def]
    """Read of eight floats from x[i] on from the ``begin``-th to before the ``end``-th; zeros else, none is read."""

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        zeros, mask = ir.Constant(REGISTER, [0.0] * WIDTH), _between(builder, *args[2:])
        return _masked(builder, "load", REGISTER, _place(builder, *args[:2]), ir.Constant(_INT, 8), mask, zeros)

    return lanes(x, types.intp, types.intp, types.intp), codegen


@intrinsic
def one_hot(typingctx, y, k):  # type: ignore[no-untyped-def]
    """Lanes of zeros, but for the k-th, which is y."""

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        y, k = args
        mask = builder.icmp_signed("==", ir.Constant(_INTS, list(range(WIDTH))), _spread(builder, k, _INTS))
        return builder.select(mask, _spread(builder, y, REGISTER), ir.Constant(REGISTER, [0.0] * WIDTH))

    return lanes(types.float64, types.intp), codegen


@_on_registers
def store(typingctx, x, i, y):  # type: ignore[no-untyped-def]
    """Write eight floats from x[i] on."""

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        _store(builder, *args)
        return context.get_dummy_value()

    return types.void(x, types.intp, lanes), codegen


@_on_registers
def store_some(typingctx, x, i, y, count):  # type: ignore[no-untyped-def]
    """Write the first ``count`` of eight floats from x[i] on; nothing is written beyond them."""

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        x, i, y, count = args
        _masked(builder, "store", _VOID, y, _place(builder, x, i), ir.Constant(_INT, 8), _first(builder, count))
        return context.get_dummy_value()

    return types.void(x, types.intp, lanes, types.intp), codegen


@intrinsic
def prefetch(typingctx, x, i):  # type: ignore[no-untyped-def]
    """Ask for the cache line of x[i], to be written to soon: to wait for a line takes longer than to write it."""

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        line = builder.bitcast(after(builder, part(builder, args[0], 0), args[1]), ir.IntType(8).as_pointer())
        kind = ir.FunctionType(_VOID, [line.type, _INT, _INT, _INT])
        hints = [ir.Constant(_INT, k) for k in (1, 3, 1)]  # to write, and to keep
        builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0"), [line, *hints])
        return context.get_dummy_value()

    return types.void(x, types.intp), codegen


@intrinsic
def multiply_add(typingctx, x, y, z):  # type: ignore[no-untyped-def]
    """x y + z, rounded once where the processor can."""
    kind = common(x, y, z)
    return kind(kind, kind, kind), called("fmuladd")


@intrinsic
def transpose(typingctx, x):  # type: ignore[no-untyped-def]
    """Transpose the 8 x 8 floats at the beginning of x: blocks of 4, 2 and 1 rows change places with others as far."""

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        rows = [_load(builder, args[0], word(WIDTH * i)) for i in range(WIDTH)]
        for span in (4, 2, 1):
            low = [k if not k & span else WIDTH + k - span for k in range(WIDTH)]
            high = [k + span if not k & span else WIDTH + k for k in range(WIDTH)]
            pairs = [(rows[i & ~span], rows[i | span], high if i & span else low) for i in range(WIDTH)]
            rows = [builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_INT, WIDTH), c)) for a, b, c in pairs]
        for i, row in enumerate(rows):
            _store(builder, args[0], word(WIDTH * i), row)
        return context.get_dummy_value()

    return types.void(x), codegen


@intrinsic(prefer_literal=True)
def stack(typingctx, count):  # type: ignore[no-untyped-def]
    """Floats on the kernel's stack, not initialised; ``count`` is written out."""
    if not isinstance(count, types.IntegerLiteral):
        return None

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        memory = cgutils.alloca_once(builder, ir.ArrayType(ir.DoubleType(), count.literal_value))
        memory.align = 8 * WIDTH
        return made(context, builder, sig.return_type, builder.bitcast(memory, ir.DoubleType().as_pointer()))

    return RowsType(types.float64)(count), codegen


# -- tiles -------------------------------------------------------------------------------------------


def _elements(tile: Any) -> list[tuple[int, int]]:
    return [(r, v) for r in range(tile.count) for v in range(tile.dtype.count)]


def _element(builder: Any, i: Any, ld: Any, r: int, v: int) -> Any:
    """The place of a tile's v-th register in its r-th row."""
    return builder.add(builder.add(i, builder.mul(ld, word(r))), word(WIDTH * v))


@intrinsic(prefer_literal=True)
def load_tile(typingctx, x, i, ld, rows, registers):  # type: ignore[no-untyped-def]
    """A tile from x[i] on, with rows ``ld`` apart."""
    if not isinstance(rows, types.IntegerLiteral) or not isinstance(registers, types.IntegerLiteral):
        return None
    tile = types.UniTuple(types.UniTuple(lanes, registers.literal_value), rows.literal_value)

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        x, i, ld = args[:3]
        made = ir.Constant(context.get_value_type(tile), ir.Undefined)
        for r, v in _elements(tile):
            made = builder.insert_value(made, _load(builder, x, _element(builder, i, ld, r, v)), (r, v))
        return made

    return tile(x, types.intp, types.intp, rows, registers), codegen


@_on_registers
def store_tile(typingctx, x, i, ld, tile):  # type: ignore[no-untyped-def]
    """Write a tile from x[i] on, with rows ``ld`` apart."""

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        x, i, ld, values = args
        for r, v in _elements(tile):
            _store(builder, x, _element(builder, i, ld, r, v), builder.extract_value(values, (r, v)))
        return context.get_dummy_value()

    return types.void(x, types.intp, types.intp, tile), codegen


@_on_registers
def add_outer(typingctx, tile, x, i, ld, y, j):  # type: ignore[no-untyped-def]
    """A tile + the column x[i], x[i + ld], .. times the row y[j], y[j + 1], .."""

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        made, x, i, ld, y, j = args
        column = [
            builder.load(after(builder, part(builder, x, 0), builder.add(i, builder.mul(ld, word(r)))))
            for r in range(tile.count)
        ]
        row = [_load(builder, y, builder.add(j, word(WIDTH * v))) for v in range(tile.dtype.count)]
        for r, v in _elements(tile):
            product = builder.fmul(_spread(builder, column[r], REGISTER), row[v], flags=_FUSED)
            total = builder.fadd(builder.extract_value(args[0], (r, v)), product, flags=_FUSED)
            made = builder.insert_value(made, total, (r, v))
        return made

    return tile(tile, x, types.intp, types.intp, y, types.intp), codegen
