# mypy: allow-untyped-defs, allow-untyped-calls
"""The centre of mass of a robot, with its first and second variations.

A degree of freedom j of body b moves all that b carries (mass m_b, first moment h_b) about the column s_j,
and the centre of mass by ``g_j = (m_b s_j,linear + s_j,angular × h_b) / total mass``. What a joint carries
turns with it: ``D_j g_k = ω_j × g_k`` for j before k or in the same joint, and D_k g_j is the same for j
strictly before k.
"""

from __future__ import annotations

from ddp.compiling.kernel import kernel
from ddp.machine.memory import memory_of, rows_of
from dynamics.geometry.spatial import (
    add3,
    angular,
    cross3,
    dot3,
    linear,
    load3,
    mass_moment,
    move_inertia,
    scale3,
    store,
)
from dynamics.rigid_bodies.kinematics import Workspace, place_bodies, sum_over_subtrees


@kernel
def place_center_of_mass(tree, q, memory, g):
    """The centre of mass in the world [m], its derivatives by q into g (nv, 3); fills ws.Ic."""
    ws = Workspace(memory_of(memory), tree)
    place_bodies(tree, rows_of(q), False, ws)
    for b in range(tree.nb):
        ws.Ic[b] = move_inertia(ws.R[b], ws.p[b], tree.inertia[b])
    sum_over_subtrees(tree, ws.Ic)
    mass, moment = 0.0, (0.0 * q[0], 0.0 * q[0], 0.0 * q[0])
    for b in range(tree.nb):
        if tree.parent[b] < 0:
            carried = ws.Ic[b]
            mass += ws.Ic[b, 0].real
            moment = add3(moment, mass_moment(carried))
    for j in range(g.shape[0]):
        carried, s = ws.Ic[tree.body[j]], ws.s[j]
        moved = add3(scale3(carried[0], linear(s)), cross3(angular(s), mass_moment(carried)))
        store(g, j, scale3(1.0 / mass, moved))
    return scale3(1.0 / mass, moment)


@kernel
def pull_back_center_of_mass(tree, memory, g, force, stiffness, scale, curved, gradient, hessian):
    """Add ``scale`` times the variations of a function of the centre of mass, after `place_center_of_mass`.

    force (3,): the function's gradient; its Hessian is ``stiffness`` times 1.
    """
    ws = Workspace(memory_of(memory), tree)
    for k in range(g.shape[0]):
        gk = load3(g, k)
        gradient[k] += scale * dot3(force, gk)
        for j in range(g.shape[0]):
            hessian[j, k] += scale * stiffness * dot3(load3(g, j), gk)
        if curved:
            hessian[k, k] += scale * dot3(force, cross3(angular(ws.s[k]), gk))
            j = tree.previous[k]
            while j >= 0:
                h = dot3(force, cross3(angular(ws.s[j]), gk))
                if tree.body[j] == tree.body[k]:
                    h = 0.5 * (h + dot3(force, cross3(angular(ws.s[k]), load3(g, j))))
                hessian[j, k] += scale * h
                hessian[k, j] += scale * h
                j = tree.previous[j]
