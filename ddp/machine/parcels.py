"""Parcels: objects to be sent to other processes, with all their arrays and structs in one block of memory.

A plain pickle makes every array anew, at some microseconds each, and structs from their values, field by field. Here
the block is copied once, arrays are views of it, and the words of structs are those that were sent, with the block's
address added where they point into it; values that Python knows of a struct are looked up when somebody asks for one.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Iterator, MutableMapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from ddp.machine.aligned import aligned_zeros
from ddp.machine.bound import Bound
from ddp.machine.struct import Struct

ALIGNED = 64
"""Bytes: arrays begin at multiples of it."""

KINDS = "fiub"
"""Kinds of numpy's types that are numbers."""


class NotPackedError(Exception):
    """Something is not found by its name elsewhere: a plain pickle, or one that sends code, may know what to do."""


Place: TypeAlias = tuple[int, tuple[int, ...], str, str]
"""Place of an array in a block: its offset [bytes], shape and type; "T" if it is the transpose of what is there, and
"r" if it may only be read."""


class Parcel(NamedTuple):
    """Objects without their arrays and structs; the block; and where these are in it.

    arrays: of the objects, where each is, see `Place`.   structs: class, first word and number of words in the block.
    pointers: words that addresses of the block are added to.   details: values of each struct, pickled.
    """

    objects: bytes
    block: bytes
    arrays: list[Place]
    structs: list[tuple[type[Struct], int, int]]
    pointers: bytes
    details: list[bytes]


class _Packer(pickle.Pickler):
    """Puts arrays and structs aside."""

    def __init__(self, stream: io.BytesIO) -> None:
        super().__init__(stream, protocol=pickle.HIGHEST_PROTOCOL)
        self.arrays: list[np.ndarray] = []
        self.structs: list[Struct] = []
        self.numbers: dict[int, int] = {}

    def persistent_id(self, value: Any) -> Any:
        if type(value) is np.ndarray and value.dtype.kind in KINDS:
            if id(value) not in self.numbers:
                self.numbers[id(value)] = len(self.arrays)
                self.arrays.append(value)
            return self.numbers[id(value)]
        return -1 - self.struct(value) if isinstance(value, Struct) else None

    def reducer_override(self, value: Any) -> Any:
        if getattr(value, "__module__", None) == "__main__" and hasattr(value, "__qualname__"):
            raise NotPackedError(f"{value.__qualname__} is of the main script")
        bound = getattr(value, "__dict__", {}).get("compiled")
        if not isinstance(bound, Bound) or not bound.can_be_sent:
            return NotImplemented
        make, arguments, state, *_ = value.__reduce_ex__(pickle.HIGHEST_PROTOCOL)
        return make, arguments, state | {"compiled": bound}  # which copies, to be changed, have to make anew

    def struct(self, value: Struct) -> int:
        """Number of a struct, those that it has put aside, too."""
        if id(value) not in self.numbers:
            self.numbers[id(value)] = len(self.structs)
            self.structs.append(value)
            for part in value._values.values():
                for one in part if isinstance(part, tuple) else (part,):
                    if isinstance(one, Struct):
                        self.struct(one)
        return self.numbers[id(value)]


class _Unpickler(pickle.Unpickler):
    """Finds classes and functions of modules that there are in half the time."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            return getattr(sys.modules[module], name)
        except (KeyError, AttributeError):
            return super().find_class(module, name)


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
            own, flags = array.T if array.flags.fnc else array, array.flags
            how = "T" * flags.fnc + "r" * (not flags.writeable)
            known[id(array)] = add(own.tobytes()), own.shape, own.dtype.str, how
        return known[id(array)]

    arrays = [place_of(array) for array in packer.arrays]
    words = [add(bytes(8 * len(struct._words))) for struct in packer.structs]
    pointers: list[int] = []
    details = []
    for struct, begin in zip(packer.structs, words, strict=True):
        own, detail = struct._words.copy(), dict[str, tuple[str, Any]]()
        for name, value in struct._values.items():
            k = struct._places[name]
            if isinstance(value, np.ndarray):
                place = place_of(value)
                own[k], detail[name] = place[0], ("array", place)
            elif isinstance(value, Struct):
                number = packer.struct(value)
                own[k], detail[name] = words[number], ("struct", number)
            elif isinstance(value, tuple):
                numbers = tuple(packer.struct(one) for one in value)
                own[k] = first = add(np.array([words[number] for number in numbers], dtype=np.int64).tobytes())
                pointers += range(first // 8, first // 8 + len(numbers))
                detail[name] = "structs", numbers
            else:
                detail[name] = "number", value
                continue
            pointers.append(begin // 8 + k)
        block.seek(begin)
        block.write(own.tobytes())
        details.append(pickle.dumps(detail, protocol=pickle.HIGHEST_PROTOCOL))
    structs = [
        (type(struct), begin // 8, len(struct._words)) for struct, begin in zip(packer.structs, words, strict=True)
    ]
    content = block.getvalue().ljust(-(-end // 8) * 8, b"\0")
    return Parcel(stream.getvalue(), content, arrays, structs, np.array(pointers, np.int64).tobytes(), details)


def unpacked(parcel: Parcel) -> Any:
    """Objects of a parcel."""
    memory = aligned_zeros((len(parcel.block) // 8,))
    words = memory.view(np.int64)
    words[:] = np.frombuffer(parcel.block, np.int64)
    base = int(memory.ctypes.data)
    words[np.frombuffer(parcel.pointers, np.int64)] += base
    fixed = memory.view()
    fixed.flags.writeable = False
    made = [
        _view(memory, offset, shape, kind, how)
        if "T" in how
        else np.ndarray(shape, kind, fixed if how else memory, offset)
        for offset, shape, kind, how in parcel.arrays
    ]
    structs: list[Struct] = []
    for i, (cls, begin, count) in enumerate(parcel.structs):
        struct = object.__new__(cls)
        start = base + 8 * begin
        vars(struct).update(
            _values=_Values(memory, structs, parcel.details[i]), _words=words[begin : begin + count],
            start=start, address=start,
        )
        structs.append(struct)
    objects: Any = _Unpickler(io.BytesIO(parcel.objects))
    objects.persistent_load = [*made, *reversed(structs)].__getitem__
    return objects.load()


def _view(memory: np.ndarray, offset: int, shape: tuple[int, ...], kind: str, how: str) -> np.ndarray:
    """Array of a block."""
    array: np.ndarray = np.ndarray(shape, kind, memory, offset)
    array = array.T if "T" in how else array
    array.setflags(write="r" not in how)
    return array


class _Values(MutableMapping[str, Any]):
    """Values of a struct by their names, looked up when somebody asks."""

    __slots__ = ("_found", "_memory", "_pickled", "_structs")

    def __init__(self, memory: np.ndarray, structs: list[Struct], pickled: bytes) -> None:
        self._memory, self._structs, self._pickled = memory, structs, pickled
        self._found: dict[str, Any] | None = None

    def _all(self) -> dict[str, Any]:
        """Values by name, each a pair of its kind and what it is made of, until somebody asks for it."""
        if self._found is None:
            self._found = pickle.loads(self._pickled)
        return self._found

    def __getitem__(self, name: str) -> Any:
        found = self._all()
        kind, value = found[name]
        if kind == "array":
            value = _view(self._memory, *value)
        elif kind == "struct":
            value = self._structs[value]
        elif kind == "structs":
            value = tuple(self._structs[one] for one in value)
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
