# mypy: allow-untyped-defs, allow-untyped-calls
"""One knot of the backward sweep on register tiles: from the next value to the action value, the policy, the value.

With z = (dx, du), F = [A B], V and v the next value's Hessian and gradient:

    Q = H + Fᵀ V F,    q = l_z + Fᵀ v                            the action value             `action_value`
    Q_uu = Uᵀ D U,   [Y y] = U⁻ᵀ [Q_ux q_u],   N = -D⁻¹ [Y U]    elimination, see triangles   `factorize`
    K = U⁻¹ N_x,   k = -U⁻¹ D⁻¹ y                                the policy                   `policy`
    V = Q_xx + N_xᵀ Y,   v = q_x + N_xᵀ y                        the value                    `value`

A step is *semi-implicit* if its states are halves x = (q, v) of m numbers each, and but for some rows b of δq', those
of motions that do not commute, δq' = δq + h δv'. With the rows that are no such sums, y = (δq'_b, δv') = Z z, and o
the others, δx' = S_o δq_o + S y, where S is zeros and ones and h. Then, and half the products are spared,

    P = Sᵀ V,   M = P S,   H = P S_o,   G = H e_q + M Z,     Fᵀ V F = e_qᵀ V_oo e_q + [H e_q; Z]ᵀ [Z; G].

Any other step has Z = F, M = V and no H. A second order that is known as blocks of δq, δv and δv'
(`system.Abilities`) takes no product of its own: T_qq, T_qv and T_vv are added to Q, T_nn to V_v (`bend`), and
T_nq to the rows v of H; those that have them add T_uq to Q_uq and T_ww to V_q.

All matrices are in a `Room`. Of Q the rows of x are right on and above the diagonal within the columns of x, the rows
of u everywhere; V is whole. Gradients come in rows below V, that of the value, the costate, and a third where gaps or
limits ask for it: one product serves all.
"""

from ddp.compiling.kernel import inline, kernel
from ddp.machine.addresses import array_at
from ddp.machine.memory import floats_at
from ddp.machine.number import all_less, where_less
from ddp.machine.rows import (
    add_rows,
    add_to_diagonal,
    add_upper,
    clear_rows,
    copy_rows,
    copy_upper,
    join_rows,
    mirror,
    write_rows,
)
from ddp.machine.simd import load, load_some, multiply_add, one_hot, store
from ddp.machine.tiles import WIDTH, add_product, product, upper_product
from ddp.machine.triangles import eliminate, magnitude, raise_rows

SMALLEST = 5e-324
"""Magnitudes below this one are zero."""


@kernel
def complete(r):
    """The whole of V from its upper triangle, and more: what is below V is written after it."""
    mirror(r.V, r.lx)


@kernel
def count(bent, runs):
    """Number of rows in the runs ``bent`` (g, 2): where they begin, their sizes."""
    total = 0
    for b in range(runs):
        total += bent[b, 1]
    return total


@kernel
def straight(bent, runs, m, k):
    """First row and size of the k-th of g + 1 runs of the other rows."""
    first = bent[k - 1, 0] + bent[k - 1, 1] if k > 0 else 0
    return first, (bent[k, 0] if k < runs else m) - first


@kernel
def load_step(r, bent, A, B):
    """Z := of one knot's [A B], given by their addresses."""
    if not r.halved:
        load_rows(r, A, B, 0, r.n, r.Z)
        return
    m, row = r.n // 2, r.Z
    for b in range(r.runs):
        load_rows(r, A, B, bent[b, 0], bent[b, 1], row)
        row += 8 * bent[b, 1] * r.ld
    load_rows(r, A, B, m, m, row)


@kernel
def load_rows(r, A, B, first, rows, Z):
    """Write some rows of [A B] to an address."""
    join_rows(Z, r.ld, A + 8 * first * r.n, r.n, B + 8 * first * r.nu, r.nu, rows)


@kernel
def load_hessian(r, H):
    """Q := those parts of the matrix (nz, nz) at an address that are read."""
    nz = r.n + r.nu
    copy_upper(r.Q, r.ld, H, nz, r.n, r.n)
    copy_rows(r.Q + 8 * r.n * r.ld, r.ld, H + 8 * r.n * nz, nz, r.nu, nz)


@kernel
def add_diagonal(r, mu, diagonal):
    """Q_ii += mu + H_ii; diagonal: the address of the H_ii (nz,), or 0."""
    add_to_diagonal(r.Q, r.ld, r.n + r.nu, mu, diagonal)


@kernel
def add_hessian(r, factor, H):
    """Q += factor times the matrix (nz, nz) at an address."""
    nz = r.n + r.nu
    add_upper(r.Q, r.ld, factor, H, nz, r.n, r.n)
    add_rows(r.Q + 8 * r.n * r.ld, r.ld, factor, H + 8 * r.n * nz, nz, r.nu, nz)


@kernel
def add_coupled(r, factor, H, count):
    """Q += factor times the matrix (nz, nz) at an address, which is diagonal beyond so many rows and columns of x."""
    nz, ld = r.n + r.nu, r.ld
    add_upper(r.Q, ld, factor, H, nz, count, count)
    Q, H = floats_at(r.Q), floats_at(H)
    for i in range(count, nz):  # in whole registers: products that read them wait for numbers
        at = i * ld + i // WIDTH * WIDTH
        store(Q, at, load(Q, at) + one_hot(factor * H[i * (nz + 1)], i % WIDTH))


@kernel
def block_at(T, k, m):
    """The address of the k-th block (m, m) of a second order at an address: qq, qv, vv, nq; fifth, those of nn."""
    return T + 8 * k * ((m * m + WIDTH - 1) // WIDTH * WIDTH)


@kernel
def add_blocks(r, factor, T):
    """Q += factor times the blocks of x of a second order at an address."""
    m, ld = r.n // 2, r.ld
    add_rows(r.Q, ld, factor, block_at(T, 0, m), m, m, m)
    add_rows(r.Q + 8 * m, ld, factor, block_at(T, 1, m), m, m, m)
    add_rows(r.Q + 8 * m * (ld + 1), ld, factor, block_at(T, 2, m), m, m, m)


@kernel
def coupling_at(T, m, bent, runs):
    """The address of the block uq (nu, m), which follows those of nn."""
    numbers = 0
    for b in range(runs):
        numbers += bent[b, 1] * bent[b, 1]
    return block_at(T, 4, m) + 8 * ((numbers + WIDTH - 1) // WIDTH * WIDTH)


@kernel
def add_coupling(r, factor, T, bent):
    """Q_uq += factor times the block uq of a second order at an address."""
    m = r.n // 2
    add_rows(r.Q + 8 * r.n * r.ld, r.ld, factor, coupling_at(T, m, bent, r.runs), m, r.nu, m)


@kernel
def ends_at(T, m, nu, bent, runs):
    """The address of the block ww (m, m), which follows uq."""
    return coupling_at(T, m, bent, runs) + 8 * ((nu * m + WIDTH - 1) // WIDTH * WIDTH)


@kernel
def add_ends(r, factor, T, bent):
    """V_qq += factor times the block ww of a second order at an address."""
    m = r.n // 2
    add_rows(r.V, r.lx, factor, ends_at(T, m, r.nu, bent, r.runs), m, m, m)


@kernel
def bend(r, factor, T, bent):
    """V_vv += factor times the block nn, one for each of the runs of rows ``bent`` (g, 2)."""
    m = r.n // 2
    nn, V = block_at(T, 4, m), r.V + 8 * m * (r.lx + 1)
    for b in range(r.runs):
        first, size = bent[b, 0], bent[b, 1]
        add_rows(V + 8 * first * (r.lx + 1), r.lx, factor, nn, size, size, size)
        nn += 8 * size * size


@kernel
def halve(r, h, bent, gradients):
    """H := P e_q without its columns of b, and M := P S, of P = Sᵀ V; below M the gradients' v S, below P e_q v e_q.

    It returns the size of M.
    """
    n, lx, ld, V, v = r.n, r.lx, r.ld, r.V, r.v
    m = n // 2
    turned = count(bent, r.runs)
    size, H, M, of_v, row = turned + m, r.Z - 8 * (turned + m) * ld, r.M, V + 8 * m * lx, 0
    for b in range(r.runs):
        first, number = bent[b, 0], bent[b, 1]
        halve_rows(r, h, bent, number, V + 8 * first * lx, 0.0, V, H + 8 * row * ld, ld, M + 8 * row * lx)
        row += number
        own = turned + first
        halve_rows(r, h, bent, number, of_v + 8 * first * lx, 0.0, V, H + 8 * own * ld, ld, M + 8 * own * lx)
    for k in range(r.runs + 1):
        first, number = straight(bent, r.runs, m, k)
        own, at = turned + first, 8 * first * lx
        halve_rows(r, h, bent, number, of_v + at, h, V + at, H + 8 * own * ld, ld, M + 8 * own * lx)
    halve_rows(r, h, bent, gradients, v, 0.0, v, r.P, lx, M + 8 * size * lx)
    return size


@inline
def no_halves(r, h, bent, gradients):
    """`halve` where no step is semi-implicit: the size of M is that of V."""
    return r.n


@inline
def none_straight(r, bent):
    """`add_straight` where no step is semi-implicit: nothing."""


@kernel
def halve_rows(r, h, bent, rows, x, g, y, H, ldh, M):
    """H and M of the rows P = x + g y, at their addresses."""
    m, lx, turned = r.n // 2, r.lx, 0
    x, y, left, right = floats_at(x), floats_at(y), floats_at(H), floats_at(M)
    for i in range(rows):
        for j in range(0, m, WIDTH):
            few = load_some(x, i * lx + j, m - j)
            store(left, i * ldh + j, multiply_add(g, load_some(y, i * lx + j, m - j), few))
    for b in range(r.runs):
        first, number = bent[b, 0], bent[b, 1]
        copy_rows(M + 8 * turned, lx, H + 8 * first, ldh, rows, number)
        write_rows(H + 8 * first, ldh, r.zeros, 0, rows, number)
        turned += number
    for i in range(rows):
        for j in range(0, m, WIDTH):
            at = i * lx + m + j
            total = multiply_add(h, load(left, i * ldh + j), multiply_add(g, load(y, at), load(x, at)))
            store(right, i * lx + turned + j, total)


@inline
def is_given(T):
    """Whether there is a second order at an address."""
    return T != 0


@kernel
def action_value(r, h, bent, gradients, start, stride, lz, factor, T):
    """Q := start + Fᵀ V F, and rows q := l_z + Fᵀ v, after `load_step`; start: the address of Q, or of zeros, stride 0.

    h: of semi-implicit steps, a vector that begins with the step's.
    T: 0, or the address of a second order whose block nq is added, ``factor`` times, and its transpose.
    """
    n, nu, ld, lx, Q, q, Z = r.n, r.nu, r.ld, r.lx, r.Q, r.q, r.Z
    m, size, above, M = n // 2, n, 0, r.V
    rows = gradients + r.more
    if r.halved:
        size, M = halve(r, h[0], bent, rows), r.M
        above = size
    elif is_given(T):
        above = m
    split = min(n, m + -m % 6) if above > 0 else 0  # rows of whole tiles that H has a part in
    rest, H, G = size - above, Z - 8 * above * ld, Z + 8 * size * ld
    copy_rows(q, ld, lz, 0, gradients, n + nu)
    clear_rows(q + 8 * gradients * ld, ld, r.more, ld)
    if r.halved:
        add_rows(q, ld, 1.0, r.P, lx, rows, m)
        if is_given(T):
            add_rows(Z - 8 * m * ld, ld, factor, block_at(T, 3, m), m, m, m)
    elif is_given(T):
        clear_rows(H, ld, m, ld)
        add_rows(H, ld, factor, block_at(T, 3, m), m, m, m)
    product(G, ld, r.zeros, 0, rest, ld, M, lx, 1, Z, ld, size)
    product(G + 8 * rest * ld, ld, H, ld, above, ld, M + 8 * rest * lx, lx, 1, Z, ld, size)
    add_product(q, ld, rows, ld, M + 8 * size * lx, lx, 1, Z, ld, size)
    product(Q + 8 * n * ld, ld, start + 8 * n * stride, stride, nu, ld, Z + 8 * n, 1, ld, G, ld, size)
    upper_product(Q, ld, start, stride, 0, split, lx, H, 1, ld, G - 8 * above * ld, ld, above + size)
    upper_product(Q, ld, start, stride, split, n, lx, Z, 1, ld, G, ld, size)
    if r.halved:
        add_straight(r, bent)


@kernel
def add_straight(r, bent):
    """Q_oo += V_oo, on and above the diagonal."""
    m, runs = r.n // 2, r.runs + 1
    for k in range(runs):
        first, size = straight(bent, r.runs, m, k)
        for l in range(k, runs):
            begin, number = straight(bent, r.runs, m, l)
            add_rows(r.Q + 8 * (first * r.ld + begin), r.ld, 1.0, r.V + 8 * (first * r.lx + begin), r.lx, size, number)


@kernel
def forget_idle(r):
    """Keep controls where they are that nothing depends on, not even a cost: those whose rows of Q and q are zero."""
    n, nz = r.n, r.n + r.nu
    Q, q = array_at(r.Q, (nz, r.ld)), floats_at(r.q)
    for i in range(n, nz):
        if all_less(0.0, magnitude(Q[i, i])):
            continue
        total = magnitude(q[i])
        for j in range(nz):
            total += magnitude(Q[i, j])
        Q[i, i] = where_less(total, SMALLEST, 1.0, Q[i, i])


@kernel
def factorize(r):
    """[Y U] over the rows u of Q, y, and N; 1 if Q_uu is positive definite, else, NaN included, 0."""
    n, nu, ld = r.n, r.nu, r.ld
    Q, q = array_at(r.Q, (n + nu, ld)), floats_at(r.q)
    size, y = floats_at(r.size), floats_at(r.y)
    for i in range(nu):
        size[i], y[i] = Q[n + i, n + i], q[n + i]
    return eliminate(nu, r.Q + 8 * n * ld, ld, n, r.y, r.size, r.U, r.inverse, r.N)


@kernel
def policy(r, k, K):
    """k (nu,) and K (nu, n) at two addresses, after `factorize`; K in the room, too. Returns yᵀ D⁻¹ y."""
    n, nu, ld, lx = r.n, r.nu, r.ld, r.lx
    raise_rows(nu, r.K, lx, r.N, ld, n)
    write_rows(K, n, r.K, lx, nu, n)
    k, N, y, inverse = floats_at(k), array_at(r.N, (nu, ld)), floats_at(r.y), floats_at(r.inverse)
    square = 0.0
    for i in range(nu):
        k[i] = -inverse[i] * y[i]
        square -= k[i] * y[i]
    for l in range(nu - 1, 0, -1):
        for i in range(l):
            k[i] += N[i, n + l] * k[l]
    return square


@kernel
def value(r):
    """V := Q_xx + N_xᵀ Y, v[0] := q_x + N_xᵀ y, and v[1] := the costate's."""
    n, nu, ld, lx = r.n, r.nu, r.ld, r.lx
    upper_product(r.V, lx, r.Q, ld, 0, n, lx, r.N, 1, ld, r.Q + 8 * n * ld, ld, nu)
    complete(r)
    copy_rows(r.v, lx, r.q, ld, 2, n)
    add_product(r.v, lx, 1, lx, r.y, nu, 1, r.N, ld, nu)
