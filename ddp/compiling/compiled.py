"""Kernels: each is compiled once for types of arguments, and called by its symbol.

numba links what a kernel calls into the kernel and optimises all of it again, level by level, and gives everything a
wrapper that Python could call. Here numba writes the instructions of one kernel (building.py), which become code of its
own; callers declare it and the linker finds it, and only what is small is linked for inlining. A wrapper is apart, too,
made when Python first calls.

What is compiled is kept (store.py) under a key of its content (content.py) with the list of the kernels it needs, by
module, name and types, and they are loaded before it. Symbols are made of that key, too: the same in every process, and
others after a change.
"""

import gc
import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property, update_wrapper
from types import FunctionType
from typing import Any, NamedTuple, Protocol

import numba
from numba import types
from numba.core import compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher

from ddp.compiling import calls, content, first_calls, library, passes
from ddp.compiling.answers import answers
from ddp.compiling.building import Builder
from ddp.compiling.interrupts import uninterrupted
from ddp.compiling.obtaining import key_of, making, obtain
from ddp.errors import ProblemError, said


@contextmanager
def uncollected() -> Iterator[None]:
    """Switch the search for cyclic garbage off: a compiler makes much, and looking through it is a fifth of compiling.

    All of it is young at the end. Collect it there, where Ctrl-C waits: llvmlite's finalisers would lose it.
    """
    if not gc.isenabled():
        yield
        return
    try:
        gc.disable()
        yield
    finally:
        try:
            with uninterrupted():
                gc.collect(0)
        finally:
            gc.enable()


class Watcher(Protocol):
    """Listener to kernels that compile: their names, and those that do not come to their end."""

    def begin(self, name: str) -> None: ...

    def fail(self) -> None: ...


watchers: list[Watcher] = []


@contextmanager
def _told(name: str) -> Iterator[None]:
    """Within the block, a kernel compiles."""
    for watcher in watchers:
        watcher.begin(name)
    try:
        yield
    except BaseException:
        for watcher in watchers:
            watcher.fail()
        raise


class Pipeline(compiler.CompilerBase):  # type: ignore[misc]
    """numba's pipeline, with a symbol that does not depend on the process."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.state.typingctx = answers(self.state.typingctx)

    def define_pipelines(self) -> list[Any]:
        if making and making[-1].number:
            self.state.func_id.unique_id = making[-1].number
        return [passes.passes(self.state)]


def is_findable(function: Any) -> bool:
    """Whether another process finds the kernel of ``function`` under its name."""
    if function.__module__ not in sys.modules or function.__module__ == "__main__" or "<" in function.__qualname__:
        return False
    try:
        found = library.find(function.__module__, function.__qualname__)
    except AttributeError:
        return False
    return isinstance(found, Kernel) and found.py_func is function


def unannotated(function: Any) -> Any:
    """A copy of a function for numba, which evaluates annotations: they may name what only type checkers import."""
    copy = FunctionType(function.__code__, function.__globals__, function.__name__, None, function.__closure__)
    for name in ("__module__", "__qualname__", "__defaults__", "__kwdefaults__"):
        setattr(copy, name, getattr(function, name))
    return copy


class _Typed:
    """Type of a call: one signature, in whatever context."""

    def __init__(self, signature: Any) -> None:
        self.signature = signature

    def __call__(self, context: Any) -> Any:
        return self

    def apply(self, args: Any, names: Any) -> Any:
        """The signature."""
        return self.signature


class Later(NamedTuple):
    """A kernel for types of arguments that is compiled when it is first called; see `Overload`."""

    need: library.Deferred
    signature: Any
    entry_point: Any


class Overload(NamedTuple):
    """A kernel for types of arguments. ``entry_point``: what numba knows it by."""

    library: library.Library
    entry_point: Any
    objectmode: bool = False

    @property
    def signature(self) -> Any:
        """Types of arguments and of what comes back."""
        return self.library.code.signature

    @property
    def fndesc(self) -> Any:
        """numba's description of the function."""
        return self.library.code.descriptor


class Kernel(CPUDispatcher):  # type: ignore[misc]
    """A compiled function whose machine code and whose wrapper for Python are made apart, each when it is called.

    constants: the places of arguments for whose integers, where callers write them out, it is compiled anew.
    """

    constants: frozenset[int] = frozenset()
    is_kept = True
    """Whether it is cached."""
    is_apart = False
    """Whether it stays a call in kernels that are compiled whole."""
    returns: Any = None
    """Type of what it gives back, of one that is compiled when it is first called; see `kernel.apart`."""
    level = int(numba.config.OPT)
    """Level of LLVM's optimisation."""

    def __init__(self, py_func: Any, targetoptions: Any = None, builder: type[Builder] = Builder) -> None:
        if not isinstance(py_func, FunctionType) or inspect.isgeneratorfunction(py_func):
            given = getattr(py_func, "__name__", said(py_func))
            raise ProblemError(f"kernel: expected a plain function, without yield, got {given}")
        options = {"nopython": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        super().__init__(unannotated(py_func), targetoptions={**options, **(targetoptions or {})})
        update_wrapper(self, py_func)
        self.builder = builder
        self.entries: dict[Any, Overload] = {}
        self.deferred: dict[Any, Later] = {}
        self.contents: dict[Any, bytes | None] = {}
        """Types of arguments -> the digest of the kernel as it was compiled for them; empty if it was not as it is."""

    def __reduce__(self) -> Any:
        if is_findable(self.py_func):
            return library.find, (self.py_func.__module__, self.py_func.__qualname__)
        return super().__reduce__()

    def prepare(self, args: Any) -> None:
        """Compile or load the machine code for arguments of the types ``args``."""
        args = tuple(args)
        if args in self.overloads and not making:
            return
        with global_compiler_lock, uncollected(), content.unchanging():
            is_pure = True
            if args not in self.overloads:
                key = key_of("kernel", self, args) if self.is_kept else None
                found, is_pure = obtain(self._name, key, self.targetctx, lambda: self._compile(args))
                self._know(args, found)
                self.contents[args] = content.digest(self) if is_pure else b""
            if making and self.contents[args] != content.digest(self):
                for one in making:
                    one.impure.append(True)

    def _compile(self, args: Any) -> tuple[library.Code, bool]:
        with _told(self.py_func.__qualname__):
            return self._built(self.builder, self.py_func, args, self.targetoptions, self.level)

    def _built(
        self, builder: type[Builder], function: Any, args: Any, options: Any, level: int
    ) -> tuple[library.Code, bool]:
        """Code of a function for types of arguments, and whether it holds in other processes."""
        flags = compiler.Flags()
        self.targetdescr.options.parse_as_flags(flags, options)
        flags.no_compile = True  # which the builder does
        own = builder(self.targetctx, function.__qualname__)
        contexts = self.typingctx, self.targetctx
        found = compiler.compile_extra(*contexts, function, args, None, flags, {}, library=own, pipeline_class=Pipeline)
        is_called = self.is_apart or not (options["no_cpython_wrapper"] and options["no_cfunc_wrapper"])
        return own.build(found, level, is_called)

    @property
    def _name(self) -> str:
        return f"{self.py_func.__module__}.{self.py_func.__qualname__}"

    def _know(self, args: Any, found: library.Library) -> None:
        """Have callers compiled with calls of the kernel for types of arguments."""
        made = Overload(found, object())
        if self.returns is not None and made.signature.return_type != self.returns:
            raise TypeError(f"{self._name}: expected that it returns {self.returns}, got {made.signature}")
        needed = None
        if is_findable(self.py_func):
            needed = library.Needed(self.py_func.__module__, self.py_func.__qualname__, args, made.fndesc.mangled_name)
        call = calls.Call(made.fndesc, found.code.can_raise, [library.Callee(self.targetctx, found, needed)])
        self.targetctx.insert_func_defn([(call, made.entry_point, made.fndesc.argtypes)])
        self.overloads[args] = made

    def get_call_template(self, args: Any, kws: Any) -> Any:
        pysig, args = self.fold_argument_types(args, kws)
        args = tuple(kind if k in self.constants else types.unliteral(kind) for k, kind in enumerate(args))
        later = self.defer(args)
        if later is None:
            self.prepare(args)
        return _Typed((later or self.overloads[args]).signature), pysig, args, {}

    def get_overload(self, sig: Any) -> Any:
        """Object that numba knows calls of the kernel by."""
        later = self.deferred.get(tuple(sig))
        return super().get_overload(sig) if later is None else later.entry_point

    def defer(self, args: Any) -> Later | None:
        """Have callers compiled with calls through a slot that is filled at the first call.

        None of a kernel that they are compiled with: others, those that no other process finds, or of unknown content.
        """
        key = key_of("kernel", self, args) if self.returns is not None and is_findable(self.py_func) else None
        if key is None:
            self.deferred.pop(args, None)
            return None
        need = library.Deferred(self.py_func.__module__, self.py_func.__qualname__, args, f"mayne_slot_{key.hex()}")
        if args not in self.deferred or self.deferred[args].need != need:
            made = self.deferred[args] = Later(need, self.returns(*args), object())
            first_calls.add_slot(self, args, need.symbol)
            call = calls.FirstCall(need.symbol, made.signature, library.Uncalled(self.targetctx, need))
            self.targetctx.insert_func_defn([(call, made.entry_point, args)])
        return self.deferred[args]

    def compile(self, sig: Any) -> Any:
        """The kernel for types of arguments as Python can call it."""
        args = tuple(sig)
        with global_compiler_lock, uncollected(), content.unchanging():
            if args not in self.entries:
                self.prepare(args)
                is_kept = self.is_kept and self.contents[args] == content.digest(self)
                key = key_of("entry", self, args) if is_kept else None
                found, _ = obtain(f"{self._name}.entry", key, self.targetctx, lambda: self._enter(args))
                made = self.overloads[args]
                with uninterrupted():
                    self.entries[args] = Overload(found, found.entry)
                self.add_overload(self.entries[args])  # for Python
                self.overloads[args] = made  # for callers
            return self.entries[args].entry_point

    def _enter(self, args: Any) -> tuple[library.Code, bool]:
        """Compile a function that calls the kernel, with numba's wrapper around it; there is little to optimise."""
        given = ", ".join(f"x{k}" for k in range(len(args)))
        names = {"__name__": self.py_func.__module__, "kernel": self, "raise_again": calls.raise_again}
        exec(f"def entry({given}):\n    found = kernel({given})\n    raise_again()\n    return found", names)
        names["entry"].__qualname__ = f"{self.py_func.__qualname__}.entry"
        counted = not calls.is_borrowing(self.overloads[args].signature)
        options = {**self.targetoptions, "no_cpython_wrapper": False, "forceinline": False, "_nrt": counted}
        return self._built(Builder, names["entry"], args, options, 1)


class Callback(Kernel):
    """A kernel that C calls, at its ``address``."""

    def __init__(self, py_func: Any, signature: Any, targetoptions: Any, builder: type[Builder] = Builder) -> None:
        super().__init__(py_func, {**targetoptions, "no_cfunc_wrapper": False}, builder)
        self.args = tuple(signature.args)

    @cached_property
    def address(self) -> int:
        """Address for C."""
        self.prepare(self.args)
        made = self.overloads[self.args]
        with uninterrupted():
            return made.library.get_pointer_to_function(made.fndesc.llvm_cfunc_wrapper_name)
