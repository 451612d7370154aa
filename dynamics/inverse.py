"""Inverse dynamics and its first derivatives (RNEA; IDSVA, Singh et al., Eqs. 5-8), mass matrix (CRBA)."""

from __future__ import annotations

from ddp.kernel import kernel
from dynamics.kinematics import forces, place_bodies, sum_over_subtrees
from dynamics.spatial import (
    add6,
    angular,
    coriolis_times,
    coriolis_transposed_times,
    cross_force,
    dot3,
    dot6,
    inertia_times,
    load6,
    load10,
    load12,
)


@kernel
def mass_matrix(tree, ws, M):
    """M = s_jᵀ Iᶜ s_i over pairs on one path to the root (CRBA), the only ones written; needs composite inertias."""
    for i in range(tree.body.size):
        Y = inertia_times(load10(ws.Ic, tree.body[i]), load6(ws.s, i))
        j = i
        while j >= 0:
            M[i, j] = M[j, i] = dot6(Y, load6(ws.s, j))
            j = tree.previous[j]
        M[i, i] += tree.armature[i]


@kernel
def generalized_forces(tree, qdd, ws, tau):
    """τ = sᵀ fᶜ + armature q''; needs composite forces in ``ws.f``."""
    for i in range(tree.body.size):
        tau[i] = dot6(load6(ws.s, i), load6(ws.f, tree.body[i])) + tree.armature[i] * qdd[i]


@kernel
def inverse_dynamics(tree, q, qd, qdd, fext, ws, tau):
    """RNEA: τ = ID(q, q', q'') less the torques of external wrenches."""
    place_bodies(tree, q, True, ws)
    forces(tree, qd, qdd, fext, ws)
    sum_over_subtrees(tree, ws.f)
    generalized_forces(tree, qdd, ws, tau)


@kernel
def inverse_dynamics_derivatives(tree, ws, dq, dv, M):
    """∂τ/∂q, ∂τ/∂q' and ∂τ/∂q'' = M; needs composites Ic, f, hKc.

    Entries between unrelated degrees of freedom are not written: the matrices must come in as zeros.

    For j on the path from i to the root (and within one joint, both ways, all but the two marked *):
    ∂τ_i/∂q_j = (Bᵀs_i)·ψ'_j + (I s_i)·ψ''_j        ∂τ_j/∂q_i = s_j·(s_i ×* f + I ψ''_i + B ψ'_i)  *
    ∂τ_i/∂v_j = (Bᵀs_i)·s_j + (I s_i)·η_j           ∂τ_j/∂v_i = s_j·(I η_i + B s_i)                *
    """
    for i in range(tree.body.size):
        b = tree.body[i]
        s, psi, psidd, eta = load6(ws.s, i), load6(ws.psi, i), load6(ws.psidd, i), load6(ws.eta, i)
        I, hK = load10(ws.Ic, b), load12(ws.hKc, b)
        Y = inertia_times(I, s)
        F = add6(cross_force(s, load6(ws.f, b)), inertia_times(I, psidd))
        if tree.parent[b] >= 0:
            F = add6(F, coriolis_times(hK, psi))
        V = add6(inertia_times(I, eta), coriolis_times(hK, s))
        bt = coriolis_transposed_times(hK, s)
        for j in range(tree.iv[b], tree.iv[b] + tree.nj[b]):
            if j <= i:
                M[i, j] = M[j, i] = dot6(Y, load6(ws.s, j))
            dq[i, j] = dot3(bt, angular(load6(ws.psi, j))) + dot6(Y, load6(ws.psidd, j))
            dv[i, j] = dot3(bt, angular(load6(ws.s, j))) + dot6(Y, load6(ws.eta, j))
        M[i, i] += tree.armature[i]
        j = tree.previous[tree.iv[b]]
        while j >= 0 and tree.parent[tree.body[j]] >= 0:
            sj = load6(ws.s, j)
            M[i, j] = M[j, i] = dot6(Y, sj)
            dq[i, j] = dot3(bt, angular(load6(ws.psi, j))) + dot6(Y, load6(ws.psidd, j))
            dq[j, i] = dot6(sj, F)
            dv[i, j] = dot3(bt, angular(sj)) + dot6(Y, load6(ws.eta, j))
            dv[j, i] = dot6(sj, V)
            j = tree.previous[j]
        while j >= 0:  # a joint on the world: nothing carries it, ψ'_j = 0
            sj = load6(ws.s, j)
            M[i, j] = M[j, i] = dot6(Y, sj)
            dq[i, j] = dot6(Y, load6(ws.psidd, j))
            dq[j, i] = dot6(sj, F)
            dv[i, j] = dot3(bt, angular(sj)) + dot6(Y, load6(ws.eta, j))
            dv[j, i] = dot6(sj, V)
            j = tree.previous[j]
