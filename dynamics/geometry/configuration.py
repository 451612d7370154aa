# mypy: allow-untyped-defs, allow-untyped-calls
"""The configuration manifold of a tree: q ⊕ ξ, q1 ⊖ q0, and what a joint's step means to second order."""

from __future__ import annotations

from ddp.compiling.kernel import kernel
from dynamics.geometry.groups import angle_of, difference_of, integrate_planar, integrate_spherical, unit_circle
from dynamics.geometry.lie import integrate_free_flyer
from dynamics.robots.joints import CONTINUOUS, FREE_FLYER, PLANAR, SPHERICAL, is_group, slot


@kernel
def integrate_configuration(tree, q, xi, scale, out):
    """out := q ⊕ scale ξ, joint by joint, as pinocchio.integrate; quaternions and (cos, sin) stay unit."""
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
            out[i], out[i + 1] = unit_circle(q[i], q[i + 1], scale * xi[iv])
        elif kind == SPHERICAL or kind == PLANAR:
            four = (q[i], q[i + 1], q[i + 2], q[i + 3])
            three = (scale * xi[iv], scale * xi[iv + 1], scale * xi[iv + 2])
            turned = integrate_spherical(four, three) if kind == SPHERICAL else integrate_planar(four, three)
            for k in range(4):
                out[i + k] = turned[k]
        else:
            for k in range(tree.nj[b]):
                out[i + k] = q[i + k] + scale * xi[iv + k]


@kernel
def difference_configuration(tree, q0, q1, out):
    """out := q1 ⊖ q0, as pinocchio.difference."""
    for b in range(tree.parent.size):
        i, iv, kind = tree.iq[b], tree.iv[b], tree.kind[b]
        if is_group(kind):
            xi = difference_of(kind, q0, q1, i)
            for k in range(tree.nj[b]):
                out[iv + k] = xi[slot(kind, k)]
        elif kind == CONTINUOUS:
            out[iv] = angle_of(q0[i] * q1[i] + q0[i + 1] * q1[i + 1], q0[i] * q1[i + 1] - q0[i + 1] * q1[i])
        else:
            for k in range(tree.nj[b]):
                out[iv + k] = q1[i + k] - q0[i + k]


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
