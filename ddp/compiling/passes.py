"""numba's passes over a kernel, but for those that change nothing in it."""

from types import CodeType
from typing import Any

from numba import types
from numba.core import compiler, ir, typed_passes, untyped_passes
from numba.core.compiler_machinery import register_pass

from ddp.compiling.writing import Writer


def _instructions(state: Any, kind: Any) -> list[Any]:
    """Instructions of a kind in a kernel, as numba has read it."""
    return [one for block in state.func_ir.blocks.values() for one in block.find_insts(kind)]


@register_pass(mutates_CFG=True, analysis_only=False)
class Lifetimes(untyped_passes.IRProcessing):  # type: ignore[misc]
    """numba's lifetimes of variables as they are read, which only blocks of `with` ask for: they are found again."""

    _name = "lifetimes"

    def run_pass(self, state: Any) -> bool:
        """Find lifetimes; whether there was need for them."""
        return bool(_instructions(state, ir.EnterWith)) and bool(super().run_pass(state))


@register_pass(mutates_CFG=False, analysis_only=False)
class Versions(untyped_passes.ReconstructSSA):  # type: ignore[misc]
    """numba's versions of variables, for kernels that assign one more than once."""

    _name = "versions"

    def run_pass(self, state: Any) -> bool:
        """Make versions; whether there are any."""
        names = [one.target.name for one in _instructions(state, ir.Assign)]
        return len(set(names)) < len(names) and bool(super().run_pass(state))


@register_pass(mutates_CFG=False, analysis_only=False)
class Joins(typed_passes.PreLowerStripPhis):  # type: ignore[misc]
    """numba's assignments in place of choices between versions, for kernels with choices."""

    _name = "joins"

    def run_pass(self, state: Any) -> bool:
        """Replace choices; whether there were any."""
        values = [one.value for one in _instructions(state, ir.Assign)]
        has_choices = any(isinstance(value, ir.Expr) and value.op == "phi" for value in values)
        return has_choices and bool(super().run_pass(state))


@register_pass(mutates_CFG=True, analysis_only=False)
class ArrayExpressions(typed_passes.NopythonRewrites):  # type: ignore[misc]
    """numba's fusion of operations on whole arrays, for kernels that have any."""

    _name = "array_expressions"

    def run_pass(self, state: Any) -> bool:
        """Rewrite a kernel; whether it was."""
        has_arrays = any(isinstance(kind, types.Array) for kind in state.typemap.values())
        return has_arrays and bool(super().run_pass(state))


@register_pass(mutates_CFG=True, analysis_only=False)
class Writing(typed_passes.NativeLowering):  # type: ignore[misc]
    """numba's pass that writes instructions, by a writer that writes fewer."""

    _name = "writing"

    @property
    def lowering_class(self) -> Any:
        """The writer."""
        return Writer


def passes(state: Any) -> Any:
    """numba's passes from bytecode to machine code, but for those that change nothing in a kernel.

    A function without functions in it has none to inline; of what passes report, nothing is read.
    """
    made = compiler.DefaultPassBuilder.define_nopython_pipeline(state, "kernel")
    left = {typed_passes.AnnotateTypes, typed_passes.DumpParforDiagnostics}
    if not any(isinstance(one, CodeType) for one in state.func_id.func.__code__.co_consts):
        left |= {untyped_passes.InlineClosureLikes, untyped_passes.MakeFunctionToJitFunction}
    replaced = {
        untyped_passes.IRProcessing: Lifetimes, untyped_passes.ReconstructSSA: Versions,
        typed_passes.PreLowerStripPhis: Joins, typed_passes.NopythonRewrites: ArrayExpressions,
        typed_passes.NativeLowering: Writing,
    }  # fmt: skip
    made.passes = [(replaced.get(one, one), told) for one, told in made.passes if one not in left]
    made.finalize()
    return made
