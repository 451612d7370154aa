"""Identities of problems: the same in every process and every session, part by part, so that differences have names."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from copyreg import dispatch_table
from dataclasses import fields, is_dataclass
from functools import cached_property, partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from ddp.compiling import content
from ddp.compiling.extensions import is_library
from ddp.compiling.values import uncompiled
from ddp.guesses import Followed
from ddp.machine.struct import Struct
from ddp.packages import PACKAGES
from ddp.parallel.functions import digests_of
from ddp.places import things_of
from ddp.problem import Problem

Known = dict[int, tuple[Any, str]]
"""Objects and their digests, by their ids, which are theirs only while the objects are held."""

GLOBAL = np.random.get_state.__self__  # type: ignore[attr-defined]
"""NumPy's own random numbers, which are others in every process: distributions of SciPy hold them."""

DATA = bool, int, float, complex, str, tuple, list, np.ndarray, np.generic
"""Types of attributes of users' classes that count."""


def identity_of(problem: Problem, solver: object) -> dict[str, str]:
    """Digests of all that decides about solutions, by the names of the problem's parts."""
    traced = {_place(name) for name, digest in digests_of(problem).items() if digest}
    known = Known(), Known()
    found = dict[str, str]()
    for name, part in parts_of(problem, solver).items():
        code = _place(name) not in traced  # of what is traced counts what is read
        found[name] = digest(part, known[code], code)
    return found


def varied_of(problem: Problem, names: Iterable[str]) -> dict[str, Any]:
    """Numbers of a problem in places that vary, and its identity with these, which problems with others there share."""
    numbers = {name: problem.number(name) for name in names}
    try:
        found = identity_of(problem.varying(numbers), None)
    except Exception:  # samples may make problems where it makes none
        return {}
    return {"numbers": {name: value.tolist() for name, value in numbers.items()}, "problem": found}


def _place(name: str) -> str:
    """Place of a part, without its class."""
    return name.partition(" (")[0]


def parts_of(problem: Problem, solver: object) -> dict[str, Any]:
    """All that decides about solutions, by the names of the problem's parts."""
    parts: dict[str, Any] = {name: getattr(problem, name) for name in ("dynamics", "horizon", "x0", "lower", "upper")}
    guess = problem.guess
    parts["guess"] = (guess.X, guess.U, guess.K) if isinstance(guess, Followed) else guess
    for place in things_of(problem):
        thing = place.thing(problem)
        parts[f"{place} ({type(thing).__name__})"] = thing
    read = {f"what {name} reads": digest for name, digest in digests_of(problem).items() if digest}
    return parts | {"solver": solver} | read


def digest(value: Any, known: Known | None = None, code: bool = True) -> str:
    """Digest (16 hexadecimal digits) of plain data, arrays, structs, functions by their code, and objects of these.

    code: whether that of users' classes counts, and what users' functions name.
    """
    found = hashlib.sha256()
    _Reading(found, {} if known is None else known, code).read(value)
    return found.hexdigest()[:16]


def difference(here: Mapping[str, str], there: Mapping[str, str]) -> str:
    """Names of the parts that differ, as a fragment of a sentence; empty if none does."""
    differing = [name for name in {**here, **there} if here.get(name) != there.get(name)]
    return ", ".join(differing[:4]) + (", ..." if len(differing) > 4 else "")


class _Reading:
    """Writes the content of objects into a hash; objects that lead back to themselves count once."""

    def __init__(self, into: Any, known: Known, code: bool) -> None:
        self._into, self._known, self._open, self._code = into, known, set[int](), code

    def read(self, value: Any) -> None:
        self._into.update(type(value).__qualname__.encode() + b":")
        if isinstance(value, np.ndarray) and (value.dtype.hasobject or isinstance(value, np.ma.MaskedArray)):
            self._several([str(value.dtype), value.tolist()])  # bytes of the array are addresses, or lack the mask
        elif isinstance(value, np.ndarray):
            self._into.update(f"{value.dtype} {value.shape}".encode() + np.ascontiguousarray(value).tobytes())
        elif value is None or isinstance(value, (bool, int, float, complex, str, bytes, range, np.generic)):
            self._into.update(repr(value).encode())
        elif isinstance(value, (tuple, list)):
            self._several(value)
        elif isinstance(value, Mapping):
            self._several([part for item in value.items() for part in item])
        elif isinstance(value, CodeType):
            self._into.update(value.co_code)
            self._several([value.co_consts, value.co_names, value.co_varnames])
        elif isinstance(value, type):
            self._into.update(f"{value.__module__}.{value.__qualname__}".encode())
        elif isinstance(value, ModuleType):
            self._into.update(value.__name__.encode())
        else:
            self._object(value)

    def _several(self, parts: Any) -> None:
        self._into.update(f"{len(parts)}(".encode())
        for part in parts:
            self.read(part)

    def _object(self, value: Any) -> None:
        """Digest of an object, made once: robots are in many terms."""
        if id(value) not in self._known:
            if id(value) in self._open:
                return
            self._open.add(id(value))
            outer, self._into = self._into, hashlib.sha256()
            self.read(_content(value))
            if self._code:
                self.read(_code_of(value))
            self._known[id(value)] = value, self._into.hexdigest()
            self._into = outer
        self._into.update(self._known[id(value)][1].encode())


def _code_of(value: Any) -> Any:
    """All that decides about what a user's function does, or the methods of an object; None of what is no user's."""
    thing = value if isinstance(value, FunctionType) else type(value)
    if not _is_users(thing.__module__):
        return None
    data = [_data_of(one) for one in _reached(thing)]  # digests of code are made once
    if (known := content.digest(thing)) is not None:
        return known, data
    if isinstance(value, FunctionType):
        return _named_by(value.__code__, value.__globals__), data
    own = [vars(kind) for kind in type(value).__mro__ if not is_library(kind.__module__)]
    return data, [{name: part for name, part in one.items() if isinstance(part, FunctionType)} for one in own]


def _reached(thing: Any) -> list[Any]:
    """Users' functions and classes that one of them leads to, each once."""
    found, rest = dict[int, Any](), [thing]
    while rest:
        one = rest.pop()
        if isinstance(one, (tuple, list)):
            rest += [part for part in one if not isinstance(part, (int, float))]
        elif isinstance(one, (staticmethod, classmethod, MethodType)):
            rest.append(one.__func__)
        elif not isinstance(one, (FunctionType, type)):
            rest.append(uncompiled(one) or type(one))
        elif id(one) not in found and _is_users(one.__module__):
            found[id(one)] = one
            if isinstance(one, type):
                rest += [*one.__bases__, *vars(one).values()]
            else:
                cells = [cell.cell_contents for cell in one.__closure__ or ()]
                rest += [*_named_by(one.__code__, one.__globals__).values(), *cells, *(one.__defaults__ or ())]
    return list(found.values())


def _is_users(module: str | None) -> bool:
    module = module or ""
    return not (_is_own(module) or is_library(module or "no library") or module.partition(".")[0] == "scipy")


def _data_of(thing: Any) -> list[Any]:
    """Numbers, texts and arrays that a user's class or function has as attributes."""
    return [item for item in vars(thing).items() if not item[0].startswith("__") and isinstance(item[1], DATA)]


def _named_by(code: CodeType, known: dict[str, Any]) -> dict[str, Any]:
    """Global variables that a function names, those that functions within it do, and what it names of modules."""
    found = {name: known[name] for name in code.co_names if name in known}
    for module in [part for part in found.values() if isinstance(part, ModuleType) and _is_users(part.__name__)]:
        found |= {name: vars(module)[name] for name in code.co_names if name in vars(module) and name not in found}
    for inner in code.co_consts:
        found |= _named_by(inner, known) if isinstance(inner, CodeType) else {}
    return found


def _is_own(module: str) -> bool:
    return module.partition(".")[0] in PACKAGES


def _content(value: Any) -> Any:
    """Plain data, arrays and other objects that an object is made of."""
    if _is_own(type(value).__module__) and (own := getattr(value, "identity", None)) is not None:
        return own()
    if isinstance(value, Struct):
        return {name: getattr(value, name) for name in value._fields}
    if isinstance(value, FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        return value.__qualname__, value.__code__, value.__defaults__ or (), value.__kwdefaults__, cells, vars(value)
    if isinstance(value, MethodType):
        return value.__func__, value.__self__
    if isinstance(value, (BuiltinFunctionType, np.ufunc)) or value is GLOBAL:
        return "numpy.random" if value is GLOBAL else value.__name__
    if isinstance(value, partial):
        return value.func, value.args, value.keywords
    if hasattr(value, "homogeneous"):
        return np.asarray(value.homogeneous)
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value) if field.init}
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    if (function := uncompiled(value)) is not None:
        return function
    if (reduced := _reduced(value)) is not None:
        return reduced
    state = value.__getstate__()
    if isinstance(state, dict):  # what has been asked for is kept there, and says nothing more
        own = {name: getattr(type(value), name, None) for name in state}
        state = {name: part for name, part in state.items() if not isinstance(own[name], cached_property)}
    return state or type(value).__qualname__


def _reduced(value: Any) -> Any:
    """Parts of an object whose class says itself how it is pickled; None of others, and of what cannot be."""
    kind = type(value)
    with suppress(Exception):
        if kind in dispatch_table:
            return dispatch_table[kind](value)
        if any(getattr(kind, name) is not getattr(object, name) for name in ("__reduce_ex__", "__reduce__")):
            found = value.__reduce_ex__(4)
            return [list(part) if isinstance(part, Iterator) else part for part in found]
    return None
