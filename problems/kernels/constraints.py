# mypy: allow-untyped-defs, allow-untyped-calls
"""The compiled loops of the constraints on frames: one call for all knots of a block.

They are those of `ddp.constraints.bound`: X (M, nx), U (M, nu); values go into ``out`` (M, size), Jacobians too,
(M, size, width), in the columns of the degrees of freedom that move the thing; curvatures, the Hessians of
``weight · c``, are added to ``out`` (M, nz, nz), with z = (dx, du) and weight (M, size).
"""

from __future__ import annotations

import numpy as np

from ddp import inline, kernel
from dynamics.geometry.joint_motion import joint_log_hessian, joint_log_jacobian, twist_of
from dynamics.geometry.lie import jlog6, log6_hessian, pose_error
from dynamics.geometry.spatial import add3, dot3, load3, part6, scale3
from dynamics.quantities.center_of_mass import (
    inertial_workspace,
    place_center_of_mass,
    pull_back_center_of_mass,
)
from dynamics.quantities.frames import (
    add_twist_curvature,
    branch_workspace,
    frame_twist,
    place_frame,
    pull_back_displacement,
    twist_derivatives,
)
from dynamics.quantities.points import add_knots, bend_points, knots_workspace, place_points, point_columns
from problems.kernels.states import difference


@kernel
def axis_values(branch, axes, offset, X, U, out):
    """``axes p - offset`` of a frame's origin p."""
    memory, P = knots_workspace(branch.tree, X.shape[1]), np.empty((3, 8))
    for begin in range(0, X.shape[0], 8):
        place_points(branch, X, begin, memory, P)
        for lane in range(min(8, X.shape[0] - begin)):
            for i in range(axes.shape[0]):
                out[begin + lane, i] = dot3(load3(axes, i), (P[0, lane], P[1, lane], P[2, lane])) - offset[i]


@kernel
def axis_jacobian(branch, axes, offset, X, U, out):
    """Axes times the columns of the origin's Jacobian."""
    nx = X.shape[1]
    memory, P, D = knots_workspace(branch.tree, nx), np.empty((3, 8)), np.empty((3 * branch.count, 8))
    for begin in range(0, X.shape[0], 8):
        place_points(branch, X, begin, memory, P)
        point_columns(branch, nx, memory, P, D)
        for lane in range(min(8, X.shape[0] - begin)):
            for i in range(axes.shape[0]):
                for j in range(branch.count):
                    d = (D[3 * j, lane], D[3 * j + 1, lane], D[3 * j + 2, lane])
                    out[begin + lane, i, j] = dot3(load3(axes, i), d)


@kernel
def axis_curvature(branch, axes, offset, X, U, weight, out):
    """Hessian of ``(axesᵀ weight) · p``."""
    nx, m, every = X.shape[1], branch.count, np.arange(branch.count)
    memory, P, D = knots_workspace(branch.tree, nx), np.empty((3, 8)), np.empty((3 * m, 8))
    f, H = np.empty((3, 8)), np.empty((m * m, 8))
    for begin in range(0, X.shape[0], 8):
        lanes = min(8, X.shape[0] - begin)
        place_points(branch, X, begin, memory, P)
        point_columns(branch, nx, memory, P, D)
        f[:] = 0.0
        H[:] = 0.0
        for lane in range(lanes):
            f[0, lane], f[1, lane], f[2, lane] = _back(axes, weight[begin + lane])
        bend_points(branch, nx, memory, P, D, f, every, m, H)
        add_knots(H, m, branch.dof, begin, lanes, out)


@inline
def _back(axes, weight):
    """``axesᵀ weight``."""
    f = (0.0, 0.0, 0.0)
    for i in range(axes.shape[0]):
        f = add3(f, scale3(weight[i], load3(axes, i)))
    return f


@kernel
def center_values(tree, axes, X, U, out):
    """``axes c`` of the centre of mass c."""
    memory, g = inertial_workspace(tree, X), np.zeros((tree.nv, 3))
    for k in range(X.shape[0]):
        c = place_center_of_mass(tree, X[k], memory, g)
        for i in range(axes.shape[0]):
            out[k, i] = dot3(load3(axes, i), c)


@kernel
def center_jacobian(tree, axes, X, U, out):
    """Axes times the derivatives of the centre of mass."""
    memory, g = inertial_workspace(tree, X), np.zeros((tree.nv, 3))
    for k in range(X.shape[0]):
        place_center_of_mass(tree, X[k], memory, g)
        for i in range(axes.shape[0]):
            for j in range(tree.nv):
                out[k, i, j] = dot3(load3(axes, i), load3(g, j))


@kernel
def center_curvature(tree, axes, X, U, weight, out):
    """Hessian of ``(axesᵀ weight) · c``."""
    memory, g, gradient = inertial_workspace(tree, X), np.zeros((tree.nv, 3)), np.zeros(tree.nv)
    for k in range(X.shape[0]):
        place_center_of_mass(tree, X[k], memory, g)
        pull_back_center_of_mass(tree, memory, g, _back(axes, weight[k]), 0.0, 1.0, True, gradient, out[k])


@kernel
def velocity_values(branch, reference, nq, nv, rows, X, U, out):
    """Some numbers of a frame's velocity."""
    m = branch.count
    memory, J, E, D = branch_workspace(branch, X), np.zeros((m, 6)), np.zeros((m, 6)), np.zeros((2 * m, 6))
    V = np.zeros(6)
    for k in range(X.shape[0]):
        R, p = place_frame(branch, X[k], memory, J)
        twist = frame_twist(branch, memory, J, X[k, nq:], E)
        twist = twist_derivatives(reference, R, p, twist, J, E, D[:m], D[m:])
        for i in range(6):
            V[i] = twist[i]
        for i in range(rows.size):
            out[k, i] = V[rows[i]]


@kernel
def velocity_jacobian(branch, reference, nq, nv, rows, X, U, out):
    """By q, then by v, of the degrees of freedom that move the frame."""
    m = branch.count
    memory, J, E, D = branch_workspace(branch, X), np.zeros((m, 6)), np.zeros((m, 6)), np.zeros((2 * m, 6))
    for k in range(X.shape[0]):
        R, p = place_frame(branch, X[k], memory, J)
        twist = frame_twist(branch, memory, J, X[k, nq:], E)
        twist_derivatives(reference, R, p, twist, J, E, D[:m], D[m:])
        for i in range(rows.size):
            for j in range(2 * m):
                out[k, i, j] = D[j, rows[i]]


@kernel
def velocity_curvature(branch, reference, nq, nv, rows, X, U, weight, out):
    """Hessian of weights times the velocity."""
    m = branch.count
    memory, J, E, f = branch_workspace(branch, X), np.zeros((m, 6)), np.zeros((m, 6)), np.zeros(6)
    for k in range(X.shape[0]):
        R, p = place_frame(branch, X[k], memory, J)
        twist = frame_twist(branch, memory, J, X[k, nq:], E)
        for i in range(rows.size):
            f[rows[i]] = weight[k, i]
        add_twist_curvature(branch, memory, reference, R, p, twist, J, E, part6(f, 0), 1.0, nv, out[k])


@kernel
def pose_values(branch, target, X, U, out):
    """``log6(target⁻¹ oMf)``."""
    memory, J = branch_workspace(branch, X), np.zeros((branch.count, 6))
    for k in range(X.shape[0]):
        R, p = place_frame(branch, X[k], memory, J)
        r = pose_error(target, R, p)
        for i in range(6):
            out[k, i] = r[i]


@kernel
def pose_jacobian(branch, target, X, U, out):
    """Jlog6 times the frame's Jacobian."""
    memory, J, Jlog = branch_workspace(branch, X), np.zeros((branch.count, 6)), np.zeros((6, 6))
    for k in range(X.shape[0]):
        R, p = place_frame(branch, X[k], memory, J)
        jlog6(pose_error(target, R, p), Jlog)
        for j in range(branch.count):
            for i in range(6):
                out[k, i, j] = 0.0
                for a in range(6):
                    out[k, i, j] += Jlog[i, a] * J[j, a]


@kernel
def pose_curvature(branch, target, X, U, weight, out):
    """Hessian of weight · log6(target⁻¹ oMf): by the curvature of log6 and that of the displacement."""
    memory, J = branch_workspace(branch, X), np.zeros((branch.count, 6))
    Jlog, G, f, gradient = np.zeros((6, 6)), np.zeros((6, 6)), np.zeros(6), np.zeros(out.shape[1])
    for k in range(X.shape[0]):
        R, p = place_frame(branch, X[k], memory, J)
        r = pose_error(target, R, p)
        jlog6(r, Jlog)
        log6_hessian(r, part6(weight[k], 0), G)
        for a in range(6):
            f[a] = 0.0
            for i in range(6):
                f[a] += Jlog[i, a] * weight[k, i]
        pull_back_displacement(branch, memory, J, part6(f, 0), G, 1.0, True, gradient, out[k])


@kernel
def state_jacobian(layout, target, X, U, out):
    """Jacobian of ``x ⊖ target``: ones, and Jlog6 for free-flyers, spherical and planar joints."""
    r, J, diagonal = np.zeros(out.shape[1]), np.zeros((6, 6)), out.shape[2] == 1
    out[:] = 0.0
    for k in range(X.shape[0]):
        difference(layout, target, X[k], r)
        for i in range(out.shape[1]):
            out[k, i, 0 if diagonal else i] = 1.0
        for b in range(layout.group.shape[0]):
            _, t, kind, nj = layout.group[b]
            joint_log_jacobian(kind, nj, twist_of(kind, r, t, 1.0), J)
            for i in range(nj):
                for j in range(nj):
                    out[k, t + i, t + j] = J[i, j]


@kernel
def state_values(layout, target, X, U, out):
    """``x ⊖ target``."""
    for k in range(X.shape[0]):
        difference(layout, target, X[k], out[k])


@kernel
def state_curvature(layout, target, X, U, weight, out):
    """Only free-flyers, spherical and planar joints have any."""
    r, H = np.zeros(weight.shape[1]), np.zeros((6, 6))
    for k in range(X.shape[0]):
        difference(layout, target, X[k], r)
        for b in range(layout.group.shape[0]):
            _, t, kind, nj = layout.group[b]
            joint_log_hessian(kind, nj, twist_of(kind, r, t, 1.0), twist_of(kind, weight[k], t, 1.0), H)
            for i in range(nj):
                for j in range(nj):
                    out[k, t + i, t + j] += H[i, j]


@kernel
def torque_values(acting, S, X, U, out):
    """``S u`` of the controls that act."""
    for k in range(X.shape[0]):
        for i in range(S.shape[0]):
            out[k, i] = 0.0
            for j in range(S.shape[1]):
                out[k, i] += S[i, j] * U[k, acting[j]]


@kernel
def torque_jacobian(acting, S, X, U, out):
    """S."""
    for k in range(X.shape[0]):
        for i in range(S.shape[0]):
            for j in range(S.shape[1]):
                out[k, i, j] = S[i, j]
