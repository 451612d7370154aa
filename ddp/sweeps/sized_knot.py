"""One knot of the backward sweep, compiled for its sizes: no loops, every matrix where registers want it.

The recursion is that of riccati.py without halves, [G; p] = [V; v] F at once and the rest in its order; V is read on
and above its diagonal alone. The products that every entry of V begins with stand before the policy, whose divisions
wait for each other: processors do both at once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ddp.compiling.kernel import callback, specialised
from ddp.matrices.algebra import PIVOT
from ddp.matrices.registers import DOUBLE, HALF, VECTOR, WIDTH, WORD, at, lanes, load, load_where, splat, store, store_where
from ddp.sweeps.room import read_room
from ddp.sweeps.model import load_costs, read_model

MOST = 24
"""Sums at once, of 32 registers."""

Row = list[Any]
"""The registers of a row."""


class _Emitter:
    """Arithmetic on registers at addresses with constant offsets."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder

    def number(self, x: float) -> Any:
        return ir.Constant(DOUBLE, x)

    def shifted(self, address: Any, numbers: int) -> Any:
        return self.builder.add(address, ir.Constant(WORD, 8 * numbers))

    def load(self, address: Any, index: int) -> Any:
        return self.builder.load(self.builder.gep(at(self.builder, address), [ir.Constant(WORD, index)]))

    def store(self, x: Any, address: Any, index: int) -> None:
        self.builder.store(x, self.builder.gep(at(self.builder, address), [ir.Constant(WORD, index)]))

    def everywhere(self, address: Any, index: int) -> Any:
        return splat(self.builder, self.load(address, index))

    def registers(self, address: Any, index: int, which: range) -> Row:
        return [load(self.builder, at(self.builder, address), ir.Constant(WORD, index + WIDTH * j)) for j in which]

    def write(self, row: Row, address: Any, index: int) -> None:
        for j, x in enumerate(row):
            store(self.builder, x, at(self.builder, address), ir.Constant(WORD, index + WIDTH * j))

    def times(self, x: Any, y: Any) -> Any:
        return self.builder.fmul(x, y, flags=("contract",))

    def plus(self, x: Any, y: Any) -> Any:
        return self.builder.fadd(x, y, flags=("contract",))

    def add_times(self, sums: Row, factor: Any, row: Row) -> Row:
        """sums + factor row."""
        return [self.plus(s, self.times(factor, x)) for s, x in zip(sums, row, strict=True)]

    def gather(self, parts: list[tuple[Any, int, int]], which: range) -> Row:
        """Registers of a row whose columns begin .. end-1 are at an address, for every part; zeros in the others."""
        row = []
        for j in which:
            x = ir.Constant(VECTOR, [0.0] * WIDTH)
            for address, begin, end in parts:
                inside = [begin <= WIDTH * j + k < end for k in range(WIDTH)]
                if any(inside):
                    x = load_where(self.builder, self.shifted(address, WIDTH * j - begin), lanes(inside), x)
            row.append(x)
        return row

    def hidden(self, address: Any) -> Any:
        """The same address, of which the compiler cannot tell: what was stored there is loaded when it is needed."""
        return self.builder.asm(ir.FunctionType(WORD, [WORD]), "", "=r,0", [address], False)


def _tiles(n: int, nu: int) -> Any:
    """``(V, v, q, G, H, Y, N, U, A, B, lz, start, stride, diagonal, T, blend, mu, k, K)``: whether done, what it brings.
    """
    m, nz = n // 2, n + nu
    all_of, of_x = range(-(-nz // WIDTH)), range(-(-n // WIDTH))
    ld, lx = WIDTH * len(all_of), WIDTH * len(of_x)
    block = -(-m * m // WIDTH) * WIDTH

    @intrinsic
    def knot(typingctx, V, v, q, G, H, Y, N, U, A, B, lz, start, stride, diagonal, T, blend, mu, k, K):  # type: ignore[no-untyped-def]
        def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
            V, v, q, G, H, Y, N, U, A, B, lz, start, stride, diagonal, T, blend, mu, to_k, to_K = args
            e = _Emitter(builder)
            coupled = builder.icmp_signed("!=", T, ir.Constant(WORD, 0))
            share = splat(builder, blend)
            none = ir.Constant(VECTOR, [0.0] * WIDTH)

            def Z(l: int, which: range) -> Row:
                return e.gather([(e.shifted(A, n * l), 0, n), (e.shifted(B, nu * l), n, nz)], which)

            def part(name: int, i: int) -> Any:
                return e.shifted(T, block * name + m * i)

            def scaled(row: Row) -> Row:
                return [builder.fmul(share, x) for x in row]

            def if_coupled(sums: dict[Any, Any], change: Callable[[], dict[Any, Any]]) -> dict[Any, Any]:
                before = builder.block
                with builder.if_then(coupled):
                    changed = change()
                    inside = builder.block
                merged = {}
                for key, old in sums.items():
                    if changed[key] is old:
                        merged[key] = old
                        continue
                    phi = builder.phi(VECTOR)
                    phi.add_incoming(old, before)
                    phi.add_incoming(changed[key], inside)
                    merged[key] = phi
                return merged

            # [G; q] := [0; l_z] + [V; v] F, rows v of G with what T has of (v', q)
            gradients = e.gather([(lz, 0, nz)], all_of)
            each = max(1, MOST // len(all_of))
            each = -(-(n + 2) // -(-(n + 2) // each))
            for first in range(0, n + 2, each):
                rows = range(first, min(first + each, n + 2))
                sums = {(i, j): gradients[j] if i >= n else none for i in rows for j in all_of}

                def with_nq() -> dict[Any, Any]:
                    out = dict(sums)
                    for i in rows:
                        if m <= i < n:
                            row = scaled(e.gather([(part(4, i - m), 0, m)], of_x))
                            e.write(row, H, lx * (i - m))
                            out |= {(i, j): x for j, x in zip(of_x, row, strict=True)}
                    return out

                if any(m <= i < n for i in rows):
                    sums = if_coupled(sums, with_nq)
                for l in range(n):
                    row = Z(l, all_of)
                    for i in rows:
                        factor = e.everywhere(v, lx * (i - n) + l) if i >= n else e.everywhere(V, lx * min(i, l) + max(i, l))
                        for j in all_of:
                            sums[i, j] = e.plus(sums[i, j], e.times(factor, row[j]))
                for i in rows:
                    to, at_row = (q, i - n) if i >= n else (G, i)
                    e.write([sums[i, j] for j in all_of], to, ld * at_row)
            G, H, V = e.hidden(G), e.hidden(H), e.hidden(V)

            # rows u of Q
            entries = e.gather([(diagonal, 0, nz)], all_of)
            shift = splat(builder, mu)
            entries = [builder.fadd(x, shift) for x in entries]

            def start_of(i: int, j: int) -> Any:
                place = builder.add(start, builder.mul(stride, ir.Constant(WORD, 8 * i)))
                x = e.registers(place, 0, range(j, j + 1))[0]
                if i // WIDTH == j:
                    own = lanes(k == i % WIDTH for k in range(WIDTH))
                    x = builder.fadd(x, builder.select(own, entries[j], none))
                return x

            sums = {(i, j): start_of(n + i, j) for i in range(nu) for j in all_of}
            for l in range(n):
                row = e.registers(G, ld * l, all_of)
                for i in range(nu):
                    factor = e.everywhere(B, nu * l + i)
                    for j in all_of:
                        sums[i, j] = e.plus(sums[i, j], e.times(factor, row[j]))
            for i in range(nu):
                e.write([sums[i, j] for j in all_of], Y, ld * i)
            Y, q = e.hidden(Y), e.hidden(q)

            # U and D
            own = {(i, l): e.load(Y, ld * i + n + l) for i in range(nu) for l in range(i, nu)}
            y = [e.load(q, n + i) for i in range(nu)]
            magnitude = builder.module.declare_intrinsic("llvm.fabs", [DOUBLE])
            bounds = [builder.fmul(e.number(PIVOT), builder.call(magnitude, [own[i, i]])) for i in range(nu)]
            done = ir.Constant(ir.IntType(1), 1)
            negative = []
            square = e.number(0.0)
            for i in range(nu):
                done = builder.and_(done, builder.fcmp_ordered(">", own[i, i], bounds[i]))
                inverse = builder.fdiv(e.number(-1.0), own[i, i])
                negative.append(inverse)
                e.store(inverse, U, nu * i + i)
                for l in range(i + 1, nu):
                    factor = builder.fmul(own[i, l], inverse)
                    e.store(factor, U, nu * i + l)
                    y[l] = e.plus(y[l], e.times(factor, y[i]))
                    for r in range(l, nu):
                        own[l, r] = e.plus(own[l, r], e.times(factor, own[i, r]))
            U = e.hidden(U)
            # Q_xx
            keys = [(i, j) for i in range(n) for j in of_x[i // WIDTH :]]
            Q = {(i, j): start_of(i, j) for i, j in keys}
            for l in range(n):
                row = e.registers(G, ld * l, of_x)
                for i in range(n):
                    factor = e.everywhere(A, n * l + i)
                    for j in of_x[i // WIDTH :]:
                        Q[i, j] = e.plus(Q[i, j], e.times(factor, row[j]))

            def with_blocks() -> dict[Any, Any]:
                out = dict(Q)
                for i in range(n):
                    pieces = [(part(0, i), 0, m), (part(1, i), m, n)] if i < m else [(part(2, i - m), m, n)]
                    which = of_x[i // WIDTH :]
                    for j, x in zip(which, e.gather(pieces, which), strict=True):
                        out[i, j] = e.plus(out[i, j], e.times(share, x))
                for l in range(m):
                    row = Z(m + l, of_x)
                    for i in range(m):
                        factor = e.everywhere(H, lx * l + i)
                        for j in of_x[i // WIDTH :]:
                            out[i, j] = e.plus(out[i, j], e.times(factor, row[j]))
                return out

            Q = if_coupled(Q, with_blocks)
            brought = cgutils.alloca_once(builder, DOUBLE)
            builder.store(e.number(1.0), brought)
            with builder.if_then(done):
                # Y, N, the policy
                steps = [builder.fmul(y[i], negative[i]) for i in range(nu)]
                for i in range(nu):
                    square = e.plus(square, e.times(steps[i], y[i]))
                found: list[Row] = []
                gains: list[Row] = []
                p = e.registers(q, 0, of_x)
                for i in range(nu):
                    row = e.registers(Y, ld * i, of_x)
                    for l in range(i):
                        row = e.add_times(row, e.everywhere(U, nu * l + i), found[l])
                    found.append(row)
                    scale = e.everywhere(U, nu * i + i)
                    gains.append([builder.fmul(scale, x) for x in row])
                    e.write(row, Y, ld * i)
                    e.write(gains[i], N, ld * i)
                    p = e.add_times(p, splat(builder, y[i]), gains[i])
                e.write(p, v, 0)
                e.write(e.registers(q, ld, of_x), v, lx)
                N, Y = e.hidden(N), e.hidden(Y)
                for i in reversed(range(nu)):
                    for l in range(i + 1, nu):
                        factor = e.load(U, nu * i + l)
                        steps[i] = e.plus(steps[i], e.times(factor, steps[l]))
                        gains[i] = e.add_times(gains[i], splat(builder, factor), gains[l])
                    e.store(steps[i], to_k, i)
                    for j in of_x:
                        inside = lanes(WIDTH * j + k < n for k in range(WIDTH))
                        store_where(builder, gains[i][j], e.shifted(to_K, n * i + WIDTH * j), inside)
                for l in range(nu):
                    row = e.registers(Y, ld * l, of_x)
                    for i in range(n):
                        factor = e.everywhere(N, ld * l + i)
                        for j in of_x[i // WIDTH :]:
                            Q[i, j] = e.plus(Q[i, j], e.times(factor, row[j]))
                for i, j in keys:
                    e.write([Q[i, j]], V, lx * i + WIDTH * j)
                builder.store(builder.fmul(e.number(0.5), square), brought)
            return builder.load(brought)

        i, f = types.int64, types.float64
        return f(*[i] * 15, f, f, i, i), codegen

    return knot


def _template(model, room, t, separable, blend, mu):  # type: ignore[no-untyped-def]
    p, r = read_model(model), read_room(room)
    n, nz = p.n, p.n + p.nu
    start, stride, diagonal, T = r.zeros, 0, r.zeros, 0
    if separable != 0:
        diagonal = p.diagonal + 8 * t * nz
    else:
        load_costs(model, room, t, blend)
        start, stride = r.Q, r.ld
    if blend > 0.0:
        T = p.T + t * p.step
    return _knot(
        r.V, r.v, r.q, r.Z, r.P, r.Q + 8 * n * r.ld, r.N, r.U, p.A + 8 * t * n * n, p.B + 8 * t * n * p.nu,
        p.lz + 8 * t * nz, start, stride, diagonal, T, blend, mu, p.k + 8 * t * p.nu, p.K + 8 * t * n * p.nu,
    )


@cache
def sized_knot(n: int, nu: int) -> int:
    """The address of ``double(model, room, t, separable, blend, mu)`` for a size, or 0."""
    if not (4 < n <= 16 and nu <= 8):
        return 0
    made = callback(specialised(_template, f"knot_{n}_{nu}", _knot=_tiles(n, nu)), signature=SIGNATURE)
    _alive.append(made)
    return made.address


SIGNATURE = types.float64(*[types.int64] * 4, types.float64, types.float64)
_alive: list[Any] = []
_knot = None


@intrinsic
def call_knot(typingctx, address, model, room, t, separable, blend, mu):  # type: ignore[no-untyped-def]
    """What the function at an address returns."""

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        prototype = ir.FunctionType(DOUBLE, [WORD] * 4 + [DOUBLE] * 2)
        return builder.call(builder.inttoptr(args[0], prototype.as_pointer()), args[1:])

    i, f = types.int64, types.float64
    return f(i, i, i, i, i, f, f), codegen
