# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-subclassing-any
"""The one module that owns numba: how kernels are compiled, cached, announced and called.

A *kernel* is a plain function of numbers and arrays. It never validates, raises, prints or allocates
what its caller can reuse; failure is a returned flag. Its compiled form is cached on disk under a digest of its content
**and of all that it names**, see content.py, because numba's own cache only looks at the file a kernel is written in
and would go stale when a callee or a number elsewhere changes.
"""

import inspect
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FunctionType
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, is_jitted, lower_builtin, type_callable

from ddp.compiling import compiled
from ddp.compiling.building import Builder, WholeBuilder
from ddp.compiling.compiled import Callback, Kernel
from ddp.compiling.content import chosen

logger = logging.getLogger("mayne")

OPTIONS = {"forceinline": False, "error_model": "numpy", "fastmath": {"contract"}, "nogil": True, "boundscheck": False}
"""`contract` lets a*b+c become one instruction; nothing else of fastmath, so that NaN stays a NaN."""

CONTRACTION = types.void(types.int64, types.int64, types.int64, types.int64)
"""Signature of the C functions of `protocols.Contraction`."""

_registered: list[Any] = []


def kernel(function: Callable[..., Any], whole: bool = False) -> Any:
    """Compile ``function`` with numba's nopython mode on first use and keep the result on disk.

    whole: with all kernels that it calls inlined, but those `apart`, so that what it knows of arguments shortens them.
    """
    dispatcher = Kernel(function, OPTIONS, WholeBuilder if whole else Builder)
    _registered.append(dispatcher)
    return dispatcher


def apart(function: Callable[..., Any] | None = None, *, returns: Any = types.none) -> Any:
    """A kernel that many runs never call: it is compiled when it is first called, whoever may call it.

    It stays a call in kernels that are compiled whole.   returns: type of what it gives back.
    """
    if function is None:
        return partial(apart, returns=returns)
    made = kernel(function)
    made.is_apart, made.returns = True, returns
    return made


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
    """Whether it is a plain function, no generator, or one that numba knows already."""
    return is_jitted(function) or (isinstance(function, FunctionType) and not inspect.isgeneratorfunction(function))


def jitted(function: Callable[..., Any]) -> Any:
    """A function that kernels can call, compiled when they are and not kept on disk; as it is if numba knows it."""
    if is_jitted(function):
        return function
    made = Kernel(function, OPTIONS)
    made.is_kept = False
    return made


def specialised(template: Callable[..., Any], name: str, **names: Any) -> Callable[..., Any]:
    """A copy of a function with other objects for global names of its module, other kernels say.

    A copy, and not a closure: numba does not cache functions of other functions that are not global.
    """
    copy = FunctionType(template.__code__, {**template.__globals__, **names}, name)
    copy.__qualname__, copy.__module__ = name, template.__module__
    return copy


def variant(template: Callable[..., Any], name: str, whole: bool = False, **names: Any) -> Any:
    """A kernel of a `specialised` function, which callers in other processes find by its name in the module.

    They have made it before, or they would not know the keys of what calls it.
    """
    made = template.__globals__[name] = kernel(specialised(template, name, **names), whole)
    return made


def inline(function: Callable[..., Any]) -> Any:
    """A small kernel that is always inlined into its callers (spatial algebra on scalars)."""
    return Kernel(function, {"forceinline": True, "error_model": "numpy", "fastmath": {"contract"}})


def by_types(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates what chooses a kernel by the types of arguments: inside kernels, a call of ``function`` calls that."""
    parameters = inspect.signature(function)

    def register(choose: Callable[..., Any]) -> Callable[..., Any]:
        def typed(typing_context: Any, args: Any) -> Any:
            """The chosen kernel as the target at hand knows it, and its signature."""
            target = typing_context.resolve_value_type(choose(*args))
            return target, target.get_call_type(typing_context, args, {})

        @type_callable(function)  # type: ignore[untyped-decorator]
        def typer(context: Any) -> Any:
            def result(*args: Any, **kws: Any) -> Any:
                args = parameters.bind(*args, **kws).args
                return typed(context, args)[1].return_type

            result.pysig = result.__signature__ = parameters  # type: ignore[attr-defined]
            return result

        @lower_builtin(function, types.VarArg(types.Any))  # type: ignore[untyped-decorator]
        def call(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            target, full = typed(context.typing_context, sig.args)
            values = [context.cast(builder, *one) for one in zip(args, sig.args, full.args, strict=False)]
            values += [context.get_dummy_value()] * (len(full.args) - len(args))
            return context.get_function(target, full)(builder, values)

        chosen[function] = choose
        return choose

    return register


def callback(function: Callable[..., Any], signature: Any = CONTRACTION, whole: bool = False) -> Any:
    """A C function of integers and floats, compiled when its ``.address`` is asked for, which kernels can call.

    whole: with all kernels that it calls inlined.
    """
    options = {name: OPTIONS[name] for name in ("error_model", "fastmath")}
    return Callback(function, signature, options, WholeBuilder if whole else Builder)


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


class _Teller(NamedTuple):
    """Tells a function of every kernel that starts to compile."""

    begin: Callable[[str], None]

    def fail(self) -> None:
        """Do nothing: the next start tells that this one ended."""


@contextmanager
def compilations(tell: Callable[[str], None]) -> Iterator[None]:
    """Within the block, call ``tell(name)`` whenever a kernel has to be compiled (nothing when it is cached)."""
    teller = _Teller(tell)
    compiled.watchers.append(teller)
    try:
        yield
    finally:
        compiled.watchers.remove(teller)


def registered() -> list[Any]:
    """Every kernel imported so far: for tests (one signature each) and for progress bars (how many there are)."""
    return list(_registered)
