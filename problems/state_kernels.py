"""The compiled loops of the costs on states and controls: one call for all knots of a block.

Everywhere X (M, nx), U (M, nu); ``scale`` multiplies the term; values go into ``out`` (M,), expansions are
added to l (M,), lz (M, nz), lzz (M, nz, nz) with z = (dx, du); ``exact`` chooses the Hessian, Gauss-Newton
otherwise.
"""

from __future__ import annotations

import numpy as np

from ddp.kernel import inline, kernel
from dynamics.lie import difference_free_flyer, jlog6, log6_hessian


@inline
def load_six(x, i):
    """Six numbers of an array, from the i-th on."""
    return (x[i], x[i + 1], x[i + 2], x[i + 3], x[i + 4], x[i + 5])


@inline
def _load7(x, i):
    return (x[i], x[i + 1], x[i + 2], x[i + 3], x[i + 4], x[i + 5], x[i + 6])


@kernel
def difference(layout, target, x, r):
    """The tangent vector r (n,) = x ⊖ target."""
    for b in range(layout.flat.shape[0]):
        i, t = layout.flat[b]
        r[t] = x[i] - target[i]
    for b in range(layout.circle.shape[0]):
        i, t = layout.circle[b]
        c, s = target[i], target[i + 1]
        r[t] = np.arctan2(c * x[i + 1] - s * x[i], c * x[i] + s * x[i + 1])
    for b in range(layout.body.shape[0]):
        i, t = layout.body[b]
        xi = difference_free_flyer(_load7(target, i), _load7(x, i))
        for k in range(6):
            r[t + k] = xi[k]


@inline
def half_square(weights, r):
    """``½ Σ_i w_i r_i²``."""
    total = 0.0
    for i in range(weights.size):
        total += 0.5 * weights[i] * r[i] * r[i]
    return total


@kernel
def state_values(layout, target, weights, X, out):
    """Values of StateCost."""
    r = np.zeros(weights.size)
    for k in range(X.shape[0]):
        difference(layout, target, X[k], r)
        out[k] = half_square(weights, r)


@kernel
def expand_state(layout, target, weights, X, scale, exact, l, lz, lzz):
    """Unit Jacobian but for free-flyers: there Jlog6, and its derivative log6_hessian."""
    n = weights.size
    r, J, curvature, force = np.zeros(n), np.zeros((6, 6)), np.zeros((6, 6)), np.zeros(6)
    of_body = np.zeros(n, np.bool_)
    for b in range(layout.body.shape[0]):
        of_body[layout.body[b, 1] : layout.body[b, 1] + 6] = True
    for k in range(X.shape[0]):
        difference(layout, target, X[k], r)
        l[k] += scale * half_square(weights, r)
        for i in range(n):
            if not of_body[i]:
                lz[k, i] += scale * weights[i] * r[i]
                lzz[k, i, i] += scale * weights[i]
        for b in range(layout.body.shape[0]):
            t = layout.body[b, 1]
            for i in range(6):
                force[i] = weights[t + i] * r[t + i]
            xi, wr = load_six(r, t), load_six(force, 0)
            jlog6(xi, J)
            curvature[:] = 0.0
            if exact:
                log6_hessian(xi, wr, curvature)
            for i in range(6):
                for a in range(6):
                    lz[k, t + a] += scale * J[i, a] * force[i]
                for a in range(6):
                    for c in range(6):
                        curvature[a, c] += weights[t + i] * J[i, a] * J[i, c]
            for a in range(6):
                for c in range(6):
                    lzz[k, t + a, t + c] += scale * curvature[a, c]


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
