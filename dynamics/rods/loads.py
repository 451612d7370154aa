# mypy: allow-untyped-defs, allow-untyped-calls
"""Loads at points of rods and on bodies: their part in the recursions, once rigid_bodies/loads.py has seen them.

A load's wrench F is part of the force f of its point or body, by which it turns with it. Beyond that it varies with how
its place moves: by A, B and N with acceleration, velocity and pose,

    D_i F - s_i ×* F = A ψ''_i + B ψ'_i + N s_i          ∂F/∂v_i = A η_i + B s_i          ∂F/∂a_i = A s_i

so that A and B stand beside I and B of the inertia: B is ∂F/∂v - A [v ×], since the true rates of an acceleration are
ψ'' - v × ψ' and η - v × s. Under the velocity w of a multiplier, with p = Aᵀw, ζ = Bᵀw, S the second derivative of w·F
by (v, v) and, of loads that do not turn, G the wrench that their displacements meet and L the rest of their second
derivative,

    x_χ += A ψ'' + B ψ' + N s     x_ψ'' += A χ     x_ψ' += Bᵀχ + S ψ'     x_s = Nᵀχ + L s, and s_j·G turns with it

where ``hessian.py`` has the others. Composites, of rows ``points`` + b, are sums over all that body b carries.
"""

from ddp.compiling.kernel import inline, kernel
from ddp.machine.declared import each
from ddp.machine.fields import Fields, matrix_of, rows
from ddp.machine.memory import as_matrix
from dynamics.geometry.spatial import (
    add6,
    angular,
    cross_force,
    cross_motion,
    dot6,
    join,
    linear,
    scale3,
    scale6,
    sub6,
    times6,
    transposed_times6,
)
from dynamics.rods.memory import RodMemory, of_rods


class LoadMemory(Fields):
    """Loads of one knot, none of a tree without.

    laden: a row for each point, then for each body, of the point at a rod's tip that of its body.
      A, B, N, S, L (6, 6), row after row.   p, z, G: of a place; sp, sz, sG: with all beyond.
    carried: a row for each degree of freedom of a rod, sums over its points. Bs, Ns: Bᵀs, Nᵀs.   Z, V, X: of ζ, S, x_s.
    """

    A, B, N, S, L = each(5, matrix_of, "laden", "36")
    p, z, G, sp, sz, sG = each(6, rows, "laden", 6)
    Bs, Ns, Z, V, X = each(5, rows, "carried", 6)


@inline
def on(M, x):
    """M x of a matrix of 36 numbers."""
    return times6(as_matrix(M, 6, 6), x)


@inline
def back_on(M, y):
    """Mᵀ y."""
    return transposed_times6(as_matrix(M, 6, 6), y)


@inline
def loads_of(tree, ws):
    """The memory of loads."""
    return LoadMemory(RodMemory(ws.rods, tree).end, tree)


@kernel
def _add(of, to, L, second):
    """Rows of first, or of second order, of one place to another."""
    for l in range(36):
        if second:
            L.S[to, l] += L.S[of, l]
            L.L[to, l] += L.L[of, l]
        else:
            L.A[to, l] += L.A[of, l]
            L.B[to, l] += L.B[of, l]
            L.N[to, l] += L.N[of, l]
    if second:
        L.p[to], L.z[to], L.G[to] = add6(L.p[to], L.p[of]), add6(L.z[to], L.z[of]), add6(L.G[to], L.G[of])


@of_rods
def sum_loads(tree, ws, second):
    """Rows of bodies become those of all that they carry; at the tip of a rod, they are the point's."""
    if tree.laden == 0:
        return
    L = loads_of(tree, ws)
    for b in range(tree.nb - 1, -1, -1):
        own, parent = tree.points + b, tree.parent[b]
        if tree.rod[b] >= 0:
            base = tree.first[tree.rod[b]]
            last = base + tree.count[tree.rod[b]] - 1
            for l in range(36):
                if second:
                    L.S[last, l], L.L[last, l] = L.S[own, l], L.L[own, l]
                else:
                    L.A[last, l], L.B[last, l], L.N[last, l] = L.A[own, l], L.B[own, l], L.N[own, l]
            if second:
                L.p[last], L.z[last], L.G[last] = L.p[own], L.z[own], L.G[own]
                L.sp[last], L.sz[last], L.sG[last] = L.p[own], L.z[own], L.G[own]
                for k in range(last - 1, base, -1):
                    L.sp[k] = add6(L.sp[k + 1], L.p[k])
                    L.sz[k] = add6(L.sz[k + 1], L.z[k])
                    L.sG[k] = add6(L.sG[k + 1], L.G[k])
            if parent >= 0:
                for k in range(base + 1, last + 1):
                    _add(k, tree.points + parent, L, second)
        elif parent >= 0:
            _add(own, tree.points + parent, L, second)


@of_rods
def add_carried_loads(tree, ws, M, dq, dv):
    """Loads in M, ∂τ/∂q and ∂τ/∂v between the degrees of freedom of rods and those that carry them, and among these."""
    if tree.laden == 0:
        return
    L = loads_of(tree, ws)
    for i in range(tree.nv):
        b = tree.body[i]
        first = tree.iv[b]
        j = tree.previous[first]
        if tree.rod[b] >= 0:
            while j >= 0:
                dq[i, j] += dot6(L.Bs[i], ws.psi[j]) + dot6(L.Ns[i], ws.s[j])
                dv[i, j] += dot6(L.Bs[i], ws.s[j])
                j = tree.previous[j]
            continue
        A, B, N, s = L.A[tree.points + b], L.B[tree.points + b], L.N[tree.points + b], ws.s[i]
        F = add6(add6(on(A, ws.psidd[i]), on(B, ws.psi[i])), on(N, s))
        V, Y, Bs, Ns = add6(on(A, ws.eta[i]), on(B, s)), on(A, s), back_on(B, s), back_on(N, s)
        j = first + tree.nj[b] - 1
        while j >= 0:
            sj = ws.s[j]
            M[i, j] += dot6(Y, sj)
            dq[i, j] += dot6(Y, ws.psidd[j]) + dot6(Bs, ws.psi[j]) + dot6(Ns, sj)
            dv[i, j] += dot6(Y, ws.eta[j]) + dot6(Bs, sj)
            if tree.body[j] != b:
                M[j, i] += dot6(Y, sj)
                dq[j, i] += dot6(sj, F)
                dv[j, i] += dot6(sj, V)
            j = tree.previous[j]


@of_rods
def add_carried_curvature(tree, ws, qq, qv, vv, qa):
    """Loads in the Hessian between degrees of freedom of rods and those that carry them, and among these."""
    if tree.laden == 0:
        return
    L = loads_of(tree, ws)
    for i in range(tree.nv):
        b = tree.body[i]
        first, own, s, chi, psi = tree.iv[b], tree.points + b, ws.s[i], ws.chi[i], ws.psi[i]
        nothing = scale3(0.0, linear(s))
        Y = F = V = P = join(nothing, nothing)
        if tree.rod[b] >= 0:  # the others are in rows of the rod already
            Z, W, X = L.Z[i], L.V[i], L.X[i]
        else:
            A, B, N, S, p = L.A[own], L.B[own], L.N[own], L.S[own], L.p[own]
            F = add6(add6(on(A, ws.psidd[i]), on(B, psi)), on(N, s))
            V, Y = add6(on(A, ws.eta[i]), on(B, s)), on(A, s)
            P, W = add6(on(A, chi), cross_force(s, p)), add6(on(S, s), cross_force(s, p))
            Z = add6(add6(back_on(B, chi), cross_force(s, L.z[own])), add6(on(S, psi), cross_force(psi, p)))
            X = add6(back_on(N, chi), on(L.L[own], s))
            g = _held(tree, b, ws, p, L.z[own])
            for k in range(first, first + tree.nj[b]):
                sk, chik, psik = ws.s[k], ws.chi[k], ws.psi[k]
                bracket = cross_motion(s, sk)
                qq[k, i] += dot6(chik, F) + dot6(ws.psidd[k], P) + dot6(psik, Z) + dot6(sk, X) + dot6(bracket, g)
                qv[k, i] += dot6(chik, V) + dot6(psik, W)
                vv[k, i] += dot6(sk, W) + dot6(bracket, p)
                qa[k, i] += dot6(chik, Y)
            X = add6(X, cross_force(s, L.G[own]))
        j = tree.previous[first]
        while j >= 0:
            sj, chij, psij = ws.s[j], ws.chi[j], ws.psi[j]
            twice = dot6(chij, F) + dot6(ws.psidd[j], P) + dot6(psij, Z) + dot6(sj, X)
            qq[j, i] += twice
            qq[i, j] += twice
            vv[j, i] += dot6(sj, W)
            vv[i, j] += dot6(sj, W)
            qv[j, i] += dot6(chij, V) + dot6(psij, W)
            qv[i, j] += dot6(ws.eta[j], P) + dot6(sj, Z)
            qa[j, i] += dot6(chij, Y)
            qa[i, j] += dot6(sj, P)
            j = tree.previous[j]


@inline
def _held(tree, b, ws, p, z):
    """The wrench of brackets within a joint, see ``add_noncommuting_terms``."""
    parent, still = tree.parent[b], join(scale3(0.0, linear(p)), scale3(0.0, angular(p)))
    if parent < 0:
        return still
    v = ws.v[parent]
    return sub6(sub6(cross_force(v, cross_force(v, p)), cross_force(v, z)), cross_force(ws.a[parent], p))


# -- within a rod ----------------------------------------------------------------------------------------------------


@kernel
def rates_of_load(tree, at, i, k, ws, m):
    """A ψ'' + B ψ' + N s and A η + B s of column ``at`` at point k, of degree of freedom i; Bᵀs and Nᵀs, summed."""
    L, s, nothing = loads_of(tree, ws), m.s[at], scale6(0.0, m.s[at])
    by_q, by_v = nothing, nothing
    if tree.wet > 0:
        A, B = L.A[k], L.B[k]
        L.Bs[i] = add6(L.Bs[i], back_on(B, s))
        by_q, by_v = add6(on(A, m.psidd[at]), on(B, m.psi[at])), add6(on(A, m.eta[at]), on(B, s))
    if tree.steady > 0:
        N = L.N[k]
        L.Ns[i], by_q = add6(L.Ns[i], back_on(N, s)), add6(by_q, on(N, s))
    return by_q, by_v


@kernel
def curved_load(tree, at, i, k, ws, m):
    """Loads in x_ψ'', x_χ, x_ψ' and vv's of column ``at`` at point k, of degree of freedom i; sums Y, V, Z, V, X."""
    L, s, chi, ds = loads_of(tree, ws), m.s[at], m.chi[at], m.ds[at]
    nothing = scale6(0.0, s)
    x_psidd, x_chi, x_psi, by_v = nothing, nothing, nothing, nothing
    if tree.wet > 0:
        A, B, S, p, psi = L.A[k], L.B[k], L.S[k], L.p[k], m.psi[at]
        pushed = join(linear(L.sz[k]), scale3(0.0, linear(p)))
        x_psidd, x_chi = on(A, chi), add6(on(A, m.psidd[at]), on(B, psi))
        x_psi, by_v = add6(back_on(B, chi), on(S, psi)), on(S, s)
        ws.Y[i], m.V[i] = add6(ws.Y[i], on(A, s)), add6(m.V[i], add6(on(A, m.eta[at]), on(B, s)))
        L.Z[i] = add6(L.Z[i], add6(cross_force(ds, pushed), add6(x_psi, cross_force(psi, p))))
        L.V[i] = add6(L.V[i], add6(by_v, cross_force(s, p)))
    if tree.steady > 0:
        N = L.N[k]
        x_chi = add6(x_chi, on(N, s))
        x_s = add6(add6(back_on(N, chi), on(L.L[k], s)), cross_force(ds, L.sG[k]))
        L.X[i] = add6(L.X[i], x_s)
    return x_psidd, x_chi, x_psi, by_v
