# mypy: allow-untyped-defs, allow-untyped-calls
"""The second order of one semi-implicit Euler step, contracted with a weight: eight degrees of freedom to a register.

The formulas are those of curvature.py and of rigid_bodies/hessian.py and implicit.py; here whole rows of them are
products. With rows over the degrees of freedom, (j ≤ i) the 0/1 matrix "j's body carries i's", (j < i) the same
without its own,

    w_p = (s μ) (j < i)        (h, K)_w, z = K(Iᶜ, w_p), Bᶜᵀ w_p + (K(Iᶜ, s μ), Bᶜᵀ s μ) (j ≤ i)ᵀ
    qq = (j ≤ i) [ψ'' ψ'_a χ]ᵀ [P Z F]            vv = -(j ≤ i) s_aᵀ b_w
    qv = (j ≤ i) [ψ'_a χ]ᵀ [-b_w V] + (j < i)ᵀ [P Z]ᵀ [η s_a]        qa = (j ≤ i) χᵀ Y + (j < i)ᵀ Pᵀ s

element by element in front of the products. Hessians are symmetric, so half of qq's own joint's block and all of
what rigid_bodies/hessian.py adds for motions that do not commute drops out of qq + qqᵀ and vv + vvᵀ.
"""

from __future__ import annotations

from numba import carray

from ddp.compiling.kernel import inline, integer_pointer, kernel, pointer
from ddp.matrices.rows import add_transposed, copy_rows, mirror, write_dense
from ddp.matrices.tiles import WIDTH, add_product, add_upper_product, banded_product, product
from dynamics.arrays.lanes import lane_array
from dynamics.geometry.joint_motion import joint_curvature, joint_jacobian, twist_of
from dynamics.geometry.spatial import (
    add3,
    add6,
    angular,
    coriolis_times,
    coriolis_transposed_times,
    cross3,
    cross_force,
    cross_motion,
    inertia_times,
    momentum,
    momentum_operator,
    scale3,
    scale6,
    sub3,
)
from dynamics.robots.packed import matrix, vector
from dynamics.steps.knot_plan import (
    CARRIED,
    CHI,
    COUPLE,
    ETAS,
    FORCE,
    MINUS_BW,
    MOVED,
    OMEGA,
    PSI_A,
    PSIDDS,
    ROWS,
    S_A,
    S_A_AGAIN,
    SS,
    TOTAL,
    VS,
    WP,
    YS,
    P,
    Z,
)
from dynamics.steps.lane_curvature import ETA, FIELDS, HK, PSI, PSIDD, F, I, S, put
from dynamics.steps.linearization import next_twist


@inline
def lanes_at(address, rows, columns):
    """The matrix at an address, eight columns to a lane."""
    return lane_array(carray(pointer(address), (rows, columns // 8, 8)))


@inline
def take3(A, first, g):
    """A[first:, g] as a tuple."""
    return (A[first, g], A[first + 1, g], A[first + 2, g])


@inline
def take6(A, first, g):
    """A[first:, g] as a tuple."""
    return (
        A[first, g], A[first + 1, g], A[first + 2, g], A[first + 3, g], A[first + 4, g], A[first + 5, g],
    )  # fmt: skip


@inline
def take9(A, first, g):
    """A[first:, g] as a tuple."""
    return (
        A[first, g], A[first + 1, g], A[first + 2, g], A[first + 3, g], A[first + 4, g], A[first + 5, g],
        A[first + 6, g], A[first + 7, g], A[first + 8, g],
    )  # fmt: skip


@inline
def take10(A, first, g):
    """A[first:, g] as a tuple."""
    return (
        A[first, g], A[first + 1, g], A[first + 2, g], A[first + 3, g], A[first + 4, g], A[first + 5, g],
        A[first + 6, g], A[first + 7, g], A[first + 8, g], A[first + 9, g],
    )  # fmt: skip


@inline
def take12(A, first, g):
    """A[first:, g] as a tuple."""
    return (
        A[first, g], A[first + 1, g], A[first + 2, g], A[first + 3, g], A[first + 4, g], A[first + 5, g],
        A[first + 6, g], A[first + 7, g], A[first + 8, g], A[first + 9, g], A[first + 10, g], A[first + 11, g],
    )  # fmt: skip


@kernel
def contract_knot(p, record, weight, hessian):
    """The Hessian (nz, nz) of weight·(f(x ⊕ dx, u + du) ⊖ f(x, u)) of the knot with a record: addresses, all three."""
    nv, nu, lx, ld = p.nv, p.nu, p.lx, p.ld
    nz, h = 2 * nv + nu, vector(p.reals, 1)[0]
    v, a = vector(record + 8 * p.nq, nv), vector(record + 8 * (p.nq + nv), nv)
    Minv = record + 8 * (p.nq + 2 * nv)
    first_order = Minv + 8 * nv * nv
    weigh_acceleration(p, h, v, a, vector(weight, 2 * nv))
    product(p.rows + 8 * OMEGA * lx, lx, p.zeros, 0, 1, lx, p.effective, 0, 1, Minv, nv, nv)
    D = lanes_at(record + 8 * p.begin, FIELDS, lx)
    virtual_velocities(p, D)
    relate(p, 0)
    load_accelerations(p, first_order)
    assemble(p)
    add_group_curvatures(p, h, v, a, vector(weight, 2 * nv))
    mirror(p.H, ld)
    write_dense(hessian, p.H, ld, nz)


@inline
def clear_lanes(address, size):
    """Zeros, as many as a multiple of eight."""
    x = lanes_at(address, 1, size)
    for g in range(size // 8):
        x[0, g] = 0.0


@kernel
def read_group(p, b):
    """Kind, first degree of freedom and number of them of a joint whose motions do not commute."""
    x = carray(integer_pointer(p.groups + 24 * b), 3)
    return x[0], x[1], x[2]


@kernel
def weigh_acceleration(p, h, v, a, weight):
    """effective (nv,) := h (w_v + h Jrᵀ w_q), the weight on the acceleration."""
    nv, effective = p.nv, vector(p.effective, p.nv)
    for i in range(nv):
        effective[i] = h * (weight[nv + i] + h * weight[i])
    for b in range(p.number):
        kind, iv, nj = read_group(p, b)
        J = matrix(p.J + 384 * b, 6, WIDTH)
        joint_jacobian(kind, nj, next_twist(kind, v, a, iv, h), J)
        for i in range(nj):
            total = 0.0
            for k in range(nj):
                total += J[k, i] * weight[iv + k]
            effective[iv + i] = h * (weight[nv + iv + i] + h * total)


@kernel
def virtual_velocities(p, D):
    """The factors of the products: columns χ, ψ'', .. and F, P, Z, V, b_w, Y under ω = -M⁻ᵀ w."""
    lx, nv = p.lx, p.nv
    x = lanes_at(p.rows, ROWS, lx)
    for g in range(lx // 8):
        s, hK = take6(D, S, g), take12(D, HK, g)
        moved = scale6(-x[OMEGA, g], s)
        put(x, MOVED, g, moved)
        put(x, CARRIED, g, momentum_operator(take10(D, I, g), moved))
        put(x, COUPLE, g, coriolis_transposed_times(hK, moved))
    product(p.rows + 8 * WP * lx, lx, p.zeros, 0, 6, lx, p.rows + 8 * MOVED * lx, lx, 1, p.strict, lx, nv)
    product(p.rows + 8 * TOTAL * lx, lx, p.zeros, 0, 15, lx, p.rows + 8 * CARRIED * lx, lx, 1, p.below, lx, nv)
    for g in range(lx // 8):
        s, psi, psidd, eta, wp = take6(D, S, g), take6(D, PSI, g), take6(D, PSIDD, g), take6(D, ETA, g), take6(x, WP, g)
        inertia, hK = take10(D, I, g), take12(D, HK, g)
        force = add6(cross_force(s, take6(D, F, g)), add6(inertia_times(inertia, psidd), coriolis_times(hK, psi)))
        put(x, FORCE, g, force)
        put(x, VS, g, add6(inertia_times(inertia, eta), coriolis_times(hK, s)))
        put(x, YS, g, inertia_times(inertia, s))
        put(x, PSIDDS, g, psidd)
        put(x, PSI_A, g, angular(psi))
        put(x, ETAS, g, eta)
        put(x, S_A, g, angular(s))
        put(x, S_A_AGAIN, g, angular(s))
        put(x, SS, g, s)
        hKw = add12(momentum_operator(inertia, wp), take12(x, TOTAL, g))
        z = add3(coriolis_transposed_times(hK, wp), take3(x, TOTAL + 12, g))
        chi = cross_motion(wp, s)
        put(x, CHI, g, chi)
        put(x, P, g, add6(cross_force(s, momentum(hKw)), inertia_times(inertia, chi)))
        turned = add3(cross3(angular(s), z), coriolis_transposed_times(hK, chi))
        put(x, Z, g, sub3(turned, coriolis_transposed_times(hKw, psi)))
        put(x, MINUS_BW, g, scale3(-1.0, coriolis_transposed_times(hKw, s)))


@inline
def add12(a, b):
    """The sum of two."""
    return (
        a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3], a[4] + b[4], a[5] + b[5],
        a[6] + b[6], a[7] + b[7], a[8] + b[8], a[9] + b[9], a[10] + b[10], a[11] + b[11],
    )  # fmt: skip


@kernel
def relate(p, more):
    """The products, before their factors (j ≤ i) and (j < i)ᵀ; of those of (j ≤ i) with s_aᵀ, ``more`` rows: 0 or 3."""
    nv, lx, x, row, o = p.nv, p.lx, p.rows, 8 * p.lx, p.zeros
    clear_lanes(p.qa, nv * lx)  # `couple` fills it beyond its bands, with what may be no numbers
    banded_product(p.qq, lx, o, 0, nv, p.upper, x + PSIDDS * row, 1, lx, x + P * row, lx, 15 + more)
    banded_product(p.vv, lx, o, 0, nv, p.upper, x + S_A * row, 1, lx, x + MINUS_BW * row, lx, 3)
    banded_product(p.qv, lx, o, 0, nv, p.upper, x + PSI_A * row, 1, lx, x + MINUS_BW * row, lx, 9 + more)
    banded_product(p.vq, lx, o, 0, nv, p.lower, x + P * row, 1, lx, x + ETAS * row, lx, 9)
    banded_product(p.qa, lx, o, 0, nv, p.upper, x + CHI * row, 1, lx, x + YS * row, lx, 6 + more)
    banded_product(p.aq, lx, o, 0, nv, p.lower, x + P * row, 1, lx, x + SS * row, lx, 6)


@kernel
def load_accelerations(p, first_order):
    """A (nv, ld) := [a_q a_v a_u]."""
    nv, nu, ld = p.nv, p.nu, p.ld
    for i in range(nv):  # the zeros after a_u may fall on the row to come
        row = p.A + 8 * i * ld
        copy_rows(row, ld, first_order + 8 * i * nv, nv, 1, nv)
        copy_rows(row + 8 * nv, ld, first_order + 8 * (nv + i) * nv, nv, 1, nv)
        copy_rows(row + 16 * nv, ld, first_order + 8 * (2 * nv * nv + i * nu), nu, 1, nu)


@kernel
def assemble(p):
    """H := [½ qq  qv  0; . vv 0; . . 0] + qa A, and qq + qqᵀ, right on and above its diagonal."""
    couple(p)
    add_run_products(p.H, p.ld, p.nv, p.runs, p.qa, p.lx, 1, p.A, p.ld)
    complete(p)


@kernel
def couple(p):
    """H := [½ qq  qv  0] in the rows of q, and qa in full."""
    nv, lx, ld = p.nv, p.lx, p.ld
    half, above, under = lanes_at(p.half, nv, lx), lanes_at(p.above, nv, lx), lanes_at(p.under, nv, lx)
    qq, qv, vq = lanes_at(p.qq, nv, lx), lanes_at(p.qv, nv, lx), lanes_at(p.vq, nv, lx)
    qa, aq = lanes_at(p.qa, nv, lx), lanes_at(p.aq, nv, lx)
    for i in range(nv):  # what is beyond nv columns is zero
        to_qq, to_qv = lanes_at(p.H + 8 * i * ld, 1, lx), lanes_at(p.H + 8 * (i * ld + nv), 1, lx)
        for g in range(lx // 8):
            to_qq[0, g] = half[i, g] * qq[i, g]
        clear_lanes(p.H + 8 * (i * ld + lx), ld - lx)
        for g in range(lx // 8):
            to_qv[0, g] = above[i, g] * qv[i, g] + under[i, g] * vq[i, g]
            qa[i, g] = above[i, g] * qa[i, g] + under[i, g] * aq[i, g]


@kernel
def complete(p):
    """Add qqᵀ to the rows of q; those below are vv and zeros."""
    nv, lx, ld = p.nv, p.lx, p.ld
    above, vv = lanes_at(p.above, nv, lx), lanes_at(p.vv, nv, lx)
    clear_lanes(p.H + 8 * nv * ld, (ld - nv) * ld)
    add_transposed(p.H, ld, lx, p.C)
    for i in range(nv):
        to_vv = lanes_at(p.H + 8 * ((nv + i) * ld + nv), 1, lx)
        for g in range(lx // 8):
            to_vv[0, g] = above[i, g] * vv[i, g]
    H, own = matrix(p.H, ld, ld), matrix(p.vv, nv, lx)
    for b in range(p.number):
        _, iv, nj = read_group(p, b)
        for i in range(iv, iv + nj):
            for j in range(iv, i):
                H[nv + j, nv + i] = 0.5 * (own[i, j] + own[j, i])


@kernel
def add_run_products(C, ldc, rows, runs, a, ai, ak, B, ldb):
    """C += a B in whole rows of ldc numbers, sums over the runs of columns that each panel of rows of a has."""
    i, words = 0, runs
    while i < rows:
        panel = carray(integer_pointer(words), 2)
        size, count = panel[0], panel[1]
        for r in range(count):
            run = carray(integer_pointer(words + 16 + 16 * r), 2)
            begin, end = run[0], run[1]
            own = a + 8 * (i * ai + begin * ak)
            add_product(C + 8 * i * ldc, ldc, size, ldc, own, ai, ak, B + 8 * begin * ldb, ldb, end - begin)
        i, words = i + size, words + 16 + 16 * count


@kernel
def add_group_curvatures(p, h, v, a, weight):
    """Those of all joints whose motions do not commute, with weights on (δq', δv'), after `weigh_acceleration`."""
    for b in range(p.number):
        kind, iv, _ = read_group(p, b)
        add_group_curvature(p, b, h, next_twist(kind, v, a, iv, h), weight)


@kernel
def add_group_curvature(p, b, h, xi, weight):
    """H += the Hessian of w·(½ (D_η Jr) η + ½ [A δq, Jr η]) of one joint's ``q ⊕ ξ``, on and above its diagonal.

    η = h E δz, E = [h a_q | 1 + h a_v | h a_u] the joint's rows; with C of the one and D of the other part that is
    ηᵀ (C η + Dᵀ δq) + δqᵀ D η. The rows of A become η / h².
    """
    nv, ld = p.nv, p.ld
    kind, iv, nj = read_group(p, b)
    A, curved, C, D = matrix(p.A, nv, ld), matrix(p.curved, 6, ld), matrix(p.C, 6, WIDTH), matrix(p.D, 6, WIDTH)
    w, square, eta = twist_of(kind, weight, iv, 1.0), h * h, p.A + 8 * iv * ld
    joint_curvature(kind, nj, xi, w, matrix(p.J + 384 * b, 6, WIDTH), C, D)
    for i in range(nj):
        A[iv + i, nv + iv + i] += 1.0 / h
        for k in range(nj):
            C[i, k] = square * square * C[i, k]
            D[i, k] = square * D[i, k]
    product(p.curved, ld, p.zeros, 0, nj, ld, p.C, WIDTH, 1, eta, ld, nj)
    for i in range(nj):
        for k in range(nj):
            curved[k, iv + i] += D[i, k]
    add_product(p.H + 8 * iv * ld, ld, nj, ld, p.D, WIDTH, 1, eta, ld, nj)
    add_upper_product(p.H, ld, 2 * nv + p.nu, ld, eta, 1, ld, p.curved, ld, nj)
