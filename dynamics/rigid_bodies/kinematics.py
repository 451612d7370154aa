# mypy: allow-untyped-defs, allow-untyped-calls
"""Forward pass over the tree: placements, velocities and accelerations of all bodies, in world axes.

The common reference point is the world's origin, or the root body's frame: nothing in the dynamics depends on where
a root stands, and numbers stay small far from the origin.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ddp.compiling.kernel import kernel
from dynamics.arrays.lanes import lane_matrix
from dynamics.arrays.views import view, views_of
from dynamics.geometry.spatial import (
    add6,
    cross_motion,
    inertia_times,
    load3,
    load6,
    load9,
    load10,
    momentum_operator,
    move_inertia,
    scale6,
    store,
)
from dynamics.rigid_bodies.bodies import carry, move_body, place_body
from dynamics.robots.tree import Tree


class Workspace(NamedTuple):
    """Working memory of one knot, by the symbols of spatial.py; f, hKw, z become composites bottom-up.

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
    nb, nv, dtype = tree.nb, tree.nv, like.dtype
    return Workspace(
        np.empty((nb, 9), dtype), np.empty((nb, 3), dtype), np.empty((nb, 6), dtype), np.empty((nb, 6), dtype),
        np.empty((nb, 6), dtype), np.empty((nb, 10), dtype), np.empty((nb, 10), dtype), np.empty((nb, 6), dtype),
        np.empty((nb, 12), dtype), np.empty((nb, 12), dtype), np.empty((nb, 12), dtype), np.empty((nb, 3), dtype),
        np.empty((nv, 6), dtype), np.empty((nv, 6), dtype), np.empty((nv, 6), dtype), np.empty((nv, 6), dtype),
        np.empty((nv, 6), dtype), np.empty((nv, 6), dtype),
    )  # fmt: skip


@kernel
def lane_workspace(tree, arena):
    """A workspace for eight knots."""
    nb, nv = tree.nb, tree.nv
    R, p = lane_matrix(arena, nb, 9), lane_matrix(arena, nb, 3)
    v, a, w = lane_matrix(arena, nb, 6), lane_matrix(arena, nb, 6), lane_matrix(arena, nb, 6)
    I, Ic, f = lane_matrix(arena, nb, 10), lane_matrix(arena, nb, 10), lane_matrix(arena, nb, 6)
    hK, hKc, hKw = lane_matrix(arena, nb, 12), lane_matrix(arena, nb, 12), lane_matrix(arena, nb, 12)
    z = lane_matrix(arena, nb, 3)
    s, psi, psidd = lane_matrix(arena, nv, 6), lane_matrix(arena, nv, 6), lane_matrix(arena, nv, 6)
    eta, chi, Y = lane_matrix(arena, nv, 6), lane_matrix(arena, nv, 6), lane_matrix(arena, nv, 6)
    return Workspace(R, p, v, a, w, I, Ic, f, hK, hKc, hKw, z, s, psi, psidd, eta, chi, Y)


def lane_workspace_size(tree: Tree) -> int:
    """How many lanes ``lane_workspace`` takes."""
    return 95 * tree.nb + 36 * tree.nv


@kernel
def clear(M):
    """M := 0."""
    for i in range(M.shape[0]):
        for j in range(M.shape[1]):
            M[i, j] = 0.0


@kernel
def place_bodies(tree, q, origin_at_root, ws):
    """R, p of every body and the columns s of every degree of freedom."""
    _place_bodies(tree, view(q), origin_at_root, views_of(ws))


@kernel
def _place_bodies(tree, q, origin_at_root, ws):
    for b in range(tree.nb):
        place_body(tree, b, q, origin_at_root, ws)


@kernel
def velocities(tree, qd, ws):
    """v = v_p + s q', ψ' = v_p × s, η = ψ' + v × s; each body's own I and (h, K) = momentum operator of (I, v)."""
    for b in range(tree.nb):
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
    """Velocities, accelerations and forces: v, a, ψ', ψ'', η, and each body's own I, (h, K), f.

    They come after ``place_bodies`` with the origin at the root, which is what a root that floats is written out for.
    v = v_p + s q'    a = a_p + s q'' + v × s q'    ψ' = v_p × s    η = ψ' + v × s    ψ'' = a_p × s + v_p × ψ'
    f = I a + v ×* (I v) - f_ext;  a_0 = -gravity.  I, (h, K) and f are written to Ic, hKc and f, to be summed there.
    fext (nb, 6): a wrench on each body in its own frame, or no row at all.
    """
    _forces(tree, view(qd), view(qdd), view(fext), views_of(ws))


@kernel
def _forces(tree, qd, qdd, fext, ws):
    for b in range(tree.nb):
        move_body(tree, b, qd, qdd, fext, ws)


@kernel
def add_accelerations(tree, qdd, ws):
    """Add the effect of accelerations q'' to a, ψ'' and the composites f, where these are those of q'' = 0.

    A joint's motion δ = Σ s q'' moves all it carries: Δf = Iᶜ w_p + Σ Iᶜ_l δ_l over the joint and those behind it,
    w = w_p + δ the acceleration that q'' adds to a body.
    """
    _add_accelerations(tree, view(qdd), views_of(ws))


@kernel
def _add_accelerations(tree, qdd, ws):
    for b in range(tree.nb):
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
    for b in range(tree.nb - 1, -1, -1):
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
    for b in range(tree.nb - 1, -1, -1):
        parent = tree.parent[b]
        if parent >= 0:
            for k in range(quantity.shape[1]):
                quantity[parent, k] += quantity[b, k]


@kernel
def composite_inertias(tree, ws):
    """Ic: the inertia of each body with all it carries."""
    for b in range(tree.nb):
        store(ws.Ic, b, load10(ws.I, b))
    sum_over_subtrees(tree, ws.Ic)


@kernel
def sum_composites(tree, ws):
    """Ic, hKc and f of each body with all it carries, after ``forces``."""
    _sum_composites(tree, views_of(ws))


@kernel
def _sum_composites(tree, ws):
    for b in range(tree.nb - 1, -1, -1):
        carry(tree, b, ws)


@kernel
def composites(tree, q, v, a, fext, ws):
    """The whole forward pass, and the composites Ic, f, hKc: what the derivatives of inverse dynamics need."""
    place_bodies(tree, q, True, ws)
    forces(tree, v, a, fext, ws)
    sum_composites(tree, ws)
