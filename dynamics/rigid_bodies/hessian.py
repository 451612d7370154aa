# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-subclassing-any
"""Second derivatives of μᵀ ID(q, v, a), contracted: one forward and one backward sweep, no tensor.

The scalar μᵀ ID is the power of the force distribution against the velocity field w that μ would generate
(Nganga & Wensing 2021, "modified RNEA"); its derivatives need O(n d) terms.
"""

from ddp.compiling.kernel import apart, inline, kernel
from dynamics.geometry.spatial import (
    add3,
    add6,
    angular,
    coriolis_times,
    coriolis_transposed_times,
    cross3,
    cross_force,
    cross_motion,
    dot3,
    dot6,
    inertia_times,
    join,
    linear,
    momentum,
    momentum_operator,
    rotate_back,
    rotate_back6,
    scale6,
    sub3,
    sub6,
    symmetric_times,
)
from dynamics.rigid_bodies.bodies import is_free
from dynamics.rigid_bodies.inverse import felt_at_root, pull
from dynamics.rigid_bodies.kinematics import virtual_twists
from dynamics.rods.hessian import carry_rod_virtually, hessian_of_rod
from dynamics.rods.memory import RodMemory, by_rods, has_rod


@kernel
def virtual_velocities(tree, mu, ws):
    """w = w_p + s μ and χ = w_p × s; composites of (h, K)_w of (I, w) and of z = [B(v)ᵀ w]_a.

    Both are linear in w: a joint's part δ = Σ s μ of it moves all it carries, so that composites are enough,
    (h, K)_w = K(Iᶜ, w_p) + Σ K(Iᶜ_l, δ_l) and z = Bᶜᵀ w_p + Σ Bᶜ_lᵀ δ_l over the joint and those behind it.
    """
    virtual_twists(tree, mu, ws)
    for b in range(tree.nb):
        for k in range(12):
            ws.hKw[b, k] = 0.0
        for k in range(3):
            ws.z[b, k] = 0.0
    for b in range(tree.nb - 1, -1, -1):
        if has_rod(tree, b):
            carry_rod_virtually(tree, b, ws)
            continue
        parent, first, I, hK = tree.parent[b], tree.iv[b], ws.Ic[b], ws.hKc[b]
        moved = scale6(mu[first], ws.s[first])
        for i in range(first + 1, first + tree.nj[b]):
            moved = add6(moved, scale6(mu[i], ws.s[i]))
        carried, couple = momentum_operator(I, moved), coriolis_transposed_times(hK, moved)
        for k in range(12):
            ws.hKw[b, k] += carried[k]
        for k in range(3):
            ws.z[b, k] += couple[k]
        if parent >= 0:
            wp = ws.w[parent]
            carried, couple = momentum_operator(I, wp), coriolis_transposed_times(hK, wp)
            for k in range(12):
                ws.hKw[parent, k] += ws.hKw[b, k]
                ws.hKw[b, k] += carried[k]
            for k in range(3):
                ws.z[parent, k] += ws.z[b, k]
                ws.z[b, k] += couple[k]


@kernel
def inverse_dynamics_hessian(tree, ws, qq, qv, vv, qa):
    """Hessian of μᵀ ID: qq (iterated: row first derivative, column second), qv, vv, qa; the others vanish.

    Needs composites Ic, f, hKc, hKw, z. With virtual momentum pf = (h_w ; vee K_w) and, for i,
      Y = I s    F = s ×* f + I ψ'' + B ψ'    V = I η + B s    P = s ×* pf + I χ
      Z = s_a × z + [Bᵀχ]_a - [B_wᵀψ']_a      b_w = [B_wᵀ s]_a
    for every j on the path from i to the root
      qq_ji = χ_j·F_i + ψ''_j·P_i + ψ'_ja·Z_i    vv_ji = -s_ja·b_wi
      qv_ji = χ_j·V_i - ψ'_ja·b_wi               qv_ij = η_j·P_i + s_ja·Z_i
      qa_ji = χ_j·Y_i                            qa_ij = s_j·P_i
    and within one joint the same without the last of each line's pair, plus the terms of motions that do not commute.
    Entries between unrelated degrees of freedom are not written: the matrices must come in as zeros.
    """
    for i in range(tree.nv):
        b = tree.body[i]
        first = tree.iv[b]
        if has_rod(tree, b) and i == first:
            hessian_of_rod(tree, b, ws, qq, qv, vv, qa)
        if is_free(tree, b):
            if i == first:
                floating_hessian(tree, ws, b, qq, qv, vv, qa)
            continue
        Y, F, V, P, Z, bw = felt_twice_by_carriers(tree, i, ws)
        if not has_rod(tree, b):
            for j in range(first, first + tree.nj[b]):
                sj, chij, psij, psiddj = ws.s[j], ws.chi[j], angular(ws.psi[j]), ws.psidd[j]
                qq[j, i] = dot6(chij, F) + dot6(psiddj, P) + dot3(psij, Z)
                qv[j, i] = dot6(chij, V) - dot3(psij, bw)
                vv[j, i] = -dot3(angular(sj), bw)
                qa[j, i] = dot6(chij, Y)
            if tree.nj[b] > 1:
                add_noncommuting_terms(tree, ws, i, momentum(ws.hKw[b]), ws.z[b], qq, vv)
        j = tree.previous[first]
        while j >= 0 and not is_free(tree, tree.body[j]):
            sj, chij, psij = ws.s[j], ws.chi[j], angular(ws.psi[j])
            qq[j, i] = qq[i, j] = dot6(chij, F) + dot6(ws.psidd[j], P) + dot3(psij, Z)
            vv[j, i] = vv[i, j] = -dot3(angular(sj), bw)
            qv[j, i] = dot6(chij, V) - dot3(psij, bw)
            qv[i, j] = dot6(ws.eta[j], P) + dot3(angular(sj), Z)
            qa[j, i] = dot6(chij, Y)
            qa[i, j] = dot6(sj, P)
            j = tree.previous[j]
        if j >= 0:
            root = tree.body[j]
            R, before = ws.R[root], tree.iv[root]
            by_q, by_v = felt_at_root(tree, R, ws.v[root], P, Z)
            by_a, by_w = rotate_back6(R, P), rotate_back(R, bw)
            for k in range(6):
                j = before + k
                qq[j, i] = qq[i, j] = by_q[k]
                qv[i, j], qa[i, j] = by_v[k], by_a[k]
                vv[j, i] = vv[i, j] = qv[j, i] = qa[j, i] = 0.0
            for k in range(3):
                vv[before + 3 + k, i] = vv[i, before + 3 + k] = -by_w[k]


def felt_twice_by_carriers(tree, i, ws):
    """Y, F, V, P, Z, b_w of i: by these it enters the second derivatives by the degrees of freedom that carry it."""


@inline
def _felt_of_joint(tree, i, ws):
    b = tree.body[i]
    s, psi, chi, z = ws.s[i], ws.psi[i], ws.chi[i], ws.z[b]
    I, hK, hKw = ws.Ic[b], ws.hKc[b], ws.hKw[b]
    F = add6(add6(cross_force(s, ws.f[b]), inertia_times(I, ws.psidd[i])), coriolis_times(hK, psi))
    V = add6(inertia_times(I, ws.eta[i]), coriolis_times(hK, s))
    P = add6(cross_force(s, momentum(hKw)), inertia_times(I, chi))
    Z = sub3(add3(cross3(angular(s), z), coriolis_transposed_times(hK, chi)), coriolis_transposed_times(hKw, psi))
    return inertia_times(I, s), F, V, P, Z, coriolis_transposed_times(hKw, s)


@inline
def _felt_of_any(tree, i, ws):
    if tree.rod[tree.body[i]] >= 0:
        m = RodMemory(ws.rods, tree)
        return ws.Y[i], m.F[i], m.V[i], m.P[i], m.couple[i], m.bw[i]
    return _felt_of_joint(tree, i, ws)


by_rods(felt_twice_by_carriers, _felt_of_joint, _felt_of_any)


@apart
def floating_hessian(tree, ws, b, qq, qv, vv, qa):
    """Entries within a free-flyer on the world, along the root's axes, where χ = ψ' = 0: blocks [linear, angular]

    qq = [[0, 0], [0, (g·h) 1 - g hᵀ]]    vv = [[0, [h]×], [-[h]×, -½ (G + Gᵀ)]]    qv = qa = 0

    with gravity g, and h and G of the composite (2h, G)_w.
    """
    R, hKw, first, gravity = ws.R[b], ws.hKw[b], tree.iv[b], tree.gravity
    g, h = rotate_back(R, (gravity[0], gravity[1], gravity[2])), rotate_back(R, linear(momentum(hKw)))
    zero, along = 0.0 * h[0], dot3(g, h)
    across = (zero, -h[2], h[1], h[2], zero, -h[0], -h[1], h[0], zero)
    both = (
        -hKw[3], -0.5 * (hKw[4] + hKw[6]), -0.5 * (hKw[5] + hKw[9]), -hKw[7], -0.5 * (hKw[8] + hKw[10]), -hKw[11]
    )  # fmt: skip
    for i in range(first, first + 6):
        for j in range(first, first + 6):
            qq[i, j] = vv[i, j] = qv[i, j] = qa[i, j] = zero
    for k in range(3):
        turned, i = rotate_back(R, symmetric_times(both, (R[k], R[3 + k], R[6 + k]))), first + 3 + k
        for l in range(3):
            qq[i, first + 3 + l] = -g[k] * h[l]
            vv[i, first + 3 + l] = turned[l]
            vv[i, first + l] = vv[first + l, i] = -across[3 * k + l]
        qq[i, i] += along


@apart
def add_noncommuting_terms(tree, ws, i, pf, z, qq, vv):
    """Within one joint of several degrees of freedom: qq_ji += (s_i × s_j)·g, vv_ji += (s_i × s_j)·pf.

    g = v_p ×* (v_p ×* pf) - w_p ×* f - a_p ×* pf - v_p ×* (0; z) with v_p, w_p, a_p of the parent body.
    """
    b = tree.body[i]
    parent = tree.parent[b]
    f = ws.f[b]
    if parent >= 0:
        v, w, a = ws.v[parent], ws.w[parent], ws.a[parent]
        g = cross_force(v, sub6(cross_force(v, pf), join((0.0 * z[0], 0.0 * z[1], 0.0 * z[2]), z)))
        g = sub6(sub6(g, cross_force(w, f)), cross_force(a, pf))
    else:
        g = pull(tree, pf)
    si = ws.s[i]
    for j in range(tree.iv[b], tree.iv[b] + tree.nj[b]):
        bracket = cross_motion(si, ws.s[j])
        qq[j, i] += dot6(bracket, g)
        vv[j, i] += dot6(bracket, pf)
