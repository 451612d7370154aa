"""Parcels: objects to be sent to other processes, with all their arrays and structs in one block of memory.

A plain pickle makes every array anew, at some microseconds each, and structs from their values, field by field. Here
the block is copied once, arrays are views of it, and the words of structs are those that were sent, with the block's
address added where they point into it; values that Python knows of a struct are looked up when somebody asks for one.
"""

import io
import pickle
import sys
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from functools import lru_cache
from itertools import repeat
from types import FunctionType, ModuleType
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddp.compiling.compiled import Kernel
from ddp.compiling.library import find
from ddp.machine.aligned import aligned_memory
from ddp.machine.bound import Bound
from ddp.machine.struct import Struct
from ddp.machine.written import address

ALIGNED = 64
"""Bytes: arrays begin at multiples of it."""

NAMED = type, FunctionType, type(lru_cache(len)), Kernel
"""Types of classes, functions and kernels, which are sent by their names."""

TYPES = {kind: np.dtype(kind) for kind in "?bBhHiIlLqQefdg"}
"""Numpy's types that are numbers by their letters, which it would read at every array."""

_array: Any = np.ndarray


class NotPackedError(Exception):
    """Something is not found by its name elsewhere: a plain pickle, or one that sends code, may know what to do."""


Place: TypeAlias = tuple[tuple[int, ...], str, int, str, bool]
"""Place of an array in a block: its shape, the letter of its type, its offset [bytes], its order, "C" or "F" as numpy
calls them, and whether it can be written to."""


class Parcel(NamedTuple):
    """Objects without their arrays, structs, classes and functions; the block; and where these are in it.

    layout: a `Layout`, pickled.
    """

    objects: bytes
    block: bytes
    layout: bytes


class Layout(NamedTuple):
    """Where things are in a block.

    shapes, types, offsets, orders: of the arrays of the objects, see `Place`.   locked: numbers of those that cannot be
    written to.   names: modules and names of classes and functions, a struct's of its class.
    structs: number among these, first word and number of words in the block, and values, pickled.
    pointers: words that addresses of the block are added to.
    """

    shapes: list[tuple[int, ...]]
    types: list[np.dtype]
    offsets: list[int]
    orders: list[str]
    locked: list[int]
    names: list[tuple[str, str]]
    structs: list[tuple[int, int, int, bytes]]
    pointers: NDArray[np.int64]


class _Packer(pickle.Pickler):
    """Puts arrays aside, and structs, classes, functions and kernels: ``others``."""

    def __init__(self, stream: io.BytesIO) -> None:
        super().__init__(stream, protocol=pickle.HIGHEST_PROTOCOL)
        self.arrays: list[np.ndarray] = []
        self.others: list[Any] = []
        self.numbers: dict[int, int] = {}

    def persistent_id(self, value: Any) -> Any:
        if type(value) is np.ndarray and value.dtype.char in TYPES and value.dtype.isnative:
            return self.number(value, self.arrays)
        if isinstance(value, Struct):
            return -1 - self.struct(value)
        return -1 - self.number(value, self.others) if isinstance(value, NAMED) and _is_found(value) else None

    def reducer_override(self, value: Any) -> Any:
        if getattr(value, "__module__", None) == "__main__" and hasattr(value, "__qualname__"):
            raise NotPackedError(f"{value.__qualname__} is of the main script")
        bound = getattr(value, "__dict__", {}).get("compiled")
        if not isinstance(bound, Bound) or not bound.can_be_sent:
            return NotImplemented
        make, arguments, state, *_ = value.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
        return make, arguments, state | {"compiled": bound}  # which copies, to be changed, have to make anew

    def number(self, value: Any, group: list[Any]) -> int:
        """Number of a value in its group, which it joins."""
        if id(value) not in self.numbers:
            self.numbers[id(value)] = len(group)
            group.append(value)
        return self.numbers[id(value)]

    def struct(self, value: Struct) -> int:
        """Number of a struct; those that it names are put aside, too."""
        if id(value) not in self.numbers:
            self.number(value, self.others)
            for part in value._values.values():
                for one in part if isinstance(part, tuple) else (part,):
                    if isinstance(one, Struct):
                        self.struct(one)
        return self.numbers[id(value)]


def _is_found(value: Any) -> bool:
    """Whether another process finds a class, a function or a kernel by its name in its module."""
    module = sys.modules.get(value.__module__)
    return value.__module__ != "__main__" and getattr(module, value.__qualname__, None) is value


def _found(names: Sequence[tuple[str, str]]) -> list[Any]:
    """Classes, functions and kernels of these names; in a third of the time of `find` where modules are imported."""
    modules = sys.modules
    try:
        return [getattr(modules[module], name) for module, name in names]
    except (KeyError, AttributeError):
        return [find(module, name) for module, name in names]


def packed(state: Any) -> Parcel:
    """Pack objects; `NotPackedError` where they are of the main script, and whatever pickling raises."""
    stream = io.BytesIO()
    packer = _Packer(stream)
    packer.dump(state)
    block, end = io.BytesIO(), 0

    def add(data: bytes) -> int:
        nonlocal end
        begin = -(-end // ALIGNED) * ALIGNED
        block.seek(begin)
        block.write(data)
        end = begin + len(data)
        return begin

    known: dict[int, Place] = {}

    def place_of(array: np.ndarray) -> Place:
        if id(array) not in known:
            order: Literal["C", "F"] = "F" if array.flags.fnc else "C"
            begin = add(array.tobytes(order))
            known[id(array)] = array.shape, array.dtype.char, begin, order, array.flags.writeable
        return known[id(array)]

    arrays = [place_of(array) for array in packer.arrays]
    structs = {k: one for k, one in enumerate(packer.others) if isinstance(one, Struct)}
    words = {k: add(bytes(8 * len(struct._words))) for k, struct in structs.items()}
    pointers: list[int] = []
    details = dict[int, bytes]()
    for k, struct in structs.items():
        begin = words[k]
        own, detail = struct._words.copy(), dict[str, tuple[str, Any]]()
        for name, value in struct._values.items():
            at = struct._places[name]
            if isinstance(value, np.ndarray):
                place = place_of(value)
                own[at], detail[name] = place[2], ("array", place)
            elif isinstance(value, Struct):
                number = packer.struct(value)
                own[at], detail[name] = words[number], ("struct", number)
            elif isinstance(value, tuple):
                numbers = tuple(packer.struct(one) for one in value)
                own[at] = first = add(np.array([words[number] for number in numbers], dtype=np.int64).tobytes())
                pointers += range(first // 8, first // 8 + len(numbers))
                detail[name] = "structs", numbers
            else:
                detail[name] = "number", value
                continue
            pointers.append(begin // 8 + at)
        block.seek(begin)
        block.write(own.tobytes())
        details[k] = pickle.dumps(detail, protocol=pickle.HIGHEST_PROTOCOL)
    kinds = [type(one) if isinstance(one, Struct) else one for one in packer.others]
    if lost := [kind.__qualname__ for kind in kinds if not _is_found(kind)]:
        raise NotPackedError(f"{lost[0]} is not found by its name")
    names = [(kind.__module__, kind.__qualname__) for kind in kinds]
    shapes, types, offsets, orders, writeable = map(list, zip(*arrays, strict=True)) if arrays else ([],) * 5
    locked = [k for k, free in enumerate(writeable) if not free]
    places = [(k, words[k] // 8, len(struct._words), details[k]) for k, struct in structs.items()]
    layout = shapes, types, offsets, orders, locked, names, places, np.array(pointers, np.int64).tobytes()
    content = block.getvalue().ljust(-(-end // 8) * 8, b"\0")
    return Parcel(stream.getvalue(), content, pickle.dumps(layout, protocol=pickle.HIGHEST_PROTOCOL))


@lru_cache(maxsize=64)
def _layout(pickled: bytes) -> Layout:
    """Read a layout, once: problems that differ by their numbers have the same."""
    shapes, types, offsets, orders, locked, names, structs, pointers = pickle.loads(pickled)
    kinds = [TYPES[one] for one in types]
    return Layout(shapes, kinds, offsets, orders, locked, names, structs, np.frombuffer(pointers, np.int64))


class _Unpickler(pickle.Unpickler):
    """An unpickler with attributes of its own: Python 3.13.0 lets none be set on those of the library."""


def unpacked(parcel: Parcel) -> Any:
    """Objects of a parcel."""
    layout = _layout(parcel.layout)
    memory = aligned_memory(len(parcel.block) // 8)
    words = memory.view(np.int64)
    words[:] = np.frombuffer(parcel.block, np.int64)
    base = address(memory)
    words[layout.pointers] += base
    buffer = memory.data  # arrays are made of it in half the time that they are of an array
    places = layout.shapes, layout.types, repeat(buffer), layout.offsets, repeat(None), layout.orders
    made: list[Any] = [*map(_array, *places)]
    for k in layout.locked:
        made[k].setflags(False)  # by its place: twice as fast
    others = _found(layout.names)
    for k, begin, count, details in layout.structs:
        others[k] = struct = object.__new__(others[k])
        struct._values, struct._words = _Values(buffer, others, details), words[begin : begin + count]
        struct.start = struct.address = base + 8 * begin
    objects: Any = _Unpickler(io.BytesIO(parcel.objects))
    objects.persistent_load = [*made, *reversed(others)].__getitem__
    return objects.load()


def _view(buffer: memoryview, place: Place) -> Any:
    """Array of a block."""
    shape, kind, offset, order, writeable = place
    array = _array(shape, TYPES[kind], buffer, offset, None, order)
    array.setflags(writeable)
    return array


@lru_cache(maxsize=64)
def _details(pickled: bytes) -> Mapping[str, tuple[str, Any]]:
    """Values of a struct as they are sent: structs of the same shapes have the same."""
    found: dict[str, tuple[str, Any]] = pickle.loads(pickled)
    return found


class _Values(MutableMapping[str, Any]):
    """Values of a struct by their names, looked up when somebody asks."""

    __slots__ = ("_buffer", "_found", "_others", "_pickled")

    def __init__(self, buffer: memoryview, others: list[Any], pickled: bytes) -> None:
        self._buffer, self._others, self._pickled = buffer, others, pickled
        self._found: dict[str, Any] | None = None

    def _all(self) -> dict[str, Any]:
        """Values by name, each a pair of its kind and what it is made of, until somebody asks for it."""
        if self._found is None:
            self._found = dict(_details(self._pickled))
        return self._found

    def __getitem__(self, name: str) -> Any:
        found = self._all()
        kind, value = found[name]
        if kind == "array":
            value = _view(self._buffer, value)
        elif kind == "struct":
            value = self._others[value]
        elif kind == "structs":
            value = tuple(self._others[one] for one in value)
        else:
            return value
        found[name] = "value", value
        return value

    def __setitem__(self, name: str, value: Any) -> None:
        self._all()[name] = "value", value

    def __delitem__(self, name: str) -> None:
        del self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __reduce__(self) -> Any:
        """Copies are plain: structs that name each other could not be copied before their values were there."""
        return dict, (dict(self),)


def locked(value: object) -> dict[int, np.ndarray]:
    """Arrays within a value that cannot be written to, as its deep copies have them, by their ids: for `copy.deepcopy`.

    They are shared, as new ones could be written to; views of what can be written to are copied.
    """
    found: dict[int, np.ndarray] = {}
    seen: set[int] = set()
    left = [value]
    while left:
        one: Any = left.pop()
        if id(one) in seen or isinstance(one, (type, FunctionType, Kernel, ModuleType)):
            continue
        seen.add(id(one))
        if isinstance(one, np.ndarray):
            if not one.flags.writeable:
                found[id(one)] = own = np.array(one) if _may_change(one) else one
                own.flags.writeable = False
        elif isinstance(one, (list, tuple)):
            left += one
        elif isinstance(one, dict):
            left += one.values()
        elif type(one).__dictoffset__:
            left += object.__getattribute__(one, "__dict__").values()
    return found


def _may_change(array: np.ndarray) -> bool:
    """Whether an array is a view of one that can be written to."""
    base = array.base
    return isinstance(base, np.ndarray) and (base.flags.writeable or _may_change(base))
