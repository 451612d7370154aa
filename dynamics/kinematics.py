"""Forward pass over the tree: placements, velocities and accelerations of all bodies, in world axes.

The common reference point is the world's origin, or the root body's frame: nothing in the dynamics depends on where
a root stands, and numbers stay small far from the origin.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ddp.kernel import inline, kernel
from dynamics.joints import CONTINUOUS, FREE_FLYER, PLANAR, PRISMATIC, SPHERICAL, TRANSLATION
from dynamics.lanes import lane_matrix, sine_cosine
from dynamics.lie import quaternion_to_rotation
from dynamics.model import Model
from dynamics.spatial import (
    add3,
    add6,
    angular,
    axis_rotation,
    cross3,
    cross_force,
    cross_motion,
    inertia_times,
    join,
    linear,
    load3,
    load6,
    load9,
    load10,
    load12,
    momentum,
    momentum_operator,
    move_force,
    move_inertia,
    rotate,
    rotation_product,
    scale3,
    scale6,
    store,
    sub6,
)
from dynamics.views import view


class Workspace(NamedTuple):
    """What the kernels keep of one knot, by the symbols of spatial.py; f, hKw, z become composites bottom-up.

    Per body: R (9), p (3), v, a, w (6), I and its composite Ic (10), f (6), hK and its composite hKc, hKw (12), z (3).
    Per degree of freedom: s, psi (ψ'), psidd (ψ''), eta (η), chi = w_p × s (6), and Y = Ic s.
    """

    R: np.ndarray
    p: np.ndarray
    v: np.ndarray
    a: np.ndarray
    w: np.ndarray
    I: np.ndarray
    Ic: np.ndarray
    f: np.ndarray
    hK: np.ndarray
    hKc: np.ndarray
    hKw: np.ndarray
    z: np.ndarray
    s: np.ndarray
    psi: np.ndarray
    psidd: np.ndarray
    eta: np.ndarray
    chi: np.ndarray
    Y: np.ndarray


@kernel
def workspace(tree, like):
    """A workspace for one knot, of the number type of the array ``like``."""
    nb, nv, dtype = tree.parent.size, tree.body.size, like.dtype
    return Workspace(
        np.empty((nb, 9), dtype), np.empty((nb, 3), dtype), np.empty((nb, 6), dtype), np.empty((nb, 6), dtype),
        np.empty((nb, 6), dtype), np.empty((nb, 10), dtype), np.empty((nb, 10), dtype), np.empty((nb, 6), dtype),
        np.empty((nb, 12), dtype), np.empty((nb, 12), dtype), np.empty((nb, 12), dtype), np.empty((nb, 3), dtype),
        np.empty((nv, 6), dtype), np.empty((nv, 6), dtype), np.empty((nv, 6), dtype), np.empty((nv, 6), dtype),
        np.empty((nv, 6), dtype), np.empty((nv, 6), dtype),
    )  # fmt: skip


@inline
def joint_displacement(kind, s, q, i):
    """(R, p) of a joint from its numbers q[i], q[i + 1], ...; s: the motion of its first degree of freedom."""
    zero = 0.0 * q[i]
    one, still = 1.0 + zero, (zero, zero, zero)
    if kind == FREE_FLYER:
        return quaternion_to_rotation((q[i + 3], q[i + 4], q[i + 5], q[i + 6])), (q[i], q[i + 1], q[i + 2])
    if kind == SPHERICAL:
        return quaternion_to_rotation((q[i], q[i + 1], q[i + 2], q[i + 3])), still
    if kind == PLANAR:
        c, sine = q[i + 2], q[i + 3]
        return (c, -sine, zero, sine, c, zero, zero, zero, one), (q[i], q[i + 1], zero)
    if kind == TRANSLATION:
        return (one, zero, zero, zero, one, zero, zero, zero, one), (q[i], q[i + 1], q[i + 2])
    if kind == PRISMATIC:
        return (one, zero, zero, zero, one, zero, zero, zero, one), scale3(q[i], linear(s))
    if kind == CONTINUOUS:
        return axis_rotation(angular(s), q[i], q[i + 1]), still
    sine, cosine = sine_cosine(q[i])
    return axis_rotation(angular(s), cosine, sine), scale3(q[i], linear(s))


@kernel
def lane_workspace(tree, arena):
    """A workspace for eight knots."""
    nb, nv = tree.parent.size, tree.body.size
    R, p = lane_matrix(arena, nb, 9), lane_matrix(arena, nb, 3)
    v, a, w = lane_matrix(arena, nb, 6), lane_matrix(arena, nb, 6), lane_matrix(arena, nb, 6)
    I, Ic, f = lane_matrix(arena, nb, 10), lane_matrix(arena, nb, 10), lane_matrix(arena, nb, 6)
    hK, hKc, hKw = lane_matrix(arena, nb, 12), lane_matrix(arena, nb, 12), lane_matrix(arena, nb, 12)
    z = lane_matrix(arena, nb, 3)
    s, psi, psidd = lane_matrix(arena, nv, 6), lane_matrix(arena, nv, 6), lane_matrix(arena, nv, 6)
    eta, chi, Y = lane_matrix(arena, nv, 6), lane_matrix(arena, nv, 6), lane_matrix(arena, nv, 6)
    return Workspace(R, p, v, a, w, I, Ic, f, hK, hKc, hKw, z, s, psi, psidd, eta, chi, Y)


def lane_workspace_size(tree: Model) -> int:
    """How many lanes ``lane_workspace`` takes."""
    return 95 * len(tree.parent) + 36 * len(tree.body)


@kernel
def clear(M):
    """M := 0."""
    for i in range(M.shape[0]):
        for j in range(M.shape[1]):
            M[i, j] = 0.0


@kernel
def views_of(tree):
    """A tree whose arrays are views, for kernels that call many others."""
    return Model(
        view(tree.parent), view(tree.kind), view(tree.iq), view(tree.iv), view(tree.nj), view(tree.placement),
        view(tree.subspace), view(tree.inertia), view(tree.armature), view(tree.gravity), view(tree.damping),
        view(tree.body), view(tree.previous), view(tree.segment), view(tree.relatives),
    )  # fmt: skip


@kernel
def workspace_views(ws):
    """A workspace whose arrays are views."""
    return Workspace(
        view(ws.R), view(ws.p), view(ws.v), view(ws.a), view(ws.w), view(ws.I), view(ws.Ic), view(ws.f), view(ws.hK),
        view(ws.hKc), view(ws.hKw), view(ws.z), view(ws.s), view(ws.psi), view(ws.psidd), view(ws.eta), view(ws.chi),
        view(ws.Y),
    )  # fmt: skip


@inline
def row(rows, i):
    """Where a workspace keeps body, or degree of freedom, i: there, or at rows[i]."""
    if rows is None:
        return i
    return rows[i]


@kernel
def place_bodies(tree, q, origin_at_root, ws):
    """R, p of every body and the columns s of every degree of freedom."""
    _place_bodies(views_of(tree), view(q), origin_at_root, workspace_views(ws))


@kernel
def _place_bodies(tree, q, origin_at_root, ws):
    for b in range(tree.parent.size):
        place_body(tree, b, None, None, q, origin_at_root, ws)


@inline
def place_body(tree, b, bodies, dofs, q, origin_at_root, ws):
    """R, p of body b, whose parent's are known, and its columns s; bodies, dofs: see ``row``."""
    i, iv, kind = tree.iq[b], tree.iv[b], tree.kind[b]
    local = load12(tree.placement, b)
    R, p = (
        (local[0], local[1], local[2], local[3], local[4], local[5], local[6], local[7], local[8]),
        (local[9], local[10], local[11]),
    )
    turn, shift = joint_displacement(kind, load6(tree.subspace, iv), q, i)
    p = add3(p, rotate(R, shift))
    R = rotation_product(R, turn)
    parent = tree.parent[b]
    if parent >= 0:
        Rp = load9(ws.R, row(bodies, parent))
        p = add3(load3(ws.p, row(bodies, parent)), rotate(Rp, p))
        R = rotation_product(Rp, R)
    elif origin_at_root:
        p = scale3(0.0, p)
    store(ws.R, row(bodies, b), R)
    store(ws.p, row(bodies, b), p)
    if kind == FREE_FLYER:
        for k in range(3):
            e = (R[k], R[3 + k], R[6 + k])
            store(ws.s, row(dofs, iv + k), join(e, scale3(0.0, e)))
            store(ws.s, row(dofs, iv + 3 + k), join(cross3(p, e), e))
    else:
        for k in range(iv, iv + tree.nj[b]):
            S = load6(tree.subspace, k)
            a = rotate(R, angular(S))
            store(ws.s, row(dofs, k), join(add3(rotate(R, linear(S)), cross3(p, a)), a))


@kernel
def velocities(tree, qd, ws):
    """v = v_p + s q', ψ' = v_p × s, η = ψ' + v × s; each body's own I and (h, K) = momentum operator of (I, v)."""
    for b in range(tree.parent.size):
        parent = tree.parent[b]
        for k in range(6):
            ws.v[b, k] = ws.v[parent, k] if parent >= 0 else 0.0
        vp = load6(ws.v, b)
        v = vp
        dofs = range(tree.iv[b], tree.iv[b] + tree.nj[b])
        for i in dofs:
            v = add6(v, scale6(qd[i], load6(ws.s, i)))
        store(ws.v, b, v)
        for i in dofs:
            s = load6(ws.s, i)
            psi = cross_motion(vp, s)
            store(ws.psi, i, psi)
            store(ws.eta, i, add6(psi, cross_motion(v, s)))
        I = move_inertia(load9(ws.R, b), load3(ws.p, b), load10(tree.inertia, b))
        store(ws.I, b, I)
        store(ws.hK, b, momentum_operator(I, v))


@kernel
def forces(tree, qd, qdd, fext, ws):
    """Velocities, accelerations and forces after ``place_bodies``: v, a, ψ', ψ'', η, and each body's own I, (h, K), f.

    v = v_p + s q'    a = a_p + s q'' + v × s q'    ψ' = v_p × s    η = ψ' + v × s    ψ'' = a_p × s + v_p × ψ'
    f = I a + v ×* (I v) - f_ext;  a_0 = -gravity.  I, (h, K) and f are written to Ic, hKc and f, to be summed there.
    fext (nb, 6): a wrench on each body in its own frame, or no row at all.
    """
    _forces(views_of(tree), view(qd), view(qdd), view(fext), workspace_views(ws))


@kernel
def _forces(tree, qd, qdd, fext, ws):
    for b in range(tree.parent.size):
        move_body(tree, b, None, None, qd, qdd, fext, ws)


@inline
def move_body(tree, b, bodies, dofs, qd, qdd, fext, ws):
    """What ``forces`` finds of body b, whose parent's velocity and acceleration are known."""
    zero = 0.0 * qd[0]
    g, iv, parent = tree.gravity, tree.iv[b], tree.parent[b]
    R, p = load9(ws.R, row(bodies, b)), load3(ws.p, row(bodies, b))
    if parent >= 0:
        vp, ap = load6(ws.v, row(bodies, parent)), load6(ws.a, row(bodies, parent))
    else:
        vp = (zero, zero, zero, zero, zero, zero)
        ap = (zero - g[0], zero - g[1], zero - g[2], zero - g[3], zero - g[4], zero - g[5])
    if parent < 0 and tree.kind[b] == FREE_FLYER:
        still = vp
        v = join(rotate(R, (qd[iv], qd[iv + 1], qd[iv + 2])), rotate(R, (qd[iv + 3], qd[iv + 4], qd[iv + 5])))
        moved = join(rotate(R, (qdd[iv], qdd[iv + 1], qdd[iv + 2])), rotate(R, (qdd[iv + 3], qdd[iv + 4], qdd[iv + 5])))
        a = add6(ap, moved)
        for k in range(3):
            e = (R[k], R[3 + k], R[6 + k])
            i, j, turned = row(dofs, iv + k), row(dofs, iv + k + 3), cross3(angular(v), e)
            store(ws.psi, i, still)
            store(ws.psi, j, still)
            store(ws.eta, i, join(turned, linear(still)))
            store(ws.eta, j, join(cross3(linear(v), e), turned))
            store(ws.psidd, i, join(cross3(angular(ap), e), linear(still)))
            store(ws.psidd, j, join(cross3(linear(ap), e), cross3(angular(ap), e)))
    else:
        v, a = vp, ap
        for i in range(iv, iv + tree.nj[b]):
            v = add6(v, scale6(qd[i], load6(ws.s, row(dofs, i))))
        for i in range(iv, iv + tree.nj[b]):
            at = row(dofs, i)
            s = load6(ws.s, at)
            psi = cross_motion(vp, s)
            turned = psi if tree.nj[b] == 1 else cross_motion(v, s)  # s × s = 0
            a = add6(a, add6(scale6(qdd[i], s), scale6(qd[i], turned)))
            store(ws.psi, at, psi)
            store(ws.eta, at, add6(psi, turned))
            store(ws.psidd, at, add6(cross_motion(ap, s), cross_motion(vp, psi)))
    store(ws.v, row(bodies, b), v)
    store(ws.a, row(bodies, b), a)
    I = move_inertia(R, p, load10(tree.inertia, b))
    hK = momentum_operator(I, v)
    f = add6(inertia_times(I, a), cross_force(v, momentum(hK)))
    if fext.shape[0] > 0:
        f = sub6(f, move_force(R, p, load6(fext, b)))
    store(ws.Ic, row(bodies, b), I)
    store(ws.hKc, row(bodies, b), hK)
    store(ws.f, row(bodies, b), f)


@kernel
def add_accelerations(tree, qdd, ws):
    """What accelerations q'' add to a, ψ'' and the composites f, where these are those of q'' = 0.

    A joint's motion δ = Σ s q'' moves all it carries: Δf = Iᶜ w_p + Σ Iᶜ_l δ_l over the joint and those behind it,
    w = w_p + δ the acceleration that q'' adds to a body.
    """
    _add_accelerations(views_of(tree), view(qdd), workspace_views(ws))


@kernel
def _add_accelerations(tree, qdd, ws):
    for b in range(tree.parent.size):
        parent = tree.parent[b]
        for k in range(6):
            ws.w[b, k] = ws.w[parent, k] if parent >= 0 else 0.0
            ws.hKw[b, k] = 0.0
        wp = load6(ws.w, b)
        w = wp
        for i in range(tree.iv[b], tree.iv[b] + tree.nj[b]):
            s = load6(ws.s, i)
            w = add6(w, scale6(qdd[i], s))
            if parent >= 0:
                store(ws.psidd, i, add6(load6(ws.psidd, i), cross_motion(wp, s)))
        store(ws.w, b, w)
        store(ws.a, b, add6(load6(ws.a, b), w))
    for b in range(tree.parent.size - 1, -1, -1):
        parent, first, I = tree.parent[b], tree.iv[b], load10(ws.Ic, b)
        moved = scale6(qdd[first], load6(ws.s, first))
        for i in range(first + 1, first + tree.nj[b]):
            moved = add6(moved, scale6(qdd[i], load6(ws.s, i)))
        carried = add6(load6(ws.hKw, b), inertia_times(I, moved))
        f = add6(load6(ws.f, b), carried)
        if parent >= 0:
            f = add6(f, inertia_times(I, load6(ws.w, parent)))
            store(ws.hKw, parent, add6(load6(ws.hKw, parent), carried))
        store(ws.f, b, f)


@kernel
def sum_over_subtrees(tree, quantity):
    """Composite of a per-body quantity: each body's own plus those of all bodies it carries."""
    for b in range(tree.parent.size - 1, -1, -1):
        parent = tree.parent[b]
        if parent >= 0:
            for k in range(quantity.shape[1]):
                quantity[parent, k] += quantity[b, k]


@kernel
def composite_inertias(tree, ws):
    """Ic: the inertia of each body with all it carries."""
    for b in range(tree.parent.size):
        store(ws.Ic, b, load10(ws.I, b))
    sum_over_subtrees(tree, ws.Ic)


@kernel
def sum_composites(tree, ws):
    """Ic, hKc and f of each body with all it carries, after ``forces``."""
    _sum_composites(views_of(tree), workspace_views(ws))


@kernel
def _sum_composites(tree, ws):
    for b in range(tree.parent.size - 1, -1, -1):
        carry(tree, b, None, ws)


@inline
def carry(tree, b, bodies, ws):
    """Add Ic, hKc and f of a body, with all it carries, to those of its parent; bodies: see ``row``."""
    if tree.parent[b] >= 0:
        own, parent = row(bodies, b), row(bodies, tree.parent[b])
        for k in range(10):
            ws.Ic[parent, k] += ws.Ic[own, k]
        for k in range(12):
            ws.hKc[parent, k] += ws.hKc[own, k]
        for k in range(6):
            ws.f[parent, k] += ws.f[own, k]


@kernel
def composites(tree, q, v, a, fext, ws):
    """The whole forward pass, and the composites Ic, f, hKc: what the derivatives of inverse dynamics need."""
    place_bodies(tree, q, True, ws)
    forces(tree, v, a, fext, ws)
    sum_composites(tree, ws)
