"""Layout of what compiled functions return: outputs that are not constant, and the blocks of numbers they belong to."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp.protocols import Array
from ddp.tracing.numbers import Number


class Block(NamedTuple):
    """Entries of a result: constants (size,), and the outputs and positions (., 2) of all others.

    It is pickled by its constants but for zeros, which most are: the Jacobian of 1000 controls that wait is 288 MB.
    """

    template: Array
    places: NDArray[np.int64]

    def __reduce__(self) -> Any:
        own = np.flatnonzero(self.template.view(np.int64))  # -0.0 among them
        return _filled, (len(self.template), own, self.template[own], self.places)


def _filled(size: int, own: NDArray[np.int64], constants: Array, places: NDArray[np.int64]) -> Block:
    template = np.zeros(size)
    template[own] = constants
    return Block(template, places)


class Layout(NamedTuple):
    """A function's outputs: how many there are, and the blocks that they make."""

    outputs: int
    blocks: tuple[Block, ...]


class Compiled(NamedTuple):
    """A traced function for kernels: where it is, how many outputs it has, and a block that they make."""

    address: int
    outputs: int
    template: Array
    places: NDArray[np.int64]


def arranged(*entries: tuple[int, Mapping[int, Number]]) -> tuple[list[Number], Layout]:
    """Outputs and their layout of blocks, each given by its size and its entries by position, zero elsewhere."""
    outputs: dict[int, tuple[int, Number]] = {}
    blocks = []
    for size, numbers in entries:
        template, places = np.zeros(size), []
        for position, number in numbers.items():
            if number.op == "const":
                template[position] = number.args[0]
            else:
                row, _ = outputs.setdefault(number.place, (len(outputs), number))
                places.append((row, position))
        blocks.append(Block(template, np.array(places, dtype=np.int64).reshape(-1, 2)))
    return [number for _, number in outputs.values()], Layout(len(outputs), tuple(blocks))


def in_order(numbers: Sequence[Number]) -> tuple[list[Number], Layout]:
    """All numbers of one block as outputs, constants among them, and their layout."""
    size = len(numbers)
    return list(numbers), Layout(size, (Block(np.zeros(size), np.stack([np.arange(size)] * 2, axis=1)),))
