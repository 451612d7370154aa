# mypy: allow-untyped-defs, allow-untyped-calls
"""Evaluation of traced functions for many knots, eight at once, and rollouts with a lane for each step length.

A function takes numbers of a knot one after another: rows of two arrays, parameters, which all knots share, weights.
Blocks of results are rows of a template, into which ``places`` (., 2), output and position, put what is not constant.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ddp.compiling.kernel import call_contraction, callback, inline, kernel
from ddp.machine.addresses import array_at, integers_at
from ddp.machine.memory import rows_of
from ddp.machine.number import WIDTH, lane_of, spread, where_less
from ddp.machine.simd import load, multiply_add, store
from ddp.protocols import Array
from ddp.system import Contraction
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
def evaluate_all(address, X, U, p, out):
    """out (M, size) := a function of rows of X (M, .), U (M, .) whose outputs are all of a row, in order."""
    nx, nz, size = X.shape[1], X.shape[1] + U.shape[1], out.shape[1]
    inputs, outputs = np.empty(WIDTH * (nz + p.shape[0])), np.empty(WIDTH * size)
    share(inputs, nz, p)
    for first in range(0, out.shape[0], WIDTH):
        fill(inputs, 0, X, first)
        fill(inputs, nx, U, first)
        call_contraction(address, inputs.ctypes.data, outputs.ctypes.data, 0, 0)
        for lane in range(min(WIDTH, out.shape[0] - first)):
            for i in range(size):
                out[first + lane, i] = outputs[WIDTH * i + lane]


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


@cache
def _contracting() -> Any:
    """C function of `contract_one`."""
    return callback(contract_one)


def contraction_of(code: Code, name: str, layout: Layout, sizes: tuple[int, int], p: Array) -> Contraction:
    """A function of a record, parameters and a weight with one block, as a C function; sizes: of record and weight."""
    template, places = layout.blocks[0]
    record, weight = sizes
    given = record, len(p), weight, p.ctypes.data, layout.outputs
    where = template.size, template.ctypes.data, len(places), places.ctypes.data
    words = np.array([code.addresses[name], *given, *where], dtype=np.int64)
    return Contraction(_contracting().address, words.ctypes.data, (words, template, places, p, code))


@kernel
def track(step, context, p, plus, minus, X, U, k, K, alphas, gaps, lower, upper, Xs, Us):
    """Closed-loop rollouts Xs (S, N+1, nx), Us (S, N, nu), see `system.System.track`, a lane for each step length.

    step: C function ``void(inputs*, outputs*, context, knot)`` of eight states, controls and parameters.
    plus, minus: C functions of ⊕ and ⊖; 0 where states are plain numbers.   lower, upper (N, nu) or (1, nu).
    """
    S, nx, nu, n = alphas.shape[0], X.shape[1], U.shape[1], gaps.shape[1]
    given, found = np.empty(WIDTH * (nx + nu + p.shape[0])), np.empty(WIDTH * nx)
    pair, deviation = np.empty(WIDTH * (nx + max(nx, n))), np.empty(WIDTH * max(nx, n))
    lengths, shown = np.empty(WIDTH), np.empty(WIDTH * nu)
    inputs, outputs, dx, own = rows_of(given), rows_of(found), rows_of(deviation), rows_of(shown)
    share(given, nx + nu, p)
    states, controls, closed = rows_of(Xs), rows_of(Us), not gaps.any()
    for s in range(0, S, WIDTH):
        many = min(WIDTH, S - s)
        for lane in range(WIDTH):
            lengths[lane] = alphas[min(s + lane, S - 1)]
        alpha = load(rows_of(lengths), 0)
        broken = 0.0 * alpha  # NaN from where a lane diverges
        for i in range(nx):
            store(inputs, WIDTH * i, spread(X[0, i], alpha))
        write(inputs, nx, s, many, states, 0)
        for t in range(U.shape[0]):
            if minus == 0:
                for i in range(nx):
                    store(dx, WIDTH * i, load(inputs, WIDTH * i) - X[t, i])
            else:
                deviate(minus, X[t], given, pair, deviation)
            low, high = lower[min(t, lower.shape[0] - 1)], upper[min(t, upper.shape[0] - 1)]
            after = broken
            for i in range(nu):
                u = alpha * k[t, i] + U[t, i]
                for j in range(n):
                    u = multiply_add(spread(K[t, i, j], u), load(dx, WIDTH * j), u)
                u = where_less(u, low[i], low[i], u)
                u = where_less(high[i], u, high[i], u)
                store(inputs, WIDTH * (nx + i), u)
                store(own, WIDTH * i, u - broken)
                after = broken_by(u, after)
            write(own, nu, s, many, controls, t)
            call_contraction(step, given.ctypes.data, found.ctypes.data, context, t)
            for i in range(nx):
                after = broken_by(load(outputs, WIDTH * i), after)
            broken = after
            if not closed:
                leave_open(plus, lengths, gaps[t], found, pair)
            for i in range(nx):
                store(inputs, WIDTH * i, load(outputs, WIDTH * i) - broken)
            write(inputs, nx, s, many, states, t + 1)


@inline
def broken_by(x, broken):
    """NaN in lanes where x is no finite number."""
    return where_less(x, np.inf, where_less(-np.inf, x, broken, np.nan), np.nan)


@inline
def write(lanes, count, first, many, out, t):
    """Rows first, first + 1, ... of out := lanes of ``count`` numbers of knot t, as many as there are of them."""
    for lane in range(many):
        row = out[first + lane]
        for i in range(count):
            row[count * t + i] = lanes[WIDTH * i + lane]


@kernel
def deviate(minus, X, x, pair, dx):
    """dx := x ⊖ X of eight states x, by the C function of ⊖."""
    nx = X.shape[0]
    for i in range(nx):
        for lane in range(WIDTH):
            pair[WIDTH * i + lane], pair[WIDTH * (nx + i) + lane] = x[WIDTH * i + lane], X[i]
    call_contraction(minus, pair.ctypes.data, dx.ctypes.data, 0, 0)


@kernel
def leave_open(plus, alpha, gap, x, pair):
    """x := x ⊕ (α - 1) gap of eight states x, and to the last bit x where the gap is closed, or α = 1."""
    n, nx = gap.shape[0], x.shape[0] // WIDTH
    if not gap.any():
        return
    if plus == 0:
        for i in range(n):
            for lane in range(WIDTH):
                x[WIDTH * i + lane] += (alpha[lane] - 1.0) * gap[i]
        return
    for i in range(WIDTH * nx):
        pair[i] = x[i]
    for i in range(n):
        for lane in range(WIDTH):
            pair[WIDTH * (nx + i) + lane] = (alpha[lane] - 1.0) * gap[i]
    call_contraction(plus, pair.ctypes.data, x.ctypes.data, 0, 0)
    for i in range(nx):
        for lane in range(WIDTH):
            if alpha[lane] == 1.0:
                x[WIDTH * i + lane] = pair[WIDTH * i + lane]
