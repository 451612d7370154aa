"""What the code of a knot of the backward sweep is made with, where it is compiled for its sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from llvmlite import ir

from ddp.compiling.kernel import kernel
from ddp.matrices.registers import WIDTH, WORD, lanes, splat
from ddp.matrices.tiles import padded
from ddp.matrices.unrolled import ZEROS, Row, Sums, Unrolled
from ddp.sweeps.model import load_costs, read_model
from ddp.sweeps.room import read_room


class Given(NamedTuple):
    """Addresses, but for h, blend and mu, of one knot.

    Of its `Room` as there, G and H being those of ``size`` rows of Z, and Y the rows u of Q.   start, stride: as in
    `riccati.action_value`.   diagonal: what is added to Q's, with mu.   T: blocks of `protocols.Batched`, or 0.
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
        r.V, r.v, r.q, r.Z, r.Z + beside, r.Z - beside, r.M, r.Q + 8 * n * r.ld, r.N, r.U, p.A + 8 * t * n * n,
        p.B + 8 * t * n * nu, p.lz + 8 * t * nz, start, stride, diagonal, T, p.k + 8 * t * nu, p.K + 8 * t * n * nu,
        h, blend, mu,
    )  # fmt: skip


class KnotCode(Unrolled):
    """The instructions of a knot of n states and nu controls; z, x: the registers of rows of z and of x."""

    def __init__(self, builder: Any, n: int, nu: int, told: Any) -> None:
        super().__init__(builder)
        self.n, self.nu, self.m, self.nz = n, nu, n // 2, n + nu
        self.ld, self.lx = padded(self.nz), padded(n)
        self.z, self.x = range(self.ld // WIDTH), range(self.lx // WIDTH)
        self.given = Given(*(builder.extract_value(told, k) for k in range(len(Given._fields))))
        self.h, self.blend, self.mu = (splat(builder, x) for x in self.given[-3:])
        self.coupled = builder.icmp_signed("!=", self.given.T, ir.Constant(WORD, 0))

    def hide(self, *names: str) -> None:
        """What is at these addresses is loaded when it is needed."""
        self.given = self.given._replace(**{name: self.hidden(getattr(self.given, name)) for name in names})

    def upper(self, i: int) -> Sequence[int]:
        """The registers of a row of x on and above the diagonal."""
        return self.x[i // WIDTH :]

    def of_a(self, row: Any, which: Sequence[int]) -> Row:
        """A row of [A B]."""
        A, B = self.row(self.given.A, row, self.n), self.row(self.given.B, row, self.nu)
        return self.gather(which, (A, 0, self.n), (B, self.n, self.nz))

    def of_block(self, block: int, i: Any) -> Any:
        """The address of the i-th row of a block of T: qq, qv, vv, qn, nq."""
        return self.row(self.moved(self.given.T, padded(self.m * self.m) * block), i, self.m)

    def start(self, rows: Sequence[int], which: Callable[[int], Sequence[int]]) -> Sums:
        """What rows of Q begin with."""
        g, sums = self.given, {}
        for i in rows:
            row = self.builder.add(g.start, self.builder.mul(g.stride, ir.Constant(WORD, 8 * i)))
            sums.update({(i, j): self.read(row, (j,))[0] for j in which(i)})
            j, own = i // WIDTH, [k == i % WIDTH for k in range(WIDTH)]
            entries = self.gather((j,), (g.diagonal, 0, self.nz))[0]
            entry = self.builder.select(lanes(own), self.builder.fadd(entries, self.mu), ZEROS)
            sums[i, j] = self.builder.fadd(sums[i, j], entry)
        return sums

    def add_blocks(self, sums: Sums) -> None:
        """sums += blend times T_qq, T_qv, T_vv, of rows x of Q."""
        m, n = self.m, self.n
        for i in dict.fromkeys(i for i, _ in sums):
            parts = [(self.of_block(2, i - m), m, n)]
            if i < m:
                parts = [(self.of_block(0, i), 0, m), (self.of_block(1, i), m, n)]
            for j, x in zip(self.upper(i), self.gather(self.upper(i), *parts), strict=True):
                sums[i, j] = self.add(sums[i, j], self.blend, x)
