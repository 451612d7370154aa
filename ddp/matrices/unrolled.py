"""Arithmetic on the rows of small matrices whose sizes are known while code is generated: no loops are left of it.

A row is a list of registers, of columns 0..7, 8..15, ..., or of some of these. Addresses are integers, of doubles.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from llvmlite import ir

from ddp.matrices.registers import DOUBLE, VECTOR, WIDTH, WORD, at, lanes, load, load_where, splat, store, store_where

Row = list[Any]
"""Registers, side by side."""

ZEROS = ir.Constant(VECTOR, [0.0] * WIDTH)
"""A register of them."""


def number(x: float) -> Any:
    """A constant."""
    return ir.Constant(DOUBLE, x)


class Unrolled:
    """What instructions are made with."""

    def __init__(self, builder: Any) -> None:
        self._builder = builder

    def moved(self, address: Any, numbers: int) -> Any:
        """So many numbers further on."""
        return self._builder.add(address, ir.Constant(WORD, 8 * numbers))

    def hidden(self, address: Any) -> Any:
        """The same address, as far as the compiler can tell another: what was stored there will be loaded from there.

        It would be kept, in registers that others need more.
        """
        return self._builder.asm(ir.FunctionType(WORD, [WORD]), "", "=r,0", [address], False)

    def load(self, address: Any, index: int) -> Any:
        """A number."""
        return self._builder.load(self._place(address, index))

    def store(self, x: Any, address: Any, index: int) -> None:
        """The same, stored."""
        self._builder.store(x, self._place(address, index))

    def _place(self, address: Any, index: int) -> Any:
        return self._builder.gep(at(self._builder, address), [ir.Constant(WORD, index)])

    def everywhere(self, address: Any, index: int) -> Any:
        """A number in every lane."""
        return splat(self._builder, self.load(address, index))

    def read(self, address: Any, index: int, which: Iterable[int]) -> Row:
        """The registers of a row that begins at an index."""
        return [load(self._builder, at(self._builder, address), ir.Constant(WORD, index + WIDTH * j)) for j in which]

    def write(self, row: Row, address: Any, index: int) -> None:
        """The same, stored side by side."""
        for j, x in enumerate(row):
            store(self._builder, x, at(self._builder, address), ir.Constant(WORD, index + WIDTH * j))

    def gather(self, which: Iterable[int], *parts: tuple[Any, int, int]) -> Row:
        """Registers of a row whose columns begin .. end-1 are at an address, for every part; zeros are in the others.

        Exactly that is read, and so is what `scatter` writes.
        """
        row = []
        for j in which:
            x = ZEROS
            for address, begin, end in parts:
                inside = [begin <= WIDTH * j + k < end for k in range(WIDTH)]
                if any(inside):
                    x = load_where(self._builder, self.moved(address, WIDTH * j - begin), lanes(inside), x)
            row.append(x)
        return row

    def scatter(self, row: Row, address: Any, columns: int) -> None:
        """The first columns of a row, to an address."""
        for j, x in enumerate(row):
            inside = lanes(WIDTH * j + k < columns for k in range(WIDTH))
            store_where(self._builder, x, self.moved(address, WIDTH * j), inside)

    def add(self, x: Any, factor: Any, y: Any) -> Any:
        """x + factor y, of numbers or registers."""
        product = self._builder.fmul(factor, y, flags=("contract",))
        return self._builder.fadd(x, product, flags=("contract",))

    def add_row(self, x: Row, factor: Any, y: Row) -> Row:
        """The same of rows."""
        return [self.add(*pair) for pair in ((a, factor, b) for a, b in zip(x, y, strict=True))]
