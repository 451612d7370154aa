# mypy: allow-untyped-defs, allow-untyped-calls
"""Inverse dynamics and its first derivatives (RNEA; IDSVA, Singh et al., Eqs. 5-8), mass matrix (CRBA)."""

from ddp.compiling.kernel import inline, kernel
from dynamics.geometry.spatial import (
    add6,
    angular,
    coriolis_times,
    coriolis_transposed_times,
    cross3,
    cross_force,
    dot3,
    dot6,
    inertia_times,
    join,
    linear,
    rotate_back6,
    sub6,
)
from dynamics.rigid_bodies.bodies import is_free
from dynamics.rigid_bodies.kinematics import forces, place_bodies, sum_forces
from dynamics.rods.inverse import derivatives_of_rod, forces_of_rod, mass_of_rod
from dynamics.rods.memory import RodMemory, by_rods, has_rod


@kernel
def mass_matrix(tree, ws, M):
    """M = s_jᵀ Y_i, Y_i = Iᶜ s_i (kept), over pairs on one path to the root (CRBA), the only ones written; needs Ic."""
    for i in range(tree.nv):
        b, j = tree.body[i], i
        if has_rod(tree, b):
            if i == tree.iv[b]:
                mass_of_rod(tree, b, ws, M)
            Y, j = ws.Y[i], tree.previous[tree.iv[b]]
        else:
            Y = inertia_times(ws.Ic[b], ws.s[i])
            ws.Y[i] = Y
        while j >= 0 and not is_free(tree, tree.body[j]):
            M[i, j] = M[j, i] = dot6(Y, ws.s[j])
            j = tree.previous[j]
        if j >= 0:
            root = tree.body[j]
            Y0 = rotate_back6(ws.R[root], Y)
            for k in range(6):
                M[i, tree.iv[root] + k] = M[tree.iv[root] + k, i] = Y0[k]
        M[i, i] += tree.armature[i]


@kernel
def first_felt(tree):
    """The first degree of freedom whose displacement anything feels: uniform gravity hides where a root floats."""
    return 3 if is_free(tree, 0) else 0


@kernel
def generalized_forces(tree, qdd, ws, tau):
    """τ = sᵀ fᶜ + armature q''; needs composite forces in ``ws.f``."""
    for i in range(tree.nv):
        tau[i] = dot6(ws.s[i], ws.f[tree.body[i]]) + tree.armature[i] * qdd[i]
    for b in range(tree.nb):
        if has_rod(tree, b):
            forces_of_rod(tree, b, ws, tau)


@kernel
def inverse_dynamics(tree, q, qd, qdd, fext, ws, tau):
    """RNEA: τ = ID(q, q', q'') less the torques of external wrenches."""
    place_bodies(tree, q, True, ws)
    forces(tree, qd, qdd, fext, ws)
    sum_forces(tree, ws)
    generalized_forces(tree, qdd, ws, tau)


@kernel
def inverse_dynamics_derivatives(tree, ws, dq, dv):
    """∂τ/∂q and ∂τ/∂q'; needs composites Ic, f, hKc and Y of ``mass_matrix``.

    Entries between unrelated degrees of freedom are not written: the matrices must come in as zeros.

    For j on the path from i to the root (and within one joint, both ways, all but those marked *), Y_i = I s_i:
    ∂τ_i/∂q_j = (Bᵀs_i)·ψ'_j + Y_i·ψ''_j        ∂τ_j/∂q_i = s_j·(s_i ×* f + I ψ''_i + B ψ'_i)  *
    ∂τ_i/∂v_j = (Bᵀs_i)·s_j + Y_i·η_j           ∂τ_j/∂v_i = s_j·(I η_i + B s_i)                *
    """
    for i in range(tree.nv):
        b = tree.body[i]
        if has_rod(tree, b) and i == tree.iv[b]:
            derivatives_of_rod(tree, b, ws, dq, dv)
        if is_free(tree, b):
            Y, bt = ws.Y[i], coriolis_transposed_times(ws.hKc[b], ws.s[i])
            by_q, by_v = felt_at_root(tree, ws.R[b], ws.v[b], Y, bt)
            for k in range(6):
                dq[i, tree.iv[b] + k], dv[i, tree.iv[b] + k] = by_q[k], by_v[k]
        else:
            Y, bt, F, V = felt_by_carriers(tree, i, ws)
            if not has_rod(tree, b):
                for j in range(tree.iv[b], tree.iv[b] + tree.nj[b]):
                    dq[i, j] = dot3(bt, angular(ws.psi[j])) + dot6(Y, ws.psidd[j])
                    dv[i, j] = dot3(bt, angular(ws.s[j])) + dot6(Y, ws.eta[j])
            j = tree.previous[tree.iv[b]]
            while j >= 0 and not is_free(tree, tree.body[j]):
                sj = ws.s[j]
                dq[i, j] = dot3(bt, angular(ws.psi[j])) + dot6(Y, ws.psidd[j])
                dq[j, i] = dot6(sj, F)
                dv[i, j] = dot3(bt, angular(sj)) + dot6(Y, ws.eta[j])
                dv[j, i] = dot6(sj, V)
                j = tree.previous[j]
            if j >= 0:
                root = tree.body[j]
                R, v = ws.R[root], ws.v[root]
                by_q, by_v = felt_at_root(tree, R, v, Y, bt)
                F0, V0 = rotate_back6(R, F), rotate_back6(R, V)
                for k in range(6):
                    j = tree.iv[root] + k
                    dq[i, j], dq[j, i], dv[i, j], dv[j, i] = by_q[k], F0[k], by_v[k], V0[k]


def felt_by_carriers(tree, i, ws):
    """Y, [Bᵀs]_a, F, V of i: by these it enters the rows and columns of the degrees of freedom that carry it."""


@inline
def _felt_of_joint(tree, i, ws):
    b = tree.body[i]
    s, I, hK, psi = ws.s[i], ws.Ic[b], ws.hKc[b], ws.psi[i]
    F = add6(cross_force(s, ws.f[b]), inertia_times(I, ws.psidd[i]))
    if tree.parent[b] >= 0:
        F = add6(F, coriolis_times(hK, psi))
    V = add6(inertia_times(I, ws.eta[i]), coriolis_times(hK, s))
    return ws.Y[i], coriolis_transposed_times(hK, s), F, V


@inline
def _felt_of_any(tree, i, ws):
    if tree.rod[tree.body[i]] >= 0:
        m = RodMemory(ws.rods, tree)
        return ws.Y[i], m.bt[i], m.F[i], m.V[i]
    return _felt_of_joint(tree, i, ws)


by_rods(felt_by_carriers, _felt_of_joint, _felt_of_any)


@inline
def pull(tree, f):
    """g ×* f of gravity, which is uniform: a couple."""
    g, zero = tree.gravity, 0.0 * f[0]
    return join((zero, zero, zero), cross3((g[0], g[1], g[2]), linear(f)))


@inline
def felt_at_root(tree, R, v, f, n):
    """f·ψ''_j and f·η_j + n·s_ja for the s_j of a root that floats, its axes R: ψ''_j = -g × s_j and η_j = v × s_j."""
    zero = 0.0 * n[0]
    by_v = sub6(join((zero, zero, zero), n), cross_force(v, f))
    return rotate_back6(R, pull(tree, f)), rotate_back6(R, by_v)
