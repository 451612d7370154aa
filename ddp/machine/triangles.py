# mypy: allow-untyped-defs, allow-untyped-calls
"""Elimination in a symmetric matrix by panels of six, two or one rows, in registers: its factors are U_uu = Uᵀ D U.

Of a panel's rows Q_p, whose own block U_pp, D_p is on the diagonal, that block's factors are found first, as scalars;
then

    Y_p = U_pp⁻ᵀ Q_p,   N_p = -D_p⁻¹ Y_p            and for the rows r below the panel    Q_r += (N_p)_rᵀ Y_p.

After the last panel the rows are Y = D U, as far as U goes, and N = -D⁻¹ Y; from N the solution of U X = N follows
upwards, panel by panel. U has a unit diagonal: there are no square roots, and one division to a row.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import carray, types
from numba.extending import intrinsic

from ddp.compiling.kernel import kernel, pointer
from ddp.machine.algebra import PIVOT
from ddp.machine.registers import DOUBLE, WIDTH, WORD, at, load, scalar, splat, store, times
from ddp.machine.tiles import add_product, product

MOST = 6
"""Rows of a panel, at most."""


@kernel
def panel(rows):
    """How many of the remaining rows the next panel takes."""
    return 6 if rows >= 6 else (2 if rows >= 2 else 1)


@kernel
def last_panel(rows):
    """How many of the rows the last panel has taken."""
    return 1 if rows % 2 == 1 else (2 if rows % 6 > 0 else 6)


def _corner(rows: int) -> Any:
    """``(Q, ld, y, size, U, inverse)``: factors of the panel's own block, that begins at Q, and y := U⁻ᵀ y.

    U (6, 6) := -U above its diagonal, inverse (rows,) := 1 / D; size (rows,): what a pivot is compared with. It
    returns 1, or 0 if the block is not positive definite.
    """

    @intrinsic
    def tile(typingctx, Q, ld, y, size, U, inverse):  # type: ignore[no-untyped-def]
        def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
            Q, y, size, U, inverse = (at(builder, args[i]) for i in (0, 2, 3, 4, 5))
            ld = args[1]

            def place(base: Any, index: int) -> Any:
                return builder.gep(base, [ir.Constant(WORD, index)])

            def add_times(a: Any, b: Any, c: Any) -> Any:
                return builder.fadd(a, builder.fmul(b, c, flags=("contract",)), flags=("contract",))

            magnitude = builder.module.declare_intrinsic("llvm.fabs", [DOUBLE])
            least, one, minus = ir.Constant(DOUBLE, PIVOT), ir.Constant(DOUBLE, 1.0), ir.Constant(DOUBLE, -1.0)
            q = [
                [
                    builder.load(builder.gep(Q, [builder.add(times(builder, ld, i), ir.Constant(WORD, k))]))
                    if k >= i
                    else None
                    for k in range(rows)
                ]
                for i in range(rows)
            ]
            known = [builder.load(place(y, i)) for i in range(rows)]
            done = ir.Constant(ir.IntType(1), 1)
            for i in range(rows):
                bound = builder.fmul(least, builder.call(magnitude, [builder.load(place(size, i))]))
                done = builder.and_(done, builder.fcmp_ordered(">", q[i][i], bound))
                reciprocal = builder.fdiv(one, q[i][i])
                builder.store(reciprocal, place(inverse, i))
                negative = builder.fmul(minus, reciprocal)
                for k in range(i + 1, rows):
                    factor = builder.fmul(q[i][k], negative)
                    builder.store(factor, place(U, MOST * i + k))
                    known[k] = add_times(known[k], factor, known[i])
                    for l in range(k, rows):
                        q[k][l] = add_times(q[k][l], factor, q[i][l])
            for i in range(rows):
                builder.store(known[i], place(y, i))
            return builder.zext(done, WORD)

        return types.int64(*[types.int64] * 6), codegen

    return tile


def _eliminated(rows: int) -> Any:
    """``(X, ld, U, inverse, N)``: eight columns X := U⁻ᵀ X and N := -D⁻¹ X, with what `_corner` found."""

    @intrinsic
    def tile(typingctx, X, ld, U, inverse, N):  # type: ignore[no-untyped-def]
        def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
            X, U, inverse, N = (at(builder, args[i]) for i in (0, 2, 3, 4))
            ld = args[1]
            found: list[Any] = []
            for i in range(rows):
                x = load(builder, X, times(builder, ld, i))
                for k, other in enumerate(found):
                    factor = scalar(builder, U, ir.Constant(WORD, MOST * k + i))
                    x = builder.fadd(x, builder.fmul(factor, other, flags=("contract",)), flags=("contract",))
                found.append(x)
            minus = splat(builder, ir.Constant(DOUBLE, -1.0))
            for i, x in enumerate(found):
                row = times(builder, ld, i)
                store(builder, x, X, row)
                scale = scalar(builder, inverse, ir.Constant(WORD, i))
                store(builder, builder.fmul(builder.fmul(minus, x), scale), N, row)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 5), codegen

    return tile


def _raised(rows: int) -> Any:
    """``(X, ldx, S, lds, N, ldn)``: eight columns X := U⁻¹ S upwards, with -U the panel's own block of N."""

    @intrinsic
    def tile(typingctx, X, ldx, S, lds, N, ldn):  # type: ignore[no-untyped-def]
        def codegen(context, builder, sig, args):  # type: ignore[no-untyped-def]
            X, S, N = (at(builder, args[i]) for i in (0, 2, 4))
            ldx, lds, ldn = args[1], args[3], args[5]
            found: dict[int, Any] = {}
            for i in reversed(range(rows)):
                x = load(builder, S, times(builder, lds, i))
                for l in range(i + 1, rows):
                    factor = scalar(builder, N, builder.add(times(builder, ldn, i), ir.Constant(WORD, l)))
                    x = builder.fadd(x, builder.fmul(factor, found[l], flags=("contract",)), flags=("contract",))
                found[i] = x
            for i, x in found.items():
                store(builder, x, X, times(builder, ldx, i))
            return context.get_dummy_value()

        return types.void(*[types.int64] * 6), codegen

    return tile


_c6, _c2, _c1 = _corner(6), _corner(2), _corner(1)
_e6, _e2, _e1 = _eliminated(6), _eliminated(2), _eliminated(1)
_r6, _r2 = _raised(6), _raised(2)


@kernel
def eliminate(rows, Q, ld, first, y, size, U, inverse, N):
    """Eliminate ``rows`` rows (., ld) at Q, whose own block begins at column ``first``; False as `_corner` says.

    y, size, inverse (rows,), N (., ld), U (6, 6): as above, at their addresses.
    """
    j = 0
    while j < rows:
        b = panel(rows - j)
        row, minus = Q + 8 * j * ld, N + 8 * j * ld
        own = row + 8 * (first + j)
        if b == 6:
            done = _c6(own, ld, y + 8 * j, size + 8 * j, U, inverse + 8 * j)
        elif b == 2:
            done = _c2(own, ld, y + 8 * j, size + 8 * j, U, inverse + 8 * j)
        else:
            done = _c1(own, ld, y + 8 * j, size + 8 * j, U, inverse + 8 * j)
        if done == 0:
            return False
        for c in range(0, ld, WIDTH):
            if b == 6:
                _e6(row + 8 * c, ld, U, inverse + 8 * j, minus + 8 * c)
            elif b == 2:
                _e2(row + 8 * c, ld, U, inverse + 8 * j, minus + 8 * c)
            else:
                _e1(row + 8 * c, ld, U, inverse + 8 * j, minus + 8 * c)
        if rows > j + b:
            add_product(row + 8 * b * ld, ld, rows - j - b, ld, minus + 8 * (first + j + b), 1, ld, row, ld, b)
            add_few(y + 8 * (j + b), rows - j - b, y + 8 * j, minus + 8 * (first + j + b), ld, b)
        j += b
    return True


@kernel
def add_few(out, count, x, N, ld, rows):
    """out (count,) += x (rows,) N, N (rows, ld)."""
    total, factor = carray(pointer(out), count), carray(pointer(x), rows)
    for i in range(rows):
        row = carray(pointer(N + 8 * i * ld), count)
        for k in range(count):
            total[k] += factor[i] * row[k]


@kernel
def raise_rows(rows, X, ldx, N, ld, first):
    """X (rows, ldx) := U⁻¹ N as far as X goes, from the N of `eliminate`."""
    j = rows
    while j > 0:
        b = last_panel(j)
        j -= b
        own, top, S, lds = N + 8 * (j * ld + first + j), X + 8 * j * ldx, N + 8 * j * ld, ld
        if rows > j + b or b == 1:
            product(top, ldx, S, lds, b, ldx, own + 8 * b, ld, 1, top + 8 * b * ldx, ldx, rows - j - b)
            S, lds = top, ldx
        if b == 1:
            continue
        for c in range(0, ldx, WIDTH):
            if b == 6:
                _r6(top + 8 * c, ldx, S + 8 * c, lds, own, ld)
            else:
                _r2(top + 8 * c, ldx, S + 8 * c, lds, own, ld)
