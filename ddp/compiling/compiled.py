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
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite
import numba
import numpy as np
from llvmlite import binding
from numba import types
from numba.core import compiler, config, event, typing
from numba.core.ccallback import CFunc
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.environment import Environment
from numba.core.registry import CPUDispatcher, cpu_target
from numba.core.sigutils import normalize_signature
from numba.core.targetconfig import ConfigStack

from ddp.compiling import content, lowering, store
from ddp.compiling.interrupts import uninterrupted
from ddp.errors import ProblemError

logger = logging.getLogger("mayne")

SMALL = 100
"""Kernels of at most so many instructions are linked into their callers, to be inlined."""

_HERE = [Path(__file__).with_name(f"{name}.py") for name in ("compiled", "frontend", "kernel", "lowering", "short")]

SOURCES = hashlib.sha256(b"".join(path.read_bytes() for path in _HERE)).hexdigest()
"""Of what makes kernels machine code, as it was imported."""


def find(module: str, name: str) -> Any:
    """The kernel of a module by its qualified name."""
    found: Any = import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


class OtherSymbolError(Exception):
    """What was kept calls a kernel by a symbol that it does not have."""


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


_STATUS = re.compile(r"^  ret i32 (\S+)", re.MULTILINE)
"""What a kernel returns: zero, unless it raises something."""

_EXCEPTION = "%excinfo"
"""Where it writes what it raises, an argument: though it may catch that itself."""


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


_loaded: set[Needed] = set()


@cache
def _nothing() -> Any:
    """An empty module."""
    return JITCodeLibrary(cpu_target.target_context.codegen(), "nothing")._final_module


class _Callee:
    """What callers link for a kernel: the kernel itself where it is small, else nothing, and it has to be loaded."""

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
        return self._cres.library._get_module_for_linking() if self.is_small else _nothing()


class _Library(JITCodeLibrary):  # type: ignore[misc]
    """A library that is optimised once, as a whole, and knows what it needs as soon as it is linked.

    level: of LLVM's optimisation.   only_inlined: whether nobody calls what is in it, so that it needs no machine code.
    """

    def __init__(
        self, codegen: Any, name: str, needed: list[Any], level: int = config.OPT, only_inlined: bool = False
    ) -> None:
        super().__init__(codegen, name)
        self._needed, self._level, self._only_inlined = needed, level, only_inlined
        self.main: str | None = None
        self.enable_object_caching()

    def add_linking_library(self, library: Any) -> None:
        library._ensure_finalized()
        self._needed.extend(need for need in library._reload_init if need not in self._needed)
        super().add_linking_library(library)

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        passes, builder = self._codegen._module_pass_manager(opt=self._level)
        passes.run(self._final_module, builder)
        if self.main:
            text = str(self._final_module.get_function(self.main))
            raising = any(code != "0" for code in _STATUS.findall(text)) or text.count(_EXCEPTION) > 1
            if raising and lowering.raises not in self._needed:
                self._needed.append(lowering.raises)

    def _finalize_final_module(self) -> None:
        if self._only_inlined:
            self._finalized = True
        else:
            super()._finalize_final_module()


class Pipeline(compiler.CompilerBase):  # type: ignore[misc]
    """numba's pipeline, with a symbol that does not depend on the process and a library of the kind above."""

    def __init__(self, *args: Any) -> None:
        typing_context, target, library, kinds, result, flags, local = args
        super().__init__(typing_context, target, library, kinds, result, lowering.Options(flags), local)
        lowering.count_few(self.state.targetctx)

    def define_pipelines(self) -> list[Any]:
        state = self.state
        if _making and _making[-1].number:
            state.func_id.unique_id = _making[-1].number
        if state.library is None:
            inlined = state.flags.no_compile = bool(state.flags.forceinline)
            made = state.targetctx.codegen(), state.func_id.func_qualname, state.reload_init
            state.library = _Library(*made, only_inlined=inlined)
        return [lowering.pipeline()]


def is_findable(function: Any) -> bool:
    """Whether another process finds the kernel of ``function`` under its name."""
    if function.__module__ not in sys.modules or function.__module__ == "__main__" or "<" in function.__qualname__:
        return False
    try:
        found = find(function.__module__, function.__qualname__)
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
        config.USING_SVML, sorted(options.items()), SOURCES,
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
"""Those that symbols of this process have."""

_made: dict[bytes, Any] = {}
"""Key -> what was compiled or loaded in this process: for functions that are made anew."""


def key_of(kind: str, thing: Any, args: Any) -> bytes | None:
    """Key that something compiled is kept under; None if nobody knows what it depends on."""
    found = [content.digest(thing), content.digest(args)]
    if None in found:
        return None
    return hashlib.sha256(b"".join((environment(), f" {kind} {SMALL} ".encode(), *filter(None, found)))).digest()


def obtain(name: str, key: bytes | None, context: Any, make: Callable[[], Any]) -> tuple[Any, bool]:
    """Get something compiled: had here, kept by another process, or made and kept; and whether it is as its key says.

    Whoever makes it holds a lock on it, so that others wait and load it.
    """
    if config.DISABLE_JIT:
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
    except OtherSymbolError:
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


class Callback(CFunc):  # type: ignore[misc]
    """A compiled function that C calls, at its ``address``."""

    def __init__(self, py_func: Any, sig: Any, targetoptions: Any) -> None:
        args, result = normalize_signature(sig)
        super().__init__(py_func, (args, result), {}, targetoptions, pipeline_class=Pipeline)
        self.signature = result(*args)
        self._described = py_func, sorted(targetoptions.items(), key=str), result

    def _compile_uncached(self) -> Any:
        """Load or compile it: all that numba asks for, its own cache being empty."""
        with uncollected(), content.unchanging():
            key = key_of("callback", self._described, self.signature.args)
            name = f"{self.__wrapped__.__module__}.{self.__qualname__}"
            compile_it: Any = super()._compile_uncached  # type: ignore[misc]
            return obtain(name, key, cpu_target.target_context, compile_it)[0]


class Kernel(CPUDispatcher):  # type: ignore[misc]
    """A compiled function whose machine code and whose wrapper for Python are made apart, each when it is called.

    constants: the places of arguments for whose integers, where callers write them out, it is compiled anew.
    """

    constants: frozenset[int] = frozenset()
    is_kept = True
    """Whether it is cached."""

    def __init__(self, py_func: Any, locals: Any = None, targetoptions: Any = None) -> None:
        options = {**(targetoptions or {}), "nopython": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        super().__init__(py_func, locals, options, pipeline_class=Pipeline)
        self.entries: dict[Any, Any] = {}
        self.contents: dict[Any, bytes | None] = {}
        """Types of arguments -> the digest of the kernel as it was compiled for them; empty if it was not as it is."""

    def __reduce__(self) -> Any:
        if is_findable(self.py_func):
            return find, (self.py_func.__module__, self.py_func.__qualname__)
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
            found.library._ensure_finalized()  # so that it is known whether it can raise
            found.reload_init[:] = dict.fromkeys(found.reload_init)
            return found

    @property
    def _name(self) -> str:
        return f"{self.py_func.__module__}.{self.py_func.__qualname__}"

    def add_overload(self, cres: Any) -> None:
        args = tuple(cres.signature.args)
        cres = cres._replace(entry_point=object())  # what the kernel is known by
        cres.library._reload_init.update(cres.reload_init)
        library: Any = cres.library
        if is_findable(self.py_func):
            needed = Needed(self.py_func.__module__, self.py_func.__qualname__, args, cres.fndesc.mangled_name)
            library = _Callee(cres, needed)
        call = lowering.call_of(cres.fndesc, lowering.raises in cres.reload_init, [library])
        self.targetctx._defns[cres.entry_point].append(call, call.signature)
        self.overloads[args] = cres

    def get_call_template(self, args: Any, kws: Any) -> Any:
        pysig, args = self._compiler.fold_argument_types(args, kws)
        args = tuple(kind if k in self.constants else types.unliteral(kind) for k, kind in enumerate(args))
        self.prepare(args)
        name, signatures = self.py_func.__name__, [self.overloads[args].signature]
        return typing.make_concrete_template(f"CallTemplate({name})", key=name, signatures=signatures), pysig, args, {}

    def compile(self, sig: Any) -> Any:
        """The kernel for a signature as Python can call it."""
        args, _ = normalize_signature(sig)
        with global_compiler_lock, uncollected(), content.unchanging():
            if args not in self.entries:
                self.prepare(args)
                is_kept = self.is_kept and self.contents[args] == content.digest(self)
                key = key_of("entry", self, args) if is_kept else None
                kernel, name = self.overloads[args], f"{self._name}.entry"
                found, _ = obtain(name, key, self.targetctx, lambda: self._wrap(kernel))
                self.entries[args] = found
                self._insert([a._code for a in args], found.entry_point)
            return self.entries[args].entry_point

    def _wrap(self, kernel: Any) -> Any:
        """A library with what Python calls, around a kernel."""
        flags = compiler.Flags()
        self.targetdescr.options.parse_as_flags(flags, self.targetoptions)
        flags.nrt = not lowering.is_borrowing(kernel.signature)
        context = lowering.lean(compiler._make_subtarget(self.targetctx, flags))
        needed: list[Any] = []
        library = _Library(context.codegen(), f"{kernel.library.name}.entry", needed, level=1)
        fndesc = copy(kernel.fndesc)
        fndesc.env_name += ".entry"  # objects that results are made of are the wrapper's, not the kernel's
        environment = Environment.from_fndesc(fndesc)
        with ConfigStack().enter(flags), context.push_code_library(library):
            context.create_cpython_wrapper(library, fndesc, environment, None, release_gil=flags.release_gil)
            context.add_linking_libs(context.get_function(kernel.entry_point, kernel.signature).libs)
            entry = context.get_executable(library, fndesc, environment)
        return compiler.compile_result(
            typing_context=kernel.typing_context, target_context=context, entry_point=entry, library=library,
            fndesc=fndesc, environment=environment, signature=kernel.signature, objectmode=False,
            type_annotation="", lifted=(), metadata={}, reload_init=needed,
        )  # fmt: skip
