"""Content of functions and classes, but for the functions and classes that they name: bytes, and a list of these.

A function's is made of its bytecode and constants, and of the values of every global and closure cell that it names:
numbers, tuples, arrays, records with the names of their fields, other functions and kernels, and the Python code of
numba's extensions that writes instructions. Names of files, lines, comments and docstrings do not count. Functions and
classes of Python, numpy, numba and llvmlite count by their names: the caller adds their versions.
"""

import dis
import enum
import hashlib
import marshal
import re
import weakref
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from types import CodeType, FunctionType, ModuleType
from typing import Any

from ddp.compiling import extensions
from ddp.compiling.values import add_value

_FLAGS = 0xFFFC
"""Flags of code objects that say what a function is; profilers make numba take others from functions that it calls."""

_USES_FIRST = re.compile(b"(?:..)*?[" + re.escape(bytes(dis.hasconst)) + b"]\0", re.DOTALL)
"""Matches bytecode, two bytes an instruction, up to one that loads the first constant, where docstrings are."""

_OF_PYTHON = {"_abc_impl", "_is_protocol", "_is_runtime_protocol"}
"""Attributes that Python gives classes."""

_ALIKE = 0
"""The version of Python's ``marshal`` that writes equal values alike, whether or not they are one object."""

chosen: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
"""Function -> what chooses the kernel that stands for it, see `kernel.by_types`."""


class Content:
    """Content of a function or class, but for the functions and classes that it names: these are listed.

    words: all the rest, with a mark where something is named. named: those, in order; in a list, what has no order.
    reads, lasting: as in `_Known`. modules: those of itself.
    """

    def __init__(self) -> None:
        self.words: list[str | bytes] = []
        self.lasting = True
        self.named: list[Any] = []
        self.reads: list[Any] = []
        self.modules: set[str] = set()

    def digest(self, of: Callable[[Any], bytes]) -> bytes:
        """The digest, by those of what is named."""
        total = hashlib.sha256(marshal.dumps(self.words, _ALIKE))
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


def content_of(thing: Any) -> Content:
    """Content of a function or a class itself."""
    made = Content()
    (_READER.add_class if isinstance(thing, type) else _READER.add_function)(made, thing)
    return made


def content_of_value(value: Any) -> Content:
    """Content of any value: of a function, that it names it."""
    made = Content()
    _READER.add(made, value)
    return made


_MISSING = object()


class _Reader:
    """Adds what there is to contents; without state of its own."""

    def add_function(self, into: Content, function: FunctionType) -> None:
        into.modules |= {str(function.__module__), str(function.__globals__.get("__name__"))}
        self.tell(into, "function", str(function.__module__), function.__qualname__)
        self._code(into, function.__code__)
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

    def _named(self, into: Content, value: Any, names: list[str], seen: set[int]) -> None:
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

    def add_class(self, into: Content, kind: type) -> None:
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
        declared = getattr(kind, "__declared__", None)
        self.add(into, declared)
        for name, value in vars(kind).items():
            is_code = isinstance(value, (FunctionType, staticmethod, classmethod, property))
            if is_code or (declared is None and not (name.startswith("__") or name in _OF_PYTHON)):
                self.tell(into, "attribute", name)
                self.add(into, value)

    # -- values ---------------------------------------------------------------------------------------

    def add(self, into: Content, value: Any) -> None:
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
            self._code(into, value)
        else:
            add_value(self, into, value)

    def _refer(self, into: Content, value: Any) -> None:
        self.tell(into, "named")
        into.named.append(value)

    def _code(self, into: Content, code: CodeType) -> None:
        """Instructions and constants, but for what says where they are from, and docstrings."""
        sizes = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & _FLAGS
        names = code.co_name, *code.co_names, "", *code.co_varnames, "", *code.co_freevars, "", *code.co_cellvars
        self.tell(into, "code", str(sizes), *names)
        instructions, constants = code.co_code, code.co_consts
        into.words += instructions, code.co_exceptiontable
        if constants and type(constants[0]) is str and not _USES_FIRST.match(instructions):
            constants = (None, *constants[1:])
        self.each(into, "constants", constants)

    # -- how it is written ----------------------------------------------------------------------------

    def each(self, into: Content, what: str, values: Iterable[Any]) -> None:
        values = list(values)
        self.tell(into, what, str(len(values)))
        for value in values:
            self.add(into, value)

    def unordered(self, into: Content, what: str, values: Iterable[Any]) -> None:
        contents = []
        for value in values:
            made = Content()
            self.add(made, value)
            into.reads += made.reads
            into.modules |= made.modules
            into.lasting = into.lasting and made.lasting
            contents.append(made)
        self.tell(into, what, str(len(contents)))
        into.named.append(contents)

    @staticmethod
    def tell(into: Content, *words: str) -> None:
        into.words += words

    @staticmethod
    def _read(into: Content, owner: Any, name: str | int) -> Any:
        """A variable of a function's or a module's; it is noted that it was read."""
        value = look(owner, name)
        into.reads.append((weakref.ref(owner), name, _reference(value)))
        return value


_READER = _Reader()


def look(owner: Any, name: str | int) -> Any:
    """Find the value of a global of a function or a module, or of a closure cell by its place."""
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
