"""Modules that tell numba more than their kernels do: overloads, operators of new types, how these lie in memory.

No kernel names what such a module registers, so it counts as a whole for kernels of all modules that have imported
something from it.
"""

import functools
import inspect
import re
import sys
import sysconfig
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numba.extending

from ddp.compiling.syntax import source_of

LIBRARIES = {"builtins", "llvmlite", "numba", "numpy"}
"""Packages whose objects count by their names, beside Python's own library."""

_NAMES = re.compile("overload|lower_|register_|type(_|of)")

EXTENDING = [vars(numba.extending)[name] for name in dir(numba.extending) if _NAMES.match(name)]
"""Imports of a module that tells numba more than its kernels do."""

_TEMPLATES = "numba.core.typing.templates"
"""Module of all other imports that tell so."""

_SPELT = re.compile(rb"overload|lower_|register_model|type_callable|typeof_impl|infer")
"""Uses of them in the source of a module that imports numba, or numba.extending, as a whole."""

_COMPILING = "ddp.compiling"
"""Beginning of the names of modules whose code counts for every kernel."""

_IN_PYTHON = 1 << 9
"""The flag of classes that are made while a program runs (Py_TPFLAGS_HEAPTYPE)."""

_STANDARD = str(Path(sysconfig.get_path("stdlib")))


_reached: dict[str, frozenset[str]] = {}
_imports: dict[str, tuple[Any, frozenset[str]]] = {}
_extending: dict[str, tuple[Any, bool]] = {}


def is_library(module: str | None) -> bool:
    """Whether what a module defines counts by its name."""
    root = (module or "builtins").partition(".")[0]
    if root in LIBRARIES:
        return True
    if root not in sys.stdlib_module_names:
        return False
    path = getattr(sys.modules.get(root), "__file__", None)
    return path is None or path.startswith(_STANDARD)


def is_library_itself(module: ModuleType) -> bool:
    """Whether a module counts by its name: it is the one that is imported by it."""
    return is_library(module.__name__) and sys.modules.get(module.__name__) is module


def is_function_of_library(function: Any) -> bool:
    """Whether a function counts by its name: it says so, and a library that is loaded has written it."""
    if not isinstance(function, FunctionType):
        return is_library(function.__module__)
    name = function.__globals__.get("__name__")
    module = sys.modules.get(name) if isinstance(name, str) else None
    written = module is not None and function.__globals__ is vars(module) and is_library(name)
    return written and is_library(function.__module__) and not function.__closure__


def is_class_of_library(kind: type) -> bool:
    """Whether a class counts by its name: it says so, and is found there, or is written in C."""
    if not is_library(kind.__module__):
        return False
    found: Any = sys.modules.get(kind.__module__)
    for name in kind.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is kind or not kind.__flags__ & _IN_PYTHON


def forget() -> None:
    """Look anew at what modules have imported."""
    _reached.clear()


def reachable(module: str) -> frozenset[str]:
    """The extending modules among a module and those that it has imported something from, transitively."""
    if module not in _reached:
        found: set[str] = set()
        known: set[str] = set()
        waiting = {module}
        while waiting:
            found |= waiting
            known.update(*(_reached[name] for name in waiting if name in _reached))
            waiting = set().union(*(_origins(name) for name in waiting if name not in _reached)) - found
        _reached[module] = frozenset(known.union(filter(_extends, found)))
    return _reached[module]


def _origins(name: str) -> frozenset[str]:
    """The modules, but for libraries, whose objects a module has imported so far."""
    module = sys.modules.get(name)
    if module is None or name.startswith(_COMPILING):
        return frozenset()
    spec, known = getattr(module, "__spec__", None), _imports.get(name)
    if known is not None and known[0] is module:
        return known[1]
    named = {
        value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", None)
        for value in list(vars(module).values())
    }
    found = frozenset(one for one in named if isinstance(one, str) and one in sys.modules and not is_library(one))
    if spec is not None and not getattr(spec, "_initializing", False):  # all there is
        _imports[name] = module, found
    return found


@functools.cache
def _numbas() -> dict[int, Any]:
    return {id(value): value for value in EXTENDING}


def _extends(name: str) -> bool:
    """Whether a module tells numba about more than its kernels."""
    module = sys.modules.get(name)
    if module is None or name.startswith(_COMPILING):
        return False
    known = _extending.get(name)
    if known is not None and known[0] is module:
        return known[1]
    values = list(vars(module).values())
    found = any(id(one) in _numbas() or getattr(one, "__module__", None) == _TEMPLATES for one in values)
    if not found and any(value is numba or value is numba.extending for value in values):
        path = getattr(module, "__file__", None)
        found = path is None or _SPELT.search(source_of(path)) is not None
    spec = getattr(module, "__spec__", None)
    if spec is not None and not getattr(spec, "_initializing", False):
        _extending[name] = module, found
    return found
