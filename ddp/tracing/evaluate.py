# mypy: allow-untyped-defs, allow-untyped-calls
"""Evaluation of traced functions for many knots, eight at once; rollouts.py has closed loops.

A function takes numbers of a knot one after another: rows of two arrays, parameters, which all knots share, weights.
Blocks of results are rows of a template, into which ``places`` (., 2), output and position, put what is not constant.
"""

from typing import Any

import numpy as np

from ddp.compiling.kernel import call_contraction, inline, kernel
from ddp.machine.addresses import array_at
from ddp.machine.bound import Bound
from ddp.machine.memory import rows_of
from ddp.machine.number import WIDTH, lane_of
from ddp.machine.simd import load, store
from ddp.protocols import Array
from ddp.systems.system import Contraction
from ddp.tracing.layout import Compiled


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
def evaluate(function, X, U, W, p, out):
    """out (M, size) := a function of rows of X (M, .), U (M, .), W (M, .); ``function``: of a `Compiled`, in order.

    Python gives a plain tuple: numba takes half a microsecond more for one that has names.
    """
    address, count, template, places = function
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
def evaluate_two(function, block, p, X, U, A, B, record):
    """A (M, ., .), B (M, ., .) := a function of rows of X and U, which record (M, .) keeps, if any.

    A is its own block, B another one, ``block``: tuples as in `evaluate`.
    """
    address, count, template_a, places_a = function
    template_b, places_b = block
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


bound: Any = None


def contract_one(context, record, weight, hessian):  # type: ignore[no-untyped-def]
    """C function of `system.Contraction`: a block of one knot, of its record and a weight; see `contraction_of`."""
    function, p, records, weights = bound(context)
    inputs, outputs = np.empty(WIDTH * (records + p.shape[0] + weights)), np.empty(WIDTH * function.outputs)
    share(inputs, 0, array_at(record, (records,)))
    share(inputs, records, p)
    share(inputs, records + p.shape[0], array_at(weight, (weights,)))
    call_contraction(function.address, inputs.ctypes.data, outputs.ctypes.data, 0, 0)
    H = array_at(hessian, function.template.shape)
    for j in range(H.shape[0]):
        H[j] = function.template[j]
    for j in range(function.places.shape[0]):
        H[function.places[j, 1]] = outputs[WIDTH * function.places[j, 0]]


def contraction_of(function: Compiled, sizes: tuple[int, int], p: Array, owner: Any) -> Contraction:
    """A function of a record, parameters and a weight, as a C function; sizes: of record and weight."""
    made = Bound(contract_one, {"share": share}, (function, p, *sizes))
    return Contraction(made.address, made.context, (made, owner))
