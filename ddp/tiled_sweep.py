"""The recursion of backward.py on register tiles, for trajectories without gaps and controls without limits."""

from __future__ import annotations

import numpy as np

from ddp.kernel import call_contraction, kernel
from ddp.riccati import (
    action_value,
    add_hessian,
    factorize,
    fill,
    forget_idle,
    load,
    load_diagonal,
    load_hessian,
    numbers_at,
    policy,
    rows_at,
    semi_implicit_action_value,
    value,
)


@kernel
def blended(room, blend, separable, lzz, exact):
    """Q := l_zz + blend (exact - l_zz) of one knot, matrices at two addresses."""
    if separable:
        load_diagonal(room, lzz)
    elif blend == 0.0:
        load_hessian(room, lzz)
    else:
        load_hessian(room, exact)
        if blend != 1.0:
            Q = rows_at(room.Q, room.n + room.nu, room.ld)
            for i in range(Q.shape[0]):
                for j in range(Q.shape[1]):
                    Q[i, j] *= blend
            add_hessian(room, 1.0 - blend, lzz)


@kernel
def sweep(
    A, B, lz, lzz, exact, record, blend, mu, address, context, by_costate, kept, second, k, K, separable,
    h, bent, room, action,
):  # fmt: skip
    """As `backward._sweep`: the failed knot (or -1), the slope, the full step's change, the gradient's max-norm.

    separable (N+1,): where l_zz is diagonal and equal to exact.
    action (nz, nz): its block of controls becomes that of Q at the knot where the sweep ends, for diagnoses.
    h, bent (g, 2): of steps that are semi-implicit, see riccati.py; h = 0 for others.
    """
    N = B.shape[0]
    start_at_end(lz, lzz, exact, blend, mu, separable, room)
    failed, change, steepest = descend(
        0, N, 0.0, 0.0, A, B, lz, lzz, exact, record, blend, mu, address, context, by_costate, kept, second, k, K, separable,
        h, bent, room, action,
    )  # fmt: skip
    return failed, 2.0 * change, change, steepest


@kernel
def start_at_end(lz, lzz, exact, blend, mu, separable, room):
    """The room's value := that of the last knot."""
    N, n, nz = lz.shape[0] - 1, room.n, room.n + room.nu
    Q, v = rows_at(room.Q, nz, room.ld), rows_at(room.v, 2, room.lx)
    blended(room, blend, separable[N], lzz.ctypes.data + N * 8 * nz * nz, exact.ctypes.data + N * 8 * nz * nz)
    for i in range(n):
        Q[i, i] += mu
        v[0, i] = lz[N, i]
        v[1, i] = lz[N, i]


@kernel
def descend(
    start, stop, change, steepest, A, B, lz, lzz, exact, record, blend, mu, address, context, by_costate, kept, second,
    k, K, separable, h, bent, room, action,
):  # fmt: skip
    """From the room's value at knot ``stop`` to that at ``start``: failed knot, change, the gradient's max-norm.

    ``change`` and ``steepest`` are those of the knots after ``stop``.
    """
    N, n, nu = B.shape
    nz, square = n + nu, 8 * (n + nu) * (n + nu)
    Q, q, y = rows_at(room.Q, nz, room.ld), rows_at(room.q, 2, room.ld), numbers_at(room.y, nu)
    A_at, B_at, lz_at, k_at, K_at = A.ctypes.data, B.ctypes.data, lz.ctypes.data, k.ctypes.data, K.ctypes.data
    lzz_at, exact_at, record_at, T_at = lzz.ctypes.data, exact.ctypes.data, record.ctypes.data, second.ctypes.data
    weight = room.v + (8 * room.lx if by_costate else 0)
    for t in range(stop - 1, start - 1, -1):
        fill(room)
        load(room, A_at + 8 * t * n * n, B_at + 8 * t * n * nu, lz_at + 8 * t * nz)
        blended(room, blend, separable[t], lzz_at + t * square, exact_at + t * square)
        if blend > 0.0:
            T = T_at + (t * square if second.shape[0] == N else 0)
            if not kept:
                call_contraction(address, context, record_at + 8 * t * record.shape[1], weight, T)
            add_hessian(room, blend, T)
        if h > 0.0:
            semi_implicit_action_value(room, h, bent)
        else:
            action_value(room)
        for i in range(n, nz):
            if abs(q[1, i]) > steepest or np.isnan(q[1, i]):  # max would forget a NaN
                steepest = abs(q[1, i])
            Q[i, i] += mu
        forget_idle(room)
        for i in range(n, nz):
            for j in range(n, nz):
                action[i, j] = Q[i, j]
        if not factorize(room):
            return t, change, steepest
        for i in range(nu):
            change -= 0.5 * y[i] * y[i]
        if not (abs(change) < np.inf):
            return t, change, steepest
        policy(room, k_at + 8 * t * nu, K_at + 8 * t * nu * n)
        value(room)
        for i in range(n):
            Q[i, i] += mu
    return -1, change, steepest
