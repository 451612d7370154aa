# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-subclassing-any
"""Tables: memory seen as rows, by its address alone, for kernels that would spend more on arrays than on arithmetic.

A numba array is seven words and a reference count; a workspace of twenty, handed from kernel to kernel, costs more
than the dynamics of a pendulum. A table is one word. Its number of columns and its elements, lanes (see lanes.py),
floats or integers, belong to its type; ``table[i, k]``, or ``table[i]`` where there is one column, reads and writes.
Whoever made the memory keeps it alive.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba import carray, types
from numba.core import cgutils, typing
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import intrinsic, lower_builtin, models, register_model

from ddp.compiling.kernel import kernel, pointer
from ddp.machine.number import QUAD
from ddp.machine.registers import WORD, at, exchange, few, load, store_where, times


class TableType(types.Type):
    """Rows of ``columns`` elements."""

    def __init__(self, element: types.Type, columns: int) -> None:
        self.element, self.columns = element, columns
        super().__init__(name=f"table_{element}_{columns}")


@register_model(TableType)
class _TableModel(models.PrimitiveModel):
    def __init__(self, manager: Any, fe_type: Any) -> None:
        super().__init__(manager, fe_type, ir.IntType(64))


def table_of(element: types.Type, columns: int) -> Any:
    """The function, for kernels, that makes an address (int64) a table."""
    kind = TableType(element, columns)

    @intrinsic
    def make(typingctx, address):  # type: ignore[no-untyped-def]
        def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
            return args[0]

        return kind(types.int64), codegen

    return make


def _is_index(table: Any, index: Any) -> bool:
    if table.columns == 1:
        return isinstance(index, types.Integer)
    pair = isinstance(index, types.BaseTuple) and len(index) == 2
    return pair and all(isinstance(i, types.Integer) for i in index)


@infer_global(operator.getitem)
class _GetItem(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        table, index = args
        if isinstance(table, TableType) and _is_index(table, index):
            return typing.signature(table.element, table, index)
        return None


@infer_global(operator.setitem)
class _SetItem(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        table, index, value = args
        if isinstance(table, TableType) and _is_index(table, index) and value in (table.element, types.float64):
            return typing.signature(types.none, table, index, table.element)
        return None


def _element(context: Any, builder: Any, table: Any, index: Any, address: Any, where: Any) -> Any:
    if table.columns == 1:
        row = context.cast(builder, where, index, types.int64)
    else:
        first, second = cgutils.unpack_tuple(builder, where, 2)
        row = context.cast(builder, first, index[0], types.int64)
        row = builder.mul(row, ir.Constant(row.type, table.columns))
        row = builder.add(row, context.cast(builder, second, index[1], types.int64))
    kind = context.get_value_type(table.element)
    return builder.gep(builder.inttoptr(address, kind.as_pointer()), [row])


def _lower_items(index: Any) -> None:
    @lower_builtin(operator.getitem, TableType, index)
    def get(context, builder, sig, args):  # type: ignore[no-untyped-def]
        load = builder.load(_element(context, builder, sig.args[0], sig.args[1], *args))
        load.align = 8
        return load

    @lower_builtin(operator.setitem, TableType, index, types.Any)
    def put(context, builder, sig, args):  # type: ignore[no-untyped-def]
        store = builder.store(args[2], _element(context, builder, sig.args[0], sig.args[1], *args[:2]))
        store.align = 8
        return context.get_dummy_value()


_lower_items(types.Integer)
_lower_items(types.BaseTuple)


@intrinsic
def scatter(typingctx, source, fields, out, stride, count):  # type: ignore[no-untyped-def]
    """Up to four consecutive quads at ``source`` to four places: lane l becomes the row at out + 8 l stride bytes.

    fields: how many of a row's four numbers are written; count: how many rows.
    """

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        source, fields, out, stride, count = args
        rows = [load(builder, at(builder, source), ir.Constant(WORD, QUAD * i), QUAD) for i in range(QUAD)]
        mask = few(builder, fields, QUAD)
        for lane, row in enumerate(exchange(builder, rows, (1, 2))):
            with builder.if_then(builder.icmp_signed("<", ir.Constant(WORD, lane), count)):
                store_where(builder, row, builder.add(out, times(builder, stride, 8 * lane)), mask)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 5), codegen


@kernel
def vector(address, n):
    """The n floats at an address."""
    return carray(pointer(address), n)


@kernel
def matrix(address, n, m):
    """The (n, m) floats at an address."""
    return carray(pointer(address), (n, m))
