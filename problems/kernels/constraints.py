# mypy: allow-untyped-defs, allow-untyped-calls
"""The compiled loops of the constraints on states and torques: one call for all knots of a block.

They are those of `ddp.constraints.bound`: X (M, nx), U (M, nu); values go into ``out`` (M, size), Jacobians too,
(M, size, width), in the columns of the degrees of freedom that move the thing; curvatures, the Hessians of
``weight · c``, are added to ``out`` (M, nz, nz), with z = (dx, du) and weight (M, size).
"""

from __future__ import annotations

import numpy as np

from ddp import kernel
from dynamics.geometry.joint_motion import joint_log_hessian, joint_log_jacobian, twist_of
from problems.kernels.states import difference


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
