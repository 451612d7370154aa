# mypy: allow-untyped-defs, allow-untyped-calls
"""A knot of the backward sweep of two or four states and one control, written out: all of it is in scalar registers.

The recursion is that of riccati.py, V and v where it has them. Its tiles move whole registers for a few numbers, and
wait for memory that was written number by number; pendulums are made of such knots.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ddp.compiling.kernel import kernel
from ddp.matrices.registers import DOUBLE, WIDTH, WORD, at
from ddp.sweeps.room import read_room


class _Scalars:
    """Arithmetic on doubles, and on those at addresses."""

    def __init__(self, builder: Any) -> None:
        self._builder = builder

    def number(self, x: float) -> Any:
        return ir.Constant(DOUBLE, x)

    def load(self, address: Any, index: Any) -> Any:
        return self._builder.load(self._place(address, index))

    def store(self, x: Any, address: Any, index: int) -> None:
        self._builder.store(x, self._place(address, index))

    def _place(self, address: Any, index: Any) -> Any:
        index = ir.Constant(WORD, index) if isinstance(index, int) else index
        return self._builder.gep(at(self._builder, address), [index])

    def times(self, x: Any, y: Any) -> Any:
        return self._builder.fmul(x, y, flags=("contract",))

    def plus(self, x: Any, y: Any) -> Any:
        return self._builder.fadd(x, y, flags=("contract",))

    def sum_of(self, start: Any, pairs: list[tuple[Any, Any]]) -> Any:
        """start + Σ x y."""
        for x, y in pairs:
            start = self.plus(start, self.times(x, y))
        return start


def _knot(n: int, coupled: bool) -> Any:
    """``(V, v, A, B, lz, lzz, exact, apart, blend, T, mu, k, K)``: Q_uu, what the step brings, and the costate's slope.

    Addresses, but for apart, blend and mu. V (n, 8) is at V and v (2, 8), gradient and costate, at v; they are
    overwritten where Q_uu > 0, as are k and K. lzz and exact: matrices, or, if ``apart``, diagonals.
    ``coupled``: the blocks at T are added, ``blend`` times.
    """
    m, u = n // 2, n

    @intrinsic
    def knot(typingctx, V, v, A, B, lz, lzz, exact, apart, blend, T, mu, k, K):  # type: ignore[no-untyped-def]
        def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
            to_V, to_v, A, B, lz, lzz, exact, apart, blend, T, mu, to_k, to_K = args
            s, zero = _Scalars(builder), ir.Constant(DOUBLE, 0.0)
            V = {(i, j): s.load(to_V, WIDTH * i + j) for i in range(n) for j in range(i, n)}
            gradients = [[s.load(to_v, WIDTH * row + i) for i in range(n)] for row in range(2)]
            F = [[*(s.load(A, n * i + j) for j in range(n)), s.load(B, i)] for i in range(n)]
            G = [
                [s.sum_of(zero, [(V[min(i, l), max(i, l)], F[l][j]) for l in range(n)]) for j in range(n + 1)]
                for i in range(n)
            ]
            q, p = (
                [s.sum_of(s.load(lz, j), [(w[i], F[i][j]) for i in range(n)]) for j in range(n + 1)] for w in gradients
            )
            H = {}
            for i in range(n + 1):
                for j in range(i, n + 1):
                    place = builder.select(apart, ir.Constant(WORD, i), ir.Constant(WORD, (n + 1) * i + j))
                    plain, own = s.load(lzz, place), s.load(exact, place)
                    if i < j:
                        plain, own = (builder.select(apart, zero, entry) for entry in (plain, own))
                    beyond = builder.fsub(own, plain)
                    H[i, j] = s.sum_of(s.plus(plain, s.times(blend, beyond)), [(F[l][i], G[l][j]) for l in range(n)])
            if coupled:
                size = (m * m + WIDTH - 1) // WIDTH * WIDTH
                part = {
                    (name, i, j): s.times(blend, s.load(T, size * number + m * i + j))
                    for number, name in enumerate(("qq", "qv", "vv", "nq"))
                    for i in range(m)
                    for j in range(m)
                }
                for i, j in H:
                    if j < n:
                        name = "qq" if j < m else ("qv" if i < m else "vv")
                        H[i, j] = s.plus(H[i, j], part[name, i % m, j % m])
                    for one, other in ((i, j), (j, i)):
                        if one < m:
                            pairs = [(part["nq", l, one], F[m + l][other]) for l in range(m)]
                            H[i, j] = s.sum_of(H[i, j], pairs)
            pivot = s.plus(H[u, u], mu)
            idle = builder.fcmp_ordered("==", q[u], zero)
            for x in (pivot, *(H[i, u] for i in range(n))):
                idle = builder.and_(idle, builder.fcmp_ordered("==", x, zero))
            pivot = builder.select(idle, s.number(1.0), pivot)
            inverse = builder.fdiv(s.number(-1.0), pivot)
            with builder.if_then(builder.fcmp_ordered(">", pivot, zero)):
                step = s.times(inverse, q[u])
                s.store(step, to_k, 0)
                gains = [s.times(inverse, H[i, u]) for i in range(n)]
                for i in range(n):
                    s.store(gains[i], to_K, i)
                    for j in range(i, n):
                        value = s.sum_of(H[i, j], [(gains[i], H[j, u])])
                        s.store(s.plus(value, mu) if i == j else value, to_V, WIDTH * i + j)
                    s.store(s.sum_of(q[i], [(gains[i], q[u])]), to_v, i)
                    s.store(p[i], to_v, WIDTH + i)
            brought = s.times(s.times(s.number(0.5), inverse), s.times(q[u], q[u]))
            return context.make_tuple(builder, sig.return_type, (pivot, brought, p[u]))

        i, f = types.int64, types.float64
        return types.UniTuple(f, 3)(i, i, i, i, i, i, i, types.boolean, f, i, f, i, i), codegen

    return knot


_two, _two_coupled, _four, _four_coupled = _knot(2, False), _knot(2, True), _knot(4, False), _knot(4, True)


@kernel
def is_small(n, nu):
    """Whether there is code for knots of this size."""
    return nu == 1 and (n == 2 or n == 4)


@kernel
def small_knot(room, n, A, B, lz, lzz, exact, apart, blend, T, mu, k, K):
    """Q_uu, what the step of the knot brings, and the slope of the costate; V and v of the room become this knot's.

    Of addresses but for numbers. exact: lzz where there is no difference.  apart: whether diagonals are all of them.
    T: blocks of `protocols.Blockwise`, or 0.
    """
    r = read_room(room)
    if n == 2:
        if T != 0:
            return _two_coupled(r.V, r.v, A, B, lz, lzz, exact, apart, blend, T, mu, k, K)
        return _two(r.V, r.v, A, B, lz, lzz, exact, apart, blend, T, mu, k, K)
    if T != 0:
        return _four_coupled(r.V, r.v, A, B, lz, lzz, exact, apart, blend, T, mu, k, K)
    return _four(r.V, r.v, A, B, lz, lzz, exact, apart, blend, T, mu, k, K)
