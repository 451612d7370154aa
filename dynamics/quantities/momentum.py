# mypy: allow-untyped-defs, allow-untyped-calls
"""The momentum of a robot, about its centre of mass or the origin, with its first and second derivatives.

About the origin, in world axes, h = Σ I v (rotors have none, as in Pinocchio). With composites I_i, h_i of what joint i
carries, for j on the way from i to the root or in its joint,

    D_i h = s_i ×* h_i + I_i ψ'_i            D_vi h = I_i s_i
    D_j D_i h = s_j ×* (D_i h) + s_i ×* (I_i ψ'_j) + I_i (ψ'_j × s_i)
    D_j D_vi h = s_j ×* (I_i s_i)            D_i D_vj h = s_i ×* (I_i s_j) - I_i (s_i × s_j)  (another joint)

About the centre of mass c the angular part is k - c × l, and the product rule adds the variations of c.
Of robots with rods, see whole.py.
"""

from __future__ import annotations

from ddp.compiling.kernel import inline, kernel
from ddp.machine.memory import memory_of
from dynamics.geometry.spatial import (
    add3,
    add6,
    angular,
    cross3,
    cross_force,
    cross_motion,
    dot3,
    dot6,
    inertia_times,
    join,
    linear,
    load3,
    load6,
    mass_moment,
    momentum,
    scale3,
    store,
    sub3,
    sub6,
)
from dynamics.quantities.center_of_mass import center_of_whole, pull_back_center_of_mass
from dynamics.quantities.whole import curve_whole, in_memory, place_whole
from dynamics.rigid_bodies.kinematics import Workspace, place_composites, sum_over_subtrees
from dynamics.rods.memory import by_rods

POINTS = {"center-of-mass": True, "origin": False}
"""Points that angular momentum may be about."""


def place_momentum(tree, q, v, memory):
    """The mass, the centre of mass, and h about the origin; memory: ``inertial_workspace``."""


def momentum_derivatives(tree, at_center, mass, c, h, memory, g, Dq, Dv):
    """Derivatives of h about the origin, or of the centre's, by q and v into Dq, Dv (nv, 6); of c into g (nv, 3)."""


def add_own_curvature(tree, memory, w, scale, hessian):
    """hessian (2 nv, 2 nv) += scale times the Hessian of w·h about the origin, after ``place_momentum``."""


@kernel
def _place(tree, q, v, memory):
    """Composites Ic and hK with placements in the world; the mass, the centre of mass, and h about the origin."""
    ws = place_composites(tree, q, v, memory)
    sum_over_subtrees(tree, ws.hK)
    zero = 0.0 * v[0]
    mass, moment, h = zero, (zero, zero, zero), (zero, zero, zero, zero, zero, zero)
    for b in range(tree.nb):
        if tree.parent[b] < 0:
            I = ws.Ic[b]
            mass += I[0]
            moment = add3(moment, mass_moment(I))
            h = add6(h, momentum(ws.hK[b]))
    return mass, scale3(1.0 / mass, moment), h


@kernel
def about(at_center, c, h):
    """h about the point c, if asked for."""
    return join(linear(h), sub3(angular(h), cross3(c, linear(h)))) if at_center else h


@kernel
def _derivatives(tree, at_center, mass, c, h, memory, g, Dq, Dv):
    ws = Workspace(memory_of(memory), tree)
    for i in range(tree.nv):
        b = tree.body[i]
        I, s = ws.Ic[b], ws.s[i]
        moved = add3(scale3(I[0], linear(s)), cross3(angular(s), mass_moment(I)))
        store(g, i, scale3(1.0 / mass, moved))
        by_q = add6(cross_force(s, momentum(ws.hK[b])), inertia_times(I, ws.psi[i]))
        store_about(at_center, c, h, i, by_q, inertia_times(I, s), g, Dq, Dv)


@inline
def store_about(at_center, c, h, i, by_q, by_v, g, Dq, Dv):
    """Derivatives about the origin, or made those about the centre, into rows i of Dq and Dv."""
    if at_center:
        turned = cross3(load3(g, i), linear(h))
        by_q = about(True, c, by_q)
        by_q = join(linear(by_q), sub3(angular(by_q), turned))
        by_v = about(True, c, by_v)
    store(Dq, i, by_q)
    store(Dv, i, by_v)


@kernel
def add_momentum_curvature(tree, at_center, c, h, memory, g, Dq, Dv, weight, scale, unused, hessian):
    """hessian (2 nv, 2 nv) += scale times the Hessian of weight·h, symmetric; after ``momentum_derivatives``.

    Of Dq, Dv only the linear parts are read; ``unused`` (nv,) takes a gradient.
    """
    w = weight
    if at_center:  # weight_a·(k - c × l): the part that c holds still is a weight on l
        w = join(sub3(linear(weight), cross3(angular(weight), c)), angular(weight))
        add_center_curvature(tree, h, memory, g, Dq, Dv, angular(weight), scale, unused, hessian)
    add_own_curvature(tree, memory, w, scale, hessian)


@kernel
def _add_curvature(tree, memory, w, scale, hessian):
    ws = Workspace(memory_of(memory), tree)
    nv = tree.nv
    for i in range(nv):
        b = tree.body[i]
        I, s = ws.Ic[b], ws.s[i]
        Y, first = inertia_times(I, s), add6(
            cross_force(s, momentum(ws.hK[b])), inertia_times(I, ws.psi[i])
        )
        j = tree.iv[b] + tree.nj[b] - 1
        while j >= 0:
            sj, psij = ws.s[j], ws.psi[j]
            T = add6(cross_force(sj, first), cross_force(s, inertia_times(I, psij)))
            qq = scale * dot6(w, add6(T, inertia_times(I, cross_motion(psij, s))))
            qv = scale * dot6(w, cross_force(sj, Y))
            hessian[j, nv + i] += qv
            hessian[nv + i, j] += qv
            if tree.body[j] == b:  # both orders come by: half of each
                qq = 0.5 * qq
            else:
                moved = sub6(cross_force(s, inertia_times(I, sj)), inertia_times(I, cross_motion(s, sj)))
                vq = scale * dot6(w, moved)
                hessian[i, nv + j] += vq
                hessian[nv + j, i] += vq
            hessian[i, j] += qq
            hessian[j, i] += qq
            j = tree.previous[j]


@kernel
def add_center_curvature(tree, h, memory, g, Dq, Dv, weight, scale, unused, hessian):
    """The variations of c in -weight·(c × l): ``- weight·(D_j D_i c × l + D_i c × D_j l + D_j c × D_i l)``."""
    nv = tree.nv
    pull_back_center_of_mass(tree, memory, g, cross3(weight, linear(h)), 0.0, scale, True, unused, hessian)
    for i in range(nv):
        turned = cross3(weight, load3(g, i))  # -weight·(D_i c × x) = -(weight × D_i c)·x
        for j in range(nv):
            qq, qv = scale * dot3(turned, linear(load6(Dq, j))), scale * dot3(turned, linear(load6(Dv, j)))
            hessian[i, j] -= qq
            hessian[j, i] -= qq
            hessian[i, nv + j] -= qv
            hessian[nv + j, i] -= qv


@kernel
def _place_whole(tree, q, v, memory):
    place_whole(tree, q, v, memory)
    ws, _ = in_memory(tree, memory)
    carried = ws.Ic[0]
    return carried[0], scale3(1.0 / carried[0], mass_moment(carried)), ws.f[0]


@kernel
def _derivatives_of_whole(tree, at_center, mass, c, h, memory, g, Dq, Dv):
    _, x = in_memory(tree, memory)
    center_of_whole(tree, memory, g)
    for i in range(6, 6 + tree.nv):
        by_q = (x.by_q[0, i], x.by_q[1, i], x.by_q[2, i], x.by_q[3, i], x.by_q[4, i], x.by_q[5, i])
        by_v = (x.M[0, i], x.M[1, i], x.M[2, i], x.M[3, i], x.M[4, i], x.M[5, i])
        store_about(at_center, c, h, i - 6, by_q, by_v, g, Dq, Dv)


@kernel
def _add_curvature_of_whole(tree, memory, w, scale, hessian):
    _, x = in_memory(tree, memory)
    nv = tree.nv
    curve_whole(tree, memory, w, 0.0)
    for i in range(nv):
        for j in range(nv):
            hessian[i, j] += 0.5 * scale * (x.qq[6 + i, 6 + j] + x.qq[6 + j, 6 + i])
            hessian[i, nv + j] += scale * x.qa[6 + i, 6 + j]
            hessian[nv + j, i] += scale * x.qa[6 + i, 6 + j]


by_rods(place_momentum, _place, _place_whole)
by_rods(momentum_derivatives, _derivatives, _derivatives_of_whole)
by_rods(add_own_curvature, _add_curvature, _add_curvature_of_whole)
