# mypy: allow-untyped-defs, allow-untyped-calls
"""Second order of the explicit steps of runge_kutta.py, contracted with a weight: back through the stages.

A stage's acceleration carries a weight ω_i and adds [Q V E_u]ᵀ (Hessian of ω_i·a) [Q V E_u]; what it passes on to q_i
and v_i goes through q ⊕ ξ_i, which adds the curvature of curvature.py, and through the brackets, which are bilinear.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ddp.compiling.kernel import kernel
from dynamics.geometry.groups import twist_of
from dynamics.geometry.lie import right_jacobian6
from dynamics.geometry.spatial import cross_force, cross_motion, dot6
from dynamics.robots.joints import is_group, slot
from dynamics.steps.curvature import acceleration_hessian, accelerations_of, add_group_curvature
from dynamics.steps.runge_kutta import fraction, share, stage_twist, step_twist, unit_twist
from dynamics.steps.runge_kutta_linearization import rates_of, stage_sizes, twist_rates


class Adjoint(NamedTuple):
    """Weights (stages, nv) on the stages' v and a, on ξ and on q (nv,); stages' v, ξ, Ξ; products (nz, nz)."""

    on_v: np.ndarray
    on_a: np.ndarray
    on_xi: np.ndarray
    on_q: np.ndarray
    v: np.ndarray
    xi: np.ndarray
    Xi: np.ndarray
    Z: np.ndarray
    G: np.ndarray
    GZ: np.ndarray


@kernel
def adjoint_scratch(tree, nu, stages):
    """Room for one contraction."""
    nv = tree.body.size
    nz = 2 * nv + nu
    return Adjoint(
        np.zeros((stages, nv)), np.zeros((stages, nv)), np.zeros(nv), np.zeros(nv), np.zeros((stages, nv)),
        np.zeros(nv), np.zeros((nv, nz)), np.zeros((nz, nz)), np.zeros((nz, nz)), np.zeros((nz, nz)),
    )  # fmt: skip


@kernel
def contract_explicit(tree, nq, nu, h, stages, record, weight, no_fext, ws, c, d, H):
    """H (nz, nz): the Hessian of weight·(f(x ⊕ dx, u + du) ⊖ f(x, u)) of the knot that wrote ``record``."""
    nv = tree.body.size
    nz = 2 * nv + nu
    own, size = stage_sizes(nq, nv, nu)
    H[:] = 0.0
    for i in range(stages):
        for j in range(nv):
            d.v[i, j] = record[i * size + nq + j]
            d.on_a[i, j] = h * share(i, stages) * weight[nv + j]
    step_twist(tree, h, stages, d.v, d.xi)
    if stages == 1:
        d.Xi[:] = 0.0
        for j in range(nv):
            d.Xi[j, nv + j] = h
    else:
        twist_rates(tree, h, 4, d.v, record, size, own, d.Xi)
    through_placement(tree, weight[:nv], c, d, H)
    for i in range(stages):
        for j in range(nv):
            d.on_v[i, j] = h * share(i, stages) * d.on_xi[j]
    if stages > 1:
        through_bracket(tree, h * h / 12.0, 3, record, size, own, d, H)
    for i in range(stages - 1, -1, -1):
        stored = record[i * size : (i + 1) * size]
        through_acceleration(tree, nq, nu, i, stored, own, no_fext, ws, c, d, H)
        if i == 0:
            break
        stage_twist(tree, h, i, d.v, d.xi)
        twist_rates(tree, h, i, d.v, record, size, own, d.Xi)
        through_placement(tree, d.on_q, c, d, H)
        for j in range(nv):
            d.on_v[i - 1, j] += fraction(i) * h * d.on_xi[j]
            d.on_a[i - 1, j] += fraction(i) * h * d.on_v[i, j]
        if i == 2:
            through_bracket(tree, h * h / 8.0, 1, record, size, own, d, H)
    for i in range(nz):
        for j in range(i):
            H[i, j] = H[j, i]


@kernel
def through_placement(tree, weight, c, d, H):
    """Curvature of q ⊕ ξ under a weight (nv,), into H's upper triangle; d.on_xi := the weight that ξ inherits."""
    for b in range(tree.parent.size):
        kind, iv, nj = tree.kind[b], tree.iv[b], tree.nj[b]
        if is_group(kind):
            xi = twist_of(kind, d.xi, iv, 1.0)
            right_jacobian6(xi, c.J)
            for i in range(nj):
                total = 0.0
                for k in range(nj):
                    total += c.J[slot(kind, k), slot(kind, i)] * weight[iv + k]
                d.on_xi[iv + i] = total
                c.rows[i] = d.Xi[iv + i]
            add_group_curvature(tree, b, xi, weight, c, H)
        else:
            for i in range(iv, iv + nj):
                d.on_xi[i] = weight[i]


@kernel
def through_bracket(tree, scale, i, record, size, own, d, H):
    """Second order of scale [v_0, v_i] in ξ into H's upper triangle; what v_0 and v_i inherit from ξ's weight."""
    nv, nz = d.Xi.shape
    V0, Vi = rates_of(record, 0, size, own, nv, nz)[1], rates_of(record, i, size, own, nv, nz)[1]
    for b in range(tree.parent.size):
        kind, iv, nj = tree.kind[b], tree.iv[b], tree.nj[b]
        if is_group(kind):
            w = twist_of(kind, d.on_xi, iv, scale)
            on_0 = cross_force(twist_of(kind, d.v[i], iv, 1.0), w)
            on_i = cross_force(twist_of(kind, d.v[0], iv, 1.0), w)
            for k in range(nj):
                d.on_v[0, iv + k] += on_0[slot(kind, k)]
                d.on_v[i, iv + k] -= on_i[slot(kind, k)]
                for l in range(nj):
                    factor = dot6(w, cross_motion(unit_twist(kind, k), unit_twist(kind, l)))
                    if factor != 0.0:
                        x, y = V0[iv + k], Vi[iv + l]
                        for r in range(nz):
                            for s in range(r, nz):
                                H[r, s] += factor * (x[r] * y[s] + x[s] * y[r])


@kernel
def through_acceleration(tree, nq, nu, i, stored, own, no_fext, ws, c, d, H):
    """Second order of a stage's acceleration under the weight ω = d.on_a[i]; what its q and v inherit."""
    nv = tree.body.size
    nz = 2 * nv + nu
    q, v, a = stored[:nq], stored[nq : nq + nv], stored[nq + nv : nq + 2 * nv]
    Minv = stored[nq + 2 * nv : nq + 2 * nv + nv * nv].reshape(nv, nv)
    aq, av, au = accelerations_of(stored[:own], nq + 2 * nv + nv * nv, nv, nu)
    for j in range(nv):
        c.effective[j] = d.on_a[i, j]
    acceleration_hessian(tree, q, v, a, Minv, aq, av, au, no_fext, ws, c, d.G)
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
