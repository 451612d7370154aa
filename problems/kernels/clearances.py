# mypy: allow-untyped-defs, allow-untyped-calls
"""The compiled loops of clearances; conventions as in kernels/constraints.py."""

from __future__ import annotations

import numpy as np

from ddp import inline, kernel
from dynamics.geometry.spatial import add3, dot3, part3, scale3, sub3
from dynamics.quantities.points import add_form, add_knots, bend_points, knots_workspace, place_points, point_columns

TOUCHING = 1e-12
"""Axes nearer than this [m] have no normal: the world's z axis stands in for it, and nothing is curved."""

PARALLEL = 1e-12
"""Two segments are parallel if the square of the sine between them is below this."""


@inline
def _clamped(x):
    return min(max(x, 0.0), 1.0)


@kernel
def nearest(p, d, q, e):
    """Where the segments p + s d and q + t e are nearest: s, t, and whether each could move both ways (1) or not (0).

    After Ericson, Real-Time Collision Detection (2005), 5.1.9. Of parallel segments one of many pairs is taken.
    """
    a, b, c = dot3(d, d), dot3(d, e), dot3(e, e)
    r = sub3(p, q)
    f, g = dot3(d, r), dot3(e, r)
    s, t, skew = 0.0, 0.0, False
    if a > 0.0 and c > 0.0:
        skew = a * c - b * b > PARALLEL * a * c
        if skew:
            s = _clamped((b * g - f * c) / (a * c - b * b))
        t = (b * s + g) / c
        if t < 0.0:
            t, s = 0.0, _clamped(-f / a)
        elif t > 1.0:
            t, s = 1.0, _clamped((b - f) / a)
    elif a > 0.0:
        s = _clamped(-f / a)
    elif c > 0.0:
        t = _clamped(g / c)
    s_free, t_free = 0.0 < s < 1.0, 0.0 < t < 1.0
    if s_free and t_free and not skew:
        s_free = False
    return s, t, s_free, t_free


@kernel
def clearance_values(body, obstacles, X, U, out):
    """The distance of two axes less both radii: of the body, and of obstacles (K, 7): start, end, radius."""
    first, second, M = body.ends.first, body.ends.second, X.shape[0]
    memory1, memory2 = knots_workspace(first.tree, X.shape[1]), knots_workspace(second.tree, X.shape[1])
    P1, P2 = np.empty((3, 8)), np.empty((3, 8))
    for begin in range(0, M, 8):
        place_points(first, X, begin, memory1, P1)
        if body.long:
            place_points(second, X, begin, memory2, P2)
        for lane in range(min(8, M - begin)):
            p, d = _axis(body, P1, P2, lane)
            for o in range(obstacles.shape[0]):
                q = part3(obstacles[o], 0)
                e = sub3(part3(obstacles[o], 3), q)
                s, t, _, _ = nearest(p, d, q, e)
                apart = sub3(add3(p, scale3(s, d)), add3(q, scale3(t, e)))
                out[begin + lane, o] = np.sqrt(dot3(apart, apart)) - body.radius - obstacles[o, 6]


@inline
def _axis(body, P1, P2, lane):
    """Where the axis of a body starts, and how far it goes."""
    p, d = (P1[0, lane], P1[1, lane], P1[2, lane]), (0.0, 0.0, 0.0)
    if body.long:
        d = sub3((P2[0, lane], P2[1, lane], P2[2, lane]), p)
    return p, d


@inline
def normal(apart):
    """The unit vector and the length."""
    length = np.sqrt(dot3(apart, apart))
    n = (0.0, 0.0, 1.0)
    if length > TOUCHING:
        n = scale3(1.0 / length, apart)
    return n, length


@kernel
def clearance_jacobian(body, obstacles, X, U, out):
    """``n · ((1 - s) J_first + s J_second)``: the nearest points' own motion along the axes does not count."""
    ends, M, nx = body.ends, X.shape[0], X.shape[1]
    first, second = ends.first, ends.second
    memory1, memory2 = knots_workspace(first.tree, nx), knots_workspace(second.tree, nx)
    P1, P2, D1, D2 = np.empty((3, 8)), np.empty((3, 8)), np.empty((3 * first.count, 8)), np.empty((3 * second.count, 8))
    for begin in range(0, M, 8):
        place_points(first, X, begin, memory1, P1)
        point_columns(first, nx, memory1, P1, D1)
        if body.long:
            place_points(second, X, begin, memory2, P2)
            point_columns(second, nx, memory2, P2, D2)
        for lane in range(min(8, M - begin)):
            p, d = _axis(body, P1, P2, lane)
            for o in range(obstacles.shape[0]):
                q = part3(obstacles[o], 0)
                e = sub3(part3(obstacles[o], 3), q)
                s, t, _, _ = nearest(p, d, q, e)
                n, _ = normal(sub3(add3(p, scale3(s, d)), add3(q, scale3(t, e))))
                row = out[begin + lane, o]
                for j in range(ends.count):
                    row[j] = 0.0
                _add_along(scale3(1.0 - s, n), D1, lane, ends.first_columns, first.count, row)
                if body.long:
                    _add_along(scale3(s, n), D2, lane, ends.second_columns, second.count, row)


@inline
def _add_along(n, D, lane, columns, m, row):
    """row += nᵀ D of one knot."""
    for j in range(m):
        row[columns[j]] += n[0] * D[3 * j, lane] + n[1] * D[3 * j + 1, lane] + n[2] * D[3 * j + 2, lane]


@kernel
def clearance_curvature(body, obstacles, X, U, weight, out):
    """With ½|P - Q|² = D(x, s, t): ``∂²D = D_xx - D_xf D_ff⁻¹ D_fx`` over the free ones f of s, t; |P - Q| follows.

    J = (1 - s) J_first + s J_second,   D_xx = Jᵀ J + |P - Q| n · ∂²P,   D_sx = dᵀ J + (P - Q)ᵀ (J_second - J_first),
    D_tx = -eᵀ J,   D_ss = dᵀd,   D_tt = eᵀe,   D_st = -dᵀe.

    But for ∂²P this is a form W (6, 6) of how both ends move, the sum of all obstacles' at a knot.
    """
    ends, M, nx = body.ends, X.shape[0], X.shape[1]
    first, second, m, dof = ends.first, ends.second, ends.count, ends.dof
    memory1, memory2 = knots_workspace(first.tree, nx), knots_workspace(second.tree, nx)
    P1, P2, D1, D2 = np.empty((3, 8)), np.empty((3, 8)), np.empty((3 * first.count, 8)), np.empty((3 * second.count, 8))
    f1, f2, W, work = np.empty((3, 8)), np.empty((3, 8)), np.empty((36, 8)), np.empty((3, 6))
    both, H, size = np.empty((6 * m, 8)), np.empty((m * m, 8)), 6 if body.long else 3
    for begin in range(0, M, 8):
        lanes = min(8, M - begin)
        if not weight[begin : begin + lanes].any():
            continue
        place_points(first, X, begin, memory1, P1)
        point_columns(first, nx, memory1, P1, D1)
        if body.long:
            place_points(second, X, begin, memory2, P2)
            point_columns(second, nx, memory2, P2, D2)
        for one in (W, f1, f2, both, H):
            one[:] = 0.0
        for lane in range(lanes):
            p, d = _axis(body, P1, P2, lane)
            for o in range(obstacles.shape[0]):
                if weight[begin + lane, o] != 0.0:
                    _add_distance_form(p, d, obstacles[o], weight[begin + lane, o], lane, size, work, W, f1, f2)
        _place_columns(D1, ends.first_columns, first.count, 0, both)
        if body.long:
            _place_columns(D2, ends.second_columns, second.count, 3, both)
        add_form(W, both, m, size, H)
        bend_points(first, nx, memory1, P1, D1, f1, ends.first_columns, m, H)
        if body.long:
            bend_points(second, nx, memory2, P2, D2, f2, ends.second_columns, m, H)
        add_knots(H, m, dof, begin, lanes, out)


@inline
def _add_distance_form(p, d, obstacle, weight, lane, size, work, W, f1, f2):
    """W += the form of one distance at a knot, f1, f2 += what its normal pulls the ends with: see above."""
    q = part3(obstacle, 0)
    e = sub3(part3(obstacle, 3), q)
    s, t, s_free, t_free = nearest(p, d, q, e)
    apart = sub3(add3(p, scale3(s, d)), add3(q, scale3(t, e)))
    n, length = normal(apart)
    iss, itt, ist = free_inverse(d, e, s_free, t_free)
    weight = weight if length > TOUCHING else 0.0
    factor = weight / max(length, TOUCHING)
    _scale(1.0 - s, n, e, sub3(scale3(1.0 - s, d), apart), 0, work)
    _scale(s, n, e, add3(scale3(s, d), apart), 3, work)
    for i in range(3):
        f1[i, lane] += weight * work[0, i]
        f2[i, lane] += weight * work[0, 3 + i]
    for i in range(size):
        ni, ei, di = factor * work[0, i], factor * work[1, i], factor * work[2, i]
        for j in range(size):
            dj, ej = work[2, j], work[1, j]
            W[6 * i + j, lane] -= ni * work[0, j] + iss * di * dj + itt * ei * ej + ist * (di * ej + ei * dj)
    for i in range(3):
        W[7 * i, lane] += factor * (1.0 - s) * (1.0 - s)
        W[7 * (3 + i), lane] += factor * s * s
        W[6 * i + 3 + i, lane] += factor * s * (1.0 - s)
        W[6 * (3 + i) + i, lane] += factor * s * (1.0 - s)


@inline
def _scale(share, n, e, along, begin, work):
    """Numbers ``begin`` .. begin+2 of work (3, 6): share n, -share e, and D_sx by how an end moves."""
    work[0, begin], work[0, begin + 1], work[0, begin + 2] = scale3(share, n)
    work[1, begin], work[1, begin + 1], work[1, begin + 2] = scale3(-share, e)
    work[2, begin], work[2, begin + 1], work[2, begin + 2] = along


@kernel
def _place_columns(D, columns, count, begin, both):
    """Columns D (3 count, 8) of an end, to be the numbers from ``begin`` on of the six that tell how both ends move."""
    for j in range(count):
        for i in range(3):
            for lane in range(8):
                both[6 * columns[j] + begin + i, lane] = D[3 * j + i, lane]


@inline
def free_inverse(d, e, s_free, t_free):
    """D_ff⁻¹ over the free ones of s, t: its entries ss, tt, st, zero where one is not free."""
    ss, tt, st = dot3(d, d), dot3(e, e), -dot3(d, e)
    iss, itt, ist = 0.0, 0.0, 0.0
    if s_free and t_free:
        determinant = ss * tt - st * st
        iss, itt, ist = tt / determinant, ss / determinant, -st / determinant
    elif s_free:
        iss = 1.0 / ss
    elif t_free:
        itt = 1.0 / tt
    return iss, itt, ist
