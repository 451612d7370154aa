"""The second derivatives of inverse dynamics as tensors: IDSVA-SO (Singh et al., Algorithm 1 and Appendix B).

The matrices A_0..A_7 of the algorithm are applied, never formed: ``f ×̄* x`` is ``x ×* f``, and the Coriolis operators
are the twelve numbers of spatial.py. Names u1..u12 are the algorithm's; dofs p, t, r stand on joints i, j, k. Those of
them that are couples, u1, u8 and u11, are kept as three numbers.

Most entries come in twos that are equal, and entries between unrelated degrees of freedom are zero. What differs is
computed into ``values``, SLOTS numbers for each triple (p, t, r) on one path, and tensor_entries.py says where in it
each entry of a tensor is found.
"""

from __future__ import annotations

from ddp.kernel import inline, kernel
from dynamics.kinematics import Workspace
from dynamics.model import Model
from dynamics.spatial import (
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
    load6,
    load10,
    load12,
    momentum_operator,
    scale6,
    sub3,
    sub6,
)
from dynamics.tensor_entries import SLOTS


@inline
def carried(s, I, hK, hKpsi, x, y):
    """A_3 x + A_1 y = B(ψ') x + s ×* (B x + I y) - B (s × x) - I (s × y): rates of B and I when their body moves."""
    moved = cross_force(s, add6(coriolis_times(hK, x), inertia_times(I, y)))
    still = add6(coriolis_times(hK, cross_motion(s, x)), inertia_times(I, cross_motion(s, y)))
    return add6(coriolis_times(hKpsi, x), sub6(moved, still))


@kernel
def inverse_dynamics_tensors(tree: Model, ws: Workspace, values):
    """What ∂²τ/∂q∂q (iterated), ∂²τ/∂v∂v, ∂²τ/∂v∂q and ∂M/∂q are made of; needs composites Ic, f, hKc.

    values (triples + 1, SLOTS): the last row is zeros.
    """
    n = 0
    for p in range(tree.body.size):
        i = tree.body[p]
        s, psi, psidd, eta = load6(ws.s, p), load6(ws.psi, p), load6(ws.psidd, p), load6(ws.eta, p)
        I, hK = load10(ws.Ic, i), load12(ws.hKc, i)
        hKs, hKpsi = momentum_operator(I, s), momentum_operator(I, psi)  # B(s_p), B(ψ'_p)
        Is, Bts = inertia_times(I, s), coriolis_transposed_times(hK, s)
        F = add6(add6(coriolis_times(hK, psi), inertia_times(I, psidd)), cross_force(s, load6(ws.f, i)))
        V = add6(coriolis_times(hK, s), inertia_times(I, eta))
        t = last_of_joint(tree, i)
        while t >= 0:
            j = tree.body[t]
            st, psit, psiddt, etat = load6(ws.s, t), load6(ws.psi, t), load6(ws.psidd, t), load6(ws.eta, t)
            moved, turned = cross_motion(s, st), cross3(angular(st), Bts)
            u1 = sub3(coriolis_transposed_times(hKpsi, st), coriolis_transposed_times(hK, moved))
            u1 = add3(u1, cross3(angular(s), coriolis_transposed_times(hK, st)))
            pushed = cross_force(s, inertia_times(I, st))
            u2 = sub6(pushed, inertia_times(I, moved))
            u3 = add6(carried(s, I, hK, hKpsi, psit, psiddt), cross_force(st, F))
            u9 = cross_force(st, Is)
            u4 = add6(pushed, u9)
            by_psi = coriolis_times(hKs, psit)
            u5 = sub6(scale6(2.0, cross_force(psit, Is)), by_psi)
            u5 = (u5[0], u5[1], u5[2], u5[3] + turned[0], u5[4] + turned[1], u5[5] + turned[2])
            u6 = add6(by_psi, cross_force(st, V))
            u7 = carried(s, I, hK, hKpsi, st, etat)
            u8 = sub3(turned, coriolis_transposed_times(hKs, psit))
            u10 = coriolis_times(hKs, st)
            u11 = coriolis_transposed_times(hKs, st)
            r = last_of_joint(tree, j)
            while r >= 0:
                k = tree.body[r]
                sr, psir, psiddr, etar = load6(ws.s, r), load6(ws.psi, r), load6(ws.psidd, r), load6(ws.eta, r)
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
                    if j != i:
                        values[n, 12] = dot6(sr, u7)
                        values[n, 13] = dot6(sr, u10)
                    else:
                        values[n, 13] = dot6(sr, u4)
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
