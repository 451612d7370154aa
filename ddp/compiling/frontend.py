"""From bytecode to types: numba's passes, without what kernels have no use for.

Between any two of some twenty passes numba finds out anew which variables live where; it looks for closures,
comprehensions, contexts and array expressions that are not there, and asks every implementation of an operator whether
it fits, at every use. Here a kernel of plain statements goes through what concerns it at once, while any other function
takes all of numba's passes, and how the operands of an operator are typed is asked once.
"""

from __future__ import annotations

import math
from functools import reduce
from types import ModuleType
from typing import Any

import numpy as np
from numba import literal_unroll, literally, stencil, types
from numba.core import analysis, compiler, ir, ir_utils, ssa, transforms, typed_passes, untyped_passes
from numba.core.compiler_machinery import FunctionPass, PassManager, register_pass
from numba.core.interpreter import Interpreter
from numba.core.rewrites import rewrite_registry
from numba.np.ufunc.dufunc import DUFunc
from numba.stencils.stencil import StencilFunc

_SPECIAL = (literal_unroll, literally, isinstance, hasattr, reduce, stencil)
"""Functions that numba looks for in passes of their own."""


class _Pass(FunctionPass):  # type: ignore[misc]
    """A pass over a function."""

    _name: str

    def __init__(self) -> None:
        super().__init__()


class Passes(PassManager):  # type: ignore[misc]
    """Passes one after the other, and nothing in between."""

    def _runPass(self, index: int, one: Any, state: Any) -> None:
        one.analysis = self._analysis
        one.run_pass(state)


def _is_plain(statement: Any) -> bool:
    """Whether numba's first passes leave a statement as it is."""
    value = getattr(statement, "value", None)
    if isinstance(value, (ir.Global, ir.FreeVar)):
        found = value.value
        if isinstance(found, ModuleType):
            return found in (np, math)
        is_copied = "inline" in getattr(found, "targetoptions", ())
        return not is_copied and not isinstance(found, StencilFunc) and not any(found is one for one in _SPECIAL)
    if isinstance(statement, (ir.Raise, ir.TryRaise, ir.EnterWith, ir.PopBlock)):
        return False
    return not (isinstance(value, ir.Expr) and value.op in ("make_function", "build_list"))


@register_pass(mutates_CFG=True, analysis_only=False)
class Untyped(_Pass):
    """From bytecode to statements, each variable assigned once."""

    _name = "kernel_statements"

    def run_pass(self, state: Any) -> bool:
        state.func_ir = function = Interpreter(state.func_id).interpret(state.bc)
        untyped_passes.FixupArgs().run_pass(state)
        if function.is_generator or not all(_is_plain(one) for block in function.blocks.values() for one in block.body):
            numbas = PassManager("nopython")
            numbas.passes = compiler.DefaultPassBuilder.define_untyped_pipeline(state).passes
            numbas.finalize()
            numbas.run(state)
            return True
        function.blocks = transforms.canonicalize_cfg(function.blocks)
        analysis.rewrite_semantic_constants(function, state.args)
        analysis.dead_branch_prune(function, state.args)
        for kind in rewrite_registry.rewrites["before-inference"]:
            rewrite, waiting = kind(state), list(function.blocks)
            while waiting:
                if rewrite.match(function, function.blocks[waiting[-1]], None, None):
                    function.blocks[waiting[-1]] = rewrite.apply()
                else:
                    waiting.pop()
        function.blocks = transforms.canonicalize_cfg(function.blocks)
        function.blocks = ssa.reconstruct_ssa(function).blocks
        function._definitions = ir_utils.build_definitions(function.blocks)
        analysis.dead_branch_prune(function, state.args)
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class Typed(_Pass):
    """Statements whose types are known, as lowering takes them."""

    _name = "kernel_types"

    def run_pass(self, state: Any) -> bool:
        strip = typed_passes.PreLowerStripPhis()
        if state.func_ir.is_generator:
            strip.run_pass(state)
        else:
            state.func_ir = strip._strip_phi_nodes(state.func_ir)
            state.func_ir._definitions = ir_utils.build_definitions(state.func_ir.blocks)
        typed_passes.InlineOverloads().run_pass(state)
        if any(self._is_rewritten(state.typemap, one) for block in state.func_ir.blocks.values() for one in block.body):
            typed_passes.NopythonRewrites().run_pass(state)
        ir_utils.raise_on_unsupported_feature(state.func_ir, state.typemap)
        ir_utils.check_and_legalize_ir(state.func_ir, state.flags)
        state.type_annotation = ""
        return True

    @staticmethod
    def _is_rewritten(kinds: Any, statement: Any) -> bool:
        """Whether it may be part of an array expression, an array of constants or indexed by a string."""
        if isinstance(statement, ir.SetItem):
            return isinstance(kinds[statement.index.name], types.StringLiteral)
        if not isinstance(statement, ir.Assign) or not isinstance(statement.value, ir.Expr):
            return False
        value = statement.value
        if value.op == "getitem":
            return isinstance(kinds[value.index.name], types.StringLiteral)
        if value.op in ("unary", "binop"):
            return isinstance(kinds[statement.target.name], types.Array)
        if value.op != "call":
            return False
        called = getattr(kinds[value.func.name], "typing_key", None)
        return isinstance(called, (np.ufunc, DUFunc)) or called is np.array


_known: dict[int, tuple[Any, dict[Any, Any]]] = {}


def remembered(ask: Any) -> Any:
    """How functions of numba's type calls, asked once for the same operands, where no code is compiled for them."""

    def get_call_type(self: Any, context: Any, args: Any, names: Any) -> Any:
        if names:
            return ask(self, context, args, names)
        known = _known.setdefault(id(self), (self, {}))[1]
        found = known.get((context, args))
        if found is None:
            found = ask(self, context, args, names)
            if self.get_impl_key(found) is self.typing_key:
                known[context, args] = found
        return found

    return get_call_type


_remembered = remembered(types.Function.get_call_type)


@register_pass(mutates_CFG=True, analysis_only=False)
class Inference(typed_passes.NopythonTypeInference):  # type: ignore[misc]
    """numba's inference of types, asking what it has asked before no more."""

    _name = "kernel_inference"

    def run_pass(self, state: Any) -> bool:
        before = types.Function.get_call_type
        types.Function.get_call_type = _remembered  # under numba's lock
        try:
            return bool(super().run_pass(state))
        finally:
            types.Function.get_call_type = before
