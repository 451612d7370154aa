"""A kernel's machine code: a library of its own, which says what other kernels have to be loaded before it.

Callers declare a kernel and the linker finds it by its symbol; only what is small is linked into them, to be inlined.
"""

from __future__ import annotations

import re
from functools import cache, cached_property
from importlib import import_module
from typing import Any, NamedTuple

import numba
from llvmlite import binding
from numba.core.codegen import JITCodeLibrary

SMALL = 100
"""Kernels of at most so many instructions are linked into their callers, to be inlined."""


def find(module: str, name: str) -> Any:
    """The kernel of a module by its qualified name."""
    found: Any = import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


class OtherSymbolError(Exception):
    """Raised where kept code calls a kernel by a symbol that it does not have."""


class Needed(NamedTuple):
    """A kernel that a library calls by its symbol; called before the library is loaded, to load the kernel."""

    module: str
    name: str
    args: tuple[Any, ...]
    symbol: str

    def __call__(self) -> None:
        if self in _loaded:
            return
        kernel = find(self.module, self.name)
        kernel.prepare(self.args)
        if kernel.overloads[self.args].fndesc.mangled_name != self.symbol:
            raise OtherSymbolError(self.symbol)
        _loaded.add(self)


_loaded: set[Needed] = set()

_ALIGNED = "alignstack(64)"
"""LLVM lays registers of eight doubles across cache lines, and pages, where it keeps them on a stack aligned to 16."""

_STATUS = re.compile(r"^  ret i32 (\S+)", re.MULTILINE)
"""Status that a kernel returns: zero, unless it raises something."""

_EXCEPTION = re.compile(r"%excinfo(?![.\w])")
"""Argument that says where it writes what it raises; of calls in it, which have their own, numbers follow the name."""


@cache
def _nothing(codegen: Any) -> Any:
    """An empty module."""
    return JITCodeLibrary(codegen, "nothing")._final_module


class Callee:
    """A kernel as callers link it: its code if it is small enough to inline, otherwise only a declaration."""

    def __init__(self, cres: Any, needed: Needed) -> None:
        self._cres, self._needed = cres, needed

    @cached_property
    def is_small(self) -> bool:
        """Whether the kernel has few instructions, or is to be inlined however many."""
        if self._cres.fndesc.inline:
            return True
        function = self._cres.library._get_module_for_linking().get_function(self._cres.fndesc.mangled_name)
        return str(function).count("\n  ") <= SMALL  # a line each

    @property
    def _reload_init(self) -> set[Any]:
        return self._cres.library._reload_init if self.is_small else {self._needed}

    def _ensure_finalized(self) -> None:
        """A kernel is finished before anything calls it."""

    def _get_module_for_linking(self) -> Any:
        return self._cres.library._get_module_for_linking() if self.is_small else _nothing(self._cres.library.codegen)


class Library(JITCodeLibrary):  # type: ignore[misc]
    """A library that is optimised once, as a whole, and knows what it needs as soon as it is linked.

    level: of LLVM's optimisation.   only_inlined: whether nobody calls what is in it, so that it needs no machine code.
    """

    def __init__(
        self, codegen: Any, name: str, needed: list[Any], level: int = numba.config.OPT, only_inlined: bool = False
    ) -> None:
        super().__init__(codegen, name)
        self._needed, self._level, self._only_inlined = needed, level, only_inlined
        self.enable_object_caching()

    def add_linking_library(self, library: Any) -> None:
        library._ensure_finalized()
        self._needed.extend(need for need in library._reload_init if need not in self._needed)
        super().add_linking_library(library)

    def add_ir_module(self, ir_module: Any) -> None:
        for function in ir_module.functions:
            if not function.is_declaration:
                set.add(function.attributes, _ALIGNED)  # llvmlite does not know it
        super().add_ir_module(ir_module)

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        passes, builder = self._codegen._module_pass_manager(opt=self._level)
        passes.run(self._final_module, builder)
        self._shared_module = self._for_linking()

    def can_raise(self, symbol: str) -> bool:
        """Whether the kernel of a symbol can raise something."""
        self._ensure_finalized()
        text = str(self.get_function(symbol))
        return any(code != "0" for code in _STATUS.findall(text)) or len(_EXCEPTION.findall(text)) > 1

    def _for_linking(self) -> Any:
        """Copy of the module for callers to link, as it is before machine code is made of it."""
        copy = self._final_module.clone()
        for function in copy.functions:
            if not function.is_declaration and function.linkage == binding.Linkage.external:
                function.linkage = "linkonce_odr"
        return copy

    def _finalize_final_module(self) -> None:
        if self._only_inlined:
            self._finalized = True
        else:
            super()._finalize_final_module()
