# mypy: allow-untyped-defs, allow-untyped-calls
"""Distances of a body to obstacles as a quantity of `ddp.tracing.quantities`, eight knots at a time.

Numbers of eight knots lie side by side, as in points.py. The body's axis goes from the origin of a first frame to that
of a second one if it is ``long``, else it is the first origin alone.   obstacles (K, 7): start, end, radius, in the
world.
"""

from typing import Any

import numpy as np
from numba import types

from ddp.compiling.kernel import inline, kernel
from ddp.machine.addresses import array_at, integers_at
from ddp.machine.bound import c_function, read
from ddp.machine.fields import Fields, matrix_of, vector
from ddp.machine.memory import as_vector, hold, memory_of, numbers_between, rows_at, rows_of
from ddp.machine.number import all_less, spread, square_root, where_less
from ddp.machine.packing import pack, unpack
from ddp.tracing.quantities import FIRST, SECOND, VALUES, add_hessians
from dynamics.geometry.spatial import add3, dot3, part3, scale3, sub3
from dynamics.quantities import points
from dynamics.quantities.frames import Branch, Pair
from dynamics.quantities.segments import TOUCHING, free_inverse, nearest, normal
from dynamics.rigid_bodies.kinematics import clear

_floats = rows_at(types.float64)


class Distances(Fields):
    """Working memory of eight knots, of a `frames.Pair` and so many ``obstacles``.

    P1, P2: both ends of the axis.   D1, D2: their columns.   c: distances, or their weights.   J: gradients.
    f1, f2, W: gradient and Hessian of the weighted sum in where both ends are; ends: how both move, column by column.
    work: scratch.
    """

    P1, P2, f1, f2 = vector("3"), vector("3"), vector("3"), vector("3")
    D1, D2, ends = vector("3 count"), vector("3 count"), vector("6 count")
    W, work = vector("36"), vector("18")
    c, J = vector("obstacles"), matrix_of("obstacles", "count")


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
    room = np.empty((m * m + numbers_between(start, Distances(start, ends, K).end), 8))
    on_first = second.tree if within else first.tree, memory_of(of_first)
    on_second, bent = (second.tree, memory_of(of_second)), memory_of(room)
    ws = Distances(bent[m * m :], ends, K)
    y, weight, J, H = rows_of(y), rows_of(weight), rows_of(J), rows_of(H)
    for t in range(0, a.shape[0], 8):
        if order == SECOND:
            pack(weight, t, ws.c, K)
            if _all_zero(ws.c, K):
                continue
            clear(bent, m * m)
        if body.long:
            points.place_branch(second, X, t, on_second[1])
        if not within:
            points.place_branch(first, X, t, on_first[1])
        _find(body, around, order, nx, on_first, on_second, m, bent, ws)
        if order == SECOND:
            unpack(bent, m * m, H, t)
            continue
        unpack(ws.c, K, y, t)
        if order == FIRST:
            unpack(as_vector(ws.J), K * m, J, t)
    hold(room)
    hold(of_first)
    hold(of_second)


bound: Any = None
found: Any = None


def _together(contexts, blocks, order, count):  # type: ignore[no-untyped-def]
    """C function of several clearances of one robot, whose branches are where the longest one begins, but for a name.

    contexts (count,): of each one's arguments, body and obstacles, which ``bound`` reads.   blocks (count, 11): of each
    one the words that C functions of constraints are given. Bodies are placed once, and there is one Hessian.
    """
    of, words = integers_at(contexts, (count,)), integers_at(blocks, (count, 11))
    M, nx, nz, most, begin = words[0, 0], words[0, 1], words[0, 3], 0, _floats(64)
    longest, X = bound(of[0])[0].ends.first, rows_of(array_at(words[0, 6], (M, nx)))
    for k in range(count):
        body, obstacles = bound(of[k])
        for end in (body.ends.first, body.ends.second):
            if end.tree.nb > longest.tree.nb:
                longest = end
        most = max(most, numbers_between(begin, Distances(begin, body.ends, obstacles.shape[0]).end))
    n, memory = longest.count, points.knots_workspace(longest.tree, nx)
    room, on = np.empty((n * n + most, 8)), (longest.tree, memory_of(memory))
    bent, rest, H = memory_of(room), memory_of(room)[n * n :], np.zeros((M if order == SECOND else 0, n, n))
    for t in range(0, M, 8):
        is_placed = False
        for k in range(count):
            body, obstacles = bound(of[k])
            K, m = obstacles.shape[0], body.ends.count
            ws = Distances(rest, body.ends, K)
            if order == SECOND:
                pack(rows_of(array_at(words[k, 8], (M, K))), t, ws.c, K)
                if _all_zero(ws.c, K):
                    continue
            if not is_placed:
                points.place_branch(longest, X, t, on[1])
                is_placed = True
                clear(bent, n * n if order == SECOND else 0)
            found(body, rows_of(obstacles), order, nx, on, on, n, bent, ws)
            if order == VALUES:
                unpack(ws.c, K, rows_of(array_at(words[k, 9], (M, K))), t)
            elif order == FIRST:
                unpack(as_vector(ws.J), K * m, rows_of(array_at(words[k, 9], (M, K * m))), t)
        if order == SECOND and is_placed:
            unpack(bent, n * n, rows_of(H), t)
    if order == SECOND:
        add_hessians(1.0, H, longest.dof, array_at(words[0, 10], (M, nz, nz)))
    hold(room)
    hold(memory)


@kernel
def _find(body, around, order, nx, on_first, on_second, n, bent, ws):
    """Distances, with order FIRST their gradients, too; SECOND: bent (n n, 8) += the Hessian of the weighted sum.

    on_first, on_second: trees that both ends are on, and memory where their bodies are placed.
    """
    ends, (tree1, memory1), (tree2, memory2) = body.ends, on_first, on_second
    first, second = ends.first, ends.second
    points.take_point(first, tree1, nx, memory1, ws.P1)
    if body.long:
        points.take_point(second, tree2, nx, memory2, ws.P2)
    if order != VALUES:
        points.point_columns(first, tree1, nx, memory1, ws.P1, ws.D1)
        if body.long:
            points.point_columns(second, tree2, nx, memory2, ws.P2, ws.D2)
    if order != SECOND:
        _measure(body, around, order, ws)
        return
    _weigh_forms(body, around, ws)
    _place_columns(ws.D1, ends.first_columns, first.count, 0, ws.ends)
    if body.long:
        _place_columns(ws.D2, ends.second_columns, second.count, 3, ws.ends)
    points.add_form(ws.W, ws.ends, ends.count, 6 if body.long else 3, ws.work, n, bent)
    points.bend_points(first, tree1, nx, memory1, ws.P1, ws.D1, ws.f1, ends.first_columns, n, bent)
    if body.long:
        points.bend_points(second, tree2, nx, memory2, ws.P2, ws.D2, ws.f2, ends.second_columns, n, bent)


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
    """W, f1, f2 := the Hessian and the gradient of weighted distances in where both ends are; ends := 0."""
    (p, d), size = _axis(body, ws), 6 if body.long else 3
    for part, count in ((ws.f1, 3), (ws.f2, 3), (ws.W, 36), (ws.ends, 6 * body.ends.count)):
        clear(part, count)
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


def together(*arguments: Any) -> Any:
    """C function of several clearances with arguments of these types, see `_together`."""
    return c_function(_together, read(arguments, [], []), found=_find)


def chain_of(ends: Pair) -> tuple[int, ...] | None:
    """Degrees of freedom that move two frames, from the root on; None where one's branch does not begin the other's."""
    short, long = sorted((ends.first, ends.second), key=lambda end: end.count)
    own, chain = tuple(short.dof.tolist()), tuple(long.dof.tolist())
    begins = chain[: len(own)] == own and short.tree.nb <= long.tree.nb and chain == tuple(sorted(chain))
    return chain if begins and type(long) is Branch and type(short) is Branch else None
