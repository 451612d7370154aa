# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-subclassing-any
"""Working memory by declaration: rows of any number (memory.py) in a row of memory, sized by words of a struct.

    class Bodies(Fields):
        R, p = rows("n", 9), rows("n", 3)    # of one count: side by side, so that a record is a pointer and constants
        x = vector("2 n + 1")                # apart, contiguous
        M = matrix_of("n", "n")              # apart
        place = nested(Place)                # another declaration, whose fields are ws.place.R, ...

    ws = Bodies(memory, chain)               # in kernels: ws.R[b], ws.M[i, j], len(ws.M); ws.end is what follows
    Bodies.size(chain)                       # in Python: how many numbers it takes; or Bodies.size(n=2)

A count that the struct does not have is given after it: ``Contacts(memory, tree, m)``, ``Contacts.size(tree, m=4)``.
Nothing is initialised, and nothing checked.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar, TypeGuard

from numba import types
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, lower_builtin, lower_getattr_generic, models, register_model, type_callable

from ddp.machine.memory import RowsType, after, made, part, sum_of_products, word
from ddp.machine.struct import StructType, named, struct_attribute

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


def nested(fields: type[Fields]) -> Any:
    """Fields of another declaration, of the same counts."""
    return fields


class _Block:
    """Fields that begin at one word of a record: of one count side by side, or one alone.

    pitch: numbers in a row of all of them (of a matrix: ``width``).
    """

    def __init__(self, count: Count, pitch: int, width: Count) -> None:
        self.count, self.pitch, self.width = count, pitch, width


class FieldsType(types.Type):
    """A record of working memory of some numbers, ``step`` apart."""

    def __init__(self, fields: type[Fields], number: Any, step: int) -> None:
        self.fields, self.number, self.step = fields, number, step
        apart = "" if step == 1 else f"_{step}_apart"
        super().__init__(name=f"{named(fields, fields.__declared__)}_{number}{apart}")

    def field(self, name: str) -> Any:
        """The type of a field."""
        field, block = self.fields._fields[name], self.fields._blocks[self.fields._places[name][0]]
        if _is_record(field):
            return FieldsType(field, self.number, self.step)
        return RowsType(self.number, field.columns, None if field.columns is None else block.pitch, step=self.step)

    @property
    def rest(self) -> RowsType:
        """The type of what follows the record in memory."""
        return RowsType(self.number, step=self.step)


@register_model(FieldsType)
class _FieldsModel(models.StructModel):
    """A record for each nested one, an address for each block, pitch and count for each matrix, and the end."""

    def __init__(self, manager: Any, kind: Any) -> None:
        pointer = types.CPointer(kind.number)
        members: list[tuple[str, Any]] = []
        for k, block in enumerate(kind.fields._blocks):
            is_record = _is_record(block)
            members.append((f"block{k}", FieldsType(block, kind.number, kind.step) if is_record else pointer))
            if not is_record and block.width:
                members += [(f"pitch{k}", types.intp), (f"count{k}", types.intp)]
        super().__init__(manager, kind, [*members, ("end", pointer)])


class Fields:
    """Working memory by declaration: ``Name(memory, struct, *counts)`` in kernels, ``Name.size(...)`` in Python."""

    _fields: ClassVar[dict[str, Any]]
    _blocks: ClassVar[list[Any]]
    """Blocks of fields, and nested declarations."""
    _places: ClassVar[dict[str, tuple[int, int]]]
    """Place of a field: its block, and how many numbers before it a row has."""
    _counts: ClassVar[list[str]]
    """Names of counts, in the order of the declaration."""
    end: Any
    """Rest of the memory, inside kernels."""
    __declared__: ClassVar[str]
    """All of its fields, as keys of kernels know them."""

    def __init__(self, memory: Any, *counts: Any) -> None:
        raise TypeError(f"{type(self).__name__} is for kernels")

    def __init_subclass__(cls) -> None:
        own = {name: value for name, value in vars(cls).items() if isinstance(value, _Field) or _is_record(value)}
        cls._fields = {**getattr(cls, "_fields", {}), **own}
        cls._blocks, cls._places, cls._counts = [], {}, []
        shared: dict[Count, int] = {}
        for name, field in cls._fields.items():
            if _is_record(field):
                cls._places[name] = len(cls._blocks), 0
                cls._blocks.append(field)
                cls._counts += [one for one in field._counts if one not in cls._counts]
                continue
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
        cls.__declared__ = ", ".join(f"{name}: {_described(field)}" for name, field in cls._fields.items())
        type_callable(cls)(_typer_of_fields(cls))
        lower_builtin(cls, RowsType, types.VarArg(types.Any))(_lower_fields)

    @classmethod
    def size(cls, struct: Any = None, **counts: int) -> int:
        """Count the numbers that a record takes; counts from a struct and by name."""
        known = {name: counts[name] if name in counts else int(getattr(struct, name)) for name in cls._counts}
        return cls._size({**known, "": 1})

    @classmethod
    def _size(cls, known: dict[str, int]) -> int:
        def value(count: Count) -> int:
            return sum(factor * known[name] for factor, name in count)

        return sum(
            block._size(known) if _is_record(block)
            else value(block.count) * (value(block.width) if block.width else block.pitch)
            for block in cls._blocks
        )  # fmt: skip


def _is_record(value: Any) -> TypeGuard[type[Fields]]:
    return isinstance(value, type)


def _described(field: Any) -> str:
    if _is_record(field):
        return f"({field.__declared__})"
    return f"{field.count} {field.columns} {field.width} {field.shared}"


def _typer_of_fields(cls: type[Fields]) -> Any:
    def typer(context):
        def result(memory, a=None, b=None, c=None, d=None, e=None):
            if not isinstance(memory, RowsType) or memory.columns != 1:
                return None
            given = [one for one in (a, b, c, d, e) if one is not None]
            numbers = [types.intp if isinstance(one, types.Integer) else one for one in given]
            return FieldsType(cls, memory.number, memory.step)(memory, *numbers)

        return result

    return typer


def _lower_fields(context, builder, sig, args):
    kind = sig.return_type
    known = {"": word(1)}
    more = []
    for one, value in zip(sig.args[1:], args[1:], strict=True):
        if isinstance(one, StructType):
            for name in kind.fields._counts:
                if name in one.struct._fields:
                    known[name] = struct_attribute(context, builder, one, value, name)
        else:
            more.append(value)
    missing = [name for name in kind.fields._counts if name not in known]
    if len(missing) != len(more):
        raise TypeError(f"{kind.fields.__name__}: expected counts {missing} after the struct, got {len(more)}")
    known.update(zip(missing, more, strict=True))

    return _record(context, builder, kind, part(builder, args[0], 0), known)[0]


def _record(context: Any, builder: Any, kind: FieldsType, start: Any, known: dict[str, Any]) -> tuple[Any, Any]:
    """A record that begins at an address, of known counts, and where it ends."""

    def total(count: Count) -> Any:
        return sum_of_products(builder, [(factor, known[name]) for factor, name in count])

    words = []
    for block in kind.fields._blocks:
        if _is_record(block):
            one, start = _record(context, builder, FieldsType(block, kind.number, kind.step), start, known)
            words.append(one)
            continue
        count = total(block.count)
        pitch = total(block.width) if block.width else word(block.pitch)
        words += [start, pitch, count] if block.width else [start]
        start = after(builder, start, builder.mul(count, pitch), kind.step)
    return made(context, builder, kind, *words, start), start


@infer_getattr
class _FieldsAttributes(AttributeTemplate):
    key = FieldsType

    def generic_resolve(self, kind: Any, name: str) -> Any:
        if name == "end":
            return kind.rest
        return kind.field(name) if name in kind.fields._fields else None


@lower_getattr_generic(FieldsType)
def _fields_attribute(context, builder, kind, value, name):
    places = [0]
    for block in kind.fields._blocks:
        places.append(places[-1] + (3 if not _is_record(block) and block.width else 1))
    if name == "end":
        return made(context, builder, kind.rest, part(builder, value, places[-1]))
    at, before = kind.fields._places[name]
    if isinstance(kind.fields._blocks[at], type):
        return part(builder, value, places[at])
    start = after(builder, part(builder, value, places[at]), word(before), kind.step)
    sizes = [part(builder, value, places[at] + k) for k in (1, 2)] if kind.fields._blocks[at].width else []
    return made(context, builder, kind.field(name), start, *sizes)
