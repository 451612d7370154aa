"""Products of a large semi-implicit knot, compiled for its sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ddp.compiling.kernel import kernel
from ddp.matrices.registers import VECTOR, WIDTH, WORD, lanes, splat
from ddp.matrices.tiles import padded
from ddp.matrices.unrolled import ZEROS, Row, Unrolled

SUMS = 24


class _Large(Unrolled):
    def __init__(self, builder, n, nu, runs, given):
        super().__init__(builder)
        self._builder, self._given, self.runs = builder, given, runs
        self.n, self.nu, self.m, self.nz = n, nu, n // 2, n + nu
        self.bent = [first + k for first, size in runs for k in range(size)]
        self.turned = len(self.bent)
        self.size = self.turned + self.m
        self.z, self.x, self.q = (range(padded(c) // WIDTH) for c in (self.nz, n, self.m))
        self.ld, self.lx, self.lm = padded(self.nz), padded(n), padded(self.m)
        self._blend = splat(builder, given.blend)
        self._h = splat(builder, given.h)
        self._coupled = builder.icmp_signed("!=", given.T, ir.Constant(WORD, 0))

    def along(self, address, l, stride):
        """The l-th row."""
        if isinstance(l, int):
            return self.moved(address, l * stride)
        return self._builder.add(address, self._builder.mul(l, ir.Constant(WORD, 8 * stride)))

    def loop(self, length, body, sums=None):
        builder, sums = self._builder, {} if sums is None else sums
        before = builder.block
        head = builder.append_basic_block("head")
        after = builder.append_basic_block("after")
        builder.branch(head)
        builder.position_at_end(head)
        index = builder.phi(WORD)
        index.add_incoming(ir.Constant(WORD, 0), before)
        phis = {}
        for place, old in sums.items():
            phis[place] = builder.phi(VECTOR)
            phis[place].add_incoming(old, before)
        inside = dict(phis)
        body(index, inside)
        following = builder.add(index, ir.Constant(WORD, 1))
        index.add_incoming(following, builder.block)
        for place, phi in phis.items():
            phi.add_incoming(inside[place], builder.block)
        builder.cbranch(builder.icmp_signed("<", following, ir.Constant(WORD, length)), head, after)
        builder.position_at_end(after)
        sums.update(inside)

    def block_row(self, block, i):
        return self.along(self.moved(self._given.T, padded(self.m * self.m) * block), i, self.m)

    def if_coupled(self, change):
        with self._builder.if_then(self._coupled):
            change()

    def if_sums(self, sums, change):
        builder, before, changed = self._builder, self._builder.block, dict(sums)
        with builder.if_then(self._coupled):
            change(changed)
            inside = builder.block
        for place, old in sums.items():
            phi = builder.phi(VECTOR)
            phi.add_incoming(old, before)
            phi.add_incoming(changed[place], inside)
            sums[place] = phi

    def hide(self, *names):
        self._given = self._given._replace(**{name: self.hidden(getattr(self._given, name)) for name in names})

    # -------------------------------------------------------------------------------- halves

    def carry(self):
        self.fetch()
        self.halve()
        self.hide("Z", "H", "M")
        self.action()
        self.hide("G", "q")
        self.controls()

    def fetch(self):
        """Z := rows b and v of [A B]."""
        g = self._given

        def rows(first, count, out):
            def body(l, _):
                a, b = self.along(self.moved(g.A, self.n * first), l, self.n), self.along(self.moved(g.B, self.nu * first), l, self.nu)
                self.write(self.gather(self.z, (a, 0, self.n), (b, self.n, self.nz)), self.along(self.moved(g.Z, self.ld * out), l, self.ld), 0)

            self.loop(count, body)

        out = 0
        for first, count in (*self.runs, (self.m, self.m)):
            rows(first, count, out)
            out += count

    def halve(self):
        """H, M and w."""
        g, m, lx = self._given, self.m, self.lx
        outside = [lanes(WIDTH * j + k < m and WIDTH * j + k not in self.bent for k in range(WIDTH)) for j in self.q]

        def write(row_q, row_v, bent_part, out, H=True):
            straight = [self._builder.select(mask, x, ZEROS) for mask, x in zip(outside, row_q, strict=True)]
            if H:
                self.write(straight, self.along(g.H, out, self.ld), 0)
            else:
                pass
            place = self.along(g.M, out, lx)
            if self.turned:
                self.write(bent_part, place, 0)
            self.write(self.add_row(row_v, self._h, straight), self.moved(place, self.turned), 0)
            return straight

        def bent_of(row_address):
            parts, at = [], 0
            for first, count in self.runs:
                parts.append((self.moved(row_address, first), at, at + count))
                at += count
            return self.gather(range(-(-self.turned // WIDTH)), *parts)

        def plain(source, first, count, out):
            """Rows of P that are rows of V."""

            def body(l, _):
                row = self.along(self.moved(source, lx * first), l, lx)
                write(self.read(row, 0, self.q), self.read(row, m, self.q), bent_of(row), self._builder.add(l, ir.Constant(WORD, out)))

            if count:
                self.loop(count, body)

        def summed(first, count, out):
            def body(l, _):
                q, v = (self.along(self.moved(g.V, lx * i), l, lx) for i in (first, m + first))
                row_q = self.add_row(self.read(v, 0, self.q), self._h, self.read(q, 0, self.q))
                row_v = self.add_row(self.read(v, m, self.q), self._h, self.read(q, m, self.q))
                which = range(-(-self.turned // WIDTH))
                bent = self.add_row(bent_of(v), self._h, bent_of(q)) if self.turned else []
                write(row_q, row_v, bent, self._builder.add(l, ir.Constant(WORD, out)))

            if count:
                self.loop(count, body)

        out = 0
        for first, count in self.runs:
            plain(g.V, first, count, out)
            out += count
        at = 0
        for first, count in (*self.runs, (m, 0)):
            summed(at, first - at, out + at)
            plain(g.V, m + first, count, out + first)
            at = first + count
        # gradients
        slopes = self.gather(self.z, (g.lz, 0, self.nz))
        for i in range(2):
            row = self.moved(g.v, lx * i)
            row_q = self.read(row, 0, self.q)
            straight = [self._builder.select(mask, x, ZEROS) for mask, x in zip(outside, row_q, strict=True)]
            place = self.moved(g.M, lx * (self.size + i))
            if self.turned:
                self.write(bent_of(row), place, 0)
            self.write(self.add_row(self.read(row, m, self.q), self._h, straight), self.moved(place, self.turned), 0)
            start = [self._builder.fadd(x, straight[j]) if j in self.q else x for j, x in enumerate(slopes)]
            self.write(start, g.q, self.ld * i)

        def add_nq():
            def body(l, _):
                row = self.along(self.moved(g.H, self.ld * self.turned), l, self.ld)
                self.write(self.add_row(self.read(row, 0, self.q), self._blend, self.gather(self.q, (self.block_row(4, l), 0, m))), row, 0)

            self.loop(m, body)

        self.if_coupled(add_nq)

    def tiles(self, rows, width):
        """Rows of tiles."""
        each = max(1, SUMS // width)
        count = -(-len(rows) // each)
        each = -(-len(rows) // count)
        return [rows[k : k + each] for k in range(0, len(rows), each)]

    def products(self, sums, rows, which, left, right, length):
        def body(l, sums):
            row = right(l)
            for i in rows:
                factor = left(l, i)
                for j in which(i):
                    sums[i, j] = self.add(sums[i, j], factor, row[j])

        self.loop(length, body, sums)

    def action(self):
        """[G; q] := [H; .] + [M; w] Z."""
        g, size = self._given, self.size
        for rows in (*self.tiles(range(size), len(self.z)), range(size, size + 2)):
            sums = {}
            for i in rows:
                start = self.read(g.q, self.ld * (i - size), self.z) if i >= size else self.read(g.H, self.ld * i, self.q)
                for j in self.z:
                    sums[i, j] = start[j] if j < len(start) else ZEROS
            self.products(
                sums, rows, lambda _: self.z, lambda l, i: self.everywhere(self.along(g.M, l, 1), self.lx * i),
                lambda l: self.read(self.along(g.Z, l, self.ld), 0, self.z), size,
            )
            for i in rows:
                to, own = (g.q, i - size) if i >= size else (g.G, i)
                self.write([sums[i, j] for j in self.z], to, self.ld * own)

    def start(self, sums, rows, which, entries):
        g, builder = self._given, self._builder
        for i in rows:
            row = builder.add(g.start, builder.mul(g.stride, ir.Constant(WORD, 8 * i)))
            for j in which(i):
                sums[i, j] = self.read(row, 0, (j,))[0]
            own = lanes(k == i % WIDTH for k in range(WIDTH))
            j = i // WIDTH
            entry = builder.fadd(self.gather((j,), (self.moved(g.diagonal, i), i, i + 1))[0], builder.select(own, entries, ZEROS))
            sums[i, j] = builder.fadd(sums[i, j], entry)

    def controls(self):
        """Rows u of Q."""
        g, n = self._given, self.n
        mu = splat(self._builder, g.mu)
        for rows in self.tiles(range(n, self.nz), len(self.z)):
            sums = {}
            self.start(sums, rows, lambda _: self.z, mu)
            self.products(
                sums, rows, lambda _: self.z, lambda l, i: self.everywhere(self.along(g.Z, l, self.ld), i),
                lambda l: self.read(self.along(g.G, l, self.ld), 0, self.z), self.size,
            )
            for i in rows:
                self.write([sums[i, j] for j in self.z], g.Y, self.ld * (i - n))

    def close(self):
        """V := Q_xx + N_xᵀ Y."""
        g, n, m, lx = self._given, self.n, self.m, self.lx
        mu = splat(self._builder, g.mu)
        which = lambda i: self.x[i // WIDTH :]
        for rows in (*self.panels(range(m)), *self.panels(range(m, n))):
            sums = {}
            self.start(sums, rows, which, mu)
            if rows[0] < m:
                for i in rows:
                    if i not in self.bent:
                        parts, at = [], 0
                        for first, count in (*self.runs, (m, 0)):
                            if at < first:
                                parts.append((self.moved(g.V, lx * i + at), at, first))
                            at = first + count
                        for j, x in zip(which(i), self.gather(which(i), *parts), strict=True):
                            if x is not ZEROS:
                                sums[i, j] = self._builder.fadd(sums[i, j], x)

            def add_blocks(sums, rows=rows):
                for i in rows:
                    parts = [(self.block_row(2, i - m), m, n)]
                    if i < m:
                        parts = [(self.block_row(0, i), 0, m), (self.block_row(1, i), m, n)]
                    for j, x in zip(which(i), self.gather(which(i), *parts), strict=True):
                        sums[i, j] = self.add(sums[i, j], self._blend, x)

            self.if_sums(sums, add_blocks)
            self.products(
                sums, rows, which, lambda l, i: self.everywhere(self.along(g.Z, l, self.ld), i),
                lambda l: self.read(self.along(g.G, l, self.ld), 0, self.x), self.size,
            )
            if rows[0] < m:
                self.products(
                    sums, rows, which, lambda l, i: self.everywhere(self.along(g.H, l, self.ld), i),
                    lambda l: self.read(self.along(g.Z, l, self.ld), 0, self.x), self.size,
                )
            self.products(
                sums, rows, which, lambda l, i: self.everywhere(self.along(g.N, l, self.ld), i),
                lambda l: self.read(self.along(g.Y, l, self.ld), 0, self.x), self.nu,
            )
            for (i, j), x in sums.items():
                self.write([x], g.V, lx * i + WIDTH * j)

    def panels(self, rows):
        """Rows of tiles of the upper triangle."""
        found, used = [[]], 0
        for i in rows:
            width = len(self.x) - i // WIDTH
            if used + width > SUMS:
                found.append([])
                used = 0
            found[-1].append(i)
            used += width
        return found
