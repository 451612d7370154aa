# mypy: allow-untyped-defs, allow-untyped-calls
"""Second order of the explicit steps of runge_kutta.py, contracted with a weight: back through the stages.

A stage's acceleration carries a weight ω_i and adds [Q V E_u]ᵀ (Hessian of ω_i·a) [Q V E_u]; what it passes on to q_i
and v_i goes through q ⊕ ξ_i, which adds the curvature of curvature.py, and through the brackets, which are bilinear.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ddp.compiling.kernel import kernel
from dynamics.geometry.joint_motion import is_group, joint_bracket_contracted, twist_of
from dynamics.steps.curvature import acceleration_hessian, accelerations_of, add_group_curvature
from dynamics.steps.modes import stage_sizes
from dynamics.steps.runge_kutta_linearization import (
    add_bracket,
    add_scaled,
    bracket_of,
    rates_of,
    twist_rates,
    velocities_of,
)


class Adjoint(NamedTuple):
    """Weights: on v (stages + 1, nv) and a (stages, nv) of stages, on ξ and q (nv,); ξ, Ξ; products (nz, nz)."""

    on_v: np.ndarray
    on_a: np.ndarray
    on_xi: np.ndarray
    on_q: np.ndarray
    xi: np.ndarray
    Xi: np.ndarray
    Z: np.ndarray
    G: np.ndarray
    GZ: np.ndarray


@kernel
def adjoint_scratch(tree, nu, stages):
    """Room for one contraction."""
    nv = tree.nv
    nz = 2 * nv + nu
    return Adjoint(
        np.zeros((stages + 1, nv)), np.zeros((stages, nv)), np.zeros(nv), np.zeros(nv), np.zeros(nv),
        np.zeros((nv, nz)), np.zeros((nz, nz)), np.zeros((nz, nz)), np.zeros((nz, nz)),
    )  # fmt: skip


@kernel
def contract_explicit(tree, method, nq, nu, h, record, weight, ws, c, d, H):
    """H (nz, nz): the Hessian of weight·(f(x ⊕ dx, u + du) ⊖ f(x, u)) of the knot that wrote ``record``."""
    stages, nv = len(method) - 1, tree.nv
    H[:] = 0.0
    d.on_a[:] = 0.0
    d.on_v[:stages] = 0.0
    for j in range(nv):
        d.on_q[j], d.on_v[stages, j] = weight[j], weight[nv + j]
    for i in range(stages, 0, -1):
        twist(tree, method, h, i, nq, nu, record, d.xi)
        twist_rates(tree, method, h, i, nq, record, d.Xi)
        through_placement(tree, d.on_q, c, d, H)
        for j in range(i):
            for k in range(nv):
                d.on_v[j, k] += h * method[i, j] * d.on_xi[k]
                d.on_a[j, k] += h * method[i, j] * d.on_v[i, k]
        through_bracket(tree, method, h, i, nq, record, c, d, H)
        through_acceleration(tree, nq, nu, i - 1, record, ws, c, d, H)
    for i in range(H.shape[0]):
        for j in range(i):
            H[i, j] = H[j, i]


@kernel
def twist(tree, method, h, i, nq, nu, record, xi):
    """ξ (nv,) of stage i from the velocities in a record."""
    nv, size = xi.size, stage_sizes(nq, xi.size, nu)[1]
    column = xi.reshape(nv, 1)
    xi[:] = 0.0
    for j in range(i):
        add_scaled(column, h * method[i, j], velocities_of(record, j, size, nq, nv).reshape(nv, 1))
    scale, j, k = bracket_of(method, h, i)
    if scale != 0.0:
        x, y = velocities_of(record, j, size, nq, nv), velocities_of(record, k, size, nq, nv)
        add_bracket(tree, scale, x, y.reshape(nv, 1), column)


@kernel
def through_placement(tree, weight, c, d, H):
    """Curvature of q ⊕ ξ under a weight (nv,), into H's upper triangle; d.on_xi := the weight that ξ inherits."""
    for b in range(tree.nb):
        kind, iv, nj = tree.kind[b], tree.iv[b], tree.nj[b]
        if is_group(kind):
            c.eta[:nj] = d.Xi[iv : iv + nj]
            add_group_curvature(tree, b, twist_of(kind, d.xi, iv, 1.0), weight, c, H)
            for i in range(nj):
                d.on_xi[iv + i] = 0.0
                for k in range(nj):
                    d.on_xi[iv + i] += c.J[k, i] * weight[iv + k]
        else:
            for i in range(iv, iv + nj):
                d.on_xi[i] = weight[i]


@kernel
def through_bracket(tree, method, h, i, nq, record, c, d, H):
    """Second order of ξ_i's bracket into H's upper triangle; what the velocities in it inherit from ξ's weight."""
    nv, nz = d.Xi.shape
    own, size = stage_sizes(nq, nv, nz - 2 * nv)
    scale, first, second = bracket_of(method, h, i)
    if scale == 0.0:
        return
    X, Y = rates_of(record, first, size, own, nv, nz)[1], rates_of(record, second, size, own, nv, nz)[1]
    x, y = velocities_of(record, first, size, nq, nv), velocities_of(record, second, size, nq, nv)
    for b in range(tree.nb):
        kind, iv, nj = tree.kind[b], tree.iv[b], tree.nj[b]
        if is_group(kind):
            joint_bracket_contracted(kind, nj, twist_of(kind, d.on_xi, iv, scale), c.C)
            for k in range(nj):
                for l in range(nj):
                    factor = c.C[k, l]
                    if factor != 0.0:
                        d.on_v[first, iv + k] += factor * y[iv + l]
                        d.on_v[second, iv + l] += factor * x[iv + k]
                        for r in range(nz):
                            for s in range(r, nz):
                                H[r, s] += factor * (X[iv + k, r] * Y[iv + l, s] + X[iv + k, s] * Y[iv + l, r])


@kernel
def through_acceleration(tree, nq, nu, i, record, ws, c, d, H):
    """Second order of a stage's acceleration under the weight ω = d.on_a[i]; what its q and v inherit."""
    nv = tree.nv
    nz = 2 * nv + nu
    own, size = stage_sizes(nq, nv, nu)
    stored = record[i * size : (i + 1) * size]
    q, v, a = stored[:nq], stored[nq : nq + nv], stored[nq + nv : nq + 2 * nv]
    Minv = stored[nq + 2 * nv : nq + 2 * nv + nv * nv].reshape(nv, nv)
    aq, av, au = accelerations_of(stored[:own], nq + 2 * nv + nv * nv, nv, nu)
    for j in range(nv):
        c.effective[j] = d.on_a[i, j]
    acceleration_hessian(tree, q, v, a, Minv, aq, av, au, ws, c, d.G)
    for r in range(nz):
        for s in range(r):
            d.G[r, s] = d.G[s, r]
    for j in range(nv):
        to_q, to_v = 0.0, 0.0
        for k in range(nv):
            to_q += aq[k, j] * d.on_a[i, k]
            to_v += av[k, j] * d.on_a[i, k]
        d.on_q[j] = to_q
        d.on_v[i, j] += to_v
    if i == 0:  # Q and V are rows of the identity
        H += d.G
        return
    d.Z[: 2 * nv] = stored[own:].reshape(2 * nv, nz)
    for r in range(2 * nv, nz):
        d.Z[r, r] = 1.0
    np.dot(d.G, d.Z, d.GZ)
    np.dot(d.Z.T, d.GZ, d.G)
    H += d.G
