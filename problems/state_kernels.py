"""The compiled loops of the costs on states and controls: one call for all knots of a block.

Everywhere X (M, nx), U (M, nu); ``scale`` multiplies the term; values go into ``out`` (M,), expansions are
added to l (M,), lz (M, nz), lzz (M, nz, nz) with z = (dx, du); ``exact`` chooses the Hessian, Gauss-Newton
otherwise. ``targets`` have a row for each knot, or one for all.
"""

from __future__ import annotations

import numpy as np

from ddp.kernel import inline, kernel
from dynamics.groups import angle_of, difference_of, twist_of
from dynamics.joints import slot
from dynamics.lie import jlog6, log6_hessian


@inline
def load_six(x, i):
    """Six numbers of an array, from the i-th on."""
    return (x[i], x[i + 1], x[i + 2], x[i + 3], x[i + 4], x[i + 5])


@inline
def row_of(targets, k):
    """The target of knot k, where there may be one for all."""
    return targets[k if targets.shape[0] > 1 else 0]


@kernel
def difference(layout, target, x, r):
    """The tangent vector r (n,) = x ⊖ target."""
    for b in range(layout.flat.shape[0]):
        i, t = layout.flat[b]
        r[t] = x[i] - target[i]
    for b in range(layout.circle.shape[0]):
        i, t = layout.circle[b]
        c, s = target[i], target[i + 1]
        r[t] = angle_of(c * x[i] + s * x[i + 1], c * x[i + 1] - s * x[i])
    for b in range(layout.group.shape[0]):
        i, t, kind, nj = layout.group[b]
        xi = difference_of(kind, target, x, i)
        for k in range(nj):
            r[t + k] = xi[slot(kind, k)]


@inline
def half_square(weights, r):
    """``½ Σ_i w_i r_i²``."""
    total = 0.0
    for i in range(weights.size):
        total += 0.5 * weights[i] * r[i] * r[i]
    return total


@kernel
def state_values(layout, targets, weights, X, out):
    """Values of StateCost."""
    r = np.zeros(weights.size)
    for k in range(X.shape[0]):
        difference(layout, row_of(targets, k), X[k], r)
        out[k] = half_square(weights, r)


@kernel
def expand_state(layout, targets, weights, X, scale, exact, l, lz, lzz):
    """Unit Jacobian but for free-flyers, spherical and planar joints: there Jlog6 and its derivative log6_hessian."""
    n = weights.size
    r, J, curvature, force = np.zeros(n), np.zeros((6, 6)), np.zeros((6, 6)), np.zeros(n)
    of_group = np.zeros(n, np.bool_)
    for b in range(layout.group.shape[0]):
        of_group[layout.group[b, 1] : layout.group[b, 1] + layout.group[b, 3]] = True
    for k in range(X.shape[0]):
        difference(layout, row_of(targets, k), X[k], r)
        l[k] += scale * half_square(weights, r)
        for i in range(n):
            force[i] = weights[i] * r[i]
            if not of_group[i]:
                lz[k, i] += scale * force[i]
                lzz[k, i, i] += scale * weights[i]
        for b in range(layout.group.shape[0]):
            _, t, kind, nj = layout.group[b]
            xi, wr = twist_of(kind, r, t, 1.0), twist_of(kind, force, t, 1.0)
            jlog6(xi, J)
            curvature[:] = 0.0
            if exact:
                log6_hessian(xi, wr, curvature)
            for i in range(nj):
                Ji, w, f = J[slot(kind, i)], weights[t + i], force[t + i]
                for a in range(nj):
                    Jia = Ji[slot(kind, a)]
                    lz[k, t + a] += scale * Jia * f
                    lzz[k, t + i, t + a] += scale * curvature[slot(kind, i), slot(kind, a)]
                    for c in range(nj):
                        lzz[k, t + a, t + c] += scale * w * Jia * Ji[slot(kind, c)]


@kernel
def control_values(target, weights, U, out):
    """Values of ControlCost."""
    for k in range(U.shape[0]):
        out[k] = 0.0
        for i in range(weights.size):
            out[k] += 0.5 * weights[i] * (U[k, i] - target[i]) ** 2


@kernel
def expand_control(target, weights, U, scale, l, lz, lzz):
    """Expansion of ControlCost."""
    n = lz.shape[1] - weights.size
    for k in range(U.shape[0]):
        for i in range(weights.size):
            d = U[k, i] - target[i]
            l[k] += scale * 0.5 * weights[i] * d * d
            lz[k, n + i] += scale * weights[i] * d
            lzz[k, n + i, n + i] += scale * weights[i]


@inline
def _excess(x, lower, upper):
    return x - upper if x > upper else (x - lower if x < lower else 0.0)


@kernel
def limit_values(layout, lower, upper, weight, X, out):
    """Values of JointLimits."""
    for k in range(X.shape[0]):
        out[k] = 0.0
        for b in range(layout.flat.shape[0]):
            e = _excess(X[k, layout.flat[b, 0]], lower[b], upper[b])
            out[k] += 0.5 * weight * e * e


@kernel
def expand_limits(layout, lower, upper, weight, X, scale, l, lz, lzz):
    """Expansion of JointLimits: w beyond a limit, nothing within."""
    for k in range(X.shape[0]):
        for b in range(layout.flat.shape[0]):
            i, t = layout.flat[b]
            e = _excess(X[k, i], lower[b], upper[b])
            if X[k, i] < lower[b] or X[k, i] > upper[b]:
                l[k] += scale * 0.5 * weight * e * e
                lz[k, t] += scale * weight * e
                lzz[k, t, t] += scale * weight
