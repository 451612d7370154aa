# mypy: allow-untyped-defs, allow-untyped-calls
"""What the code of a knot of the backward sweep is made with, where it is compiled for its sizes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from llvmlite import ir
from numba.core import cgutils

from ddp.compiling.kernel import kernel
from ddp.matrices.algebra import PIVOT
from ddp.matrices.registers import DOUBLE, WIDTH, WORD, lanes, splat
from ddp.matrices.tiles import padded
from ddp.matrices.unrolled import ZEROS, Row, Sums, Unrolled, number
from ddp.sweeps.model import load_costs, read_model
from ddp.sweeps.room import read_room

QQ, QV, VV, NQ = range(4)
"""Where blocks of T are, counted by `riccati.block_at`."""


class Given(NamedTuple):
    """Addresses, but for h, blend and mu, of one knot.

    Of its `Room` as there, G and H being those of ``size`` rows of Z, and Y the rows u of Q.   start, stride: as in
    `riccati.action_value`.   diagonal: what is added to Q's, with mu.   T: blocks of `protocols.Blockwise`, or 0.
    """

    V: int
    v: int
    q: int
    Z: int
    G: int
    H: int
    M: int
    Y: int
    N: int
    U: int
    y: int
    A: int
    B: int
    lz: int
    start: int
    stride: int
    diagonal: int
    T: int
    k: int
    K: int
    h: float
    blend: float
    mu: float


@kernel
def given(model, room, t, separable, h, blend, mu, size):
    """`Given` of knot t, whose costs are in place."""
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
    beside = 8 * size * r.ld
    return Given(
        r.V, r.v, r.q, r.Z, r.Z + beside, r.Z - beside, r.M, r.Q + 8 * n * r.ld, r.N, r.U, r.y, p.A + 8 * t * n * n,
        p.B + 8 * t * n * nu, p.lz + 8 * t * nz, start, stride, diagonal, T, p.k + 8 * t * nu, p.K + 8 * t * n * nu,
        h, blend, mu,
    )  # fmt: skip


class KnotCode(ABC):
    """The instructions of a knot of n states and nu controls; z, x: the registers of rows of z and of x."""

    def __init__(self, builder: Any, n: int, nu: int, told: Any) -> None:
        self.make = Unrolled(builder)
        self.n, self.nu, self.m, self.nz = n, nu, n // 2, n + nu
        self.ld, self.lx = padded(self.nz), padded(n)
        self.z, self.x = range(self.ld // WIDTH), range(self.lx // WIDTH)
        self.given = Given(*(builder.extract_value(told, k) for k in range(len(Given._fields))))
        self.h, self.blend, self.mu = (splat(builder, x) for x in self.given[-3:])
        self.coupled = builder.icmp_signed("!=", self.given.T, ir.Constant(WORD, 0))

    def hide(self, *names: str) -> None:
        """What is at these addresses is loaded when it is needed."""
        self.given = self.given._replace(**{name: self.make.hidden(getattr(self.given, name)) for name in names})

    def upper(self, i: int) -> Sequence[int]:
        """The registers of a row of x on and above the diagonal."""
        return self.x[i // WIDTH :]

    def of_a(self, row: Any, which: Sequence[int], first: int = 0) -> Row:
        """A row of [A B], counted from the ``first`` on."""
        A, B = self.make.row(self.given.A, row, self.n, first), self.make.row(self.given.B, row, self.nu, first)
        return self.make.gather(which, (A, 0, self.n), (B, self.n, self.nz))

    def of_block(self, block: int, i: Any) -> Any:
        """The address of the i-th row of a block of T."""
        return self.make.row(self.make.moved(self.given.T, padded(self.m * self.m) * block), i, self.m)

    def start(self, rows: Sequence[int], which: Callable[[int], Sequence[int]]) -> Sums:
        """What rows of Q begin with."""
        g, sums = self.given, {}
        for i in rows:
            row = self.make.builder.add(g.start, self.make.builder.mul(g.stride, ir.Constant(WORD, 8 * i)))
            sums.update({(i, j): self.make.read((j,), row)[0] for j in which(i)})
            j, own = i // WIDTH, [k == i % WIDTH for k in range(WIDTH)]
            entries = self.make.gather((j,), (g.diagonal, 0, self.nz))[0]
            entry = self.make.builder.select(lanes(own), self.make.builder.fadd(entries, self.mu), ZEROS)
            sums[i, j] = self.make.builder.fadd(sums[i, j], entry)
        return sums

    def add_blocks(self, sums: Sums) -> None:
        """sums += blend times T_qq, T_qv, T_vv, of rows x of Q."""
        m, n = self.m, self.n
        for i in dict.fromkeys(i for i, _ in sums):
            parts = [(self.of_block(VV, i - m), m, n)]
            if i < m:
                parts = [(self.of_block(QQ, i), 0, m), (self.of_block(QV, i), m, n)]
            for j, x in zip(self.upper(i), self.make.gather(self.upper(i), *parts), strict=True):
                sums[i, j] = self.make.add(sums[i, j], self.blend, x)

    def whole(self) -> Any:
        """What the step of the knot brings, or 1 where Q_uu is not positive definite; V and v stay as they are then."""
        brought = cgutils.alloca_once(self.make.builder, DOUBLE)
        self.make.builder.store(number(1.0), brought)
        self.action()
        self.hide("Y", "q", "V")
        done, step, change = self._eliminate()
        self.hide("U", "y")
        Q = self.rows_of_states()
        with self.make.builder.if_then(done):
            self.make.builder.store(change, brought)
            for i, x in enumerate(step):
                self.make.store(x, self.given.k, i)
            self._policy()
            self.hide("N", "Y")
            self.value(Q)
            self._gradients()
        return self.make.builder.load(brought)

    @abstractmethod
    def action(self) -> None:
        """H, G, q and Y."""

    @abstractmethod
    def rows_of_states(self) -> Sums:
        """Of Q_xx what is to be had before the policy."""

    @abstractmethod
    def value(self, Q: Sums) -> None:
        """V := Q_xx + N_xᵀ Y."""

    def _eliminate(self) -> tuple[Any, Row, Any]:
        """U (nu, nu) := -D⁻¹ on its diagonal and -U above, and y; whether all of D > 0, k, and what it brings."""
        g, n, nu, builder = self.given, self.n, self.nu, self.make.builder
        own = {(i, l): self.make.load(g.Y, self.ld * i + n + l) for i in range(nu) for l in range(i, nu)}
        y, step, factors = [self.make.load(g.q, n + i) for i in range(nu)], [], {}
        magnitude = builder.module.declare_intrinsic("llvm.fabs", [DOUBLE])
        bounds = [builder.fmul(number(PIVOT), builder.call(magnitude, [own[i, i]])) for i in range(nu)]
        done, change = ir.Constant(ir.IntType(1), 1), number(0.0)
        for i in range(nu):
            done = builder.and_(done, builder.fcmp_ordered(">", own[i, i], bounds[i]))
            inverse = builder.fdiv(number(-1.0), own[i, i])
            for l in range(i + 1, nu):
                factors[i, l] = builder.fmul(own[i, l], inverse)
                y[l] = self.make.add(y[l], factors[i, l], y[i])
                for r in range(l, nu):
                    own[l, r] = self.make.add(own[l, r], factors[i, l], own[i, r])
            self.make.store(inverse, g.U, nu * i + i)
            self.make.store(y[i], g.y, i)
            step.append(builder.fmul(y[i], inverse))
            change = self.make.add(change, step[i], y[i])
        for (i, l), factor in factors.items():
            self.make.store(factor, g.U, nu * i + l)
        for i in reversed(range(nu)):
            for l in reversed(range(i + 1, nu)):  # the last one known comes last
                step[i] = self.make.add(step[i], factors[i, l], step[l])
        return done, step, builder.fmul(number(0.5), change)

    def _policy(self) -> None:
        """Y, N and K."""
        g, whole = self.given, self.n // WIDTH

        def columns(j: Any, _: Sums, count: int = WIDTH) -> None:
            """Eight of them, of which K has so many."""
            Y: Row = []
            for i in range(self.nu):
                place = self.make.row(self.make.moved(g.Y, self.ld * i), j, WIDTH)
                x = self.make.read_one(place)
                for l in range(i):
                    x = self.make.add(x, self.make.everywhere(g.U, self.nu * l + i), Y[l])
                self.make.write([x], place)
                Y.append(x)
            N = [self.make.builder.fmul(self.make.everywhere(g.U, (self.nu + 1) * i), x) for i, x in enumerate(Y)]
            for i in reversed(range(self.nu)):
                self.make.write([N[i]], self.make.row(self.make.moved(g.N, self.ld * i), j, WIDTH))
                for l in reversed(range(i + 1, self.nu)):
                    N[i] = self.make.add(N[i], self.make.everywhere(g.U, self.nu * i + l), N[l])
                self.make.scatter([N[i]], self.make.row(self.make.moved(g.K, self.n * i), j, WIDTH), count)

        if whole > 2:
            self.make.repeat(whole, columns)
        else:
            for j in range(whole):
                columns(j, {})
        if self.n % WIDTH > 0:
            columns(whole, {}, self.n % WIDTH)

    def _gradients(self) -> None:
        """v := q_x + N_xᵀ y, and the costate's."""
        g = self.given
        v = {(0, j): x for j, x in zip(self.x, self.make.read(self.x, g.q), strict=True)}
        for i in range(self.nu):
            self.make.add_outer(v, self.make.entries(self.make.moved(g.y, i)), self.make.read(self.x, g.N, self.ld * i))
        self.make.write([*v.values()], g.v)
        self.make.write(self.make.read(self.x, g.q, self.ld), g.v, self.lx)
