# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-subclassing-any
"""Rows: memory for kernels, of any number (number.py), by its address alone.

A numba array is seven words and a count of references; kernels that hand thirty of them to each other spend more on
them than on arithmetic. Rows are one word: the address. Numbers, columns and pitch (how far rows are apart, in numbers)
belong to their type, so that a field within a record is rows as well. Inside kernels

    f = rows.f[b]                  columns > 1: a tuple, of 3, 6, 9, 10, 12, 21 ... numbers
    rows.f[b] = add6(f, g)         floats become lanes where lanes are asked for
    rows.f[b, 2] += x              a number of a row
    x[i], x[i:]                    columns = 1: a vector; what follows its i-th number
    M[i, j], M[i]                  matrix: pitch and count are known at run time (three words); a row is a vector

Rows do not know their length (``len(M)`` of a matrix does), do not check bounds and do not keep their memory alive:
lengths come from the tree or the record at hand, and whoever calls a kernel keeps what it was given.
``constant`` rows are never written to while a kernel runs: LLVM may keep what it read of them across stores.

Where they come from:

    rows_of(array)                 a C-contiguous array: (n,) as a vector, (N, ...) as a matrix of N flat rows
    memory_of(array)               working memory: an array (n,) of its numbers, an array (n, 8) of n lanes
    rows_at(quads, 6)              makes a function, for kernels, of an address (int64)
    rows_at(float64, step=32)      numbers 32 apart: memory that 32 threads of a GPU share, each with every 32nd number,
                                   so that they read and write neighbours at once; no address, no registers of them
    as_quads(memory)               the memory of a vector of any numbers as a vector of quads
    Bodies(memory, tree).f         a declared record of working memory: see fields.py
    Tree(address).placement        a declared struct, written by Python: see struct.py

A driver makes rows of its arrays on its first lines and hands rows on: below them nothing counts references.

    @kernel
    def energy_of(address, memory, Q, V, out):
        tree = Tree(address)
        memory, Q, V, out = memory_of(memory), rows_of(Q), rows_of(V), rows_of(out)
        ws = Bodies(memory, tree)
        for t in range(len(Q)):
            place_bodies(tree, Q[t], ws)
            ...
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, lower_builtin, models, register_model, type_callable

from ddp.machine.number import lanes, quads

WORD = ir.IntType(64)


class RowsType(types.Type):
    """Rows of ``columns`` numbers, ``pitch`` numbers apart; columns None: a matrix, with pitch and count of its own.

    step: how far a number is from the next one in memory, in numbers; more than one where threads share it.
    """

    def __init__(
        self, number: Any, columns: int | None = 1, pitch: int | None = None, constant: bool = False, step: int = 1
    ) -> None:
        self.number, self.columns, self.constant, self.step = number, columns, constant, step
        self.pitch = columns if pitch is None else pitch
        apart = "" if step == 1 else f"_{step}_apart"
        super().__init__(name=f"{'constant_' if constant else ''}rows_{number}_{columns}_{self.pitch}{apart}")

    def of(self, columns: int | None, pitch: int | None = None) -> RowsType:
        """The type of rows of other columns in the same memory."""
        return RowsType(self.number, columns, pitch, self.constant, self.step)

    @property
    def is_contiguous(self) -> bool:
        """Whether numbers follow each other, so that they can be read by registers."""
        return self.step == 1


@register_model(RowsType)
class _RowsModel(models.StructModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        members = [("start", types.CPointer(kind.number))]
        if kind.columns is None:
            members += [("pitch", types.intp), ("count", types.intp)]
        super().__init__(manager, kind, members)


# -- words and instructions: what struct.py and fields.py are written with ---------------------------------


def word(value: int) -> Any:
    """A constant word."""
    return ir.Constant(WORD, value)


def made(context: Any, builder: Any, kind: Any, *parts: Any) -> Any:
    """A value of a type whose model is a struct, of its parts."""
    value = ir.Constant(context.get_value_type(kind), ir.Undefined)
    for place, part in enumerate(parts):
        value = builder.insert_value(value, part, place)
    return value


def part(builder: Any, value: Any, place: int) -> Any:
    """The part of such a value at a place."""
    return builder.extract_value(value, place)


def after(builder: Any, start: Any, count: Any, step: int = 1) -> Any:
    """The place so many numbers, ``step`` apart, behind a start."""
    return builder.gep(start, [count if step == 1 else builder.mul(count, word(step))], inbounds=True)


def loaded(builder: Any, kind: RowsType, where: Any) -> Any:
    """The number at a place."""
    value = builder.load(where)
    value.align = 8
    if kind.constant:
        value.set_metadata("invariant.load", builder.module.add_metadata([]))
    return value


def read_word(context: Any, builder: Any, address: Any, k: int, kind: Any = types.int64, constant: bool = True) -> Any:
    """The k-th word behind an address, of a type of one word."""
    place = builder.inttoptr(address, context.get_data_type(kind).as_pointer())
    return loaded(builder, RowsType(kind, constant=constant), after(builder, place, word(k)))


def sum_of_products(builder: Any, terms: Any) -> Any:
    """Σ factor · word over pairs of a number and a word."""
    total = word(0)
    for factor, value in terms:
        total = builder.add(total, builder.mul(word(factor), value))
    return total


# -- elements ----------------------------------------------------------------------------------------


def _is_pair(index: Any) -> bool:
    return isinstance(index, types.BaseTuple) and len(index) == 2 and all(isinstance(i, types.Integer) for i in index)


def _part_of(rows: RowsType, index: Any) -> Any:
    """The type of ``rows[index]``."""
    if isinstance(index, types.SliceType):
        return rows
    if _is_pair(index):
        return rows.number
    if not isinstance(index, types.Integer):
        return None
    if rows.columns is None:
        return rows.of(1)
    return rows.number if rows.columns == 1 else types.UniTuple(rows.number, rows.columns)


@type_callable(operator.getitem)
def _type_getitem(context):  # type: ignore[no-untyped-def]
    return lambda rows, index: _part_of(rows, index) if isinstance(rows, RowsType) else None


@type_callable(operator.setitem)
def _type_setitem(context):  # type: ignore[no-untyped-def]
    def result(rows, index, value):  # type: ignore[no-untyped-def]
        if not isinstance(rows, RowsType) or rows.constant or isinstance(index, types.SliceType):
            return None
        kind = _part_of(rows, index)
        if kind is None or isinstance(kind, RowsType) or not context.can_convert(value, kind) is not None:
            return None
        return types.none(rows, index, kind)

    return result


def _row(context: Any, builder: Any, kind: RowsType, value: Any, index: Any, i: Any) -> Any:
    """The start of a row."""
    i = context.cast(builder, i, index, types.intp)
    pitch = part(builder, value, 1) if kind.columns is None else word(kind.pitch or 0)
    return after(builder, part(builder, value, 0), builder.mul(i, pitch), kind.step)


def _pair(context: Any, builder: Any, kind: RowsType, value: Any, index: Any, pair: Any) -> Any:
    """The place of a number in a row."""
    begin = _row(context, builder, kind, value, index[0], part(builder, pair, 0))
    return after(builder, begin, context.cast(builder, part(builder, pair, 1), index[1], types.intp), kind.step)


@lower_builtin(operator.getitem, RowsType, types.BaseTuple)
def _get_number(context, builder, sig, args):  # type: ignore[no-untyped-def]
    kind, index = sig.args
    return loaded(builder, kind, _pair(context, builder, kind, args[0], index, args[1]))


@lower_builtin(operator.setitem, RowsType, types.BaseTuple, types.Any)
def _set_number(context, builder, sig, args):  # type: ignore[no-untyped-def]
    kind, index, _ = sig.args
    builder.store(args[2], _pair(context, builder, kind, args[0], index, args[1])).align = 8
    return context.get_dummy_value()


@lower_builtin(operator.getitem, RowsType, types.Integer)
def _get_row(context, builder, sig, args):  # type: ignore[no-untyped-def]
    kind, index = sig.args
    begin = _row(context, builder, kind, args[0], index, args[1])
    if kind.columns is None:
        return made(context, builder, sig.return_type, begin)
    numbers = [loaded(builder, kind, after(builder, begin, word(k), kind.step)) for k in range(kind.columns)]
    return numbers[0] if kind.columns == 1 else context.make_tuple(builder, sig.return_type, numbers)


@lower_builtin(operator.setitem, RowsType, types.Integer, types.Any)
def _set_row(context, builder, sig, args):  # type: ignore[no-untyped-def]
    kind, index, _ = sig.args
    begin = _row(context, builder, kind, args[0], index, args[1])
    for k in range(kind.columns):
        value = args[2] if kind.columns == 1 else part(builder, args[2], k)
        builder.store(value, after(builder, begin, word(k), kind.step)).align = 8
    return context.get_dummy_value()


@lower_builtin(operator.getitem, RowsType, types.SliceType)
def _slice(context, builder, sig, args):  # type: ignore[no-untyped-def]
    """Rows from where a slice starts; of a matrix as many as it has left, or as the slice asks for."""
    kind, index = sig.args
    bounds = context.make_helper(builder, index, args[1])
    start = _row(context, builder, kind, args[0], types.intp, bounds.start)
    if kind.columns is not None:
        return made(context, builder, kind, start)
    count = part(builder, args[0], 2)
    stop = builder.select(builder.icmp_signed("<", bounds.stop, count), bounds.stop, count)
    return made(context, builder, kind, start, part(builder, args[0], 1), builder.sub(stop, bounds.start))


@type_callable(len)
def _type_len(context):  # type: ignore[no-untyped-def]
    return lambda rows: types.intp if isinstance(rows, RowsType) and rows.columns is None else None


@lower_builtin(len, RowsType)
def _len(context, builder, sig, args):  # type: ignore[no-untyped-def]
    return part(builder, args[0], 2)


# -- where rows come from ----------------------------------------------------------------------------


def rows_at(number: Any, columns: int = 1, constant: bool = False, step: int = 1) -> Any:
    """A function, for kernels, that makes rows of an address (int64)."""
    kind = RowsType(number, columns, constant=constant, step=step)

    @intrinsic
    def make(typingctx, address):  # type: ignore[no-untyped-def]
        def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
            return made(context, builder, kind, builder.inttoptr(args[0], context.get_data_type(number).as_pointer()))

        return kind(types.int64), codegen

    return make


floats_at = rows_at(types.float64)
"""A vector of floats at an address, inside kernels."""


@intrinsic
def rows_of(typingctx, array):  # type: ignore[no-untyped-def]
    """A C-contiguous array as rows: (n,) as a vector, (N, ...) as a matrix of N flat rows. Rows as they are."""
    if isinstance(array, RowsType):
        return array(array), lambda context, builder, sig, args: args[0]
    kind = RowsType(array.dtype, 1 if array.ndim == 1 else None)

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        source = context.make_array(sig.args[0])(context, builder, args[0])
        if array.ndim == 1:
            return made(context, builder, kind, source.data)
        count, *others = (part(builder, source.shape, axis) for axis in range(array.ndim))
        pitch = word(1)
        for size in others:
            pitch = builder.mul(pitch, size)
        return made(context, builder, kind, source.data, pitch, count)

    return kind(types.Array(array.dtype, array.ndim, "C")), codegen


@intrinsic
def memory_of(typingctx, array):  # type: ignore[no-untyped-def]
    """Working memory: an array (n,) as a vector of its numbers, an array (n, 8) of floats as a vector of n lanes."""
    if isinstance(array, RowsType):
        return array(array), lambda context, builder, sig, args: args[0]
    kind = RowsType(array.dtype if array.ndim == 1 else lanes)

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        source = context.make_array(sig.args[0])(context, builder, args[0])
        start = builder.bitcast(source.data, context.get_data_type(kind.number).as_pointer())
        return made(context, builder, kind, start)

    return kind(types.Array(array.dtype, array.ndim, "C")), codegen


@intrinsic
def hold(typingctx, array):  # type: ignore[no-untyped-def]
    """Keep an array that a kernel has made alive until here: rows of it do not."""
    return types.none(array), lambda context, builder, sig, args: context.get_dummy_value()


@intrinsic
def as_matrix(typingctx, vector, rows, columns):  # type: ignore[no-untyped-def]
    """A vector as a matrix (rows, columns) in the same memory."""
    kind = vector.of(None)

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        return made(context, builder, kind, part(builder, args[0], 0), args[2], args[1])

    return kind(vector, types.intp, types.intp), codegen


@intrinsic
def as_vector(typingctx, rows):  # type: ignore[no-untyped-def]
    """Rows without gaps between them as one vector."""
    kind = rows.of(1)
    return kind(rows), lambda context, builder, sig, args: made(context, builder, kind, part(builder, args[0], 0))


@intrinsic
def as_quads(typingctx, rows):  # type: ignore[no-untyped-def]
    """The memory of a vector of numbers as a vector of quads."""
    if not rows.is_contiguous:
        return None
    kind = RowsType(quads)

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        place = context.get_data_type(quads).as_pointer()
        return made(context, builder, kind, builder.bitcast(part(builder, args[0], 0), place))

    return kind(rows), codegen


@intrinsic
def columns_from(typingctx, matrix, k):  # type: ignore[no-untyped-def]
    """A matrix without its first k columns, in the same memory."""

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        return builder.insert_value(args[0], after(builder, part(builder, args[0], 0), args[1], matrix.step), 0)

    return matrix(matrix, types.intp), codegen


@intrinsic
def columns_of(typingctx, matrix):  # type: ignore[no-untyped-def]
    """Pitch of a matrix's rows, in numbers: its number of columns if none is left out."""
    return types.intp(matrix), lambda context, builder, sig, args: part(builder, args[0], 1)


@intrinsic
def address_of(typingctx, rows):  # type: ignore[no-untyped-def]
    """Address of the first row (int64)."""
    if not rows.is_contiguous:
        return None
    return types.int64(rows), lambda context, builder, sig, args: builder.ptrtoint(part(builder, args[0], 0), WORD)


@intrinsic
def numbers_between(typingctx, first, last):  # type: ignore[no-untyped-def]
    """Count the numbers between the beginnings of two rows of one memory."""

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        begin, end = (builder.ptrtoint(part(builder, arg, 0), WORD) for arg in args)
        size = word(first.step * context.get_abi_sizeof(context.get_data_type(first.number)))
        return builder.sdiv(builder.sub(end, begin), size)

    return types.intp(first, last), codegen
