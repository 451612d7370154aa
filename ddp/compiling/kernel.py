"""The one module that owns numba: how kernels are compiled, cached, announced and called.

A *kernel* is a plain function of numbers and arrays. It never validates, raises, prints or allocates
what its caller can reuse; failure is a returned flag. Its compiled form is cached on disk under a digest of
its module's source **and of the sources of the kernels it calls**, because numba's own cache only looks at the
file a kernel is written in and would go stale when a callee elsewhere changes.
"""

from __future__ import annotations

import hashlib
import inspect
import logging
import os
import site
import stat
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from types import FunctionType
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core import event
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import intrinsic

from ddp.compiling.compiled import Callback, Kernel

logger = logging.getLogger("mayne")

OPTIONS = {"forceinline": False, "error_model": "numpy", "fastmath": {"contract"}, "nogil": True, "boundscheck": False}
"""`contract` lets a*b+c become one instruction; nothing else of fastmath, so that NaN stays a NaN."""

CONTRACTION = types.void(types.int64, types.int64, types.int64, types.int64)
"""Of the C functions of `protocols.Contraction`."""

_PACKAGES = ("ddp", "dynamics", "problems")
_INSTALLED = tuple({*map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib")), *site.getsitepackages()})
_registered: list[Any] = []


def cache_directory() -> Path:
    """Where compiled kernels are kept: MAYNE_CACHE_DIR, else the user's cache folder, else a temporary one."""
    chosen = os.environ.get("MAYNE_CACHE_DIR")
    if chosen:
        return Path(chosen)
    try:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mayne"
        home.mkdir(parents=True, exist_ok=True)
        if os.access(home, os.W_OK):
            return home
    except (OSError, RuntimeError) as reason:  # RuntimeError: the user has no home
        logger.info("%s: kernels are cached in a temporary folder", reason)
    return private_folder(Path(tempfile.gettempdir()))


@cache
def private_folder(parent: Path) -> Path:
    """A folder in ``parent`` that nobody else can write to: what is cached is code, and is run when it is read."""
    if sys.platform == "win32":  # where temporary folders are private
        return parent / "mayne"
    folder = parent / f"mayne-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077:
            return folder
    except OSError as reason:
        logger.info("%s", reason)
    return Path(tempfile.mkdtemp(prefix="mayne-", dir=parent))


def _can_change(name: str) -> bool:
    """Whether it is a module of the project's or of the user's, and not one of those installed beside them."""
    path = getattr(sys.modules.get(name), "__file__", None)
    return path is not None and (name.split(".")[0] in _PACKAGES or not path.startswith(_INSTALLED))


_imported: dict[str, tuple[Any, set[str]]] = {}
_sources: dict[str, tuple[Any, bytes]] = {}


def _origins(name: str) -> set[str]:
    """The modules of ours and of the user whose objects a module has imported so far."""
    module = sys.modules[name]
    spec, known = module.__spec__, _imported.get(name)
    if known and known[0] is spec:
        return known[1]
    found = {
        value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", None)
        for value in list(vars(module).values())
    }
    ours = {origin for origin in found if isinstance(origin, str) and _can_change(origin)}
    if spec and not getattr(spec, "_initializing", False):  # all there is: until it is loaded again, with another spec
        _imported[name] = spec, ours
    return ours


def _dependencies(module: str) -> set[str]:
    """``module`` and those of ours and of the user whose objects it has imported so far, transitively."""
    found: set[str] = set()
    waiting = {module} if _can_change(module) else set()
    while waiting:
        found |= waiting
        waiting = set().union(*map(_origins, waiting)) - found
    return found


def _source(name: str) -> bytes:
    """A digest of a module's source, as it was when it was first asked for."""
    module = sys.modules[name]
    spec, known = module.__spec__, _sources.get(name)
    if known is None or known[0] is not spec or spec is None:
        known = _sources[name] = spec, hashlib.sha256(Path(str(module.__file__)).read_bytes()).digest()
    return known[1]


def _digest(module: str) -> str:
    """A digest of the sources that a kernel of ``module`` can depend on."""
    total = hashlib.sha256(numba.__version__.encode())
    for name in sorted(_dependencies(module)):
        total.update(_source(name))
    return total.hexdigest()[:16]


@contextmanager
def _cached_under(digest: str) -> Iterator[None]:
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(cache_directory() / digest)
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before


def kernel(function: Callable[..., Any]) -> Any:
    """Compile ``function`` with numba's nopython mode on first use and keep the result on disk."""
    with _cached_under(_digest(function.__module__)):
        dispatcher = Kernel(function, targetoptions=OPTIONS)
        dispatcher.enable_caching()
    _registered.append(dispatcher)
    return dispatcher


def for_constants(function: Callable[..., Any] | None = None, *, but: tuple[str, ...] = ()) -> Any:
    """A kernel that is compiled anew for each integer that callers write out: strides and lengths of inner loops.

    but: arguments that it need not know.
    """
    if function is None:
        return partial(for_constants, but=but)
    made = kernel(function)
    made.constants = frozenset(k for k, name in enumerate(inspect.signature(function).parameters) if name not in but)
    return made


def is_compilable(function: Any) -> bool:
    """Whether it is a plain function, or one that numba knows already."""
    return isinstance(function, (FunctionType, Dispatcher))


def jitted(function: Callable[..., Any]) -> Any:
    """A function that kernels can call, compiled when they are and not kept on disk; as it is if numba knows it."""
    return function if isinstance(function, Dispatcher) else numba.njit(function, **OPTIONS)


def specialised(template: Callable[..., Any], name: str, **names: Any) -> Callable[..., Any]:
    """A copy of a function with other objects for global names of its module, other kernels say.

    A copy, and not a closure: numba does not cache functions of other functions that are not global.
    """
    copy = FunctionType(template.__code__, {**template.__globals__, **names}, name)
    copy.__qualname__, copy.__module__ = name, template.__module__
    return copy


def inline(function: Callable[..., Any]) -> Any:
    """A small kernel that is always inlined into its callers (spatial algebra on scalars)."""
    options = {"forceinline": True, "error_model": "numpy", "fastmath": {"contract"}}
    return Kernel(function, targetoptions=options)


def by_types(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates what chooses a kernel by the types of arguments: inside kernels, a call of ``function`` calls that."""

    def register(choose: Callable[..., Any]) -> Callable[..., Any]:
        class Choice(AbstractTemplate):  # type: ignore[misc]
            def generic(self, args: Any, kws: Any) -> Any:
                self.chosen = choose(*args, **kws)
                template, parameters, args, kws = self.chosen.get_call_template(args, kws)
                return template(self.context).apply(args, kws).replace(pysig=parameters)

            def get_impl_key(self, sig: Any) -> Any:
                return self.chosen.get_overload(sig)

        infer_global(function)(Choice)
        return choose

    return register


def callback(function: Callable[..., Any], *origins: str, cached: bool = True, signature: Any = CONTRACTION) -> Any:
    """Compile ``function``, of integers and floats, to a C function; its ``.address`` can be called from kernels.

    origins: modules of kernels that it calls and its own module does not import.   cached: whether it is kept on disk;
    what calls users' functions must not be, since nobody knows what these depend on.
    """
    with global_compiler_lock, _cached_under("-".join(map(_digest, (function.__module__, *origins)))):
        options = {"error_model": "numpy", "fastmath": {"contract"}}
        made = Callback(function, signature, options)
        if cached:
            made.enable_caching()
        made.compile()
        return made


@intrinsic
def call_contraction(typingctx, address, context, record, weight, hessian):  # type: ignore[no-untyped-def]
    """Call the C function ``void(context, record*, weight*, hessian*)`` at ``address``, from inside a kernel."""
    signature = types.void(types.int64, types.int64, types.int64, types.int64, types.int64)

    def codegen(cgctx, builder, signature, args):  # type: ignore[no-untyped-def]
        word = ir.IntType(64)
        prototype = ir.FunctionType(ir.VoidType(), [word] * 4)
        builder.call(builder.inttoptr(args[0], prototype.as_pointer()), args[1:])
        return cgctx.get_dummy_value()

    return signature, codegen


@intrinsic
def pointer(typingctx, address):  # type: ignore[no-untyped-def]
    """An int64 address as a pointer to float64, for ``numba.carray`` inside a kernel."""
    signature = types.CPointer(types.float64)(types.int64)

    def codegen(cgctx, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.inttoptr(args[0], cgctx.get_value_type(signature.return_type))

    return signature, codegen


@intrinsic
def integer_pointer(typingctx, address):  # type: ignore[no-untyped-def]
    """An int64 address as a pointer to int64, for ``numba.carray`` inside a kernel."""
    signature = types.CPointer(types.int64)(types.int64)

    def codegen(cgctx, builder, signature, args):  # type: ignore[no-untyped-def]
        return builder.inttoptr(args[0], cgctx.get_value_type(signature.return_type))

    return signature, codegen


class _Watcher(event.Listener):
    """Tells a function of every kernel that starts to compile."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self.tell = tell

    def on_start(self, happening: event.Event) -> None:
        self.tell(str(happening.data["dispatcher"].py_func.__qualname__))

    def on_end(self, happening: event.Event) -> None:
        """Nothing to say: the next start tells that this one ended."""


@contextmanager
def compilations(tell: Callable[[str], None]) -> Iterator[None]:
    """Within the block, call ``tell(name)`` whenever a kernel has to be compiled (nothing when it is cached)."""
    watcher = _Watcher(tell)
    event.register("numba:compile", watcher)
    try:
        yield
    finally:
        event.unregister("numba:compile", watcher)


def registered() -> list[Any]:
    """Every kernel imported so far: for tests (one signature each) and for progress bars (how many there are)."""
    return list(_registered)
