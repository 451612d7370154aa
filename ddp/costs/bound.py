# mypy: allow-untyped-defs, allow-untyped-calls
"""Cost terms as C functions: kernels with their arguments bound, so that one kernel can call them all.

A term's kernel is ``term(*arguments, first, X, U, scale, order, l, lz, lzz)``: it adds ``scale`` times the costs of M
knots to l, and unless ``order`` is VALUES their gradients to lz and Hessians to lzz. Its arguments, numbers, arrays and
named tuples of them, are bound by `bind`. The C function that this makes is ``void(context, block, order, first)``:
arguments behind one address, a block of `Knots` behind another. It is compiled once for all terms of the same kernel,
and cached as they are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numba
import numpy as np
from llvmlite import ir
from numba import carray, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

from ddp.compiling.kernel import callback, inline, integer_pointer, pointer, specialised
from ddp.costs.batch import CompiledCost
from ddp.machine.struct import Struct, StructType

VALUES, GAUSS_NEWTON, EXACT = 0, 1, 2
"""The ``order`` of a C function: costs alone, or with gradients and one of two Hessians."""

BLOCK = 15
"""Words of a block, see `knots_at` and `matrices_at`."""


class Knots(NamedTuple):
    """M knots of a trajectory, and where a term's contribution is added, ``scale`` times.

    X (M, nx), U (M, nu).   l (M,), lz (M, nz), which has no columns where values alone are asked for.
    notes (M, .): what the dynamics have noted or recorded, see `ddp.costs.batch`; of no use to other terms.
    """

    X: np.ndarray
    U: np.ndarray
    scale: float
    l: np.ndarray
    lz: np.ndarray
    notes: np.ndarray


@inline
def knots_at(block):
    """Read a block of words: M, nx, nu, nz, scale, where X, U, l, lz, lzz are, notes' size and place, and,
    of separable terms, how far entries of lzz (M, nz, nz) are from those of the next knot, row and column, in bytes.
    """
    w = carray(integer_pointer(block), BLOCK)
    M = w[0]
    return Knots(
        carray(pointer(w[5]), (M, w[1])), carray(pointer(w[6]), (M, w[2])), carray(pointer(block), BLOCK)[4],
        carray(pointer(w[7]), M), carray(pointer(w[8]), (M, w[3])), carray(pointer(w[11]), (M, w[10])),
    )  # fmt: skip


@inline
def matrices_at(block):
    """lzz (M, nz, nz) of a block."""
    w = carray(integer_pointer(block), BLOCK)
    return carray(pointer(w[9]), (w[0], w[3], w[3]))


@inline
def diagonals_at(block):
    """Hessians of separable terms: where diagonals are kept apart, every entry of a row is that on the diagonal."""
    w = carray(integer_pointer(block), BLOCK)
    return _strided(w[9], w[0], w[3], w[12], w[13], w[14])


@intrinsic
def _strided(typingctx, address, M, nz, to_knot, to_row, to_column):  # type: ignore[no-untyped-def]
    kind = types.Array(types.float64, 3, "A")

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        data, M, nz, *strides = args
        array = make_array(kind)(context, builder)
        data = builder.inttoptr(data, array.data.type)
        populate_array(array, data, (M, nz, nz), strides, ir.Constant(ir.IntType(64), 8), meminfo=None)
        return array._getvalue()

    return kind(*[types.int64] * 6), codegen


def bind(term: Any, *arguments: Any, noted: bool = False, separable: bool = False) -> CompiledCost:
    """Make the C function of a term with this kernel, and its context. Arguments are copied where they must be.

    noted: whether the kernel takes the knots' notes (M, .) after X and U.
    separable: whether the term is `TermAbilities`: of lzz, the kernel then writes to diagonals alone.
    """
    kept: list[Any] = []
    words = np.array(_words(arguments, kept), dtype=np.int64)
    function = _function(term, _plain(numba.typeof(arguments)), noted, separable)
    return CompiledCost(function.address, int(words.ctypes.data), (words, kept, function))


def _words(value: Any, kept: list[Any]) -> list[int]:
    """A value as words: of an array its address and shape, of a tuple those of its parts; ``kept`` holds the arrays."""
    if isinstance(value, np.ndarray):
        array = np.ascontiguousarray(value)
        kept.append(array)
        return [int(array.ctypes.data), *array.shape]
    if isinstance(value, Struct):
        kept.append(value)
        return [value.address]
    if isinstance(value, tuple):
        return [word for part in value for word in _words(part, kept)]
    return [int(np.float64(value).view(np.int64)) if isinstance(value, float) else int(value)]


def _plain(kind: Any) -> Any:
    """The type that kernels see: arrays contiguous and writeable, whatever they were, so that there is one of each."""
    if isinstance(kind, types.Array):
        return types.Array(kind.dtype, kind.ndim, "C")
    if isinstance(kind, types.NamedTuple):
        return types.NamedTuple([_plain(part) for part in kind.types], kind.instance_class)
    if isinstance(kind, types.NamedUniTuple):
        return types.NamedUniTuple(_plain(kind.dtype), kind.count, kind.instance_class)
    if isinstance(kind, types.BaseTuple):
        return types.BaseTuple.from_types([_plain(part) for part in kind])
    if isinstance(kind, StructType):
        return kind
    return types.float64 if isinstance(kind, types.Float) else types.int64


@cache
def _function(term: Any, kind: Any, noted: bool, separable: bool) -> Any:
    """The compiled C function: `_evaluate` of this kernel and the type of its arguments."""
    hessians = diagonals_at if separable else matrices_at
    described = f"{term.__module__}.{term.__name__} {kind} {separable}"
    name = f"{term.__name__}_{hashlib.sha256(described.encode()).hexdigest()[:16]}"
    template = _evaluate_noted if noted else _evaluate
    function = specialised(template, name, term=term, bound=_reader(kind), hessians=hessians)
    return callback(function)


term: Any = None
bound: Any = None
hessians: Any = None


def _evaluate(context, block, order, first):  # type: ignore[no-untyped-def]
    """The C function, but for ``term``, ``bound`` and ``hessians``: see `_function`."""
    knots = knots_at(block)
    term(*bound(context), first, knots.X, knots.U, knots.scale, order, knots.l, knots.lz, hessians(block))


def _evaluate_noted(context, block, order, first):  # type: ignore[no-untyped-def]
    """C function of a kernel that takes notes."""
    knots = knots_at(block)
    own = knots.scale, order, knots.l, knots.lz, hessians(block)
    term(*bound(context), first, knots.X, knots.U, knots.notes, *own)


def _reader(kind: Any) -> Callable[[int], Any]:
    """For kernels: the value of a type whose words are at an address."""
    word = ir.IntType(64)

    def read(context, builder, kind, words):  # type: ignore[no-untyped-def]
        if isinstance(kind, types.BaseTuple):
            return context.make_tuple(builder, kind, [read(context, builder, part, words) for part in kind])
        if not isinstance(kind, types.Array):
            return builder.bitcast(next(words), context.get_value_type(kind))
        array = make_array(kind)(context, builder)
        data, shape = next(words), [next(words) for _ in range(kind.ndim)]
        itemsize = ir.Constant(word, context.get_abi_sizeof(context.get_data_type(kind.dtype)))
        strides = [itemsize]
        for size in reversed(shape[1:]):
            strides.insert(0, builder.mul(strides[0], size))
        populate_array(array, builder.inttoptr(data, array.data.type), shape, strides, itemsize, meminfo=None)
        return array._getvalue()

    @intrinsic
    def reader(typingctx, address):  # type: ignore[no-untyped-def]
        def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
            at = builder.inttoptr(args[0], word.as_pointer())

            def words():  # type: ignore[no-untyped-def]
                i = 0
                while True:
                    yield builder.load(cgutils.gep(builder, at, i))
                    i += 1

            return read(context, builder, kind, words())

        return kind(types.int64), codegen

    return reader
