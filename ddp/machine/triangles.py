# mypy: allow-untyped-defs, allow-untyped-calls
"""Elimination in a symmetric matrix by panels of six, two or one rows, in registers: its factors are U_uu = Uᵀ D U.

Of a panel's rows Q_p, whose own block U_pp, D_p is on the diagonal, that block's factors are found first, as scalars;
then

    Y_p = U_pp⁻ᵀ Q_p,   N_p = -D_p⁻¹ Y_p            and for the rows r below the panel    Q_r += (N_p)_rᵀ Y_p.

After the last panel the rows are Y = D U, as far as U goes, and N = -D⁻¹ Y; from N the solution of U X = N follows
upwards, panel by panel. U has a unit diagonal: there are no square roots, and one division to a row.
"""

from ddp.compiling.kernel import for_constants, inline, kernel
from ddp.machine.algebra import PIVOT
from ddp.machine.memory import floats_at
from ddp.machine.number import WIDTH, all_less, spread, where_less
from ddp.machine.rows import copy_rows
from ddp.machine.simd import load, multiply_add, stack, store
from ddp.machine.tiles import add_product, product

MOST = 6
"""Rows of a panel, at most."""

BLOCK, COLUMN, REGISTERS = 36, 6, 48
"""Floats on the stack for a panel's own block, for a number of each row, for a register of each row."""


@inline
def as_numbers(floats):
    """Floats on the stack as numbers, which of other kinds take more of them."""
    return floats


@kernel
def panel(rows):
    """Count the rows that the next panel takes of those that remain."""
    return 6 if rows >= 6 else (2 if rows >= 2 else 1)


@kernel
def last_panel(rows):
    """Count the rows that the last panel has taken."""
    return 1 if rows % 2 == 1 else (2 if rows % 6 > 0 else 6)


@inline
def magnitude(x):
    """|x| of a number; NaN of NaN."""
    return where_less(x, 0.0, -x, x)


@for_constants
def _factorize(b, Q, ld, y, size, U, inverse):
    """Factors of a panel's own block (b, b), that begins at Q, and y := U⁻ᵀ y; 1 if it is positive definite, else 0.

    U (6, 6) := -U above its diagonal, inverse (b,) := 1 / D; size (b,): what a pivot is compared with.
    """
    Q, y, size, U, inverse = floats_at(Q), floats_at(y), floats_at(size), floats_at(U), floats_at(inverse)
    q, known, positive = as_numbers(stack(BLOCK)), as_numbers(stack(COLUMN)), spread(1.0, y[0])
    for i in range(b):
        known[i] = y[i]
        for k in range(i, b):
            q[MOST * i + k] = Q[i * ld + k]
    for i in range(b):
        pivot = q[MOST * i + i]
        positive = where_less(PIVOT * magnitude(size[i]), pivot, positive, 0.0)
        inverse[i] = reciprocal = 1.0 / pivot
        for k in range(i + 1, b):
            U[MOST * i + k] = factor = -q[MOST * i + k] * reciprocal
            known[k] += factor * known[i]
            for l in range(k, b):
                q[MOST * k + l] += factor * q[MOST * i + l]
    for i in range(b):
        y[i] = known[i]
    return positive


@for_constants
def _eliminate(b, X, ld, columns, U, inverse, N):
    """X (b, columns) := U⁻ᵀ X and N := -D⁻¹ X, with what `_factorize` found."""
    X, U, inverse, N = floats_at(X), floats_at(U), floats_at(inverse), floats_at(N)
    known = as_numbers(stack(REGISTERS))
    for c in range(0, columns, WIDTH):
        for i in range(b):
            x = load(X, i * ld + c)
            for k in range(i):
                x = multiply_add(U[MOST * k + i], load(known, WIDTH * k), x)
            store(known, WIDTH * i, x)
        for i in range(b):
            x = load(known, WIDTH * i)
            store(X, i * ld + c, x)
            store(N, i * ld + c, -inverse[i] * x)


@for_constants
def _raise(b, X, ldx, columns, S, lds, N, ld):
    """X (b, columns) := U⁻¹ S upwards, with -U the panel's own block of N."""
    X, S, N, known = floats_at(X), floats_at(S), floats_at(N), as_numbers(stack(REGISTERS))
    for c in range(0, columns, WIDTH):
        for r in range(b):
            i = b - 1 - r
            x = load(S, i * lds + c)
            for l in range(i + 1, b):
                x = multiply_add(N[i * ld + l], load(known, WIDTH * l), x)
            store(known, WIDTH * i, x)
        for i in range(b):
            store(X, i * ldx + c, load(known, WIDTH * i))


@for_constants
def _eliminate_panel(b, Q, ld, begin, y, size, U, inverse, N):
    """Eliminate b rows of Q, whose own block begins at a column, unless it is nowhere as `_factorize` wants it."""
    positive = _factorize(b, Q + 8 * begin, ld, y, size, U, inverse)
    if not all_less(positive, 0.5):
        _eliminate(b, Q, ld, ld, U, inverse, N)
    return positive


@kernel
def eliminate(rows, Q, ld, first, y, size, U, inverse, N):
    """Eliminate ``rows`` rows (., ld) at Q, whose own block begins at column ``first``; 1 or 0 as `_factorize` says.

    y, size, inverse (rows,), N (., ld), U (6, 6): as above, at their addresses.
    """
    j, positive = 0, spread(1.0, floats_at(y)[0])
    while j < rows:
        b = panel(rows - j)
        row, minus = Q + 8 * j * ld, N + 8 * j * ld
        if b == 6:
            done = _eliminate_panel(6, row, ld, first + j, y + 8 * j, size + 8 * j, U, inverse + 8 * j, minus)
        elif b == 2:
            done = _eliminate_panel(2, row, ld, first + j, y + 8 * j, size + 8 * j, U, inverse + 8 * j, minus)
        else:
            done = _eliminate_panel(1, row, ld, first + j, y + 8 * j, size + 8 * j, U, inverse + 8 * j, minus)
        positive = where_less(done, positive, done, positive)
        if all_less(positive, 0.5):
            break
        if rows > j + b:
            add_product(row + 8 * b * ld, ld, rows - j - b, ld, minus + 8 * (first + j + b), 1, ld, row, ld, b)
            add_few(y + 8 * (j + b), rows - j - b, y + 8 * j, minus + 8 * (first + j + b), ld, b)
        j += b
    return positive


@inline
def eliminate_one(rows, Q, ld, first, y, size, U, inverse, N):
    """`eliminate` of one row."""
    return _eliminate_panel(1, Q, ld, first, y, size, U, inverse, N)


@kernel
def add_few(out, count, x, N, ld, rows):
    """out (count,) += x (rows,) N, N (rows, ld)."""
    out, x, N = floats_at(out), floats_at(x), floats_at(N)
    for i in range(rows):
        for k in range(count):
            out[k] += x[i] * N[i * ld + k]


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
        if b == 6:
            _raise(6, top, ldx, ldx, S, lds, own, ld)
        elif b == 2:
            _raise(2, top, ldx, ldx, S, lds, own, ld)


@inline
def raise_one(rows, X, ldx, N, ld, first):
    """`raise_rows` of one row."""
    copy_rows(X, ldx, N, ld, 1, ldx)
