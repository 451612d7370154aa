# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-subclassing-any
"""The second derivatives of inverse dynamics as tensors: IDSVA-SO (Singh et al., Algorithm 1 and Appendix B).

The matrices A_0..A_7 of the algorithm are applied, never formed: ``f ×̄* x`` is ``x ×* f``, and the Coriolis operators
are the twelve numbers of spatial.py. Names u1..u12 are the algorithm's; dofs p, t, r stand on joints i, j, k. Those of
them that are couples, u1, u8 and u11, are kept as three numbers.

Most entries come in twos that are equal, and entries between unrelated degrees of freedom are zero. What differs is
computed into ``values``, SLOTS numbers for each triple (p, t, r) on one path, and tensor_entries.py says where in it
each entry of a tensor is found.

Tensors of robots with rods are made of the Hessians of each torque alone (`rigid_body._by_torques`): of rigid ones,
for forward dynamics, that takes 0.8 (talos), 1.3 (hyq), 2.1 to 2.4 (ur5) times as long.
"""

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
    dot3,
    dot6,
    inertia_times,
    join,
    linear,
    momentum_operator,
    scale3,
    scale6,
    sub3,
    sub6,
    symmetric_times,
)
from dynamics.rigid_bodies.tensor_entries import SLOTS


@inline
def inertia_rate(hKs):
    """The rate of I when its body moves along s, from the operator of (I, s): c' = h (3,) and tr(J') 1 - J' (6,)."""
    h, G = scale3(0.5, (hKs[0], hKs[1], hKs[2])), hKs[3:]
    return (*h, G[0], 0.5 * (G[1] + G[3]), 0.5 * (G[2] + G[6]), G[4], 0.5 * (G[5] + G[7]), G[8])


@inline
def inertia_rate_times(rate, x):
    """A_1 x = s ×* I x - I (s × x) = (x_a × c' ; (tr(J') 1 - J') x_a + c' × x_l)."""
    c, xa = (rate[0], rate[1], rate[2]), angular(x)
    return join(cross3(xa, c), add3(symmetric_times(rate[3:], xa), cross3(c, linear(x))))


@inline
def operator_rate(s, hK, hKpsi):
    """(2h, G) of A_3 x = B(ψ') x + s ×* B x - B (s × x): the rate of B when its body moves along s.

    h' = s_a × h + h(ψ') and G' = s_a × G - G s_a × + 2 (h·s_l 1 - h s_lᵀ) + G(ψ').
    """
    sl, sa, h = linear(s), angular(s), (hK[0], hK[1], hK[2])
    x, y, z = (hK[3], hK[6], hK[9]), (hK[4], hK[7], hK[10]), (hK[5], hK[8], hK[11])  # columns of G
    along = dot3(h, sl)
    u = sub3(cross3(sa, x), sub3(scale3(sa[2], y), scale3(sa[1], z)))
    v = sub3(cross3(sa, y), sub3(scale3(sa[0], z), scale3(sa[2], x)))
    w = sub3(cross3(sa, z), sub3(scale3(sa[1], x), scale3(sa[0], y)))
    u, v, w = sub3(u, scale3(sl[0], h)), sub3(v, scale3(sl[1], h)), sub3(w, scale3(sl[2], h))
    k, n = hKpsi, cross3(sa, h)
    return (
        n[0] + k[0], n[1] + k[1], n[2] + k[2],
        u[0] + along + k[3], v[0] + k[4], w[0] + k[5],
        u[1] + k[6], v[1] + along + k[7], w[1] + k[8],
        u[2] + k[9], v[2] + k[10], w[2] + along + k[11],
    )  # fmt: skip


@kernel
def inverse_dynamics_tensors(tree, ws, values):
    """Tensors ∂²τ/∂q∂q (iterated), ∂²τ/∂v∂v, ∂²τ/∂v∂q and ∂M/∂q; needs composites Ic, f, hKc.

    values (triples + 1, SLOTS): the last row is zeros.
    """
    n = 0
    for p in range(tree.nv):
        i = tree.body[p]
        s, psi, psidd, eta = ws.s[p], ws.psi[p], ws.psidd[p], ws.eta[p]
        I, hK = ws.Ic[i], ws.hKc[i]
        hKs, hKpsi = momentum_operator(I, s), momentum_operator(I, psi)  # B(s_p), B(ψ'_p)
        I1, hK3 = inertia_rate(hKs), operator_rate(s, hK, hKpsi)  # A_1, A_3
        Is, Bts = inertia_times(I, s), coriolis_transposed_times(hK, s)
        F = add6(add6(coriolis_times(hK, psi), inertia_times(I, psidd)), cross_force(s, ws.f[i]))
        V = add6(coriolis_times(hK, s), inertia_times(I, eta))
        t = last_of_joint(tree, i)
        while t >= 0:
            j = tree.body[t]
            st, psit, psiddt, etat = ws.s[t], ws.psi[t], ws.psidd[t], ws.eta[t]
            turned, by_psi = cross3(angular(st), Bts), coriolis_times(hKs, psit)
            u1 = coriolis_transposed_times(hK3, st)
            u2 = inertia_rate_times(I1, st)
            u3 = add6(coriolis_times(hK3, psit), inertia_rate_times(I1, psiddt))
            u3 = add6(u3, cross_force(st, F))
            u9 = cross_force(st, Is)
            u5 = sub6(scale6(2.0, cross_force(psit, Is)), by_psi)
            u5 = (u5[0], u5[1], u5[2], u5[3] + turned[0], u5[4] + turned[1], u5[5] + turned[2])
            u6 = add6(by_psi, cross_force(st, V))
            u7 = add6(coriolis_times(hK3, st), inertia_rate_times(I1, etat))
            u8 = sub3(turned, coriolis_transposed_times(hKs, psit))
            u11 = coriolis_transposed_times(hKs, st)
            u4 = add6(u2, u9)  # which u10 is
            if j == i:
                u4 = add6(u4, inertia_times(I, cross_motion(s, st)))
            r = last_of_joint(tree, j)
            while r >= 0:
                k = tree.body[r]
                sr, psir, psiddr, etar = ws.s[r], ws.psi[r], ws.psidd[r], ws.eta[r]
                sra, psira = angular(sr), angular(psir)
                p1 = dot3(u11, psira)
                values[n, 0] = dot3(u8, psira) + dot6(u9, psiddr)
                values[n, 1] = -p1
                if j != i:
                    values[n, 2] = dot3(u1, psira) + dot6(u2, psiddr)
                    values[n, 3] = dot3(u1, sra) + dot6(u2, etar)
                    values[n, 4] = p1
                    values[n, 5] = dot3(u11, sra)
                    values[n, 6] = dot6(sr, u2)
                if k != j:
                    values[n, 7] = dot6(sr, u3)
                    values[n, 8] = -dot3(u11, sra)
                    values[n, 9] = dot6(sr, u5) + dot6(u9, etar)
                    values[n, 10] = dot6(sr, u6)
                    values[n, 11] = dot6(sr, u9)
                    values[n, 13] = dot6(sr, u4)
                    if j != i:
                        values[n, 12] = dot6(sr, u7)
                else:
                    values[n, 8] = -dot6(u2, sr)
                n += 1
                r = tree.previous[r]
            t = tree.previous[t]
    for k in range(SLOTS):
        values[n, k] = 0.0


@inline
def last_of_joint(tree, b):
    """The last degree of freedom of body b's joint: where the path to the root begins."""
    return tree.iv[b] + tree.nj[b] - 1
