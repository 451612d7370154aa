"""Answers to numba's questions about types, each found once.

A third of the time in which kernels compile would be numba asking every implementation of an operator whether it fits,
at every use: 58 CPU seconds in place of 42 for a pendulum's first solve.
"""

from functools import cache
from types import BuiltinFunctionType
from typing import Any

from numba import types


class Answers:
    """A typing context that remembers how functions of numba's type the operands of a call.

    Not of those that are compiled for their operands: who asks for one has it compiled.
    """

    def __init__(self, context: Any) -> None:
        self._context = context
        self._known: dict[int, tuple[Any, dict[Any, Any]]] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def resolve_function_type(self, function: Any, args: Any, names: Any) -> Any:
        """Signature of a call; None if there is none."""
        if isinstance(function, BuiltinFunctionType):
            function = self._context.resolve_value_type(function)
        if names or type(function) is not types.Function:
            return self._context.resolve_function_type(function, args, names)
        known = self._known.setdefault(id(function), (function, {}))[1]
        found = known.get(args)
        if found is None:
            found = self._context.resolve_function_type(function, args, names)
            if found is not None and function.get_impl_key(found) is function.typing_key:
                known[args] = found
        return found


answers = cache(Answers)
"""The answers of a typing context."""
