# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-subclassing-any
"""Numbers that kernels compute with: floats, complex numbers, quads and lanes, by one set of operations.

A kernel does not care what a number is. ``lanes`` are a SIMD register of eight doubles, eight knots at once; ``quads``
are four, four step lengths at once: where one knot has to wait for another, half a register is sooner done than a whole
one. They add, subtract, multiply, divide and negate among themselves and with floats. Every number has

    sine_cosine(x)           (sin x, cos x)
    square_root(x)           NaN of what is negative
    smaller(x, y)            the smaller one; the other if one is NaN
    where_less(a, b, x, y)   x where a < b, else (NaN included) y
    all_less(a, b)           whether a < b in every lane
    spread(x, like)          a float as a number of the type of ``like``
    lane_of(x, k)            the k-th lane, a float; of floats and complex numbers the real part
    with_lane(x, k, y)       x with a float y as its k-th lane; of floats and complex numbers y
    width(x)                 how many lanes there are: 1, 1, 4, 8

Complex numbers are compared by their real parts, so that complex step goes through. What happens in one lane never
depends on another. Branches take ``all_less``; everything else selects, lane by lane.
"""

import operator
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, lower_builtin, lower_cast, models, register_model, type_callable

from ddp.compiling.kernel import by_types, inline, kernel

WIDTH, QUAD = 8, 4
_I32 = ir.IntType(32)


class LanesType(types.Type):
    """Some doubles side by side."""

    def __init__(self, width: int) -> None:
        self.width, self.vector = width, ir.VectorType(ir.DoubleType(), width)
        super().__init__(name=f"lanes{width}")

    def can_convert_from(self, typingctx: Any, other: Any) -> Any:
        """Grade the conversion of a type to lanes: a float's as that of integers to floats; None if there is none."""
        return typingctx.can_convert(types.int32, types.float64) if other == types.float64 else None


lanes, quads = LanesType(WIDTH), LanesType(QUAD)


@register_model(LanesType)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, fe_type: Any) -> None:
        super().__init__(manager, fe_type, fe_type.vector)


def width_of(number: Any) -> int:
    """Count the lanes of a number of some type."""
    return number.width if isinstance(number, LanesType) else 1


# -- arithmetic --------------------------------------------------------------------------------------


@lower_cast(types.float64, LanesType)
def _float_to_lanes(context, builder, fromty, toty, value):  # type: ignore[no-untyped-def]
    undefined = ir.Constant(toty.vector, ir.Undefined)
    one = builder.insert_element(undefined, value, ir.Constant(_I32, 0))
    return builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(_I32, toty.width), [0] * toty.width))


def common(*kinds: Any) -> Any:
    """The type of numbers among types, floats being numbers of any type; None if there is anything else."""
    found = set(kinds) - {types.float64}
    if not found:
        return types.float64
    kind = found.pop()
    return kind if not found and (isinstance(kind, LanesType) or kind == types.complex128) else None


def _binary(op: Any, instruction: str) -> None:
    @type_callable(op)
    def among_lanes(context):  # type: ignore[no-untyped-def]
        def result(x, y):  # type: ignore[no-untyped-def]
            kind = common(x, y)
            return kind(kind, kind) if isinstance(kind, LanesType) else None

        return result

    @lower_builtin(op, LanesType, LanesType)
    def lower(context, builder, sig, args):  # type: ignore[no-untyped-def]
        return getattr(builder, instruction)(args[0], args[1], flags=("contract", "reassoc"))


for _op, _instruction in (
    (operator.add, "fadd"), (operator.sub, "fsub"), (operator.mul, "fmul"), (operator.truediv, "fdiv"),
    (operator.iadd, "fadd"), (operator.isub, "fsub"), (operator.imul, "fmul"), (operator.itruediv, "fdiv"),
):  # fmt: skip
    _binary(_op, _instruction)


@type_callable(operator.neg)
def _negated(context):  # type: ignore[no-untyped-def]
    return lambda x: x if isinstance(x, LanesType) else None


@lower_builtin(operator.neg, LanesType)
def _negate(context, builder, sig, args):  # type: ignore[no-untyped-def]
    return builder.fneg(args[0])


def called(name: str) -> Any:
    """The code of an intrinsic that is LLVM's function of that name, lane by lane."""

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        kind, result = sig.return_type, context.get_value_type(sig.return_type)
        suffix = f"v{kind.width}f64" if isinstance(kind, LanesType) else "f64"
        prototype = ir.FunctionType(result, [result] * len(args))
        return builder.call(cgutils.get_or_insert_function(builder.module, prototype, f"llvm.{name}.{suffix}"), args)

    return codegen


# -- sines and cosines -------------------------------------------------------------------------------


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
    """sin x, cos x by reduction to |r| <= π/4 and the polynomials of Cephes; accurate to rounding for |x| < 1e5.

    NaN from |x| = 1e15 on, where the reduction leaves any number.
    """
    n = _nearest_integer(x * (2.0 / np.pi))
    r = ((x - n * 1.57079632673412561417) - n * 6.07710050630396597660e-11) - n * 2.02226624879595063154e-21
    r = where_less(x * x, 1e30, r, np.nan)
    z = r * r
    p = ((((1.58962301576546568060e-10 * z - 2.50507477628578072866e-8) * z + 2.75573136213857245213e-6) * z
          - 1.98412698295885395996e-4) * z + 8.33333333332211858878e-3) * z - 1.66666666666666307295e-1  # fmt: skip
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


# -- roots -------------------------------------------------------------------------------------------


def square_root(x):  # type: ignore[no-untyped-def]
    """The square root of any number, inside kernels; NaN of a negative one, the complex root of a complex one."""
    return np.sqrt(x)


@by_types(square_root)
def _square_root(x):  # type: ignore[no-untyped-def]
    return _complex_root if x == types.complex128 else _real_root


@inline
def _complex_root(x):
    return np.sqrt(x)


@inline
def _real_root(x):
    return _root(x)


@intrinsic
def _root(typingctx, x):  # type: ignore[no-untyped-def]
    """Square roots; NaN of negative numbers."""
    return x(x), called("sqrt")


# -- comparisons -------------------------------------------------------------------------------------


def _less(builder: Any, kind: Any, a: Any, b: Any) -> Any:
    """Whether a < b, lane by lane: false of NaN."""
    if kind == types.complex128:
        a, b = builder.extract_value(a, 0), builder.extract_value(b, 0)
    return builder.fcmp_ordered("<", a, b)


@intrinsic
def where_less(typingctx, a, b, x, y):  # type: ignore[no-untyped-def]
    """Lane by lane x where a < b, else (NaN included) y; some of the four may be floats."""
    kind = common(a, b, x, y)

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        return builder.select(_less(builder, kind, args[0], args[1]), args[2], args[3])

    return (None if kind is None else kind(kind, kind, kind, kind)), codegen


@intrinsic
def all_less(typingctx, a, b):  # type: ignore[no-untyped-def]
    """Whether a < b in every lane; one of them may be a float."""
    kind = common(a, b)

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        less = _less(builder, kind, *args)
        if not isinstance(kind, LanesType):
            return less
        bits = ir.IntType(kind.width)
        return builder.icmp_unsigned("==", builder.bitcast(less, bits), ir.Constant(bits, 2**kind.width - 1))

    return (None if kind is None else types.boolean(kind, kind)), codegen


@intrinsic
def smaller(typingctx, x, y):  # type: ignore[no-untyped-def]
    """Lane by lane the smaller one; the other if one is NaN. One of them may be a float."""
    kind = common(x, y)

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        if isinstance(kind, LanesType) or kind == types.float64:
            return called("minnum")(context, builder, sig, args)
        return builder.select(_less(builder, kind, *args), *args)

    return (None if kind is None else kind(kind, kind)), codegen


# -- lanes -------------------------------------------------------------------------------------------


@intrinsic
def spread(typingctx, x, like):  # type: ignore[no-untyped-def]
    """A float as a number of the type of ``like``, equal in all lanes."""
    return like(like, like), lambda context, builder, sig, args: args[0]


@intrinsic
def lane_of(typingctx, x, k):  # type: ignore[no-untyped-def]
    """The k-th lane, a float; of floats and complex numbers the real part, whatever k is."""

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        if isinstance(x, LanesType):
            return builder.extract_element(*args)
        return builder.extract_value(args[0], 0) if x == types.complex128 else args[0]

    return types.float64(x, types.intp), codegen


@intrinsic
def with_lane(typingctx, x, k, y):  # type: ignore[no-untyped-def]
    """x with a float as its k-th lane; a float or complex number with that value, whatever k is."""

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        if isinstance(x, LanesType):
            return builder.insert_element(args[0], args[2], args[1])
        return context.cast(builder, args[2], types.float64, x)

    return x(x, types.intp, types.float64), codegen


@intrinsic
def width(typingctx, x):  # type: ignore[no-untyped-def]
    """Count the lanes of x: a number, or rows of numbers (memory.py)."""
    lanes_of_x = width_of(getattr(x, "number", x))
    return types.intp(x), lambda context, builder, sig, args: ir.Constant(ir.IntType(64), lanes_of_x)
