# mypy: allow-untyped-defs, allow-untyped-calls, allow-subclassing-any
"""Structs that are known when kernels compile: LLVM counts their loops, and computes what follows from them alone.

    _chain: Any = None                       # a placeholder

    @inline
    def chain_of(address):                   # of any chain
        return address

    def known_chain(address):                # of one
        return place(_chain)

    made = inline(specialised(known_chain, "chain_of_mine", _chain=frozen(chain)))

What is compiled for one struct has to be compiled whole, as calls by symbols know nothing of their arguments.
"""

import hashlib
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model, typeof_impl

from ddp.machine.struct import Struct

_FAR = 2**32


class Block(NamedTuple):
    """Content of an array, or of a struct's words: floats; or integers, which at ``places`` are numbers of blocks."""

    integers: tuple[int, ...]
    places: tuple[int, ...]
    reals: tuple[float, ...]


class Frozen(NamedTuple):
    """Content of a struct and of all that it leads to, one block each; the last one is its own."""

    blocks: tuple[Block, ...]


def frozen(struct: Struct) -> Frozen:
    """The content of a struct as it is now, in which all that is named as an address is a number."""
    near, far = _laid(struct, 0), _laid(struct, _FAR)
    return Frozen(tuple(map(_block, near, far)))


def _laid(struct: Struct, first: int) -> list[Any]:
    """All arrays of a struct, where the k-th is at the address first + k."""
    arrays: list[Any] = []

    def place(array: Any) -> int:
        arrays.append(array)
        return first + len(arrays) - 1

    place(struct.words(place))
    return arrays


def _block(near: Any, far: Any) -> Block:
    """The block of an array; numbers that differ are addresses."""
    flat = np.ravel(near)
    if flat.dtype == np.float64:
        return Block((), (), tuple(flat.tolist()))
    return Block(tuple(flat.tolist()), tuple(np.flatnonzero(flat != np.ravel(far)).tolist()), ())


class FrozenType(types.Dummy):
    """The type of one content."""

    def __init__(self, content: Frozen) -> None:
        self.content = content
        super().__init__(name=f"Frozen_{hashlib.sha256(repr(content).encode()).hexdigest()[:16]}")


register_model(FrozenType)(models.OpaqueModel)


@typeof_impl.register(Frozen)
def _typeof(value, context):
    return FrozenType(value)


@intrinsic
def place(typingctx, content):  # type: ignore[no-untyped-def]
    """The address of a struct of a content, among the constants of the kernel."""

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        addresses = list[Any]()
        for k, block in enumerate(content.content.blocks):
            kind = types.float64 if block.reals else types.int64
            values = [context.get_constant(kind, value) for value in block.reals or block.integers or (0,)]
            for at in block.places:
                values[at] = addresses[block.integers[at]]
            array = cgutils.create_constant_array(context.get_value_type(kind), values)
            name = builder.module.get_unique_name(f"{content.name}.{k}")
            made = cgutils.global_constant(builder.module, name, array)
            made.align = 64
            addresses.append(made.ptrtoint(context.get_value_type(types.int64)))
        return addresses[-1]

    return types.int64(content), codegen


@intrinsic(prefer_literal=True)
def room(typingctx, count):  # type: ignore[no-untyped-def]
    """The address of floats on the kernel's stack; ``count`` is written out.

    `ddp.machine.simd.stack` has zeros there, which takes time where there are many; here nothing is initialised.
    """

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        floats = context.get_value_type(types.UniTuple(types.float64, count.literal_value))
        with builder.goto_entry_block():
            memory = builder.alloca(floats)
        memory.align = 64
        return builder.ptrtoint(memory, context.get_value_type(types.int64))

    return types.int64(count), codegen
