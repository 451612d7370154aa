# mypy: allow-untyped-defs, allow-untyped-calls
"""Arrays at addresses, and words on a kernel's stack: how C functions are handed them, of whom each argument is a word.

numba's ``carray`` and ``as_strided`` are compiled anew for each type of their arguments, and these are written out.
"""

from functools import reduce

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def _array(context, builder, kind, address, shape, strides=None):  # type: ignore[no-untyped-def]
    """A value of an array type: its first number at an address, and lengths and strides [bytes] as lists."""
    array, size = context.make_array(kind)(context, builder), context.get_constant(types.intp, 8)
    if strides is None:
        strides = [size]
        for length in reversed(shape[1:]):
            strides.insert(0, builder.mul(strides[0], length))
    array.data = builder.inttoptr(address, array.data.type)
    array.nitems, array.itemsize = reduce(builder.mul, shape), size
    array.shape, array.strides = cgutils.pack_array(builder, shape), cgutils.pack_array(builder, strides)
    array.meminfo, array.parent = (cgutils.get_null_value(part.type) for part in (array.meminfo, array.parent))
    return array._getvalue()


@intrinsic
def array_at(typingctx, address, shape):  # type: ignore[no-untyped-def]
    """The C-contiguous floats at an address, of a shape that is a tuple.

    Sweeps of 2 states with `memory.as_matrix` in its place take 5 % longer.
    """
    kind = types.Array(types.float64, len(shape), "C")

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        return _array(context, builder, kind, args[0], cgutils.unpack_tuple(builder, args[1]))

    return kind(address, shape), codegen


@intrinsic
def integers_at(typingctx, address, shape):  # type: ignore[no-untyped-def]
    """The C-contiguous integers at an address, of a shape that is a tuple."""
    kind = types.Array(types.int64, len(shape), "C")

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        return _array(context, builder, kind, args[0], cgutils.unpack_tuple(builder, args[1]))

    return kind(address, shape), codegen


@intrinsic
def strided_at(typingctx, address, shape, strides):  # type: ignore[no-untyped-def]
    """The floats from an address on, of a shape and of strides [bytes] that are tuples."""
    kind = types.Array(types.float64, len(shape), "A")

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        return _array(context, builder, kind, args[0], *(cgutils.unpack_tuple(builder, arg) for arg in args[1:]))

    return kind(address, shape, strides), codegen


@intrinsic
def address_of_words(typingctx, words):  # type: ignore[no-untyped-def]
    """Address of a tuple of integers (int64), each in a word: on the stack, until the same call is made again."""

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        memory = cgutils.alloca_once(builder, args[0].type)
        builder.store(args[0], memory)
        return builder.ptrtoint(memory, context.get_value_type(types.int64))

    return types.int64(types.UniTuple(types.int64, len(words))), codegen
