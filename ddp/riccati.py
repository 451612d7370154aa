"""One knot of the backward sweep on register tiles: from the next value to the action value, the policy, the value.

With z = (dx, du), F = [A B], V and v the next value's Hessian and gradient:

    Q = H + Fᵀ V F,    q = l_z + Fᵀ v                            the action value             `action_value`
    Q_uu = Uᵀ D U,   [Y y] = U⁻ᵀ [Q_ux q_u],   N = -D⁻¹ [Y U]    elimination, see triangles   `factorize`
    K = U⁻¹ N_x,   k = -U⁻¹ D⁻¹ y                                the policy                   `policy`
    V = Q_xx + N_xᵀ Y,   v = q_x + N_xᵀ y                        the value                    `value`

A step is *semi-implicit* if its states are halves x = (q, v) of m numbers each, and the rows of F = [F_q; E] are

    δv' = E z,    δq' = δq + h δv' + R z         R zero but for a few rows, those of motions that do not commute.

Then with V = [V_q V_v] by columns, C = V_v + h V_q, H = V_vq + h V_qq and the products half as many,

    Fᵀ V F = e_q G_q + Eᵀ ([H 0 0] + (C_v + h C_q) E + H R) + Rᵀ G_q,    G_q = [V_qq 0 0] + C_q E + V_qq R.

A second order that is known as blocks of δq, δv and δv' (`protocols.Batched`) takes no product of its own: T_qq, T_qv
and T_vv are added to Q, T_nn to V_v (`bend`), and T_qn and its transpose to what E multiplies.

All matrices are in a `Room`. Of Q the rows of x are right on and above the diagonal within the columns of x, the rows
of u everywhere; V is where Q_xx was, and as upper triangular. Gradients come in rows, that of the value, the costate,
and a third where gaps or limits ask for it: one product serves all.
"""

from __future__ import annotations

from ddp.kernel import kernel
from ddp.room import numbers_at, read_room, rows_at
from ddp.tiles import (
    WIDTH,
    add_product,
    add_rows,
    add_scaled,
    add_some,
    add_upper_product,
    clear_rows,
    copy_rows,
    copy_some,
    copy_upper,
    mirror,
    write_rows,
)
from ddp.triangles import eliminate, raise_rows

FEW = 4
"""Matrices of so few rows are mirrored number by number."""


@kernel
def fill(room, rows):
    """W := V, the whole of it from its upper triangle, and ``rows`` rows w := v."""
    r = read_room(room)
    copy_upper(r.W, r.lx, r.Q, r.ld, r.n, r.lx)
    if r.n > FEW:
        mirror(r.W, r.lx)
    else:
        W = rows_at(r.W, r.n, r.lx)
        for i in range(r.n):
            for j in range(i):
                W[i, j] = W[j, i]
    copy_rows(r.w, r.lx, r.v, r.lx, rows, r.n)


@kernel
def load(room, A, B):
    """F := one knot's [A B], given by their addresses."""
    r = read_room(room)
    load_rows(room, A, B, 0, r.n, r.F)


@kernel
def load_rows(room, A, B, first, rows, F):
    """The same of some rows, to an address."""
    r = read_room(room)
    for i in range(first, first + rows):  # the zeros after B may fall on the row to come, or beyond the last
        row = F + 8 * (i - first) * r.ld
        copy_rows(row, r.ld, A + 8 * i * r.n, r.n, 1, r.n)
        copy_rows(row + 8 * r.n, r.ld, B + 8 * i * r.nu, r.nu, 1, r.nu)


@kernel
def load_halves(room, h, bent, A, B):
    """E and R := those of one knot of a semi-implicit step; bent (g, 2): where runs of R's rows begin, their sizes."""
    r = read_room(room)
    m, ld = r.n // 2, r.ld
    load_rows(room, A, B, m, m, r.F + 8 * m * ld)
    for b in range(bent.shape[0]):
        first, size = bent[b, 0], bent[b, 1]
        own, E = r.R + 8 * first * ld, r.F + 8 * (m + first) * ld
        load_rows(room, A, B, first, size, own)
        add_scaled(own, ld, own, ld, -h, E, ld, size, ld)
        R = rows_at(own, size, ld)
        for i in range(size):
            R[i, first + i] -= 1.0


@kernel
def load_hessian(room, H):
    """Q := the matrix (nz, nz) at an address, what is needed of it."""
    r = read_room(room)
    nz = r.n + r.nu
    for i in range(r.n):
        for j in range(i // WIDTH * WIDTH, r.n, WIDTH):
            copy_some(r.Q + 8 * (i * r.ld + j), H + 8 * (i * nz + j), r.n - j)
    copy_rows(r.Q + 8 * r.n * r.ld, r.ld, H + 8 * r.n * nz, nz, r.nu, nz)


@kernel
def load_diagonal(room, H):
    """Q := the diagonal of the matrix (nz, nz) at an address."""
    r = read_room(room)
    nz = r.n + r.nu
    Q, diagonal = rows_at(r.Q, nz, r.ld), rows_at(H, nz, nz)
    clear_rows(r.Q, r.ld, nz, r.ld)
    for i in range(nz):
        Q[i, i] = diagonal[i, i]


@kernel
def add_hessian(room, factor, H):
    """Q += factor times the matrix (nz, nz) at an address."""
    r = read_room(room)
    nz = r.n + r.nu
    for i in range(r.n):
        for j in range(i // WIDTH * WIDTH, r.n, WIDTH):
            add_some(r.Q + 8 * (i * r.ld + j), factor, H + 8 * (i * nz + j), r.n - j)
    add_rows(r.Q + 8 * r.n * r.ld, r.ld, factor, H + 8 * r.n * nz, nz, r.nu, nz)


@kernel
def block_at(T, k, m):
    """The address of the k-th block (m, m) of a second order at an address: qq, qv, vv, qn, nq, nn."""
    return T + 8 * k * ((m * m + WIDTH - 1) // WIDTH * WIDTH)


@kernel
def add_blocks(room, factor, T):
    """Q += factor times the blocks of x of a second order at an address."""
    r = read_room(room)
    m, ld = r.n // 2, r.ld
    add_rows(r.Q, ld, factor, block_at(T, 0, m), m, m, m)
    add_rows(r.Q + 8 * m, ld, factor, block_at(T, 1, m), m, m, m)
    add_rows(r.Q + 8 * m * (ld + 1), ld, factor, block_at(T, 2, m), m, m, m)


@kernel
def bend(room, factor, T, bent):
    """W_vv += factor times the block nn, whose entries are in the runs of rows ``bent`` (g, 2)."""
    r = read_room(room)
    m = r.n // 2
    W, nn = rows_at(r.W, r.n, r.lx), rows_at(block_at(T, 5, m), m, m)
    for b in range(bent.shape[0]):
        first, end = bent[b, 0], bent[b, 0] + bent[b, 1]
        for i in range(first, end):
            for j in range(first, end):
                W[m + i, m + j] += factor * nn[i, j]


@kernel
def action_value(room, rows, lz, factor, T):
    """Q += Fᵀ W F, and ``rows`` rows q := l_z + Fᵀ w: after `fill` and `load`, with Q as it is loaded.

    T: 0, or the address of a second order whose blocks qn and nq are added, ``factor`` times.
    """
    r = read_room(room)
    n, ld, lx = r.n, r.ld, r.lx
    m = n // 2
    clear_rows(r.G, ld, n, ld)
    if T != 0:
        add_rows(r.G + 8 * m * ld, ld, factor, block_at(T, 4, m), m, m, m)
        clear_rows(r.C, lx, m, lx)
        add_rows(r.C, lx, factor, block_at(T, 3, m), m, m, m)
        add_upper_product(r.Q, ld, m, lx, r.C, lx, 1, r.F + 8 * m * ld, ld, m)
    add_product(r.G, ld, n, ld, r.W, lx, 1, r.F, ld, n)
    add_square(room, r.F, r.G, n)
    copy_rows(r.q, ld, lz, 0, rows, n + r.nu)
    add_product(r.q, ld, rows, ld, r.w, lx, 1, r.F, ld, n)


@kernel
def add_square(room, X, Y, rows):
    """Q += Xᵀ Y, symmetric, for matrices (rows, ld)."""
    r = read_room(room)
    n, ld = r.n, r.ld
    add_upper_product(r.Q, ld, n, r.lx, X, 1, ld, Y, ld, rows)
    add_product(r.Q + 8 * n * ld, ld, r.nu, ld, X + 8 * n, 1, ld, Y, ld, rows)


@kernel
def semi_implicit_action_value(room, h, bent, rows, lz, factor, T):
    """The same for a semi-implicit step, after `load_halves`."""
    r = read_room(room)
    n, ld, lx, W = r.n, r.ld, r.lx, r.W
    m = n // 2
    half = m + -m % WIDTH
    E, C, H, G, last = r.F + 8 * m * ld, r.C, r.H, r.G, r.C + 8 * m * lx
    add_scaled(C, lx, W + 8 * m, lx, h, W, lx, n, half)
    add_scaled(H, lx, W + 8 * m * lx, lx, h, W, lx, m, half)
    add_scaled(last, lx, last, lx, h, C, lx, m, half)
    clear_rows(G, ld, m, ld)
    copy_rows(G, ld, H, lx, m, m)
    if T != 0:
        add_rows(G, ld, factor, block_at(T, 4, m), m, m, m)
        add_rows(C, lx, factor, block_at(T, 3, m), m, m, m)
    add_product(G, ld, m, ld, last, lx, 1, E, ld, m)
    add_rows(r.Q, ld, 1.0, W, lx, m, m)
    add_upper_product(r.Q, ld, m, lx, C, lx, 1, E, ld, m)
    if T != 0:  # C as it was, where that is wanted
        for b in range(bent.shape[0]):
            row = 8 * bent[b, 0] * lx
            add_scaled(C + row, lx, W + 8 * m + row, lx, h, W + row, lx, bent[b, 1], half)
    copy_rows(r.q, ld, lz, 0, rows, n + r.nu)
    add_rows(r.q, ld, 1.0, r.w, lx, rows, m)
    for b in range(bent.shape[0]):
        first, size = bent[b, 0], bent[b, 1]
        R, own = r.R + 8 * first * ld, G + 8 * (m + first) * ld
        add_product(G, ld, m, ld, H + 8 * first, lx, 1, R, ld, size)
        add_upper_product(r.Q, ld, m, lx, W + 8 * first, lx, 1, R, ld, size)
        clear_rows(own, ld, size, ld)
        copy_rows(own, ld, W + 8 * first * lx, lx, size, m)
        add_product(own, ld, size, ld, C + 8 * first * lx, lx, 1, E, ld, m)
        for c in range(bent.shape[0]):
            other = bent[c, 0]
            place = W + 8 * (first * lx + other)
            add_product(own, ld, size, ld, place, lx, 1, r.R + 8 * other * ld, ld, bent[c, 1])
        add_square(room, R, own, size)
        add_product(r.q, ld, rows, ld, r.w + 8 * first, lx, 1, R, ld, size)
    add_square(room, E, G, m)
    add_scaled(H, lx, r.w + 8 * m, lx, h, r.w, lx, rows, half)
    add_product(r.q, ld, rows, ld, H, lx, 1, E, ld, m)


@kernel
def forget_idle(room):
    """Controls that nothing depends on, not even a cost, stay where they are: their rows of Q and q are zero."""
    r = read_room(room)
    n, nz = r.n, r.n + r.nu
    Q, q = rows_at(r.Q, nz, r.ld), numbers_at(r.q, nz)
    for i in range(n, nz):
        idle = q[i] == 0.0 and Q[i, i] == 0.0
        for j in range(nz):
            if not idle:
                break
            idle = Q[i, j] == 0.0
        if idle:
            Q[i, i] = 1.0


@kernel
def factorize(room):
    """[Y U] over the rows u of Q, y, and N; False if Q_uu is not positive definite, or NaN."""
    r = read_room(room)
    n, nu, ld = r.n, r.nu, r.ld
    Q, q = rows_at(r.Q, n + nu, ld), numbers_at(r.q, ld)
    size, y = numbers_at(r.size, nu), numbers_at(r.y, nu)
    for i in range(nu):
        size[i], y[i] = Q[n + i, n + i], q[n + i]
    return eliminate(nu, r.Q + 8 * n * ld, ld, n, r.y, r.size, r.U, r.inverse, r.N)


@kernel
def policy(room, k, K):
    """k (nu,) and K (nu, n) at two addresses, after `factorize`; K in the room, too. Returns yᵀ D⁻¹ y."""
    r = read_room(room)
    n, nu, ld, lx = r.n, r.nu, r.ld, r.lx
    copy_rows(r.K, lx, r.N, ld, nu, n)
    raise_rows(nu, r.K, lx, r.N, ld, n)
    write_rows(K, n, r.K, lx, nu, n)
    k, N, y, inverse = numbers_at(k, nu), rows_at(r.N, nu, ld), numbers_at(r.y, nu), numbers_at(r.inverse, nu)
    square = 0.0
    for i in range(nu):
        k[i] = -inverse[i] * y[i]
        square -= k[i] * y[i]
    for l in range(nu - 1, 0, -1):
        for i in range(l):
            k[i] += N[i, n + l] * k[l]
    return square


@kernel
def value(room):
    """V = Q_xx + N_xᵀ Y where Q_xx was, v[0] = q_x + N_xᵀ y, and v[1] = the costate's."""
    r = read_room(room)
    n, nu, ld, lx = r.n, r.nu, r.ld, r.lx
    copy_rows(r.v, lx, r.q, ld, 2, n)
    add_upper_product(r.Q, ld, n, lx, r.N, 1, ld, r.Q + 8 * n * ld, ld, nu)
    add_product(r.v, lx, 1, lx, r.y, 0, 1, r.N, ld, nu)
