# mypy: allow-untyped-defs, allow-untyped-calls
"""Evaluation of traced functions for many knots, eight at once; rollouts.py has closed loops.

A function takes numbers of a knot one after another: rows of two arrays, parameters, which all knots share, weights.
Blocks of results are rows of a template, into which ``places`` (., 2), output and position, put what is not constant.
"""

from __future__ import annotations

import numpy as np

from ddp.compiling.kernel import call_contraction, callback, inline, kernel
from ddp.machine.addresses import array_at, integers_at
from ddp.machine.memory import rows_of
from ddp.machine.number import WIDTH, lane_of
from ddp.machine.simd import load, store
from ddp.protocols import Array
from ddp.systems.system import Contraction
from ddp.tracing.layout import Layout
from ddp.tracing.machine_code import Code

WORDS = 10
"""Words of a context, see `contract_one`."""


@inline
def fill(inputs, begin, rows, first):
    """Numbers of knots first, first + 1, ..., behind ``begin`` others; the last knot is repeated."""
    last = rows.shape[0] - 1
    for lane in range(WIDTH):
        k = min(first + lane, last)
        for i in range(rows.shape[1]):
            inputs[WIDTH * (begin + i) + lane] = rows[k, i]


@inline
def share(inputs, begin, p):
    """Parameters, behind ``begin`` other numbers."""
    for i in range(p.shape[0]):
        for lane in range(WIDTH):
            inputs[WIDTH * (begin + i) + lane] = p[i]


@inline
def place(outputs, template, places, first, out):
    """Blocks of knots first, first + 1, ... as far as there are any."""
    size, many = template.shape[0], min(WIDTH, out.shape[0] - first)
    rows, constants = rows_of(out), rows_of(template)
    for lane in range(many):
        row = rows[first + lane]
        for j in range(0, size - WIDTH + 1, WIDTH):
            store(row, j, load(constants, j))
        for j in range(size - size % WIDTH, size):
            row[j] = template[j]
    given = rows_of(outputs)
    for j in range(places.shape[0]):
        begin, at = WIDTH * places[j, 0], places[j, 1]
        if many == WIDTH:
            entry = load(given, begin)
            for lane in range(WIDTH):
                rows[first + lane][at] = lane_of(entry, lane)
        else:
            for lane in range(many):
                rows[first + lane][at] = outputs[begin + lane]


@kernel
def evaluate(address, X, U, W, p, count, template, places, out):
    """out (M, size) := a function of rows of X (M, .), U (M, .), W (M, .) with ``count`` outputs."""
    nx, nz, end = X.shape[1], X.shape[1] + U.shape[1], X.shape[1] + U.shape[1] + p.shape[0]
    inputs, outputs = np.empty(WIDTH * (end + W.shape[1])), np.empty(WIDTH * count)
    share(inputs, nz, p)
    for first in range(0, out.shape[0], WIDTH):
        fill(inputs, 0, X, first)
        fill(inputs, nx, U, first)
        fill(inputs, end, W, first)
        call_contraction(address, inputs.ctypes.data, outputs.ctypes.data, 0, 0)
        place(outputs, template, places, first, out)


@kernel
def evaluate_two(address, p, count, template_a, places_a, template_b, places_b, X, U, A, B, record):
    """A (M, ., .), B (M, ., .) := two blocks of one function of rows of X and U, which record (M, .) keeps, if any."""
    M, nx, nz = X.shape[0], X.shape[1], X.shape[1] + U.shape[1]
    rows_a, rows_b = A.reshape(M, A.shape[1] * A.shape[2]), B.reshape(M, B.shape[1] * B.shape[2])
    inputs, outputs = np.empty(WIDTH * (nz + p.shape[0])), np.empty(WIDTH * count)
    share(inputs, nz, p)
    for first in range(0, M, WIDTH):
        fill(inputs, 0, X, first)
        fill(inputs, nx, U, first)
        call_contraction(address, inputs.ctypes.data, outputs.ctypes.data, 0, 0)
        place(outputs, template_a, places_a, first, rows_a)
        place(outputs, template_b, places_b, first, rows_b)
    for k in range(record.shape[0]):
        for i in range(nx):
            record[k, i] = X[k, i]
        for i in range(nz - nx):
            record[k, nx + i] = U[k, i]


@callback
def contract_one(context, record, weight, hessian):  # type: ignore[no-untyped-def]
    """C function of `system.Contraction`: a block of one knot, of its record and a weight.

    context: words, which are where the function is, how many numbers a record, the parameters and a weight have, where
    the parameters are, how many outputs there are, the template's size and address, how many places and their address.
    """
    w = integers_at(context, (WORDS,))
    inputs, outputs = np.empty(WIDTH * (w[1] + w[2] + w[3])), np.empty(WIDTH * w[5])
    share(inputs, 0, array_at(record, (w[1],)))
    share(inputs, w[1], array_at(w[4], (w[2],)))
    share(inputs, w[1] + w[2], array_at(weight, (w[3],)))
    call_contraction(w[0], inputs.ctypes.data, outputs.ctypes.data, 0, 0)
    template, places = array_at(w[7], (w[6],)), integers_at(w[9], (w[8], 2))
    H = array_at(hessian, (w[6],))
    for j in range(w[6]):
        H[j] = template[j]
    for j in range(w[8]):
        H[places[j, 1]] = outputs[WIDTH * places[j, 0]]


def contraction_of(code: Code, name: str, layout: Layout, sizes: tuple[int, int], p: Array) -> Contraction:
    """A function of a record, parameters and a weight with one block, as a C function; sizes: of record and weight."""
    template, places = layout.blocks[0]
    record, weight = sizes
    given = record, len(p), weight, p.ctypes.data, layout.outputs
    where = template.size, template.ctypes.data, len(places), places.ctypes.data
    words = np.array([code.addresses[name], *given, *where], dtype=np.int64)
    return Contraction(contract_one.address, words.ctypes.data, (words, template, places, p, code))
