# mypy: allow-untyped-defs, allow-untyped-calls
"""The full-space Newton step that a backward sweep leaves: states that move linearly, and the multipliers with them.

With g, H the gradient and Hessian that were swept, dx' = gap + J (A dx + B du), J of a gap as in `sweeps.gaps`,

    du = k + K dx                                                        the step
    w = Jᵀ λ',   λ = g_x + H_x dz + Aᵀ w + Kᵀ (g_u + H_u dz + Bᵀ w)      multipliers of the dynamics

which solves the Karush-Kuhn-Tucker system of the whole horizon. The bracket is zero but for rounding; with it λ stays
small where motion is unstable.
"""

from functools import cache
from typing import Any

import numpy as np

from ddp.compiling.kernel import call_contraction, callback, inline, kernel, specialised
from ddp.interior.memory import Memory
from ddp.machine.algebra import add_product, dot
from ddp.machine.memory import address_of, as_matrix, floats_at, hold, rows_of
from ddp.machine.number import QUAD, WIDTH
from ddp.machine.simd import multiply_add
from ddp.sweeps.gaps import pass_through
from ddp.sweeps.horizon import Horizon, own
from ddp.sweeps.limits import is_bent, sizes
from ddp.sweeps.riccati import coupling_at, ends_at
from ddp.sweeps.sized_limits import sizes_of
from ddp.sweeps.sweeping import Sweeping
from ddp.systems.system import COUPLED, ENDING


@kernel
def add_transposed(g, M, z, rows, columns, apart):
    """g (columns,) += Mᵀ z (rows,), as `add_product`; few numbers one by one: registers would wait for all of them."""
    if columns > QUAD:
        add_product(g, M, z, rows, columns, apart)
        return
    for i in range(columns):
        total = g[i]
        for j in range(rows):
            total += z[j] * M[apart * j + i]
        g[i] = total


@kernel
def bend(horizon, weights):
    """J and C of all gaps, see `sweeps.gaps`, C contracted with weights (N, n): for sweeps that find them known.

    weights: their address.
    """
    p = Horizon(horizon)
    if is_bent(p):
        for t in range(p.N):
            at = weights + 8 * t * p.n
            call_contraction(p.closing, p.closing_context, address_of(p.gaps[t]), at, own(p.bends, t))


def multipliers(memory, follows, costate, weights):
    """C function: costate (N+1, n) := λ, weights (N, n) := w of the step of a `Memory`, at their addresses.

    Where the step is zero they are those of the point itself.   follows: whether the gains are those of the last sweep;
    else they are zeros.
    """
    m = Memory(memory)
    p, s = Horizon(m.horizon), Sweeping(m.sweeping)
    (n, nu), bent, blend = sizes(p), is_bent(p), s.blend
    x, y = as_matrix(floats_at(m.x), p.N + 1, n), as_matrix(floats_at(m.y), p.N + 1, n)
    u = as_matrix(floats_at(m.u), p.N, nu)
    costate, to = as_matrix(floats_at(costate), p.N + 1, n), as_matrix(floats_at(weights), p.N, n)
    scratch = np.zeros(4 * (n + nu))
    g = rows_of(scratch)
    z, v, on = g[n + nu :], g[2 * (n + nu) :], g[3 * (n + nu) :]
    for t in range(p.N, -1, -1):
        gradient_at(p, n, nu, t, blend, s.mu, u, x, z, g)
        if t < p.N:
            for i in range(n):
                on[i] = to[t, i]
            if blend > 0.0 and p.in_blocks != 0:
                for i in range(n // 2):
                    v[i] = blend * y[t + 1, n // 2 + i]
                add_blocks(p, n // 2, t, z, v, g, on[n // 2 :])
                add_rest(p, n // 2, t, blend, y, z, v, g, on)
            add_transposed(g, p.A[t], on, n, n, n)
            add_transposed(g[n:], p.B[t], on, n, nu, nu)
            if follows:
                add_transposed(g, p.K[t], g[n:], nu, n, n)
        for i in range(n):
            costate[t, i] = g[i]
        if t > 0:
            w = to[t - 1]
            if bent:
                pass_gap(p, n, t, blend, y, g, w)
            else:
                for i in range(n):
                    w[i] = g[i]
    hold(scratch)


@kernel
def add_rest(p, m, t, blend, y, z, v, g, on):
    """Add blocks of a second order that `add_blocks` leaves, of knot t, to g and ``on``; z, v: see there."""
    if p.in_blocks >= COUPLED:
        add_coupling(p, m, t, z, g)
    if p.in_blocks == ENDING:
        for i in range(m):
            v[i] = blend * y[t + 1, i]
        ww = floats_at(ends_at(address_of(p.T[t]), m, p.nu, p.bent, len(p.bent)))
        add_transposed(on, ww, v, m, m, m)


@inline
def no_rest(p, m, t, blend, y, z, v, g, on):
    """Do what `add_rest` does of systems without such blocks: nothing."""


@kernel
def pass_gap(p, n, t, blend, y, g, w):
    """w (n,) := Jᵀ g + blend C y of the gap before knot t."""
    pass_through(p.crossed, p.bends[t - 1], 1, n, n, g, w)
    add_curvature(p.crossed, p.bends[t - 1][n * n :], n, blend, y[t], w)


@inline
def no_gap(p, n, t, blend, y, g, w):
    """Do what `pass_gap` does where states are flat, so that no gap bends derivatives: nothing."""


@kernel
def add_curvature(blocks, C, n, blend, y, w):
    """w (n,) += blend C y, of C (n, n) and blocks as in `gaps.cross`."""
    for b in range(len(blocks)):
        first, size = blocks[b, 0], blocks[b, 1]
        for i in range(first, first + size):
            w[i] += blend * dot(C[i * n + first :], y[first:], size)


@kernel
def gradient_at(p, n, nu, t, blend, mu, U, X, z, g):
    """g (nz,) := l_z + H z of knot t, the last of which has no controls; z (nz,): scratch.

    Where z is zero H need not be known: its memory may have what is no number.
    """
    nz = n + nu
    size, still, coupled = nz if t < p.N else n, True, p.coupled[t]
    for i in range(size):
        z[i] = X[t, i] if i < n else U[t, i - n]
        g[i] = p.lz[t, i]
        still &= z[i] == 0.0
    if still:
        return
    for i in range(size):
        g[i] += mu * z[i]
        if coupled == 0:
            g[i] += p.diagonal[t, i] * z[i]
    if blend < 1.0 and coupled > 0:
        for i in range(size):
            z[i] *= 1.0 - blend
        add_block(g, p.lzz[t], z, coupled, size, nz)
        for i in range(size):
            z[i] = X[t, i] if i < n else U[t, i - n]
    if blend > 0.0:
        for i in range(size):
            z[i] *= blend
        if coupled > 0:
            add_block(g, p.exact[t], z, coupled, size, nz)
        if t < p.N and p.in_blocks == 0:
            add_transposed(g, p.T[t], z, size, size, nz)


@kernel
def add_block(g, H, z, coupled, size, apart):
    """g (size,) += H z, H with its rows ``apart``; coupled: see `Horizon`."""
    dense = min(max(coupled, QUAD + 1), size)  # in registers, where there are more
    add_transposed(g, H, z, dense, dense, apart)
    for i in range(dense, size):
        g[i] = multiply_add(H[(apart + 1) * i], z[i], g[i])


@kernel
def add_blocks(p, m, t, z, v, g, on):
    """g += T z of the `system.Abilities`' blocks of knot t, but for what δv' passes on; that is added to ``on``.

    z (nz,), v (m,), m = n/2: the step, and δv', times the blend; g as `gradient_at` leaves it.
    """
    size = (m * m + WIDTH - 1) // WIDTH * WIDTH
    T = p.T[t]
    qv, vv, nq, nn = T[size:], T[2 * size :], T[3 * size :], T[4 * size :]
    for i in range(m):
        of_q, of_v, of_next = g[i], g[m + i], on[i]
        for j in range(m):
            own, other = i * m + j, j * m + i
            upper = min(own, other)
            of_q += T[upper] * z[j] + qv[own] * z[m + j] + nq[other] * v[j]
            of_v += vv[upper] * z[m + j] + qv[other] * z[j]
            of_next += nq[own] * z[j]
        g[i], g[m + i], on[i] = of_q, of_v, of_next
    for b in range(len(p.bent)):
        first, count = p.bent[b, 0], p.bent[b, 1]
        add_transposed(on[first:], nn, v[first:], count, count, count)
        nn = nn[count * count :]


@kernel
def add_coupling(p, m, t, z, g):
    """g += T z of the block uq of knot t."""
    uq = floats_at(coupling_at(address_of(p.T[t]), m, p.bent, len(p.bent)))
    for i in range(m):
        total = g[i]
        for l in range(p.nu):
            g[2 * m + l] += uq[l * m + i] * z[i]
            total += uq[l * m + i] * z[2 * m + l]
        g[i] = total


def stationarity(memory, unused, none, nothing):
    """C function: ``error`` of a `Memory` := the Lagrangian's gradient, to_lz + Fᵀ w - (λ, 0), without that in x_0."""
    m = Memory(memory)
    p = Horizon(m.horizon)
    (n, nu), count, w = sizes(p), p.N + 1, as_matrix(floats_at(m.weights), p.N, sizes(p)[0])
    lz, found = as_matrix(floats_at(m.to_lz), count, n + nu), as_matrix(floats_at(m.error), count, n + nu)
    costate = as_matrix(floats_at(m.costate), count, n)
    for t in range(p.N + 1):
        g = found[t]
        for i in range(n + nu):
            g[i] = lz[t, i] if i < n or t < p.N else 0.0
        for i in range(n):
            g[i] -= costate[t, i]
        if t < p.N:
            add_transposed(g, p.A[t], w[t], n, n, n)
            add_transposed(g[n:], p.B[t], w[t], n, nu, nu)
    for i in range(n):
        found[0, i] = 0.0


@cache
def compiled(n: int, nu: int, blocks: int, flat: bool) -> dict[str, Any]:
    """The C functions by name, compiled for n states and nu controls where they are few: see sized_limits.py.

    Microseconds a knot, of all sizes and for its own: multipliers of 4 states and 1 control .070 and .028, of 12 and 6
    .22 and .19; stationarity .027 and .009, .046 and .048.
    blocks: those by which second orders are known, see `system.Abilities`.   flat: whether no gap bends derivatives.
    """
    known = sizes_of(n, nu)
    parts = known | ({} if blocks >= COUPLED else {"add_rest": no_rest}) | ({"pass_gap": no_gap} if flat else {})
    size = f"_{n}_{nu}" if known else ""
    own = {
        "multipliers": specialised(multipliers, f"multipliers{size}_{blocks >= COUPLED:d}_{flat:d}", **parts),
        "stationarity": specialised(stationarity, f"stationarity{size}", **known),
    }
    return {name: callback(one, whole=True) for name, one in own.items()}
