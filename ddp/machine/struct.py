# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-subclassing-any
"""Records of memory by declaration: structs that Python writes and kernels read, and kernels' working memory.

A *struct* is a few words behind one address. Python makes it of numbers and arrays, which it keeps alive; kernels read
words by name.

    class Chain(Struct):
        n: int = integer()
        h: float = real()
        parent: Indices = integers()         # a vector of int64
        mass: Array = reals(3)               # rows of three floats
        cost: Array = matrix()               # (N, m), m known at run time
        out: Array = reals(constant=False)   # kernels may write to it

    chain = Chain(n=2, h=0.1, parent=[-1, 0], mass=M, cost=C, out=np.zeros(2))
    chain.h = 0.2                            # between calls
    total(chain.address)                     # or total(chain), which takes Python 1 µs longer

    @kernel
    def total(address):
        chain = Chain(address)               # of an address, or of a Chain as it is
        for i in range(chain.n):
            chain.out[i] = chain.h * chain.mass[i, 0]

*Fields* are working memory: rows of any number (memory.py) in a row of memory, sized by words of a struct.

    class Bodies(Fields):
        R, p = rows("n", 9), rows("n", 3)    # of one count: side by side, so that a record is a pointer and constants
        x = vector("2 n + 1")                # apart, contiguous
        M = matrix_of("n", "n")              # apart

    ws = Bodies(memory, chain)               # in kernels: ws.R[b], ws.M[i, j], len(ws.M); ws.end is what follows
    Bodies.size(chain)                       # in Python: how many numbers it takes; or Bodies.size(n=2)

A count that the struct does not have is given after it: ``Contacts(memory, tree, m)``, ``Contacts.size(tree, m=4)``.
Nothing is initialised, and nothing checked.
"""

from __future__ import annotations

import hashlib
import re
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

from ddp.machine.memory import (
    WORD,
    RowsType,
    after,
    made,
    part,
    read_word,
    sum_of_products,
    word,
)

# -- structs -----------------------------------------------------------------------------------------


class _Word:
    """A number of a struct."""

    words = 1

    def __init__(self, kind: Any) -> None:
        self.kind = kind

    def __set_name__(self, owner: Any, name: str) -> None:
        self.name = name

    def __get__(self, struct: Any, owner: Any = None) -> Any:
        return self if struct is None else struct._values[self.name]

    def __set__(self, struct: Any, value: Any) -> None:
        struct._values[self.name] = value = self.checked(value)
        begin, written = struct._places[self.name], self.written(value)
        struct._words[begin : begin + len(written)] = written

    def checked(self, value: Any) -> Any:
        return float(value) if self.kind == types.float64 else int(value)

    def written(self, value: Any) -> list[int]:
        return [int(np.float64(value).view(np.int64)) if self.kind == types.float64 else value]

    def described(self) -> str:
        return str(self.kind)

    def read(self, context: Any, builder: Any, address: Any, begin: int) -> Any:
        return read_word(context, builder, address, begin, self.kind)


class _Rows(_Word):
    """An array of a struct: its address and, of a matrix, pitch and count."""

    def __init__(self, number: Any, columns: int | None, constant: bool) -> None:
        super().__init__(RowsType(number, columns, constant=constant))
        self.dtype = np.int64 if number == types.int64 else np.float64
        self.words = 3 if columns is None else 1

    def checked(self, value: Any) -> Any:
        array = np.asarray(value, dtype=self.dtype)
        if not array.flags.c_contiguous:
            array = np.ascontiguousarray(array)
        if not self.kind.constant and array is not value:
            raise TypeError(f"{self.name}: expected a contiguous array of {self.dtype.__name__}, to be written to")
        if self.kind.columns is not None and array.size % self.kind.columns:
            raise TypeError(f"{self.name}: expected rows of {self.kind.columns} numbers, got shape {array.shape}")
        return array

    def written(self, value: Any) -> list[int]:
        sizes = [] if self.words == 1 else [int(np.prod(value.shape[1:])), len(value)]
        return [int(value.ctypes.data), *sizes]

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

    def written(self, value: Any) -> list[int]:
        return [int(value.address) if isinstance(value, Struct) else 0]

    def read(self, context: Any, builder: Any, address: Any, begin: int) -> Any:
        return read_word(context, builder, address, begin)


def nested(struct: type[Struct] | None = None) -> Any:
    """Another struct, of the same class by default, which is kept alive; None if there is none."""
    return _Nested(None if struct is None else struct.struct_type)


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


def matrix(constant: bool = True) -> Any:
    """A matrix of floats of a struct, (N, ...) as N flat rows."""
    return _Rows(types.float64, None, constant)


def _named(cls: type, described: str) -> str:
    """A name of what a class declares: short, since symbols are made of it, and another after a change."""
    digest = hashlib.sha256(f"{cls.__module__} {described}".encode()).hexdigest()
    return f"{cls.__qualname__}_{digest[:12]}"


class StructType(types.Type):
    """A struct by its address."""

    def __init__(self, struct: type[Struct]) -> None:
        self.struct = struct
        fields = ", ".join(f"{name}: {field.described()}" for name, field in struct._fields.items())
        super().__init__(name=_named(struct, fields))


@register_model(StructType)
class _StructModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, WORD)


class Struct:
    """Words by name behind one ``address``, alive as long as this object is."""

    _fields: ClassVar[dict[str, Any]]
    _places: ClassVar[dict[str, int]]
    struct_type: ClassVar[StructType]

    def __init__(self, address: Any = None, **values: Any) -> None:
        if address is not None:
            raise TypeError(f"{type(self).__name__} of an address is for kernels")
        if values.keys() != self._fields.keys():
            raise TypeError(f"expected values of {sorted(self._fields)}, got {sorted(values)}")
        self._values: dict[str, Any] = {}
        self._words = np.zeros(sum(field.words for field in self._fields.values()), dtype=np.int64)
        self.address = int(self._words.ctypes.data)
        for name, value in values.items():
            setattr(self, name, value)

    def __init_subclass__(cls) -> None:
        cls._fields = {name: value for name, value in vars(cls).items() if isinstance(value, _Word)}
        cls._places, begin = {}, 0
        for name, field in cls._fields.items():
            cls._places[name] = begin
            begin += field.words
        cls.struct_type = StructType(cls)
        for field in cls._fields.values():
            field.kind = cls.struct_type if field.kind is None else field.kind
        type_callable(cls)(_typer_of_struct(cls.struct_type))
        lower_builtin(cls, types.Integer)(_itself)
        lower_builtin(cls, StructType)(_itself)

    def replace(self, **changes: Any) -> Self:
        """A copy with other values of some names."""
        return type(self)(**{**self._values, **changes})

    def __reduce__(self) -> Any:
        return _remade, (type(self), self._values)


def _remade(cls: type[Struct], values: dict[str, Any]) -> Struct:
    return cls(**values)


def _typer_of_struct(kind: StructType) -> Any:
    def typer(context):  # type: ignore[no-untyped-def]
        def result(value):  # type: ignore[no-untyped-def]
            if value == kind:
                return kind(kind)
            return kind(types.int64) if isinstance(value, types.Integer) else None

        return result

    return typer


def _itself(context, builder, sig, args):  # type: ignore[no-untyped-def]
    return args[0]


@typeof_impl.register(Struct)
def _typeof(value, context):  # type: ignore[no-untyped-def]
    return type(value).struct_type


@unbox(StructType)
def _unbox(kind, value, c):  # type: ignore[no-untyped-def]
    held = c.pyapi.object_getattr_string(value, "address")
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
def _struct_attribute(context, builder, kind, value, name):  # type: ignore[no-untyped-def]
    if name == "address":
        return value
    return kind.struct._fields[name].read(context, builder, value, kind.struct._places[name])


# -- working memory ----------------------------------------------------------------------------------

Count = tuple[tuple[int, str], ...]
"""Σ factor · count over names of counts; '' is one."""


def _count(text: str | int) -> Count:
    """A count of text: '2 nv + nu + 8'."""
    found = []
    for term in str(text).split("+"):
        factor, name = re.fullmatch(r"\s*(\d*)\s*\*?\s*([A-Za-z_]\w*)?\s*", term).groups()  # type: ignore[union-attr]
        found.append((int(factor or 1), name or ""))
    return tuple(found)


class _Field:
    """Rows of working memory.

    count: how many.   columns: numbers in a row; None of a matrix, whose rows have ``width`` numbers.
    shared: whether rows of one count lie side by side.
    """

    def __init__(self, count: Count, columns: int | None, width: Count, shared: bool) -> None:
        self.count, self.columns, self.width, self.shared = count, columns, width, shared


def rows(count: str, columns: int) -> Any:
    """Rows of some numbers; those of one count lie side by side."""
    return _Field(_count(count), columns, (), True)


def vector(count: str) -> Any:
    """Numbers one after the other."""
    return _Field(_count(count), 1, (), False)


def rows_apart(count: str, columns: int) -> Any:
    """Rows of some numbers one after the other."""
    return _Field(_count(count), columns, (), False)


def matrix_of(count: str, columns: str) -> Any:
    """A matrix of so many rows and columns."""
    return _Field(_count(count), None, _count(columns), False)


class _Block:
    """Fields that begin at one word of a record: of one count side by side, or one alone.

    pitch: numbers in a row of all of them (of a matrix: ``width``).   first: the place of its address in a record.
    """

    def __init__(self, count: Count, pitch: int, width: Count) -> None:
        self.count, self.pitch, self.width = count, pitch, width


class FieldsType(types.Type):
    """A record of working memory of some numbers."""

    def __init__(self, fields: type[Fields], number: Any) -> None:
        self.fields, self.number = fields, number
        super().__init__(name=f"{_named(fields, fields._described)}_{number}")

    def field(self, name: str) -> RowsType:
        """The type of a field."""
        field, block = self.fields._fields[name], self.fields._blocks[self.fields._places[name][0]]
        return RowsType(self.number, field.columns, None if field.columns is None else block.pitch)


@register_model(FieldsType)
class _FieldsModel(models.StructModel):
    """An address for each block, pitch and count for each matrix after it, and the end."""

    def __init__(self, manager: Any, kind: Any) -> None:
        pointer = types.CPointer(kind.number)
        members = []
        for k, block in enumerate(kind.fields._blocks):
            members.append((f"block{k}", pointer))
            if block.width:
                members += [(f"pitch{k}", types.intp), (f"count{k}", types.intp)]
        super().__init__(manager, kind, [*members, ("end", pointer)])


class Fields:
    """Working memory by declaration: ``Name(memory, struct, *counts)`` in kernels, ``Name.size(...)`` in Python."""

    _fields: ClassVar[dict[str, _Field]]
    _blocks: ClassVar[list[_Block]]
    _places: ClassVar[dict[str, tuple[int, int]]]
    """Place of a field: its block, and how many numbers before it a row has."""
    _counts: ClassVar[list[str]]
    """Names of counts, in the order of the declaration."""
    end: Any
    """Rest of the memory, inside kernels."""
    _described: ClassVar[str]

    def __init__(self, memory: Any, *counts: Any) -> None:
        raise TypeError(f"{type(self).__name__} is for kernels")

    def __init_subclass__(cls) -> None:
        cls._fields = {name: value for name, value in vars(cls).items() if isinstance(value, _Field)}
        cls._blocks, cls._places, cls._counts = [], {}, []
        shared: dict[Count, int] = {}
        for name, field in cls._fields.items():
            at = shared.get(field.count) if field.shared else None
            if at is None:
                at = len(cls._blocks)
                cls._blocks.append(_Block(field.count, 0, field.width))
                if field.shared:
                    shared[field.count] = at
            block = cls._blocks[at]
            cls._places[name] = at, block.pitch
            block.pitch += field.columns or 0
            for _, one in (*field.count, *field.width):
                if one and one not in cls._counts:
                    cls._counts.append(one)
        cls._described = ", ".join(
            f"{name}: {f.count} {f.columns} {f.width} {f.shared}" for name, f in cls._fields.items()
        )
        type_callable(cls)(_typer_of_fields(cls))
        lower_builtin(cls, RowsType, types.VarArg(types.Any))(_lower_fields)

    @classmethod
    def size(cls, struct: Any = None, **counts: int) -> int:
        """How many numbers it takes; counts from a struct and by name."""
        known = {name: counts[name] if name in counts else int(getattr(struct, name)) for name in cls._counts}
        known[""] = 1

        def value(count: Count) -> int:
            return sum(factor * known[name] for factor, name in count)

        return sum(value(block.count) * (value(block.width) if block.width else block.pitch) for block in cls._blocks)


def _typer_of_fields(cls: type[Fields]) -> Any:
    def typer(context):  # type: ignore[no-untyped-def]
        def result(memory, a=None, b=None, c=None, d=None):  # type: ignore[no-untyped-def]
            if not isinstance(memory, RowsType) or memory.columns != 1:
                return None
            given = [one for one in (a, b, c, d) if one is not None]
            numbers = [types.intp if isinstance(one, types.Integer) else one for one in given]
            return FieldsType(cls, memory.number)(memory, *numbers)

        return result

    return typer


def _lower_fields(context, builder, sig, args):  # type: ignore[no-untyped-def]
    kind = sig.return_type
    known = {"": word(1)}
    more = []
    for one, value in zip(sig.args[1:], args[1:], strict=True):
        if isinstance(one, StructType):
            for name in kind.fields._counts:
                if name in one.struct._fields:
                    known[name] = _struct_attribute(context, builder, one, value, name)
        else:
            more.append(value)
    missing = [name for name in kind.fields._counts if name not in known]
    if len(missing) != len(more):
        raise TypeError(f"{kind.fields.__name__}: expected counts {missing} after the struct, got {len(more)}")
    known.update(zip(missing, more, strict=True))

    def total(count: Count) -> Any:
        return sum_of_products(builder, [(factor, known[name]) for factor, name in count])

    start, words = part(builder, args[0], 0), []
    for block in kind.fields._blocks:
        count = total(block.count)
        pitch = total(block.width) if block.width else word(block.pitch)
        words += [start, pitch, count] if block.width else [start]
        start = after(builder, start, builder.mul(count, pitch))
    return made(context, builder, kind, *words, start)


@infer_getattr
class _FieldsAttributes(AttributeTemplate):
    key = FieldsType

    def generic_resolve(self, kind: Any, name: str) -> Any:
        if name == "end":
            return RowsType(kind.number)
        return kind.field(name) if name in kind.fields._fields else None


@lower_getattr_generic(FieldsType)
def _fields_attribute(context, builder, kind, value, name):  # type: ignore[no-untyped-def]
    places = [0]
    for block in kind.fields._blocks:
        places.append(places[-1] + (3 if block.width else 1))
    if name == "end":
        return made(context, builder, RowsType(kind.number), part(builder, value, places[-1]))
    at, before = kind.fields._places[name]
    start = after(builder, part(builder, value, places[at]), word(before))
    sizes = [part(builder, value, places[at] + k) for k in (1, 2)] if kind.fields._blocks[at].width else []
    return made(context, builder, kind.field(name), start, *sizes)
