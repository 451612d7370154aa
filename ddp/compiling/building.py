"""Machine code of LLVM's instructions, as numba writes them: linked, optimised and emitted by llvmlite."""

import re
from functools import lru_cache
from typing import Any
from zlib import compress

import numba
from llvmlite import binding
from numba.core import cgutils

from ddp.compiling.library import Callee, Code, Needed, find, is_linked, machine

_ALIGNED = "alignstack(64)"
"""LLVM lays registers of eight doubles across cache lines, and pages, where it keeps them on a stack aligned to 16."""

_STATUS = re.compile(r"^  ret i32 (\S+)", re.MULTILINE)
"""Status that a kernel returns: zero, unless it raises something."""

_EXCEPTION = re.compile(r"%excinfo(?![.\w])")
"""Argument that says where it writes what it raises; of calls in it, which have their own, numbers follow the name."""

_RUNTIME = "NRT_"
"""Beginning of the names of numba's runtime."""

_OF_A_PROCESS = "numba.dynamic.globals"
"""Beginning of the names of addresses that another process does not have."""

_INTERNAL = re.compile(r"^(define (?:internal|private|linkonce_odr) .*(?=[{]$))", re.MULTILINE)
"""Beginning of a function that has no caller outside of its module.

Its attributes are written as text: llvmlite 0.46, of numba 0.63, gives those of a function to what it returns.
"""

_ENVIRONMENT = "_ZN08NumbaEnv"
"""Beginning of the names of what numba keeps beside a function: objects for what it prints, say."""


def optimise(module: Any, codegen: Any, level: int) -> None:
    """Run LLVM's passes of a level, and numba's that removes pairs of counting up and down."""
    tuning = binding.create_pipeline_tuning_options(speed_level=level)
    tuning.loop_vectorization, tuning.slp_vectorization = numba.config.LOOP_VECTORIZE, numba.config.SLP_VECTORIZE
    builder = binding.create_pass_builder(machine(codegen), tuning)
    passes = builder.getModulePassManager()
    passes.add_refprune_pass()
    if level == 0:  # else addresses of functions in this process stay in the code, which nothing uses
        passes.add_sroa_pass()
        passes.add_dead_code_elimination_pass()
        passes.add_global_dead_code_eliminate_pass()
    passes.run(module, builder)


@lru_cache(maxsize=1024)
def _defined(library: Any) -> frozenset[str]:
    """Names of the functions that a library has for others: its own, like declared ones of their names, stay apart."""
    module = library._get_module_for_linking()
    own = {function.name for function in module.functions if function.linkage == binding.Linkage.internal}
    return _defined_in(module) - own


def _defined_in(module: Any) -> frozenset[str]:
    """Names of the functions that a module has."""
    return frozenset(function.name for function in module.functions if not function.is_declaration)


def _declared(module: Any) -> set[str]:
    """Names of the functions that a module calls and does not have."""
    return {function.name for function in module.functions if function.is_declaration}


class Builder:
    """A library that numba fills while it lowers one kernel, in place of its own."""

    recorded_timings = None

    def __init__(self, context: Any, name: str) -> None:
        self.name, self.context, self.codegen = name, context, context.codegen()
        self.module = binding.parse_assembly(str(context.create_module(name)))
        self.needs: dict[Any, None] = {}
        self._libraries: dict[Any, None] = {}
        self._reload_init: set[Any] = set()

    def create_ir_module(self, name: str) -> Any:
        """Empty module of instructions that numba writes."""
        return self.context.create_module(name)

    def add_ir_module(self, ir_module: Any) -> None:
        """Take what numba has written."""
        for function in ir_module.functions:
            if not function.is_declaration:
                set.add(function.attributes, _ALIGNED)  # llvmlite does not know it
        module = binding.parse_assembly(cgutils.normalize_ir_text(str(ir_module)))
        for function in ir_module.functions:
            for block in function.blocks:
                block.instructions.clear()  # which name it: nothing else frees them before garbage is searched for
        module.verify()
        self.module.link_in(module)

    def add_linking_library(self, library: Any) -> None:
        """Note a library that numba's instructions may call."""
        self._libraries[library] = None

    def link(self) -> None:
        """Link what is called, and note what has to be loaded before."""
        self.needs.update(dict.fromkeys(self._reload_init))
        waiting = {}
        for library in self._libraries:
            self.needs.update(dict.fromkeys(library._reload_init))
            if not isinstance(library, Callee) or library.is_linked:
                waiting[library] = _defined(library)
        while waiting:
            declared = _declared(self.module)
            called = [library for library, defined in waiting.items() if defined & declared]
            for library in called:
                self.module.link_in(library._get_module_for_linking(), preserve=True)
                self._own(waiting.pop(library))
            if not called:
                break

    def _own(self, names: frozenset[str]) -> None:
        """Make linked functions this module's own.

        numba numbers functions of equal names in each process anew: other modules, kept by other processes, may have
        other functions under these names. Its runtime keeps its own, by which passes know it.
        """
        for function in self.module.functions:
            if function.name in names and not function.name.startswith(_RUNTIME):
                function.linkage = binding.Linkage.internal

    def build(self, result: Any, level: int, is_called: bool) -> tuple[Code, bool]:
        """Code of what numba has lowered, and whether it holds in other processes.

        level: of LLVM's optimisation.   is_called: whether it needs machine code even if callers inline it.
        """
        self.link()
        descriptor = result.fndesc
        optimise(self.module, self.codegen, min(level, 1) if descriptor.inline else level)
        self.module.verify()
        descriptor.typemap = descriptor.calltypes = None  # neither needed any more nor, always, to be pickled
        text = str(self.module.get_function(descriptor.mangled_name))
        raising = any(code != "0" for code in _STATUS.findall(text)) or len(_EXCEPTION.findall(text)) > 1
        others = self._environments(descriptor.env_name)
        bitcode = compress(self._for_linking().as_bitcode(), 1)
        size = text.count("\n  ")
        is_inlined = is_linked(descriptor, size) and not is_called
        objects = b"" if is_inlined else machine(self.codegen).emit_object(self.module)
        built = result.signature, result.environment, tuple(self.needs), raising, size
        of_process = any(variable.name.startswith(_OF_A_PROCESS) for variable in self.module.global_variables)
        return Code(descriptor, *built, others, objects, bitcode), not (of_process or others)

    def _environments(self, own: str) -> tuple[str, ...]:
        """Names of the environments of linked functions that are used, which this process alone has."""
        names = [variable.name for variable in self.module.global_variables]
        others = [name for name in names if name.startswith(_ENVIRONMENT) and name != own]
        text = str(self.module) if others else ""
        return tuple(name for name in others if text.count(f"@{name}") > 1)

    def _for_linking(self) -> Any:
        """Copy of the module for callers to link, as it is before machine code is made of it."""
        copy = self.module.clone()
        for function in copy.functions:
            if not function.is_declaration and function.linkage == binding.Linkage.external:
                function.linkage = "linkonce_odr"
        return copy


class WholeBuilder(Builder):
    """A library into which the kernels that it calls are inlined, whatever their size, and those that they call.

    Elsewhere kernels call each other by symbols, and what a caller knows of its arguments, sizes of matrices say, is
    lost. Link and inline level by level: what is known of a kernel's arguments removes most of its calls first.
    """

    def link(self) -> None:
        callees: dict[str, Any] = {}
        for library in [one for one in self._libraries if isinstance(one, Callee)]:
            if library.needed is None:  # linked as it is, and what it calls by symbols
                self._note(callees, library.library.code.needs)
            else:
                self._note(callees, [library.needed])
                del self._libraries[library]
        super().link()
        while called := [function.name for function in self.module.functions if function.name in callees]:
            for name in called:
                self.module.link_in(callees[name].module, preserve=True)
                self._note(callees, callees[name].code.needs)
            self.module = binding.parse_assembly(_INTERNAL.sub(r"\1alwaysinline ", str(self.module)))
            self._simplify()
            if left := _defined_in(self.module) & callees.keys():
                raise RuntimeError(f"LLVM does not inline {', '.join(sorted(left))} into {self.name}, compiled whole")

    def _note(self, callees: dict[str, Any], needs: Any) -> None:
        """Note what a callee needs: kernels to link by their symbols, all else to load."""
        for need in needs:
            kernel = find(need.module, need.name) if isinstance(need, Needed) else None
            if kernel is not None and not kernel.is_apart:
                callees[need.symbol] = kernel.overloads[need.args].library
            else:
                self.needs[need] = None

    def _simplify(self) -> None:
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
        tuning = binding.create_pipeline_tuning_options(speed_level=1)
        passes.run(self.module, binding.create_pass_builder(machine(self.codegen), tuning))
