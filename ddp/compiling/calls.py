"""Calls of kernels: by their symbols, and asking whether the callee raised something only of those that can."""

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ddp.compiling.first_calls import ASK, FAILED, RAISE


class Call:
    """Writer of a call of a kernel into a caller, with the libraries that the caller links."""

    def __init__(self, fndesc: Any, can_raise: bool, libraries: list[Any]) -> None:
        self.fndesc, self.libs = fndesc, libraries
        self.asks = can_raise or isinstance(fndesc.restype, types.Optional)

    def __call__(self, context: Any, builder: Any, sig: Any, args: Any) -> Any:
        fndesc = self.fndesc
        if self.asks:
            return context.call_internal(builder, fndesc, sig, args)
        function = context.declare_function(builder.module, fndesc)
        given = context.get_arg_packer(fndesc.argtypes).as_arguments(builder, args)
        result = cgutils.alloca_once(builder, function.args[0].type.pointee)
        builder.call(function, [result, cgutils.get_null_value(function.args[1].type), *given])
        return context.get_returned_value(builder, fndesc.restype, builder.load(result))


class FirstCall:
    """Writer of a call through the slot of a symbol, which is filled at the first call; see `first_calls`."""

    def __init__(self, symbol: str, signature: Any, library: Any) -> None:
        self.symbol, self.signature, self.libs = symbol, signature, [library]

    def __call__(self, context: Any, builder: Any, sig: Any, args: Any) -> Any:
        convention, result_type, kinds = context.call_conv, self.signature.return_type, self.signature.args
        slot = _word(context, builder, self.symbol)
        address = cgutils.alloca_once_value(builder, builder.load_atomic(slot, "acquire", 8))
        with cgutils.if_unlikely(builder, cgutils.is_null(builder, builder.load(address))):
            kind = convention.get_function_type(types.int64, (types.int64,))
            ask = cgutils.get_or_insert_function(builder.module, kind, ASK)
            place = builder.ptrtoint(slot, context.get_value_type(types.int64))
            builder.call(ask, [address, cgutils.get_null_value(kind.args[1]), place])
        kind = convention.get_function_type(result_type, kinds)
        result = cgutils.alloca_once(builder, context.get_value_type(result_type), zfill=True)
        with cgutils.if_likely(builder, cgutils.is_not_null(builder, builder.load(address))):
            function = builder.inttoptr(builder.load(address), kind.as_pointer())
            status, found = convention.call_function(builder, function, result_type, kinds, args)
            with cgutils.if_unlikely(builder, status.is_error):
                convention.return_status_propagate(builder, status)
            builder.store(found, result)
        return builder.load(result)


def _word(context: Any, builder: Any, symbol: str) -> Any:
    """A word of memory that is found by its symbol."""
    kind = context.get_value_type(types.int64)
    return builder.module.globals.get(symbol) or cgutils.add_global_variable(builder.module, kind, symbol)


@intrinsic  # type: ignore[untyped-decorator]
def raise_again(typing_context: Any) -> Any:
    """End a call of Python's with what a first call of a kernel in it has raised."""

    def write(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        failed = builder.load_atomic(_word(context, builder, FAILED), "acquire", 8)
        with cgutils.if_unlikely(builder, cgutils.is_not_null(builder, failed)):
            kind = context.call_conv.get_function_type(types.none, ())
            again = cgutils.get_or_insert_function(builder.module, kind, RAISE)
            raised = builder.call(again, [cgutils.get_null_value(one) for one in kind.args])
            with cgutils.if_unlikely(builder, cgutils.is_not_null(builder, raised)):
                context.call_conv.return_exc(builder)
        return context.get_dummy_value()

    return types.none(), write


def is_borrowing(signature: Any) -> bool:
    """Whether a kernel that Python calls returns nothing of its arguments, which Python holds: none need be counted.

    numba's own wrapper allocates a counter for every array, and frees it with Python's lock, which takes it longer than
    all else about the array.
    """

    def is_plain(kind: Any) -> bool:
        if isinstance(kind, types.BaseTuple):
            return all(is_plain(part) for part in kind)
        return isinstance(kind, (types.Number, types.Boolean, types.NoneType))

    def is_held(kind: Any) -> bool:
        if isinstance(kind, types.BaseTuple):
            return all(is_held(part) for part in kind)
        return isinstance(kind, types.Array) or is_plain(kind)

    return is_plain(signature.return_type) and all(is_held(kind) for kind in signature.args)
