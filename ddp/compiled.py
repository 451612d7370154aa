"""How a kernel becomes machine code: every kernel once, and called by its symbol.

numba links what a kernel calls into the kernel and optimises all of it again, level by level, and gives everything a
wrapper that Python could call. Here a kernel is compiled into a library of its own; callers declare it and the linker
finds it, and only what is small is linked for inlining. A wrapper is a library too, made when Python first calls.

What is compiled is cached with the list of the kernels it needs, by module, name and types, and they are loaded before
it. Symbols are therefore made of a kernel's name and types alone, the same in every process.
"""

from __future__ import annotations

import hashlib
import sys
from importlib import import_module
from typing import Any, NamedTuple

from numba.core import compiler, typing
from numba.core.caching import FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher, cpu_target
from numba.core.sigutils import normalize_signature
from numba.core.targetconfig import ConfigStack

SMALL = 400
"""Kernels of at most so many instructions are linked into their callers, to be inlined."""


def find(module: str, name: str) -> Any:
    """The kernel of a module by its qualified name."""
    found: Any = import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


class Needed(NamedTuple):
    """A kernel that a library calls by its symbol; called before the library is loaded, to load the kernel."""

    module: str
    name: str
    args: tuple[Any, ...]
    symbol: str

    def __call__(self) -> None:
        found = find(self.module, self.name)
        found.prepare(self.args)
        if found.overloads[self.args].fndesc.mangled_name != self.symbol:
            raise RuntimeError(f"{self.module}.{self.name} is not the kernel that was called {self.symbol}")


class _Elsewhere:
    """Stands for the library of a kernel that is called by its symbol: nothing to link, a kernel to load."""

    def __init__(self, needed: Needed) -> None:
        self._reload_init = {needed}

    def _ensure_finalized(self) -> None:
        """There is nothing to finish."""

    def _get_module_for_linking(self) -> Any:
        codegen = cpu_target.target_context.codegen()
        return JITCodeLibrary(codegen, "nothing")._final_module


class _Library(JITCodeLibrary):  # type: ignore[misc]
    """A library that is optimised once, as a whole, and knows what it needs as soon as it is linked."""

    def __init__(self, codegen: Any, name: str, needed: list[Any]) -> None:
        super().__init__(codegen, name)
        self._needed = needed
        self.enable_object_caching()

    def add_linking_library(self, library: Any) -> None:
        library._ensure_finalized()
        self._needed.extend(need for need in library._reload_init if need not in self._needed)
        if not isinstance(library, _Elsewhere):
            super().add_linking_library(library)

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        passes, builder = self._codegen._module_pass_manager()
        passes.run(self._final_module, builder)


class Pipeline(compiler.CompilerBase):  # type: ignore[misc]
    """numba's pipeline, with a symbol that does not depend on the process and a library of the kind above."""

    def define_pipelines(self) -> list[Any]:
        state = self.state
        identity = f"{state.func_id.modname}.{state.func_id.func_qualname}:{state.func_id.firstlineno}"
        if find_kernel(state.func_id.modname, state.func_id.func_qualname) is not None:
            state.func_id.unique_id = int(hashlib.sha256(identity.encode()).hexdigest()[:12], 16)
        if state.library is None:
            state.library = _Library(state.targetctx.codegen(), state.func_id.func_qualname, state.reload_init)
        return [compiler.DefaultPassBuilder.define_nopython_pipeline(state)]


def find_kernel(module: str, name: str) -> Kernel | None:
    """The kernel that others can find under this name, if there is one."""
    if module not in sys.modules or module == "__main__" or "<" in name:
        return None
    try:
        found = find(module, name)
    except AttributeError:
        return None
    return found if isinstance(found, Kernel) else None


class _EntryCache(FunctionCache):  # type: ignore[misc]
    """Where wrappers are kept: beside the kernels, under a key of their own."""

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return (*super()._index_key(sig, codegen), "entry")


class Kernel(CPUDispatcher):  # type: ignore[misc]
    """A compiled function whose machine code and whose wrapper for Python are made apart, each when it is called."""

    def __init__(self, py_func: Any, locals: Any = None, targetoptions: Any = None) -> None:
        options = {**(targetoptions or {}), "nopython": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        super().__init__(py_func, locals, options, pipeline_class=Pipeline)
        self.entries: dict[Any, Any] = {}
        self._entry_cache: Any = None

    def __reduce__(self) -> Any:
        if find_kernel(self.py_func.__module__, self.py_func.__qualname__) is self:
            return find, (self.py_func.__module__, self.py_func.__qualname__)
        return super().__reduce__()

    def enable_caching(self) -> None:
        super().enable_caching()
        self._entry_cache = _EntryCache(self.py_func)

    def prepare(self, args: Any) -> Any:
        """Compile or load the machine code for arguments of the types ``args``."""
        return super().compile(tuple(args))

    def add_overload(self, cres: Any) -> None:
        args = tuple(cres.signature.args)
        cres.library._reload_init.update(cres.reload_init)
        if self._is_called_by_symbol(cres):
            needed = Needed(self.py_func.__module__, self.py_func.__qualname__, args, cres.fndesc.mangled_name)
            self.targetctx.remove_user_function(cres.entry_point)
            self.targetctx.insert_user_function(cres.entry_point, cres.fndesc, [_Elsewhere(needed)])
        self.overloads[args] = cres

    def _is_called_by_symbol(self, cres: Any) -> bool:
        if cres.fndesc.inline or find_kernel(self.py_func.__module__, self.py_func.__qualname__) is not self:
            return False
        count = 0
        for block in cres.library._get_module_for_linking().get_function(cres.fndesc.mangled_name).blocks:
            for _ in block.instructions:
                count += 1
                if count > SMALL:
                    return True
        return False

    def get_call_template(self, args: Any, kws: Any) -> Any:
        pysig, args = self._compiler.fold_argument_types(args, kws)
        self.prepare(args)
        name = self.py_func.__name__
        signatures = self.nopython_signatures
        return typing.make_concrete_template(f"CallTemplate({name})", key=name, signatures=signatures), pysig, args, {}

    def compile(self, sig: Any) -> Any:
        """The kernel for a signature as Python can call it."""
        args, _ = normalize_signature(sig)
        with global_compiler_lock:
            if args not in self.entries:
                self.prepare(args)
                found = self._entry_cache.load_overload(args, self.targetctx) if self._entry_cache else None
                if found is None:
                    found = self._wrap(self.overloads[args])
                    if self._entry_cache:
                        self._entry_cache.save_overload(args, found)
                self.entries[args] = found
                self._insert([a._code for a in args], found.entry_point)
            return self.entries[args].entry_point

    def _wrap(self, kernel: Any) -> Any:
        """A library with what Python calls, around a kernel."""
        flags = compiler.Flags()
        self.targetdescr.options.parse_as_flags(flags, self.targetoptions)
        context = compiler._make_subtarget(self.targetctx, flags)
        needed: list[Any] = []
        library = _Library(context.codegen(), f"{kernel.library.name}.entry", needed)
        with ConfigStack().enter(flags), context.push_code_library(library):
            context.create_cpython_wrapper(
                library, kernel.fndesc, kernel.environment, None, release_gil=flags.release_gil
            )
            context.add_linking_libs(context.get_function(kernel.entry_point, kernel.signature).libs)
            entry = context.get_executable(library, kernel.fndesc, kernel.environment)
        return compiler.compile_result(
            typing_context=kernel.typing_context, target_context=context, entry_point=entry, library=library,
            fndesc=kernel.fndesc, environment=kernel.environment, signature=kernel.signature, objectmode=False,
            type_annotation="", lifted=(), metadata={}, reload_init=needed,
        )  # fmt: skip
