"""One knot of the backward sweep of few states and controls: a few hundred registers' work, without a loop.

The recursion is that of riccati.py, where V, v and the other letters are explained; of semi-implicit steps those
without bent rows are treated as such. V is read and written on and above its diagonal alone. What V's products begin
with stands before the policy, whose divisions wait for each other: processors do both at once.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ddp.matrices.registers import WIDTH, exchange, lanes
from ddp.matrices.unrolled import MOST_SUMS, ZEROS, Sums
from ddp.sweeps.knot_code import NQ, KnotCode


class UnrolledKnot(KnotCode):
    """Its instructions; at most sixteen states. halved: whether steps are semi-implicit.

    H has m rows, in the columns where tiles write theirs: in the others they read zeros.
    """

    def __init__(self, builder: Any, n: int, nu: int, halved: bool, told: Any) -> None:
        super().__init__(builder, n, nu, told)
        self._halved = halved
        self._size = self.m if halved else n  # of M
        self._first = n - self._size  # of the rows of [A B] that Z is

    def action(self) -> None:
        """H, G, q and Y."""
        if self._halved:
            self._halve()
        self._carry()
        self.hide("G", "H")
        self._rows_of_controls()

    def _halve(self) -> None:
        """H := V_qvᵀ + h V_qq,   M := V_vv + h V_qv + h H, and below M the rows v_v + h v_q."""
        g, m, lx = self.given, self.m, self.lx
        P, S = ([self.make.read_one(g.V, lx * i + begin) for i in range(WIDTH)] for begin in (0, m))
        turned = [exchange(self.make.builder, rows) for rows in (P, S)]
        for i in range(m):
            P_row = self.make.builder.select(lanes(k < i for k in range(WIDTH)), turned[0][i], P[i])
            H = self.make.only(self.make.add(turned[1][i], self.h, P_row), (k < m for k in range(WIDTH)))
            R = self.make.read_one(g.V, lx * (m + i) + m)
            self.make.write([H], g.H, self.ld * i)
            self.make.write([self.make.add(R, self.h, self.make.builder.fadd(S[i], H))], g.M, lx * i)
        for i in range(2):
            of_q, of_v = (self.make.read_one(g.v, lx * i + begin) for begin in (0, m))
            self.make.write([self.make.add(of_v, self.h, of_q)], g.M, lx * (m + i))
        self.hide("H", "M")

    def _carry(self) -> None:
        """[G; q] := [H; l_z] + [M; v] Z, after H += T_nq; without halves H is T_nq alone, in the rows v of G."""
        g, m, size = self.given, self.m, self._size
        H = {(i, 0): self.make.read_one(g.H, self.ld * i) if self._halved else ZEROS for i in range(m)}

        def add_nq(H: Sums) -> None:
            for i in range(m):
                H[i, 0] = self.make.add(H[i, 0], self.blend, self.make.gather((0,), (self.of_block(NQ, i), 0, m))[0])
                self.make.write([H[i, 0]], g.H, self.ld * i)

        self.make.change_if(self.coupled, H, add_nq)
        slopes = self.make.gather(self.z, (g.lz, 0, self.nz))
        count = -(-(size + 2) * len(self.z) // MOST_SUMS)
        each = -(-(size + 2) // count)
        for first in range(0, size + 2, each):
            rows = range(first, min(first + each, size + 2))
            sums = {(i, j): slopes[j] if i >= size else H.get((i - size + m, j), ZEROS) for i in rows for j in self.z}
            for i in rows:
                if i >= size and self._halved:
                    of_q = self.make.gather((0,), (self.make.moved(g.v, self.lx * (i - size)), 0, m))[0]
                    sums[i, 0] = self.make.builder.fadd(sums[i, 0], of_q)
            for l in range(size):
                self.make.add_outer(sums, partial(self._of_value, l), self.of_a(self._first + l, self.z))
            for i in rows:
                out = self.make.moved(g.q, self.ld * (i - size)) if i >= size else self.make.moved(g.G, self.ld * i)
                self.make.write([sums[i, j] for j in self.z], out)

    def _of_value(self, l: int, i: int) -> Any:
        """An entry of M, or of the gradients that are below it."""
        M = self.given.M if self._halved else self.given.V  # and below it is v
        return self.make.everywhere(M, self.lx * i + l if i >= self._size else self.lx * min(i, l) + max(i, l))

    def _rows_of_controls(self) -> None:
        """Y := rows u of Q."""
        g, n, nu = self.given, self.n, self.nu
        sums = self.start(range(n, self.nz), lambda _: self.z)
        for l in range(self._size):
            B = self.make.moved(g.B, nu * (self._first + l) - n)
            self.make.add_outer(sums, self.make.entries(B), self.make.read(self.z, g.G, self.ld * l))
        for i in range(nu):
            self.make.write([sums[n + i, j] for j in self.z], g.Y, self.ld * i)

    def rows_of_states(self) -> Sums:
        """Q_xx, on and above its diagonal."""
        g, n, m = self.given, self.n, self.m
        Q = self.start(range(n), self.upper)
        for l in range(self._size):
            A = self.make.moved(g.A, n * (self._first + l))
            self.make.add_outer(Q, self.make.entries(A), self.make.read(self.x, g.G, self.ld * l))

        def add_rest(Q: Sums) -> None:
            of_q = {place: x for place, x in Q.items() if place[0] < m}
            for l in range(m):
                H = self.make.moved(g.H, self.ld * l)
                self.make.add_outer(of_q, self.make.entries(H), self.of_a(n - m + l, self.x))
            Q.update(of_q)

        def add_second(Q: Sums) -> None:
            self.add_blocks(Q)
            if not self._halved:
                add_rest(Q)

        if self._halved:
            add_rest(Q)
            for i in range(m):
                of_q = self.make.gather((0,), (self.make.moved(g.V, self.lx * i), 0, m))[0]
                Q[i, 0] = self.make.builder.fadd(Q[i, 0], of_q)
        self.make.change_if(self.coupled, Q, add_second)
        return Q

    def value(self, Q: Sums) -> None:
        """V := Q_xx + N_xᵀ Y."""
        g = self.given
        for l in range(self.nu):
            N = self.make.moved(g.N, self.ld * l)
            self.make.add_outer(Q, self.make.entries(N), self.make.read(self.x, g.Y, self.ld * l))
        for (i, j), x in Q.items():
            self.make.write([x], g.V, self.lx * i + WIDTH * j)
