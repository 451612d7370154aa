# mypy: allow-untyped-defs, allow-untyped-calls
"""Loops of bodies as equations e(q) = 0, and their derivatives to third order, for any number.

Every row of e is bilinear, e = π·x: x = (p, 1) a point or (d, 0) a direction that body A carries, π = (d, c) a plane or
(d, 0) a direction that body B carries, four numbers each. Where a degree of freedom moves a body with s = (s_l, s_a),

    D x = (s_l x_4 + s_a × x_3, 0)        D π = (s_a × d, -d·s_l)

and iterated derivatives are products in the order of the tree, from the root to the body; within a joint the first
derivative is the innermost. Degrees of freedom that carry both bodies move nothing of e. Everything is in world axes at
the reference point of kinematics.py, which a body's root is.
"""

from ddp.compiling.kernel import inline, kernel
from ddp.machine.fields import Fields, matrix_of, rows, rows_apart, vector
from ddp.machine.memory import as_vector
from dynamics.geometry.spatial import (
    add3,
    add6,
    angular,
    cross3,
    dot3,
    dot6,
    join,
    linear,
    placement,
    rotate,
    scale3,
    scale6,
    sub3,
)
from dynamics.rigid_bodies.bodies import seen_by_parent
from dynamics.rigid_bodies.kinematics import clear
from dynamics.rods.hessian import curve_rod
from dynamics.rods.inverse import turn_rod
from dynamics.rods.local_maps import plus
from dynamics.rods.memory import has_rod, of_rods


class Looping(Fields):
    """Loops of one knot. x, y: points from the roots of A and of B.   plane: π.   s, chi, met: of the path, s, χ, D e.

    push, twist (nb, 6): wrenches on rods, see ``add_rods_of_loops``.
    e (nc,), J = e_q (nc, nv), which begins as zeros.
    """

    x, y, plane = rows("nc", 4), rows("nc", 4), rows("nc", 4)
    s, chi, met = rows_apart("entries", 6), rows_apart("entries", 6), rows_apart("entries", 6)
    push, twist = rows_apart("nb", 6), rows_apart("nb", 6)
    e, J = vector("nc"), matrix_of("nc", "nv")


@inline
def _move_point(s, x):
    moved = add3(scale3(x[3], linear(s)), cross3(angular(s), (x[0], x[1], x[2])))
    return moved[0], moved[1], moved[2], 0.0 * x[3]


@inline
def _move_plane(s, plane):
    d = (plane[0], plane[1], plane[2])
    turned = cross3(angular(s), d)
    return turned[0], turned[1], turned[2], -dot3(d, linear(s))


@inline
def _move(side, s, x):
    """D x of a point that A carries, or D x of a plane that B does."""
    return _move_point(s, x) if side == 0 else _move_plane(s, x)


@inline
def _times(plane, x):
    return plane[0] * x[0] + plane[1] * x[1] + plane[2] * x[2] + plane[3] * x[3]


@kernel
def looping(memory, tree, loops):
    """Memory of loops of one knot."""
    lp = Looping(memory, tree, loops.nc, loops.entries)
    clear(as_vector(lp.J), loops.nc * tree.nv)
    return lp


@kernel
def shift_of_root(tree, root, q):
    """Place of kinematics.py's reference point in the world: the frame of a body on the world."""
    if has_rod(tree, root):
        return scale3(1.0 + 0.0 * q[0], placement(tree.placement[root])[1])
    return seen_by_parent(tree, root, q)[1]


@inline
def wrench_on_a(plane, x):
    """The wrench f with s·f = π·(D x along s)."""
    d = (plane[0], plane[1], plane[2])
    return join(scale3(x[3], d), cross3((x[0], x[1], x[2]), d))


@inline
def wrench_on_b(plane, y):
    """The wrench f with s·f = (D π along s)·y."""
    d = (plane[0], plane[1], plane[2])
    return join(scale3(-y[3], d), cross3(d, (y[0], y[1], y[2])))


@kernel
def see_errors(tree, loops, q, ws, lp):
    """Points, planes and e; needs placements of bodies."""
    for c in range(loops.count):
        a, b, roots = loops.pair[c, 0], loops.pair[c, 1], (loops.pair[c, 2], loops.pair[c, 3])
        for r in range(loops.pair[c, 4], loops.pair[c, 5]):
            x, plane = loops.point[r], loops.plane[r]
            R = ws.R[a]
            p = add3(rotate(R, (x[0], x[1], x[2])), scale3(x[3], ws.p[a]))
            lp.x[r] = p[0], p[1], p[2], x[3] + 0.0 * p[0]
            apart = scale3(0.0, p)
            if roots[0] != roots[1]:
                apart = shift_of_root(tree, roots[0], q)
            if b >= 0:
                if roots[0] != roots[1]:
                    apart = sub3(apart, shift_of_root(tree, roots[1], q))
                d = rotate(ws.R[b], (plane[0], plane[1], plane[2]))
                lp.plane[r] = d[0], d[1], d[2], plane[3] - dot3(d, ws.p[b])
            else:
                lp.plane[r] = plane[0] + 0.0 * p[0], plane[1] + 0.0 * p[0], plane[2] + 0.0 * p[0], plane[3] + 0.0 * p[0]
            y = add3(p, scale3(x[3], apart))
            lp.y[r] = y[0], y[1], y[2], x[3] + 0.0 * p[0]
            lp.e[r] = _times(lp.plane[r], lp.y[r])


@kernel
def hold_bodies(loops, force, ws, lp):
    """Add the forces of loops to those of bodies, which hold them: R becomes R - Jᵀ force; needs ``see_errors``."""
    for c in range(loops.count):
        a, b = loops.pair[c, 0], loops.pair[c, 1]
        for r in range(loops.pair[c, 4], loops.pair[c, 5]):
            ws.f[a] = add6(ws.f[a], scale6(-force[r], wrench_on_a(lp.plane[r], lp.x[r])))
            if b >= 0:
                ws.f[b] = add6(ws.f[b], scale6(-force[r], wrench_on_b(lp.plane[r], lp.y[r])))


@kernel
def see_loops(tree, loops, q, ws, lp):
    """Points, planes, e and J; needs placements of bodies and their columns s."""
    see_errors(tree, loops, q, ws, lp)
    for c in range(loops.count):
        for k in range(loops.pair[c, 6], loops.pair[c, 7]):
            i = loops.path[k, 0]
            lp.s[k] = ws.s[i]
            for r in range(loops.pair[c, 4], loops.pair[c, 5]):
                if loops.path[k, 1] == 0:
                    lp.J[r, i] = _times(lp.plane[r], _move_point(lp.s[k], lp.x[r]))
                else:
                    lp.J[r, i] = _times(_move_plane(lp.s[k], lp.plane[r]), lp.y[r])


@inline
def _is_outer(tree, loops, k, l):
    """Whether k is applied after l: its joint comes before on the path, or is the same."""
    return k < l or tree.body[loops.path[k, 0]] == tree.body[loops.path[l, 0]]


@kernel
def add_loop_stiffness(tree, loops, scale, weight, ws, lp, out):
    """Add scale Σ weight_r D_j D_i e_r to out (nv, nv), i a row; needs ``see_loops``.

    A second motion s meets what the first one makes of x or π, summed over rows: D x by a couple n = Σ D x × d, both if
    it moves A (s_a·n) and if it moves B (-s_a·n), and D π by a wrench.
    """
    add_rods_of_loops(tree, loops, scale, weight, ws, lp, out)
    for c in range(loops.count):
        begin, end = loops.pair[c, 6], loops.pair[c, 7]
        for k in range(begin, end):
            total = scale6(0.0, lp.s[k])
            for r in range(loops.pair[c, 4], loops.pair[c, 5]):
                plane, factor = lp.plane[r], scale * weight[r]
                if loops.path[k, 1] == 0:
                    met = wrench_on_a(plane, _move_point(lp.s[k], lp.x[r]))
                else:
                    met = wrench_on_b(_move_plane(lp.s[k], plane), lp.y[r])
                total = add6(total, scale6(factor, met))
            lp.met[k] = total
        for k in range(begin, end):
            i, side = loops.path[k, 0], loops.path[k, 1]
            for l in range(begin, end):
                if side != loops.path[l, 1]:
                    of_a, of_b = (k, l) if side == 0 else (l, k)
                    value = -dot3(angular(lp.s[of_b]), angular(lp.met[of_a]))
                elif _is_outer(tree, loops, l, k):
                    value = dot6(lp.s[l], lp.met[k])
                else:
                    value = dot6(lp.s[k], lp.met[l])
                out[i, loops.path[l, 0]] += value


@of_rods
def push_rods(tree, loops, c, f, on_b, out):
    """Add a wrench to the rows out of the rods on the way from the root to A, or to B, of a loop."""
    for k in range(loops.pair[c, 6], loops.pair[c, 7]):
        i, b = loops.path[k, 0], tree.body[loops.path[k, 0]]
        if loops.path[k, 1] == on_b and tree.rod[b] >= 0 and i == tree.iv[b]:
            out[b] = add6(out[b], f)


@of_rods
def add_rods_of_loops(tree, loops, scale, weight, ws, lp, out):
    """Terms of ``add_loop_stiffness`` within rods, whose motions s_i vary with their own coordinates."""
    for b in range(tree.nb):
        lp.push[b] = scale6(0.0, ws.s[0])
    for c in range(loops.count):
        for r in range(loops.pair[c, 4], loops.pair[c, 5]):
            push_rods(tree, loops, c, scale6(weight[r], wrench_on_a(lp.plane[r], lp.x[r])), 0, lp.push)
            push_rods(tree, loops, c, scale6(weight[r], wrench_on_b(lp.plane[r], lp.y[r])), 1, lp.push)
    for b in range(tree.nb):
        if tree.rod[b] >= 0:
            turn_rod(tree, b, ws, lp.push[b], scale, False, tree.iv[b], tree.iv[b], out)


@of_rods
def curve_rods_of_loops(tree, loops, weight, ws, lp, out):
    """Terms of ``curve_loops`` within rods."""
    for b in range(tree.nb):
        lp.push[b] = lp.twist[b] = scale6(0.0, ws.s[0])
    for c in range(loops.count):
        of_a, of_b = _virtual(loops.pair[c, 0], ws), _virtual(loops.pair[c, 1], ws)
        for r in range(loops.pair[c, 4], loops.pair[c, 5]):
            plane, x, y = lp.plane[r], lp.x[r], lp.y[r]
            swept, carried = _move_plane(of_b, plane), _move_point(of_a, x)
            on_a = add6(wrench_on_a(plane, carried), wrench_on_a(swept, x))
            on_b = add6(wrench_on_b(plane, carried), wrench_on_b(swept, y))
            push_rods(tree, loops, c, scale6(weight[r], wrench_on_a(plane, x)), 0, lp.push)
            push_rods(tree, loops, c, scale6(weight[r], wrench_on_b(plane, y)), 1, lp.push)
            push_rods(tree, loops, c, scale6(weight[r], on_a), 0, lp.twist)
            push_rods(tree, loops, c, scale6(weight[r], on_b), 1, lp.twist)
    for b in range(tree.nb):
        if tree.rod[b] >= 0:
            curve_rod(tree, b, ws, lp.push[b], lp.twist[b], -1.0, tree.iv[b], out)


@inline
def _virtual(b, ws):
    """The velocity of a body under the multiplier, zero of the world."""
    return ws.w[b] if b >= 0 else scale6(0.0, ws.w[0])


@kernel
def curve_loops(tree, loops, weight, ws, lp, out, cross):
    """Second order of Jᵀ weight, which acts as a force: its derivatives contracted with ω, subtracted.

    out (nv, nv) -= Σ weight_r D_k D_j D_ω e_r.   cross (nv, nc) := -D_j D_ω e_r, zeros where nothing moves. Needs w and
    χ of ω. With X = D_ω x along w_A, D_j X = s_j X + χ_j x, and for i after j D_j D_i X = s_j D_i X + χ_j s_i x, where
    motions stand for the matrices by which they move points; planes likewise.
    """
    clear(as_vector(cross), tree.nv * loops.nc)
    curve_rods_of_loops(tree, loops, weight, ws, lp, out)
    for c in range(loops.count):
        begin, end = loops.pair[c, 6], loops.pair[c, 7]
        for k in range(begin, end):
            lp.chi[k] = ws.chi[loops.path[k, 0]]
        of_a, of_b = _virtual(loops.pair[c, 0], ws), _virtual(loops.pair[c, 1], ws)
        for r in range(loops.pair[c, 4], loops.pair[c, 5]):
            plane, x, y, factor = lp.plane[r], lp.x[r], lp.y[r], weight[r]
            swept, carried = _move_plane(of_b, plane), _move_point(of_a, x)
            for k in range(begin, end):
                i, s, side, chi = loops.path[k, 0], lp.s[k], loops.path[k, 1], lp.chi[k]
                rod = has_rod(tree, tree.body[i])
                if side == 0:  # what k moves and its virtual rate, what it meets and that of it, what others move
                    own, rate, met, met_rate, moved = x, carried, plane, swept, plane
                else:
                    own, rate, met, met_rate, moved = plane, swept, y, carried, x
                once, twice = _move(side, s, own), plus(_move(side, s, rate), _move(side, chi, own))
                cross[i, r] -= _times(met, twice) + _times(met_rate, once)
                for l in range(begin, end):
                    other, ahead, to = lp.s[l], lp.chi[l], loops.path[l, 1]
                    if side != to:
                        value = _times(_move(to, other, moved), twice) + _times(_move(to, other, met_rate), once)
                        value += _times(_move(to, ahead, moved), once)
                    elif rod and tree.body[i] == tree.body[loops.path[l, 0]]:
                        value = _within(side, met, met_rate, s, chi, other, ahead, own, rate)
                    elif _is_outer(tree, loops, l, k):
                        value = _thrice(side, met, met_rate, other, s, ahead, chi, own, rate)
                    else:
                        value = _thrice(side, met, met_rate, s, other, chi, ahead, own, rate)
                    out[i, loops.path[l, 0]] -= factor * value


@inline
def _thrice(side, other, swept, outer, inner, turn, bend, x, carried):
    """π·D D X + Π·D D x of an outer and an inner motion, whose χ are turn and bend; or of planes, D D Π·y + D D π·X."""
    once = _move(side, inner, x)
    twice = plus(_move(side, inner, carried), _move(side, bend, x))
    third = plus(_move(side, outer, twice), _move(side, turn, once))
    return _times(other, third) + _times(swept, _move(side, outer, once))


@inline
def _within(side, other, swept, s, chi, after, ahead, x, carried):
    """The part of ``_thrice`` within a rod that ``curve_rods_of_loops`` leaves: first s, then the other one."""
    first = plus(_move(side, after, _move(side, s, carried)), _move(side, s, _move(side, ahead, x)))
    third = plus(first, _move(side, after, _move(side, chi, x)))
    return _times(other, third) + _times(swept, _move(side, after, _move(side, s, x)))
