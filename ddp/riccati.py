"""One knot of the backward sweep on register tiles: from the next value to the action value, the policy, the value.

With z = (dx, du), F = [A B], V and v the next value's Hessian and gradient:

    Q = H + Fᵀ V F,    q = l_z + Fᵀ v                            the action value             `action_value`
    Q_uu = Uᵀ U,   [Y y] = U⁻ᵀ [Q_ux q_u]                        Cholesky, by panels of rows  `factorize`
    V = Q_xx - Yᵀ Y,   v = q_x - Yᵀ y                            the value                    `value`
    K = -U⁻¹ Y,   k = -U⁻¹ y                                     the policy                   `policy`

A step is *semi-implicit* if x = (x_q, x_v), m numbers each, and the rows of F are

    δq' = T δq + h J δv',    δv' = E z         T, J (m, m): one, but for diagonal blocks of up to 6 x 6.

Then with V = [P S; Sᵀ R], and all of the following m x m, the products are half as many (`pull_back`):

    W_qq = Tᵀ P T,   W_vq = (h Jᵀ P + Sᵀ) T,   W_vv = R + h (Jᵀ S + Sᵀ J) + h² Jᵀ P J
    Q = H + e_q W_qq e_qᵀ + e_q W_vqᵀ E_x + Eᵀ (W_vv E + [W_vq 0 0]),    q = l_z + e_q Tᵀ v_q + Eᵀ (v_v + h Jᵀ v_q)

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
    transpose,
)


class Room(NamedTuple):
    """Sizes and addresses: n, nu; m, the rows of F that are products; ld, lx, lm: padded nz, n, m.

    Rows F (m, ld), G = W F (m, ld), Q (nz, ld), W (lm, lm); of semi-implicit steps C = W_vq, P, S, D (lm, lm).
    N = -[Y U] (nu, ld), K (nu, lx); U (6, 6) and inverse (nu,) of its diagonal, diagonal (nu,) of Q_uu.
    v (2, lx), w (2, lm), q (2, ld): gradients of the next value, pulled back, and of the action value; y (nu,).
    """

    n: int
    nu: int
    m: int
    ld: int
    lx: int
    lm: int
    F: int
    G: int
    Q: int
    W: int
    C: int
    P: int
    S: int
    D: int
    N: int
    K: int
    U: int
    inverse: int
    diagonal: int
    v: int
    w: int
    q: int
    y: int


def make_room(n: int, nu: int, semi_implicit: bool) -> tuple[Room, Array]:
    """A room, and the memory that must be kept alive with it."""
    m = n // 2 if semi_implicit else n
    nz = n + nu
    ld, lx, lm = padded(nz), padded(n), padded(m)
    square = lm * lm if semi_implicit else 0
    sizes = (
        m * ld, m * ld, nz * ld, lm * lm, square, square, square, square, nu * ld, nu * lx, 36, padded(nu), padded(nu),
        2 * lx, 2 * lm, 2 * ld, padded(nu),
    )  # fmt: skip
    memory = np.zeros(sum(padded(size) for size in sizes) + WIDTH)
    begin = memory.ctypes.data + -memory.ctypes.data % (8 * WIDTH)
    addresses = []
    for size in sizes:
        addresses.append(begin)
        begin += 8 * padded(size)
    return Room(n, nu, m, ld, lx, lm, *addresses), memory


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
    """F and q := one knot's [A B] or its lower half (the rows of v), and (l_z, l_z); all given by their addresses."""
    n, nu, m, ld = room.n, room.nu, room.m, room.ld
    a, b = A + 8 * (n - m) * n, B + 8 * (n - m) * nu
    for i in range(m):  # the zeros after B may fall on the row to come, or on G
        copy_rows(room.F + 8 * i * ld, ld, a + 8 * i * n, n, 1, n)
        copy_rows(room.F + 8 * (i * ld + n), ld, b + 8 * i * nu, nu, 1, nu)
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
    """W := V, the whole of it from its upper triangle, and w := v: what a dense F needs before `action_value`."""
    copy_rows(room.W, room.lm, room.Q, room.ld, room.n, room.n)
    mirror(room.W, room.lm)
    copy_rows(room.w, room.lm, room.v, room.lx, 2, room.n)


@kernel
def pull_back(room, h, first, size, T, J):
    """W, C, P := W_vv, W_vq, W_qq, and v, w := the gradients by δq, δv', of a semi-implicit step.

    The diagonal blocks of T and J that are not one: where they begin, ``first`` (g,), how large they are, ``size``
    (g,), and the addresses of themselves, T and J (g, 6, 6), top left.
    """
    m, ld, lm = room.m, room.ld, room.lm
    W, C, P, S, D = room.W, room.C, room.P, room.S, room.D
    copy_rows(P, lm, room.Q, ld, m, m)
    mirror(P, lm)
    copy_rows(S, lm, room.Q + 8 * m, ld, m, m)
    if first.size == 0:
        transpose(C, S, lm)
        add_scaled(S, lm, S, lm, 1.0, C, lm, m, lm)
        add_scaled(C, lm, C, lm, h, P, lm, m, lm)
        add_scaled(S, lm, S, lm, h, P, lm, m, lm)
    else:
        copy_rows(W, lm, P, lm, m, m)
        turn_rows(room, W, first, size, J)
        transpose(D, W, lm)  # P J
        add_scaled(W, lm, S, lm, h, D, lm, m, lm)
        turn_rows(room, W, first, size, T)
        transpose(C, W, lm)
        turn_rows(room, S, first, size, J)
        transpose(W, S, lm)
        add_scaled(S, lm, S, lm, 1.0, W, lm, m, lm)
        turn_rows(room, D, first, size, J)
        add_scaled(S, lm, S, lm, h, D, lm, m, lm)
        turn_rows(room, P, first, size, T)
        transpose(D, P, lm)
        turn_rows(room, D, first, size, T)
        copy_rows(P, lm, D, lm, m, m)
    copy_rows(W, lm, room.Q + 8 * (m * ld + m), ld, m, m)
    add_scaled(W, lm, W, lm, h, S, lm, m, lm)
    mirror(W, lm)
    for row in range(2):
        v, w = numbers_at(room.v + 8 * row * room.lx, room.n), numbers_at(room.w + 8 * row * lm, m)
        for i in range(m):
            w[i] = v[i]
        for b in range(first.size):
            turn(w, first[b], size[b], J + 288 * b)
            turn(v, first[b], size[b], T + 288 * b)
        for i in range(m):
            w[i] = v[m + i] + h * w[i]


@kernel
def turn_rows(room, X, first, size, T):
    """The rows of X (m, lm) that belong to blocks := Tᵀ times them."""
    lm = room.lm
    for b in range(first.size):
        rows = X + 8 * first[b] * lm
        copy_rows(room.G, lm, rows, lm, size[b], lm)
        clear_rows(rows, lm, size[b], lm)
        add_product(rows, lm, size[b], lm, T + 288 * b, 1, 6, room.G, lm, size[b])


@kernel
def turn(x, i, size, T):
    """Numbers i .. i + size - 1 of x := Tᵀ times them."""
    block = rows_at(T, 6, 6)
    old = (x[i], x[i + 1], x[i + 2] if size > 2 else 0.0, x[i + 3] if size > 3 else 0.0,
           x[i + 4] if size > 4 else 0.0, x[i + 5] if size > 5 else 0.0)  # fmt: skip
    for a in range(size):
        total = 0.0
        for b in range(size):
            total += block[b, a] * old[b]
        x[i + a] = total


@kernel
def action_value(room, semi_implicit):
    """Q += the value's part of the action value, q += its gradients; Q and q come in as H and (l_z, l_z)."""
    n, nu, m, ld, lm = room.n, room.nu, room.m, room.ld, room.lm
    if semi_implicit:
        add_product(room.Q, ld, m, room.lx, room.C, 1, lm, room.F, ld, m)
        Q, P, G = rows_at(room.Q, n, ld), rows_at(room.P, m, lm), rows_at(room.G, m, ld)
        q, v = rows_at(room.q, 2, ld), rows_at(room.v, 2, room.lx)
        copy_rows(room.G, ld, room.C, lm, m, m)
        for i in range(m):
            for j in range(i, m):
                Q[i, j] += P[i, j]
            for j in range(lm, ld):
                G[i, j] = 0.0
            q[0, i] += v[0, i]
            q[1, i] += v[1, i]
    else:
        clear_rows(room.G, ld, m, ld)
    add_product(room.G, ld, m, ld, room.W, lm, 1, room.F, ld, m)
    add_upper_product(room.Q, ld, n, room.lx, room.F, 1, ld, room.G, ld, m)
    add_product(room.Q + 8 * n * ld, ld, nu, ld, room.F + 8 * n, 1, ld, room.G, ld, m)
    add_product(room.q, ld, 2, ld, room.w, lm, 1, room.F, ld, m)


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
