"""Content of values that functions name: arrays, kernels, types, instances, and what Python and numpy make.

``walk`` adds parts to the content ``into``, as that of parts.py does.
"""

import enum
import functools
from types import BuiltinFunctionType, MethodType
from typing import Any

import numpy as np
from numba import types

from ddp.compiling import extensions
from ddp.compiling.syntax import UnknownError

_BUILTIN = int, float, complex, str, bytes, tuple, list, set, frozenset, dict
"""Python's classes of values."""


class _Plain:
    """Instances of its size hold their attributes and nothing else."""


def uncompiled(value: Any) -> Any:
    """Python's function of a kernel, or of what ``numba.njit`` makes; None of any other value."""
    function = getattr(value, "py_func", None)
    return function if callable(function) else None


def add_value(walk: Any, into: Any, value: Any) -> None:
    """Add a value of the rarer kinds."""
    kind = type(value)
    if types.Type in kind.__mro__:  # `isinstance` asks numba's metaclass, in ten times the time
        _add_type(walk, into, value)
    elif (function := uncompiled(value)) is not None:
        into.modules.add(function.__module__)
        walk.tell(into, "kernel", kind.__qualname__, repr(sorted(value.targetoptions.items(), key=str)))
        walk.add(into, getattr(value, "constants", None))
        walk.tell(into, *(str(getattr(value, name, None)) for name in ("builder", "is_apart", "returns", "level")))
        walk.add(into, function)
    elif isinstance(value, enum.Enum):
        walk.tell(into, "member", kind.__module__, kind.__qualname__, value.name)
        walk.add(into, value.value)
    elif isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            raise UnknownError(repr(value))
        layout = f"{value.flags.c_contiguous}{value.flags.f_contiguous}{value.flags.aligned}"
        walk.tell(into, "array", _layout(value.dtype), str(value.shape), layout)
        into.words.append(value.tobytes())
        into.lasting = False
        if kind is not np.ndarray:
            _add_derived(walk, into, value)
    elif isinstance(value, np.generic):
        walk.tell(into, "scalar", _layout(value.dtype), value.tobytes().hex())
    elif isinstance(value, _BUILTIN):
        _add_builtin(walk, into, value, next(base for base in _BUILTIN if isinstance(value, base)))
    elif isinstance(value, MethodType) and extensions.is_function_of_library(value.__func__):
        walk.tell(into, "library", value.__func__.__module__, value.__func__.__qualname__)
    elif isinstance(value, (staticmethod, classmethod, MethodType)):
        walk.each(into, kind.__name__, [value.__func__, getattr(value, "__self__", None)])
    elif isinstance(value, property):
        walk.each(into, "property", [value.fget, value.fset])
    elif isinstance(value, functools.cached_property):
        walk.each(into, "property", [value.func])
    elif isinstance(value, functools.partial):
        walk.each(into, "partial", [value.func, value.args, value.keywords])
    elif hasattr(value, "__wrapped__"):  # an intrinsic, a callback, what functools.cache makes
        walk.tell(into, "wrapped", kind.__qualname__, str(getattr(value, "signature", None)))
        walk.add(into, value.__wrapped__)
    elif isinstance(value, (BuiltinFunctionType, np.ufunc)) or extensions.is_class_of_library(kind):
        told = repr(value)
        if isinstance(value, (BuiltinFunctionType, np.ufunc)):
            told = f"{getattr(value, '__module__', None)}.{getattr(value, '__qualname__', value.__name__)}"
        if " at 0x" in told:
            raise UnknownError(told)
        walk.tell(into, "object", kind.__module__, kind.__qualname__, told)
    elif kind.__basicsize__ <= _Plain.__basicsize__ and not kind.__itemsize__:
        _add_derived(walk, into, value)
    else:
        raise UnknownError(f"a {kind.__qualname__}")


def _add_builtin(walk: Any, into: Any, value: Any, base: Any) -> None:
    """Content of a value of one of Python's classes, or of one derived from it with methods of its own."""
    if type(value) is not base:
        _add_derived(walk, into, value)
    if base is dict:
        walk.each(into, "dict", [part for item in dict.items(value) for part in item])
    elif base in (set, frozenset):
        walk.unordered(into, base.__name__, base.__iter__(value))
    elif base in (tuple, list):
        walk.each(into, base.__name__, base.__iter__(value))
    else:
        walk.tell(into, base.__name__, base.__repr__(value))
    into.lasting = into.lasting and base not in (dict, set, list)


def _add_derived(walk: Any, into: Any, value: Any) -> None:
    """Class and attributes of an object."""
    if any(vars(base).get("__slots__") for base in type(value).__mro__):
        raise UnknownError(f"a {type(value).__qualname__}")
    attributes = getattr(value, "__dict__", None)
    walk.each(into, "instance", [type(value), attributes])  # a dictionary can change in place


def _add_type(walk: Any, into: Any, kind: types.Type) -> None:
    """A type of numba's: its name, and the record classes and functions in it, whose names are not all of them."""
    for one in type(kind).__mro__:
        if not extensions.is_class_of_library(one):
            walk.add(into, one)
    if isinstance(kind, types.BaseTuple):
        walk.add(into, getattr(kind, "instance_class", None))
        walk.each(into, "types", list(kind))
    elif isinstance(kind, types.Dispatcher):
        walk.add(into, kind.dispatcher)
    elif " at 0x" in str(kind):
        raise UnknownError(str(kind))
    else:
        walk.tell(into, "type", str(kind))


def _layout(dtype: np.dtype[Any]) -> str:
    """A type of numpy's with the places of its fields, which may be in any order and share bytes."""
    if dtype.subdtype is not None:
        return f"{dtype.subdtype[1]} of {_layout(dtype.subdtype[0])}"
    names: Any = dtype.names or ()
    places: Any = dtype.fields
    fields = [(name, _layout(dtype[name]), places[name][1:]) for name in names]
    return f"{dtype.str} {dtype.alignment} {dtype.isalignedstruct} {fields}"
