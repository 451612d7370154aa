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

All of it is linear in Φ1, Φ2, and a column of Φ has one strain. So it is found for units, strains that are 1 at one of
the two samples alone, and a degree of freedom's is that of its strain's two units, times its levels there. A rigid
joint is the case ∂ = 0 of one segment.
"""

from ddp.compiling.kernel import inline
from dynamics.geometry.lie import displacement
from dynamics.geometry.spatial import (
    add3,
    add6,
    add9,
    cross_force,
    cross_motion,
    dot3,
    inertia_times,
    momentum,
    momentum_operator,
    move_inertia,
    move_motion,
    placement,
    rotate,
    rotation_product,
    scale3,
    scale6,
    scale9,
)
from dynamics.rods.local_maps import coefficients, moving, on_twist, tangent, tangent_slope
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
def add_samples(tree, b, k, at, x, i, first, second):
    """Add Φ1 x and Φ2 x to rows k, of the segment whose columns begin at ``at``; coordinates begin at x[i]."""
    iv = tree.iv[b]
    for j in range(tree.nj[b]):
        strain = tree.strain[iv + j]
        first[k, strain] += tree.level[2 * (at + j)] * x[i + j]
        second[k, strain] += tree.level[2 * (at + j) + 1] * x[i + j]


@inline
def of_units(tree, at, unit, iv, j, units):
    """Row of the j-th degree of freedom, whose segment's columns begin at ``at`` and its units at ``unit``."""
    u, x, y = unit + 2 * tree.mode[iv + j], tree.level[2 * (at + j)], tree.level[2 * (at + j) + 1]
    return add6(scale6(x, units[u]), scale6(y, units[u + 1]))


@inline
def exponential(omega, c):
    """R, p of exp of a twist, from its ``coefficients``."""
    w, c1, c2, c3 = omega[0], c[0][0], c[1][0], c[2][0]
    return displacement((1.0 - c2 * dot3(w, w), c1, c2, c3), w, omega[1])


@of_rods
def place_rod(tree, b, q, origin_at_root, ws):
    """ξ1, ξ2, Ω, T of segments and poses of the points of the rod that carries b, and b's own, at the tip."""
    m, r, n, parent = RodMemory(ws.rods, tree), tree.rod[b], tree.nj[b], tree.parent[b]
    zero, (R, p) = 0.0 * q[tree.iq[b]], placement(tree.placement[b])
    R, p = scale9(1.0 + zero, R), scale3(1.0 + zero, p)
    if parent >= 0:
        p = add3(ws.p[parent], rotate(ws.R[parent], p))
        R = rotation_product(ws.R[parent], R)
    elif origin_at_root:
        p = scale3(0.0, p)
    k, at, nothing = tree.first[r], tree.column[r], (zero, zero, zero, zero, zero, zero)
    m.R[k], m.p[k] = R, p
    for k in range(tree.first[r] + 1, tree.first[r] + tree.count[r]):
        at += n
        h, R, p = tree.length[k], m.R[k - 1], m.p[k - 1]
        m.xi1[k], m.xi2[k] = add6(nothing, tree.reference[2 * k]), add6(nothing, tree.reference[2 * k + 1])
        add_samples(tree, b, k, at, q, tree.iq[b], m.xi1, m.xi2)
        first, second = m.xi1[k], m.xi2[k]
        twist = add6(scale6(0.5 * h, add6(first, second)), scale6(bend(h), cross_motion(first, second)))
        omega = moving(twist, still(twist))
        factors = coefficients(omega)
        turn, shift = exponential(omega, factors)
        T = tangent(omega, factors)
        m.twist[k], m.T[k] = twist, T[0] + T[1]
        m.R[k], m.p[k] = rotation_product(R, turn), add3(p, rotate(R, shift))
    ws.R[b], ws.p[b] = m.R[k], m.p[k]


@of_rods
def span_rod(tree, b, ws):
    """Z and δs of segments, and columns s at every point, after ``place_rod``; b's own, at the tip."""
    m, r, n, iv = RodMemory(ws.rods, tree), tree.rod[b], tree.nj[b], tree.iv[b]
    at, unit, nothing = tree.column[r], tree.unit[r], still(m.twist[tree.first[r] + 1])
    for j in range(n):
        m.s[at + j] = nothing
    for k in range(tree.first[r] + 1, tree.first[r] + tree.count[r]):
        at += n
        unit += 2 * tree.modes[r]
        h, R, p, T = tree.length[k], m.R[k - 1], m.p[k - 1], halves(m.T[k])
        c, xi1, xi2 = bend(h), m.xi1[k], m.xi2[k]
        for l in range(tree.modes[r]):
            u, e = unit + 2 * l, tree.axes[tree.strains[r, l]]
            Z1, Z2 = scale6(c, cross_motion(e, xi2)), scale6(c, cross_motion(xi1, e))
            m.Z[u], m.Z[u + 1] = add6(Z1, scale6(0.5 * h, e)), add6(Z2, scale6(0.5 * h, e))
            for one in range(u, u + 2):
                m.unit_ds[one] = move_motion(R, p, on_twist(T[0], T[1], m.Z[one]))
        for j in range(n):
            ds = of_units(tree, at, unit, iv, j, m.unit_ds)
            m.ds[at + j], m.s[at + j] = ds, add6(m.s[at - n + j], ds)
    for j in range(n):
        ws.s[iv + j] = m.s[at + j]


@inline
def halves(T):
    """Two matrices of 18 numbers."""
    return (
        (T[0], T[1], T[2], T[3], T[4], T[5], T[6], T[7], T[8]),
        (T[9], T[10], T[11], T[12], T[13], T[14], T[15], T[16], T[17]),
    )


@of_rods
def move_rod(tree, b, qd, qdd, ws):
    """Ω', Ω'' of segments, and v, a, I, (h, K) and f of every point after ``place_rod``; v, a of b."""
    m, r, n, parent = RodMemory(ws.rods, tree), tree.rod[b], tree.nj[b], tree.parent[b]
    g, zero, k, at = tree.gravity, 0.0 * qd[0], tree.first[r], tree.column[r]
    if parent >= 0:
        m.v[k], m.a[k] = ws.v[parent], ws.a[parent]
    else:
        m.v[k] = (zero, zero, zero, zero, zero, zero)
        m.a[k] = (zero - g[0], zero - g[1], zero - g[2], zero - g[3], zero - g[4], zero - g[5])
    for k in range(tree.first[r] + 1, tree.first[r] + tree.count[r]):
        at += n
        h, iv, R, p, vp = tree.length[k], tree.iv[b], m.R[k - 1], m.p[k - 1], m.v[k - 1]
        c, xi1, xi2, twist = bend(h), m.xi1[k], m.xi2[k], m.twist[k]
        m.v1[k] = m.v2[k] = m.a1[k] = m.a2[k] = still(twist)
        add_samples(tree, b, k, at, qd, iv, m.v1, m.v2)
        add_samples(tree, b, k, at, qdd, iv, m.a1, m.a2)
        v1, v2, a1, a2 = m.v1[k], m.v2[k], m.a1[k], m.a2[k]
        rate = add6(scale6(0.5 * h, add6(v1, v2)), mixed(c, xi1, xi2, v1, v2))
        second = add6(scale6(0.5 * h, add6(a1, a2)), mixed(c, xi1, xi2, a1, a2))
        second = add6(second, scale6(2.0 * c, cross_motion(v1, v2)))
        m.rate[k], m.second[k] = rate, second
        omega = moving(twist, rate)
        T = tangent(omega, coefficients(omega))
        sigma = move_motion(R, p, on_twist(T[0], T[1], rate))
        rho = move_motion(R, p, add6(on_twist(T[0], T[1], second), on_twist(T[2], T[3], rate)))
        v, a = add6(vp, sigma), add6(m.a[k - 1], add6(rho, cross_motion(vp, sigma)))
        I = move_inertia(m.R[k], m.p[k], tree.section[k])
        hK = momentum_operator(I, v)
        m.v[k], m.a[k], m.I[k], m.hK[k] = v, a, I, hK
        m.f[k] = add6(inertia_times(I, a), cross_force(v, momentum(hK)))
    ws.v[b], ws.a[b] = m.v[k], m.a[k]


@of_rods
def vary_rod(tree, b, ws):
    """Z', Z'' of segments, and rows ψ', ψ'', η of every point, after ``span_rod`` and ``move_rod``; b's, at the tip."""
    m, r, n, iv = RodMemory(ws.rods, tree), tree.rod[b], tree.nj[b], tree.iv[b]
    at, unit, nothing = tree.column[r], tree.unit[r], still(m.twist[tree.first[r] + 1])
    for j in range(n):
        m.psi[at + j] = m.psidd[at + j] = m.eta[at + j] = nothing
    for k in range(tree.first[r] + 1, tree.first[r] + tree.count[r]):
        at += n
        unit += 2 * tree.modes[r]
        R, p, vp, c = m.R[k - 1], m.p[k - 1], m.v[k - 1], bend(tree.length[k])
        v, a, v1, v2, a1, a2 = m.v[k], m.a[k], m.v1[k], m.v2[k], m.a1[k], m.a2[k]
        omega, u = moving(m.twist[k], m.rate[k]), moving(m.rate[k], m.second[k])
        factors = coefficients(omega)
        T, D = tangent(omega, factors), tangent_slope(omega, u, factors)
        D0, D1 = add9(D[0], T[2]), add9(D[1], T[3])
        for l in range(tree.modes[r]):
            one, e = unit + 2 * l, tree.axes[tree.strains[r, l]]
            m.Zd[one], m.Zd[one + 1] = scale6(c, cross_motion(e, v2)), scale6(c, cross_motion(v1, e))
            m.Zdd[one], m.Zdd[one + 1] = scale6(c, cross_motion(e, a2)), scale6(c, cross_motion(a1, e))
        for one in range(unit, unit + 2 * tree.modes[r]):
            Z, Zd, ds = m.Z[one], m.Zd[one], m.unit_ds[one]
            T_Zd = on_twist(T[0], T[1], Zd)
            dv = move_motion(R, p, add6(on_twist(D[0], D[1], Z), T_Zd))
            da = add6(on_twist(D[2], D[3], Z), add6(on_twist(D0, D1, Zd), on_twist(T[0], T[1], m.Zdd[one])))
            grown = add6(dv, cross_motion(v, ds))
            turned = move_motion(R, p, add6(on_twist(T[2], T[3], Z), T_Zd))
            m.unit_dv[one], m.unit_deta[one] = dv, add6(grown, add6(turned, cross_motion(vp, ds)))
            m.unit_dpsidd[one] = add6(
                add6(move_motion(R, p, da), cross_motion(a, ds)), add6(cross_motion(v, grown), cross_motion(vp, dv))
            )
        for j in range(n):
            dv, i = of_units(tree, at, unit, iv, j, m.unit_dv), at + j
            m.dv[i], m.psi[i] = dv, add6(m.psi[i - n], add6(dv, cross_motion(v, m.ds[i])))
            m.psidd[i] = add6(m.psidd[i - n], of_units(tree, at, unit, iv, j, m.unit_dpsidd))
            m.eta[i] = add6(m.eta[i - n], of_units(tree, at, unit, iv, j, m.unit_deta))
    for j in range(n):
        i = iv + j
        ws.psi[i], ws.psidd[i], ws.eta[i] = m.psi[at + j], m.psidd[at + j], m.eta[at + j]


@of_rods
def move_rod_virtually(tree, b, mu, ws):
    """Ω_μ, Z_μ of segments, and w, (h, K)_w and χ of points that the multiplier μ makes as q'; w and χ of b."""
    m, r, n, iv, parent = RodMemory(ws.rods, tree), tree.rod[b], tree.nj[b], tree.iv[b], tree.parent[b]
    zero, k, at, unit = 0.0 * mu[0], tree.first[r], tree.column[r], tree.unit[r]
    nothing = (zero, zero, zero, zero, zero, zero)
    m.w[k] = ws.w[parent] if parent >= 0 else nothing
    for j in range(n):
        m.chi[at + j] = nothing
    for k in range(tree.first[r] + 1, tree.first[r] + tree.count[r]):
        at += n
        unit += 2 * tree.modes[r]
        h, R, p, twist = tree.length[k], m.R[k - 1], m.p[k - 1], m.twist[k]
        c = bend(h)
        m.x1[k] = m.x2[k] = still(twist)
        add_samples(tree, b, k, at, mu, iv, m.x1, m.x2)
        x1, x2 = m.x1[k], m.x2[k]
        virtual = add6(scale6(0.5 * h, add6(x1, x2)), mixed(c, m.xi1[k], m.xi2[k], x1, x2))
        m.virtual[k] = virtual
        omega = moving(twist, still(twist))
        factors = coefficients(omega)
        T, D = tangent(omega, factors), tangent_slope(omega, moving(virtual, still(twist)), factors)
        w = add6(m.w[k - 1], move_motion(R, p, on_twist(T[0], T[1], virtual)))
        m.w[k], m.hKw[k] = w, momentum_operator(m.I[k], w)
        for l in range(tree.modes[r]):
            one, e = unit + 2 * l, tree.axes[tree.strains[r, l]]
            m.Zmu[one], m.Zmu[one + 1] = scale6(c, cross_motion(e, x2)), scale6(c, cross_motion(x1, e))
        for one in range(unit, unit + 2 * tree.modes[r]):
            dm = move_motion(R, p, add6(on_twist(D[0], D[1], m.Z[one]), on_twist(T[0], T[1], m.Zmu[one])))
            m.unit_dchi[one] = add6(dm, cross_motion(w, m.unit_ds[one]))
        for j in range(n):
            m.chi[at + j] = add6(m.chi[at - n + j], of_units(tree, at, unit, iv, j, m.unit_dchi))
    ws.w[b] = m.w[k]
    for j in range(n):
        ws.chi[iv + j] = m.chi[at + j]


@of_rods
def reach_of_rod(tree, b, reach):
    """reach := by how much a unit of each of the rod's coordinates turns, or stretches, a quarter of it [rad, 1]."""
    r, iv, length = tree.rod[b], tree.iv[b], 0.0
    for k in range(tree.first[r] + 1, tree.first[r] + tree.count[r]):
        length += tree.length[k]
    for i in range(iv, iv + tree.nj[b]):
        if tree.strain[i] >= 3:
            reach[i] = 0.25 * length
