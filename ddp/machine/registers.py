"""Registers of eight doubles in generated code: what intrinsics on tiles, rows and lanes are made of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from llvmlite import ir
from numba.core import cgutils

WIDTH = 8
DOUBLE, WORD, HALF = ir.DoubleType(), ir.IntType(64), ir.IntType(32)
VECTOR = ir.VectorType(DOUBLE, WIDTH)
_LANES = ir.VectorType(ir.IntType(1), WIDTH)


def at(builder: Any, address: Any) -> Any:
    """The doubles at an address."""
    return builder.inttoptr(address, DOUBLE.as_pointer())


def splat(builder: Any, x: Any) -> Any:
    """A double in every lane."""
    one = builder.insert_element(ir.Constant(VECTOR, ir.Undefined), x, ir.Constant(HALF, 0))
    mask = ir.Constant(ir.VectorType(HALF, WIDTH), [0] * WIDTH)
    return builder.shuffle_vector(one, ir.Constant(VECTOR, ir.Undefined), mask)


def scalar(builder: Any, base: Any, offset: Any) -> Any:
    """The double at an offset, in every lane."""
    return splat(builder, builder.load(builder.gep(base, [offset])))


def register(builder: Any, base: Any, offset: Any, width: int = WIDTH) -> Any:
    """The place of eight doubles, or of ``width``."""
    return builder.bitcast(builder.gep(base, [offset]), ir.VectorType(DOUBLE, width).as_pointer())


def load(builder: Any, base: Any, offset: Any, width: int = WIDTH) -> Any:
    """Eight doubles, or ``width``, aligned as one is."""
    load = builder.load(register(builder, base, offset, width))
    load.align = 8
    return load


def store(builder: Any, value: Any, base: Any, offset: Any) -> None:
    """Store a register's numbers at an address."""
    store = builder.store(value, register(builder, base, offset))
    store.align = 8


def shuffle(builder: Any, a: Any, b: Any, lanes: Iterable[int]) -> Any:
    """Some lanes of two registers, those of b counted on from those of a."""
    mask = list(lanes)
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(HALF, len(mask)), mask))


def exchange(builder: Any, rows: list[Any], spans: Iterable[int] = (1, 2, 4)) -> list[Any]:
    """Transpose as many registers as each has numbers: blocks of each span change places that far apart."""
    width = len(rows)
    for span in spans:
        low = [k if not k & span else width + k - span for k in range(width)]
        high = [k + span if not k & span else width + k for k in range(width)]
        pairs = [(rows[i & ~span], rows[i | span], high if i & span else low) for i in range(width)]
        rows = [shuffle(builder, *pair) for pair in pairs]
    return rows


def times(builder: Any, index: Any, factor: int) -> Any:
    """An index times a constant."""
    return builder.mul(index, ir.Constant(WORD, factor))


def plus(builder: Any, index: Any, addend: int) -> Any:
    """An index and a constant."""
    return builder.add(index, ir.Constant(WORD, addend))


def places(builder: Any, relation: str, x: Any, width: int = WIDTH) -> Any:
    """The mask of those of the places 0, 1, .. 7, or less, that are in a relation to an integer."""
    words = ir.VectorType(WORD, width)
    one = builder.insert_element(ir.Constant(words, ir.Undefined), x, ir.Constant(HALF, 0))
    everywhere = ir.Constant(ir.VectorType(HALF, width), [0] * width)
    others = builder.shuffle_vector(one, ir.Constant(words, ir.Undefined), everywhere)
    return builder.icmp_signed(relation, ir.Constant(words, list(range(width))), others)


def few(builder: Any, count: Any, width: int = WIDTH) -> Any:
    """The mask of the first ``count`` of eight lanes, or of ``width``."""
    return places(builder, "<", count, width)


def load_some(builder: Any, address: Any, count: Any) -> Any:
    """The first ``count`` of eight numbers, then zeros; nothing is read beyond them."""
    return load_where(builder, address, few(builder, count), ir.Constant(VECTOR, [0.0] * WIDTH))


def load_where(builder: Any, address: Any, mask: Any, others: Any) -> Any:
    """The numbers that a mask has, the others from another register; nothing else is read."""
    kind = ir.FunctionType(VECTOR, [VECTOR.as_pointer(), HALF, _LANES, VECTOR])
    masked = cgutils.get_or_insert_function(builder.module, kind, f"llvm.masked.load.v{WIDTH}f64.p0v{WIDTH}f64")
    source = register(builder, at(builder, address), ir.Constant(WORD, 0))
    return builder.call(masked, [source, ir.Constant(HALF, 8), mask, others])


def lanes(which: Iterable[bool]) -> Any:
    """The mask of those of eight lanes for which it is true."""
    return ir.Constant(_LANES, list(which))


def store_some(builder: Any, value: Any, address: Any, count: Any) -> None:
    """The first ``count`` of eight numbers; nothing is written beyond them."""
    store_where(builder, value, address, few(builder, count))


def store_where(builder: Any, value: Any, address: Any, mask: Any) -> None:
    """The numbers that a mask has; nothing else is written."""
    vector, width = value.type, value.type.count
    kind = ir.FunctionType(ir.VoidType(), [vector, vector.as_pointer(), HALF, mask.type])
    masked = cgutils.get_or_insert_function(builder.module, kind, f"llvm.masked.store.v{width}f64.p0v{width}f64")
    target = register(builder, at(builder, address), ir.Constant(WORD, 0), width)
    builder.call(masked, [value, target, ir.Constant(HALF, 8), mask])
