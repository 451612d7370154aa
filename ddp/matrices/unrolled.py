"""Instructions for rows of matrices whose sizes are known while they are made: whole registers, no tests, few loops.

A row is a list of registers, of columns 0..7, 8..15, ..., or of some of these; the sums of a product are a dictionary
of registers, by row and place in it. Addresses are integers, of doubles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from llvmlite import ir

from ddp.matrices.registers import DOUBLE, VECTOR, WIDTH, WORD, at, lanes, load, load_where, splat, store, store_where

MOST_SUMS = 24
"""As many at once, of 32 registers."""

Row = list[Any]
Sums = dict[tuple[int, int], Any]

ZEROS = ir.Constant(VECTOR, [0.0] * WIDTH)
"""A register of them."""


def number(x: float) -> Any:
    """A constant."""
    return ir.Constant(DOUBLE, x)


def bunches(rows: Sequence[int], width: Callable[[int], int]) -> list[list[int]]:
    """Rows whose sums there is room for at once, each of so many registers."""
    found: list[list[int]] = [[]]
    for i in rows:
        if sum(map(width, found[-1])) + width(i) > MOST_SUMS:
            found.append([])
        found[-1].append(i)
    return found


class Unrolled:
    """What makes them."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder

    def moved(self, address: Any, numbers: int) -> Any:
        """So many numbers further on."""
        return self.builder.add(address, ir.Constant(WORD, 8 * numbers))

    def row(self, address: Any, i: Any, ld: int, first: int = 0) -> Any:
        """Where the i-th row begins, from the ``first`` on; i may be known only when the code runs."""
        if isinstance(i, int):
            return self.moved(address, (first + i) * ld)
        return self.builder.add(self.moved(address, first * ld), self.builder.mul(i, ir.Constant(WORD, 8 * ld)))

    def hidden(self, address: Any) -> Any:
        """The same address, as far as the compiler can tell another: what was stored there will be loaded from there.

        It would be kept, in registers that others need more.
        """
        return self.builder.asm(ir.FunctionType(WORD, [WORD]), "", "=r,0", [address], False)

    def load(self, address: Any, index: int = 0) -> Any:
        """A number."""
        return self.builder.load(self._place(address, index))

    def store(self, x: Any, address: Any, index: int = 0) -> None:
        """The same, stored."""
        self.builder.store(x, self._place(address, index))

    def _place(self, address: Any, index: int) -> Any:
        return self.builder.gep(at(self.builder, address), [ir.Constant(WORD, index)])

    def everywhere(self, address: Any, index: int = 0) -> Any:
        """A number in every lane."""
        return splat(self.builder, self.load(address, index))

    def entries(self, address: Any, stride: int = 1) -> Callable[[int], Any]:
        """The same of the i-th of the numbers that begin there."""
        return lambda i: self.everywhere(address, stride * i)

    def read(self, which: Iterable[int], address: Any, begin: int = 0) -> Row:
        """Registers of the row that begins so many numbers after an address."""
        return [load(self.builder, at(self.builder, address), ir.Constant(WORD, begin + WIDTH * j)) for j in which]

    def read_one(self, address: Any, begin: int = 0) -> Any:
        """The first of them."""
        return self.read((0,), address, begin)[0]

    def write(self, row: Row, address: Any, begin: int = 0) -> None:
        """Registers, stored side by side."""
        for j, x in enumerate(row):
            store(self.builder, x, at(self.builder, address), ir.Constant(WORD, begin + WIDTH * j))

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
                    x = load_where(self.builder, self.moved(address, WIDTH * j - begin), lanes(inside), x)
            row.append(x)
        return row

    def scatter(self, row: Row, address: Any, columns: int) -> None:
        """The first columns of a row, to an address."""
        for j, x in enumerate(row):
            inside = lanes(WIDTH * j + k < columns for k in range(WIDTH))
            store_where(self.builder, x, self.moved(address, WIDTH * j), inside)

    def only(self, x: Any, which: Iterable[bool]) -> Any:
        """Some lanes of a register, and zeros."""
        return self.builder.select(lanes(which), x, ZEROS)

    def plus(self, x: Row, y: Row) -> Row:
        """x + y."""
        return [self.builder.fadd(*pair) for pair in zip(x, y, strict=True)]

    def add(self, x: Any, factor: Any, y: Any) -> Any:
        """x + factor y, of numbers or registers."""
        product = self.builder.fmul(factor, y, flags=("contract",))
        return self.builder.fadd(x, product, flags=("contract",))

    def add_row(self, x: Row, factor: Any, y: Row) -> Row:
        """The same of rows."""
        return [self.add(a, factor, b) for a, b in zip(x, y, strict=True)]

    def add_outer(self, sums: Sums, left: Callable[[int], Any], right: Row) -> None:
        """sums += left right, of a column, in every lane, and a row."""
        factors = {i: left(i) for i in dict.fromkeys(i for i, _ in sums)}
        for i, j in sums:
            sums[i, j] = self.add(sums[i, j], factors[i], right[j])

    def repeat(self, count: int, make: Callable[[Any, Sums], None], sums: Sums | None = None) -> None:
        """A loop: what is made of an index changes the sums."""
        builder, sums = self.builder, {} if sums is None else sums
        before, body, after = builder.block, *(builder.append_basic_block() for _ in range(2))
        builder.branch(body)
        builder.position_at_end(body)
        index, inside = builder.phi(WORD), {place: builder.phi(VECTOR) for place in sums}
        index.add_incoming(ir.Constant(WORD, 0), before)
        changed = dict(inside)
        make(index, changed)
        following = builder.add(index, ir.Constant(WORD, 1))
        index.add_incoming(following, builder.block)
        for place, phi in inside.items():
            phi.add_incoming(sums[place], before)
            phi.add_incoming(changed[place], builder.block)
        builder.cbranch(builder.icmp_signed("<", following, ir.Constant(WORD, count)), body, after)
        builder.position_at_end(after)
        sums.update(changed)

    def change_if(self, condition: Any, sums: Sums, change: Callable[[Sums], None]) -> None:
        """Change sums, where a condition is true."""
        before, changed = self.builder.block, dict(sums)
        with self.builder.if_then(condition):
            change(changed)
            inside = self.builder.block
        for place, old in sums.items():
            sums[place] = self.builder.phi(VECTOR)
            sums[place].add_incoming(old, before)
            sums[place].add_incoming(changed[place], inside)
