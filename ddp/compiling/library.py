"""Code of compiled kernels, as it is kept, loaded, and linked into callers.

Callers declare a kernel and the linker finds it by its symbol; only what is small is linked into them, to be inlined.
"""

import ctypes
from functools import cache, cached_property
from importlib import import_module
from typing import Any, NamedTuple
from zlib import decompress

import numba
from llvmlite import binding
from numba.core.environment import lookup_environment

from ddp.compiling.first_calls import introduce

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


class Deferred(NamedTuple):
    """A kernel that other code calls through the slot of a symbol; called before that code is loaded, to have it."""

    module: str
    name: str
    args: tuple[Any, ...]
    symbol: str

    def __call__(self) -> None:
        later = find(self.module, self.name).defer(self.args)
        if later is None or later.need != self:
            raise OtherSymbolError(self.symbol)


class Code(NamedTuple):
    """A compiled kernel, as it is kept.

    descriptor, signature, environment: numba's.   needs: called before it is loaded.   size: lines of instructions.
    others: names of environments of numba's functions that are linked into it, which it uses.
    objects: machine code, an object file; empty if callers inline the kernel.
    bitcode: LLVM's, compressed, for callers.
    """

    descriptor: Any
    signature: Any
    environment: Any
    needs: tuple[Any, ...]
    can_raise: bool
    size: int
    others: tuple[str, ...]
    objects: bytes
    bitcode: bytes


def _target_machine(codegen: Any) -> Any:
    triple, processor, features = codegen.magic_tuple()
    target = binding.Target.from_triple(triple)
    reloc = "static" if target.name.startswith("x86") else "default"
    options = {"cpu": processor, "features": features, "reloc": reloc, "codemodel": "jitdefault"}
    return target.create_target_machine(opt=int(numba.config.OPT), jit=True, **options)


@cache
def machine(codegen: Any) -> Any:
    """The processor that numba compiles for, as llvmlite makes it."""
    return _target_machine(codegen)


@cache
def engine(codegen: Any) -> Any:
    """LLVM's engine that has the machine code of kernels, beside numba's own."""
    introduce()
    made = binding.create_mcjit_compiler(binding.parse_assembly(""), _target_machine(codegen))
    if numba.config.ENABLE_PROFILING:
        made.enable_jit_events()
    return made


class Library:
    """Code of a kernel in this process, which has loaded what it needs: the engine has its machine code then.

    The engine resolves symbols of all that was added when an address is asked for: .1 ms a kernel, .3 one by one.
    LLVM's instructions take thirty times the memory of their bitcode: they are there while callers link them.
    """

    def __init__(self, context: Any, code: Code) -> None:
        self._context, self._has_objects, self.code = context, bool(code.objects), code._replace(objects=b"")
        if code.objects:
            self._linker.add_object_file(binding.ObjectFileRef.from_data(code.objects))
            if code.can_raise or code.environment.consts:
                self.set_env(code.descriptor.env_name, code.environment)
            self._others = {name: lookup_environment(name) for name in code.others}
            for name, environment in self._others.items():
                self.set_env(name, environment)

    @property
    def _linker(self) -> Any:
        return engine(self._context.codegen())

    @property
    def codegen(self) -> Any:
        """The object whose `set_env` numba calls."""
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """Set the variable of a name to the address of what numba keeps beside a function."""
        ctypes.c_void_p.from_address(self._linker.get_global_value_address(name)).value = id(environment)

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

    def publish(self) -> None:
        """Tell numba's engine where the kernel is."""
        if address := self.get_pointer_to_function(self.code.descriptor.mangled_name):
            binding.add_symbol(self.code.descriptor.mangled_name, address)

    def get_llvm_str(self) -> str:
        """LLVM's instructions as text."""
        return str(self.module)

    def get_asm_str(self) -> str:
        """The processor's instructions as text."""
        return str(machine(self._context.codegen()).emit_assembly(self.module.clone()))


@cache
def _nothing(context: Any) -> Any:
    """An empty module."""
    return binding.parse_assembly(str(context.create_module("nothing")))


def is_linked(descriptor: Any, size: int) -> bool:
    """Whether callers link a kernel of so many instructions, to inline it: it is small, or always to be inlined."""
    return bool(descriptor.inline) or size <= SMALL


class Uncalled:
    """A kernel as callers link it that is compiled when it is first called: what makes its slot."""

    def __init__(self, context: Any, need: Deferred) -> None:
        self._context, self._reload_init = context, {need}

    def _ensure_finalized(self) -> None:
        """Do nothing: the slot is there."""

    def _get_module_for_linking(self) -> Any:
        return _nothing(self._context)


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
        """Publish what a function of numba's own is about to call: the kernel, or what it calls where it is inlined."""
        self.library.publish()
        for need in self.library.code.needs if self.is_linked else ():
            if isinstance(need, Needed):
                find(need.module, need.name).overloads[need.args].library.publish()

    def _get_module_for_linking(self) -> Any:
        return self.library.module if self.is_linked else _nothing(self._context)
