"""The configuration manifold of a tree: q ⊕ ξ, q1 ⊖ q0, and what a joint's step means to second order."""

from __future__ import annotations

import numpy as np

from ddp.kernel import kernel
from dynamics.lie import difference_free_flyer, integrate_free_flyer
from dynamics.model import CONTINUOUS, FREE_FLYER


@kernel
def integrate_configuration(tree, q, xi, scale, out):
    """out := q ⊕ scale ξ, joint by joint, as pinocchio.integrate; quaternions stay unit."""
    for b in range(tree.parent.size):
        i, iv, kind = tree.iq[b], tree.iv[b], tree.kind[b]
        if kind == FREE_FLYER:
            pose = (q[i], q[i + 1], q[i + 2], q[i + 3], q[i + 4], q[i + 5], q[i + 6])
            x = (
                scale * xi[iv], scale * xi[iv + 1], scale * xi[iv + 2],
                scale * xi[iv + 3], scale * xi[iv + 4], scale * xi[iv + 5],
            )  # fmt: skip
            moved = integrate_free_flyer(pose, x)
            for k in range(7):
                out[i + k] = moved[k]
        elif kind == CONTINUOUS:
            c, s = np.cos(scale * xi[iv]), np.sin(scale * xi[iv])
            cosine, sine = q[i] * c - q[i + 1] * s, q[i + 1] * c + q[i] * s
            k = 1.5 - 0.5 * (cosine * cosine + sine * sine)
            out[i], out[i + 1] = k * cosine, k * sine
        else:
            out[i] = q[i] + scale * xi[iv]


@kernel
def difference_configuration(tree, q0, q1, out):
    """out := q1 ⊖ q0, as pinocchio.difference."""
    for b in range(tree.parent.size):
        i, iv, kind = tree.iq[b], tree.iv[b], tree.kind[b]
        if kind == FREE_FLYER:
            xi = difference_free_flyer(
                (q0[i], q0[i + 1], q0[i + 2], q0[i + 3], q0[i + 4], q0[i + 5], q0[i + 6]),
                (q1[i], q1[i + 1], q1[i + 2], q1[i + 3], q1[i + 4], q1[i + 5], q1[i + 6]),
            )
            for k in range(6):
                out[iv + k] = xi[k]
        elif kind == CONTINUOUS:
            cosine, sine = q0[i] * q1[i] + q0[i + 1] * q1[i + 1], q0[i] * q1[i + 1] - q0[i + 1] * q1[i]
            out[iv] = np.arctan2(sine, cosine)
        else:
            out[iv] = q1[i] - q0[i]


@kernel
def difference_state(tree, x0, x1, out):
    """out := x1 ⊖ x0 for x = (q, v)."""
    nv = tree.body.size
    nq = x0.size - nv
    difference_configuration(tree, x0[:nq], x1[:nq], out)
    for i in range(nv):
        out[nv + i] = x1[nq + i] - x0[nq + i]


@kernel
def integrate_state(tree, x, dx, out):
    """out := x ⊕ dx for x = (q, v)."""
    nv = tree.body.size
    nq = x.size - nv
    integrate_configuration(tree, x[:nq], dx[:nv], 1.0, out)
    for i in range(nv):
        out[nq + i] = x[nq + i] + dx[nv + i]


@kernel
def difference_batch(tree, X0, X1, out):
    """Row by row, out := X1 ⊖ X0."""
    for t in range(X0.shape[0]):
        difference_state(tree, X0[t], X1[t], out[t])


@kernel
def integrate_batch(tree, X, dX, out):
    """Row by row, out := X ⊕ dX."""
    for t in range(X.shape[0]):
        integrate_state(tree, X[t], dX[t], out[t])
