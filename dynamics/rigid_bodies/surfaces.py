# mypy: allow-untyped-defs, allow-untyped-calls
"""Springs of contact between rods and surfaces, and the weight of rods in water; see loads.py."""

from ddp.compiling.kernel import inline, kernel
from ddp.machine.number import all_less, square_root, where_less
from dynamics.geometry.spatial import add3, add9, dot3, outer3, rotate, scale3, scale9, sub3
from dynamics.rigid_bodies.loops import shift_of_root
from dynamics.rigid_bodies.places import VIRTUAL, at_place, take_up


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
