# mypy: allow-untyped-defs, allow-untyped-calls
"""Effect of open gaps on the value of the next knot, seen from where the dynamics arrive.

Across a gap dx = gap + J y + ½ yᵀ C y, y the deviation of the step from where it arrives. Of the value V, v of dx

    v + V gap                                its gradient there            `arrive`
    Jᵀ V J + C,   Jᵀ v                       its Hessian and gradient in y `cross`

J and C are those of `system.System.closing`, the curvature C contracted with the gradient there.
"""

from __future__ import annotations

import numpy as np

from ddp.compiling.kernel import call_contraction, kernel
from ddp.machine.addresses import array_at
from ddp.machine.memory import address_of
from ddp.machine.rows import add_rows, copy_rows
from ddp.machine.tiles import WIDTH, add_product
from ddp.machine.transposed import add_transposed_times
from ddp.sweeps.horizon import Horizon
from ddp.sweeps.riccati import count


@kernel
def arrive(r, gap):
    """v[0] := v[0] + V gap; the changes of the slope, v[2]·gap, and of the value, v[0]·gap + ½ gapᵀ V gap."""
    v = array_at(r.v, (3, r.lx))
    slope, change = 0.0, 0.0
    for i in range(r.n):
        slope += v[2, i] * gap[i]
        change += 0.5 * v[0, i] * gap[i]
    add_product(r.v, r.lx, 1, r.lx, address_of(gap), r.n, 1, r.V, r.lx, r.n)
    for i in range(r.n):
        change += 0.5 * v[0, i] * gap[i]
    return slope, change


@kernel
def cross(r, blocks, J, C, blend):
    """V := Jᵀ V J + blend C and v := Jᵀ v, all three rows; J and C (n, n) at their addresses.

    blocks (g, 2): where blocks on the diagonals of J - 1 and C begin, and how large they are; there is nothing else.
    """
    n, lx = r.n, r.lx
    for b in range(len(blocks)):
        first, size = blocks[b, 0], blocks[b, 1]
        begin, end = first // WIDTH * WIDTH, first + size + -(first + size) % WIDTH
        inside, width, there = min(end, n) - begin, end - begin, 8 * (first * n + begin)
        D, old = r.M, r.P  # J - 1, and what it multiplies
        copy_rows(D, lx, J + there, n, size, inside)
        rest = array_at(D, (size, lx))
        for i in range(size):
            rest[i, first - begin + i] -= 1.0
        copy_rows(old, lx, r.v + 8 * first, lx, 3, size)
        add_product(r.v + 8 * begin, lx, 3, width, old, lx, 1, D, lx, size)
        copy_rows(old, lx, r.V + 8 * first, lx, n, size)
        add_product(r.V + 8 * begin, lx, n, width, old, lx, 1, D, lx, size)
        own = r.V + 8 * first * lx
        copy_rows(old, lx, own, lx, size, n)
        add_product(own, lx, size, lx, D + 8 * (first - begin), 1, lx, old, lx, size)
        if blend > 0.0:
            add_rows(own + 8 * begin, lx, blend, C + there, n, size, inside)


@kernel
def weigh(horizon, start, stop, follows):
    """weights (N, n) of the knots start .. stop-1: the costates of the next states, through gaps Jᵀ p.

    horizon: the address of a `Horizon`, whose p, ``costate`` (n,) of knot ``stop``, at N set to l_x, becomes that of
    ``start``: with w = Jᵀ p, p = l_x + Aᵀ w, to which, if it ``follows`` the policy du = K dx, comes Kᵀ (l_u + Bᵀ w).
    Of a semi-implicit step the rows of δq' that are not bent are δq + h δv', see riccati.py.
    """
    z = Horizon(horizon)
    n, nu, bent = z.n, z.nu, z.bent
    m, crossing = n // 2, z.torn != 0 and z.closing != 0
    halves = z.h > 0.0 and count(bent, len(bent)) < m
    own, effective, l_u = np.zeros(n + WIDTH), np.zeros(n), np.zeros(nu + WIDTH)  # sums are in whole registers
    p, w, slope = np.int64(own.ctypes.data), np.int64(effective.ctypes.data), np.int64(l_u.ctypes.data)
    closed = np.empty((2, n, n))
    for j in range(n):
        own[j] = z.costate[j] if stop < z.N else z.lz[stop, j]
    for t in range(stop - 1, start - 1, -1):
        A, B = address_of(z.A[t]), address_of(z.B[t])
        for j in range(n):
            effective[j] = own[j]
        if crossing and is_open(z.gaps[t], n):
            J = np.int64(closed.ctypes.data)
            call_contraction(z.closing, z.closing_context, address_of(z.gaps[t]), p, J)
            for j in range(n):
                own[j] = 0.0
            add_transposed_times(p, w, J, n, n, n)
            for j in range(n):
                effective[j] = own[j]
        for j in range(n):
            z.weights[t, j], own[j] = effective[j], z.lz[t, j]
        for i in range(nu):
            l_u[i] = z.lz[t, n + i]
        if halves:
            for b in range(len(bent)):
                add_rows_of(A, B, n, nu, bent[b, 0], bent[b, 1], follows, w, p, slope)
            pass_on(m, z.h, bent, own, effective)
            add_rows_of(A, B, n, nu, m, n - m, follows, w, p, slope)
        else:
            add_rows_of(A, B, n, nu, 0, n, follows, w, p, slope)
        if follows:
            add_transposed_times(p, slope, address_of(z.K[t]), n, nu, n)
    for j in range(n):
        z.costate[j] = own[j]


@kernel
def is_open(gap, n):
    """Whether any number of a gap (n,) is not zero."""
    total = 0.0
    for i in range(n):
        total += abs(gap[i])
    return total != 0.0


@kernel
def add_rows_of(A, B, n, nu, first, count, follows, w, p, slope):
    """p += Aᵀ w and, if the policy is followed, slope += Bᵀ w of some rows of one knot: addresses but for sizes."""
    add_transposed_times(p, w + 8 * first, A + 8 * n * first, n, count, n)
    if follows:
        add_transposed_times(slope, w + 8 * first, B + 8 * nu * first, nu, count, nu)


@kernel
def pass_on(m, h, bent, p, w):
    """Weights w (n,) on δq' = δq + h δv' go to δv' and, in p, to δq; those on rows that are ``bent`` stay."""
    i = 0
    for b in range(len(bent) + 1):
        end, after = (bent[b, 0], bent[b, 0] + bent[b, 1]) if b < len(bent) else (m, m)
        for j in range(i, end):
            p[j] += w[j]
            w[m + j] += h * w[j]
        i = after
