"""One knot of the backward sweep, compiled for its sizes: a few hundred registers' work, without a loop.

The recursion is that of riccati.py, where V, v and the other letters are explained; of semi-implicit steps those
without bent rows are treated as such. V is read and written on and above its diagonal alone. What V's products begin
with stands before the policy, whose divisions wait for each other: processors do both at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ddp.compiling.kernel import callback, specialised
from ddp.matrices.algebra import PIVOT
from ddp.matrices.registers import DOUBLE, VECTOR, WIDTH, WORD, exchange, lanes, load, splat
from ddp.matrices.tiles import padded
from ddp.matrices.unrolled import ZEROS, Row, Unrolled, number
from ddp.sweeps.model import load_costs, read_model
from ddp.sweeps.room import read_room
from ddp.sweeps.riccati import factorize, policy, complete
from ddp.matrices.rows import copy_rows
from ddp.matrices.tiles import add_product
from ddp.sweeps.large_knot import _Large

LEAST, MOST, CONTROLS = 5, 16, 8
"""States, at least and at most, and controls, at most, of knots that this is for."""

SUMS = 24
"""As many at once, of 32 registers."""

Sums = dict[tuple[int, int], Any]
"""Registers of a matrix, by row and place in it."""


class _Given(NamedTuple):
    """Addresses, but for h, blend and mu; start, stride: as in `riccati.action_value`; diagonal: added to Q's, as mu.

    G, H, M, Y, N, U: room for matrices, padded; q: for both gradients.  T: 0 if there is none.
    """

    V: Any
    v: Any
    q: Any
    G: Any
    H: Any
    M: Any
    Y: Any
    N: Any
    U: Any
    A: Any
    B: Any
    lz: Any
    start: Any
    stride: Any
    diagonal: Any
    T: Any
    k: Any
    K: Any
    h: Any
    blend: Any
    mu: Any


class _Knot(Unrolled):
    """The instructions of a knot of n states and nu controls."""

    def __init__(self, builder: Any, n: int, nu: int, halved: bool, given: _Given) -> None:
        super().__init__(builder)
        self._builder, self._given, self._halved = builder, given, halved
        self.n, self.nu, self.m, self.nz = n, nu, n // 2, n + nu
        self.z, self.x = range(padded(self.nz) // WIDTH), range(padded(n) // WIDTH)
        self.ld, self.lx = padded(self.nz), padded(n)
        self.size = self.m if halved else n  # of M
        self.first = n - self.size  # of the rows of [A B] that are Z
        self._blend, self._h = splat(builder, given.blend), splat(builder, given.h)
        self._coupled = builder.icmp_signed("!=", given.T, ir.Constant(WORD, 0))

    def emit(self) -> Any:
        """What the step of the knot brings, or 1 where Q_uu is not positive definite; V is as it was, then."""
        builder, brought = self._builder, cgutils.alloca_once(self._builder, DOUBLE)
        builder.store(number(1.0), brought)
        if self._halved:
            self._halve()
        self._carry()
        self._hide("G", "H")
        self._rows_of_controls()
        self._hide("Y", "q")
        done, y, inverse = self._eliminate()
        self._hide("U", "V")
        Q = self._rows_of_states()
        with builder.if_then(done):
            builder.store(self._policy(y, inverse), brought)
            self._hide("N", "Y")
            self._value(Q)
        return builder.load(brought)

    def _hide(self, *names: str) -> None:
        self._given = self._given._replace(**{name: self.hidden(getattr(self._given, name)) for name in names})

    def _row_of_z(self, l: int, which: Iterable[int]) -> Row:
        g, row = self._given, self.first + l
        return self.gather(
            which, (self.moved(g.A, self.n * row), 0, self.n), (self.moved(g.B, self.nu * row), self.n, self.nz)
        )

    def _block_row(self, block: int, i: int) -> Any:
        """Where the i-th row of a block of T is: qq, qv, vv, qn, nq."""
        return self.moved(self._given.T, padded(self.m * self.m) * block + self.m * i)

    def _if_coupled(self, sums: Sums, change: Callable[[Sums], None]) -> Sums:
        """The sums, and what T changes of them where there is one."""
        if self.n % 2 == 1:
            return sums
        builder, before, changed = self._builder, self._builder.block, dict(sums)
        with builder.if_then(self._coupled):
            change(changed)
            inside = builder.block
        merged = {}
        for place, old in sums.items():
            merged[place] = builder.phi(VECTOR)
            merged[place].add_incoming(old, before)
            merged[place].add_incoming(changed[place], inside)
        return merged

    def _halve(self) -> None:
        """H := V_qvᵀ + h V_qq,   M := V_vv + h V_qv + h H, and below M the rows v_v + h v_q."""
        g, m, lx = self._given, self.m, self.lx
        S = [self.read(g.V, lx * i + m, (0,))[0] for i in range(WIDTH)]
        P = [self.read(g.V, lx * i, (0,))[0] for i in range(WIDTH)]
        for i, (turned, below) in enumerate(zip(exchange(self._builder, S), exchange(self._builder, P), strict=True)):
            if i < m:
                whole = self._builder.select(lanes(k < i for k in range(WIDTH)), below, P[i])
                row = self._builder.select(lanes(k < m for k in range(WIDTH)), self.add(turned, self._h, whole), ZEROS)
                self.write([row], g.H, lx * i)
                R = self.read(g.V, lx * (m + i) + m, (0,))[0]
                self.write([self.add(R, self._h, self._builder.fadd(S[i], row))], g.M, lx * i)
        for i in range(2):
            of_q, of_v = (self.read(g.v, lx * i + begin, (0,))[0] for begin in (0, m))
            self.write([self.add(of_v, self._h, of_q)], g.M, lx * (m + i))
        self._hide("H", "M")

    def _carry(self) -> None:
        """[G; q] := [H; l_z] + [M; v] Z, after H += T_nq; without halves H is T_nq alone, in the rows v of G."""
        g, size, m = self._given, self.size, self.m
        above = size - m
        H = {(i, 0): self.read(g.H, self.lx * i, (0,))[0] if self._halved else ZEROS for i in range(m)}

        def add_nq(sums: Sums) -> None:
            for i in range(m):
                sums[i, 0] = self.add(sums[i, 0], self._blend, self.gather((0,), (self._block_row(4, i), 0, m))[0])
                self.write([sums[i, 0]], g.H, self.lx * i)

        H = self._if_coupled(H, add_nq)
        slopes = self.gather(self.z, (g.lz, 0, self.nz))
        most = -(-(size + 2) * len(self.z) // SUMS)
        each = -(-(size + 2) // most)
        for first in range(0, size + 2, each):
            rows = range(first, min(first + each, size + 2))
            sums: Sums = {}
            for i in rows:
                for j in self.z:
                    sums[i, j] = slopes[j] if i >= size else (H[i - above, j] if (i - above, j) in H else ZEROS)
                if i >= size and self._halved:
                    of_q = self.gather((0,), (self.moved(g.v, self.lx * (i - size)), 0, m))[0]
                    sums[i, 0] = self._builder.fadd(sums[i, 0], of_q)
            for l in range(size):
                row = self._row_of_z(l, self.z)
                for i in rows:
                    factor = self._of_value(i, l)
                    for j in self.z:
                        sums[i, j] = self.add(sums[i, j], factor, row[j])
            for i in rows:
                to, own = (g.q, i - size) if i >= size else (g.G, i)
                self.write([sums[i, j] for j in self.z], to, self.ld * own)

    def _of_value(self, i: int, l: int) -> Any:
        """An entry of M, or of the gradients below it."""
        g = self._given
        if i < self.size:
            return self.everywhere(g.M if self._halved else g.V, self.lx * min(i, l) + max(i, l))
        return self.everywhere(g.M, self.lx * i + l) if self._halved else self.everywhere(g.v, self.lx * (i - self.n) + l)

    def _start(self, rows: Iterable[int], which: Callable[[int], Iterable[int]]) -> Sums:
        """What rows of Q begin with."""
        g, builder, sums = self._given, self._builder, {}
        shift = splat(builder, g.mu)
        entries = [builder.fadd(x, shift) for x in self.gather(self.z, (g.diagonal, 0, self.nz))]
        for i in rows:
            row = builder.add(g.start, builder.mul(g.stride, ir.Constant(WORD, 8 * i)))
            for j in which(i):
                sums[i, j] = self.read(row, 0, (j,))[0]
            own = lanes(k == i % WIDTH for k in range(WIDTH))
            sums[i, i // WIDTH] = builder.fadd(sums[i, i // WIDTH], builder.select(own, entries[i // WIDTH], ZEROS))
        return sums

    def _add_products(self, sums: Sums, rows: Iterable[int], which: Callable[[int], Iterable[int]], left: Callable[[int, int], Any], right: Callable[[int], Row], length: int) -> None:
        """sums += leftᵀ right, of factors by row and place, and rows."""
        for l in range(length):
            row = right(l)
            for i in rows:
                factor = left(l, i)
                for j in which(i):
                    sums[i, j] = self.add(sums[i, j], factor, row[j])

    def _rows_of_controls(self) -> None:
        """Y := rows u of Q."""
        g, n, nu = self._given, self.n, self.nu
        sums = self._start(range(n, self.nz), lambda _: self.z)
        self._add_products(
            sums, range(n, self.nz), lambda _: self.z,
            lambda l, i: self.everywhere(g.B, nu * (self.first + l) + i - n),
            lambda l: self.read(g.G, self.ld * l, self.z), self.size,
        )
        for i in range(nu):
            self.write([sums[n + i, j] for j in self.z], g.Y, self.ld * i)

    def _eliminate(self) -> tuple[Any, Row, Row]:
        """U (nu, nu) := -D⁻¹ on its diagonal and -U above; whether all of D > 0, y, and -D⁻¹."""
        g, n, nu, builder = self._given, self.n, self.nu, self._builder
        own = {(i, l): self.load(g.Y, self.ld * i + n + l) for i in range(nu) for l in range(i, nu)}
        y, inverse = [self.load(g.q, n + i) for i in range(nu)], []
        magnitude = builder.module.declare_intrinsic("llvm.fabs", [DOUBLE])
        bounds = [builder.fmul(number(PIVOT), builder.call(magnitude, [own[i, i]])) for i in range(nu)]
        done = ir.Constant(ir.IntType(1), 1)
        for i in range(nu):
            done = builder.and_(done, builder.fcmp_ordered(">", own[i, i], bounds[i]))
            inverse.append(builder.fdiv(number(-1.0), own[i, i]))
            self.store(inverse[i], g.U, nu * i + i)
            for l in range(i + 1, nu):
                factor = builder.fmul(own[i, l], inverse[i])
                self.store(factor, g.U, nu * i + l)
                y[l] = self.add(y[l], factor, y[i])
                for r in range(l, nu):
                    own[l, r] = self.add(own[l, r], factor, own[i, r])
        return done, y, inverse

    def _from(self, i: int) -> Iterable[int]:
        """The registers of a row of x on and above the diagonal."""
        return self.x[i // WIDTH :]

    def _rows_of_states(self) -> Sums:
        """Q_xx."""
        g, n, m = self._given, self.n, self.m
        Q = self._start(range(n), self._from)
        if self._halved:
            for i in range(m):
                own = self.gather((0,), (self.moved(g.V, self.lx * i), 0, m))[0]
                Q[i, 0] = self._builder.fadd(Q[i, 0], own)
        self._add_products(
            Q, range(n), self._from, lambda l, i: self.everywhere(g.A, n * (self.first + l) + i),
            lambda l: self.read(g.G, self.ld * l, self.x), self.size,
        )

        def add_rest(Q: Sums) -> None:
            self._add_products(
                Q, range(m), self._from, lambda l, i: self.everywhere(g.H, self.lx * l + i),
                lambda l: self._row_of_z(self.size - m + l, self.x), m,
            )

        def add_blocks(Q: Sums) -> None:
            for i in range(n):
                parts = [(self._block_row(2, i - m), m, n)]
                if i < m:
                    parts = [(self._block_row(0, i), 0, m), (self._block_row(1, i), m, n)]
                for j, x in zip(self._from(i), self.gather(self._from(i), *parts), strict=True):
                    Q[i, j] = self.add(Q[i, j], self._blend, x)
            if not self._halved:
                add_rest(Q)

        if self._halved:
            add_rest(Q)
        return self._if_coupled(Q, add_blocks)

    def _policy(self, y: Row, inverse: Row) -> Any:
        """Y, N, v, k and K; what the step brings."""
        g, n, nu = self._given, self.n, self.nu
        step = [self._builder.fmul(a, b) for a, b in zip(y, inverse, strict=True)]
        square = number(0.0)
        Y: list[Row] = []
        N: list[Row] = []
        v = self.read(g.q, 0, self.x)
        for i in range(nu):
            square = self.add(square, step[i], y[i])
            row = self.read(g.Y, self.ld * i, self.x)
            for l in range(i):
                row = self.add_row(row, self.everywhere(g.U, nu * l + i), Y[l])
            Y.append(row)
            scale = self.everywhere(g.U, nu * i + i)
            N.append([self._builder.fmul(scale, x) for x in row])
            self.write(row, g.Y, self.ld * i)
            self.write(N[i], g.N, self.ld * i)
            v = self.add_row(v, splat(self._builder, y[i]), N[i])
        self.write(v, g.v, 0)
        self.write(self.read(g.q, self.ld, self.x), g.v, self.lx)
        for i in reversed(range(nu)):
            for l in range(i + 1, nu):
                factor = self.load(g.U, nu * i + l)
                step[i] = self.add(step[i], factor, step[l])
                N[i] = self.add_row(N[i], splat(self._builder, factor), N[l])
            self.store(step[i], g.k, i)
            self.scatter(N[i], self.moved(g.K, n * i), n)
        return self._builder.fmul(number(0.5), square)

    def _value(self, Q: Sums) -> None:
        """V := Q_xx + N_xᵀ Y."""
        g = self._given
        self._add_products(
            Q, range(self.n), self._from, lambda l, i: self.everywhere(g.N, self.ld * l + i),
            lambda l: self.read(g.Y, self.ld * l, self.x), self.nu,
        )
        for (i, j), x in Q.items():
            self.write([x], g.V, self.lx * i + WIDTH * j)


def _knot_of(n: int, nu: int, halved: bool) -> Any:
    """What a function of the size is made of."""

    @intrinsic
    def knot(typingctx, V, v, q, G, H, M, Y, N, U, A, B, lz, start, stride, diagonal, T, k, K, h, blend, mu):  # type: ignore[no-untyped-def]
        def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
            return _Knot(builder, n, nu, halved, _Given._make(args)).emit()

        return types.float64(*[types.int64] * 18, *[types.float64] * 3), codegen

    return knot


def _intrinsics(n, nu, runs):
    @intrinsic
    def carry(typingctx, Z, H, M, G, q, Y, N, V, v, A, B, lz, start, stride, diagonal, T, h, blend, mu):
        def codegen(context, builder, sig, args):
            _Large(builder, n, nu, runs, _LargeGiven._make(args)).carry()
            return context.get_dummy_value()

        return types.void(*[types.int64] * 16, *[types.float64] * 3), codegen

    @intrinsic
    def close(typingctx, Z, H, M, G, q, Y, N, V, v, A, B, lz, start, stride, diagonal, T, h, blend, mu):
        def codegen(context, builder, sig, args):
            _Large(builder, n, nu, runs, _LargeGiven._make(args)).close()
            return context.get_dummy_value()

        return types.void(*[types.int64] * 16, *[types.float64] * 3), codegen

    return carry, close


class _LargeGiven(NamedTuple):
    Z: Any
    H: Any
    M: Any
    G: Any
    q: Any
    Y: Any
    N: Any
    V: Any
    v: Any
    A: Any
    B: Any
    lz: Any
    start: Any
    stride: Any
    diagonal: Any
    T: Any
    h: Any
    blend: Any
    mu: Any


def _large(model, room, t, separable, h, blend, mu):
    p, r = read_model(model), read_room(room)
    n, nu, nz = p.n, p.nu, p.n + p.nu
    start, stride, diagonal, T = r.zeros, 0, r.zeros, 0
    if separable != 0:
        diagonal = p.diagonal + 8 * t * nz
    else:
        load_costs(model, room, t, blend)
        start, stride = r.Q, r.ld
    if blend > 0.0:
        T = p.T + t * p.step
    size = _turned + n // 2
    Y = r.Q + 8 * n * r.ld
    Z = r.Z
    H, G = Z - 8 * size * r.ld, Z + 8 * size * r.ld
    A, B, lz = p.A + 8 * t * n * n, p.B + 8 * t * n * nu, p.lz + 8 * t * nz
    _carry(Z, H, r.M, G, r.q, Y, r.N, r.V, r.v, A, B, lz, start, stride, diagonal, T, h, blend, mu)
    if not factorize(room):
        return 1.0
    brought = -0.5 * policy(room, p.k + 8 * t * nu, p.K + 8 * t * n * nu)
    _close(Z, H, r.M, G, r.q, Y, r.N, r.V, r.v, A, B, lz, start, stride, diagonal, T, h, blend, mu)
    complete(room)
    copy_rows(r.v, r.lx, r.q, r.ld, 2, n)
    add_product(r.v, r.lx, 1, r.lx, r.y, 0, 1, r.N, r.ld, nu)
    return brought


_carry = _close = _turned = None

def _template(model, room, t, separable, h, blend, mu):  # type: ignore[no-untyped-def]
    p, r = read_model(model), read_room(room)
    n, nu, nz = p.n, p.nu, p.n + p.nu
    start, stride, diagonal, T = r.zeros, 0, r.zeros, 0
    if separable != 0:
        diagonal = p.diagonal + 8 * t * nz
    else:
        load_costs(model, room, t, blend)
        start, stride = r.Q, r.ld
    if blend > 0.0:
        T = p.T + t * p.step
    return _knot(
        r.V, r.v, r.q, r.Z, r.P, r.M, r.Q + 8 * n * r.ld, r.N, r.U, p.A + 8 * t * n * n, p.B + 8 * t * n * nu,
        p.lz + 8 * t * nz, start, stride, diagonal, T, p.k + 8 * t * nu, p.K + 8 * t * n * nu, h, blend, mu,
    )  # fmt: skip


SIGNATURE = types.float64(*[types.int64] * 4, *[types.float64] * 3)
_knot: Any = None
_alive: list[Any] = []


@cache
def sized_knot(n: int, nu: int, halved: bool, runs: Any=()) -> int:
    """The address of ``double(model, room, t, separable, h, blend, mu)`` for a size, or 0."""
    if halved and n > MOST and n <= 48:
        carry, close = _intrinsics(n, nu, runs)
        made = callback(specialised(_large, f"large_{n}_{nu}_{runs}", _carry=carry, _close=close, _turned=sum(c for _, c in runs)), signature=SIGNATURE)
        _alive.append(made)
        return int(made.address)
    halved = halved and not runs
    if not (LEAST <= n <= MOST and nu <= CONTROLS):
        return 0
    name = f"knot_{n}_{nu}" + "_halved" * halved
    made = callback(specialised(_template, name, _knot=_knot_of(n, nu, halved)), signature=SIGNATURE)
    _alive.append(made)
    return int(made.address)


@intrinsic
def call_knot(typingctx, address, model, room, t, separable, h, blend, mu):  # type: ignore[no-untyped-def]
    """What the function at an address returns."""

    def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
        prototype = ir.FunctionType(DOUBLE, [WORD] * 4 + [DOUBLE] * 3)
        return builder.call(builder.inttoptr(args[0], prototype.as_pointer()), args[1:])

    i, f = types.int64, types.float64
    return f(i, i, i, i, i, f, f, f), codegen
