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

and within the segment, in the axes of its base, with f̂, p̂ the sums, ζ̂ that of ζ - v ×* p, ĉ that of
-(w⁺ ×* f + v⁺ ×* ζ + a⁺ ×* p), the Hessian of f̂·T Ω_μ + ζ̂·T Ω' + p̂·(T Ω'' + T' Ω') plus ĉ·∂_i(T Z_j). By the two
hyper-dual functions F = (p̂ + δ ζ̂)·T u at (Ω + δ Ω', u = Ω' + δ Ω'') and F_μ = (f̂ + δ ĉ)·T u at (Ω, u = Ω_μ)

    ΩΩ = δ-part of F_ωω + F_μωω    ΩΩ' = F_ωω + δ-part of F_ωu    ΩΩ'' = F_ωu    Ω'Ω' = F_ωu + F_ωuᵀ    ΩΩ_μ = F_μωu

where parts that are not named are those without δ. To what carries the rod, P_i = Σ x_ψ'', b_w = Σ [B_wᵀs]_a and
Z_i = Σ δs_a × z + [Bᵀχ]_a - [B_wᵀψ']_a, and F_i = Σ x_χ; formulas between joints are those of rigid_bodies/hessian.py.
"""

from __future__ import annotations

from ddp.compiling.kernel import inline, kernel
from dynamics.geometry.spatial import (
    add3,
    add6,
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
from dynamics.rods.inverse import clear_block
from dynamics.rods.local_maps import (
    add9,
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
    m.pf[last], m.z[last] = momentum(ws.hKw[b]), ws.z[b]
    for k in range(last - 1, base, -1):
        m.pf[k] = add6(m.pf[k + 1], momentum(m.hKw[k]))
        m.z[k] = add3(m.z[k + 1], coriolis_transposed_times(m.hK[k], m.w[k]))
    if parent >= 0:
        wp = ws.w[parent]
        for k in range(base + 1, last + 1):
            operator, couple = momentum_operator(m.I[k], wp), coriolis_transposed_times(m.hK[k], wp)
            for l in range(12):
                ws.hKw[parent, l] += m.hKw[k, l] - operator[l]
            for l in range(3):
                ws.z[parent, l] -= couple[l]
        for l in range(3):
            ws.z[parent, l] += m.z[base + 1, l]


@of_rods
def hessian_of_rod(tree, b, ws, qq, qv, vv, qa):
    """Y, F, V, P, Z, b_w and the entries within the rod, after ``carry_rod_virtually``."""
    m, r, n, iv, at = RodMemory(ws.rods, tree), tree.rod[b], tree.nj[b], tree.iv[b], tree.column[tree.rod[b]]
    clear_block(iv, n, qq)
    clear_block(iv, n, qv)
    clear_block(iv, n, vv)
    clear_block(iv, n, qa)
    for i in range(iv, iv + n):
        nothing = still(ws.s[i])
        none = angular(nothing)
        ws.Y[i] = m.F[i] = m.V[i] = m.P[i] = nothing
        m.couple[i] = m.bw[i] = none
    for k in range(tree.first[r] + 1, tree.first[r] + tree.count[r]):
        at += n
        add_curvature_of_point(tree, b, k, at, ws, m, qq, qv, vv, qa)
        add_curvature_of_segment(tree, b, k, at, m, qq, qv, vv, qa)


@inline
def couple_alone(n):
    """A wrench of a couple without force."""
    return join(scale3(0.0, n), n)


@kernel
def add_curvature_of_point(tree, b, k, at, ws, m, qq, qv, vv, qa):
    """Terms in world axes of point k and the segment that it ends, whose columns begin at ``at``."""
    n, iv, I, hK, hKw, v, w, a = tree.nj[b], tree.iv[b], m.I[k], m.hK[k], m.hKw[k], m.v[k], m.w[k], m.a[k]
    f, p, z = m.f[k], m.pf[k], m.z[k]
    zeta = sub6(couple_alone(z), cross_force(v, p))
    for i in range(n):
        s, ds, psi, psidd, chi = m.s[at + i], m.ds[at + i], m.psi[at + i], m.psidd[at + i], m.chi[at + i]
        before, slow, dv = m.psi[at - n + i], m.s[at - n + i], m.dv[at + i]
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
        Gv, swept, slid = cross_force(dv, p), cross_force(before, p), cross_force(slow, p)
        for j in range(n):
            sj, dsj, psij, barj, slowj = m.s[at + j], m.ds[at + j], m.psi[at + j], m.psi[at - n + j], m.s[at - n + j]
            along = dot6(dsj, swept)
            qq[iv + j, iv + i] += (
                dot6(m.chi[at + j], x_chi) + dot6(m.psidd[at + j], x_psidd) + dot6(psij, x_psi) - dot6(dsj, x_ds)
                + dot6(barj, Gv) - dot6(m.dv[at + j], swept)
            )  # fmt: skip
            qv[iv + i, iv + j] += dot6(m.eta[at + j], x_psidd) + dot6(sj, x_psi) + dot6(slowj, Gv) - along
            vv[iv + i, iv + j] += dot6(slowj, Gp) - dot6(dsj, slid) + dot6(sj, by_v)
            qa[iv + i, iv + j] += dot6(sj, x_psidd)
        at_i = iv + i
        ws.Y[at_i], m.F[at_i] = add6(ws.Y[at_i], inertia_times(I, s)), add6(m.F[at_i], x_chi)
        m.V[at_i] = add6(m.V[at_i], add6(inertia_times(I, m.eta[at + i]), coriolis_times(hK, s)))
        m.P[at_i], m.bw[at_i] = add6(m.P[at_i], x_psidd), add3(m.bw[at_i], bw)
        m.couple[at_i] = add3(m.couple[at_i], add3(cross3(angular(ds), z), sub3(turned, swung)))


@kernel
def add_curvature_of_segment(tree, b, k, at, m, qq, qv, vv, qa):
    """Terms within the segment that ends at point k, in the axes of its base."""
    n, iv, R, o, v, w, a = tree.nj[b], tree.iv[b], m.R[k - 1], m.p[k - 1], m.v[k], m.w[k], m.a[k]
    c, twist, rate, second, virtual = bend(tree.length[k]), m.twist[k], m.rate[k], m.second[k], m.virtual[k]
    f, p = m.f[k], m.pf[k]
    zeta = sub6(couple_alone(m.z[k]), cross_force(v, p))
    held = add6(add6(cross_force(w, f), cross_force(v, zeta)), cross_force(a, p))
    f_seen, c_seen = seen_force(R, o, f), seen_force(R, o, scale6(-1.0, held))
    p_seen, z_seen = seen_force(R, o, p), seen_force(R, o, sub6(zeta, cross_force(m.v[k - 1], p)))

    omega, u, force = moving(twist, rate), moving(rate, second), pressing(p_seen, z_seen)
    factors = coefficients(omega)
    gradient, H = curved(omega, force, u, factors)
    K, Tp = transposed_slope(omega, force, factors), transposed(omega, force, factors)
    omega, u, force = moving(twist, still(twist)), moving(virtual, still(virtual)), pressing(f_seen, c_seen)
    factors = coefficients(omega)
    gradient_mu, H_mu = curved(omega, force, u, factors)
    K_mu, Tc = transposed_slope(omega, force, factors), transposed(omega, force, factors)

    g = add6(join(gradient[2], gradient[3]), add6(join(gradient_mu[0], gradient_mu[1]), join(Tc[2], Tc[3])))
    g_rate = scale6(c, add6(join(gradient[0], gradient[1]), join(Tp[2], Tp[3])))
    g_twist, g_second = scale6(c, g), scale6(c, join(Tp[0], Tp[1]))
    by_twist, by_twist_e = add9(H[2], H_mu[0]), add9(H[3], H_mu[1])
    by_rate, by_rate_e = add9(H[0], K[2]), add9(H[1], K[3])
    for i in range(n):
        phi1, phi2 = tree.basis[2 * (at + i)], tree.basis[2 * (at + i) + 1]
        Z, Zd, Zdd, Zmu = m.Z[at + i], m.Zd[at + i], m.Zdd[at + i], m.Zmu[at + i]
        x_Zdd, x_Zmu = slope_transposed_on(K[0], K[1], Z), slope_transposed_on(K_mu[0], K_mu[1], Z)
        folded = add6(slope_on(K[0], K[1], Z), x_Zdd)
        folded_rate = add6(slope_on(K[0], K[1], Zd), slope_transposed_on(K[0], K[1], Zd))
        x_Zd = add6(slope_transposed_on(by_rate, by_rate_e, Z), folded_rate)
        x_Z = add6(slope_on(by_twist, by_twist_e, Z), slope_transposed_on(K_mu[2], K_mu[3], Z))
        x_Z = add6(x_Z, add6(slope_on(by_rate, by_rate_e, Zd), slope_on(K[0], K[1], Zdd)))
        x_Z = add6(x_Z, slope_on(K_mu[0], K_mu[1], Zmu))
        q1, q2 = cross_force(phi1, g_twist), cross_force(phi2, g_twist)
        v1, v2 = cross_force(phi1, g_rate), cross_force(phi2, g_rate)
        a1, a2 = cross_force(phi1, g_second), cross_force(phi2, g_second)
        for j in range(n):
            phi1j, phi2j, Zj, Zdj = tree.basis[2 * (at + j)], tree.basis[2 * (at + j) + 1], m.Z[at + j], m.Zd[at + j]
            strained = dot6(phi1j, a2) - dot6(phi2j, a1)
            qq[iv + j, iv + i] += (
                dot6(Zj, x_Z) + dot6(Zdj, x_Zd) + dot6(m.Zdd[at + j], x_Zdd) + dot6(m.Zmu[at + j], x_Zmu)
                + dot6(phi1j, q2) - dot6(phi2j, q1)
            )  # fmt: skip
            qv[iv + i, iv + j] += dot6(Zj, x_Zd) + 2.0 * dot6(Zdj, x_Zdd) + dot6(phi1j, v2) - dot6(phi2j, v1)
            vv[iv + i, iv + j] += dot6(Zj, folded) + 2.0 * strained
            qa[iv + i, iv + j] += dot6(Zj, x_Zdd) + strained
