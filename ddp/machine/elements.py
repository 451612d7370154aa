# mypy: allow-untyped-defs, allow-untyped-calls
"""Kernels of matrices of floats (tiles.py, rows.py, triangles.py), compiled for matrices of lanes: `in_lanes`.

Where those kernels read eight columns of a row into a register, these read one: its number for eight problems. So
rows have no padding, and whatever is done to registers is done to numbers. Addresses of lanes are handed on as eighths,
so that ``8 * i`` leads to the i-th number whether it is a float or a lane: `lanes_at` takes an address as an eighth,
and `eighth_of` gives it. Memory on the stack is handed on as vectors of lanes, of which registers can take the place;
``+ 8 * i`` leads to the i-th number of these, too.
"""

import operator
from collections.abc import Mapping
from typing import Any

from numba import types
from numba.extending import lower_builtin, type_callable

from ddp.compiling.compiled import Kernel
from ddp.compiling.kernel import OPTIONS, by_types, inline, specialised
from ddp.machine import memory, rows, simd, tiles, triangles
from ddp.machine.addresses import array_at
from ddp.machine.memory import RowsType, address_of, after, as_matrix, made, part, rows_at, word
from ddp.machine.number import WIDTH, lanes
from ddp.machine.simd import multiply_add

_rows_of_lanes = rows_at(lanes)


@inline
def _lanes_at_eighth(eighth):
    return _rows_of_lanes(WIDTH * eighth)


@inline
def _as_they_are(vector):
    return vector


def lanes_at(place):  # type: ignore[no-untyped-def]
    """A vector of lanes, inside kernels: of an eighth, or itself."""


@by_types(lanes_at)
def _choose_lanes(place):  # type: ignore[no-untyped-def]
    return _as_they_are if isinstance(place, RowsType) else _lanes_at_eighth


def _move(op: Any, sign: int) -> None:
    """Let ``vector + 8 * i`` be what follows the i-th number of a vector of lanes."""

    @type_callable(op)
    def of_lanes(context):  # type: ignore[no-untyped-def]
        def result(x, offset):  # type: ignore[no-untyped-def]
            known = isinstance(x, RowsType) and x.number == lanes and x.columns == 1
            return x(x, types.intp) if known and isinstance(offset, types.Integer) else None

        return result

    @lower_builtin(op, RowsType, types.Integer)
    def lower(context, builder, sig, args):  # type: ignore[no-untyped-def]
        count = builder.sdiv(args[1], word(sign * WIDTH), flags=("exact",))
        return made(context, builder, sig.return_type, after(builder, part(builder, args[0], 0), count))


for _op, _sign in ((operator.add, 1), (operator.iadd, 1), (operator.sub, -1)):
    _move(_op, _sign)


@inline
def eighth_of(x):
    """Address of rows, as an eighth."""
    return address_of(x) // WIDTH


@inline
def matrix_at(eighth, shape):
    """A matrix of lanes of a shape."""
    return as_matrix(lanes_at(eighth), shape[0], shape[1])


@inline
def lanes_of(floats):
    """Floats on the stack as lanes."""
    return _rows_of_lanes(address_of(floats))


@inline
def load(x, i):
    """The number x[i]."""
    return x[i]


@inline
def load_some(x, i, count):
    """The number x[i], or zero if there is none."""
    return x[i] if count > 0 else 0.0 * x[0]


@inline
def load_between(x, i, begin, end):
    """The number x[i] where it lies between, else zero."""
    return x[i] if begin <= 0 < end else 0.0 * x[0]


@inline
def one_hot(y, k):
    """The number y."""
    return y


@inline
def store(x, i, y):
    """x[i] := y."""
    x[i] = y


@inline
def store_some(x, i, y, count):
    """x[i] := y if there is one to write."""
    if count > 0:
        x[i] = y


@inline
def mirror(x, ld):
    """Below its diagonal, x (ld, ld) := what is above."""
    x = lanes_at(x)
    for i in range(ld):
        for j in range(i):
            x[i * ld + j] = x[j * ld + i]


@inline
def strip(number, C, ldc, S, lds, begin, end, a, ai, ak, B, ldb, K):
    """C := S + a B of some rows."""
    C, S, a, B = lanes_at(C), lanes_at(S), lanes_at(a), lanes_at(B)
    for j in range(begin, end):
        for r in range(number):
            total = S[r * lds + j]
            for k in range(K):
                total = multiply_add(a[r * ai + k * ak], B[j + k * ldb], total)
            C[r * ldc + j] = total


strip.constants = tiles._strip.constants
_ELEMENTS = {
    memory.floats_at: lanes_at, memory.address_of: eighth_of, array_at: matrix_at, simd.load: load,
    simd.load_some: load_some, simd.load_between: load_between, simd.one_hot: one_hot, simd.store: store,
    simd.store_some: store_some, triangles.as_numbers: lanes_of, rows.mirror: mirror, tiles._strip: strip,
}  # fmt: skip

_SIZES = {"WIDTH": 1, **{name: WIDTH * getattr(triangles, name) for name in ("BLOCK", "COLUMN", "REGISTERS")}}


class _Part(Kernel):
    """A kernel that is inlined into what is compiled whole, and optimised there."""

    level = 0


def in_lanes(kernel: Kernel, others: Mapping[Any, Any], kept: tuple[Kernel, ...]) -> Kernel:
    """A kernel, and those that it calls, for matrices of lanes.

    others: what takes the places of kernels that are for floats alone.   kept: kernels that stay as they are.
    """
    instead = {**_ELEMENTS, **dict(zip(kept, kept, strict=True))}
    for one, other in others.items():
        instead[one] = _copied(other, instead)
    return _copied(kernel, instead)


def _copied(kernel: Kernel, instead: dict[Any, Any]) -> Kernel:
    function, own = kernel.py_func, {}
    for name in function.__code__.co_names:
        value = function.__globals__.get(name)
        if isinstance(value, Kernel) and value not in instead:
            instead[value] = _copied(value, instead)
        if name in _SIZES:
            own[name] = _SIZES[name]
        elif value is not None and value.__hash__ and instead.get(value, value) is not value:
            own[name] = instead[value]
    if not own:
        return kernel
    copy = _Part(specialised(function, f"{function.__name__}_of_lanes", **own), {**OPTIONS, "forceinline": True})
    copy.constants = kernel.constants
    return copy
