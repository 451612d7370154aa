"""Digests of functions: equal for equal functions, in any process, wherever their files are.

Each is made of a function's bytecode and constants and, transitively, of the values of every global and closure cell
that it names: numbers, tuples, arrays, records with the names of their fields, other functions and kernels, and the
Python code of numba's extensions that writes instructions. Names of files, lines, comments and docstrings do not count.
Functions and classes of Python, numpy, numba and llvmlite count by their names: the caller adds their versions.

Extensions that no kernel names, the `overload` of a function or what an operator does for a type, count with their
modules: those that a function's module has imported, with all their functions and their source.
"""

from __future__ import annotations

import enum
import hashlib
import struct
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

from ddp.compiling import extensions
from ddp.compiling.extensions import UnknownError
from ddp.compiling.values import add_value

_DOCUMENTED = 0x4000000
"""The flag of code objects with docstrings, from Python 3.13 on."""

_OF_PYTHON = {"_abc_impl", "_is_protocol", "_is_runtime_protocol"}
"""Attributes that Python gives classes."""

chosen: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
"""Function -> what chooses the kernel that stands for it, see `kernel.by_types`."""


class Digest(NamedTuple):
    """The digest of a function, and the modules of all that it names."""

    own: bytes
    modules: frozenset[str]


class _Known(NamedTuple):
    """A digest, and what it holds for.

    reads: what has been looked up, as (a reference to whose variable it is, its name, a reference to the value).
    parts: what it names that has a digest of its own, and that digest.
    lasting: whether none of it can change in place.
    """

    digest: Digest
    reads: tuple[Any, ...]
    parts: tuple[Any, ...]
    lasting: bool


class _Content:
    """Content of a function or class, but for the functions and classes that it names: these are listed.

    hash: all the rest, with a mark where something is named. named: those, in order; in a list, what has no order.
    reads, lasting: as in `_Known`. modules: those of itself.
    """

    def __init__(self) -> None:
        self.hash, self.lasting = hashlib.sha256(), True
        self.named: list[Any] = []
        self.reads: list[Any] = []
        self.modules: set[str] = set()

    def digest(self, of: Callable[[Any], bytes]) -> bytes:
        """The digest, by those of what is named."""
        total = self.hash.copy()
        for one in self.named:
            total.update(b"".join(sorted(part.digest(of) for part in one)) if type(one) is list else of(one))
        return total.digest()

    def parts(self) -> Iterator[Any]:
        """All functions and classes that are named."""
        for one in self.named:
            if type(one) is list:
                yield from chain.from_iterable(part.parts() for part in one)
            else:
                yield one


class _Visit:
    """A function or class whose digest is being made; ``low``: the first on the stack that it leads back to."""

    def __init__(self, thing: Any, content: _Content, place: int) -> None:
        self.thing, self.content, self.place, self.low = thing, content, place, place
        self.rest = content.parts()


_known: weakref.WeakKeyDictionary[Any, _Known] = weakref.WeakKeyDictionary()
_current: weakref.WeakSet[Any] = weakref.WeakSet()
_digests: dict[int, tuple[Any, bytes | None]] = {}
_depth = 0
_extensions: dict[str, tuple[Any, bytes]] = {}


@contextmanager
def unchanging() -> Iterator[None]:
    """Within the block nothing that functions name changes, so that each is looked at once."""
    global _depth
    if not _depth:
        _current.clear()
        extensions.forget()
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        if not _depth:
            _digests.clear()


def digest(thing: Any) -> bytes | None:
    """The digest of a function, a kernel or a type; None if something that it names has none."""
    with unchanging():
        known = _digests.get(id(thing))
        if known is None:
            known = _digests[id(thing)] = thing, _digest(thing)
        return known[1]


def _digest(thing: Any) -> bytes | None:
    try:
        own, modules = _Walk().of(thing)
        total = hashlib.sha256(own)
        for name in sorted(set().union(*map(extensions.reachable, modules))):
            total.update(_extension(name))
        return total.digest()
    except (UnknownError, RecursionError):
        return None


class _Walk:
    """The way from a function through all that it names, by Tarjan's algorithm for what leads back to itself."""

    def __init__(self) -> None:
        self._stack: list[_Visit] = []
        self._open: dict[int, _Visit] = {}

    def of(self, thing: Any) -> Digest:
        """The digest of what is no part of anything."""
        top = _Content()
        self.add(top, thing)
        modules = set(top.modules)
        for part in top.parts():
            if not self._is_known(part):
                self._settle(part)
            modules |= _known[part].digest.modules
        return Digest(top.digest(_own), frozenset(modules))

    # -- functions and classes: what has a digest of its own ------------------------------------------

    def _settle(self, thing: Any) -> None:
        """Make the digests of a function or class and of all that it names."""
        way = [self._enter(thing)]
        while way:
            visit = way[-1]
            for part in visit.rest:
                if id(part) in self._open:
                    visit.low = min(visit.low, self._open[id(part)].place)
                elif not self._is_known(part):
                    way.append(self._enter(part))
                    break
            else:
                way.pop()
                if way:
                    way[-1].low = min(way[-1].low, visit.low)
                if visit.low == visit.place:
                    self._close(self._stack[visit.place :])

    def _enter(self, thing: Any) -> _Visit:
        content = _Content()
        (self._class if isinstance(thing, type) else self._function)(content, thing)
        visit = self._open[id(thing)] = _Visit(thing, content, len(self._stack))
        self._stack.append(visit)
        return visit

    def _close(self, those: list[_Visit]) -> None:
        """Make the digests of functions and classes that all lead to each other, wherever one has begun.

        All begin equal, and are told apart by what they name until no more of them differ (the refinement of a
        partition). Equal digests at the end mean that whatever way one follows through both is the same.
        """
        digests, different, before = {id(one.thing): bytes(32) for one in those}, 1, 0

        def of(part: Any) -> bytes:
            return digests[id(part)] if id(part) in digests else _own(part)

        while different > before:
            digests, before = {id(one.thing): one.content.digest(of) for one in those}, different
            different = len(set(digests.values()))
        together = b"".join(sorted(digests.values()))
        digests = {thing: hashlib.sha256(own + together).digest() for thing, own in digests.items()}
        modules = set().union(*(one.content.modules for one in those))
        for part in chain.from_iterable(one.content.parts() for one in those):
            modules |= set() if id(part) in digests else _known[part].digest.modules
        for one in those:
            parts = tuple((weakref.ref(part), of(part)) for part in one.content.parts())
            digest = Digest(digests[id(one.thing)], frozenset(modules))
            _known[one.thing] = _Known(digest, tuple(one.content.reads), parts, one.content.lasting)
            _current.add(one.thing)
            del self._open[id(one.thing)]
        del self._stack[-len(those) :]

    def _is_known(self, thing: Any) -> bool:
        known = _known.get(thing)
        return known is not None and self._is_current(thing, known)

    def _is_current(self, thing: Any, known: _Known) -> bool:
        """Whether nothing has changed that a digest was made of, and it leads to nothing that is on the way."""
        seen: dict[int, Any] = {}
        rest = [(thing, known)]
        while rest:
            one, its = rest.pop()
            if one in _current or id(one) in seen:
                continue
            seen[id(one)] = one
            if not its.lasting or id(one) in self._open:
                return False
            for owner, name, value in its.reads:
                if (of := owner()) is None or _look(of, name) is not value():
                    return False
            for part, own in its.parts:
                found = part()
                other = None if found is None else _known.get(found)
                if other is None or other.digest.own != own:
                    return False
                rest.append((found, other))
        _current.update(seen.values())
        return True

    def _function(self, into: _Content, function: FunctionType) -> None:
        into.modules |= {str(function.__module__), str(function.__globals__.get("__name__"))}
        self.tell(into, "function", str(function.__module__), function.__qualname__)
        self._code(into, function.__code__, function.__doc__)
        self.add(into, function.__defaults__)
        self.add(into, function.__kwdefaults__)
        cells = [self._read(into, function, place) for place in range(len(function.__code__.co_freevars))]
        variables = {name: self._read(into, function, name) for name in sorted(_names(function.__code__))}
        texts = (value for value in (*cells, *variables.values()) if type(value) is str)
        names = sorted({*variables, *texts})
        for name, value in zip(function.__code__.co_freevars, cells, strict=True):
            self.tell(into, "cell", name)
            self._named(into, value, names, set())
        for name, value in variables.items():
            if value is not _MISSING:
                self.tell(into, "global", name)
                self._named(into, value, names, set())
        if function in chosen:
            self.tell(into, "chosen")
            self.add(into, chosen[function])

    def _named(self, into: _Content, value: Any, names: list[str], seen: set[int]) -> None:
        """Add the value of a name; of a module, all that may be read of it."""
        self.add(into, value)
        if isinstance(value, ModuleType) and not extensions.is_library_itself(value) and id(value) not in seen:
            into.modules.add(value.__name__)
            seen.add(id(value))
            for name in names:
                found = self._read(into, value, name)
                if found is not _MISSING:
                    self.tell(into, "attribute", name)
                    self._named(into, found, names, seen)

    def _class(self, into: _Content, kind: type) -> None:
        into.modules.add(kind.__module__)
        self.tell(into, "class", str(kind.__module__), kind.__qualname__)
        self.each(into, "bases", kind.__bases__)
        fields = getattr(kind, "_fields", None)
        if issubclass(kind, tuple) and fields is not None:
            self.each(into, "fields", fields)
            return
        if issubclass(kind, enum.Enum):
            self.each(into, "members", [part for one in kind for part in (one.name, one.value)])
            return
        for name, value in vars(kind).items():
            is_code = isinstance(value, (FunctionType, staticmethod, classmethod, property))
            if is_code or not (name.startswith("__") or name in _OF_PYTHON):
                self.tell(into, "attribute", name)
                self.add(into, value)

    # -- values ---------------------------------------------------------------------------------------

    def add(self, into: _Content, value: Any) -> None:
        kind = type(value)
        if value is None or kind in (bool, int, float, complex, str, bytes, type(...)):
            self.tell(into, kind.__name__, repr(value))
        elif kind in (tuple, list):
            into.lasting = into.lasting and kind is tuple
            self.each(into, kind.__name__, value)
        elif isinstance(value, FunctionType):
            if extensions.is_function_of_library(value):
                self.tell(into, "library", value.__module__, value.__qualname__)
            else:
                self._refer(into, value)
        elif isinstance(value, type):
            if extensions.is_class_of_library(value):
                self.tell(into, "library", value.__module__, value.__qualname__)
            else:
                self._refer(into, value)
        elif isinstance(value, ModuleType):
            self.tell(into, "module", value.__name__)
        elif isinstance(value, CodeType):
            self._code(into, value, None)
        else:
            add_value(self, into, value)

    def _refer(self, into: _Content, value: Any) -> None:
        self.tell(into, "named")
        into.named.append(value)

    def _code(self, into: _Content, code: CodeType, documentation: str | None) -> None:
        """Instructions and constants, but for what says where they are from."""
        sizes = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & ~_DOCUMENTED
        names = code.co_name, *code.co_names, "", *code.co_varnames, "", *code.co_freevars, "", *code.co_cellvars
        self.tell(into, "code", str(sizes), *names)
        for part in (code.co_code, code.co_exceptiontable):
            into.hash.update(struct.pack("<q", len(part)) + part)
        constants = code.co_consts
        if constants and constants[0] is not None and constants[0] == documentation:
            constants = (None, *constants[1:])
        self.each(into, "constants", constants)

    # -- how it is written ----------------------------------------------------------------------------

    def each(self, into: _Content, what: str, values: Iterable[Any]) -> None:
        values = list(values)
        self.tell(into, what, str(len(values)))
        for value in values:
            self.add(into, value)

    def unordered(self, into: _Content, what: str, values: Iterable[Any]) -> None:
        contents = []
        for value in values:
            made = _Content()
            self.add(made, value)
            into.reads += made.reads
            into.modules |= made.modules
            into.lasting = into.lasting and made.lasting
            contents.append(made)
        self.tell(into, what, str(len(contents)))
        into.named.append(contents)

    @staticmethod
    def tell(into: _Content, *words: str) -> None:
        for word in words:
            raw = word.encode("utf-8", "surrogatepass")
            into.hash.update(struct.pack("<q", len(raw)) + raw)

    @staticmethod
    def _read(into: _Content, owner: Any, name: str | int) -> Any:
        """A variable of a function's or a module's; it is noted that it was read."""
        value = _look(owner, name)
        into.reads.append((weakref.ref(owner), name, _reference(value)))
        return value


_MISSING = object()


def _own(thing: Any) -> bytes:
    return _known[thing].digest.own


def _look(owner: Any, name: str | int) -> Any:
    if isinstance(name, str):
        variables: dict[str, Any] = vars(owner) if isinstance(owner, ModuleType) else owner.__globals__
        return variables.get(name, _MISSING)
    try:
        return owner.__closure__[name].cell_contents
    except ValueError:  # not set yet
        return _MISSING


def _reference(value: Any) -> Callable[[], Any]:
    """Function that gives a value back without keeping functions alive."""
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value


def _names(code: CodeType) -> set[str]:
    """All that code, and code in it, may read by a name: globals and attributes, also those given to getattr."""
    return set(code.co_names).union(*map(_names_in, code.co_consts))


def _names_in(constant: Any) -> set[str]:
    if isinstance(constant, CodeType):
        return _names(constant)
    if isinstance(constant, (tuple, frozenset)):
        return set().union(*map(_names_in, constant))
    return {constant} if isinstance(constant, str) and constant.isidentifier() else set()


def _extension(name: str) -> bytes:
    """The digest of a module that extends numba: its source, and what its functions name."""
    module, known = sys.modules[name], _extensions.get(name)
    if known is not None and known[0] is module:
        return known[1]
    total = hashlib.sha256(extensions.source_of(name))
    for key, value in list(vars(module).items()):
        if isinstance(value, (FunctionType, type)) and value.__module__ == name:
            total.update(key.encode())
            with suppress(UnknownError):  # of what is no kernel, and hardly writes instructions; its source counts
                total.update(_Walk().of(value).own)
    _extensions[name] = module, total.digest()
    return total.digest()
