"""Copies of functions for which NumPy and math know numbers of a graph.

NumPy asks its arguments who they are, but for what makes arrays (``np.zeros``) and for what Python's module math does.
A copy has the code of the function, and for the global names and closures in that, other values: modules and functions
of NumPy and math by those of arrays.py and scalars.py, functions of users by copies, functions of numba by copies of
their Python source, objects of users by views whose methods are copies. Nothing of the user's own is changed.
"""

import builtins
import dis
import importlib
import math
import weakref
from functools import partial, wraps
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from ddp.tracing.arrays import FUNCTIONS, MAKING, made, traced
from ddp.tracing.reads import ABSENT, GIVEN, LIBRARIES, PURE, UNSEEN, Reads, frozen, is_of_users, is_viewed, jitted
from ddp.tracing.scalars import BUILTINS, MATH

LARGEST = 100_000
"""Constant arrays of at most so many entries become arrays that numbers can be written into."""

READING = {np.load, np.loadtxt, np.genfromtxt, np.fromfile}
"""NumPy's functions that read files."""


class _Module:
    """A module of NumPy, math or a user, whose functions take numbers of a graph."""

    def __init__(self, module: ModuleType, rewriter: "Rewriter", place: int | None = None) -> None:
        self._module, self._rewriter, self._place = module, rewriter, place

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._module, name)
        if self._place is None:
            return self._rewriter.value(found)
        return self._rewriter.read(self._place, "attribute", name, found)


def _taking_lists(function: Any) -> Any:
    """A function of NumPy, given arrays where it is given lists with numbers of a graph."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*map(traced, args), **traced(kwargs))

    return call


class Rewriter:
    """Copies of one call; arrays that it makes of constants live as long as it. ``reads`` takes what they read."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        self._known: dict[int, tuple[Any, Any]] = {}
        self._builtins = {**vars(builtins), **BUILTINS, "__import__": self._import}

    def value(self, value: Any, place: int = 0) -> Any:
        """A value as copies see it; place: its own among all that were read."""
        known = self._known.get(id(value))
        if known is not None:
            return known[1]
        found = self._made(value, place)
        if found is not value:
            self._known[id(value)] = value, found  # which keeps its id
        return found

    def read(self, source: int, way: str, name: Any, value: Any) -> Any:
        """A value that was read of one at ``source``, as copies see it."""
        return self.value(value, self._reads.note(source, way, name, value))

    def _made(self, value: Any, place: int) -> Any:
        kind: Any = type(value)
        if isinstance(value, FunctionType):
            if value in GIVEN:
                return value
            if value.__module__ is not None and value.__module__.partition(".")[0] == "numpy":
                return self._of_numpy(value)
            return self._function(value, place)
        if isinstance(value, MethodType):
            function = self.read(place, "attribute", "__func__", value.__func__)
            return MethodType(function, self.read(place, "attribute", "__self__", value.__self__))
        if isinstance(value, ModuleType):
            if is_of_users(value):
                return _Module(value, self, place)
            return _Module(value, self) if value is math or value.__name__.partition(".")[0] == "numpy" else value
        if isinstance(value, partial):
            func, args, named = (
                self.read(place, "attribute", name, getattr(value, name)) for name in ("func", "args", "keywords")
            )
            return partial(func, *args, **named)
        if (function := jitted(value)) is not None:
            return self.read(place, "attribute", "py_func", function)
        if isinstance(value, (BuiltinFunctionType, type(np.dot))) or value is float:
            return self._of_numpy(value)
        if kind is np.ndarray and value.dtype.kind == "f" and value.size <= LARGEST:
            return made(value)
        if kind in (list, tuple, dict):
            pairs = value.items() if kind is dict else enumerate(value)
            if frozen(value) is None:
                made_of = {name: self.read(place, "item", name, part) for name, part in pairs}
            else:  # which was noted as a whole
                made_of = {name: self.value(part) for name, part in pairs}
            return made_of if kind is dict else kind(made_of.values())
        return set(value) if kind is set else self._object(value, place)

    def _of_numpy(self, value: Any) -> Any:
        if value in READING:
            self._reads.is_unknown()
        for table in (MAKING, MATH):
            if value in table:
                return table[value]
        if value is float:
            return BUILTINS["float"]
        module = getattr(value, "__module__", None) or ""
        return _taking_lists(value) if value in FUNCTIONS or module.startswith("numpy") else value

    def _function(self, function: FunctionType, place: int) -> Any:
        if function.__module__ is not None and function.__module__.partition(".")[0] in LIBRARIES:
            return function
        note, cells = self._reads.note, function.__closure__ or ()
        closure = None if function.__closure__ is None else tuple(map(self._cell, cells))
        names = {**function.__globals__, "__builtins__": self._builtins}
        copy = FunctionType(function.__code__, names, function.__name__, None, closure)
        self._known[id(function)] = function, copy  # it may call itself
        copy.__qualname__ = function.__qualname__
        for name, value in function.__dict__.items():
            if not name.startswith("__"):  # what wraps another one is none of its own
                copy.__dict__[name] = self.read(place, "attribute", name, value)
        copy.__kwdefaults__ = self.read(place, "attribute", "__kwdefaults__", function.__kwdefaults__)
        copy.__defaults__ = self.read(place, "attribute", "__defaults__", function.__defaults__)
        own = function.__globals__
        for name in _names(function.__code__):
            if name in own:
                names[name] = self.read(place, "global", name, own[name])
            else:
                note(place, "global", name, ABSENT)
                if name in UNSEEN:
                    self._reads.is_unknown()
        for k, (cell, theirs) in enumerate(zip(closure or (), cells, strict=True)):
            at = note(place, "cell", k, theirs)
            try:
                contents = theirs.cell_contents
            except ValueError:  # it is empty
                note(at, "contents", None, ABSENT)
            else:
                cell.cell_contents = self.read(at, "contents", None, contents)
        return copy

    def _cell(self, cell: CellType) -> CellType:
        """A cell in place of a user's, which functions may share."""
        return self._known.setdefault(id(cell), (cell, CellType()))[1]  # type: ignore[no-any-return]

    def _object(self, value: Any, place: int) -> Any:
        """A view of a user's object, whose methods are copies and whose attributes are seen as values are."""
        kind, rewriter, note = type(value), self, self._reads.note
        if not is_viewed(value):
            return value

        def attribute(view: Any, name: str) -> Any:
            try:
                found = object.__getattribute__(view, name)
            except AttributeError:
                note(place, "attribute", name, ABSENT)
                raise
            if name.startswith("__") and name != "__call__":
                rewriter._reads.is_unknown()  # all attributes, or the class, may be looked at
                return found
            if isinstance(found, MethodType) and found.__self__ is view:
                return MethodType(rewriter.read(place, "method", name, found.__func__), view)
            own = object.__getattribute__(view, "__dict__")
            if name in own and own[name] is not value.__dict__.get(name, ABSENT):
                return found  # which the function has written itself
            return rewriter.read(place, "attribute", name, found)

        members: dict[str, Any] = {"__getattribute__": attribute, "__slots__": (), "__module__": kind.__module__}
        if callable(value) and "__call__" in _members(kind):
            members["__call__"] = self.read(place, "called", None, _members(kind)["__call__"])
        make: Any = type(kind)
        try:
            view = object.__new__(make(kind.__name__, (kind,), members))
            object.__setattr__(view, "__dict__", dict(value.__dict__))  # what a function writes is not the user's
        except Exception:  # whatever a class of classes has against it: the object is seen as it is
            self._reads.is_unknown()
            return value
        return view

    def _import(self, name: str, *args: Any, **kwargs: Any) -> Any:
        module, room = builtins.__import__(name, *args, **kwargs), name.partition(".")[0]
        if room not in PURE:
            self._reads.is_unknown()
        if room not in ("numpy", "math"):
            return self.value(module) if is_of_users(module) else module
        return self.value(module if not (len(args) > 2 and args[2]) else importlib.import_module(name))


def _members(kind: type) -> dict[str, Any]:
    """Definitions of a class and of those that it is derived from."""
    return {name: value for base in reversed(kind.__mro__) for name, value in vars(base).items()}


_global_names: weakref.WeakKeyDictionary[CodeType, frozenset[str]] = weakref.WeakKeyDictionary()


def _names(code: CodeType) -> frozenset[str]:
    """Global names that a function's code, and functions in it, look up."""
    found = _global_names.get(code)
    if found is None:
        own = {step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
        inner = (_names(constant) for constant in code.co_consts if isinstance(constant, CodeType))
        found = _global_names[code] = frozenset(own.union(*inner))
    return found
