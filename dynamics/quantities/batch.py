# mypy: allow-untyped-defs, allow-untyped-calls
"""The kernels of frames over batches of samples, with Jacobians and weighted Hessians.

They are ``(*arguments, a, order, y, weight, J, H)`` of `ddp.tracing.quantities`, for the functions that people call,
functions of users, costs and constraints alike. Samples may be longer than what is read, as states are than q.
A placement is R by rows, then p.
"""

import numpy as np

from ddp.compiling.kernel import kernel
from ddp.machine.memory import hold, memory_of, rows_of
from ddp.machine.number import spread
from ddp.machine.packing import pack, unpack
from ddp.tracing.quantities import SECOND, VALUES
from dynamics.geometry import lie
from dynamics.geometry.spatial import load6, rotate_back, store, times6, transposed_times6
from dynamics.quantities import frames
from dynamics.quantities.points import bend_points, knots_workspace, place_points, point_columns, turn_columns


@kernel
def write_columns(rows, places, shift, out):
    """The columns shift + places of out := rows; element by element, which compiles in a tenth of a slice's time."""
    for j in range(rows.shape[0]):
        for i in range(out.shape[0]):
            out[i, shift + places[j]] = rows[j, i]


@kernel
def position(branch, a, order, y, weight, J, H):
    """p of a frame, of eight samples at once; derivatives are by the branch's own degrees of freedom."""
    m, nx, every = branch.count, a.shape[1], np.empty(branch.count, np.int64)
    room, own = knots_workspace(branch.tree, nx), np.empty((6 + 6 * m + m * m, 8))
    X, y, weight, J, H, memory = rows_of(a), rows_of(y), rows_of(weight), rows_of(J), rows_of(H), memory_of(room)
    P, columns = memory_of(own), rows_of(every)
    for i in range(m):
        columns[i] = i
    f, D, rows, bent = P[3:], P[6:], P[6 + 3 * m :], P[6 + 6 * m :]
    for t in range(0, a.shape[0], 8):
        place_points(branch, X, t, memory, P)
        if order != VALUES:
            point_columns(branch, branch.tree, nx, memory, P, D)
        if order == SECOND:
            pack(weight, t, f, 3)
            for i in range(m * m):
                bent[i] = spread(0.0, P[0])
            bend_points(branch, branch.tree, nx, memory, P, D, f, columns, m, bent)
            unpack(bent, m * m, H, t)
            continue
        unpack(P, 3, y, t)
        if order != VALUES:
            turn_columns(D, m, rows)
            unpack(rows, 3 * m, J, t)
    hold(room)
    hold(own)
    hold(every)


@kernel
def pose_error(branch, target, a, order, y, weight, J, H):
    """log6(target⁻¹ M) of a frame's placement M; derivatives as of `position`."""
    memory, columns, Jlog = frames.branch_workspace(branch, a), np.zeros((branch.count, 6)), np.zeros((6, 6))
    G = np.zeros((6, 6))
    for k in range(a.shape[0]):
        R, p = frames.place_frame(branch, a[k], memory, columns)
        r = lie.pose_error(target, R, p)
        if order != VALUES:
            lie.jlog6(r, Jlog)
        if order == SECOND:
            w = load6(weight, k)
            lie.log6_hessian(r, w, G)
            frames.add_displacement_curvature(branch, memory, columns, transposed_times6(Jlog, w), G, H[k])
            continue
        store(y, k, r)
        if order != VALUES:
            for j in range(branch.count):
                moved = times6(Jlog, load6(columns, j))
                for i in range(6):
                    J[k, i, j] = moved[i]


@kernel
def placement(branch, a, order, y, weight, J, H):
    """(R, p) of a frame: M Exp(d) is at ``p + R (d_l + ½ d_a × d_l)``, turned by ``R (1 + [d_a] + ½ [d_a]²)``."""
    memory, columns = frames.branch_workspace(branch, a), np.zeros((branch.count, 6))
    G, A = np.zeros((6, 6)), np.zeros((3, 3))
    for k in range(a.shape[0]):
        R, p = frames.place_frame(branch, a[k], memory, columns)
        if order == SECOND:
            w = weight[k]
            f = rotate_back(R, (w[9], w[10], w[11]))
            for i in range(3):  # A = Rᵀ W:  tr(Aᵀ [a] + ½ Aᵀ [a]²)
                for j in range(3):
                    A[i, j] = R[i] * w[j] + R[3 + i] * w[3 + j] + R[6 + i] * w[6 + j]
            for i in range(3):
                b, c = (i + 1) % 3, (i + 2) % 3
                G[b, 3 + c] = G[3 + c, b] = -0.5 * f[i]
                G[c, 3 + b] = G[3 + b, c] = 0.5 * f[i]
                for j in range(3):
                    G[3 + i, 3 + j] = 0.5 * (A[i, j] + A[j, i])
                G[3 + i, 3 + i] -= A[0, 0] + A[1, 1] + A[2, 2]
            force = (f[0], f[1], f[2], A[2, 1] - A[1, 2], A[0, 2] - A[2, 0], A[1, 0] - A[0, 1])
            frames.add_displacement_curvature(branch, memory, columns, force, G, H[k])
            continue
        for i in range(3):
            r0, r1, r2 = R[3 * i], R[3 * i + 1], R[3 * i + 2]
            y[k, 3 * i], y[k, 3 * i + 1], y[k, 3 * i + 2], y[k, 9 + i] = r0, r1, r2, p[i]
            if order != VALUES:
                for j in range(branch.count):
                    c = load6(columns, j)  # a row of R, times [d_a]
                    J[k, 3 * i, j] = r1 * c[5] - r2 * c[4]
                    J[k, 3 * i + 1, j] = r2 * c[3] - r0 * c[5]
                    J[k, 3 * i + 2, j] = r0 * c[4] - r1 * c[3]
                    J[k, 9 + i, j] = r0 * c[0] + r1 * c[1] + r2 * c[2]


@kernel
def velocity(branch, dof, reference, nq, a, order, y, weight, J, H):
    """A frame's velocity, by q and by v, in as many columns each; dof: which entries of v its branch has."""
    m, half = branch.count, H.shape[2] // 2
    memory, columns, E, v = frames.branch_workspace(branch, a), np.zeros((m, 6)), np.zeros((m, 6)), np.empty(half)
    Dq, Dv = np.zeros((m, 6)), np.zeros((m, 6))
    for k in range(a.shape[0]):
        for j in range(m):
            v[branch.dof[j]] = a[k, nq + dof[j]]
        R, p = frames.place_frame(branch, a[k], memory, columns)
        V = frames.frame_twist(branch, memory, columns, v, E)
        if order == SECOND:
            force = load6(weight, k)
            frames.add_twist_curvature(branch, memory, reference, R, p, V, columns, E, force, half, H[k])
            continue
        store(y, k, frames.twist_derivatives(reference, R, p, V, columns, E, Dq, Dv))
        if order != VALUES:
            write_columns(Dq, branch.dof, 0, J[k])
            write_columns(Dv, branch.dof, half, J[k])
