"""numba's passes over a kernel, which ask about types what they have asked before: answered once.

A third of the time in which kernels compile would be numba asking every implementation of an operator whether it fits,
at every use: 58 CPU seconds in place of 42 for a pendulum's first solve.
"""

from __future__ import annotations

from functools import cache
from types import CodeType
from typing import Any

from numba import types
from numba.core import compiler, typed_passes, untyped_passes
from numba.core.compiler_machinery import register_pass


class _Answers:
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
        if names or type(function) is not types.Function:
            return self._context.resolve_function_type(function, args, names)
        known = self._known.setdefault(id(function), (function, {}))[1]
        found = known.get(args)
        if found is None:
            found = self._context.resolve_function_type(function, args, names)
            if found is not None and function.get_impl_key(found) is function.typing_key:
                known[args] = found
        return found


answers = cache(_Answers)
"""The answers of a typing context."""


@register_pass(mutates_CFG=True, analysis_only=False)
class ArrayExpressions(typed_passes.NopythonRewrites):  # type: ignore[misc]
    """numba's fusion of operations on whole arrays, for kernels that have any."""

    _name = "array_expressions"

    def run_pass(self, state: Any) -> bool:
        """Rewrite a kernel; whether it was."""
        has_arrays = any(isinstance(kind, types.Array) for kind in state.typemap.values())
        return has_arrays and bool(super().run_pass(state))


def passes(state: Any) -> Any:
    """numba's passes from bytecode to machine code, but for those that change nothing in a kernel.

    A function without functions in it has none to inline; of what passes report, nothing is read.
    """
    made = compiler.DefaultPassBuilder.define_nopython_pipeline(state, "kernel")
    left = {typed_passes.AnnotateTypes, typed_passes.DumpParforDiagnostics}
    if not any(isinstance(one, CodeType) for one in state.func_id.func.__code__.co_consts):
        left |= {untyped_passes.InlineClosureLikes, untyped_passes.MakeFunctionToJitFunction}
    replaced = {typed_passes.NopythonRewrites: ArrayExpressions}
    made.passes = [(replaced.get(one, one), told) for one, told in made.passes if one not in left]
    made.finalize()
    return made
