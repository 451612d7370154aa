# mypy: allow-untyped-defs, allow-untyped-calls
"""Rods, segment by segment from base to tip: where they are, how they move, and how all of it varies with q.

Strains are linear in a rod's coordinates, ξ = ξ* + Φ q; a segment of length h samples them at two points (ξ1, ξ2) and
moves its end by exp(Ω) from its base (Magnus' expansion, of fourth order), with c = √3 h²/12 and T of local_maps.py

    Ω = h/2 (ξ1 + ξ2) + c ξ1 × ξ2               Z = h/2 (Φ1 + Φ2) + c (ξ1 × Φ2 - ξ2 × Φ1)           Ω_μ = Z μ
    Ω' = Z q'                                   Z' = c ((Φ1 q') × Φ2 - (Φ2 q') × Φ1) = ∂Ω'/∂q       Z_μ likewise of μ
    Ω'' = Z q'' + 2c (Φ1 q') × (Φ2 q')          Z'' = the same of q'' = ∂Ω''/∂q

In world axes X = Ad of the segment's base, v, a, w of the base and v⁺, a⁺, w⁺ of the end,

    v⁺ = v + σ,  σ = X T Ω'    a⁺ = a + X (T Ω'' + T' Ω') + v × σ    w⁺ = w + X T Ω_μ    s⁺ = s + δs,  δs = X T Z

With D = ∂(T Ω')/∂Ω, D' = ∂(T Ω'' + T' Ω')/∂Ω, D_μ = ∂(T Ω_μ)/∂Ω, every degree of freedom's rows grow by

    ψ'⁺ = ψ' + r,  r = ∂σ + v⁺ × δs,  ∂σ = X (D Z + T Z')
    ψ''⁺ = ψ'' + ∂ρ + a⁺ × δs + v⁺ × r + v × ∂σ,  ∂ρ = X (D' Z + (D + T') Z' + T Z'')
    η⁺ = η + r + X (T' Z + T Z') + v × δs           χ⁺ = χ + X (D_μ Z + T Z_μ) + w⁺ × δs

A rigid joint is the case ∂ = 0 of one segment.
"""

from __future__ import annotations

from ddp.compiling.kernel import inline, kernel
from dynamics.geometry.spatial import (
    add3,
    add6,
    cross3,
    cross_force,
    cross_motion,
    inertia_times,
    momentum,
    momentum_operator,
    move_inertia,
    move_motion,
    rotate,
    rotation_product,
    scale3,
    scale6,
)
from dynamics.rods.local_maps import add9, coefficients, moving, on_twist, tangent, tangent_slope
from dynamics.rods.memory import RodMemory, of_rods

SAMPLED = 0.28867513459481287
"""√3/6: a segment samples strains at (½ ∓ √3/6) of its length; c = ½ (√3/6) h²."""


@inline
def bend(h):
    """c of a segment of length h."""
    return 0.5 * SAMPLED * h * h


@inline
def still(x):
    """A twist of zeros, of the numbers of another one."""
    return scale6(0.0, x)


@inline
def mixed(c, x1, x2, y1, y2):
    """c (x1 × y2 - x2 × y1)."""
    return scale6(c, add6(cross_motion(x1, y2), cross_motion(y1, x2)))


@inline
def sampled(tree, b, at, x, i, like):
    """Φ1 x and Φ2 x of the segment whose first row of ``basis`` is 2 ``at``; coordinates begin at x[i]."""
    first, second = still(like), still(like)
    for j in range(tree.nj[b]):
        first = add6(first, scale6(x[i + j], tree.basis[2 * (at + j)]))
        second = add6(second, scale6(x[i + j], tree.basis[2 * (at + j) + 1]))
    return first, second


@inline
def exponential(omega, c):
    """R, p of exp of a twist: R = c0 1 + c1 [ω ×] + c2 ω ωᵀ, p = T ρ."""
    w, rho = omega[0], omega[1]
    t = w[0] * w[0] + w[1] * w[1] + w[2] * w[2]
    c1, c2, c3 = c[0][0], c[1][0], c[2][0]
    c0, x, y, z = 1.0 - c2 * t, scale3(c1, w), scale3(c2, w), cross3(w, rho)
    R = (
        c0 + y[0] * w[0], y[0] * w[1] - x[2], y[0] * w[2] + x[1],
        y[1] * w[0] + x[2], c0 + y[1] * w[1], y[1] * w[2] - x[0],
        y[2] * w[0] - x[1], y[2] * w[1] + x[0], c0 + y[2] * w[2],
    )  # fmt: skip
    return R, add3(rho, add3(scale3(c2, z), scale3(c3, cross3(w, z))))


@of_rods
def place_rod(tree, b, q, origin_at_root, ws):
    """Poses of the points of the rod that carries b, and columns s at each; b's own, at the tip."""
    m, r, n, parent = RodMemory(ws.rods, tree), tree.rod[b], tree.nj[b], tree.parent[b]
    F, zero = tree.placement[b], 0.0 * q[tree.iq[b]]
    R = (
        F[0] + zero, F[1] + zero, F[2] + zero, F[3] + zero, F[4] + zero, F[5] + zero, F[6] + zero, F[7] + zero,
        F[8] + zero,
    )  # fmt: skip
    p = (F[9] + zero, F[10] + zero, F[11] + zero)
    if parent >= 0:
        p = add3(ws.p[parent], rotate(ws.R[parent], p))
        R = rotation_product(ws.R[parent], R)
    elif origin_at_root:
        p = scale3(0.0, p)
    nothing = (zero, zero, zero, zero, zero, zero)
    k, at = tree.first[r], tree.column[r]
    m.R[k], m.p[k] = R, p
    for j in range(n):
        m.s[at + j] = nothing
    for k in range(tree.first[r] + 1, tree.first[r] + tree.count[r]):
        at += n
        place_segment(tree, b, k, at, q, m)
    ws.R[b], ws.p[b] = m.R[k], m.p[k]
    for j in range(n):
        ws.s[tree.iv[b] + j] = m.s[at + j]


@kernel
def place_segment(tree, b, k, at, q, m):
    """ξ1, ξ2, Ω, Z of the segment that ends at point k, whose columns begin at ``at``; R, p, s of its end."""
    h, n, R, p = tree.length[k], tree.nj[b], m.R[k - 1], m.p[k - 1]
    c = bend(h)
    first, second = sampled(tree, b, at, q, tree.iq[b], m.s[at - n])
    first, second = add6(first, tree.reference[2 * k]), add6(second, tree.reference[2 * k + 1])
    twist = add6(scale6(0.5 * h, add6(first, second)), scale6(c, cross_motion(first, second)))
    m.xi1[k], m.xi2[k], m.twist[k] = first, second, twist
    omega = moving(twist, still(twist))
    factors = coefficients(omega)
    turn, shift = exponential(omega, factors)
    m.R[k], m.p[k] = rotation_product(R, turn), add3(p, rotate(R, shift))
    T = tangent(omega, factors)
    for j in range(n):
        phi1, phi2 = tree.basis[2 * (at + j)], tree.basis[2 * (at + j) + 1]
        Z = add6(scale6(0.5 * h, add6(phi1, phi2)), mixed(c, first, second, phi1, phi2))
        moved = move_motion(R, p, on_twist(T[0], T[1], Z))
        m.Z[at + j], m.ds[at + j] = Z, moved
        m.s[at + j] = add6(m.s[at - n + j], moved)


@of_rods
def move_rod(tree, b, qd, qdd, ws):
    """Velocities, accelerations, forces and rows of every point after ``place_rod``; v, a and rows of b."""
    m, r, n, parent = RodMemory(ws.rods, tree), tree.rod[b], tree.nj[b], tree.parent[b]
    g, zero, k, at = tree.gravity, 0.0 * qd[0], tree.first[r], tree.column[r]
    nothing = (zero, zero, zero, zero, zero, zero)
    if parent >= 0:
        m.v[k], m.a[k] = ws.v[parent], ws.a[parent]
    else:
        m.v[k] = nothing
        m.a[k] = (zero - g[0], zero - g[1], zero - g[2], zero - g[3], zero - g[4], zero - g[5])
    for j in range(n):
        m.psi[at + j] = m.psidd[at + j] = m.eta[at + j] = nothing
    for k in range(tree.first[r] + 1, tree.first[r] + tree.count[r]):
        at += n
        move_segment(tree, b, k, at, qd, qdd, m)
    ws.v[b], ws.a[b] = m.v[k], m.a[k]
    for j in range(n):
        i = tree.iv[b] + j
        ws.psi[i], ws.psidd[i], ws.eta[i] = m.psi[at + j], m.psidd[at + j], m.eta[at + j]


@kernel
def move_segment(tree, b, k, at, qd, qdd, m):
    """Ω', Ω'', Z', Z'' of the segment that ends at point k; v, a, rows, I, (h, K) and f of its end."""
    h, n, iv, R, p, vp = tree.length[k], tree.nj[b], tree.iv[b], m.R[k - 1], m.p[k - 1], m.v[k - 1]
    c, xi1, xi2, twist = bend(h), m.xi1[k], m.xi2[k], m.twist[k]
    v1, v2 = sampled(tree, b, at, qd, iv, twist)
    a1, a2 = sampled(tree, b, at, qdd, iv, twist)
    rate = add6(scale6(0.5 * h, add6(v1, v2)), mixed(c, xi1, xi2, v1, v2))
    second = add6(scale6(0.5 * h, add6(a1, a2)), mixed(c, xi1, xi2, a1, a2))
    second = add6(second, scale6(2.0 * c, cross_motion(v1, v2)))
    m.rate[k], m.second[k] = rate, second
    omega, u = moving(twist, rate), moving(rate, second)
    factors = coefficients(omega)
    T, D = tangent(omega, factors), tangent_slope(omega, u, factors)
    sigma = move_motion(R, p, on_twist(T[0], T[1], rate))
    rho = move_motion(R, p, add6(on_twist(T[0], T[1], second), on_twist(T[2], T[3], rate)))
    v, a = add6(vp, sigma), add6(m.a[k - 1], add6(rho, cross_motion(vp, sigma)))
    m.v[k], m.a[k] = v, a
    D0, D1 = add9(D[0], T[2]), add9(D[1], T[3])
    for j in range(at, at + n):
        phi1, phi2, Z, ds = tree.basis[2 * j], tree.basis[2 * j + 1], m.Z[j], m.ds[j]
        Zd, Zdd = mixed(c, v1, v2, phi1, phi2), mixed(c, a1, a2, phi1, phi2)
        m.Zd[j], m.Zdd[j] = Zd, Zdd
        T_Zd = on_twist(T[0], T[1], Zd)
        dv = move_motion(R, p, add6(on_twist(D[0], D[1], Z), T_Zd))
        da = add6(on_twist(D[2], D[3], Z), add6(on_twist(D0, D1, Zd), on_twist(T[0], T[1], Zdd)))
        r = add6(dv, cross_motion(v, ds))
        m.dv[j], m.psi[j] = dv, add6(m.psi[j - n], r)
        grown = add6(add6(move_motion(R, p, da), cross_motion(a, ds)), add6(cross_motion(v, r), cross_motion(vp, dv)))
        m.psidd[j] = add6(m.psidd[j - n], grown)
        turned = move_motion(R, p, add6(on_twist(T[2], T[3], Z), T_Zd))
        m.eta[j] = add6(m.eta[j - n], add6(r, add6(turned, cross_motion(vp, ds))))
    I = move_inertia(m.R[k], m.p[k], tree.section[k])
    hK = momentum_operator(I, v)
    m.I[k], m.hK[k] = I, hK
    m.f[k] = add6(inertia_times(I, a), cross_force(v, momentum(hK)))


@of_rods
def move_rod_virtually(tree, b, mu, ws):
    """Velocities w and rows χ that the multiplier μ makes as q'; w and χ of b."""
    m, r, n, parent = RodMemory(ws.rods, tree), tree.rod[b], tree.nj[b], tree.parent[b]
    zero, k, at = 0.0 * mu[0], tree.first[r], tree.column[r]
    nothing = (zero, zero, zero, zero, zero, zero)
    m.w[k] = ws.w[parent] if parent >= 0 else nothing
    for j in range(n):
        m.chi[at + j] = nothing
    for k in range(tree.first[r] + 1, tree.first[r] + tree.count[r]):
        at += n
        move_segment_virtually(tree, b, k, at, mu, m)
    ws.w[b] = m.w[k]
    for j in range(n):
        ws.chi[tree.iv[b] + j] = m.chi[at + j]


@kernel
def move_segment_virtually(tree, b, k, at, mu, m):
    """Ω_μ, Z_μ of the segment that ends at point k; w, (h, K)_w and χ of its end."""
    h, n, R, p, twist = tree.length[k], tree.nj[b], m.R[k - 1], m.p[k - 1], m.twist[k]
    c = bend(h)
    x1, x2 = sampled(tree, b, at, mu, tree.iv[b], twist)
    virtual = add6(scale6(0.5 * h, add6(x1, x2)), mixed(c, m.xi1[k], m.xi2[k], x1, x2))
    m.virtual[k] = virtual
    omega = moving(twist, still(twist))
    factors = coefficients(omega)
    T, D = tangent(omega, factors), tangent_slope(omega, moving(virtual, still(twist)), factors)
    w = add6(m.w[k - 1], move_motion(R, p, on_twist(T[0], T[1], virtual)))
    m.w[k], m.hKw[k] = w, momentum_operator(m.I[k], w)
    for j in range(at, at + n):
        Zmu = mixed(c, x1, x2, tree.basis[2 * j], tree.basis[2 * j + 1])
        m.Zmu[j] = Zmu
        dm = move_motion(R, p, add6(on_twist(D[0], D[1], m.Z[j]), on_twist(T[0], T[1], Zmu)))
        m.chi[j] = add6(m.chi[j - n], add6(dm, cross_motion(w, m.ds[j])))
