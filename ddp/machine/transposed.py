# mypy: allow-untyped-defs, allow-untyped-calls
"""Products of transposed dense matrices, whose rows are as long as they are, and vectors, which are padded."""

from __future__ import annotations

from ddp.compiling.kernel import for_constants, kernel
from ddp.machine.memory import floats_at
from ddp.machine.number import WIDTH
from ddp.machine.simd import load, load_some, multiply_add, stack, store

ABREAST = 4
"""Rows that have sums of their own, so that one does not wait for another."""


@for_constants
def _add_columns(registers, out, w, M, ldm, rows, columns):
    """out += Mᵀ w for so many columns of M, in some registers, of which the last may be part of one."""
    out, w, M, sums = floats_at(out), floats_at(w), floats_at(M), stack(96)
    size, last, whole = WIDTH * registers, WIDTH * (registers - 1), rows // ABREAST * ABREAST
    for s in range(0, ABREAST * size, WIDTH):
        store(sums, s, 0.0)
    for k in range(0, whole, ABREAST):
        for i in range(ABREAST):
            for v in range(0, last, WIDTH):
                at = i * size + v
                store(sums, at, multiply_add(w[k + i], load(M, (k + i) * ldm + v), load(sums, at)))
            rest, at = load_some(M, (k + i) * ldm + last, columns - last), i * size + last
            store(sums, at, multiply_add(w[k + i], rest, load(sums, at)))
    for k in range(whole, rows):
        for v in range(0, last, WIDTH):
            store(sums, v, multiply_add(w[k], load(M, k * ldm + v), load(sums, v)))
        store(sums, last, multiply_add(w[k], load_some(M, k * ldm + last, columns - last), load(sums, last)))
    for v in range(0, size, WIDTH):
        first, second = load(sums, v) + load(sums, size + v), load(sums, 2 * size + v) + load(sums, 3 * size + v)
        store(out, v, load(out, v) + (first + second))


@kernel
def add_transposed_times(out, w, M, ldm, rows, columns):
    """out += Mᵀ w, M (rows, columns): addresses, all three; out has whole registers."""
    while columns > 24:
        _add_columns(3, out, w, M, ldm, rows, 24)
        out, M, columns = out + 192, M + 192, columns - 24
    if columns > 16:
        _add_columns(3, out, w, M, ldm, rows, columns)
    elif columns > 8:
        _add_columns(2, out, w, M, ldm, rows, columns)
    elif columns > 0:
        _add_columns(1, out, w, M, ldm, rows, columns)
