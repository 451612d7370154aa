"""Code of compiled kernels, as it is kept, loaded, and linked into callers.

Callers declare a kernel and the linker finds it by its symbol; only what is small is linked into them, to be inlined.
"""

from __future__ import annotations

from functools import cache, cached_property
from importlib import import_module
from typing import Any, NamedTuple
from zlib import decompress

import numba
from llvmlite import binding

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
    """A kernel that other code calls by its symbol; called before that code is loaded, to load the kernel."""

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


class Code(NamedTuple):
    """A compiled kernel, as it is kept.

    descriptor, signature, environment: numba's.   needs: called before it is loaded.   size: lines of instructions.
    objects: machine code, an object file; empty if callers inline the kernel.
    bitcode: LLVM's, compressed, for callers.
    """

    descriptor: Any
    signature: Any
    environment: Any
    needs: tuple[Any, ...]
    can_raise: bool
    size: int
    objects: bytes
    bitcode: bytes


@cache
def machine(codegen: Any) -> Any:
    """The processor that numba's engine compiles for, as llvmlite makes it."""
    triple, processor, features = codegen.magic_tuple()
    target = binding.Target.from_triple(triple)
    reloc = "static" if target.name.startswith("x86") else "default"
    options = {"cpu": processor, "features": features, "reloc": reloc, "codemodel": "jitdefault"}
    return target.create_target_machine(opt=int(numba.config.OPT), jit=True, **options)


class Library:
    """Code of a kernel in this process, which has loaded what it needs: numba's linker has its machine code then.

    The linker resolves symbols of all that was added when an address is asked for: .1 ms a kernel, .3 one by one.
    LLVM's instructions take thirty times the memory of their bitcode: they are there while callers link them.
    """

    def __init__(self, context: Any, code: Code) -> None:
        self._context, self._has_objects, self.code = context, bool(code.objects), code._replace(objects=b"")
        if code.objects:
            self._linker.add_object_file(binding.ObjectFileRef.from_data(code.objects))
            if code.can_raise or code.environment.consts:
                self.codegen.set_env(code.descriptor.env_name, code.environment)

    @property
    def codegen(self) -> Any:
        """Generator of code of numba's, which the kernel's own is loaded beside."""
        return self._context.codegen()

    @property
    def _linker(self) -> Any:
        return self.codegen._engine._ee

    @cached_property
    def entry(self) -> Any:
        """Function that Python can call, of a kernel with a wrapper."""
        return self._context.get_executable(self, self.code.descriptor, self.code.environment)

    @cached_property
    def module(self) -> Any:
        """LLVM's instructions, for callers to link."""
        return binding.parse_bitcode(decompress(self.code.bitcode))

    def get_pointer_to_function(self, symbol: str) -> int:
        """Address of a function; 0 of what has no machine code."""
        return int(self._linker.get_function_address(symbol)) if self._has_objects else 0

    def get_llvm_str(self) -> str:
        """LLVM's instructions as text."""
        return str(self.module)

    def get_asm_str(self) -> str:
        """The processor's instructions as text."""
        return str(machine(self.codegen).emit_assembly(self.module.clone()))


@cache
def _nothing(context: Any) -> Any:
    """An empty module."""
    return binding.parse_assembly(str(context.create_module("nothing")))


def is_linked(descriptor: Any, size: int) -> bool:
    """Whether callers link a kernel of so many instructions, to inline it: it is small, or always to be inlined."""
    return bool(descriptor.inline) or size <= SMALL


class Callee:
    """A kernel as callers link it: its code if it is small enough to inline, otherwise only a declaration.

    needed: None of a kernel that no other process finds, whose code is linked whatever its size.
    """

    def __init__(self, context: Any, library: Library, needed: Needed | None) -> None:
        self._context, self.library, self.needed = context, library, needed
        self._reload_init = set(library.code.needs) if self.is_linked else {needed}

    @property
    def is_linked(self) -> bool:
        """Whether the kernel has few instructions, or is to be inlined however many."""
        code = self.library.code
        return self.needed is None or is_linked(code.descriptor, code.size)

    def _ensure_finalized(self) -> None:
        """A kernel is finished before anything calls it."""

    def _get_module_for_linking(self) -> Any:
        return self.library.module if self.is_linked else _nothing(self._context)
