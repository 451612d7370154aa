# mypy: allow-untyped-defs, allow-untyped-calls
"""Loads on rods and bodies in residuals: springs of contact, water, wrenches of controls; see rods/loads.py.

At a place p, in motions (t ; a) of it, t = s_l + s_a × p, a load is a force f and a couple n, on the side of R, so that
a force that pushes counts negative. One that does not turn with its place, f = ∇U(p) or constant, varies by

    N: (K t + f × a ; n × a),  K = ∂f/∂p        and under virtual velocities u, w of the place
    L: (D_u K t + (K u) × a + K (a × u) ; u × (K t + f × a) + w × (n × a))        G = (K u ; u × f + w × n)

One of water depends on the velocities u, ω and the acceleration of a place, in the axes of its section: with the mass A
of water and the drag D, (A a + ω × A u + |u| D u ; u × A u), Kirchhoff's equations and Morison's drag.
"""

from ddp.compiling.kernel import inline, kernel
from ddp.machine.number import all_less, square_root, where_less
from dynamics.geometry.spatial import (
    add3,
    add6,
    add9,
    angular,
    cross3,
    cross_force,
    cross_motion,
    dot3,
    join,
    outer3,
    placement,
    rotate,
    rotate_back,
    rotation_product,
    scale3,
    scale9,
    sub3,
    unit6,
    velocity_at,
)
from dynamics.rigid_bodies.loops import shift_of_root
from dynamics.rods.loads import loads_of, sum_loads
from dynamics.rods.memory import RodMemory, of_rods

FORCES, RATES, VIRTUAL = range(3)
"""Orders in which loads are seen: their forces, these and how they vary with motion, or second derivatives under μ."""


@inline
def at_place(x, p):
    """(t ; a) of a motion at p."""
    return velocity_at(p, x), angular(x)


@inline
def wrench_at(f, n, p):
    """The wrench of a force and a couple at p."""
    return join(f, add3(n, cross3(p, f)))


@inline
def add_column(M, k, c, column):
    """Column c of the matrix (6, 6) in row k += six numbers."""
    for l in range(6):
        M[k, 6 * l + c] += column[l]


@kernel
def add_steady(k, p, f, n, K, L):
    """N of a force f with ∂f/∂p = K and a couple n at p, into row k."""
    for c in range(6):
        t, a = at_place(unit6(c), p)
        add_column(L.N, k, c, wrench_at(add3(rotate(K, t), cross3(f, a)), cross3(n, a), p))


@kernel
def add_steady_curvature(k, p, f, n, K, DK, w, L):
    """L and G of a force f, ∂f/∂p = K, D_u K, and a couple n at p under the virtual velocity w, into row k."""
    u, turn = at_place(w, p)
    Ku = rotate(K, u)
    L.G[k] = add6(L.G[k], wrench_at(Ku, add3(cross3(u, f), cross3(turn, n)), p))
    for c in range(6):
        t, a = at_place(unit6(c), p)
        Kt = rotate(K, t)
        force = add3(add3(rotate(DK, t), cross3(Ku, a)), rotate(K, cross3(a, u)))
        couple = add3(cross3(u, add3(Kt, cross3(f, a))), cross3(turn, cross3(n, a)))
        add_column(L.L, k, c, wrench_at(force, couple, p))


@kernel
def take_up(tree, b, k, p, f, n, K, DK, follows, order, ws, m, L):
    """A force f and a couple n at p, of the point k of the rod below b or, where k is -1, of body b itself.

    follows: whether they turn with their place; else ∂f/∂p = K and, of VIRTUAL order, D_u K.
    """
    row = k if k >= 0 else tree.points + b
    if order == VIRTUAL:
        if not follows:
            add_steady_curvature(row, p, f, n, K, DK, m.w[k] if k >= 0 else ws.w[b], L)
        return
    if k >= 0:
        m.f[k] = add6(m.f[k], wrench_at(f, n, p))
    else:
        ws.f[b] = add6(ws.f[b], wrench_at(f, n, p))
    if order == RATES and not follows:
        add_steady(row, p, f, n, K, L)


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
    """Depth of a sphere at p in a surface; the gradient g of that, 1/r and the axis of a cylinder."""
    origin, axis = (row[0], row[1], row[2]), (row[3], row[4], row[5])
    x = sub3(p, origin)
    along = dot3(axis, x)
    y = sub3(x, scale3(along, axis))
    inverse = 1.0 / square_root(dot3(y, y) + 1e-24)
    if row[6] == 0.0:
        return radius - along, add3(scale3(-1.0, axis), scale3(0.0, y)), 0.0 * inverse, axis
    return radius + inverse * dot3(y, y) - row[6], scale3(inverse, y), inverse, axis


@inline
def bent_distance(g, inverse, axis):
    """The Hessian of the distance to an axis: (1 - a aᵀ - g gᵀ) / r."""
    one = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
    return scale9(inverse, add9(one, scale9(-1.0, add9(outer3(axis, axis), outer3(g, g)))))


@kernel
def see_surfaces(tree, b, q, order, ws, m, L):
    """Weights of the points of the rod below b in water, and what surfaces do to it."""
    base = tree.first[tree.rod[b]]
    last = base + tree.count[tree.rod[b]] - 1
    nothing = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    for k in range(base + 1, last):
        if tree.heavy[k] != 0.0:
            p = m.p[k]
            f = add3(scale3(-tree.heavy[k], (tree.pull[0], tree.pull[1], tree.pull[2])), scale3(0.0, p))
            take_up(tree, b, k, p, f, scale3(0.0, p), nothing, nothing, False, order, ws, m, L)
    shift = shift_of_root(tree, tree.root[b], q)
    for c in range(tree.touches):
        k = tree.touch[c, 1]
        if base < k <= last:
            p, row = m.p[k], tree.surfaces[tree.touch[c, 0]]
            deep, g, inverse, axis = met(row, add3(p, shift), tree.touch_radius[c])
            if row[9] == 0.0 and all_less(deep, 0.0):
                continue
            force, stiff, bent = pressure(row, deep)
            H = bent_distance(g, inverse, axis)
            K = add9(scale9(stiff, outer3(g, g)), scale9(force, H))
            DK = scale9(0.0, K)
            if order == VIRTUAL:
                u, _ = at_place(m.w[k], p)
                gu, Hu = dot3(g, u), rotate(H, u)
                mixed = add9(outer3(Hu, g), outer3(g, Hu))
                DK = add9(scale9(bent * gu, outer3(g, g)), scale9(stiff - force * inverse, mixed))
                DK = add9(DK, scale9(gu * (stiff - force * inverse), H))
            on = k if k < last else -1
            take_up(tree, b, on, p, scale3(force, g), scale3(0.0, p), K, DK, False, order, ws, m, L)


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
        add_column(L.A, k, c, by_a)
        add_column(L.B, k, c, by_v)


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
        add_column(L.S, k, i, wrench_at(add3(force, dragged), cross3(At, wu), p))


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


@of_rods
def add_wrench_columns(tree, scale, column, virtual, ws, out):
    """out (nv, .) += scale ∂R/∂u, in the columns of controls from ``column`` on, of wrenches.

    virtual: whether ∂²(ω·R)/∂q∂u instead, after ``virtual_velocities``.
    """
    m = RodMemory(ws.rods, tree)
    for c in range(tree.pushes):
        b, k, at = tree.sites[c, 0], tree.sites[c, 1], column + tree.sites[c, 3]
        R, p = site(tree, c, ws, m)
        j = tree.iv[b] + tree.nj[b] - 1
        while j >= 0:
            s, chi = ws.s[j], ws.chi[j]
            if k >= 0 and tree.body[j] == b:
                row = tree.column[tree.rod[b]] + (k - tree.first[tree.rod[b]]) * tree.nj[b] + j - tree.iv[b]
                s, chi = m.s[row], m.chi[row]
            t, a = at_place(chi if virtual else s, p)
            if tree.sites[c, 2] > 0:  # along the axes of the place
                t, a = rotate_back(R, t), rotate_back(R, a)
            elif virtual:  # the virtual velocity of the place, as the world sees it, turns with s
                u, turn = at_place(m.w[k] if k >= 0 else ws.w[b], p)
                t, a = add3(t, cross3(angular(s), u)), add3(a, cross3(angular(s), turn))
            seen = join(t, a)
            for l in range(6):
                out[j, at + l] -= scale * seen[l]
            j = tree.previous[j]


# -- all of them -------------------------------------------------------------------------------------------------------


@of_rods
def see_loads(tree, q, u, ws, order):
    """Add loads to the forces of points and bodies, after ``forces``; of RATES, A, B, N of all places, and sums, too.

    Of VIRTUAL order, S, L, p, ζ, G of all places, and their sums, after ``virtual_velocities``.
    """
    if tree.laden == 0:
        return
    m, L = RodMemory(ws.rods, tree), loads_of(tree, ws)
    for k in range(tree.laden if order == RATES else 0):
        for l in range(36):
            L.A[k, l] = L.B[k, l] = L.N[k, l] = 0.0
    zero = 0.0 * ws.w[0, 0]
    for k in range(tree.laden if order == VIRTUAL else 0):
        L.p[k] = L.z[k] = L.G[k] = zero, zero, zero, zero, zero, zero
        for l in range(36):
            L.S[k, l] = L.L[k, l] = 0.0
    for b in range(tree.nb):
        if tree.rod[b] >= 0:
            first = tree.first[tree.rod[b]] + 1
            for k in range(first, first + tree.count[tree.rod[b]] - 2 if tree.wet > 0 else first):
                if order == VIRTUAL:
                    curve_water(tree, k, m, L)
                else:
                    see_water(tree, k, order == RATES, m, L)
            if tree.steady > 0:
                see_surfaces(tree, b, q, order, ws, m, L)
    for c in range(tree.pushes):
        see_wrench(tree, c, u, order, ws, m, L)
    if order != FORCES:
        sum_loads(tree, ws, order == VIRTUAL)
    for b in range(tree.nb if order == VIRTUAL else 0):
        if tree.rod[b] >= 0:
            first = tree.first[tree.rod[b]] + 1
            for k in range(first, first + tree.count[tree.rod[b]] - 1):
                m.pf[k], m.z[k] = add6(m.pf[k], L.sp[k]), add6(m.z[k], L.sz[k])
