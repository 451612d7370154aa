# mypy: allow-untyped-defs, allow-untyped-calls
"""Evaluation of traced functions for many knots, eight at once, and rollouts with a lane for each step length.

A function takes numbers of a knot one after another: rows of two arrays, parameters, which all knots share, weights.
Blocks of results are rows of a template, into which ``places`` (., 2), output and position, put what is not constant.
"""

from __future__ import annotations

import numpy as np
from numba import carray

from ddp.compiling.kernel import call_contraction, inline, integer_pointer, kernel, pointer
from ddp.machine.number import WIDTH

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
    for lane in range(min(WIDTH, out.shape[0] - first)):
        row = out[first + lane]
        for j in range(template.shape[0]):
            row[j] = template[j]
        for j in range(places.shape[0]):
            row[places[j, 1]] = outputs[WIDTH * places[j, 0] + lane]


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
def evaluate_two(address, X, U, p, count, template_a, places_a, template_b, places_b, A, B):
    """A (M, .), B (M, .) := two blocks of one function of rows of X and U."""
    nx, nz = X.shape[1], X.shape[1] + U.shape[1]
    inputs, outputs = np.empty(WIDTH * (nz + p.shape[0])), np.empty(WIDTH * count)
    share(inputs, nz, p)
    for first in range(0, A.shape[0], WIDTH):
        fill(inputs, 0, X, first)
        fill(inputs, nx, U, first)
        call_contraction(address, inputs.ctypes.data, outputs.ctypes.data, 0, 0)
        place(outputs, template_a, places_a, first, A)
        place(outputs, template_b, places_b, first, B)


def contract_one(context, record, weight, hessian):  # type: ignore[no-untyped-def]
    """C function of `system.Contraction`: a block of one knot, of its record and a weight.

    context: words, which are where the function is, how many numbers a record, the parameters and a weight have, where
    the parameters are, how many outputs there are, the template's size and address, how many places and their address.
    """
    w = carray(integer_pointer(context), WORDS)
    inputs, outputs = np.empty(WIDTH * (w[1] + w[2] + w[3])), np.empty(WIDTH * w[5])
    share(inputs, 0, carray(pointer(record), w[1]))
    share(inputs, w[1], carray(pointer(w[4]), w[2]))
    share(inputs, w[1] + w[2], carray(pointer(weight), w[3]))
    call_contraction(w[0], inputs.ctypes.data, outputs.ctypes.data, 0, 0)
    template, places = carray(pointer(w[7]), w[6]), carray(integer_pointer(w[9]), (w[8], 2))
    H = carray(pointer(hessian), w[6])
    for j in range(w[6]):
        H[j] = template[j]
    for j in range(w[8]):
        H[places[j, 1]] = outputs[WIDTH * places[j, 0]]


@kernel
def track(address, p, count, template, places, X, U, k, K, alphas, gaps, lower, upper, Xs, Us):
    """Closed-loop rollouts Xs (S, N+1, nx), Us (S, N, nu), see `system.System.track`, of a function in flat space.

    lower, upper (N, nu) or (1, nu).
    """
    S, nx, nu = alphas.shape[0], X.shape[1], U.shape[1]
    inputs, outputs = np.empty(WIDTH * (nx + nu + p.shape[0])), np.empty(WIDTH * count)
    after, alive = np.empty((WIDTH, nx)), np.empty(WIDTH, np.bool_)
    share(inputs, nx + nu, p)
    for s in range(0, S, WIDTH):
        many = min(WIDTH, S - s)
        alive[:] = True
        for lane in range(WIDTH):
            for i in range(nx):
                inputs[WIDTH * i + lane] = X[0, i]
                if lane < many:
                    Xs[s + lane, 0, i] = X[0, i]
        for t in range(U.shape[0]):
            low, high = lower[min(t, lower.shape[0] - 1)], upper[min(t, upper.shape[0] - 1)]
            for i in range(nu):
                for lane in range(WIDTH):
                    u = U[t, i] + alphas[min(s + lane, S - 1)] * k[t, i]
                    for j in range(nx):
                        u += K[t, i, j] * (inputs[WIDTH * j + lane] - X[t, j])
                    inputs[WIDTH * (nx + i) + lane] = min(max(u, low[i]), high[i])
            call_contraction(address, inputs.ctypes.data, outputs.ctypes.data, 0, 0)
            place(outputs, template, places, 0, after)
            for lane in range(many):
                whole = alive[lane]
                for i in range(nu):
                    u = inputs[WIDTH * (nx + i) + lane]
                    Us[s + lane, t, i] = u if alive[lane] else np.nan
                    whole = whole and abs(u) < np.inf
                for i in range(nx):
                    whole = whole and abs(after[lane, i]) < np.inf
                alive[lane] = whole
                for i in range(nx):
                    x = after[lane, i] + (alphas[s + lane] - 1.0) * gaps[t, i] if whole else np.nan
                    Xs[s + lane, t + 1, i] = x
                    inputs[WIDTH * i + lane] = x
            for lane in range(many, WIDTH):
                for i in range(nx):
                    inputs[WIDTH * i + lane] = inputs[WIDTH * i + many - 1]
