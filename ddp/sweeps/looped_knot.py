"""The products of one knot of the backward sweep with semi-implicit steps of some dozens of states, in tight loops.

The recursion is that of riccati.py, where V, v and the other letters are explained. Sums stay in registers from what
they begin with, blocks of T and V_oo, to what they end in: of V, that is from Q_xx to the last of N_xᵀ Y.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ddp.matrices.registers import WIDTH, exchange, lanes
from ddp.matrices.tiles import padded
from ddp.matrices.unrolled import ZEROS, Row, Sums, bunches
from ddp.sweeps.knot_code import NQ, KnotCode

Runs = tuple[tuple[int, int], ...]
"""Where bent rows begin, and how many there are."""


class LoopedKnot(KnotCode):
    """Their instructions; at most six registers to a row of z, or four rows of them at once are not to be had."""

    def __init__(self, builder: Any, n: int, nu: int, runs: Runs, told: Any) -> None:
        super().__init__(builder, n, nu, told)
        self._runs, self._turned = runs, sum(size for _, size in runs)
        self._size = self._turned + self.m  # of M
        self._q, self._b = range(padded(self.m) // WIDTH), range(padded(self._turned) // WIDTH)
        bent = [first + k for first, size in runs for k in range(size)]
        straight = [i < self.m and i not in bent for i in range(padded(self.m))]
        self._is_straight = [straight[WIDTH * j : WIDTH * (j + 1)] for j in self._q]
        ends = [0, *(first + size for first, size in runs)]
        self._straight = [*zip(ends, [*(first for first, _ in runs), self.m], strict=True)]  # begin, end

    def action(self) -> None:
        """Z, H, M, G, q and Y."""
        self._fetch()
        self._halve()
        self.hide("Z", "H", "M", "q")
        self._carry()
        self.hide("G")
        self._rows_of_controls()

    def _fetch(self) -> None:
        """Z := rows b and v of [A B]."""
        out = 0
        for first, size in (*self._runs, (self.m, self.m)):

            def copy(l: Any, _: Sums, first: int = first, out: int = out) -> None:
                self.make.write(self.of_a(l, self.z, first), self.make.row(self.given.Z, l, self.ld, out))

            self.make.repeat(size, copy)
            out += size

    def _halve(self) -> None:
        """H and M, and below M gradients; q := l_z + [v_q 0] of those."""
        g, m, lx = self.given, self.m, self.lx
        out = 0
        for first, size in self._runs:
            self._halve_rows(out, size, self.make.moved(g.V, lx * first))
            out += size
        for (begin, end), (first, size) in zip(self._straight, (*self._runs, (m, 0)), strict=True):
            of_q, of_v = (self.make.moved(g.V, lx * i) for i in (begin, m + begin))
            self._halve_rows(out + begin, end - begin, of_v, of_q)
            self._halve_rows(out + first, size, self.make.moved(g.V, lx * (m + first)))
        slopes = self.make.gather(self.z, (g.lz, 0, self.nz))
        for i in range(2):
            straight = self._halve_row(self.make.moved(g.v, lx * i), None, self.make.moved(g.M, lx * (self._size + i)))
            start = [*self.make.plus(slopes[: len(straight)], straight), *slopes[len(straight) :]]
            self.make.write(start, g.q, self.ld * i)

        def add_nq(l: Any, _: Sums) -> None:
            row = self.make.row(g.H, l, self.ld, self._turned)
            nq = self.make.gather(self._q, (self.of_block(NQ, l), 0, m))
            self.make.write(self.make.add_row(self.make.read(self._q, row), self.blend, nq), row)

        with self.make.builder.if_then(self.coupled):
            self.make.repeat(m, add_nq)

    def _halve_rows(self, out: int, count: int, one: Any, other: Any = None) -> None:
        """Rows of H and M, of rows of V: of one, or of one and h times another."""

        def halve(l: Any, _: Sums) -> None:
            own, rest = self.make.row(one, l, self.lx), None if other is None else self.make.row(other, l, self.lx)
            H = self._halve_row(own, rest, self.make.row(self.given.M, l, self.lx, out))
            self.make.write(H, self.make.row(self.given.H, l, self.ld, out))

        if count > 0:
            self.make.repeat(count, halve)

    def _halve_row(self, one: Any, other: Any, M: Any) -> Row:
        """A row of M, to an address; that of H."""

        def part(take: Callable[[Any], Row]) -> Row:
            return take(one) if other is None else self.make.add_row(take(one), self.h, take(other))

        of_q = part(lambda row: self.make.read(self._q, row))
        of_v = part(lambda row: self.make.read(self._q, row, self.m))
        bent = part(self._bent)
        H = [self.make.only(*pair) for pair in zip(of_q, self._is_straight, strict=True)]
        self.make.write(bent, M)
        self.make.write(self.make.add_row(of_v, self.h, H), M, self._turned)
        return H

    def _bent(self, row: Any) -> Row:
        """The bent columns of a row of V, side by side."""
        parts, end = [], 0
        for first, size in self._runs:
            parts.append((self.make.moved(row, first), end, end + size))
            end += size
        return self.make.gather(self._b, *parts)

    def _add_product(self, sums: Sums, length: int, left: Any, right: Any, ldl: int, ldr: int) -> None:
        """sums += leftᵀ right, of matrices at addresses; rows and registers are those that there are sums of."""
        which = range(max(j for _, j in sums) + 1)

        def add(l: Any, sums: Sums) -> None:
            column, row = self.make.entries(self.make.row(left, l, ldl)), self.make.row(right, l, ldr)
            self.make.add_outer(sums, column, self.make.read(which, row))

        self.make.repeat(length, add, sums)

    def _carry(self) -> None:
        """[G; q] := [H; q] + [M; v] Z."""
        g, size = self.given, self._size
        for rows in (*bunches(range(size), lambda _: len(self.z)), [size, size + 1]):
            out = self.make.moved(g.q, -self.ld * size) if rows[0] == size else g.G
            start, known = (out, self.z) if rows[0] == size else (g.H, self._q)
            sums: Sums = {}
            for i in rows:
                row = [*self.make.read(known, start, self.ld * i), *[ZEROS] * len(self.z)]
                sums.update({(i, j): row[j] for j in self.z})

            def add(l: Any, sums: Sums) -> None:
                column = self.make.entries(self.make.row(g.M, l, 1), self.lx)
                self.make.add_outer(sums, column, self.make.read(self.z, self.make.row(g.Z, l, self.ld)))

            self.make.repeat(size, add, sums)
            for i in rows:
                self.make.write([sums[i, j] for j in self.z], out, self.ld * i)

    def _rows_of_controls(self) -> None:
        """Y := rows u of Q."""
        g, n = self.given, self.n
        for rows in bunches(range(n, self.nz), lambda _: len(self.z)):
            sums = self.start(rows, lambda _: self.z)
            self._add_product(sums, self._size, g.Z, g.G, self.ld, self.ld)
            for i in rows:
                self.make.write([sums[i, j] for j in self.z], g.Y, self.ld * (i - n))

    def rows_of_states(self) -> Sums:
        """None: there are more than registers."""
        return {}

    def value(self, Q: Sums) -> None:
        """V := Q_xx + N_xᵀ Y, and below its diagonal."""
        m, n = self.m, self.n
        for rows in (range(m), range(m, n)):
            for some in bunches(rows, lambda i: len(self.upper(i))):
                self._rows_of_value(some)
        self.hide("V")
        for i in self.x:
            for j in self.upper(WIDTH * i):
                self._mirror(i, j)

    def _mirror(self, i: int, j: int) -> None:
        """Below V's diagonal what is above, of 8 x 8 numbers; gradients, below V, are written later."""
        V, lx = self.given.V, self.lx
        above = [self.make.read((j,), V, lx * (WIDTH * i + k))[0] for k in range(WIDTH)]
        for k, (own, x) in enumerate(zip(above, exchange(self.make.builder, above), strict=True)):
            below = self.make.builder.select(lanes(c < k for c in range(WIDTH)), x, own) if i == j else x
            self.make.write([below], V, lx * (WIDTH * j + k) + WIDTH * i)

    def _rows_of_value(self, rows: Sequence[int]) -> None:
        g, lx, ld = self.given, self.lx, self.ld
        sums = self.start(rows, self.upper)
        if rows[0] < self.m:
            self._add_straight(sums)
        self.make.change_if(self.coupled, sums, self.add_blocks)
        self._add_product(sums, self._size, g.Z, g.G, ld, ld)
        if rows[0] < self.m:
            self._add_product(sums, self._size, g.H, g.Z, ld, ld)
        self._add_product(sums, self.nu, g.N, g.Y, ld, ld)
        for (i, j), x in sums.items():
            self.make.write([x], g.V, lx * i + WIDTH * j)

    def _add_straight(self, sums: Sums) -> None:
        """sums += V_oo."""
        for i in dict.fromkeys(i for i, _ in sums):
            if any(begin <= i < end for begin, end in self._straight):
                row = self.make.moved(self.given.V, self.lx * i)
                parts = [(self.make.moved(row, begin), begin, end) for begin, end in self._straight]
                for j, x in zip(self.upper(i), self.make.gather(self.upper(i), *parts), strict=True):
                    if x is not ZEROS:
                        sums[i, j] = self.make.builder.fadd(sums[i, j], x)
