# mypy: allow-untyped-defs, allow-untyped-calls
"""What ends of held steps add to their second order (held_curvature.py): eight degrees of freedom to a register.

With ν over h², of points at p' and motions s at q', summed over contacts that a degree of freedom moves,

    y = Σ (s_a × p') × ν + s_l × ν        W = ½ (ν·e_q'q' + transposed):  W_ji = s_ja·y_i  for j that carries i

and the step's own δq' = moved δz, next to no more than products.
"""

from __future__ import annotations

from ddp.compiling.kernel import kernel
from ddp.matrices.rows import add_transposed, copy_rows, mirror, write_scaled
from ddp.matrices.tiles import WIDTH, add_upper_product, product
from dynamics.contacts.algebra import matrix_rate, outer
from dynamics.geometry.joint_motion import slot
from dynamics.geometry.lie import adjoint_inverse
from dynamics.geometry.spatial import add3, angular, cross3, dot3, linear
from dynamics.phases.plan import SUMS, mode_at
from dynamics.robots.packed import matrix, vector
from dynamics.steps.knot_curvature import lanes_at, read_group, take3, take6, take9
from dynamics.steps.lane_curvature import put
from dynamics.steps.linearization import next_twist

Y, PULL = 12, 15
"""Rows of sums: y, and what pulls a degree of freedom of q'."""


@kernel
def bend_end(p, c, mode, record, h, v, a, weight):
    """p.H += δq'ᵀ (ν·e_q'q') δq' on and above its diagonal;  c.next := the weight (2 nv,) and e_q'ᵀ ν on q'.

    After ``curve``, and `weigh_acceleration` with its Jr.
    """
    nv, ld = p.nv, p.ld
    pull_ends(p, c, mode, record, h)
    pulls, total = matrix(c.totals, SUMS, p.lx), vector(c.next, 2 * nv)
    for i in range(nv):
        total[i] = weight[i] + pulls[PULL, i]
        total[nv + i] = weight[nv + i]
    displace(p, c, record, h, v, a)
    product(c.bent, ld, p.zeros, 0, nv, ld, c.W, p.lx, 1, c.moved, ld, nv)
    add_upper_product(p.H, ld, 2 * nv + p.nu, ld, c.moved, 1, ld, c.bent, ld, nv)


@kernel
def pull_ends(p, c, mode, record, h):
    """W, and e_q'ᵀ ν among the sums."""
    nv, lx, lm = p.nv, p.lx, c.lm
    _, m, _, held, _, _, _ = mode_at(c, mode)
    motions, places = lanes_at(record + 8 * c.ends, 6, lx), lanes_at(record + 8 * (c.ends + 6 * lx), 3, lm)
    x, T, t = lanes_at(c.of_contacts, 15, lm), lanes_at(c.by_contact, SUMS, lm), lanes_at(c.totals, SUMS, lx)
    numbers, omega = matrix(c.of_contacts, 15, lm), vector(c.omega, nv + 3 * m)
    for i in range(m):
        for k in range(3):
            numbers[k, i] = -omega[nv + 3 * i + k] / (h * h)
    for g in range(lm // 8):
        n = take3(x, 0, g)
        put(T, 0, g, n)
        put(T, 3, g, outer(take3(places, 0, g), n))
    product(c.totals, lx, p.zeros, 0, 12, lx, c.by_contact, lm, 1, held, lx, m)
    for g in range(lx // 8):
        s, F, N = take6(motions, 0, g), take3(t, 0, g), take9(t, 3, g)
        moment = (N[5] - N[7], N[6] - N[2], N[1] - N[3])
        put(t, Y, g, add3(matrix_rate(N, angular(s)), cross3(linear(s), F)))
        t[PULL, g] = dot3(linear(s), F) + dot3(angular(s), moment)
    product(c.W, lx, p.zeros, 0, nv, lx, record + 8 * (c.ends + 3 * lx), 1, lx, c.totals + 8 * Y * lx, lx, 3)
    W, half = lanes_at(c.W, nv, lx), lanes_at(p.half, nv, lx)
    for i in range(nv):
        for g in range(lx // 8):
            W[i, g] = half[i, g] * W[i, g]
    add_transposed(c.W, lx, lx, p.C)
    mirror(c.W, lx)


@kernel
def displace(p, c, record, h, v, a):
    """c.moved (nv, ld) := the rows of δq' by δz."""
    nv, ld = p.nv, p.ld
    write_scaled(c.moved, ld, h * h, record + 8 * c.Z, ld, nv, ld)
    rows, C, T = matrix(c.moved, nv, ld), matrix(p.C, 6, WIDTH), matrix(p.D, 6, WIDTH)
    for i in range(nv):
        rows[i, i] += 1.0
        rows[i, nv + i] += h
    for b in range(p.number):
        kind, iv, nj = read_group(p, b)
        J, own = matrix(p.J + 384 * b, 6, WIDTH), c.moved + 8 * iv * ld
        adjoint_inverse(next_twist(kind, v, a, iv, h), T)
        for i in range(nj):
            rows[iv + i, iv + i] -= 1.0
            for k in range(nj):
                C[i, k] = J[slot(kind, i), slot(kind, k)]
        copy_rows(p.curved, ld, own, ld, nj, ld)
        product(own, ld, p.zeros, 0, nj, ld, p.C, WIDTH, 1, p.curved, ld, nj)
        for i in range(nj):
            for k in range(nj):
                rows[iv + i, iv + k] += T[slot(kind, i), slot(kind, k)]
