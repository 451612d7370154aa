"""Words of structs (struct.py) that kernels write to as well as read.

    class Count(Struct):
        total: float = variable_real()
        seen: int = variable_integer()

    @kernel
    def add(address, x):
        count = Count(address)
        count.total += x
        count.seen += 1

Python reads them with ``read(count, "total")``; what it assigned last is what its own attribute shows.
"""

from typing import Any

import numpy as np
from numba import types
from numba.extending import lower_setattr_generic

from ddp.machine.memory import after, read_word, word
from ddp.machine.struct import Struct, StructType, _Word, integers, reals


class _Variable(_Word):
    """A number that kernels write."""

    def described(self) -> str:
        return f"{self.kind} written"

    def read(self, context: Any, builder: Any, address: Any, begin: int) -> Any:
        return read_word(context, builder, address, begin, self.kind, False)


def variable_integer() -> Any:
    """An integer of a struct, which kernels write."""
    return _Variable(types.int64)


def variable_real() -> Any:
    """A float of a struct, which kernels write."""
    return _Variable(types.float64)


def read(struct: Struct, name: str) -> Any:
    """A number of a struct as kernels left it."""
    field, written = struct._fields[name], struct._words[struct._places[name]]
    return float(written.view(np.float64)) if field.is_real else int(written)


def struct_like(name: str, module: str, example: object) -> type[Struct]:
    """A struct with variables of the names and types that an object has: floats, integers and lists of them."""
    fields: dict[str, Any] = {"__module__": module, "__qualname__": name}
    for own, value in vars(example).items():
        number = value[0] if isinstance(value, list) else value
        if isinstance(value, list):
            fields[own] = reals(constant=False) if isinstance(number, float) else integers(constant=False)
        else:
            fields[own] = variable_real() if isinstance(number, float) else variable_integer()
    return type(name, (Struct,), fields)


def made_like(kind: type[Struct], example: object) -> Struct:
    """A struct of a kind from `struct_like`, with memory of its own and an object's numbers."""
    values = vars(example).items()
    return kind(**{name: np.array(value) if isinstance(value, list) else value for name, value in values})


@lower_setattr_generic(StructType)  # type: ignore[untyped-decorator]
def _write(context: Any, builder: Any, sig: Any, args: Any, name: str) -> None:
    """Write a word of a struct by its name."""
    struct = sig.args[0].struct
    field = struct._fields.get(name)
    if not isinstance(field, _Variable):
        raise TypeError(f"{struct.__name__}.{name} is not written to by kernels")
    place = builder.inttoptr(args[0], context.get_data_type(field.kind).as_pointer())
    builder.store(args[1], after(builder, place, word(struct._places[name]))).align = 8
