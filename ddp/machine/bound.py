"""C functions of kernels with bound arguments: words behind one address for numbers, arrays, structs and tuples."""

import copy
import hashlib
import itertools
from array import array
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from typing import Any, Self

import numba
import numpy as np
from numba import types

from ddp.compiling.kernel import callback, inline, specialised
from ddp.machine.addresses import array_at, integers_at
from ddp.machine.struct import Struct, StructType
from ddp.machine.written import address


class Bound:
    """A C function of kernels, at ``address``, with its arguments bound, at ``context``.

    template, kernels: as of `c_function`.
    arguments: numbers, arrays, structs, other bound functions, and tuples of these; copied where they must be.

    Pickles have the arguments alone; they are bound again where an address is asked for.
    """

    def __init__(self, template: Callable[..., Any], kernels: dict[str, Any], arguments: tuple[Any, ...]) -> None:
        self._template, self._kernels, self._arguments, self._owner = template, kernels, arguments, ()
        _ = self._here  # what cannot be compiled is told now

    @cached_property
    def _here(self) -> tuple[int, int, Any]:
        found: list[int] = []
        kept: list[Any] = []
        function = c_function(self._template, read(self._arguments, found, kept), **self._kernels)
        words = array("q", found)
        return function.address, words.buffer_info()[0], (words, kept, function)

    @property
    def address(self) -> int:
        """Address of the C function."""
        return self._here[0]

    @property
    def context(self) -> int:
        """Address of its arguments."""
        return self._here[1]

    def owned(self, *owner: Any) -> Self:
        """Copy for arguments of which some are addresses, that keeps alive what these point to. It cannot be sent."""
        other = copy.copy(self)
        other._here, other._owner = self._here, owner
        return other

    @property
    def can_be_sent(self) -> bool:
        """Whether none of the arguments is an address."""
        return not self._owner

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_here"}


@cache
def c_function(template: Callable[..., Any], outline: Any, **kernels: Any) -> Any:
    """Compile a template ``(context, block, order, first)`` whose module has these kernels for some of its names.

    outline: of arguments, see `read`; ``bound`` is another name there, of what reads them at ``context``.
    """
    kind = kind_of(outline)
    described = f"{[f'{one.__module__}.{one.__name__}' for one in kernels.values()]} {kind}"
    name = f"{next(iter(kernels.values())).__name__}_{hashlib.sha256(described.encode()).hexdigest()[:16]}"
    return callback(specialised(template, name, bound=reader_of(kind), **kernels))


def read(value: Any, words: list[int], kept: list[Any]) -> Any:
    """Add the words of a value: of an array its address and shape, of a tuple those of its parts.

    Returns the value's outline: all that decides about the type that kernels see of it, quick to make and to compare.
    Terms are bound at every step of some horizons: numba's own `typeof` takes ten times as long, and hashes of its
    types several times.   kept: takes what addresses point to.
    """
    if isinstance(value, np.ndarray):
        array = value if value.flags.c_contiguous else np.ascontiguousarray(value)
        kept.append(array)
        start = address(array) if array.flags.writeable else array.ctypes.data  # which `address` would find out late
        words += (start, *array.shape)
        return array.dtype.char, array.ndim
    if isinstance(value, tuple):
        return type(value), *[read(part, words, kept) for part in value]
    if isinstance(value, Struct):
        kept.append(value)
        words.append(value.start)  # kernels see its own type
        return type(value)
    if isinstance(value, Bound):
        kept.append(value)
        words += value._here[:2]
        return tuple, int, int
    is_real = isinstance(value, float)
    words.append(int(np.float64(value).view(np.int64)) if is_real else int(value))
    return float if is_real else int


def kind_of(outline: Any) -> Any:
    """The type that kernels see: arrays contiguous and writeable, whatever they were, so that there is one of each."""
    if not isinstance(outline, tuple):
        return types.float64 if outline is float else types.int64 if outline is int else outline.struct_type
    made, *parts = outline
    if isinstance(made, str):
        return types.Array(numba.from_dtype(np.dtype(made)), parts[0], "C")
    kinds = tuple(map(kind_of, parts))
    if made is tuple:
        return types.BaseTuple.from_types(kinds)
    even = len(set(kinds)) == 1
    return types.NamedUniTuple(kinds[0], len(kinds), made) if even else types.NamedTuple(kinds, made)


def reader_of(kind: Any) -> Any:
    """For kernels: the value of a type whose words are at an address."""
    names = {"__name__": __name__, "array_at": array_at, "integers_at": integers_at}
    places = itertools.count()
    value = _written(kind, places, names)
    count = next(places)
    lines = (
        "def read(address):",
        f"    words, numbers = integers_at(address, ({count},)), array_at(address, ({count},))",
        f"    return {value}",
    )
    exec("\n".join(lines), names)
    return inline(names["read"])


def _written(kind: Any, places: Iterator[int], names: dict[str, Any]) -> str:
    """The value of a type in Python, of words from a place on; ``names`` takes the classes that it names."""
    if isinstance(kind, types.BaseTuple):
        parts = "".join(f"{_written(part, places, names)}, " for part in kind)
        return f"{_named(kind.instance_class, names) if isinstance(kind, types.BaseNamedTuple) else ''}({parts})"
    place = next(places)
    if isinstance(kind, types.Array):
        at = {types.float64: "array_at", types.int64: "integers_at"}[kind.dtype]
        shape = "".join(f"words[{next(places)}], " for _ in range(kind.ndim))
        return f"{at}(words[{place}], ({shape}))"
    if isinstance(kind, StructType):
        return f"{_named(kind.struct, names)}(words[{place}])"
    return f"{'numbers' if kind == types.float64 else 'words'}[{place}]"


def _named(thing: Any, names: dict[str, Any]) -> str:
    """A name for something, of which each other thing has another one."""
    name = f"{thing.__name__}_{len(names)}"
    names[name] = thing
    return name
