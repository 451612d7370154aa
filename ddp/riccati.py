"""One knot of the backward sweep on register tiles: from the next value to the action value, the policy, the value.

With z = (dx, du), F = [A B], V and v the next value's Hessian and gradient:

    Q = H + Fᵀ V F,    q = l_z + Fᵀ v                            the action value             `action_value`
    Q_uu = Uᵀ U,   [Y y] = U⁻ᵀ [Q_ux q_u]                        Cholesky, by panels of rows  `factorize`
    V = Q_xx - Yᵀ Y,   v = q_x - Yᵀ y                            the value                    `value`
    K = -U⁻¹ Y,   k = -U⁻¹ y                                     the policy                   `policy`

A step is *semi-implicit* if its states are halves x = (q, v) of m numbers each, and the rows of F = [F_q; E] are

    δv' = E z,    δq' = δq + h δv' + R z         R zero but for a few rows, those of motions that do not commute.

Then with V = [V_q V_v] by columns and G = V F = [V_q 0 0] + (h V_q + V_v) E + V_q R, the products are half as many:

    Fᵀ G = e_q G_q + Eᵀ (h G_q + G_v) + Rᵀ G_q         by rows of G

All matrices are in a ``Room``, padded as tiles.py wants them. Of Q the rows of x are right on and above the diagonal
within the columns of x, the rows of u everywhere; V is where Q_xx was, and as upper triangular. Gradients come in two
rows, that of the value and the costate: one product serves both.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import carray

from ddp.algebra import PIVOT
from ddp.kernel import kernel, pointer
from ddp.protocols import Array
from ddp.tiles import (
    WIDTH,
    add_product,
    add_scaled,
    add_some,
    add_upper_product,
    clear_rows,
    copy_rows,
    copy_some,
    mirror,
    padded,
    substitute,
)


class Room(NamedTuple):
    """Sizes and addresses: n, nu, and ld, lx, padded nz and n.

    F, G = V F (n, ld), Q (nz, ld), W = V (lx, lx); of semi-implicit steps C (n, ld), R (n, ld), some of its rows.
    N = -[Y U] (nu, ld), K (nu, lx); U (6, 6) and inverse (nu,) of its diagonal, diagonal (nu,) of Q_uu.
    v (2, lx), w (2, lx), q (2, ld): gradients of the value, the next value, the action value; y (nu,).
    """

    n: int
    nu: int
    ld: int
    lx: int
    F: int
    G: int
    Q: int
    W: int
    C: int
    R: int
    N: int
    K: int
    U: int
    inverse: int
    diagonal: int
    v: int
    w: int
    q: int
    y: int


def make_room(n: int, nu: int) -> tuple[Room, Array]:
    """A room, and the memory that must be kept alive with it."""
    nz = n + nu
    ld, lx = padded(nz), padded(n)
    sizes = (
        n * ld, n * ld, nz * ld, lx * lx, n * ld, n * ld, nu * ld, nu * lx, 36, nu, nu, 2 * lx, 2 * lx, 2 * ld, nu,
    )  # fmt: skip
    memory = np.zeros(sum(padded(size) for size in sizes) + WIDTH)
    begin = memory.ctypes.data + -memory.ctypes.data % (8 * WIDTH)
    addresses = []
    for size in sizes:
        addresses.append(begin)
        begin += 8 * padded(size)
    return Room(n, nu, ld, lx, *addresses), memory


@kernel
def rows_at(address, rows, columns):
    """The matrix at an address."""
    return carray(pointer(address), (rows, columns))


@kernel
def numbers_at(address, size):
    """The vector at an address."""
    return carray(pointer(address), size)


@kernel
def load(room, A, B, lz):
    """F and q := one knot's [A B] and (l_z, l_z), all given by their addresses."""
    n, nu, ld = room.n, room.nu, room.ld
    for i in range(n):  # the zeros after B may fall on the row to come, or on G
        copy_rows(room.F + 8 * i * ld, ld, A + 8 * i * n, n, 1, n)
        copy_rows(room.F + 8 * (i * ld + n), ld, B + 8 * i * nu, nu, 1, nu)
    copy_rows(room.q, ld, lz, 0, 2, n + nu)


@kernel
def load_hessian(room, H):
    """Q := the matrix (nz, nz) at an address, what is needed of it."""
    n, nz, ld = room.n, room.n + room.nu, room.ld
    for i in range(nz):
        for j in range(i // WIDTH * WIDTH if i < n else 0, n if i < n else nz, WIDTH):
            copy_some(room.Q + 8 * (i * ld + j), H + 8 * (i * nz + j), (n if i < n else nz) - j)


@kernel
def load_diagonal(room, H):
    """Q := the diagonal of the matrix (nz, nz) at an address."""
    nz, ld = room.n + room.nu, room.ld
    Q, diagonal = rows_at(room.Q, nz, ld), rows_at(H, nz, nz)
    clear_rows(room.Q, ld, nz, ld)
    for i in range(nz):
        Q[i, i] = diagonal[i, i]


@kernel
def add_hessian(room, factor, H):
    """Q += factor times the matrix (nz, nz) at an address."""
    n, nz, ld = room.n, room.n + room.nu, room.ld
    for i in range(nz):
        for j in range(i // WIDTH * WIDTH if i < n else 0, n if i < n else nz, WIDTH):
            add_some(room.Q + 8 * (i * ld + j), factor, H + 8 * (i * nz + j), (n if i < n else nz) - j)


@kernel
def fill(room):
    """W := V, the whole of it from its upper triangle, and w := v."""
    copy_rows(room.W, room.lx, room.Q, room.ld, room.n, room.n)
    mirror(room.W, room.lx)
    copy_rows(room.w, room.lx, room.v, room.lx, 2, room.n)


@kernel
def action_value(room):
    """Q += Fᵀ W F, q += Fᵀ w: after `fill`, with Q and q as they are loaded."""
    n, ld, lx = room.n, room.ld, room.lx
    clear_rows(room.G, ld, n, ld)
    add_product(room.G, ld, n, ld, room.W, lx, 1, room.F, ld, n)
    add_square(room, room.F, room.G, n)
    add_product(room.q, ld, 2, ld, room.w, lx, 1, room.F, ld, n)


@kernel
def add_square(room, X, Y, rows):
    """Q += Xᵀ Y, symmetric, for matrices (rows, ld)."""
    n, ld = room.n, room.ld
    add_upper_product(room.Q, ld, n, room.lx, X, 1, ld, Y, ld, rows)
    add_product(room.Q + 8 * n * ld, ld, room.nu, ld, X + 8 * n, 1, ld, Y, ld, rows)


@kernel
def semi_implicit_action_value(room, h, bent):
    """The same for a semi-implicit step; bent (g, 2): where runs of rows that R has begin, and how many they are."""
    n, ld, lx = room.n, room.ld, room.lx
    m = n // 2
    F, G, C, E = room.F, room.G, room.C, room.F + 8 * m * ld
    clear_rows(G, ld, n, ld)
    copy_rows(G, ld, room.W, lx, n, m)
    copy_rows(C, ld, room.W + 8 * m, lx, n, m)
    add_scaled(C, ld, C, ld, h, G, ld, n, m + -m % WIDTH)
    add_product(G, ld, n, ld, C, ld, 1, E, ld, m)
    for b in range(bent.shape[0]):
        first, size = bent[b, 0], bent[b, 1]
        R = rows_at(room.R + 8 * first * ld, size, ld)
        add_scaled(room.R + 8 * first * ld, ld, F + 8 * first * ld, ld, -h, E + 8 * first * ld, ld, size, ld)
        for i in range(size):
            R[i, first + i] -= 1.0
        add_product(G, ld, n, ld, room.W + 8 * first, lx, 1, room.R + 8 * first * ld, ld, size)
    add_scaled(C, ld, G + 8 * m * ld, ld, h, G, ld, m, ld)
    add_square(room, E, C, m)
    add_scaled(room.Q, ld, room.Q, ld, 1.0, G, ld, m, lx)
    for b in range(bent.shape[0]):
        begin = 8 * bent[b, 0] * ld
        add_square(room, room.R + begin, G + begin, bent[b, 1])
    add_product(room.q, ld, 2, ld, room.w, lx, 1, F, ld, n)


@kernel
def _panel(nu, begun):
    """How many rows the panel takes that begins at row ``begun``: 6, then 2, then 1."""
    left = nu - begun
    return 6 if left >= 6 else (2 if left >= 2 else 1)


@kernel
def forget_idle(room):
    """Controls that nothing depends on, not even a cost, stay where they are: their rows of Q and q are zero."""
    n, nz = room.n, room.n + room.nu
    Q, q = rows_at(room.Q, nz, room.ld), numbers_at(room.q, nz)
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
    """U over Q_uu, Y over Q_ux, y, and N; False if Q_uu is not positive definite, or NaN."""
    n, nu, ld = room.n, room.nu, room.ld
    Q, U = rows_at(room.Q, n + nu, ld), rows_at(room.U, 6, 6)
    inverse, diagonal, y = numbers_at(room.inverse, nu), numbers_at(room.diagonal, nu), numbers_at(room.y, nu)
    q = numbers_at(room.q, ld)
    for i in range(nu):
        diagonal[i] = Q[n + i, n + i]
        y[i] = q[n + i]
    j = 0
    while j < nu:
        b = _panel(nu, j)
        for i in range(b):
            pivot = Q[n + j + i, n + j + i]
            for l in range(i):
                pivot -= U[l, i] * U[l, i]
            if not (pivot > PIVOT * abs(diagonal[j + i])):
                return False
            U[i, i] = np.sqrt(pivot)
            inverse[j + i] = 1.0 / U[i, i]
            for k in range(i + 1, b):
                total = Q[n + j + i, n + j + k]
                for l in range(i):
                    total -= U[l, i] * U[l, k]
                U[i, k] = total * inverse[j + i]
        row = room.Q + 8 * (n + j) * ld
        substitute(row, ld, b, ld, room.U, 1, 6, room.inverse + 8 * j, 1)
        for i in range(b):
            for k in range(i, b):
                Q[n + j + i, n + j + k] = U[i, k]
            for l in range(i):
                y[j + i] -= U[l, i] * y[j + l]
            y[j + i] *= inverse[j + i]
            for k in range(j + b, nu):
                y[k] -= Q[n + j + i, n + k] * y[j + i]
        clear_rows(room.N + 8 * j * ld, ld, b, ld)
        add_scaled(room.N + 8 * j * ld, ld, room.N + 8 * j * ld, ld, -1.0, row, ld, b, ld)
        corner = room.N + 8 * (j * ld + n + j + b)
        add_product(row + 8 * b * ld, ld, nu - j - b, ld, corner, 1, ld, row, ld, b)
        j += b
    return True


@kernel
def value(room):
    """V = Q_xx - Yᵀ Y where Q_xx was, v[0] = q_x - Yᵀ y, and v[1] = the costate's."""
    n, nu, ld = room.n, room.nu, room.ld
    copy_rows(room.v, room.lx, room.q, ld, 2, n)
    add_upper_product(room.Q, ld, n, room.lx, room.N, 1, ld, room.Q + 8 * n * ld, ld, nu)
    add_product(room.v, room.lx, 1, room.lx, room.y, 0, 1, room.N, ld, nu)


@kernel
def policy(room, k, K):
    """k (nu,) and K (nu, n) at two addresses, after `factorize`."""
    n, nu, ld, lx = room.n, room.nu, room.ld, room.lx
    k, K = numbers_at(k, nu), rows_at(K, nu, n)
    Q, X, y = rows_at(room.Q, n + nu, ld), rows_at(room.K, nu, lx), numbers_at(room.y, nu)
    inverse = numbers_at(room.inverse, nu)
    copy_rows(room.K, lx, room.Q + 8 * n * ld, ld, nu, n)
    j = nu
    while j > 0:  # the panels of factorize, backwards
        b = 1 if j % 2 == 1 else (2 if j % 6 > 0 else 6)
        j -= b
        corner = room.N + 8 * (j * ld + n + j + b)
        add_product(room.K + 8 * j * lx, lx, b, lx, corner, ld, 1, room.K + 8 * (j + b) * lx, lx, nu - j - b)
        last = j + b - 1
        diagonal = room.Q + 8 * ((n + last) * ld + n + last)
        substitute(room.K + 8 * last * lx, -lx, b, lx, diagonal, -ld, -1, room.inverse + 8 * last, -1)
    for i in range(nu - 1, -1, -1):
        total = -y[i]
        for l in range(i + 1, nu):
            total -= Q[n + i, n + l] * k[l]
        k[i] = total * inverse[i]
        for c in range(n):
            K[i, c] = -X[i, c]
