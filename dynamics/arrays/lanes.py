# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-subclassing-any
"""Arrays of lanes (ddp/machine/number.py), in the memory of arrays of floats with a last axis of length ``WIDTH``.

    x (n, 8) behaves as an array (n,) of lanes, x (n, m, 8) as an array (n, m) of lanes, and so on

packing.py moves knots between rows of ordinary arrays and lanes.
"""

from __future__ import annotations

import threading

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, register_model

from ddp.compiling.kernel import kernel
from ddp.machine.number import QUAD, WIDTH, lanes
from ddp.protocols import Array
from dynamics.arrays.views import ViewModel, ViewType, folded

_VECTOR = ir.VectorType(ir.DoubleType(), WIDTH)


class LaneArrayType(ViewType):
    """An array (1 to 3 axes) whose elements are lanes, in the memory of a float64 array."""

    def __init__(self, ndim: int) -> None:
        super().__init__(lanes, ndim)

    def of_shape(self, ndim: int) -> LaneArrayType:
        return LaneArrayType(ndim)


register_model(LaneArrayType)(ViewModel)


@intrinsic
def lane_array(typingctx, array):  # type: ignore[no-untyped-def]
    """An array (..., 8) of floats seen as an array of lanes; it shares the memory, and does not keep it alive."""
    if isinstance(array, LaneArrayType):
        return array(array), lambda context, builder, sig, args: args[0]
    kind = LaneArrayType(array.ndim - 1)

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        source = context.make_array(sig.args[0])(context, builder, args[0])
        struct = cgutils.create_struct_proxy(kind)(context, builder)
        struct.data = builder.bitcast(source.data, _VECTOR.as_pointer())
        struct.shape = cgutils.pack_array(builder, cgutils.unpack_tuple(builder, source.shape)[:-1])
        return struct._getvalue()

    return kind(types.Array(types.float64, array.ndim, "C")), codegen


@intrinsic
def flat(typingctx, array):  # type: ignore[no-untyped-def]
    """An array of lanes as one with one axis."""
    kind = LaneArrayType(1)

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        source = cgutils.create_struct_proxy(sig.args[0])(context, builder, value=args[0])
        struct = cgutils.create_struct_proxy(kind)(context, builder)
        size = None
        for extent in cgutils.unpack_tuple(builder, source.shape):
            size = extent if size is None else builder.mul(size, extent)
        struct.data, struct.shape = source.data, cgutils.pack_array(builder, [size])
        return struct._getvalue()

    return kind(array), codegen


_local = threading.local()


def arena(size: int) -> Array:
    """Memory for ``size`` lanes (size + 1, 8), one a thread, kept between calls: fresh pages cost more than arithmetic.

    Kernels take from it with ``lane_memory``, front to back; every call that is given it starts anew. It is aligned to
    registers, because a load that straddles two cache lines is slow.
    """
    kept = getattr(_local, "arena", None)
    if kept is None or len(kept) <= size:
        raw = np.zeros((size + 2) * WIDTH)
        start = -(raw.ctypes.data // 8) % WIDTH
        kept = _local.arena = raw[start : start + (size + 1) * WIDTH].reshape(size + 1, WIDTH)
    kept[0, 0] = 1.0  # the first free row
    return kept


@kernel
def lane_memory(arena, n):
    """Memory of n lanes (n, 8), not initialised."""
    start = int(arena[0, 0])
    arena[0, 0] = start + n
    return arena[start : start + n]


@kernel
def quad_memory(arena, n):
    """Memory of n quads (n, 4), not initialised."""
    pairs = (n + 1) // 2
    return lane_memory(arena, pairs).reshape(2 * pairs, QUAD)[:n]


@kernel
def lane_vector(arena, n):
    """An array (n,) of lanes, not initialised."""
    start = int(arena[0, 0])
    arena[0, 0] = start + n
    return lane_array(arena)[start : start + n]


@kernel
def lane_matrix(arena, n, m):
    """An array (n, m) of lanes, not initialised."""
    return folded(lane_vector(arena, n * m), n, m)
