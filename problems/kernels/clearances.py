# mypy: allow-untyped-defs, allow-untyped-calls
"""Distances of a body to obstacles as a quantity of `ddp.tracing.quantities`, eight knots at a time."""

import numpy as np

from ddp import kernel
from ddp.tracing.quantities import FIRST, SECOND, VALUES
from dynamics.quantities import points
from dynamics.quantities.segments import add_axis_forms, axis_columns, axis_distances


@kernel
def clearance(body, obstacles, a, order, y, weight, J, H):
    """The distance of two axes less both radii: of the body, and of obstacles (K, 7): start, end, radius.

    Its Jacobian is ``n · ((1 - s) J_first + s J_second)``: how nearest points move along the axes does not count. With
    ½|P - Q|² = D(x, s, t): ``∂²D = D_xx - D_xf D_ff⁻¹ D_fx`` over the free ones f of s, t; |P - Q| follows.

    J = (1 - s) J_first + s J_second,   D_xx = Jᵀ J + |P - Q| n · ∂²P,   D_sx = dᵀ J + (P - Q)ᵀ (J_second - J_first),
    D_tx = -eᵀ J,   D_ss = dᵀd,   D_tt = eᵀe,   D_st = -dᵀe.

    But for ∂²P this is a form W (6, 6) of how both ends move, the sum of all obstacles' at a knot.
    """
    ends, M, nx, K = body.ends, a.shape[0], a.shape[1], obstacles.shape[0]
    first, second, m, size = ends.first, ends.second, ends.count, 6 if body.long else 3
    within = body.long and points.begins(first, second)  # bodies are placed once
    tree2 = second.tree
    tree1 = tree2 if within else first.tree
    memory2 = points.knots_workspace(tree2, nx)
    memory1 = memory2 if within else points.knots_workspace(tree1, nx)
    P1, P2, D1, D2 = np.empty((3, 8)), np.empty((3, 8)), np.empty((3 * first.count, 8)), np.empty((3 * second.count, 8))
    once, twice = 1 if order == FIRST else 0, 1 if order == SECOND else 0
    C, moved, every = np.empty((K, 8)), np.empty((once * K * m, 8)), np.arange(twice * m)
    f1, f2, W, work = np.empty((3, 8)), np.empty((3, 8)), np.empty((36, 8)), np.empty((18, 8))
    both, bent = np.empty((twice * 6 * m, 8)), np.empty((twice * m * m, 8))
    for begin in range(0, M, 8):
        lanes = min(8, M - begin)
        if order == SECOND and not weight[begin : begin + lanes].any():
            continue
        if body.long:
            points.place_points(second, a, begin, memory2, P2)
        if within:
            points.take_point(first, tree2, nx, memory2, P1)
        else:
            points.place_points(first, a, begin, memory1, P1)
        if order != VALUES:
            points.point_columns(first, tree1, nx, memory1, P1, D1)
            if body.long:
                points.point_columns(second, tree2, nx, memory2, P2, D2)
        if order != SECOND:
            axis_distances(P1, P2, body.long, obstacles, C)
            for lane in range(lanes):
                for o in range(K):
                    y[begin + lane, o] = C[o, lane] - body.radius - obstacles[o, 6]
        if order == FIRST:
            axis_columns(P1, P2, body.long, obstacles, D1, ends.first_columns, D2, ends.second_columns, m, moved)
            for lane in range(lanes):
                for o in range(K):
                    for j in range(m):
                        J[begin + lane, o, j] = moved[o * m + j, lane]
        if order == SECOND:
            for one in (W, f1, f2, both, bent):
                one[:] = 0.0
            for lane in range(8):
                for o in range(K):
                    C[o, lane] = weight[begin + lane, o] if lane < lanes else 0.0
            add_axis_forms(P1, P2, body.long, obstacles, C, work, W, f1, f2)
            _place_columns(D1, ends.first_columns, first.count, 0, both)
            if body.long:
                _place_columns(D2, ends.second_columns, second.count, 3, both)
            points.add_form(W, both, m, size, work, bent)
            points.bend_points(first, tree1, nx, memory1, P1, D1, f1, ends.first_columns, m, bent)
            if body.long:
                points.bend_points(second, tree2, nx, memory2, P2, D2, f2, ends.second_columns, m, bent)
            points.add_knots(bent, m, every, begin, lanes, H)


@kernel
def _place_columns(D, columns, count, begin, both):
    """Columns D (3 count, 8) of an end, to be the numbers from ``begin`` on of the six that tell how both ends move."""
    for j in range(count):
        for i in range(3):
            for lane in range(8):
                both[6 * columns[j] + begin + i, lane] = D[3 * j + i, lane]
