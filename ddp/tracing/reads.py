"""Values that a function reads beside its arguments, of globals, closures and attributes; whether they are the same.

Each value is a step from one that was read before, the function itself being the first. So the steps can be gone again
from that function, or from another one with the same code, and what is found be compared: bit by bit where it is
numbers, by its code or its class where more is read of it. What may hold more than can be seen is never known.
"""

import sys
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from operator import is_
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from ddp.compiling.values import uncompiled
from ddp.errors import said

LIBRARIES = {"numpy", "numba", "math", "scipy", "ddp", "llvmlite"}
"""Packages whose functions are not looked into."""

OURS = {"ddp", "dynamics", "mayne", "problems", "viz"}
"""Packages of mayne, which lie beside users' modules where it is not installed."""

FIXED = {"ddp.tracing.spaces", "ddp.tracing.groups"}
"""Modules whose objects never change, and whose functions take numbers of a graph as they are."""

GIVEN: set[Any] = set()
"""Functions that take numbers of a graph as they are: quantities, see quantities.py."""

PURE = {"abc", "builtins", "cmath", "collections", "dataclasses", "enum", "functools", "itertools", "math", "numbers",
        "mayne", "numpy", "operator", "types", "typing"}  # fmt: skip
"""Modules whose functions and constants are the same in every call, with those that are inside of them."""

UNSEEN = {"__import__", "breakpoint", "eval", "exec", "globals", "id", "input", "locals", "object", "open", "super",
          "type", "vars"}  # fmt: skip
"""Built-in functions that lead to values which are not seen."""

_QUIET = {"__call__", "__copy__", "__deepcopy__", "__delattr__", "__eq__", "__getstate__", "__hash__", "__init__",
          "__init_subclass__", "__post_init__", "__reduce__", "__replace__", "__repr__", "__setattr__", "__setstate__",
          "__str__", "__subclasshook__", "__annotate__", "__annotate_func__"}  # fmt: skip
"""Special methods of classes that no operator calls, or whose copies are called."""

_PLAIN = {int, float, complex, bool, str, bytes, type(None), type(Ellipsis), slice, range}

ABSENT = type("Absent", (), {})()
"""Value of what there is not."""


def _contents(cell: CellType, _: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty
        return ABSENT


WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "attribute": lambda of, name: getattr(of, name, ABSENT),
    "method": lambda of, name: getattr(of, name).__func__,
    "called": lambda of, _: type(of).__call__,
    "item": lambda of, key: of[key],
    "global": lambda of, name: of.__globals__.get(name, ABSENT),
    "cell": lambda of, place: of.__closure__[place],
    "contents": _contents,
}
"""Ways from a value to another one, which is read of it by a name."""


class _Step(NamedTuple):
    """A value that was read of that at ``source``; expected: whether one is the same, or where the same object was.

    told: the value, for errors.
    """

    source: int
    way: Callable[[Any, Any], Any]
    name: Any
    expected: Callable[[Any], bool] | int
    is_object: bool
    told: str


class Reads:
    """Steps from a function to all that it has read."""

    def __init__(self, function: Any) -> None:
        self._steps: list[_Step] = []
        self._is_known = True
        code = _code_of(function)
        self._code = None if code is None else weakref.ref(code)  # a function keeps it, reads may be kept by it
        self._values: list[Any] = [function]
        self._places = {id(function): 0}
        self._noted: dict[tuple[int, str, Any], int] = {}

    def note(self, source: int, way: str, name: Any, value: Any) -> int:
        """Note a value that was read of one at ``source``, and give its own place."""
        place = self._noted.get((source, way, name))
        if place is not None:
            if self._values[place] is not value:
                before = self._steps[place - 1].expected
                self._is_known &= not isinstance(before, int) and before(value)
            return place
        place = self._noted[source, way, name] = len(self._values)
        self._values.append(value)
        # The identity matters of objects that may be written on, or are looked into.
        is_object = isinstance(value, (np.ndarray, list, dict, set, FunctionType, CellType)) or is_viewed(value)
        first = self._places.setdefault(id(value), place) if is_object else place
        expected: Any = first if first < place else expectation(value)
        self._is_known &= expected is not None
        self._steps.append(_Step(source, WAYS[way], name, expected, is_object, said(value)))
        return place

    def is_unknown(self) -> None:
        """Note that something was read that cannot be compared."""
        self._is_known = False

    def has(self, name: str) -> bool:
        """Whether anything was read by this name."""
        return any(step.name == name for step in self._steps)

    def settle(self) -> None:
        """End: no value is kept from now on."""
        self._values, self._places, self._noted = [], {}, {}

    def are_those_of(self, function: Any) -> bool:
        """Whether a function is known to have the same code and to read the same now; a reloaded one has another."""
        if not self._is_known or (self._code is not None and self._code() != _code_of(function)):
            return False
        values, objects = [function], {id(function)}
        try:
            for source, way, name, expected, is_object, _ in self._steps:
                now = way(values[source], name)
                if isinstance(expected, int):
                    if now is not values[expected]:
                        return False
                elif not expected(now):
                    return False
                elif is_object:
                    if id(now) in objects:  # what one writes on, the other reads
                        return False
                    objects.add(id(now))
                values.append(now)
        except Exception:  # whatever reading raises by now
            return False
        return True

    def changes(self, function: Any) -> str:
        """Name values that a function reads otherwise now, each with what it was and is; empty if there is none."""
        values, names = [function], [""]
        found: dict[str, None] = {}
        with suppress(Exception):  # whatever reading raises by now
            for source, way, name, expected, _, told in self._steps:
                values.append(way(values[source], name))
                if way is WAYS["cell"]:
                    name = values[source].__code__.co_freevars[name]
                elif way is WAYS["contents"]:
                    name = names[source]
                elif way is WAYS["item"]:
                    name = f"{names[source]}[{name!r}]"
                names.append(name)
                now = said(values[-1])
                if not isinstance(expected, int) and not expected(values[-1]) and told != now:
                    found[f"{name} has changed from {told} to {now}"] = None
        return ", ".join(found)


MOST_REMEMBERED = 8
"""Functions with the same code, of which it is remembered what they have read."""

_remembered: weakref.WeakKeyDictionary[CodeType, list[tuple[Any, Reads, Any]]] = weakref.WeakKeyDictionary()


def _code_of(function: Any) -> CodeType | None:
    function = function.__func__ if isinstance(function, MethodType) else function
    return function.__code__ if isinstance(function, FunctionType) else None


def remember(function: Any, kind: Any, found: Any, reads: Reads) -> None:
    """Remember what was found of a function, as long as there is its code; kind: what else it depends on."""
    code = _code_of(function)
    if code is not None and reads.are_those_of(function):
        others = _remembered.setdefault(code, [])
        others.insert(0, ((kind, type(function)), reads, found))
        del others[MOST_REMEMBERED:]


def recalled(function: Any, kind: Any) -> tuple[Any, Reads] | None:
    """Find what was remembered of a function with the same code that reads the same, and its reads; None if nothing."""
    code = _code_of(function)
    if code is not None:
        own = kind, type(function)
        for its, reads, found in tuple(_remembered.get(code, ())):
            if its == own and reads.are_those_of(function):
                return found, reads
    return None


def frozen(value: Any) -> Any:
    """A value of numbers, alone or in containers, as something to compare bit by bit; None of others."""
    kind: Any = type(value)
    if kind in _PLAIN or (isinstance(value, np.generic) and kind.__module__ == "numpy"):
        return kind, repr(value)
    if kind is np.ndarray:
        return None if value.dtype.hasobject else (value.dtype.str, value.shape, value.tobytes())
    if kind in (tuple, list):
        parts = tuple(map(frozen, value))
        return None if None in parts else (kind, parts)
    if kind is dict:
        pairs = tuple((frozen(name), frozen(part)) for name, part in value.items())
        return None if any(None in pair for pair in pairs) else (kind, pairs)
    return None


def expectation(value: Any) -> Callable[[Any], bool] | None:
    """Whether another value is the same as this one, but for what is read of it; None where that is not known."""
    bits = frozen(value)
    if bits is not None:
        return lambda now: bool(frozen(now) == bits)
    if value is ABSENT:
        return partial(is_, ABSENT)
    if isinstance(value, (FunctionType, BuiltinFunctionType, type, np.ufunc, type(np.dot), ModuleType)):
        return _of_definition(value)
    kind: Any = type(value)
    if never_changes(kind) and kind.__eq__ is object.__eq__:
        same = weakref.ref(value)
        return lambda now: now is same()
    if never_changes(kind):
        return lambda now: type(now) is kind and bool(now == value)
    if kind in (list, tuple):
        size = len(value)
        return lambda now: type(now) is kind and len(now) == size
    if kind is dict:
        names = frozen(list(value))
        return None if names is None else lambda now: type(now) is dict and bool(frozen(list(now)) == names)
    if is_viewed(value):
        return None if _has_operators(kind) else _of_kind(kind)
    looked_into = kind in (CellType, MethodType, partial) or jitted(value) is not None
    return _of_kind(kind) if looked_into else None


def jitted(value: Any) -> Any:
    """Python's function of a kernel or of what numba makes; None of any other value."""
    try:
        return uncompiled(value)
    except Exception:  # whatever its __getattr__ has against the name
        return None


def _of_kind(kind: type) -> Callable[[Any], bool]:
    found = weakref.ref(kind)
    return lambda now: type(now) is found()


def _of_definition(value: Any) -> Callable[[Any], bool] | None:
    """`expectation` of functions, classes and modules: those of users by their code, others are what they are."""
    module = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    room = (module or "").partition(".")[0]
    if isinstance(value, np.ufunc):  # of numpy, or made of a user's function
        return partial(is_, value) if getattr(np, value.__name__, None) is value else None
    if not isinstance(value, FunctionType):
        looked_into = isinstance(value, ModuleType) and is_of_users(value)
        return partial(is_, value) if room in PURE or looked_into else None
    if room in LIBRARIES or value in GIVEN:
        return partial(is_, value)
    code = weakref.ref(value.__code__)
    return lambda now: isinstance(now, FunctionType) and now.__code__ == code()


def _has_operators(kind: type) -> bool:
    """Whether a class defines special methods, whose originals Python would call."""
    members = ((name, member) for base in kind.__mro__ if is_users(base) for name, member in vars(base).items())
    return any(
        name.startswith("__") and name.endswith("__") and name not in _QUIET and isinstance(member, FunctionType)
        for name, member in members
    )


def is_viewed(value: Any) -> bool:
    """Whether a value is an object of a user's class, with attributes of its own."""
    return is_users(type(value)) and not isinstance(value, (type, tuple)) and hasattr(value, "__dict__")


def never_changes(kind: type) -> bool:
    """Whether objects of a class are those of `FIXED`, or of a class that is derived from one of these."""
    return any(base.__module__ in FIXED for base in kind.__mro__)


def is_users(kind: type) -> bool:
    """Whether a class is neither Python's own nor of an installed package."""
    module = kind.__module__
    if module == "builtins" or module == "numpy":
        return False
    if "<locals>" in kind.__qualname__ or module == "__main__":
        return True
    if issubclass(kind, np.ndarray) or never_changes(kind):
        return False
    return _is_written(sys.modules.get(module))


def is_of_users(module: ModuleType) -> bool:
    """Whether a module is neither Python's own, nor of an installed package, nor of mayne."""
    return module.__name__.partition(".")[0] not in OURS and _is_written(module)


def _is_written(module: ModuleType | None) -> bool:
    file = getattr(module, "__file__", None)
    if module is None or file is None or module.__name__.partition(".")[0] in sys.stdlib_module_names:
        return False
    return "/site-packages/" not in file and "/dist-packages/" not in file
