# mypy: allow-untyped-defs, allow-untyped-calls
"""The energy of a robot, kinetic and potential, with its first and second derivatives.

T = ½ Σ v·I v + ½ Σ armature q'²,  U = -Σ m gravity·c.  With composites I, h = Σ I v of what a joint carries, for j on
the way from i to the root or in its joint,

    D_i T = ψ'_i·h_i     D_vi T = s_i·h_i     D_j D_i T = (ψ'_j × s_i)·h_i + ψ'_i·I_i ψ'_j     D_vj D_vi T = s_j·I_i s_i
    D_j D_vi T = s_i·I_i ψ'_j                 D_i D_vj T = s_j·(s_i ×* h_i + I_i ψ'_i)  (another joint)

and U is the mass times -gravity·(centre of mass), see center_of_mass.py. Potential energy is zero at the origin.
Of robots with rods, see whole.py.
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
    join,
    linear,
    mass_moment,
    momentum,
    scale3,
)
from dynamics.quantities.whole import curve_whole, in_memory, place_whole
from dynamics.rigid_bodies.kinematics import Workspace, place_composites, sum_over_subtrees
from dynamics.rods.memory import by_rods


def place_energy(tree, q, v, memory):
    """The energy T + U [J]; memory: ``inertial_workspace``, which the other functions read."""


def energy_gradient(tree, v, memory, dq, dv):
    """∂E/∂q, ∂E/∂v (nv,), after ``place_energy``."""


def add_energy_curvature(tree, memory, scale, hessian):
    """hessian (2 nv, 2 nv) += scale times the Hessian of E by (q, v), symmetric, after ``place_energy``."""


@kernel
def _place(tree, q, v, memory):
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
def _gradient(tree, v, memory, dq, dv):
    ws = Workspace(memory_of(memory), tree)
    for i in range(tree.nv):
        h = momentum(ws.hK[tree.body[i]])
        dq[i] = dot6(ws.psi[i], h) + weight_of(tree, ws, i)
        dv[i] = dot6(ws.s[i], h) + tree.armature[i] * v[i]


@kernel
def _add_curvature(tree, memory, scale, hessian):
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


@kernel
def _place_whole(tree, q, v, memory):
    place_whole(tree, q, v, memory)
    ws, x = in_memory(tree, memory)
    c, energy = mass_moment(ws.Ic[0]), 0.0 * v[0]
    for k in range(3):
        energy -= tree.gravity[k] * c[k]
    for i in range(tree.nv):
        energy += 0.5 * tree.armature[i] * v[i] * v[i]
        for j in range(tree.nv):
            energy += 0.5 * v[i] * x.M[6 + i, 6 + j] * v[j]
    return energy


@kernel
def _gradient_of_whole(tree, v, memory, dq, dv):
    _, x = in_memory(tree, memory)
    for i in range(tree.nv):
        dq[i], dv[i] = 0.0 * v[0], tree.armature[i] * v[i]
        for k in range(3):
            dq[i] -= tree.gravity[k] * x.M[k, 6 + i]
        for j in range(tree.nv):
            dq[i] += 0.5 * v[j] * x.by_q[6 + j, 6 + i]
            dv[i] += x.M[6 + i, 6 + j] * v[j]


@kernel
def _add_curvature_of_whole(tree, memory, scale, hessian):
    _, x = in_memory(tree, memory)
    nv, zero = tree.nv, 0.0 * x.a[0]
    none = (zero, zero, zero)
    curve_whole(tree, memory, join(none, none), 1.0)
    for i in range(nv):
        hessian[nv + i, nv + i] += scale * tree.armature[i]
        for j in range(nv):
            hessian[i, j] += 0.5 * scale * (x.qq[6 + i, 6 + j] + x.qq[6 + j, 6 + i])
            hessian[nv + i, nv + j] += scale * x.M[6 + i, 6 + j]
            hessian[i, nv + j] += scale * x.by_q[6 + j, 6 + i]
            hessian[nv + j, i] += scale * x.by_q[6 + j, 6 + i]
    falling = (zero - tree.gravity[0], zero - tree.gravity[1], zero - tree.gravity[2])
    curve_whole(tree, memory, join(falling, none), 0.0)
    for i in range(nv):
        for j in range(nv):
            hessian[i, j] += 0.5 * scale * (x.qa[6 + i, 6 + j] + x.qa[6 + j, 6 + i])


by_rods(place_energy, _place, _place_whole)
by_rods(energy_gradient, _gradient, _gradient_of_whole)
by_rods(add_energy_curvature, _add_curvature, _add_curvature_of_whole)
