"""Copies of functions for which NumPy and math know numbers of a graph.

NumPy asks its arguments who they are, but for what makes arrays (``np.zeros``) and for what Python's module math does.
A copy has the code of the function, and for the global names and closures in that, other values: modules and functions
of NumPy and math by those of arrays.py and scalars.py, functions of users by copies, functions of numba by copies of
their Python source, objects of users by views whose methods are copies. Nothing of the user's own is changed.
"""

from __future__ import annotations

import builtins
import dis
import importlib
import math
import sys
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial, wraps
from pathlib import Path
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from ddp.tracing.arrays import FUNCTIONS, MAKING, TracedArray, made, traced
from ddp.tracing.scalars import BUILTINS, MATH

LARGEST = 100_000
"""Constant arrays of at most so many entries become arrays that numbers can be written into."""

_LIBRARIES = {"numpy", "numba", "math", "scipy", "ddp", "llvmlite"}


_FIXED = {"ddp.tracing.spaces", "ddp.tracing.groups"}
"""Modules whose objects never change, and whose functions take numbers of a graph as they are."""


class _Module:
    """A module of NumPy or math, whose functions take numbers of a graph."""

    def __init__(self, module: ModuleType, rewriter: Rewriter) -> None:
        self._module, self._rewriter = module, rewriter

    def __getattr__(self, name: str) -> Any:
        return self._rewriter.value(getattr(self._module, name))


def _taking_lists(function: Any) -> Any:
    """A function of NumPy, given arrays where it is given lists with numbers of a graph."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*map(traced, args), **traced(kwargs))

    return call


class Reads:
    """Values that a function has read of what it did not make: of globals, closures, attributes."""

    def __init__(self) -> None:
        self._kept: list[tuple[Callable[[], Any], Any]] = []
        self._is_known = True

    def note(self, read: Callable[[], Any], value: Any) -> None:
        """Note a value, and how to read it again. Others may write on lists and the like unseen."""
        if isinstance(value, np.ndarray):
            value = value.copy()
        elif isinstance(value, ModuleType):
            self._is_known &= value.__name__.partition(".")[0] in {"numpy", *sys.stdlib_module_names}
        elif not isinstance(value, (*_PLAIN, FunctionType, MethodType, BuiltinFunctionType, type, np.ufunc)):
            plain = isinstance(value, tuple) and all(isinstance(part, _PLAIN) for part in value)
            fixed = plain or type(value).__module__ in _FIXED
            self._is_known &= fixed or _is_viewed(value) or callable(getattr(value, "py_func", None))
        self._kept.append((read, value))

    def are_current(self) -> bool:
        """Whether all values are known to be what they were."""
        try:
            return self._is_known and all(_is_same(read(), value) for read, value in self._kept)
        except Exception:  # whatever reading raises by now
            return False


_PLAIN = int, float, complex, str, bytes, type(None), np.generic


def _is_same(now: Any, before: Any) -> bool:
    if isinstance(before, np.ndarray):
        return isinstance(now, np.ndarray) and now.shape == before.shape and now.tobytes() == before.tobytes()
    if isinstance(before, (*_PLAIN, tuple, MethodType)):
        return type(now) is type(before) and (now is before or bool(now == before))
    return now is before


class Rewriter:
    """Copies of one call; arrays that it makes of constants live as long as it. ``reads`` takes what they read."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        self._known: dict[int, tuple[Any, Any]] = {}
        self._builtins = {**vars(builtins), **BUILTINS, "__import__": self._import}

    def value(self, value: Any) -> Any:
        """A value as copies see it."""
        known = self._known.get(id(value))
        if known is not None:
            return known[1]
        found = self._made(value)
        if found is not value:
            self._known[id(value)] = value, found  # which keeps its id
        return found

    def _made(self, value: Any) -> Any:
        if isinstance(value, FunctionType):
            if value.__module__ is not None and value.__module__.partition(".")[0] == "numpy":
                return self._of_numpy(value)
            return self._function(value)
        if isinstance(value, MethodType):
            return MethodType(self.value(value.__func__), self.value(value.__self__))
        if isinstance(value, ModuleType):
            return _Module(value, self) if value is math or value.__name__.partition(".")[0] == "numpy" else value
        if isinstance(value, partial):
            self._reads.note(partial(getattr, value, "args"), value.args)
            self._reads.note(lambda: tuple(value.keywords.items()), tuple(value.keywords.items()))
            return partial(self.value(value.func), *value.args, **value.keywords)
        if callable(getattr(value, "py_func", None)):
            return self.value(value.py_func)
        if isinstance(value, (BuiltinFunctionType, type(np.dot))) or value is float:
            return self._of_numpy(value)
        if type(value) is np.ndarray and value.dtype.kind == "f" and value.size <= LARGEST:
            return made(value)
        if type(value) is list:
            return list(map(self.value, value))
        if type(value) is dict:
            return {name: self.value(part) for name, part in value.items()}
        return set(value) if type(value) is set else self._object(value)

    def _of_numpy(self, value: Any) -> Any:
        for table in (MAKING, MATH):
            if value in table:
                return table[value]
        if value is float:
            return BUILTINS["float"]
        module = getattr(value, "__module__", None) or ""
        return _taking_lists(value) if value in FUNCTIONS or module.startswith("numpy") else value

    def _function(self, function: FunctionType) -> Any:
        """A copy of a user's function."""
        if function.__module__ is not None and function.__module__.partition(".")[0] in _LIBRARIES:
            return function
        closure = None if function.__closure__ is None else tuple(map(self._cell, function.__closure__))
        names = {**function.__globals__, "__builtins__": self._builtins}
        copy = FunctionType(function.__code__, names, function.__name__, None, closure)
        self._known[id(function)] = function, copy  # it may call itself
        copy.__kwdefaults__, copy.__qualname__ = function.__kwdefaults__, function.__qualname__
        copy.__defaults__ = None if function.__defaults__ is None else tuple(map(self.value, function.__defaults__))
        own = function.__globals__
        for name in _names(function.__code__):
            if name in own:
                self._reads.note(partial(own.get, name), own[name])
                names[name] = self.value(own[name])
        for cell, theirs in zip(closure or (), function.__closure__ or (), strict=True):
            with suppress(ValueError):  # it is empty
                self._reads.note(partial(getattr, theirs, "cell_contents"), theirs.cell_contents)
                cell.cell_contents = self.value(theirs.cell_contents)
        return copy

    def _cell(self, cell: CellType) -> CellType:
        """A cell in place of a user's, which functions may share."""
        return self._known.setdefault(id(cell), (cell, CellType()))[1]  # type: ignore[no-any-return]

    def _object(self, value: Any) -> Any:
        """A view of a user's object, whose methods are copies and whose attributes are seen as values are."""
        kind, rewriter = type(value), self
        if not _is_viewed(value):
            return value

        def attribute(view: Any, name: str) -> Any:
            found = object.__getattribute__(view, name)
            if name.startswith("__") and name != "__call__":
                return found
            if isinstance(found, MethodType) and found.__self__ is view:
                return MethodType(rewriter.value(found.__func__), view)
            rewriter._reads.note(partial(getattr, value, name), found)
            return rewriter.value(found)

        members: dict[str, Any] = {"__getattribute__": attribute, "__slots__": (), "__module__": kind.__module__}
        if callable(value) and "__call__" in _members(kind):
            members["__call__"] = self.value(_members(kind)["__call__"])
        make: Any = type(kind)
        try:
            view = object.__new__(make(kind.__name__, (kind,), members))
            object.__setattr__(view, "__dict__", dict(value.__dict__))  # what a function writes is not the user's
        except Exception:  # whatever a class of classes has against it: the object is seen as it is
            return value
        return view

    def _import(self, name: str, *args: Any, **kwargs: Any) -> Any:
        module = builtins.__import__(name, *args, **kwargs)
        if name.partition(".")[0] not in ("numpy", "math"):
            return module
        return self.value(module if not (len(args) > 2 and args[2]) else importlib.import_module(name))


def _is_viewed(value: Any) -> bool:
    """Whether a value is an object of a user's class, with attributes of its own."""
    return _is_users(type(value)) and not isinstance(value, (type, tuple)) and hasattr(value, "__dict__")


def _members(kind: type) -> dict[str, Any]:
    """Definitions of a class and of those that it is derived from."""
    return {name: value for base in reversed(kind.__mro__) for name, value in vars(base).items()}


def _is_users(kind: type) -> bool:
    """Whether a class is neither Python's own nor of an installed package."""
    if "<locals>" in kind.__qualname__ or kind.__module__ == "__main__":
        return True
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    if file is None or issubclass(kind, np.ndarray | TracedArray) or kind.__module__ in _FIXED:
        return False
    return kind.__module__.partition(".")[0] not in sys.stdlib_module_names and not (
        {"site-packages", "dist-packages"} & set(Path(file).parts)
    )


_global_names: weakref.WeakKeyDictionary[CodeType, frozenset[str]] = weakref.WeakKeyDictionary()


def _names(code: CodeType) -> frozenset[str]:
    """Global names that a function's code, and functions in it, look up."""
    found = _global_names.get(code)
    if found is None:
        own = {step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
        inner = (_names(constant) for constant in code.co_consts if isinstance(constant, CodeType))
        found = _global_names[code] = frozenset(own.union(*inner))
    return found
