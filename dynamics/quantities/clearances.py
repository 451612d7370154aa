# mypy: allow-untyped-defs, allow-untyped-calls
"""Distances of a body to obstacles as a quantity of `ddp.tracing.quantities`, eight knots at a time.

Numbers of eight knots lie side by side, as in points.py. The body's axis goes from the origin of a first frame to that
of a second one if it is ``long``, else it is the first origin alone.   obstacles (K, 7): start, end, radius, in the
world.
"""

import numpy as np
from numba import types

from ddp.compiling.kernel import inline, kernel
from ddp.machine.fields import Fields, matrix_of, vector
from ddp.machine.memory import as_vector, hold, memory_of, numbers_between, rows_at, rows_of
from ddp.machine.number import all_less, spread, square_root, where_less
from ddp.machine.packing import pack, unpack
from ddp.tracing.quantities import FIRST, SECOND, VALUES
from dynamics.geometry.spatial import add3, dot3, part3, scale3, sub3
from dynamics.quantities import points
from dynamics.quantities.segments import TOUCHING, free_inverse, nearest, normal

_floats = rows_at(types.float64)


class Distances(Fields):
    """Working memory of eight knots, of a `frames.Pair` and so many ``obstacles``.

    P1, P2: both ends of the axis.   D1, D2: their columns.   c: distances, or their weights.   J: gradients.
    f1, f2, W: gradient and Hessian of the weighted sum in where both ends are; ends: how both move, column by column.
    H: the Hessian.   work: scratch.
    """

    P1, P2, f1, f2 = vector("3"), vector("3"), vector("3"), vector("3")
    D1, D2, ends = vector("3 count"), vector("3 count"), vector("6 count")
    W, work = vector("36"), vector("18")
    c, J, H = vector("obstacles"), matrix_of("obstacles", "count"), matrix_of("count", "count")


@kernel
def clearance(body, obstacles, a, order, y, weight, J, H):
    """The distance of two axes less both radii: of the body, and of obstacles.

    Its Jacobian is ``n · ((1 - s) J_first + s J_second)``: how nearest points move along the axes does not count. With
    ½|P - Q|² = D(x, s, t): ``∂²D = D_xx - D_xf D_ff⁻¹ D_fx`` over the free ones f of s, t; |P - Q| follows.

    J = (1 - s) J_first + s J_second,   D_xx = Jᵀ J + |P - Q| n · ∂²P,   D_sx = dᵀ J + (P - Q)ᵀ (J_second - J_first),
    D_tx = -eᵀ J,   D_ss = dᵀd,   D_tt = eᵀe,   D_st = -dᵀe.

    But for ∂²P this is a form W (6, 6) of how both ends move, the sum of all obstacles' at a knot.
    """
    ends, X, around, m = body.ends, rows_of(a), rows_of(obstacles), body.ends.count
    first, second, K, nx = ends.first, ends.second, obstacles.shape[0], a.shape[1]
    within = body.long and points.begins(first, second)  # bodies are placed once
    of_second = points.knots_workspace(second.tree, nx)
    of_first = of_second if within else points.knots_workspace(first.tree, nx)
    start = _floats(64)
    room = np.empty((numbers_between(start, Distances(start, ends, K).end), 8))
    memory1, memory2, ws = memory_of(of_first), memory_of(of_second), Distances(memory_of(room), ends, K)
    y, weight, J, H, bent = rows_of(y), rows_of(weight), rows_of(J), rows_of(H), as_vector(ws.H)
    tree = second.tree if within else first.tree
    for t in range(0, a.shape[0], 8):
        if order == SECOND:
            pack(weight, t, ws.c, K)
            if _all_zero(ws.c, K):
                continue
        if body.long:
            points.place_points(second, X, t, memory2, ws.P2)
        if within:
            points.take_point(first, second.tree, nx, memory1, ws.P1)
        else:
            points.place_points(first, X, t, memory1, ws.P1)
        if order != VALUES:
            points.point_columns(first, tree, nx, memory1, ws.P1, ws.D1)
            if body.long:
                points.point_columns(second, second.tree, nx, memory2, ws.P2, ws.D2)
        if order == SECOND:
            _weigh_forms(body, around, ws)
            _place_columns(ws.D1, ends.first_columns, first.count, 0, ws.ends)
            if body.long:
                _place_columns(ws.D2, ends.second_columns, second.count, 3, ws.ends)
            points.add_form(ws.W, ws.ends, m, 6 if body.long else 3, ws.work, bent)
            points.bend_points(first, tree, nx, memory1, ws.P1, ws.D1, ws.f1, ends.first_columns, m, bent)
            if body.long:
                points.bend_points(second, second.tree, nx, memory2, ws.P2, ws.D2, ws.f2, ends.second_columns, m, bent)
            unpack(bent, m * m, H, t)
            continue
        _measure(body, around, order, ws)
        unpack(ws.c, K, y, t)
        if order == FIRST:
            unpack(as_vector(ws.J), K * m, J, t)
    hold(room)
    hold(of_first)
    hold(of_second)


@inline
def _all_zero(x, count):
    """Whether the first ``count`` of x are zero in every lane."""
    for i in range(count):
        if not _is_zero(x[i]):
            return False
    return True


@inline
def _is_zero(x):
    return all_less(where_less(x, 0.0, -x, x), 5e-324)


@inline
def _axis(body, ws):
    """Start and extent of the axis of a body."""
    p, zero = part3(ws.P1, 0), spread(0.0, ws.P1[0])
    d = (zero, zero, zero)
    if body.long:
        d = sub3(part3(ws.P2, 0), p)
    return p, d


@inline
def _obstacle(obstacles, o):
    """Start and extent of the axis of an obstacle."""
    q = part3(obstacles[o], 0)
    return q, sub3(part3(obstacles[o], 3), q)


@kernel
def _measure(body, obstacles, order, ws):
    """c := distances; with order FIRST also J := their gradients."""
    (p, d), ends = _axis(body, ws), body.ends
    for o in range(len(obstacles)):
        q, e = _obstacle(obstacles, o)
        s, t, _, _ = nearest(p, d, q, e)
        apart = sub3(add3(p, scale3(s, d)), add3(q, scale3(t, e)))
        ws.c[o] = square_root(dot3(apart, apart)) - body.radius - obstacles[o, 6]
        if order != FIRST:
            continue
        n, _ = normal(apart)
        row = ws.J[o]
        for j in range(ends.count):
            row[j] = spread(0.0, s)
        _add_along(scale3(1.0 - s, n), ws.D1, ends.first_columns, ends.first.count, row)
        if body.long:
            _add_along(scale3(s, n), ws.D2, ends.second_columns, ends.second.count, row)


@inline
def _add_along(n, D, columns, count, row):
    """row += nᵀ D."""
    for j in range(count):
        row[columns[j]] += dot3(n, part3(D, 3 * j))


@kernel
def _weigh_forms(body, obstacles, ws):
    """W, f1, f2 := the Hessian and the gradient of weighted distances in where both ends are; ends, H := 0."""
    (p, d), size, zero = _axis(body, ws), 6 if body.long else 3, spread(0.0, ws.P1[0])
    for part, count in ((ws.f1, 3), (ws.f2, 3), (ws.W, 36), (ws.ends, 6 * body.ends.count)):
        for i in range(count):
            part[i] = zero
    H = as_vector(ws.H)
    for i in range(body.ends.count * body.ends.count):
        H[i] = zero
    for o in range(len(obstacles)):
        if not _is_zero(ws.c[o]):
            _add_form(p, d, *_obstacle(obstacles, o), ws.c[o], size, ws)
    for i in range(size):
        for j in range(i):
            ws.W[6 * i + j] = ws.W[6 * j + i]


@kernel
def _add_form(p, d, q, e, weight, size, ws):
    """W, its upper half, and f1, f2 += those of one distance."""
    W, work = ws.W, ws.work
    s, t, s_free, t_free = nearest(p, d, q, e)
    apart = sub3(add3(p, scale3(s, d)), add3(q, scale3(t, e)))
    n, length = normal(apart)
    iss, itt, ist = free_inverse(d, e, s_free, t_free)
    weight = where_less(TOUCHING, length, weight, 0.0)
    factor = weight / where_less(TOUCHING, length, length, 1.0)
    _scale(1.0 - s, n, e, sub3(scale3(1.0 - s, d), apart), 0, work)
    _scale(s, n, e, add3(scale3(s, d), apart), 3, work)
    for i in range(3):
        ws.f1[i] += weight * work[i]
        ws.f2[i] += weight * work[3 + i]
    for i in range(size):
        ni, di, ei = factor * work[i], factor * work[12 + i], factor * work[6 + i]
        by_d, by_e = iss * di + ist * ei, itt * ei + ist * di
        for j in range(i, size):
            W[6 * i + j] += -ni * work[j] - by_d * work[12 + j] - by_e * work[6 + j]
    for i in range(3):
        W[7 * i] += factor * (1.0 - s) * (1.0 - s)
        W[7 * (3 + i)] += factor * s * s
        W[6 * i + 3 + i] += factor * s * (1.0 - s)


@inline
def _scale(share, n, e, along, begin, work):
    """Numbers ``begin`` .. begin+2 of three times six: share n, -share e, and D_sx by how an end moves."""
    work[begin], work[begin + 1], work[begin + 2] = scale3(share, n)
    work[6 + begin], work[7 + begin], work[8 + begin] = scale3(-share, e)
    work[12 + begin], work[13 + begin], work[14 + begin] = along


@kernel
def _place_columns(D, columns, count, begin, both):
    """Columns D (3 count,) of an end, to be the numbers from ``begin`` on of the six that tell how both ends move."""
    for j in range(count):
        for i in range(3):
            both[6 * columns[j] + begin + i] = D[3 * j + i]
