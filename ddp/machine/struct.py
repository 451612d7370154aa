# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-subclassing-any
"""Structs: a few words behind one address, written by Python and read by kernels.

Python makes a struct of numbers and arrays, which it keeps alive; kernels read words by name.

    class Chain(Struct):
        n: int = integer()
        h: float = real()
        parent: Indices = integers()         # a vector of int64
        mass: Array = reals(3)               # rows of three floats
        cost: Array = matrix()               # (N, m), m known at run time
        out: Array = reals(constant=False)   # kernels may write to it
        next: Chain | None = nested()        # another struct
        others: tuple[Chain, ...] = several()  # addresses of structs: Chain(chain.others[0])

    chain = Chain(n=2, h=0.1, parent=[-1, 0], mass=M, cost=C, out=np.zeros(2), next=None, others=[])
    chain.h = 0.2                            # between calls
    total(chain.address)                     # or total(chain), which takes Python 1 µs longer

    @kernel
    def total(address):
        chain = Chain(address)               # of an address, or of a Chain as it is
        for i in range(chain.n):
            chain.out[i] = chain.h * chain.mass[i, 0]
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from ctypes import addressof, c_char
from math import prod
from struct import calcsize, pack_into
from typing import Any, ClassVar, Self

import numpy as np
from numba import types
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_builtin,
    lower_getattr_generic,
    models,
    register_model,
    type_callable,
    typeof_impl,
    unbox,
)

from ddp.machine.memory import WORD, RowsType, made, read_word

Place = Callable[[Any], int]
"""Gives the address of an array: where it is, or where a copy of it is on another device."""


_begin_of = (c_char * 0).from_buffer
"""None of the bytes of a writeable buffer, at its address."""


def _here(array: Any) -> int:
    """Address of an array in the memory of the processor: by its buffer, in a third of the time of ``array.ctypes``."""
    try:
        return addressof(_begin_of(array))
    except TypeError:  # it is read-only
        return int(array.ctypes.data)


class _Word:
    """A number of a struct."""

    words = 1

    def __init__(self, kind: Any) -> None:
        self.kind, self.is_real = kind, kind == types.float64

    @property
    def format(self) -> str:
        """Format of the words, as Python's ``struct`` names them."""
        return "d" if self.is_real else "q" * self.words

    def __set_name__(self, owner: Any, name: str) -> None:
        self.name = name

    def __get__(self, struct: Any, owner: Any = None) -> Any:
        return self if struct is None else struct._values[self.name]

    def __set__(self, struct: Any, value: Any) -> None:
        struct._values[self.name] = value = self.checked(value)
        pack_into(self.format, struct._words, 8 * struct._places[self.name], *self.written(value, _here))

    def checked(self, value: Any) -> Any:
        return float(value) if self.is_real else int(value)

    def written(self, value: Any, place: Place) -> tuple[float, ...]:
        return (value,)

    def described(self) -> str:
        return str(self.kind)

    def read(self, context: Any, builder: Any, address: Any, begin: int) -> Any:
        return read_word(context, builder, address, begin, self.kind)


class _Rows(_Word):
    """An array of a struct: its address and, of a matrix, pitch and count."""

    def __init__(self, number: Any, columns: int | None, constant: bool) -> None:
        super().__init__(RowsType(number, columns, constant=constant))
        self.dtype = np.dtype(np.int64 if number == types.int64 else np.float64)
        self.words = 3 if columns is None else 1
        self.is_of_any_shape = columns in (None, 1)

    def checked(self, value: Any) -> Any:
        is_known = self.is_of_any_shape and type(value) is np.ndarray and value.dtype is self.dtype
        if is_known and value.flags.c_contiguous:
            return value
        array = np.asarray(value, dtype=self.dtype)
        if not array.flags.c_contiguous:
            array = np.ascontiguousarray(array)
        if not (self.kind.constant or array is value or not array.size or np.may_share_memory(array, value)):
            raise TypeError(f"{self.name}: expected a contiguous array of {self.dtype}, to be written to")
        if self.kind.columns is not None and array.size % self.kind.columns:
            raise TypeError(f"{self.name}: expected rows of {self.kind.columns} numbers, got shape {array.shape}")
        return array

    def written(self, value: Any, place: Place) -> tuple[float, ...]:
        start = place(value)
        return (start,) if self.words == 1 else (start, prod(value.shape[1:]), len(value))

    def read(self, context: Any, builder: Any, address: Any, begin: int) -> Any:
        start = builder.inttoptr(
            read_word(context, builder, address, begin), context.get_data_type(self.kind.number).as_pointer()
        )
        sizes = [read_word(context, builder, address, begin + k) for k in range(1, self.words)]
        return made(context, builder, self.kind, start, *sizes)


class _Nested(_Word):
    """Another struct, or 0 for none."""

    def checked(self, value: Any) -> Any:
        return value

    def written(self, value: Any, place: Place) -> tuple[float, ...]:
        if not isinstance(value, Struct):
            return (0,)
        if place is not _here:
            return (place(value.words(place)),)
        return (value.start if type(value).struct_type is self.kind else value.address,)

    def read(self, context: Any, builder: Any, address: Any, begin: int) -> Any:
        return read_word(context, builder, address, begin)


class _Structs(tuple[Any, ...]):
    """Structs, and an array of their addresses."""

    addresses: Any


class _Several(_Word):
    """Some structs, as integers that are their addresses."""

    def checked(self, value: Any) -> Any:
        kept = _Structs(value)
        kept.addresses = np.array([struct.address for struct in kept], dtype=np.int64)
        return kept

    def written(self, value: Any, place: Place) -> tuple[float, ...]:
        if place is not _here:
            return (place(np.array([place(struct.words(place)) for struct in value], dtype=np.int64)),)
        return (place(value.addresses),)

    read = _Rows.read


def nested(struct: type[Struct] | None = None) -> Any:
    """Another struct, of the same class by default, which is kept alive; None if there is none."""
    return _Nested(None if struct is None else struct.struct_type)


def several() -> Any:
    """Structs, which are kept alive; in kernels integers, their addresses."""
    return _Several(RowsType(types.int64, 1, constant=True))


def integer() -> Any:
    """An integer, or an address, of a struct."""
    return _Word(types.int64)


def real() -> Any:
    """A float of a struct."""
    return _Word(types.float64)


def integers(columns: int = 1, constant: bool = True) -> Any:
    """Rows of integers of a struct."""
    return _Rows(types.int64, columns, constant)


def reals(columns: int = 1, constant: bool = True) -> Any:
    """Rows of floats of a struct."""
    return _Rows(types.float64, columns, constant)


def integer_matrix(constant: bool = True) -> Any:
    """A matrix of integers of a struct, (N, ...) as N flat rows."""
    return _Rows(types.int64, None, constant)


def matrix(constant: bool = True) -> Any:
    """A matrix of floats of a struct, (N, ...) as N flat rows."""
    return _Rows(types.float64, None, constant)


def named(cls: type, described: str) -> str:
    """A name of what a class declares: short, since symbols are made of it, and another after a change."""
    digest = hashlib.sha256(f"{cls.__module__} {described}".encode()).hexdigest()
    return f"{cls.__qualname__}_{digest[:12]}"


class StructType(types.Type):
    """A struct by its address."""

    def __init__(self, struct: type[Struct]) -> None:
        self.struct = struct
        super().__init__(name=named(struct, struct.__declared__[0]))


@register_model(StructType)
class _StructModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, WORD)


class Struct:
    """Words by name behind one ``address``, alive as long as this object is.

    A class derived from another begins with its words: kernels keep the class of what they are given.
    ``start``: the address, which a derived class may refuse to hand to kernels of the class it is derived from.
    """

    _fields: ClassVar[dict[str, Any]]
    _places: ClassVar[dict[str, int]]
    _format: ClassVar[str]
    __declared__: ClassVar[tuple[Any, ...]]
    """All of its fields, and their classes, as keys of kernels know them."""
    struct_type: ClassVar[StructType]

    def __init__(self, address: Any = None, **values: Any) -> None:
        if address is not None:
            raise TypeError(f"{type(self).__name__} of an address is for kernels")
        if values.keys() != self._fields.keys():
            raise TypeError(f"expected values of {sorted(self._fields)}, got {sorted(values)}")
        self._values = {name: field.checked(values[name]) for name, field in self._fields.items()}
        self._words = self.words(_here)
        self.start = self.address = _here(self._words)

    def __init_subclass__(cls) -> None:
        declared = [item for one in reversed(cls.__mro__) for item in vars(one).items()]
        cls._fields = {name: value for name, value in declared if isinstance(value, _Word)}
        cls._places, begin = {}, 0
        for name, field in cls._fields.items():
            cls._places[name] = begin
            begin += field.words
        cls._format = "".join(field.format for field in cls._fields.values())
        described = ", ".join(f"{name}: {field.described()}" for name, field in cls._fields.items())
        cls.__declared__ = described, *dict.fromkeys(map(type, cls._fields.values()))
        cls.struct_type = StructType(cls)
        for field in cls._fields.values():
            field.kind = cls.struct_type if field.kind is None else field.kind
        type_callable(cls)(_typer_of_struct(cls.struct_type))
        lower_builtin(cls, types.Integer)(_itself)
        lower_builtin(cls, StructType)(_itself)

    def words(self, place: Place) -> Any:
        """The words of a copy whose arrays, and structs that it names, are where ``place`` puts them."""
        values = self._values
        made: Any = np.empty(calcsize(self._format) // 8, dtype=np.int64)
        words = [word for name, field in self._fields.items() for word in field.written(values[name], place)]
        pack_into(self._format, made, 0, *words)
        return made

    def replace(self, **changes: Any) -> Self:
        """A copy with other values of some names."""
        return type(self)(**{**self._values, **changes})

    def equals(self, other: Self) -> bool:
        """Whether all values are those of another."""
        return all(np.array_equal(value, other._values[name]) for name, value in self._values.items())

    def __reduce__(self) -> Any:
        return _remade, (type(self), self._values)


def _remade(cls: type[Struct], values: dict[str, Any]) -> Struct:
    return cls(**values)


def _typer_of_struct(kind: StructType) -> Any:
    def typer(context):
        def result(value):
            if isinstance(value, StructType) and issubclass(value.struct, kind.struct):
                return value(value)
            return kind(types.int64) if isinstance(value, types.Integer) else None

        return result

    return typer


def _itself(context, builder, sig, args):
    return args[0]


@typeof_impl.register(Struct)
def _typeof(value, context):
    return type(value).struct_type


@unbox(StructType)
def _unbox(kind, value, c):
    held = c.pyapi.object_getattr_string(value, "start")
    address = c.pyapi.long_as_longlong(held)
    c.pyapi.decref(held)
    return NativeValue(address, is_error=c.pyapi.c_api_error())


@infer_getattr
class _StructAttributes(AttributeTemplate):
    key = StructType

    def generic_resolve(self, kind: Any, name: str) -> Any:
        field = kind.struct._fields.get(name)
        if field is None:
            return types.int64 if name == "address" else None
        return field.kind


@lower_getattr_generic(StructType)
def struct_attribute(context, builder, kind, value, name):
    """Read a word, rows or an address of a struct by its name."""
    if name == "address":
        return value
    return kind.struct._fields[name].read(context, builder, value, kind.struct._places[name])
