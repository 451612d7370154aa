# mypy: allow-untyped-defs, allow-untyped-calls
"""Effect of open gaps on the value of the next knot, seen from where the dynamics arrive.

Across a gap dx = gap + J y + ½ yᵀ C y, y the deviation of the step from where it arrives. Of the value V, v of dx

    v + V gap                                its gradient there            `arrive`
    Jᵀ V J + C,   Jᵀ v                       its Hessian and gradient in y `cross`

J and C are those of `system.System.closing`, the curvature C contracted with the gradient there.
"""

import numpy as np

from ddp.compiling.kernel import call_contraction, inline, kernel
from ddp.machine.addresses import array_at
from ddp.machine.memory import address_of, floats_at, hold, rows_of
from ddp.machine.rows import add_rows, copy_rows
from ddp.machine.tiles import WIDTH, add_product
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
def pass_through(blocks, J, row, column, n, y, out):
    """out (n,) := J y, of J (n, n) whose rows and columns are so many numbers apart, and blocks as in `cross`."""
    for i in range(n):
        out[i] = y[i]
    for b in range(len(blocks)):
        first, size = blocks[b, 0], blocks[b, 1]
        for i in range(first, first + size):
            out[i] = 0.0
            for j in range(first, first + size):
                out[i] += J[i * row + j * column] * y[j]


@inline
def steps_of(z, memory):
    """n, nu, whether steps are semi-implicit, how many runs are bent, and vectors p, w (n,), l_u (nu,) to work in."""
    vectors = rows_of(memory)
    return z.n, z.nu, z.halved != 0, len(z.bent), vectors, vectors[z.n :], vectors[2 * z.n :]


def weigh(horizon, follows, unused, none):  # type: ignore[no-untyped-def]
    """C function: weights (N, n) of a `Horizon` := the costates of the next states, through gaps Jᵀ p.

    With p = l_x at the end and w = Jᵀ p, p = l_x + Aᵀ w, to which, if it ``follows`` the policy du = K dx, comes
    Kᵀ (l_u + Bᵀ w).
    Of a semi-implicit step the rows of δq' that are not bent are δq + h δv', see riccati.py.
    """
    z = Horizon(horizon)
    memory = np.empty(2 * z.n + z.nu)
    n, nu, halved, runs, p, w, l_u = steps_of(z, memory)
    m, crossing, bent = n // 2, z.torn != 0 and z.closing != 0, z.bent
    halves = halved and count(bent, runs) < m
    closed = np.empty(2 * n * n if crossing else 0)
    for j in range(n):
        p[j] = z.lz[z.N, j]
    for t in range(z.N - 1, -1, -1):
        if crossing and is_open(z.gaps[t], n):
            J = np.int64(closed.ctypes.data)
            call_contraction(z.closing, z.closing_context, address_of(z.gaps[t]), address_of(p), J)
            pass_through(z.crossed, floats_at(J), 1, n, n, p, w)  # Jᵀ p
        else:
            for j in range(n):
                w[j] = p[j]
        lz, A, B = z.lz[t], z.A[t], z.B[t]
        for j in range(n):
            z.weights[t, j], p[j] = w[j], lz[j]
        for i in range(nu):
            l_u[i] = lz[n + i]
        if halves:
            for b in range(runs):
                add_steps(A, B, n, nu, bent[b, 0], bent[b, 1], follows, w, p, l_u)
            pass_on(m, z.h[t], bent, runs, p, w)
            add_steps(A, B, n, nu, m, n - m, follows, w, p, l_u)
        else:
            add_steps(A, B, n, nu, 0, n, follows, w, p, l_u)
        if follows:
            add_rows_times(p, l_u, z.K[t], 0, nu, n)
    hold(memory)
    hold(closed)


@kernel
def is_open(gap, n):
    """Whether any number of a gap (n,) is not zero."""
    total = 0.0
    for i in range(n):
        total += abs(gap[i])
    return total != 0.0


@kernel
def add_rows_times(out, w, M, first, count, columns):
    """out (columns,) += Mᵀ w of ``count`` rows of M, from ``first`` on, four at a time."""
    i, end = first, first + count
    while i + 4 <= end:
        for j in range(columns):
            k = i * columns + j
            pair = w[i] * M[k] + w[i + 1] * M[k + columns]
            out[j] += pair + (w[i + 2] * M[k + 2 * columns] + w[i + 3] * M[k + 3 * columns])
        i += 4
    for l in range(i, end):
        for j in range(columns):
            out[j] += w[l] * M[l * columns + j]


@kernel
def add_steps(A, B, n, nu, first, count, follows, w, p, l_u):
    """p += Aᵀ w and, if the policy is followed, l_u += Bᵀ w of some rows of one knot."""
    add_rows_times(p, w, A, first, count, n)
    if follows:
        add_rows_times(l_u, w, B, first, count, nu)


@kernel
def pass_on(m, h, bent, runs, p, w):
    """Weights w (n,) on δq' = δq + h δv' go to δv' and, in p, to δq; those on rows that are ``bent`` stay."""
    i = 0
    for b in range(runs + 1):
        end, after = (bent[b, 0], bent[b, 0] + bent[b, 1]) if b < runs else (m, m)
        for j in range(i, end):
            p[j] += w[j]
            w[m + j] += h * w[j]
        i = after
