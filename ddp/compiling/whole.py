"""Kernels that are compiled with all that they call, for what they know: sizes of matrices, say.

Elsewhere kernels call each other by symbols, see compiled.py, and what a caller knows of its arguments is lost. Where
that is worth compiling a kernel again, its callees are linked as they were optimised for all arguments, and inlined.
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding

from ddp.compiling.compiled import Pipeline
from ddp.compiling.library import Callee, Library, Needed, find


class WholeLibrary(Library):
    """A library into which the kernels that it calls are inlined, whatever their size, and those that they call.

    Link and inline level by level: what is known of a kernel's arguments removes most of its calls first.
    """

    def __init__(self, *made: Any, **options: Any) -> None:
        super().__init__(*made, **options)
        self._callees: dict[str, Any] = {}

    def add_linking_library(self, library: Any) -> None:
        """Note a kernel that is called, by its symbol."""
        if isinstance(library, Callee):
            self._note(library._needed)
        else:
            super().add_linking_library(library)

    def _note(self, need: Any) -> None:
        """Note what a callee needs."""
        kernel = find(need.module, need.name) if isinstance(need, Needed) else None
        if kernel is not None and not kernel.is_apart:
            self._callees[need.symbol] = kernel.overloads[need.args].library
        elif need not in self._needed:
            self._needed.append(need)

    def _optimize_final_module(self) -> None:
        module = self._final_module
        while called := [function.name for function in module.functions if function.name in self._callees]:
            for library in [self._callees[name] for name in called]:
                module.link_in(library._get_module_for_linking(), preserve=True)
                for need in library._reload_init:
                    self._note(need)
            for function in module.functions:
                if not function.is_declaration and function.linkage != binding.Linkage.external:
                    function.add_function_attribute("alwaysinline")
            _simplify(module, self._codegen._module_pass_manager(opt=1)[1])
        super()._optimize_final_module()


def _simplify(module: Any, builder: Any) -> None:
    """Inline what is to be inlined, work out what is known then, and forget what is called no more."""
    passes = binding.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    for _ in range(2):
        passes.add_sroa_pass()
        passes.add_instruction_combine_pass()
        passes.add_sccp_pass()
        passes.add_simplify_cfg_pass()
    passes.add_global_dead_code_eliminate_pass()
    passes.add_strip_dead_prototype_pass()
    passes.run(module, builder)


class WholePipeline(Pipeline):
    """Pipeline that inlines all kernels that are called, but for those that stand apart."""

    library = WholeLibrary
