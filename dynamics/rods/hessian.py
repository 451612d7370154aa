# mypy: allow-untyped-defs, allow-untyped-calls
"""Rods in the Hessian of μᵀ ID(q, v, a).

Points are bodies, at the tip composites, with virtual momentum p and couple z = [Bᵀw]_a; f, p, z below are sums over a
point and all beyond, v, a, w of the segment's base, v⁺ of its end, and ζ = (0; z) - v⁺ ×* p. For i, at each point,

    G_f, G_p, G_ζ = δs_i ×* (f, p, ζ)
    ψ = ψ'⁺ - v⁺ × δs    χ = χ⁺ - w⁺ × δs    φ = ψ''⁺ - v⁺ × ψ'⁺ - a⁺ × δs
    x_χ = G_f + I ψ'' + B ψ'                  x_ψ'' = G_p + I χ
    x_ψ' = G_ζ + v⁺ ×* G_p + (0; [Bᵀχ]_a) - ½ (B_w ψ' + (0; [B_wᵀψ']_a))

give, with rows of j at the point, ψ̄', s̄ those at the segment's base, and ∂σ what the segment adds to the velocity's
derivative,

    qq_ji = χ_j·x_χ + ψ''_j·x_ψ'' + ψ'_j·x_ψ' - δs_j·(χ ×* f + ψ ×* ζ + φ ×* p) + ψ̄'_j·(∂σ_i ×* p) - ∂σ_j·(ψ̄'_i ×* p)
    qv_ij = η_j·x_ψ'' + s_j·x_ψ' + s̄_j·(∂σ_i ×* p) - δs_j·(ψ̄'_i ×* p)
    vv_ij = s̄_j·G_p - δs_j·(s̄_i ×* p) - ½ s_j·(B_w s_i + (0; [B_wᵀs_i]_a))        qa_ij = s_j·x_ψ''

where Σ χ_j·x_χ and others are found as in inverse.py: rows of j are sums of what segments add, which meets the sum of x
at the segment's end and all beyond, F of x_χ, P of x_ψ'', C of x_ψ', with ∂σ ×* p of the next segment, and D of vv's.
Within the segment there is, in the axes of its base, with f̂, p̂ the sums, ζ̂ that of ζ - v ×* p, ĉ that of
-(w⁺ ×* f + v⁺ ×* ζ + a⁺ ×* p), the Hessian of f̂·T Ω_μ + ζ̂·T Ω' + p̂·(T Ω'' + T' Ω') plus ĉ·∂_i(T Z_j). By the two
hyper-dual functions F = (p̂ + δ ζ̂)·T u at (Ω + δ Ω', u = Ω' + δ Ω'') and F_μ = (f̂ + δ ĉ)·T u at (Ω, u = Ω_μ)

    ΩΩ = δ-part of F_ωω + F_μωω    ΩΩ' = F_ωω + δ-part of F_ωu    ΩΩ'' = F_ωu    Ω'Ω' = F_ωu + F_ωuᵀ    ΩΩ_μ = F_μωu

where parts that are not named are those without δ. To what carries the rod, P_i = Σ x_ψ'', b_w = Σ [B_wᵀs]_a and
Z_i = Σ δs_a × z + [Bᵀχ]_a - [B_wᵀψ']_a, and F_i = Σ x_χ; formulas between joints are those of rigid_bodies/hessian.py.
"""

from ddp.compiling.kernel import inline, kernel
from dynamics.geometry.spatial import (
    add3,
    add6,
    add9,
    angular,
    coriolis_times,
    coriolis_transposed_times,
    cross3,
    cross_force,
    cross_motion,
    dot6,
    inertia_times,
    join,
    momentum,
    momentum_operator,
    scale3,
    scale6,
    seen_force,
    sub3,
    sub6,
)
from dynamics.rods.inverse import add_rates, add_strained, clear_block, spread_row
from dynamics.rods.loads import curved_load, loads_of
from dynamics.rods.local_maps import (
    coefficients,
    curved,
    moving,
    pressing,
    slope_on,
    slope_transposed_on,
    transposed,
    transposed_slope,
)
from dynamics.rods.memory import RodMemory, of_rods
from dynamics.rods.motion import bend, still


@inline
def couple_alone(n):
    """A wrench of a couple without force."""
    return join(scale3(0.0, n), n)


@of_rods
def carry_rod_virtually(tree, b, ws):
    """(h, K)_w and z of b, absolute; their sums over the rod's points, into those of its parent, relative to its w.

    Composites of ``virtual_velocities`` are relative to the velocity w of the body that has them until it is visited.
    """
    m, r, parent = RodMemory(ws.rods, tree), tree.rod[b], tree.parent[b]
    base = tree.first[r]
    last = base + tree.count[r] - 1
    operator, couple = momentum_operator(ws.Ic[b], ws.w[b]), coriolis_transposed_times(ws.hKc[b], ws.w[b])
    for k in range(12):
        ws.hKw[b, k] += operator[k]
    for k in range(3):
        ws.z[b, k] += couple[k]
    m.hKw[last] = ws.hKw[b]
    m.pf[last], m.z[last] = momentum(ws.hKw[b]), couple_alone(ws.z[b])
    for k in range(last - 1, base, -1):
        m.pf[k] = add6(m.pf[k + 1], momentum(m.hKw[k]))
        m.z[k] = add6(m.z[k + 1], couple_alone(coriolis_transposed_times(m.hK[k], m.w[k])))
    if parent >= 0:
        wp = ws.w[parent]
        for k in range(base + 1, last + 1):
            operator, couple = momentum_operator(m.I[k], wp), coriolis_transposed_times(m.hK[k], wp)
            for l in range(12):
                ws.hKw[parent, l] += m.hKw[k, l] - operator[l]
            for l in range(3):
                ws.z[parent, l] -= couple[l]
        for l in range(3):
            ws.z[parent, l] += m.z[base + 1, 3 + l]


@of_rods
def hessian_of_rod(tree, b, ws, qq, qv, vv, qa):
    """Y, F, V, P, Z, b_w and the entries within the rod, after ``carry_rod_virtually``."""
    m, r, n, iv = RodMemory(ws.rods, tree), tree.rod[b], tree.nj[b], tree.iv[b]
    last = tree.count[r] - 1
    clear_block(iv, n, qq)
    clear_block(iv, n, qv)
    clear_block(iv, n, vv)
    clear_block(iv, n, qa)
    for i in range(iv, iv + n):
        nothing = still(ws.s[i])
        none = angular(nothing)
        ws.Y[i] = m.F[i] = m.V[i] = m.P[i] = m.C[i] = m.D[i] = nothing
        m.couple[i] = m.bw[i] = none
        if tree.laden > 0:
            L = loads_of(tree, ws)
            L.Z[i] = L.V[i] = L.X[i] = nothing
    for k in range(last, 0, -1):
        curve_units(tree, b, k, ws, m)
        add_curvature_of_point(tree, b, k, ws, m, qq, qv, vv, qa)


@kernel
def add_curvature_of_point(tree, b, k, ws, m, qq, qv, vv, qa):
    """Terms of the rod's k-th point and the segment that it ends."""
    r, n, iv, point = tree.rod[b], tree.nj[b], tree.iv[b], tree.first[tree.rod[b]] + k
    units = 2 * tree.modes[r]
    at, unit = tree.column[r] + k * n, tree.unit[r] + k * units
    I, hK, hKw, v, w, a = m.I[point], m.hK[point], m.hKw[point], m.v[point], m.w[point], m.a[point]
    f, p, z = m.f[point], m.pf[point], m.z[point]
    zeta = sub6(z, cross_force(v, p))
    for i in range(n):
        s, ds, psi, psidd, chi = m.s[at + i], m.ds[at + i], m.psi[at + i], m.psidd[at + i], m.chi[at + i]
        before, slow, dv, to = m.psi[at - n + i], m.s[at - n + i], m.dv[at + i], iv + i
        Gf, Gp, Gz = cross_force(ds, f), cross_force(ds, p), cross_force(ds, zeta)
        turned, swung, bw = (
            coriolis_transposed_times(hK, chi), coriolis_transposed_times(hKw, psi), coriolis_transposed_times(hKw, s)
        )  # fmt: skip
        x_chi = add6(add6(Gf, inertia_times(I, psidd)), coriolis_times(hK, psi))
        x_psidd = add6(Gp, inertia_times(I, chi))
        bent = scale6(-0.5, add6(coriolis_times(hKw, psi), couple_alone(swung)))
        x_psi = add6(add6(Gz, cross_force(v, Gp)), add6(couple_alone(turned), bent))
        by_v = scale6(-0.5, add6(coriolis_times(hKw, s), couple_alone(bw)))
        phi = sub6(sub6(psidd, cross_motion(v, psi)), cross_motion(a, ds))
        x_ds = add6(
            cross_force(sub6(chi, cross_motion(w, ds)), f), cross_force(sub6(psi, cross_motion(v, ds)), zeta)
        )  # fmt: skip
        x_ds = add6(x_ds, cross_force(phi, p))
        swept, slid = cross_force(before, p), cross_force(slow, p)
        if tree.laden > 0:
            A, x, y, z_s = curved_load(tree, at + i, to, point, ws, m)
            x_chi, x_psidd, x_psi = add6(x_chi, x), add6(x_psidd, A), add6(x_psi, y)
            by_v, x_ds = add6(by_v, z_s), sub6(x_ds, loads_of(tree, ws).X[to])

        F, P, C, D = add6(m.F[to], x_chi), add6(m.P[to], x_psidd), add6(m.C[to], x_psi), add6(m.D[to], by_v)
        along_dv, by_q, by_v = sub6(C, swept), add6(cross_force(v, C), x_ds), sub6(D, slid)
        for u in range(units):
            unit_ds = m.unit_ds[unit + u]
            m.y[u] = (
                dot6(m.unit_dchi[unit + u], F) + dot6(m.unit_dpsidd[unit + u], P) + dot6(m.unit_dv[unit + u], along_dv)
                - dot6(unit_ds, by_q)
            )  # fmt: skip
            m.y_v[u] = dot6(m.unit_deta[unit + u], P) + dot6(unit_ds, along_dv)
            m.y_vv[u], m.y_a[u] = dot6(unit_ds, by_v), dot6(unit_ds, P)
        add_rates(tree, at, iv, i, units, m.L, m.y)
        add_rates(tree, at, iv, i, units, m.L_v, m.y_v)
        add_rates(tree, at, iv, i, units, m.L_vv, m.y_vv)
        add_rates(tree, at, iv, i, units, m.L_a, m.y_a)
        spread_row(tree, at, iv, n, m.y, iv, to, qq)
        spread_row(tree, at, iv, n, m.y_v, iv, to, qv)
        spread_row(tree, at, iv, n, m.y_vv, iv, to, vv)
        spread_row(tree, at, iv, n, m.y_a, iv, to, qa)

        m.F[to], m.P[to], m.C[to], m.D[to] = F, P, add6(C, cross_force(dv, p)), add6(D, Gp)
        ws.Y[to] = add6(ws.Y[to], inertia_times(I, s))
        m.V[to] = add6(m.V[to], add6(inertia_times(I, m.eta[at + i]), coriolis_times(hK, s)))
        m.bw[to] = add3(m.bw[to], bw)
        m.couple[to] = add3(m.couple[to], add3(cross3(angular(ds), angular(z)), sub3(turned, swung)))


@kernel
def curve_units(tree, b, k, ws, m):
    """L, L_v, L_vv, L_a := Hessians within the rod's k-th segment by its units, in the axes of its base.

    A column is a unit that q moves first, a row one of q, v, v and a; qq and vv are symmetric.
    """
    r, point = tree.rod[b], tree.first[tree.rod[b]] + k
    units = 2 * tree.modes[r]
    unit, R, o, v, w, a = tree.unit[r] + k * units, m.R[point - 1], m.p[point - 1], m.v[point], m.w[point], m.a[point]
    twist, rate, second, virtual = m.twist[point], m.rate[point], m.second[point], m.virtual[point]
    c, f, p = bend(tree.length[point]), m.f[point], m.pf[point]
    zeta = sub6(m.z[point], cross_force(v, p))
    held = add6(add6(cross_force(w, f), cross_force(v, zeta)), cross_force(a, p))
    if tree.laden > 0:
        held = sub6(held, loads_of(tree, ws).sG[point])
    f_seen, c_seen = seen_force(R, o, f), seen_force(R, o, scale6(-1.0, held))
    p_seen, z_seen = seen_force(R, o, p), seen_force(R, o, sub6(zeta, cross_force(m.v[point - 1], p)))

    omega, u, force = moving(twist, rate), moving(rate, second), pressing(p_seen, z_seen)
    factors = coefficients(omega)
    gradient, H = curved(omega, force, u, factors)
    K, Tp = transposed_slope(omega, force, factors), transposed(omega, force, factors)
    omega, u, force = moving(twist, still(twist)), moving(virtual, still(virtual)), pressing(f_seen, c_seen)
    factors = coefficients(omega)
    gradient_mu, H_mu = curved(omega, force, u, factors)
    K_mu, Tc = transposed_slope(omega, force, factors), transposed(omega, force, factors)

    g = add6(join(gradient[2], gradient[3]), add6(join(gradient_mu[0], gradient_mu[1]), join(Tc[2], Tc[3])))
    g_rate, g_second = add6(join(gradient[0], gradient[1]), join(Tp[2], Tp[3])), join(Tp[0], Tp[1])
    by_twist, by_twist_e = add9(H[2], H_mu[0]), add9(H[3], H_mu[1])
    by_rate, by_rate_e = add9(H[0], K[2]), add9(H[1], K[3])
    for i in range(units):
        Z, Zd, Zdd, Zmu = m.Z[unit + i], m.Zd[unit + i], m.Zdd[unit + i], m.Zmu[unit + i]
        x_Zdd, x_Zmu = slope_transposed_on(K[0], K[1], Z), slope_transposed_on(K_mu[0], K_mu[1], Z)
        folded = add6(slope_on(K[0], K[1], Z), x_Zdd)
        folded_rate = add6(slope_on(K[0], K[1], Zd), slope_transposed_on(K[0], K[1], Zd))
        x_Zd = add6(slope_transposed_on(by_rate, by_rate_e, Z), folded_rate)
        x_Z = add6(slope_on(by_twist, by_twist_e, Z), slope_transposed_on(K_mu[2], K_mu[3], Z))
        x_Z = add6(x_Z, add6(slope_on(by_rate, by_rate_e, Zd), slope_on(K[0], K[1], Zdd)))
        x_Z = add6(x_Z, slope_on(K_mu[0], K_mu[1], Zmu))
        for j in range(units):
            Zj, Zdj = m.Z[unit + j], m.Zd[unit + j]
            m.L[j, i] = (
                dot6(Zj, x_Z) + dot6(Zdj, x_Zd) + dot6(m.Zdd[unit + j], x_Zdd) + dot6(m.Zmu[unit + j], x_Zmu)
            )  # fmt: skip
            m.L_v[j, i] = dot6(Zj, x_Zd) + 2.0 * dot6(Zdj, x_Zdd)
            m.L_vv[j, i], m.L_a[j, i] = dot6(Zj, folded), dot6(Zj, x_Zdd)
    add_strained(tree, r, g, c, m.L)
    add_strained(tree, r, g_rate, c, m.L_v)
    add_strained(tree, r, g_second, 2.0 * c, m.L_vv)
    add_strained(tree, r, g_second, c, m.L_a)


@of_rods
def curve_rod(tree, b, ws, f, G, scale, first, out):
    """Add scale times the Hessian of f·w of the tip, and D_i s_j·G in rows i and columns j, from ``first`` on.

    f, G: wrenches that turn with the tip. That is qq without inertia and motion, with G beside -w⁺ ×* f.
    """
    m, r, n, iv = RodMemory(ws.rods, tree), tree.rod[b], tree.nj[b], tree.iv[b]
    units = 2 * tree.modes[r]
    for i in range(iv, iv + n):
        m.F[i] = m.C[i] = still(f)
    for k in range(tree.count[r] - 1, 0, -1):
        point = tree.first[r] + k
        at, unit, w = tree.column[r] + k * n, tree.unit[r] + k * units, m.w[point]
        R, o, twist, virtual = m.R[point - 1], m.p[point - 1], m.twist[point], m.virtual[point]
        held = scale6(scale, sub6(G, cross_force(w, f)))
        seen, c_seen = seen_force(R, o, scale6(scale, f)), seen_force(R, o, held)
        omega, u, force = moving(twist, still(twist)), moving(virtual, still(virtual)), pressing(seen, c_seen)
        factors = coefficients(omega)
        gradient, H = curved(omega, force, u, factors)
        K, T = transposed_slope(omega, force, factors), transposed(omega, force, factors)
        for i in range(units):
            Z = m.Z[unit + i]
            x_Zmu = slope_transposed_on(K[0], K[1], Z)
            x_Z = add6(slope_on(H[0], H[1], Z), slope_transposed_on(K[2], K[3], Z))
            x_Z = add6(x_Z, slope_on(K[0], K[1], m.Zmu[unit + i]))
            for j in range(units):
                m.L[j, i] = dot6(m.Z[unit + j], x_Z) + dot6(m.Zmu[unit + j], x_Zmu)
        add_strained(tree, r, add6(join(gradient[0], gradient[1]), join(T[2], T[3])), bend(tree.length[point]), m.L)
        for i in range(n):
            ds, chi = m.ds[at + i], m.chi[at + i]
            F = add6(m.F[iv + i], scale6(scale, cross_force(ds, f)))
            C = add6(m.C[iv + i], scale6(scale, cross_force(ds, G)))
            x_ds = sub6(scale6(scale, cross_force(sub6(chi, cross_motion(w, ds)), f)), C)
            m.F[iv + i], m.C[iv + i] = F, C
            for one in range(units):
                m.y[one] = dot6(m.unit_dchi[unit + one], F) - dot6(m.unit_ds[unit + one], x_ds)
            add_rates(tree, at, iv, i, units, m.L, m.y)
            spread_row(tree, at, iv, n, m.y, first, first + i, out)
