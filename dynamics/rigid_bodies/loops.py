# mypy: allow-untyped-defs, allow-untyped-calls
"""Loops of bodies as equations e(q) = 0, and their derivatives to third order, for any number.

Every row of e is bilinear, e = π·x: x = (p, 1) a point or (d, 0) a direction that body A carries, π = (d, c) a plane or
(d, 0) a direction that body B carries, four numbers each. Where a degree of freedom moves a body with s = (s_l, s_a),

    D x = (s_l x_4 + s_a × x_3, 0)        D π = (s_a × d, -d·s_l)

and iterated derivatives are products in the order of the tree, from the root to the body; within a joint the first
derivative is the innermost. Degrees of freedom that carry both bodies move nothing of e. Everything is in world axes at
the reference point of kinematics.py, which a body's root is.
"""

from __future__ import annotations

from ddp.compiling.kernel import inline, kernel
from ddp.machine.fields import Fields, matrix_of, rows, rows_apart, vector
from ddp.machine.memory import as_vector
from dynamics.geometry.spatial import add3, add6, angular, cross3, dot3, linear, rotate, scale3, scale6, sub3, sub6
from dynamics.rigid_bodies.bodies import seen_by_parent
from dynamics.rigid_bodies.kinematics import clear


class Looping(Fields):
    """Loops of one knot. x, y: points from the roots of A and of B.   plane: π.   before: ω of the joints before.

    e (nc,), J = e_q (nc, nv), which begins as zeros.
    """

    x, y, plane = rows("nc", 4), rows("nc", 4), rows("nc", 4)
    before, s = rows_apart("entries", 6), rows_apart("entries", 6)
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
def _times(plane, x):
    return plane[0] * x[0] + plane[1] * x[1] + plane[2] * x[2] + plane[3] * x[3]


@inline
def _plus(x, y):
    return x[0] + y[0], x[1] + y[1], x[2] + y[2], x[3] + y[3]


@kernel
def looping(memory, loops, nv):
    """Memory of loops of one knot."""
    lp = Looping(memory, loops, nv)
    clear(as_vector(lp.J), loops.nc * nv)
    return lp


@kernel
def see_loops(tree, loops, q, ws, lp):
    """Points, planes, e and J; needs placements of bodies."""
    for c in range(loops.count):
        a, b, roots = loops.pair[c, 0], loops.pair[c, 1], (loops.pair[c, 2], loops.pair[c, 3])
        for r in range(loops.pair[c, 4], loops.pair[c, 5]):
            x, plane = loops.point[r], loops.plane[r]
            R = ws.R[a]
            p = add3(rotate(R, (x[0], x[1], x[2])), scale3(x[3], ws.p[a]))
            lp.x[r] = p[0], p[1], p[2], x[3] + 0.0 * p[0]
            apart = scale3(0.0, p)
            if roots[0] != roots[1]:
                apart = seen_by_parent(tree, roots[0], q)[1]
            if b >= 0:
                if roots[0] != roots[1]:
                    apart = sub3(apart, seen_by_parent(tree, roots[1], q)[1])
                d = rotate(ws.R[b], (plane[0], plane[1], plane[2]))
                lp.plane[r] = d[0], d[1], d[2], plane[3] - dot3(d, ws.p[b])
            else:
                lp.plane[r] = plane[0] + 0.0 * p[0], plane[1] + 0.0 * p[0], plane[2] + 0.0 * p[0], plane[3] + 0.0 * p[0]
            y = add3(p, scale3(x[3], apart))
            lp.y[r] = y[0], y[1], y[2], x[3] + 0.0 * p[0]
            lp.e[r] = _times(lp.plane[r], lp.y[r])
        for k in range(loops.pair[c, 6], loops.pair[c, 7]):
            i = loops.path[k, 0]
            lp.s[k] = ws.s[i]
            for r in range(loops.pair[c, 4], loops.pair[c, 5]):
                lp.J[r, i] = _along(loops.path[k, 1], ws.s[i], lp.plane[r], lp.x[r], lp.y[r])


@inline
def _along(side, s, plane, x, y):
    """D e along a degree of freedom that moves A or B."""
    if side == 0:
        return _times(plane, _move_point(s, x))
    return _times(_move_plane(s, plane), y)


@inline
def _is_outer(tree, loops, k, l):
    """Whether k is applied after l: its joint comes before on the path, or is the same."""
    return k < l or tree.body[loops.path[k, 0]] == tree.body[loops.path[l, 0]]


@kernel
def add_loop_stiffness(tree, loops, scale, weight, lp, out):
    """Add scale Σ weight_r D_j D_i e_r to out (nv, nv), i a row; needs ``see_loops``."""
    for c in range(loops.count):
        begin, end = loops.pair[c, 6], loops.pair[c, 7]
        for r in range(loops.pair[c, 4], loops.pair[c, 5]):
            plane, x, y, factor = lp.plane[r], lp.x[r], lp.y[r], scale * weight[r]
            for k in range(begin, end):
                s, side = lp.s[k], loops.path[k, 1]
                for l in range(begin, end):
                    outer, inner = (lp.s[l], s) if _is_outer(tree, loops, l, k) else (s, lp.s[l])
                    if side != loops.path[l, 1]:
                        of_b, of_a = (s, lp.s[l]) if side == 1 else (lp.s[l], s)
                        value = _times(_move_plane(of_b, plane), _move_point(of_a, x))
                    elif side == 0:
                        value = _times(plane, _move_point(outer, _move_point(inner, x)))
                    else:
                        value = _times(_move_plane(outer, _move_plane(inner, plane)), y)
                    out[loops.path[k, 0], loops.path[l, 0]] += factor * value


@inline
def _total(loops, begin, end, side, omega, lp):
    """The motion that ω gives A or B, of the degrees of freedom that move it alone."""
    total = scale6(0.0, lp.s[begin])
    for k in range(begin, end):
        if loops.path[k, 1] == side:
            total = add6(total, scale6(omega[loops.path[k, 0]], lp.s[k]))
    return total


@kernel
def _see_before(tree, loops, c, omega, lp):
    """lp.before of a loop: the motion that ω gives by the joints before each."""
    begin, end = loops.pair[c, 6], loops.pair[c, 7]
    for k in range(begin, end):
        total = scale6(0.0, lp.s[k])
        for l in range(begin, k):
            same_side = loops.path[l, 1] == loops.path[k, 1]
            if same_side and tree.body[loops.path[l, 0]] != tree.body[loops.path[k, 0]]:
                total = add6(total, scale6(omega[loops.path[l, 0]], lp.s[l]))
        lp.before[k] = total


@kernel
def curve_loops(tree, loops, weight, omega, lp, out, cross):
    """Second order of Jᵀ weight, which acts as a force: its derivatives contracted with ω, subtracted.

    out (nv, nv) -= Σ weight_r D_k D_j D_ω e_r.   cross (nv, nc) := -D_j D_ω e_r, zeros where nothing moves.
    """
    clear(as_vector(cross), tree.nv * loops.nc)
    for c in range(loops.count):
        begin, end = loops.pair[c, 6], loops.pair[c, 7]
        _see_before(tree, loops, c, omega, lp)
        of_a, of_b = _total(loops, begin, end, 0, omega, lp), _total(loops, begin, end, 1, omega, lp)
        for r in range(loops.pair[c, 4], loops.pair[c, 5]):
            plane, x, y, factor = lp.plane[r], lp.x[r], lp.y[r], weight[r]
            swept, carried = _move_plane(of_b, plane), _move_point(of_a, x)
            for k in range(begin, end):
                i, s, side, bk = loops.path[k, 0], lp.s[k], loops.path[k, 1], lp.before[k]
                if side == 0:
                    twice = _point_twice(bk, s, of_a, x)
                    cross[i, r] -= _times(plane, twice) + _times(swept, _move_point(s, x))
                else:
                    twice = _plane_twice(bk, s, of_b, plane)
                    cross[i, r] -= _times(twice, y) + _times(_move_plane(s, plane), carried)
                for l in range(begin, end):
                    other, bl = lp.s[l], lp.before[l]
                    if side != loops.path[l, 1]:
                        if side == 0:
                            value = _times(_move_plane(other, plane), twice)
                            value += _times(_plane_twice(bl, other, of_b, plane), _move_point(s, x))
                        else:
                            value = _times(twice, _move_point(other, x))
                            value += _times(_move_plane(s, plane), _point_twice(bl, other, of_a, x))
                    else:
                        if _is_outer(tree, loops, k, l):
                            outer, inner, bo, bi = s, other, bk, bl
                        else:
                            outer, inner, bo, bi = other, s, bl, bk
                        if side == 0:
                            value = _point_thrice(plane, bo, outer, bi, inner, of_a, x)
                            value += _times(swept, _move_point(outer, _move_point(inner, x)))
                        else:
                            value = _plane_thrice(y, bo, outer, bi, inner, of_b, plane)
                            value += _times(_move_plane(outer, _move_plane(inner, plane)), carried)
                    out[i, loops.path[l, 0]] -= factor * value


@inline
def _point_twice(before, s, all_of_a, x):
    """D_s D_ω x."""
    first = _move_point(before, _move_point(s, x))
    return _plus(first, _move_point(s, _move_point(sub6(all_of_a, before), x)))


@inline
def _plane_twice(before, s, all_of_b, plane):
    """D_s D_ω π."""
    first = _move_plane(before, _move_plane(s, plane))
    return _plus(first, _move_plane(s, _move_plane(sub6(all_of_b, before), plane)))


@inline
def _point_thrice(plane, bo, outer, bi, inner, all_of_a, x):
    """π·D D D_ω x."""
    moved = _move_point(inner, x)
    first = _times(plane, _move_point(bo, _move_point(outer, moved)))
    second = _times(plane, _move_point(outer, _move_point(sub6(bi, bo), moved)))
    last = _move_point(outer, _move_point(inner, _move_point(sub6(all_of_a, bi), x)))
    return first + second + _times(plane, last)


@inline
def _plane_thrice(y, bo, outer, bi, inner, all_of_b, plane):
    """D D D_ω π·y."""
    moved = _move_plane(inner, plane)
    first = _times(_move_plane(bo, _move_plane(outer, moved)), y)
    second = _times(_move_plane(outer, _move_plane(sub6(bi, bo), moved)), y)
    last = _move_plane(outer, _move_plane(inner, _move_plane(sub6(all_of_b, bi), plane)))
    return first + second + _times(last, y)
