"""numba's passes over a kernel, but for those that change nothing in it."""

from types import CodeType
from typing import Any

from numba import types
from numba.core import compiler, ir, typed_passes, untyped_passes
from numba.core.compiler_machinery import PassManager, register_pass

from ddp.compiling.writing import Writer, is_counted


def _instructions(state: Any, kind: Any) -> list[Any]:
    """Instructions of a kind in a kernel, as numba has read it."""
    return [one for block in state.func_ir.blocks.values() for one in block.find_insts(kind)]


_REWRITTEN = {
    "BUILD_CONST_KEY_MAP", "BUILD_MAP", "CALL_FUNCTION_EX", "DICT_MERGE", "DICT_UPDATE", "LIST_EXTEND", "LIST_TO_TUPLE",
    "PUSH_EXC_INFO", "SETUP_FINALLY", "SETUP_WITH",
}  # fmt: skip
"""Bytecodes, of all versions of Python, of what numba rewrites once it has read a function."""


class Reader(untyped_passes.interpreter.Interpreter):  # type: ignore[misc]
    """numba's reader of bytecode, which only looks for what it rewrites in functions that have any of it."""

    def post_process(self, peepholes: Any, func_ir: Any) -> Any:
        """Rewrite what was read."""
        is_rewritten = any(one.opname in _REWRITTEN for one in self.bytecode)
        return super().post_process(peepholes, func_ir) if is_rewritten else func_ir


@register_pass(mutates_CFG=True, analysis_only=False)
class Reading(untyped_passes.TranslateByteCode):  # type: ignore[misc]
    """numba's pass that reads bytecode, by that reader."""

    _name = "reading"

    def run_pass(self, state: Any) -> bool:
        """Read a function."""
        state.func_ir = Reader(state.func_id).interpret(state.bc)
        return True


@register_pass(mutates_CFG=True, analysis_only=False)
class Lifetimes(untyped_passes.IRProcessing):  # type: ignore[misc]
    """numba's lifetimes of variables as they are read, which only blocks of `with` ask for: they are found again."""

    _name = "lifetimes"

    def run_pass(self, state: Any) -> bool:
        """Find lifetimes; whether there was need for them."""
        return bool(_instructions(state, ir.EnterWith)) and bool(super().run_pass(state))


@register_pass(mutates_CFG=True, analysis_only=False)
class Rewrites(untyped_passes.GenericRewrites):  # type: ignore[misc]
    """numba's rewrites of constant indices and the like, after which it finds lifetimes that nobody asks for."""

    _name = "rewrites"

    def run_pass(self, state: Any) -> bool:
        """Rewrite blocks as long as anything in them matches."""
        blocks = state.func_ir.blocks
        for made in untyped_passes.rewrites.rewrite_registry.rewrites["before-inference"]:
            rewrite, waiting = made(state), list(blocks)
            while waiting:
                if rewrite.match(state.func_ir, blocks[waiting[-1]], state.typemap, state.calltypes):
                    blocks[waiting[-1]] = rewrite.apply()
                else:
                    waiting.pop()
        return True


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


@register_pass(mutates_CFG=False, analysis_only=True)
class Ends(typed_passes.IRLegalization):  # type: ignore[misc]
    """numba's ends of variables' lives, for kernels with variables whose references are counted."""

    _name = "ends"

    def run_pass(self, state: Any) -> bool:
        """Write where lives end; whether there was need for it."""
        models = state.targetctx.data_model_manager
        has_counted = any(is_counted(models, kind) for kind in set(state.typemap.values()))
        return has_counted and bool(super().run_pass(state))


@register_pass(mutates_CFG=True, analysis_only=False)
class Writing(typed_passes.NativeLowering):  # type: ignore[misc]
    """numba's pass that writes instructions, by a writer that writes fewer."""

    _name = "writing"

    @property
    def lowering_class(self) -> Any:
        """The writer."""
        return Writer


class Passes(PassManager):  # type: ignore[misc]
    """numba's passes from bytecode to machine code, but for those that change nothing in a kernel.

    numba's manager describes all options before each pass, and takes the compiler's lock, which is held already: 2 ms
    of 9 that a kernel of one line takes.
    """

    def __init__(self, state: Any, has_functions: bool) -> None:
        super().__init__("kernel")
        left = {typed_passes.AnnotateTypes, typed_passes.DumpParforDiagnostics}
        if not has_functions:
            left |= {untyped_passes.InlineClosureLikes, untyped_passes.MakeFunctionToJitFunction}
        replaced = {
            untyped_passes.TranslateByteCode: Reading,
            untyped_passes.IRProcessing: Lifetimes, untyped_passes.GenericRewrites: Rewrites,
            untyped_passes.ReconstructSSA: Versions,
            typed_passes.PreLowerStripPhis: Joins, typed_passes.NopythonRewrites: ArrayExpressions,
            typed_passes.IRLegalization: Ends, typed_passes.NativeLowering: Writing,
        }  # fmt: skip
        made = compiler.DefaultPassBuilder.define_nopython_pipeline(state, "kernel")
        self.passes = [(replaced.get(one, one), told) for one, told in made.passes if one not in left]
        self.finalize()
        self._made = [one() for one, _ in self.passes]
        for one in self._made:
            one.analysis = self._analysis

    def run(self, state: Any) -> None:
        """Run the passes, one after the other."""
        for one in self._made:
            one.run_pass(state)


_passes: dict[bool, Passes] = {}
"""Whether functions have functions in them -> the passes over them; of what passes report, nothing is read."""


def passes(state: Any) -> Passes:
    """The passes over a function; without functions in it, it has none to inline."""
    has_functions = any(isinstance(one, CodeType) for one in state.func_id.func.__code__.co_consts)
    if has_functions not in _passes:
        _passes[has_functions] = Passes(state, has_functions)
    return _passes[has_functions]
