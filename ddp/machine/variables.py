# mypy: allow-untyped-defs, allow-untyped-calls
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

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import lower_setattr_generic

from ddp.machine.memory import after, read_word, word
from ddp.machine.struct import Struct, StructType, _Word


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


@lower_setattr_generic(StructType)  # type: ignore[untyped-decorator]
def _write(context, builder, sig, args, name):
    """Write a word of a struct by its name."""
    struct = sig.args[0].struct
    field = struct._fields.get(name)
    if not isinstance(field, _Variable):
        raise TypeError(f"{struct.__name__}.{name} is not written to by kernels")
    place = builder.inttoptr(args[0], context.get_data_type(field.kind).as_pointer())
    builder.store(args[1], after(builder, place, word(struct._places[name]))).align = 8
