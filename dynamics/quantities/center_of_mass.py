# mypy: allow-untyped-defs, allow-untyped-calls
"""The centre of mass of a robot, with its first and second variations.

A degree of freedom j of body b moves all that b carries (mass m_b, first moment h_b) about the column s_j,
and the centre of mass by ``g_j = (m_b s_j,linear + s_j,angular × h_b) / total mass``. What a joint carries
turns with it: ``D_j g_k = ω_j × g_k`` for j before k or in the same joint, and D_k g_j is the same for j
strictly before k. Of robots with rods, see whole.py.
"""

from __future__ import annotations

from ddp.compiling.kernel import kernel
from ddp.machine.memory import memory_of, rows_of
from dynamics.geometry.spatial import (
    add3,
    angular,
    cross3,
    dot3,
    join,
    linear,
    load3,
    mass_moment,
    move_inertia,
    scale3,
    store,
)
from dynamics.quantities.whole import curve_whole, in_memory, place_whole, whole_workspace
from dynamics.rigid_bodies.kinematics import Workspace, clear, place_bodies, sum_over_subtrees, workspace
from dynamics.rods.memory import by_rods


def inertial_workspace(tree, like):
    """Memory for the functions of this module, energy.py and momentum.py, of the number type of the array ``like``."""


def place_center_of_mass(tree, q, memory, g):
    """The centre of mass in the world [m], its derivatives by q into g (nv, 3); memory: ``inertial_workspace``."""


def pull_back_center_of_mass(tree, memory, g, force, stiffness, scale, curved, gradient, hessian):
    """Add ``scale`` times the variations of a function of the centre of mass, after `place_center_of_mass`.

    force (3,): the function's gradient; its Hessian is ``stiffness`` times 1.
    """


@kernel
def _place(tree, q, memory, g):
    ws = Workspace(memory_of(memory), tree)
    place_bodies(tree, rows_of(q), False, ws)
    for b in range(tree.nb):
        ws.Ic[b] = move_inertia(ws.R[b], ws.p[b], tree.inertia[b])
    sum_over_subtrees(tree, ws.Ic)
    zero = 0.0 * q[0]
    mass, moment = zero, (zero, zero, zero)
    for b in range(tree.nb):
        if tree.parent[b] < 0:
            carried = ws.Ic[b]
            mass += carried[0]
            moment = add3(moment, mass_moment(carried))
    for j in range(len(g)):
        carried, s = ws.Ic[tree.body[j]], ws.s[j]
        moved = add3(scale3(carried[0], linear(s)), cross3(angular(s), mass_moment(carried)))
        store(g, j, scale3(1.0 / mass, moved))
    return scale3(1.0 / mass, moment)


@kernel
def _pull_back(tree, memory, g, force, stiffness, scale, curved, gradient, hessian):
    ws = Workspace(memory_of(memory), tree)
    for k in range(len(g)):
        gk = load3(g, k)
        gradient[k] += scale * dot3(force, gk)
        for j in range(len(g)):
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


@kernel
def _place_whole(tree, q, memory, g):
    _, x = in_memory(tree, memory)
    clear(x.mu, tree.nv)
    place_whole(tree, q, x.mu, memory)
    return center_of_whole(tree, memory, g)


@kernel
def center_of_whole(tree, memory, g):
    """The centre of mass and its derivatives into g (nv, 3), after ``place_whole``."""
    ws, x = in_memory(tree, memory)
    carried = ws.Ic[0]
    per_mass = 1.0 / carried[0]
    for j in range(tree.nv):
        store(g, j, (per_mass * x.M[0, 6 + j], per_mass * x.M[1, 6 + j], per_mass * x.M[2, 6 + j]))
    return scale3(per_mass, mass_moment(carried))


@kernel
def _pull_back_whole(tree, memory, g, force, stiffness, scale, curved, gradient, hessian):
    for k in range(tree.nv):
        gk = load3(g, k)
        gradient[k] += scale * dot3(force, gk)
        for j in range(tree.nv):
            hessian[j, k] += scale * stiffness * dot3(load3(g, j), gk)
    if curved:
        ws, x = in_memory(tree, memory)
        per_mass, zero = 1.0 / ws.Ic[0, 0], 0.0 * force[0]
        curve_whole(tree, memory, join(scale3(per_mass, force), (zero, zero, zero)), 0.0)
        for j in range(tree.nv):
            for k in range(tree.nv):
                hessian[j, k] += 0.5 * scale * (x.qa[6 + j, 6 + k] + x.qa[6 + k, 6 + j])


by_rods(inertial_workspace, workspace, whole_workspace)
by_rods(place_center_of_mass, _place, _place_whole)
by_rods(pull_back_center_of_mass, _pull_back, _pull_back_whole)
