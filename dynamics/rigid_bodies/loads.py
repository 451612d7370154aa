# mypy: allow-untyped-defs, allow-untyped-calls
"""Loads on rods and bodies in residuals: springs of contact, water, wrenches of controls; see rods/loads.py.

At a place p, in motions (t ; a) of it, t = s_l + s_a × p, a load is a force f and a couple n, on the side of R, so that
a force that pushes counts negative. One that does not turn with its place, f = ∇U(p) or constant, varies by

    N: (K t + f × a ; n × a),  K = ∂f/∂p        and under virtual velocities u, w of the place
    L: (D_u K t + (K u) × a + K (a × u) ; u × (K t + f × a) + w × (n × a))        G = (K u ; u × f + w × n)

One of water depends on the velocities u, ω and the acceleration of a place, in the axes of its section: with the mass A
of water and the drag D, (A a + ω × A u + |u| D u ; u × A u), Kirchhoff's equations and Morison's drag.
"""

from __future__ import annotations

from ddp.compiling.kernel import inline, kernel
from ddp.machine.number import all_less, square_root, where_less
from dynamics.geometry.spatial import (
    add3,
    add6,
    angular,
    cross3,
    cross_force,
    cross_motion,
    dot3,
    join,
    linear,
    rotate,
    rotate_back,
    rotation_product,
    scale3,
    sub3,
)
from dynamics.rigid_bodies.loops import shift_of_root
from dynamics.rods.loads import add_virtual_loads, loads_of, sum_loads
from dynamics.rods.memory import RodMemory, of_rods

SLOW = 1e-12
"""ε² of |u| = √(u² + ε²) [m²/s²]."""


@inline
def at_place(x, p):
    """(t ; a) of a motion at p."""
    return add3(linear(x), cross3(angular(x), p)), angular(x)


@inline
def wrench_at(f, n, p):
    """The wrench of a force and a couple at p."""
    return join(f, add3(n, cross3(p, f)))


@inline
def unit_motion(c):
    """The c-th unit motion."""
    return (
        1.0 if c == 0 else 0.0, 1.0 if c == 1 else 0.0, 1.0 if c == 2 else 0.0,
        1.0 if c == 3 else 0.0, 1.0 if c == 4 else 0.0, 1.0 if c == 5 else 0.0,
    )  # fmt: skip


@inline
def along_axes(R, d, a):
    """R diag(d) Rᵀ a."""
    x = rotate_back(R, a)
    return rotate(R, (d[0] * x[0], d[1] * x[1], d[2] * x[2]))


@of_rods
def see_loads(tree, q, v, u, ws, rates):
    """Add loads to the forces of points and bodies, after ``forces``; if ``rates``, A, B, N of all places, and sums."""
    if tree.laden == 0:
        return
    m, L = RodMemory(ws.rods, tree), loads_of(tree, ws)
    if rates:
        for k in range(tree.laden):
            for l in range(36):
                L.A[k, l] = L.B[k, l] = L.N[k, l] = 0.0
    if tree.wet > 0:
        for b in range(tree.nb):
            if tree.rod[b] >= 0:
                base = tree.first[tree.rod[b]]
                for k in range(base + 1, base + tree.count[tree.rod[b]] - 1):
                    see_water(tree, k, rates, m, L)
    for b in range(tree.nb):
        if tree.steady > 0 and tree.rod[b] >= 0:
            see_surfaces(tree, b, q, rates, ws, m, L)
    for c in range(tree.pushes):
        see_wrench(tree, c, u, rates, ws, m, L)
    if rates:
        sum_loads(tree, ws, False)


@of_rods
def see_loads_virtually(tree, q, u, ws):
    """S, L, p, ζ, G of all places, and their sums, after ``virtual_velocities``."""
    if tree.laden == 0:
        return
    m, L = RodMemory(ws.rods, tree), loads_of(tree, ws)
    zero = 0.0 * ws.w[0, 0]
    for k in range(tree.laden):
        L.p[k] = L.z[k] = L.G[k] = zero, zero, zero, zero, zero, zero
        for l in range(36):
            L.S[k, l] = L.L[k, l] = 0.0
    if tree.wet > 0:
        for b in range(tree.nb):
            if tree.rod[b] >= 0:
                base = tree.first[tree.rod[b]]
                for k in range(base + 1, base + tree.count[tree.rod[b]] - 1):
                    curve_water(tree, k, m, L)
    for b in range(tree.nb):
        if tree.steady > 0 and tree.rod[b] >= 0:
            curve_surfaces(tree, b, q, ws, m, L)
    for c in range(tree.pushes):
        curve_wrench(tree, c, u, ws, m, L)
    sum_loads(tree, ws, True)
    for b in range(tree.nb):
        if tree.rod[b] >= 0:
            add_virtual_loads(tree, b, ws)


# -- loads that do not turn with their place -------------------------------------------------------------------------


@kernel
def add_steady(k, p, f, n, K, L):
    """N of a force f with ∂f/∂p = K and a couple n at p, into row k."""
    for c in range(6):
        t, a = at_place(unit_motion(c), p)
        column = wrench_at(add3(rotate(K, t), cross3(f, a)), cross3(n, a), p)
        for l in range(6):
            L.N[k, 6 * l + c] += column[l]


@kernel
def add_steady_curvature(k, p, f, n, K, DK, w, L):
    """L and G of a force f, ∂f/∂p = K, D_u K, and a couple n at p under the virtual velocity w, into row k."""
    u, turn = at_place(w, p)
    Ku = rotate(K, u)
    L.G[k] = add6(L.G[k], wrench_at(Ku, add3(cross3(u, f), cross3(turn, n)), p))
    for c in range(6):
        t, a = at_place(unit_motion(c), p)
        Kt = rotate(K, t)
        force = add3(add3(rotate(DK, t), cross3(Ku, a)), rotate(K, cross3(a, u)))
        couple = add3(cross3(u, add3(Kt, cross3(f, a))), cross3(turn, cross3(n, a)))
        column = wrench_at(force, couple, p)
        for l in range(6):
            L.L[k, 6 * l + c] += column[l]


@inline
def pressure(row, deep):
    """The force of a spring of contact, and its first two derivatives, by how deep a sphere is."""
    stiffness, twice, epsilon = row[7], int(row[8]), row[9]
    square = epsilon * epsilon + 1e-24
    r = square_root(deep * deep + square)
    apart = where_less(deep, 0.0, r - deep, 1.0)
    sigma = where_less(deep, 0.0, 0.5 * square / apart, 0.5 * (deep + r))
    root = square_root(sigma)
    force = stiffness * root
    for _ in range(twice - 1):
        force = force * root
    exponent = 0.5 * twice
    bent = 0.5 * square / (r * sigma * r * r) + (exponent - 1.0) / (r * r)
    if epsilon == 0.0:  # so that lanes that do not touch are as if others did not, either
        force = where_less(deep, 0.0, 0.0, force)
    return force, exponent * force / r, exponent * force * bent


@inline
def met(row, p, radius):
    """How deep a sphere at p is in a surface; the gradient g of that, 1/r and the axis of a cylinder."""
    origin, axis = (row[0], row[1], row[2]), (row[3], row[4], row[5])
    x = sub3(p, origin)
    along = dot3(axis, x)
    y = sub3(x, scale3(along, axis))
    inverse = 1.0 / square_root(dot3(y, y) + 1e-24)
    if row[6] == 0.0:
        return radius - along, add3(scale3(-1.0, axis), scale3(0.0, y)), 0.0 * inverse, axis
    return radius + inverse * dot3(y, y) - row[6], scale3(inverse, y), inverse, axis


@inline
def outer9(a, b):
    """a bᵀ."""
    return scale3(a[0], b) + scale3(a[1], b) + scale3(a[2], b)


@inline
def sum9(A, B):
    """A + B."""
    return (
        A[0] + B[0], A[1] + B[1], A[2] + B[2], A[3] + B[3], A[4] + B[4], A[5] + B[5], A[6] + B[6], A[7] + B[7],
        A[8] + B[8],
    )  # fmt: skip


@inline
def scale9(k, A):
    """k A."""
    return k * A[0], k * A[1], k * A[2], k * A[3], k * A[4], k * A[5], k * A[6], k * A[7], k * A[8]


@inline
def bent_distance(g, inverse, axis):
    """The Hessian of the distance to an axis: (1 - a aᵀ - g gᵀ) / r."""
    one = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
    return scale9(inverse, sum9(one, scale9(-1.0, sum9(outer9(axis, axis), outer9(g, g)))))


@kernel
def see_surfaces(tree, b, q, rates, ws, m, L):
    """Weights of the points of the rod below b in water, and what surfaces do to it."""
    base = tree.first[tree.rod[b]]
    last = base + tree.count[tree.rod[b]] - 1
    nothing = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    for k in range(base + 1, last):
        if tree.heavy[k] != 0.0:
            p = m.p[k]
            f = add3(scale3(-tree.heavy[k], (tree.pull[0], tree.pull[1], tree.pull[2])), scale3(0.0, p))
            n = scale3(0.0, p)
            m.f[k] = add6(m.f[k], wrench_at(f, n, p))
            if rates:
                add_steady(k, p, f, n, nothing, L)
    shift = shift_of_root(tree, tree.root[b], q)
    for c in range(tree.touches):
        k = tree.touch[c, 1]
        if base < k <= last:
            p, row = m.p[k], tree.surfaces[tree.touch[c, 0]]
            deep, g, inverse, axis = met(row, add3(p, shift), tree.touch_radius[c])
            if row[9] == 0.0 and all_less(deep, 0.0):
                continue
            force, stiff, _ = pressure(row, deep)
            f, n = scale3(force, g), scale3(0.0, p)
            K = sum9(scale9(stiff, outer9(g, g)), scale9(force, bent_distance(g, inverse, axis)))
            if k < last:
                m.f[k] = add6(m.f[k], wrench_at(f, n, p))
            else:
                ws.f[b] = add6(ws.f[b], wrench_at(f, n, p))
            if rates:
                add_steady(k if k < last else tree.points + b, p, f, n, K, L)


@kernel
def curve_surfaces(tree, b, q, ws, m, L):
    """Second order of ``see_surfaces``."""
    base = tree.first[tree.rod[b]]
    last = base + tree.count[tree.rod[b]] - 1
    nothing = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    for k in range(base + 1, last):
        if tree.heavy[k] != 0.0:
            p = m.p[k]
            f = add3(scale3(-tree.heavy[k], (tree.pull[0], tree.pull[1], tree.pull[2])), scale3(0.0, p))
            add_steady_curvature(k, p, f, scale3(0.0, p), nothing, nothing, m.w[k], L)
    shift = shift_of_root(tree, tree.root[b], q)
    for c in range(tree.touches):
        k = tree.touch[c, 1]
        if base < k <= last:
            p, row, w = m.p[k], tree.surfaces[tree.touch[c, 0]], m.w[k]
            deep, g, inverse, axis = met(row, add3(p, shift), tree.touch_radius[c])
            if row[9] == 0.0 and all_less(deep, 0.0):
                continue
            force, stiff, bent = pressure(row, deep)
            u, _ = at_place(w, p)
            H = bent_distance(g, inverse, axis)
            gu, Hu = dot3(g, u), rotate(H, u)
            K = sum9(scale9(stiff, outer9(g, g)), scale9(force, H))
            mixed = sum9(outer9(Hu, g), outer9(g, Hu))
            DK = sum9(scale9(bent * gu, outer9(g, g)), scale9(stiff - force * inverse, mixed))
            DK = sum9(DK, scale9(gu * (stiff - force * inverse), H))
            to = k if k < last else tree.points + b
            add_steady_curvature(to, p, scale3(force, g), scale3(0.0, p), K, DK, w, L)


# -- water -----------------------------------------------------------------------------------------------------------


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
        t, s = at_place(unit_motion(c), p)
        At, Dt = along_axes(R, mass, t), along_axes(R, drag, t)
        by_a = wrench_at(At, scale3(0.0, p), p)
        swept, _ = at_place(cross_motion(m.v[k], unit_motion(c)), p)
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
        t, s = at_place(unit_motion(i), p)
        At, ut = along_axes(R, mass, t), dot3(u, t)
        force = add3(along_axes(R, mass, add3(cross3(wu, s), cross3(wt, t))), cross3(At, wt))
        dragged = add3(scale3(inverse * ut, c), scale3(inverse * dot3(c, t), u))
        dragged = add3(dragged, add3(scale3(cu * inverse, t), scale3(-cu * ut * inverse * inverse * inverse, u)))
        column = wrench_at(add3(force, dragged), cross3(At, wu), p)
        for l in range(6):
            L.S[k, 6 * l + i] += column[l]


# -- wrenches of controls --------------------------------------------------------------------------------------------


@inline
def site(tree, c, ws, m):
    """Attitude and place of a wrench."""
    b, k, F = tree.sites[c, 0], tree.sites[c, 1], tree.site_pose[c]
    R, p = (F[0], F[1], F[2], F[3], F[4], F[5], F[6], F[7], F[8]), (F[9], F[10], F[11])
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
def see_wrench(tree, c, u, rates, ws, m, L):
    """A wrench of controls."""
    b, k = tree.sites[c, 0], tree.sites[c, 1]
    R, p = site(tree, c, ws, m)
    f, n = given(tree, c, u, R)
    nothing = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    if k >= 0:
        m.f[k] = add6(m.f[k], wrench_at(f, n, p))
    else:
        ws.f[b] = add6(ws.f[b], wrench_at(f, n, p))
    if rates and tree.sites[c, 2] == 0:
        add_steady(k if k >= 0 else tree.points + b, p, f, n, nothing, L)


@kernel
def curve_wrench(tree, c, u, ws, m, L):
    """L and G of a wrench of controls that keeps its direction."""
    if tree.sites[c, 2] == 0:
        b, k = tree.sites[c, 0], tree.sites[c, 1]
        R, p = site(tree, c, ws, m)
        f, n = given(tree, c, u, R)
        nothing = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        if k >= 0:
            add_steady_curvature(k, p, f, n, nothing, nothing, m.w[k], L)
        else:
            add_steady_curvature(tree.points + b, p, f, n, nothing, nothing, ws.w[b], L)


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
