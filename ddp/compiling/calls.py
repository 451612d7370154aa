"""Calls of kernels: by their symbols, and asking whether the callee raised something only of those that can."""

from typing import Any

from numba import types
from numba.core import cgutils


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
