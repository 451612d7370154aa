"""Numbers of structs that kernels write (variables.py), many at a time, between kernels and Python's objects."""

from collections.abc import Callable, Mapping
from functools import cache
from math import prod
from struct import pack_into, unpack_from
from typing import Any, TypeVar

import numpy as np
from numba.types import Integer

from ddp.machine.struct import Struct, _here
from ddp.machine.variables import _Variable

S = TypeVar("S", bound=Struct)

address = _here
"""Address of an array: see `ddp.machine.struct`."""

_kind: Callable[[Struct], Any] = type
"""Class of a struct, for functions with a cache: mypy takes classes with a hash of their own for none that have one."""


def filled(kind: type[S], **given: Any) -> S:
    """A struct of some values, all else zero or nothing: in a fifth of the time of ``kind(**values)``.

    Arrays may be given by their addresses alone, where kernels need no pitch and count of them.
    """
    own_kind: Any = kind
    format, zeros, places, blank = _blank(own_kind)
    fields, words = kind._fields, zeros.copy()
    for name, value in given.items():
        place, own = places[name], type(value)
        if own is int or own is float:
            words[place] = value
            continue
        field = fields[name]
        given[name] = value = field.checked(value)
        if own is np.ndarray:
            words[place] = _here(value)
            if field.words == 3:
                shape = value.shape
                words[place + 1 : place + 3] = shape[1] if len(shape) == 2 else prod(shape[1:]), shape[0]
        else:
            written = field.written(value, _here)
            words[place : place + len(written)] = written
    struct = object.__new__(kind)
    struct._values, struct._words = blank | given, np.empty(len(words), dtype=np.int64)
    pack_into(format, struct._words, 0, *words)
    struct.start = struct.address = _here(struct._words)
    return struct


def copied(struct: S) -> S:
    """A struct of the same words, some of which may be assigned others: in a tenth of the time of ``replace``."""
    twin = object.__new__(type(struct))
    twin._values, twin._words = dict(struct._values), struct._words.copy()
    twin.start = twin.address = address(twin._words)
    return twin


def assign(struct: Struct, numbers: Mapping[str, float]) -> None:
    """Assign numbers by name, for kernels alone: attributes of Python's do not show them."""
    words, places = struct._words, _places(_kind(struct))
    for name, value in numbers.items():
        form, place = places[name]
        pack_into(form, words, place, value)


def read_one(struct: Struct, name: str) -> Any:
    """A number as kernels left it."""
    form, place = _places(_kind(struct))[name]
    return unpack_from(form, struct._words, place)[0]


def read_all(struct: Struct, names: tuple[str, ...]) -> list[Any]:
    """Numbers as kernels left them."""
    words, places = struct._words, _places(_kind(struct))
    return [unpack_from(places[name][0], words, places[name][1])[0] for name in names]


def point_to(struct: Struct, **addresses: int) -> None:
    """Write addresses and other integers by name, of arrays of the same shapes; for kernels alone, see `assign`."""
    words, places = struct._words, struct._places
    for name, value in addresses.items():
        words[places[name]] = value


class Numbers:
    """Numbers of a struct that kernels write, as attributes: read and written where kernels have them."""

    def __init__(self, struct: Struct) -> None:
        vars(self)["_struct"] = struct

    def __getattr__(self, name: str) -> Any:
        return read_one(self._struct, name)

    def __setattr__(self, name: str, value: float) -> None:
        assign(self._struct, {name: value})


def write_like(struct: Struct, example: object) -> None:
    """Give a struct of `variables.made_like` an object's numbers."""
    own = vars(example)
    assign(struct, {name: own[name] for name in _places(_kind(struct))})
    for name in _lists(_kind(struct)):
        struct._values[name][:] = own[name]


def read_like(struct: Struct, example: object) -> None:
    """Give an object the numbers of a struct of `variables.made_like`, as kernels left them."""
    own, names = vars(example), tuple(_places(_kind(struct)))
    own.update(zip(names, read_all(struct, names), strict=True))
    own.update({name: struct._values[name].tolist() for name in _lists(_kind(struct))})


@cache
def _blank(kind: Any) -> tuple[str, list[float], dict[str, int], dict[str, Any]]:
    """Format of a struct's words, these as zeros, where each field begins, and the fields' values: numbers are zero."""
    format = kind._format
    return format, [0] * len(format), kind._places, {
        name: 0 if isinstance(field.kind, Integer) else 0.0 if field.is_real else None
        for name, field in kind._fields.items()
    }  # fmt: skip


@cache
def _places(kind: Any) -> dict[str, tuple[str, int]]:
    """Formats and places [bytes] of the numbers that kernels write."""
    own = kind._fields.items()
    return {name: (field.format, 8 * kind._places[name]) for name, field in own if isinstance(field, _Variable)}


@cache
def _lists(kind: Any) -> list[str]:
    """Names of all other fields."""
    return [name for name, field in kind._fields.items() if not isinstance(field, _Variable)]
