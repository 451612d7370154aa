# mypy: allow-untyped-defs, allow-untyped-calls
"""The energy of a robot, kinetic and potential, with its first and second derivatives.

T = ½ Σ v·I v + ½ Σ armature q'²,  U = -Σ m gravity·c.  With composites I, h = Σ I v of what a joint carries, for j on
the way from i to the root or in its joint,

    D_i T = ψ'_i·h_i     D_vi T = s_i·h_i     D_j D_i T = (ψ'_j × s_i)·h_i + ψ'_i·I_i ψ'_j     D_vj D_vi T = s_j·I_i s_i
    D_j D_vi T = s_i·I_i ψ'_j                 D_i D_vj T = s_j·(s_i ×* h_i + I_i ψ'_i)  (another joint)

and U is the mass times -gravity·(centre of mass), see center_of_mass.py. Potential energy is zero at the origin.
"""

from __future__ import annotations

from ddp.compiling.kernel import kernel
from ddp.machine.memory import memory_of
from dynamics.geometry.spatial import (
    add3,
    add6,
    angular,
    cross3,
    cross_force,
    cross_motion,
    dot6,
    inertia_times,
    linear,
    mass_moment,
    momentum,
    scale3,
)
from dynamics.rigid_bodies.kinematics import Workspace, place_composites, sum_over_subtrees


@kernel
def place_energy(tree, q, v, memory):
    """Composites Ic and hK with placements in the world, and the energy T + U [J]."""
    ws = place_composites(tree, q, v, memory)
    energy = 0.0 * v[0]
    for b in range(tree.nb):
        energy += 0.5 * dot6(ws.v[b], momentum(ws.hK[b]))
        c = mass_moment(ws.I[b])
        energy -= tree.gravity[0] * c[0] + tree.gravity[1] * c[1] + tree.gravity[2] * c[2]
    for i in range(tree.nv):
        energy += 0.5 * tree.armature[i] * v[i] * v[i]
    sum_over_subtrees(tree, ws.hK)
    return energy


@kernel
def weight_of(tree, ws, i):
    """Force whose product with s_i is the gradient of U by q_i: -gravity on all that the joint carries."""
    I, s = ws.Ic[tree.body[i]], ws.s[i]
    moved = add3(scale3(I[0], linear(s)), cross3(angular(s), mass_moment(I)))
    return -tree.gravity[0] * moved[0] - tree.gravity[1] * moved[1] - tree.gravity[2] * moved[2]


@kernel
def energy_gradient(tree, v, memory, dq, dv):
    """∂E/∂q, ∂E/∂v (nv,), after ``place_energy``."""
    ws = Workspace(memory_of(memory), tree)
    for i in range(tree.nv):
        h = momentum(ws.hK[tree.body[i]])
        dq[i] = dot6(ws.psi[i], h) + weight_of(tree, ws, i)
        dv[i] = dot6(ws.s[i], h) + tree.armature[i] * v[i]


@kernel
def add_energy_curvature(tree, memory, scale, hessian):
    """hessian (2 nv, 2 nv) += scale times the Hessian of E by (q, v), symmetric, after ``place_energy``."""
    ws = Workspace(memory_of(memory), tree)
    nv = tree.nv
    for i in range(nv):
        b = tree.body[i]
        I, h = ws.Ic[b], momentum(ws.hK[b])
        s, psi = ws.s[i], ws.psi[i]
        Y = inertia_times(I, s)
        moved = add3(scale3(I[0], linear(s)), cross3(angular(s), mass_moment(I)))  # first moment's rate
        turned = add6(cross_force(s, h), inertia_times(I, psi))
        hessian[nv + i, nv + i] += scale * tree.armature[i]
        j = tree.iv[b] + tree.nj[b] - 1
        while j >= 0:
            sj, psij = ws.s[j], ws.psi[j]
            lifted = cross3(angular(sj), moved)
            qq = dot6(cross_motion(psij, s), h) + dot6(psi, inertia_times(I, psij))
            qq -= tree.gravity[0] * lifted[0] + tree.gravity[1] * lifted[1] + tree.gravity[2] * lifted[2]
            vv = dot6(sj, Y)
            qv = dot6(psij, Y)
            hessian[j, nv + i] += scale * qv
            hessian[nv + i, j] += scale * qv
            if tree.body[j] == b:  # both orders come by: half of each
                hessian[i, j] += 0.5 * scale * qq
                hessian[j, i] += 0.5 * scale * qq
                hessian[nv + i, nv + j] += scale * vv
            else:
                hessian[i, j] += scale * qq
                hessian[j, i] += scale * qq
                hessian[nv + i, nv + j] += scale * vv
                hessian[nv + j, nv + i] += scale * vv
                vq = dot6(sj, turned)
                hessian[i, nv + j] += scale * vq
                hessian[nv + j, i] += scale * vq
            j = tree.previous[j]
