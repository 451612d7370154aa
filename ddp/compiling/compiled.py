"""How a kernel becomes machine code: every kernel once, and called by its symbol.

numba links what a kernel calls into the kernel and optimises all of it again, level by level, and gives everything a
wrapper that Python could call. Here a kernel is compiled into a library of its own; callers declare it and the linker
finds it, and only what is small is linked for inlining. A wrapper is a library too, made when Python first calls.

What is compiled is cached with the list of the kernels it needs, by module, name and types, and they are loaded before
it. Symbols are therefore made of a kernel's name and types alone, the same in every process.
"""

from __future__ import annotations

import gc
import hashlib
import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from copy import copy
from functools import cache, cached_property
from importlib import import_module
from typing import Any, NamedTuple

from numba import types
from numba.core import compiler, config, event, typing
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.ccallback import CFunc
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.environment import Environment
from numba.core.registry import CPUDispatcher, cpu_target
from numba.core.sigutils import normalize_signature
from numba.core.targetconfig import ConfigStack

from ddp.compiling import lowering

logger = logging.getLogger("mayne")

SMALL = 100
"""Kernels of at most so many instructions are linked into their callers, to be inlined."""


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
_named: set[tuple[int, Any]] = set()


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
        function = state.func_id.func
        number = symbol_number(function)
        if is_findable(function) and (number, state.args) not in _named:  # taken: by what was imported before
            state.func_id.unique_id = number
        if state.library is None:
            inlined = state.flags.no_compile = bool(state.flags.forceinline)
            made = state.targetctx.codegen(), state.func_id.func_qualname, state.reload_init
            state.library = _Library(*made, only_inlined=inlined)
        return [lowering.pipeline()]


def symbol_number(function: Any) -> int:
    """What numba tells symbols of equal names and types apart by; its own differs from process to process."""
    return int(hashlib.sha256(f"{function.__module__}.{function.__qualname__}".encode()).hexdigest()[:12], 16)


def is_findable(function: Any) -> bool:
    """Whether another process finds the kernel of ``function`` under its name."""
    if function.__module__ not in sys.modules or function.__module__ == "__main__" or "<" in function.__qualname__:
        return False
    try:
        found = find(function.__module__, function.__qualname__)
    except AttributeError:
        return False
    return isinstance(found, Kernel) and found.py_func is function


class Files(IndexDataCacheFile):  # type: ignore[misc]
    """An index, and a file of each kernel, named by what it is: numba counts them, and processes that save at once take
    the same number, so that one reads what the other has written.
    """

    def save(self, key: Any, data: Any) -> None:
        name = self._data_name(int(hashlib.sha256(repr(key).encode()).hexdigest()[:12], 16))
        self._save_data(name, data)
        self._save_index({**self._load_index(), key: name})


class _Cache(FunctionCache):  # type: ignore[misc]
    """Where kernels are kept. What cannot be read, cut short or of types that are no more, is made anew."""

    def __init__(self, py_func: Any) -> None:
        super().__init__(py_func)
        base, stamp = self._impl.filename_base, self._impl.locator.get_source_stamp()
        self._cache_file = Files(self._cache_path, base, stamp)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except OtherSymbolError:
            return None
        except Exception as reason:  # whatever unpickling old or damaged files can raise
            logger.info("the cached kernel %s cannot be read (%r) and is compiled again", self._name, reason)
            with suppress(OSError):
                self.flush()
            return None


class _EntryCache(_Cache):
    """Where wrappers are kept: beside the kernels, under a key of their own."""

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return (*super()._index_key(sig, codegen), "entry")


class Callback(CFunc):  # type: ignore[misc]
    """A compiled function that C calls, at its ``address``."""

    def __init__(self, py_func: Any, sig: Any, targetoptions: Any) -> None:
        super().__init__(py_func, normalize_signature(sig), {}, targetoptions, pipeline_class=Pipeline)

    def enable_caching(self) -> None:
        self._cache = _Cache(self.__wrapped__)


class Kernel(CPUDispatcher):  # type: ignore[misc]
    """A compiled function whose machine code and whose wrapper for Python are made apart, each when it is called.

    constants: the places of arguments for whose integers, where callers write them out, it is compiled anew.
    """

    constants: frozenset[int] = frozenset()

    def __init__(self, py_func: Any, locals: Any = None, targetoptions: Any = None) -> None:
        options = {**(targetoptions or {}), "nopython": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
        super().__init__(py_func, locals, options, pipeline_class=Pipeline)
        self.entries: dict[Any, Any] = {}
        self._entry_cache: Any = None

    def __reduce__(self) -> Any:
        if is_findable(self.py_func):
            return find, (self.py_func.__module__, self.py_func.__qualname__)
        return super().__reduce__()

    def enable_caching(self) -> None:
        self._cache = _Cache(self.py_func)
        self._entry_cache = _EntryCache(self.py_func)

    def prepare(self, args: Any) -> None:
        """Compile or load the machine code for arguments of the types ``args``."""
        args = tuple(args)
        if args in self.overloads:
            return
        with global_compiler_lock, uncollected(), self._compiling_counter:  # as numba does, without its stopwatches
            if args in self.overloads:
                return
            found = self._cache.load_overload(args, self.targetctx)
            if found is not None:
                self._cache_hits[args] += 1
                self.targetctx.insert_user_function(found.entry_point, found.fndesc, [found.library])
                self.add_overload(found)
                return
            self._cache_misses[args] += 1
            with event.trigger_event("numba:compile", {"dispatcher": self, "args": args, "return_type": None}):
                found = self._compiler.compile(args, None)
                self.add_overload(found)
            self._cache.save_overload(args, found)

    def add_overload(self, cres: Any) -> None:
        args = tuple(cres.signature.args)
        if cres.entry_point is None:
            cres.library._ensure_finalized()  # so that it is known whether it can raise
            cres = cres._replace(entry_point=object())  # what the kernel is known by
        else:
            self.targetctx.remove_user_function(cres.entry_point)
        cres.reload_init[:] = dict.fromkeys(cres.reload_init)
        cres.library._reload_init.update(cres.reload_init)
        _named.add((cres.fndesc.uid, args))
        library: Any = cres.library
        if is_findable(self.py_func) and cres.fndesc.uid == symbol_number(self.py_func):
            library = _Callee(
                cres, Needed(self.py_func.__module__, self.py_func.__qualname__, args, cres.fndesc.mangled_name)
            )
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
        with global_compiler_lock, uncollected():
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
