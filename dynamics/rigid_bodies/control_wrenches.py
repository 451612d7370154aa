# mypy: allow-untyped-defs, allow-untyped-calls
"""Wrenches that controls set, on points of rods and on bodies; see loads.py."""

from ddp.compiling.kernel import inline, kernel
from dynamics.geometry.spatial import (
    add3,
    angular,
    cross3,
    join,
    placement,
    rotate,
    rotate_back,
    rotation_product,
    scale3,
)
from dynamics.rigid_bodies.places import at_place, take_up
from dynamics.rods.memory import RodMemory, of_rods


@inline
def site(tree, c, ws, m):
    """Attitude and place of a wrench."""
    b, k, F = tree.sites[c, 0], tree.sites[c, 1], tree.site_pose[c]
    R, p = placement(F)
    if k >= 0:
        return rotation_product(m.R[k], R), add3(m.p[k], rotate(m.R[k], p))
    return rotation_product(ws.R[b], R), add3(ws.p[b], rotate(ws.R[b], p))


@inline
def given(tree, c, u, R):
    """Force and couple of a wrench, on the side of R."""
    at = tree.sites[c, 3]
    f, n = (-u[at], -u[at + 1], -u[at + 2]), (-u[at + 3], -u[at + 4], -u[at + 5])
    if tree.sites[c, 2] > 0:
        return rotate(R, f), rotate(R, n)
    return add3(f, scale3(0.0, (R[0], R[1], R[2]))), add3(n, scale3(0.0, (R[0], R[1], R[2])))


@kernel
def see_wrench(tree, c, u, order, ws, m, L):
    """A wrench of controls."""
    R, p = site(tree, c, ws, m)
    f, n = given(tree, c, u, R)
    nothing = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    b, k, follows = tree.sites[c, 0], tree.sites[c, 1], tree.sites[c, 2] > 0
    take_up(tree, b, k, p, f, n, nothing, nothing, follows, order, ws, m, L)


@inline
def _seen(tree, c, R, s, p):
    """(t ; a) of a motion at a wrench, along the axes of its controls."""
    t, a = at_place(s, p)
    if tree.sites[c, 2] > 0:
        return join(rotate_back(R, t), rotate_back(R, a))
    return join(t, a)


@of_rods
def add_wrench_columns(tree, scale, column, ws, Ru):
    """Ru (nv, .) += scale ∂R/∂u, in the columns of controls from ``column`` on, of wrenches."""
    m = RodMemory(ws.rods, tree)
    for c in range(tree.pushes):
        b, k, at = tree.sites[c, 0], tree.sites[c, 1], column + tree.sites[c, 3]
        R, p = site(tree, c, ws, m)
        j = tree.iv[b] + tree.nj[b] - 1
        while j >= 0:
            s = ws.s[j]
            if k >= 0 and tree.body[j] == b:
                s = m.s[tree.column[tree.rod[b]] + (k - tree.first[tree.rod[b]]) * tree.nj[b] + j - tree.iv[b]]
            seen = _seen(tree, c, R, s, p)
            for l in range(6):
                Ru[j, at + l] -= scale * seen[l]
            j = tree.previous[j]


@of_rods
def add_wrench_curvature(tree, ws, qu):
    """qu (nv, cables) += ∂²(ω·R)/∂q∂u of wrenches, after ``virtual_velocities``."""
    m = RodMemory(ws.rods, tree)
    for c in range(tree.pushes):
        b, k, at = tree.sites[c, 0], tree.sites[c, 1], tree.sites[c, 3]
        R, p = site(tree, c, ws, m)
        w = ws.w[b] if k < 0 else m.w[k]
        j = tree.iv[b] + tree.nj[b] - 1
        while j >= 0:
            s, chi = ws.s[j], ws.chi[j]
            if k >= 0 and tree.body[j] == b:
                row = tree.column[tree.rod[b]] + (k - tree.first[tree.rod[b]]) * tree.nj[b] + j - tree.iv[b]
                s, chi = m.s[row], m.chi[row]
            if tree.sites[c, 2] == 0:  # the virtual velocity of the place, as the world sees it, turns with s
                u, turn = at_place(w, p)
                t, a = at_place(chi, p)
                seen = join(add3(t, cross3(angular(s), u)), add3(a, cross3(angular(s), turn)))
            else:
                seen = _seen(tree, c, R, chi, p)
            for l in range(6):
                qu[j, at + l] -= seen[l]
            j = tree.previous[j]
