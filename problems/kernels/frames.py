# mypy: allow-untyped-defs, allow-untyped-calls
"""The compiled loops of the costs on frames and the centre of mass: one call for all knots of a block.

The conventions are those of kernels/states.py.
"""

from __future__ import annotations

import numpy as np

from ddp import inline, kernel
from ddp.costs.bound import EXACT, VALUES
from dynamics.geometry.lie import jlog6, log6_hessian, pose_error
from dynamics.geometry.spatial import (
    dot3,
    dot6,
    load3,
    load6,
    part6,
    rotate_back,
    times6,
)
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
from problems.kernels.states import row_of


@inline
def times3(W, a):
    """W a of a matrix (3, 3)."""
    return (dot3(load3(W, 0), a), dot3(load3(W, 1), a), dot3(load3(W, 2), a))


@kernel
def pose_cost(branch, target, weights, first, X, U, scale, order, l, lz, lzz):
    """FramePose: the residual r moves by Jlog6(r) d, and by its curvature log6_hessian."""
    memory, J = branch_workspace(branch, X), np.zeros((branch.count, 6))
    Jlog, G = np.zeros((6, 6)), np.zeros((6, 6))
    for k in range(X.shape[0]):
        R, p = place_frame(branch, X[k], memory, J)
        r = pose_error(target, R, p)
        wr = times6(weights, r)
        l[k] += scale * 0.5 * dot6(r, wr)
        if order == VALUES:
            continue
        jlog6(r, Jlog)
        G[:] = 0.0
        if order == EXACT:
            log6_hessian(r, wr, G)
        force = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
        for i in range(6):
            row, f = load6(Jlog, i), wr[i]
            force = (
                force[0] + row[0] * f, force[1] + row[1] * f, force[2] + row[2] * f,
                force[3] + row[3] * f, force[4] + row[4] * f, force[5] + row[5] * f,
            )  # fmt: skip
            for j in range(6):
                w = weights[i, j]
                if w != 0.0:
                    for a in range(6):
                        for c in range(6):
                            G[a, c] += w * Jlog[i, a] * Jlog[j, c]
        pull_back_displacement(branch, memory, J, force, G, scale, order == EXACT, lz[k], lzz[k])


@kernel
def position_cost(branch, targets, weight, first, X, U, scale, order, l, lz, lzz):
    """FramePosition: M Exp(d) is at ``p + R (d_l + ½ d_a × d_l)``."""
    memory, J, G = branch_workspace(branch, X), np.zeros((branch.count, 6)), np.zeros((6, 6))
    for k in range(X.shape[0]):
        R, p = place_frame(branch, X[k], memory, J)
        target = row_of(targets, first + k)
        d = (p[0] - target[0], p[1] - target[1], p[2] - target[2])
        wd = times3(weight, d)
        l[k] += scale * 0.5 * dot3(d, wd)
        if order == VALUES:
            continue
        e = rotate_back(R, wd)
        f = (e[0], e[1], e[2], 0.0, 0.0, 0.0)
        for i in range(3):
            turned = rotate_back(R, times3(weight, (R[i], R[3 + i], R[6 + i])))
            for j in range(3):
                G[i, j] = turned[j]
            if order == EXACT:
                a, b = (i + 1) % 3, (i + 2) % 3
                G[a, 3 + b] = -0.5 * f[i]
                G[3 + b, a] = -0.5 * f[i]
                G[b, 3 + a] = 0.5 * f[i]
                G[3 + a, b] = 0.5 * f[i]
        pull_back_displacement(branch, memory, J, f, G, scale, order == EXACT, lz[k], lzz[k])


@kernel
def velocity_cost(branch, reference, nq, nv, target, weights, first, X, U, scale, order, l, lz, lzz):
    """FrameVelocity."""
    m = branch.count
    memory, J, E, D = branch_workspace(branch, X), np.zeros((m, 6)), np.zeros((m, 6)), np.zeros((2 * m, 6))
    r = np.zeros(6)
    index = np.empty(2 * m, np.int64)
    for j in range(m):
        index[j], index[m + j] = branch.dof[j], nv + branch.dof[j]
    for k in range(X.shape[0]):
        R, p = place_frame(branch, X[k], memory, J)
        V = frame_twist(branch, memory, J, X[k, nq:], E)
        W = twist_derivatives(reference, R, p, V, J, E, D[:m], D[m:])
        for i in range(6):
            r[i] = W[i] - target[i]
        force = times6(weights, part6(r, 0))
        l[k] += scale * 0.5 * dot6(part6(r, 0), force)
        if order == VALUES:
            continue
        for a in range(2 * m):
            d = load6(D, a)
            lz[k, index[a]] += scale * dot6(d, force)
            wd = times6(weights, d)
            lzz[k, index[a], index[a]] += scale * dot6(d, wd)
            for b in range(a):
                h = scale * dot6(load6(D, b), wd)
                lzz[k, index[a], index[b]] += h
                lzz[k, index[b], index[a]] += h
        if order == EXACT:
            add_twist_curvature(branch, memory, reference, R, p, V, J, E, force, scale, nv, lzz[k])


@kernel
def center_of_mass_cost(tree, targets, weight, first, X, U, scale, order, l, lz, lzz):
    """CenterOfMass."""
    memory, g = inertial_workspace(tree, X), np.zeros((tree.nv, 3))
    for k in range(X.shape[0]):
        c = place_center_of_mass(tree, X[k], memory, g)
        target = row_of(targets, first + k)
        d = (c[0] - target[0], c[1] - target[1], c[2] - target[2])
        f = times3(weight, d)
        l[k] += scale * 0.5 * dot3(d, f)
        if order == VALUES:
            continue
        pull_back_center_of_mass(tree, memory, g, f, 0.0, scale, order == EXACT, lz[k], lzz[k])
        for i in range(tree.nv):
            wg = times3(weight, load3(g, i))
            for j in range(tree.nv):
                lzz[k, i, j] += scale * dot3(wg, load3(g, j))
