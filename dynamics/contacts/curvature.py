# mypy: allow-untyped-defs, allow-untyped-calls
"""Torques of contact forces to first order, and the second order of L = νᵀ c(q, v, a) - fᵀ J(q) μ.

c is what must vanish at contacts (kinematics.py), J μ the velocities that μ gives them. For points, summed over all
contacts that a body carries, with F = Σ ν, N = Σ p νᵀ, Q = Σ u νᵀ and the same with gains,

    g_k = Σ P(s_k) × ν     x_k = 2 Σ D_k u × ν     y_k = Σ D_k c × ν     z_k = Σ D_vk c × ν
    L_qk,qj = s_ja·y_k + ψ''_ja·g_k + ψ'_ja·x_k - χ_ja·Σ P(s_k) × f        L_vk,qj = s_ja·z_k + 2 ψ'_ja·g_k
    L_qk,vj = η_ja·g_k + s_ja·x_k         L_vk,vj = 2 s_ja·g_k            L_qk,aj = L_ak,qj = s_ja·g_k

for j on the way from k to the root. For surfaces, motions in the frame's own axes, ``n·(m ×* f) = -f·(m × n)``.
"""

from ddp.compiling.kernel import apart, inline, kernel
from ddp.machine.memory import as_vector
from dynamics.contacts.contact import POINT, ROLLING, SURFACE
from dynamics.contacts.rolling import add_roll_curvature, couple_roll, subtract_roll_torques
from dynamics.geometry.lie import jlog6, log6_hessian
from dynamics.geometry.spatial import (
    add3,
    add6,
    angular,
    couple_rate,
    cross3,
    cross_force,
    cross_motion,
    dot3,
    dot6,
    linear,
    load3_at,
    load6_at,
    load9_at,
    matrix_rate,
    part3,
    part6,
    scale3,
    scale6,
    seen_motion,
    store_at,
    sub3,
    sub6,
    times6,
    transposed_times6,
    velocity_at,
)
from dynamics.rigid_bodies.kinematics import clear, sum_over_subtrees


@inline
def add_outer(A, i, k, scale, x, f):
    """Row i from column k += scale x fᵀ."""
    for a in range(3):
        for b in range(3):
            A[i, k + 3 * a + b] += scale * x[a] * f[b]


@inline
def add_vector(A, i, k, scale, f):
    """Row i from column k += scale f."""
    for a in range(3):
        A[i, k + a] += scale * f[a]


@kernel
def sum_forces(tree, contacts, place, f):
    """place.force := Σ f, Σ p fᵀ of points over subtrees."""
    clear(as_vector(place.force), 12 * tree.nb)
    for i in range(contacts.count):
        if contacts.kind[i] == POINT:
            b, force = contacts.body[i], part3(f, contacts.row[i])
            add_vector(place.force, b, 0, 1.0, force)
            add_outer(place.force, b, 3, 1.0, place.p[i], force)
    sum_over_subtrees(tree, place.force)


@kernel
def subtract_force_torques(tree, contacts, ws, place, f, dq):
    """dq (nv, nv) -= ∂(Jᵀ f)/∂q."""
    sum_forces(tree, contacts, place, f)
    for k in range(tree.nv):
        b = tree.body[k]
        g = couple_rate(load3_at(place.force, b, 0), load9_at(place.force, b, 3), ws.s[k])
        j = tree.iv[b] + tree.nj[b] - 1
        while j >= 0:
            value = dot3(angular(ws.s[j]), g)
            dq[k, j] -= value
            if tree.body[j] != b:
                dq[j, k] -= value
            j = tree.previous[j]
    for i in range(contacts.count):
        if contacts.kind[i] == ROLLING:
            subtract_roll_torques(tree, contacts, i, ws, place, f, dq)
        elif contacts.kind[i] == SURFACE:
            b, R, p, force = contacts.body[i], place.R[i], place.p[i], part6(f, contacts.row[i])
            k = tree.iv[b] + tree.nj[b] - 1
            while k >= 0:
                Jk = seen_motion(R, p, ws.s[k])
                j = tree.previous[tree.iv[tree.body[k]]]
                while j >= 0:
                    dq[j, k] -= dot6(force, cross_motion(seen_motion(R, p, ws.s[j]), Jk))
                    j = tree.previous[j]
                k = tree.previous[k]


@kernel
def couple_forces(tree, contacts, ws, place, nc, Ryz):
    """Columns nv... of Ryz (nv, nv + nc) := -D_q (J μ), by the forces; needs w, χ of ``virtual_velocities``."""
    first = tree.nv
    for k in range(tree.nv):
        for r in range(first, first + nc):
            Ryz[k, r] = 0.0
    for i in range(contacts.count):
        b, r = contacts.body[i], first + contacts.row[i]
        R, p = place.R[i], place.p[i]
        Pw = velocity_at(p, ws.w[b])
        if contacts.kind[i] == ROLLING:
            couple_roll(tree, contacts, i, ws, place, Ryz)
            continue
        k = tree.iv[b] + tree.nj[b] - 1
        while k >= 0:
            chi = ws.chi[k]
            if contacts.kind[i] == POINT:
                moved = add3(cross3(angular(ws.s[k]), Pw), velocity_at(p, chi))
                for a in range(3):
                    Ryz[k, r + a] = -moved[a]
            else:
                turned = seen_motion(R, p, chi)
                for a in range(6):
                    Ryz[k, r + a] = -turned[a]
            k = tree.previous[k]


@kernel
def sum_duals(tree, contacts, ws, place, nu, f):
    """place.dual := sums over subtrees for points: Σ ν, Σ kd ν, Σ kp ν, Σ p νᵀ, Σ (2 u + kd p) νᵀ and

    Σ (c + kd u + kp p) νᵀ - P(w) fᵀ, where ν stands for ka ν and gains for themselves over ka.
    """
    clear(as_vector(place.dual), 36 * tree.nb)
    for i in range(contacts.count):
        if contacts.kind[i] == POINT:
            b = contacts.body[i]
            ka, kd, kp = contacts.gains[i, 0], contacts.gains[i, 1], contacts.gains[i, 2]
            n, force = part3(nu, contacts.row[i]), part3(f, contacts.row[i])
            p, u, c = place.p[i], place.u[i], place.c[i]
            add_vector(place.dual, b, 0, ka, n)
            add_vector(place.dual, b, 3, kd, n)
            add_vector(place.dual, b, 6, kp, n)
            add_outer(place.dual, b, 9, ka, p, n)
            add_outer(place.dual, b, 18, 1.0, add3(scale3(2.0 * ka, u), scale3(kd, p)), n)
            add_outer(place.dual, b, 27, 1.0, add3(scale3(ka, c), add3(scale3(kd, u), scale3(kp, p))), n)
            add_outer(place.dual, b, 27, -1.0, velocity_at(p, ws.w[b]), force)
    sum_over_subtrees(tree, place.dual)


@kernel
def add_contact_curvature(tree, contacts, ws, place, nu, f, qq, qv, vv, qa):
    """Add the second order of L to blocks (nv, nv), qq iterated: row first derivative, column second.

    Needs the motions of ``move_contacts``, ψ', ψ'', η, w and χ.
    """
    sum_forces(tree, contacts, place, f)
    sum_duals(tree, contacts, ws, place, nu, f)
    for k in range(tree.nv):
        b = tree.body[k]
        s, psi, chi = ws.s[k], ws.psi[k], ws.chi[k]
        F, Fd, Fp = load3_at(place.dual, b, 0), load3_at(place.dual, b, 3), load3_at(place.dual, b, 6)
        N, Q, C = load9_at(place.dual, b, 9), load9_at(place.dual, b, 18), load9_at(place.dual, b, 27)
        force, moment = load3_at(place.force, b, 0), load9_at(place.force, b, 3)
        moved = add3(matrix_rate(Q, angular(s)), cross3(linear(s), Fd))
        g, gf = couple_rate(F, N, s), couple_rate(force, moment, s)
        x = add3(scale3(2.0, couple_rate(F, N, psi)), moved)
        y = add3(matrix_rate(C, angular(s)), cross3(linear(s), Fp))
        y = add3(y, add3(matrix_rate(Q, angular(psi)), cross3(linear(psi), Fd)))
        y = sub3(add3(y, couple_rate(F, N, ws.psidd[k])), couple_rate(force, moment, chi))
        z = add3(couple_rate(F, N, ws.eta[k]), moved)
        j = tree.iv[b] + tree.nj[b] - 1
        while j >= 0:
            sj, psij, eta = angular(ws.s[j]), angular(ws.psi[j]), angular(ws.eta[j])
            value = dot3(sj, y) + dot3(angular(ws.psidd[j]), g) + dot3(psij, x)
            value, turned = value - dot3(angular(ws.chi[j]), gf), dot3(sj, g)
            twice = turned if tree.body[j] == b else 2.0 * turned
            qq[k, j] += value
            qv[j, k] += dot3(sj, z) + 2.0 * dot3(psij, g)
            vv[j, k] += twice
            vv[k, j] += twice
            qa[j, k] += turned
            if tree.body[j] != b:
                qq[j, k] += value
                qv[k, j] += dot3(eta, g) + dot3(sj, x)
                qa[k, j] += turned
            j = tree.previous[j]
    for i in range(contacts.count):
        if contacts.kind[i] == ROLLING:
            add_roll_curvature(tree, contacts, i, ws, place, nu, f, qq, qv, qa)
        elif contacts.kind[i] == SURFACE:
            add_surface_curvature(tree, contacts, i, ws, place, nu, f, qq, qv, vv, qa)


@apart
def add_surface_curvature(tree, contacts, i, ws, place, nu, f, qq, qv, vv, qa):
    """Add the second order of one surface, for j on the way from k to the root, contracted with ν, κ = V ×* ν and f,

    D_j D_k A = G_j × J_k + E_j × E_k - V × (E_j × J_k)       D_j D_vk A = E_j × J_k
    D_vj D_k A = H_j × J_k + J_j × E_k - V × (J_j × J_k)      D_vj D_vk A = D_k D_aj A = J_j × J_k

    the last line, and everything by q_k of motions of j, for strict ancestors alone.
    """
    b, r = contacts.body[i], contacts.row[i]
    ka, kd, kp = contacts.gains[i, 0], contacts.gains[i, 1], contacts.gains[i, 2]
    R, p, V = place.R[i], place.p[i], place.V[i]
    n, force = part6(nu, r), part6(f, r)
    kappa = scale6(ka, cross_force(V, n))
    gravity = part6(tree.gravity, 0)
    if kp != 0.0:
        jlog6(place.error[i], place.Jlog)
        log6_hessian(place.error[i], n, place.curved)
    column = place.column
    k = tree.iv[b] + tree.nj[b] - 1
    while k >= 0:
        s = ws.s[k]
        store_at(column, k, 0, seen_motion(R, p, s))
        store_at(column, k, 6, seen_motion(R, p, ws.psi[k]))
        store_at(column, k, 12, seen_motion(R, p, add6(ws.psidd[k], cross_motion(gravity, s))))
        store_at(column, k, 18, seen_motion(R, p, ws.eta[k]))
        store_at(column, k, 24, seen_motion(R, p, ws.chi[k]))
        k = tree.previous[k]
    j = tree.iv[b] + tree.nj[b] - 1
    while j >= 0:
        J, E, G = load6_at(column, j, 0), load6_at(column, j, 6), load6_at(column, j, 12)
        H, X = load6_at(column, j, 18), load6_at(column, j, 24)
        Jn, En = cross_force(J, n), cross_force(E, n)
        on_J = add6(scale6(ka, cross_force(G, n)), add6(cross_force(E, kappa), scale6(kd, En)))
        on_J = sub6(on_J, cross_force(X, force))
        by_v = add6(scale6(ka, cross_force(H, n)), add6(cross_force(J, kappa), scale6(kd, Jn)))
        if kp != 0.0:
            pull = scale6(kp, transposed_times6(place.Jlog, n))
            on_J = add6(on_J, sub6(scale6(0.5, cross_force(J, pull)), scale6(kp, times6(place.curved, J))))
        k = tree.iv[b] + tree.nj[b] - 1
        while k >= 0 and k >= tree.iv[tree.body[j]]:
            Jk, Ek = load6_at(column, k, 0), load6_at(column, k, 6)
            value = -dot6(Jk, on_J) - ka * dot6(Ek, En)
            qq[k, j] += value
            qv[j, k] -= ka * dot6(Jk, En)
            if tree.body[k] != tree.body[j]:
                turned = ka * dot6(Jk, Jn)
                qq[j, k] += value
                qv[k, j] -= dot6(Jk, by_v) + ka * dot6(Ek, Jn)
                vv[j, k] -= turned
                vv[k, j] -= turned
                qa[k, j] -= turned
            k = tree.previous[k]
        j = tree.previous[j]
