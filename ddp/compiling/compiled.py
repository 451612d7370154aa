"""How a kernel becomes machine code: every kernel once, and called by its symbol.

numba links what a kernel calls into the kernel and optimises all of it again, level by level, and gives everything a
wrapper that Python could call. Here a kernel is compiled into a library of its own; callers declare it and the linker
finds it, and only what is small is linked for inlining. A wrapper is a library too, made when Python first calls.

What is compiled is kept (store.py) under a key of its content (content.py) with the list of the kernels it needs, by
module, name and types, and they are loaded before it. Symbols are made of that key, too: the same in every process, and
others after a change.
"""

from __future__ import annotations

import gc
import hashlib
import logging
import os
import pickle
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite
import numba
import numpy as np
from llvmlite import binding
from numba import types
from numba.core import compiler, event
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher

from ddp.compiling import calls, content, library, passes, store
from ddp.compiling.interrupts import uninterrupted
from ddp.errors import ProblemError

logger = logging.getLogger("mayne")

_NAMES = "calls", "compiled", "kernel", "library", "passes", "whole"
_HERE = [Path(__file__).with_name(f"{name}.py") for name in _NAMES]

SOURCES = hashlib.sha256(b"".join(path.read_bytes() for path in _HERE)).hexdigest()
"""Digest of the modules that make machine code of kernels, as they were imported."""


@contextmanager
def uncollected() -> Iterator[None]:
    """Without the search for cyclic garbage: a compiler makes much, and looking through it is a fifth of compiling."""
    if not gc.isenabled():
        yield
        return
    try:
        gc.disable()
        yield
    finally:
        gc.enable()


class Pipeline(compiler.CompilerBase):  # type: ignore[misc]
    """numba's pipeline, with a symbol that does not depend on the process and a library of the kind above."""

    library: type[library.Library] = library.Library

    def __init__(self, *args: Any) -> None:
        typing_context, target, library, kinds, result, flags, local = args
        super().__init__(typing_context, target, library, kinds, result, flags, local)
        self.state.typingctx = passes.answers(typing_context)

    def define_pipelines(self) -> list[Any]:
        state = self.state
        if _making and _making[-1].number:
            state.func_id.unique_id = _making[-1].number
        if state.library is None:
            inlined = state.flags.no_compile = bool(state.flags.forceinline)
            level = numba.config.OPT if state.flags.no_cpython_wrapper else 1  # an entry has little to optimise
            made = state.targetctx.codegen(), state.func_id.func_qualname, state.reload_init
            state.library = self.library(*made, level, only_inlined=inlined)
        return [passes.passes(state)]


def is_findable(function: Any) -> bool:
    """Whether another process finds the kernel of ``function`` under its name."""
    if function.__module__ not in sys.modules or function.__module__ == "__main__" or "<" in function.__qualname__:
        return False
    try:
        found = library.find(function.__module__, function.__qualname__)
    except AttributeError:
        return False
    return isinstance(found, Kernel) and found.py_func is function


@cache
def environment() -> bytes:
    """Describe all that machine code depends on beside a kernel: versions, processor, numba's options, our code."""
    options = {name: value for name, value in os.environ.items() if name.startswith("NUMBA_")}
    for name in ("NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS"):
        options.pop(name, None)
    described = (
        numba.__version__, llvmlite.__version__, np.__version__, sys.version, platform.python_implementation(),
        binding.get_process_triple(), binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten(),
        numba.config.USING_SVML, sorted(options.items()), SOURCES,
    )  # fmt: skip
    return repr(described).encode()


class _Making(NamedTuple):
    """A kernel that is being compiled.

    number: what numba tells symbols of equal names and types apart by, from the key; its own differs from process to
    process.   impure: not empty if what the kernel calls was compiled before something in it changed.
    """

    number: int
    impure: list[bool]


_making: list[_Making] = []
_numbers: set[int] = set()
"""Kernels by the symbols of this process."""

_made: dict[bytes, Any] = {}
"""Key -> what was compiled or loaded in this process: for functions that are made anew."""


def key_of(kind: str, thing: Any, args: Any) -> bytes | None:
    """Key that something compiled is kept under; None if nobody knows what it depends on."""
    found = [content.digest(thing), content.digest(args)]
    if None in found:
        return None
    described = environment(), f" {kind} {library.SMALL} ".encode()
    return hashlib.sha256(b"".join((*described, *filter(None, found)))).digest()


def obtain(name: str, key: bytes | None, context: Any, make: Callable[[], Any]) -> tuple[Any, bool]:
    """Get something compiled: had here, kept by another process, or made and kept; and whether it is as its key says.

    Whoever makes it holds a lock on it, so that others wait and load it.
    """
    if numba.config.DISABLE_JIT:
        raise ProblemError(
            "NUMBA_DISABLE_JIT is set, but mayne's kernels run as machine code alone: expected it unset, or 0"
        )
    if key is None:
        logger.debug("%s is not cached: it names what only this process knows", name)
        made = _Making(0, [])
        _making.append(made)
        try:
            with uninterrupted():
                return make(), not made.impure
        finally:
            _making.pop()
    if key in _made:
        return _made[key], True
    found = _kept(name, key, context)
    if found is None:
        with store.locked(key):
            found = _kept(name, key, context)
            if found is None:
                number = int(key.hex()[:12], 16)
                made = _Making(0, [True]) if number in _numbers else _Making(number, [])
                _making.append(made)
                try:
                    with uninterrupted():
                        found = make()
                finally:
                    _making.pop()
                _numbers.add(number)
                if made.impure:
                    return found, False
                _keep(name, key, found)
    _made[key] = found
    return found, True


def _kept(name: str, key: bytes, context: Any) -> Any:
    """Load what another process has kept; None if there is nothing, or nothing that can be used here."""
    raw = store.load(name, key)
    if raw is None:
        return None
    try:
        with uninterrupted():
            context.refresh()
            return compiler.CompileResult._rebuild(context, *pickle.loads(raw))
    except library.OtherSymbolError:
        return None
    except Exception as reason:  # whatever loading what is no more can raise
        logger.info("the cached kernel %s cannot be loaded (%r) and is compiled again", name, reason)
        return None


def _keep(name: str, key: bytes, made: Any) -> None:
    if made.lifted or made.library.has_dynamic_globals:
        return
    try:
        raw = pickle.dumps(made._reduce(), protocol=5)
    except Exception as reason:  # whatever objects that cannot be pickled raise
        logger.info("the kernel %s cannot be cached (%r)", name, reason)
        return
    store.save(name, key, raw)


class _Typed:
    """How a call is typed: by one signature, in whatever context."""

    def __init__(self, signature: Any) -> None:
        self._signature = signature

    def __call__(self, context: Any) -> Any:
        return self

    def apply(self, args: Any, names: Any) -> Any:
        """The signature."""
        return self._signature


class Kernel(CPUDispatcher):  # type: ignore[misc]
    """A compiled function whose machine code and whose wrapper for Python are made apart, each when it is called.

    constants: the places of arguments for whose integers, where callers write them out, it is compiled anew.
    """

    constants: frozenset[int] = frozenset()
    is_kept = True
    """Whether it is cached."""
    is_apart = False
    """Whether it stays a call in kernels that are compiled whole."""

    def __init__(self, py_func: Any, locals: Any = None, targetoptions: Any = None, pipeline: Any = Pipeline) -> None:
        options = {"nopython": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        super().__init__(py_func, locals, {**options, **(targetoptions or {})}, pipeline_class=pipeline)
        self.entries: dict[Any, Any] = {}
        self.contents: dict[Any, bytes | None] = {}
        """Types of arguments -> the digest of the kernel as it was compiled for them; empty if it was not as it is."""

    def __reduce__(self) -> Any:
        if is_findable(self.py_func):
            return library.find, (self.py_func.__module__, self.py_func.__qualname__)
        return super().__reduce__()

    def prepare(self, args: Any) -> None:
        """Compile or load the machine code for arguments of the types ``args``."""
        args = tuple(args)
        if args in self.overloads and not _making:
            return
        with global_compiler_lock, uncollected(), content.unchanging():
            is_pure = True
            if args not in self.overloads:
                key = key_of("kernel", self, args) if self.is_kept else None
                with self._compiling_counter:  # as numba does, without its stopwatches
                    found, is_pure = obtain(self._name, key, self.targetctx, lambda: self._compile(args))
                self.add_overload(found)
                self.contents[args] = content.digest(self) if is_pure else b""
            if _making and self.contents[args] != content.digest(self):
                for one in _making:
                    one.impure.append(True)

    def _compile(self, args: Any) -> Any:
        with event.trigger_event("numba:compile", {"dispatcher": self, "args": args, "return_type": None}):
            found = self._compiler.compile(args, None)
            if found.library.can_raise(found.fndesc.mangled_name):
                found.reload_init.append(calls.raises)
            found.reload_init[:] = dict.fromkeys(found.reload_init)
            return found

    @property
    def _name(self) -> str:
        return f"{self.py_func.__module__}.{self.py_func.__qualname__}"

    def add_overload(self, cres: Any) -> None:
        args = tuple(cres.signature.args)
        cres = cres._replace(entry_point=object())  # what the kernel is known by
        cres.library._reload_init.update(cres.reload_init)
        linked: Any = cres.library
        if is_findable(self.py_func):
            name = self.py_func.__module__, self.py_func.__qualname__
            linked = library.Callee(cres, library.Needed(*name, args, cres.fndesc.mangled_name))
        call = calls.Call(cres.fndesc, calls.raises in cres.reload_init, [linked])
        self.targetctx.insert_func_defn([(call, cres.entry_point, cres.fndesc.argtypes)])
        self.overloads[args] = cres

    def get_call_template(self, args: Any, kws: Any) -> Any:
        pysig, args = self._compiler.fold_argument_types(args, kws)
        args = tuple(kind if k in self.constants else types.unliteral(kind) for k, kind in enumerate(args))
        self.prepare(args)
        return _Typed(self.overloads[args].signature), pysig, args, {}

    def compile(self, sig: Any) -> Any:
        """The kernel for types of arguments as Python can call it."""
        args = tuple(sig)
        with global_compiler_lock, uncollected(), content.unchanging():
            if args not in self.entries:
                self.prepare(args)
                is_kept = self.is_kept and self.contents[args] == content.digest(self)
                key = key_of("entry", self, args) if is_kept else None
                found, _ = obtain(f"{self._name}.entry", key, self.targetctx, lambda: self._enter(args))
                self.entries[args] = found
                self._insert([a._code for a in args], found.entry_point)
            return self.entries[args].entry_point

    def _enter(self, args: Any) -> Any:
        """Compile a function that calls the kernel, with numba's wrapper around it."""
        given = ", ".join(f"x{k}" for k in range(len(args)))
        names: dict[str, Any] = {"__name__": self.py_func.__module__, "kernel": self}
        exec(f"def entry({given}):\n    return kernel({given})", names)
        names["entry"].__qualname__ = f"{self.py_func.__qualname__}.entry"
        counted = not calls.is_borrowing(self.overloads[args].signature)
        options = {**self.targetoptions, "no_cpython_wrapper": False, "forceinline": False, "_nrt": counted}
        made = CPUDispatcher(names["entry"], targetoptions=options, pipeline_class=Pipeline)
        return made._compiler.compile(args, None)


class Callback(Kernel):
    """A kernel that C calls, at its ``address``."""

    def __init__(self, py_func: Any, signature: Any, targetoptions: Any) -> None:
        super().__init__(py_func, targetoptions={**targetoptions, "no_cfunc_wrapper": False})
        self.args = tuple(signature.args)

    @cached_property
    def address(self) -> int:
        """Where C finds it."""
        self.prepare(self.args)
        made = self.overloads[self.args]
        return int(made.library.get_pointer_to_function(made.fndesc.llvm_cfunc_wrapper_name))
