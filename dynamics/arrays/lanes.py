# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-subclassing-any
"""Eight knots at once: a number type for kernels that is one SIMD register of eight doubles.

A kernel does not care what a number is. Given arrays of floats it works on one knot; given ``lane_array(x)`` of an
array with a last axis of length ``WIDTH``, its elements are registers and it works on eight knots, one to a lane:

    x (n, 8) behaves as an array (n,) of lanes, x (n, m, 8) as an array (n, m) of lanes, and so on

Lanes add, subtract, multiply, divide and negate among themselves and with floats, and have ``sine_cosine``.
Nothing here compares lanes: what happens in one never depends on another, so a knot's result does not depend on its
neighbours. packing.py moves knots between rows of ordinary arrays and lanes.

Where one knot has to wait for another, as in rollouts, half a register, ``quads``, is sooner done than a whole one.
"""

from __future__ import annotations

import operator
import threading
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils, typing
from numba.core.typeconv.rules import default_casting_rules
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import intrinsic, lower_builtin, lower_cast, models, register_model

from ddp.compiling.kernel import by_types, inline, kernel
from ddp.protocols import Array
from dynamics.arrays.views import ViewModel, ViewType, folded

WIDTH, QUAD = 8, 4
_VECTOR = ir.VectorType(ir.DoubleType(), WIDTH)
_I32 = ir.IntType(32)


class LanesType(types.Type):
    """Some doubles side by side."""

    def __init__(self, width: int) -> None:
        self.width, self.vector = width, ir.VectorType(ir.DoubleType(), width)
        super().__init__(name=f"lanes{width}")


class LaneArrayType(ViewType):
    """An array (1 to 3 axes) whose elements are lanes, in the memory of a float64 array."""

    def __init__(self, ndim: int) -> None:
        super().__init__(lanes, ndim)

    def of_shape(self, ndim: int) -> LaneArrayType:
        return LaneArrayType(ndim)


lanes, quads = LanesType(WIDTH), LanesType(QUAD)


@register_model(LanesType)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, fe_type: Any) -> None:
        super().__init__(manager, fe_type, fe_type.vector)


register_model(LaneArrayType)(ViewModel)


# -- arithmetic --------------------------------------------------------------------------------------


@lower_cast(types.float64, LanesType)
def _float_to_lanes(context, builder, fromty, toty, value):  # type: ignore[no-untyped-def]
    undefined = ir.Constant(toty.vector, ir.Undefined)
    one = builder.insert_element(undefined, value, ir.Constant(_I32, 0))
    return builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(_I32, toty.width), [0] * toty.width))


for _kind in (lanes, quads):
    default_casting_rules.safe(types.float64, _kind)


def common(*kinds: Any) -> Any:
    """The type of lanes among types, floats being lanes that are all the same; None if there is anything else."""
    found = set(kinds) - {types.float64}
    kind = found.pop() if len(found) == 1 else None
    return kind if isinstance(kind, LanesType) else None


def _binary(op: Any, instruction: str) -> None:
    class Template(AbstractTemplate):
        def generic(self, args: Any, kws: Any) -> Any:
            kind = common(*args)
            return typing.signature(kind, kind, kind) if kind is not None and len(args) == 2 else None

    infer_global(op)(Template)

    @lower_builtin(op, LanesType, LanesType)
    def lower(context, builder, sig, args):  # type: ignore[no-untyped-def]
        return getattr(builder, instruction)(args[0], args[1], flags=("contract", "reassoc"))


for _op, _instruction in (
    (operator.add, "fadd"), (operator.sub, "fsub"), (operator.mul, "fmul"), (operator.truediv, "fdiv"),
    (operator.iadd, "fadd"), (operator.isub, "fsub"), (operator.imul, "fmul"), (operator.itruediv, "fdiv"),
):  # fmt: skip
    _binary(_op, _instruction)


@infer_global(operator.neg)
class _Negation(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        return typing.signature(args[0], args[0]) if len(args) == 1 and isinstance(args[0], LanesType) else None


@lower_builtin(operator.neg, LanesType)
def _negate(context, builder, sig, args):  # type: ignore[no-untyped-def]
    return builder.fneg(args[0])


def called(name: str) -> Any:
    """The code of an intrinsic that is LLVM's function of that name, lane by lane."""

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        vector, width = sig.return_type.vector, sig.return_type.width
        kind = ir.FunctionType(vector, [vector] * len(args))
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v{width}f64"), args)

    return codegen


@intrinsic
def _nearest_integer(typingctx, x):  # type: ignore[no-untyped-def]
    """Each lane rounded to the nearest integer."""
    return x(x), called("rint")


@intrinsic
def _where_odd(typingctx, n, a, b):  # type: ignore[no-untyped-def]
    """Lane by lane a where the integer n is odd, b where it is even."""

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        words = ir.VectorType(ir.IntType(64), n.width)
        bit = builder.and_(builder.fptosi(args[0], words), ir.Constant(words, [1] * n.width))
        return builder.select(builder.icmp_signed("!=", bit, ir.Constant(words, [0] * n.width)), args[1], args[2])

    return n(n, n, n), codegen


@kernel
def _lane_sine_cosine(x):
    """sin x, cos x by reduction to |r| <= π/4 and the polynomials of Cephes; accurate to rounding for |x| < 1e5."""
    n = _nearest_integer(x * (2.0 / np.pi))
    r = ((x - n * 1.57079632673412561417) - n * 6.07710050630396597660e-11) - n * 2.02226624879595063154e-21
    z = r * r
    p = ((((1.58962301576546568060e-10 * z - 2.50507477628578072866e-8) * z + 2.75573136213857245213e-6) * z
          - 1.98412698295895385996e-4) * z + 8.33333333332211858878e-3) * z - 1.66666666666666307295e-1  # fmt: skip
    s = r + r * (z * p)
    p = ((((-1.13585365213876817300e-11 * z + 2.08757008419747316778e-9) * z - 2.75573141792967388112e-7) * z
          + 2.48015872888517045348e-5) * z - 1.38888888888730564116e-3) * z + 4.16666666666665929218e-2  # fmt: skip
    c = 1.0 - 0.5 * z + z * z * p
    half = _nearest_integer(0.5 * n - 0.25)  # floor(n / 2): quadrants 2 and 3 turn both signs
    sine, cosine = _where_odd(n, c, s), _where_odd(n, -s, c)
    return _where_odd(half, -sine, sine), _where_odd(half, -cosine, cosine)


def sine_cosine(x):  # type: ignore[no-untyped-def]
    """(sin x, cos x) of any number, inside kernels."""
    return np.sin(x), np.cos(x)


@by_types(sine_cosine)
def _sine_cosine(x):  # type: ignore[no-untyped-def]
    return _lane_sine_cosine if isinstance(x, LanesType) else _scalar_sine_cosine


@inline
def _scalar_sine_cosine(x):
    return np.sin(x), np.cos(x)


# -- arrays of lanes ---------------------------------------------------------------------------------


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
