# mypy: allow-untyped-defs, allow-untyped-calls
"""The compiled loops of clearances, eight knots at a time; conventions as in kernels/constraints.py."""

from __future__ import annotations

import numpy as np

from ddp import kernel
from dynamics.quantities.points import add_form, add_knots, bend_points, knots_workspace, place_points, point_columns
from dynamics.quantities.segments import add_axis_forms, axis_columns, axis_distances


@kernel
def clearance_values(body, obstacles, X, U, out):
    """The distance of two axes less both radii: of the body, and of obstacles (K, 7): start, end, radius."""
    first, second, M, K = body.ends.first, body.ends.second, X.shape[0], obstacles.shape[0]
    memory1, memory2 = knots_workspace(first.tree, X.shape[1]), knots_workspace(second.tree, X.shape[1])
    P1, P2, C = np.empty((3, 8)), np.empty((3, 8)), np.empty((K, 8))
    for begin in range(0, M, 8):
        place_points(first, X, begin, memory1, P1)
        if body.long:
            place_points(second, X, begin, memory2, P2)
        axis_distances(P1, P2, body.long, obstacles, C)
        for lane in range(min(8, M - begin)):
            for o in range(K):
                out[begin + lane, o] = C[o, lane] - body.radius - obstacles[o, 6]


@kernel
def clearance_jacobian(body, obstacles, X, U, out):
    """``n · ((1 - s) J_first + s J_second)``: the nearest points' own motion along the axes does not count."""
    ends, M, nx, K = body.ends, X.shape[0], X.shape[1], obstacles.shape[0]
    first, second, m = ends.first, ends.second, ends.count
    memory1, memory2 = knots_workspace(first.tree, nx), knots_workspace(second.tree, nx)
    P1, P2, D1, D2 = np.empty((3, 8)), np.empty((3, 8)), np.empty((3 * first.count, 8)), np.empty((3 * second.count, 8))
    J = np.empty((K * m, 8))
    for begin in range(0, M, 8):
        place_points(first, X, begin, memory1, P1)
        point_columns(first, nx, memory1, P1, D1)
        if body.long:
            place_points(second, X, begin, memory2, P2)
            point_columns(second, nx, memory2, P2, D2)
        axis_columns(P1, P2, body.long, obstacles, D1, ends.first_columns, D2, ends.second_columns, m, J)
        for lane in range(min(8, M - begin)):
            for o in range(K):
                for j in range(m):
                    out[begin + lane, o, j] = J[o * m + j, lane]


@kernel
def clearance_curvature(body, obstacles, X, U, weight, out):
    """With ½|P - Q|² = D(x, s, t): ``∂²D = D_xx - D_xf D_ff⁻¹ D_fx`` over the free ones f of s, t; |P - Q| follows.

    J = (1 - s) J_first + s J_second,   D_xx = Jᵀ J + |P - Q| n · ∂²P,   D_sx = dᵀ J + (P - Q)ᵀ (J_second - J_first),
    D_tx = -eᵀ J,   D_ss = dᵀd,   D_tt = eᵀe,   D_st = -dᵀe.

    But for ∂²P this is a form W (6, 6) of how both ends move, the sum of all obstacles' at a knot.
    """
    ends, M, nx, K = body.ends, X.shape[0], X.shape[1], obstacles.shape[0]
    first, second, m, dof = ends.first, ends.second, ends.count, ends.dof
    memory1, memory2 = knots_workspace(first.tree, nx), knots_workspace(second.tree, nx)
    P1, P2, D1, D2 = np.empty((3, 8)), np.empty((3, 8)), np.empty((3 * first.count, 8)), np.empty((3 * second.count, 8))
    f1, f2, W, work, y = np.empty((3, 8)), np.empty((3, 8)), np.empty((36, 8)), np.empty((18, 8)), np.zeros((K, 8))
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
        for lane in range(8):
            for o in range(K):
                y[o, lane] = weight[begin + lane, o] if lane < lanes else 0.0
        add_axis_forms(P1, P2, body.long, obstacles, y, work, W, f1, f2)
        _place_columns(D1, ends.first_columns, first.count, 0, both)
        if body.long:
            _place_columns(D2, ends.second_columns, second.count, 3, both)
        add_form(W, both, m, size, H)
        bend_points(first, nx, memory1, P1, D1, f1, ends.first_columns, m, H)
        if body.long:
            bend_points(second, nx, memory2, P2, D2, f2, ends.second_columns, m, H)
        add_knots(H, m, dof, begin, lanes, out)


@kernel
def _place_columns(D, columns, count, begin, both):
    """Columns D (3 count, 8) of an end, to be the numbers from ``begin`` on of the six that tell how both ends move."""
    for j in range(count):
        for i in range(3):
            for lane in range(8):
                both[6 * columns[j] + begin + i, lane] = D[3 * j + i, lane]
