# mypy: allow-untyped-defs, allow-untyped-calls
"""The compiled loops of clearances; conventions as in kernels/constraints.py."""

from __future__ import annotations

import numpy as np

from ddp import inline, kernel
from dynamics.geometry.spatial import add3, dot3, linear, load6, part3, rotate, scale3, sub3
from dynamics.quantities.frames import branch_workspace, place_frame
from dynamics.quantities.points import knots_workspace, place_points, point_columns
from problems.kernels.constraints import add_point_curvature

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
def _columns(R, J, place, D):
    """The Jacobian of a frame's origin in the world's axes, into the columns ``place`` of D (3, m)."""
    for j in range(J.shape[0]):
        d = rotate(R, linear(load6(J, j)))
        for i in range(3):
            D[i, place[j]] = d[i]


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
    """
    first, second = body.ends.first, body.ends.second
    memory1, J1 = branch_workspace(first, X), np.zeros((first.count, 6))
    memory2, J2 = branch_workspace(second, X), np.zeros((second.count, 6))
    m, dof = body.ends.count, body.ends.dof
    D1, D2, J = np.zeros((3, m)), np.zeros((3, m)), np.zeros((3, m))
    g, ms, mt, gradient = np.zeros(m), np.zeros(m), np.zeros(m), np.zeros(out.shape[1])
    for k in range(X.shape[0]):
        if not weight[k].any():
            continue
        R, p = place_frame(first, X[k], memory1, J1)
        _columns(R, J1, body.ends.first_columns, D1)
        d, R2 = (0.0, 0.0, 0.0), R
        if body.long:
            R2, p2 = place_frame(second, X[k], memory2, J2)
            _columns(R2, J2, body.ends.second_columns, D2)
            d = sub3(p2, p)
        f1, f2 = (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)
        for o in range(obstacles.shape[0]):
            w = weight[k, o]
            if w == 0.0:
                continue
            q = part3(obstacles[o], 0)
            e = sub3(part3(obstacles[o], 3), q)
            s, t, s_free, t_free = nearest(p, d, q, e)
            apart = sub3(add3(p, scale3(s, d)), add3(q, scale3(t, e)))
            n, length = normal(apart)
            if length <= TOUCHING:
                continue
            f1, f2 = add3(f1, scale3(w * (1.0 - s), n)), add3(f2, scale3(w * s, n))
            for j in range(m):
                g[j] = ms[j] = mt[j] = 0.0
                for i in range(3):
                    J[i, j] = (1.0 - s) * D1[i, j] + s * D2[i, j]
                    g[j] += n[i] * J[i, j]
                    ms[j] += d[i] * J[i, j] + apart[i] * (D2[i, j] - D1[i, j])
                    mt[j] -= e[i] * J[i, j]
            add_distance_curvature(w / length, d, e, s_free, t_free, J, g, ms, mt, m, dof, out[k])
        add_point_curvature(first, memory1, R, J1, f1, gradient, out[k])
        if body.long:
            add_point_curvature(second, memory2, R2, J2, f2, gradient, out[k])


@kernel
def add_distance_curvature(factor, d, e, s_free, t_free, J, g, ms, mt, m, dof, H):
    """H[dof, dof] += factor (Jᵀ J - g gᵀ - D_xf D_ff⁻¹ D_fx), with ms = D_sx, mt = D_tx, g = nᵀ J (m,)."""
    ss, tt, st = dot3(d, d), dot3(e, e), -dot3(d, e)
    iss, itt, ist = 0.0, 0.0, 0.0
    if s_free and t_free:
        determinant = ss * tt - st * st
        iss, itt, ist = tt / determinant, ss / determinant, -st / determinant
    elif s_free:
        iss = 1.0 / ss
    elif t_free:
        itt = 1.0 / tt
    for a in range(m):
        for b in range(m):
            h = -g[a] * g[b] - iss * ms[a] * ms[b] - itt * mt[a] * mt[b] - ist * (ms[a] * mt[b] + mt[a] * ms[b])
            for i in range(3):
                h += J[i, a] * J[i, b]
            H[dof[a], dof[b]] += factor * h
