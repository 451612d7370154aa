"""The second derivatives of inverse dynamics as tensors: IDSVA-SO (Singh et al., Algorithm 1 and Appendix B).

The matrices A_0..A_7 of the algorithm are applied, never formed: ``f ×̄* x`` is ``x ×* f``, and the Coriolis operators
are the twelve numbers of spatial.py. Names u1..u12 are the algorithm's; dofs p, t, r stand on joints i, j, k.
"""

from __future__ import annotations

from ddp.kernel import inline, kernel
from dynamics.kinematics import Workspace
from dynamics.model import Model
from dynamics.spatial import (
    add6,
    coriolis_times,
    coriolis_transposed_times,
    cross_force,
    cross_motion,
    dot6,
    inertia_times,
    join,
    load6,
    load10,
    load12,
    momentum_operator,
    scale6,
    sub6,
)


@inline
def coriolis_transposed(hK, y):
    """Bᵀ y, as a force: a pure couple."""
    couple = coriolis_transposed_times(hK, y)
    return join((0.0 * couple[0], 0.0 * couple[1], 0.0 * couple[2]), couple)


@inline
def moved_inertia_times(s, I, x):
    """A_1 x = s ×* (I x) - I (s × x): the rate of I when its body moves with s, symmetric."""
    return sub6(cross_force(s, inertia_times(I, x)), inertia_times(I, cross_motion(s, x)))


@inline
def moved_coriolis_times(s, hK, hKpsi, x):
    """A_3 x = B(ψ') x + s ×* (B x) - B (s × x)."""
    moved = sub6(cross_force(s, coriolis_times(hK, x)), coriolis_times(hK, cross_motion(s, x)))
    return add6(coriolis_times(hKpsi, x), moved)


@inline
def moved_coriolis_transposed(s, hK, hKpsi, y):
    """A_3ᵀ y = B(ψ')ᵀ y - Bᵀ (s × y) + s ×* (Bᵀ y)."""
    moved = sub6(cross_force(s, coriolis_transposed(hK, y)), coriolis_transposed(hK, cross_motion(s, y)))
    return add6(coriolis_transposed(hKpsi, y), moved)


@kernel
def inverse_dynamics_tensors(tree: Model, ws: Workspace, dqdq, dvdv, dvdq, dadq):
    """∂²τ/∂q∂q (iterated), ∂²τ/∂v∂v, ∂²τ/∂v∂q and ∂M/∂q, each (nv, nv, nv); needs composites Ic, f, hKc.

    Entries between unrelated degrees of freedom are not written: the tensors must come in as zeros.

    T[i, j, k] = D_k (D_j τ_i): the last index is the last derivative taken; dvdq has v as its second index.
    """
    for p in range(tree.body.size):
        i = tree.body[p]
        s, psi, psidd, eta = load6(ws.s, p), load6(ws.psi, p), load6(ws.psidd, p), load6(ws.eta, p)
        I, hK = load10(ws.Ic, i), load12(ws.hKc, i)
        hKs, hKpsi = momentum_operator(I, s), momentum_operator(I, psi)  # B(s_p), B(ψ'_p)
        Is, Bts = inertia_times(I, s), coriolis_transposed(hK, s)
        F = add6(add6(coriolis_times(hK, psi), inertia_times(I, psidd)), cross_force(s, load6(ws.f, i)))
        V = add6(coriolis_times(hK, s), inertia_times(I, eta))
        t = last_of_joint(tree, i)
        while t >= 0:
            j = tree.body[t]
            st, psit, psiddt, etat = load6(ws.s, t), load6(ws.psi, t), load6(ws.psidd, t), load6(ws.eta, t)
            u1 = moved_coriolis_transposed(s, hK, hKpsi, st)
            u2 = moved_inertia_times(s, I, st)
            u3 = add6(moved_coriolis_times(s, hK, hKpsi, psit), moved_inertia_times(s, I, psiddt))
            u3 = add6(u3, cross_force(st, F))
            u4 = add6(cross_force(s, inertia_times(I, st)), cross_force(st, Is))
            u5 = sub6(scale6(2.0, cross_force(psit, Is)), coriolis_times(hKs, psit))
            u5 = add6(u5, cross_force(st, Bts))
            u6 = add6(coriolis_times(hKs, psit), cross_force(st, V))
            u7 = add6(moved_coriolis_times(s, hK, hKpsi, st), moved_inertia_times(s, I, etat))
            u8 = sub6(cross_force(st, Bts), coriolis_transposed(hKs, psit))
            u9 = cross_force(st, Is)
            u10 = coriolis_times(hKs, st)
            u11 = coriolis_transposed(hKs, st)
            r = last_of_joint(tree, j)
            while r >= 0:
                k = tree.body[r]
                sr, psir, psiddr, etar = load6(ws.s, r), load6(ws.psi, r), load6(ws.psidd, r), load6(ws.eta, r)
                p1 = dot6(u11, psir)
                p2 = dot6(u8, psir) + dot6(u9, psiddr)
                dqdq[p, t, r] = p2
                dvdq[p, t, r] = -p1
                if j != i:
                    dqdq[t, r, p] = dqdq[t, p, r] = dot6(u1, psir) + dot6(u2, psiddr)
                    dvdq[t, r, p] = dot6(u1, sr) + dot6(u2, etar)
                    dvdq[t, p, r] = p1
                    dvdv[t, r, p] = dvdv[t, p, r] = dot6(u11, sr)
                    dadq[r, t, p] = dadq[t, r, p] = dot6(sr, u2)
                if k != j:
                    dqdq[p, r, t] = p2
                    dqdq[r, p, t] = dot6(sr, u3)
                    dvdv[p, t, r] = dvdv[p, r, t] = -dot6(u11, sr)
                    dvdq[p, r, t] = dot6(sr, u5) + dot6(u9, etar)
                    dvdq[r, p, t] = dot6(sr, u6)
                    dadq[r, p, t] = dadq[p, r, t] = dot6(sr, u9)
                    if j != i:
                        dqdq[r, t, p] = dqdq[r, p, t]
                        dvdq[r, t, p] = dot6(sr, u7)
                        dvdv[r, p, t] = dvdv[r, t, p] = dot6(sr, u10)
                    else:
                        dvdv[r, t, p] = dot6(sr, u4)
                else:
                    dvdv[p, t, r] = -dot6(u2, sr)
                r = tree.previous[r]
            t = tree.previous[t]


@inline
def last_of_joint(tree, b):
    """The last degree of freedom of body b's joint: where the path to the root begins."""
    return tree.iv[b] + tree.nj[b] - 1
