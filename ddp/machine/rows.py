# mypy: allow-untyped-defs, allow-untyped-calls
"""Rows of small matrices on raw addresses, as tiles.py has them: copies, sums, and transposition by blocks of 8 x 8.

    copy_rows(out, ldo, x, ldx, rows, columns)              out := x, which may be dense; zeros up to whole registers
    copy_upper(out, ldo, x, ldx, rows, columns)             on and above the diagonal alone, and a little below it
    add_rows(out, ldo, factor, x, ldx, rows, columns)       out += factor x, which may be dense
    add_upper(out, ldo, factor, x, ldx, rows, columns)      on and above the diagonal alone, and a little below it
    write_rows(out, ldo, x, ldx, rows, columns)             out := x; out may be dense
    write_scaled(out, ldo, factor, x, ldx, rows, columns)   out := factor x; both may be dense
    join_rows(out, ldo, x, columns, y, others, rows)        out := [x y] of dense x and y; zeros up to whole registers
    add_to_diagonal(x, ld, size, shift, values)             x_ii += shift + values_i, in whole registers
    clear_rows(out, ldo, rows, end)                         out := 0, in whole registers
    mirror(x, ld)                                           below the diagonal, x := what is above
    add_transposed(x, ld, size)                             on and above the diagonal, x += xᵀ, in whole registers

Exactly the ``columns`` of what may be dense are read or written.
"""

from ddp.compiling.kernel import inline, kernel
from ddp.machine.memory import floats_at
from ddp.machine.number import WIDTH
from ddp.machine.simd import load, load_between, load_some, multiply_add, one_hot, stack, store, store_some, transpose


@kernel
def copy_rows(out, ldo, x, ldx, rows, columns):
    """out := x."""
    out, x = floats_at(out), floats_at(x)
    for j in range(0, columns, WIDTH):
        for i in range(rows):
            store(out, i * ldo + j, load_some(x, i * ldx + j, columns - j))


@kernel
def copy_upper(out, ldo, x, ldx, rows, columns):
    """out := x on and above its diagonal."""
    for i in range(0, rows, WIDTH):
        copy_rows(out + 8 * i * (ldo + 1), ldo, x + 8 * i * (ldx + 1), ldx, min(rows - i, WIDTH), columns - i)


@kernel
def add_rows(out, ldo, factor, x, ldx, rows, columns):
    """out += factor x."""
    out, x = floats_at(out), floats_at(x)
    for j in range(0, columns, WIDTH):
        for i in range(rows):
            total = multiply_add(factor, load_some(x, i * ldx + j, columns - j), load(out, i * ldo + j))
            store(out, i * ldo + j, total)


@kernel
def add_upper(out, ldo, factor, x, ldx, rows, columns):
    """out += factor x on and above its diagonal."""
    for i in range(0, rows, WIDTH):
        add_rows(out + 8 * i * (ldo + 1), ldo, factor, x + 8 * i * (ldx + 1), ldx, min(rows - i, WIDTH), columns - i)


@kernel
def write_rows(out, ldo, x, ldx, rows, columns):
    """out := x."""
    out, x = floats_at(out), floats_at(x)
    for i in range(rows):
        for j in range(0, columns, WIDTH):
            store_some(out, i * ldo + j, load(x, i * ldx + j), columns - j)


@kernel
def join_rows(out, ldo, x, columns, y, others, rows):
    """out := [x y]: each register is written at once, so that whoever reads it need not wait for two."""
    out, x, y = floats_at(out), floats_at(x), floats_at(y)
    for j in range(0, columns + others, WIDTH):
        for i in range(rows):
            end = columns - j
            beside = load_between(y, i * others - end, end, end + others)
            store(out, i * ldo + j, load_some(x, i * columns + j, end) + beside)


@kernel
def add_to_diagonal(x, ld, size, shift, values):
    """x_ii += shift + values[i], in whole registers; values: an address, or 0."""
    given, x, values = values != 0, floats_at(x), floats_at(values)
    for i in range(size):
        at = i * ld + i // WIDTH * WIDTH
        store(x, at, load(x, at) + one_hot(shift + values[i] if given else shift, i % WIDTH))


@kernel
def write_scaled(out, ldo, factor, x, ldx, rows, columns):
    """out := factor x."""
    out, x = floats_at(out), floats_at(x)
    for i in range(rows):
        for j in range(0, columns, WIDTH):
            store_some(out, i * ldo + j, factor * load_some(x, i * ldx + j, columns - j), columns - j)


@kernel
def clear_rows(out, ldo, rows, end):
    """out := 0."""
    out = floats_at(out)
    for j in range(0, end, WIDTH):
        for i in range(rows):
            store(out, i * ldo + j, 0.0)


@inline
def _load_transposed(block, x, i, ld):
    """8 x 8 numbers of a block := those from x[i] on, whose rows are ``ld`` apart, transposed."""
    for r in range(WIDTH):
        store(block, WIDTH * r, load(x, i + r * ld))
    transpose(block)


@kernel
def mirror(x, ld):
    """Below its diagonal, x (ld, ld) := what is above."""
    x, block = floats_at(x), stack(64)
    for i in range(0, ld, WIDTH):
        _load_transposed(block, x, i * (ld + 1), ld)
        for r in range(WIDTH):
            store_some(x, (i + r) * ld + i, load(block, WIDTH * r), r)
        for j in range(i + WIDTH, ld, WIDTH):
            _load_transposed(block, x, i * ld + j, ld)
            for r in range(WIDTH):
                store(x, (j + r) * ld + i, load(block, WIDTH * r))


@kernel
def add_transposed(x, ld, size):
    """x (size, size) += xᵀ on and above its diagonal; size is a multiple of eight."""
    x, block = floats_at(x), stack(64)
    for i in range(0, size, WIDTH):
        for j in range(i, size, WIDTH):
            _load_transposed(block, x, j * ld + i, ld)
            for r in range(WIDTH):
                at = (i + r) * ld + j
                store(x, at, load(x, at) + load(block, WIDTH * r))
