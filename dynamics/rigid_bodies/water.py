# mypy: allow-untyped-defs, allow-untyped-calls
"""Drag and added mass of water at points of rods; see loads.py."""

from ddp.compiling.kernel import inline, kernel
from ddp.machine.number import square_root
from dynamics.geometry.spatial import (
    add3,
    add6,
    cross3,
    cross_force,
    cross_motion,
    dot3,
    rotate,
    rotate_back,
    scale3,
    sub3,
    unit6,
)
from dynamics.rigid_bodies.places import at_place, wrench_at

SLOW = 1e-12
"""ε² of |u| = √(u² + ε²) [m²/s²]."""


@inline
def along_axes(R, d, a):
    """R diag(d) Rᵀ a."""
    x = rotate_back(R, a)
    return rotate(R, (d[0] * x[0], d[1] * x[1], d[2] * x[2]))


@kernel
def see_water(tree, k, rates, m, L):
    """Drag and added mass of a point."""
    R, p, mass, drag = m.R[k], m.p[k], tree.added[k], tree.drag[k]
    (u, turn), (a, _) = at_place(m.v[k], p), at_place(m.a[k], p)
    Au, Du, speed = along_axes(R, mass, u), along_axes(R, drag, u), square_root(dot3(u, u) + SLOW)
    inverse = 1.0 / speed
    f = add3(add3(along_axes(R, mass, a), cross3(turn, Au)), scale3(speed, Du))
    m.f[k] = add6(m.f[k], wrench_at(f, cross3(u, Au), p))
    if not rates:
        return
    for c in range(6):
        t, s = at_place(unit6(c), p)
        At, Dt = along_axes(R, mass, t), along_axes(R, drag, t)
        by_a = wrench_at(At, scale3(0.0, p), p)
        swept, _ = at_place(cross_motion(m.v[k], unit6(c)), p)
        force = add3(add3(cross3(s, Au), cross3(turn, At)), add3(scale3(speed, Dt), scale3(inverse * dot3(u, t), Du)))
        force = sub3(force, along_axes(R, mass, swept))
        by_v = wrench_at(force, add3(cross3(t, Au), cross3(u, At)), p)
        for l in range(6):
            L.A[k, 6 * l + c] += by_a[l]
            L.B[k, 6 * l + c] += by_v[l]


@kernel
def curve_water(tree, k, m, L):
    """S, p and ζ of ``see_water``."""
    R, p, mass, drag = m.R[k], m.p[k], tree.added[k], tree.drag[k]
    (u, turn), (wu, wt) = at_place(m.v[k], p), at_place(m.w[k], p)
    Au, c, speed = along_axes(R, mass, u), along_axes(R, drag, wu), square_root(dot3(u, u) + SLOW)
    inverse = 1.0 / speed
    cu = dot3(c, u)
    L.p[k] = add6(L.p[k], wrench_at(along_axes(R, mass, wu), scale3(0.0, p), p))
    turned = add3(cross3(wu, turn), cross3(wt, u))
    force = add3(along_axes(R, mass, turned), cross3(Au, wt))
    force = add3(force, add3(scale3(speed, c), scale3(cu * inverse, u)))
    L.z[k] = add6(L.z[k], add6(wrench_at(force, cross3(Au, wu), p), cross_force(m.v[k], L.p[k])))
    for i in range(6):
        t, s = at_place(unit6(i), p)
        At, ut = along_axes(R, mass, t), dot3(u, t)
        force = add3(along_axes(R, mass, add3(cross3(wu, s), cross3(wt, t))), cross3(At, wt))
        dragged = add3(scale3(inverse * ut, c), scale3(inverse * dot3(c, t), u))
        dragged = add3(dragged, add3(scale3(cu * inverse, t), scale3(-cu * ut * inverse * inverse * inverse, u)))
        column = wrench_at(add3(force, dragged), cross3(At, wu), p)
        for l in range(6):
            L.S[k, 6 * l + i] += column[l]
