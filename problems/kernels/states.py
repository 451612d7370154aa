# mypy: allow-untyped-defs, allow-untyped-calls
"""The compiled loops of the costs on states and controls: one call for all knots of a block.

A term has one, ``(*arguments, first, X, U, scale, order, l, lz, lzz)``, of which `ddp.costs.bound.bind` makes a C
function: X (M, nx), U (M, nu); ``scale`` times the term is added to l (M,) and, if ``order`` is beyond VALUES, its
derivatives to lz (M, nz), lzz (M, nz, nz), z = (dx, du): of EXACT the Hessian, else Gauss-Newton's. ``targets`` have a
row for each knot of a stretch, of which ``first`` is the first that is asked for, or one for all.
"""

import numpy as np

from ddp import inline, kernel
from ddp.costs.bound import EXACT, VALUES
from ddp.tracing.quantities import FIRST, SECOND
from dynamics.geometry.joint_motion import CONTINUOUS, joint_difference, joint_log_hessian, joint_log_jacobian, twist_of


@inline
def row_of(targets, k):
    """The target of knot k, where there may be one for all."""
    return targets[k if targets.shape[0] > 1 else 0]


@kernel
def difference(layout, target, x, r):
    """The tangent vector r (n,) = x ⊖ target."""
    for b in range(layout.flat.shape[0]):
        i, t = layout.flat[b, 0], layout.flat[b, 1]
        r[t] = x[i] - target[i]
    for b in range(layout.circle.shape[0]):
        joint_difference(CONTINUOUS, 1, target, x, layout.circle[b, 0], r, layout.circle[b, 1])
    for b in range(layout.group.shape[0]):
        i, t, kind, nj = layout.group[b]
        joint_difference(kind, nj, target, x, i, r, t)


@inline
def beyond(x, lower, upper):
    """Distance of a number beyond its limits, with its sign; NaN stays NaN."""
    return x - upper if x > upper else (x - lower if x < lower else 0.0 * x)


@kernel
def square_cost(columns, tangents, targets, weights, first, X, U, scale, order, l, lz, lzz):
    """``½ Σ w (x - target)²`` of numbers of states, or of controls, whose columns and tangents count from the end."""
    moves = targets.shape[0] > 1
    own = targets[first:] if moves else targets
    for b in range(columns.size):
        i, t, w, target = columns[b], tangents[b], scale * weights[b], own[0, b]
        numbers, at = (X, i) if i >= 0 else (U, U.shape[1] + i)
        for k in range(X.shape[0]):  # knots do not wait for each other, as numbers of one would
            if moves:
                target = own[k, b]
            d = numbers[k, at] - target
            l[k] += 0.5 * w * d * d
            if order > VALUES:
                lz[k, t] += w * d
                lzz[k, t, t] += w


@kernel
def limit_cost(columns, tangents, lower, upper, weights, first, X, U, scale, order, l, lz, lzz):
    """``½ Σ w (how far x is beyond its limits)²``, of numbers as of `square_cost`: w beyond a limit, 0 within."""
    for k in range(X.shape[0]):
        for b in range(columns.size):
            i, t, w = columns[b], tangents[b], scale * weights[b]
            e = beyond(X[k, i] if i >= 0 else U[k, i], lower[b], upper[b])
            l[k] += 0.5 * w * e * e
            if order > VALUES and e != 0.0:
                lz[k, t] += w * e
                lzz[k, t, t] += w


@kernel
def state_cost(layout, targets, weights, first, X, U, scale, order, l, lz, lzz):
    """StateCost where there are joints that are not flat, or several targets.

    Unit Jacobian but for free-flyers, spherical and planar joints: there that of ⊖.
    """
    n = weights.size
    r, force, J, curvature = np.zeros(n), np.zeros(n), np.zeros((6, 6)), np.zeros((6, 6))
    for k in range(X.shape[0]):
        difference(layout, row_of(targets, first + k), X[k], r)
        total = 0.0
        for i in range(n):
            total += 0.5 * weights[i] * r[i] * r[i]
        l[k] += scale * total
        if order == VALUES:
            continue
        for rows in (layout.flat, layout.circle):
            for b in range(rows.shape[0]):
                t = rows[b, 1]
                lz[k, t] += scale * weights[t] * r[t]
                lzz[k, t, t] += scale * weights[t]
        for b in range(layout.group.shape[0]):
            t, kind, nj = layout.group[b, 1], layout.group[b, 2], layout.group[b, 3]
            for i in range(t, t + nj):
                force[i] = weights[i] * r[i]
            xi, wr = twist_of(kind, r, t, 1.0), twist_of(kind, force, t, 1.0)
            joint_log_jacobian(kind, nj, xi, J)
            curvature[:] = 0.0
            if order == EXACT:
                joint_log_hessian(kind, nj, xi, wr, curvature)
            for i in range(nj):
                Ji, w, f = J[i], weights[t + i], force[t + i]
                for a in range(nj):
                    Jia = Ji[a]
                    lz[k, t + a] += scale * Jia * f
                    lzz[k, t + i, t + a] += scale * curvature[i, a]
                    for c in range(nj):
                        lzz[k, t + a, t + c] += scale * w * Jia * Ji[c]


@kernel
def state_matrix_cost(layout, targets, W, first, X, U, scale, order, l, lz, lzz):
    """StateCost with a matrix of weights: ``Jᵀ W J`` where J differs from 1 in blocks of joints alone."""
    n = W.shape[0]
    r, force, J = np.zeros(n), np.zeros(n), np.zeros((6, 6))
    curvature, H, kept = np.zeros((6, 6)), np.zeros((n, n)), np.zeros(6)
    for k in range(X.shape[0]):
        difference(layout, row_of(targets, first + k), X[k], r)
        total = 0.0
        for i in range(n):
            force[i] = 0.0
            for j in range(n):
                force[i] += W[i, j] * r[j]
            total += force[i] * r[i]
        l[k] += scale * 0.5 * total
        if order == VALUES:
            continue
        for i in range(n):
            for j in range(n):
                H[i, j] = W[i, j]
        for b in range(layout.group.shape[0]):
            t, kind, nj = layout.group[b, 1], layout.group[b, 2], layout.group[b, 3]
            xi, wr = twist_of(kind, r, t, 1.0), twist_of(kind, force, t, 1.0)
            joint_log_jacobian(kind, nj, xi, J)
            if order == EXACT:
                joint_log_hessian(kind, nj, xi, wr, curvature)
                for i in range(nj):
                    for a in range(nj):
                        lzz[k, t + i, t + a] += scale * curvature[i, a]
            for a in range(nj):
                kept[a] = 0.0
                for i in range(nj):
                    kept[a] += J[i, a] * force[t + i]
            for a in range(nj):
                force[t + a] = kept[a]
            for i in range(n):
                for a in range(nj):
                    kept[a] = 0.0
                    for c in range(nj):
                        kept[a] += H[i, t + c] * J[c, a]
                for a in range(nj):
                    H[i, t + a] = kept[a]
            for i in range(n):
                for a in range(nj):
                    kept[a] = 0.0
                    for c in range(nj):
                        kept[a] += J[c, a] * H[t + c, i]
                for a in range(nj):
                    H[t + a, i] = kept[a]
        for i in range(n):
            lz[k, i] += scale * force[i]
            for j in range(n):
                lzz[k, i, j] += scale * H[i, j]


@kernel
def diagonal_cost(targets, q, r, first, X, U, scale, order, l, lz, lzz):
    """Quadratic with diagonals q (nx,), r (nu,) or of one number."""
    nx = X.shape[1]
    for k in range(X.shape[0]):
        target, total = row_of(targets, first + k), 0.0
        for i in range(nx + U.shape[1]):
            d = X[k, i] - target[i] if i < nx else U[k, i - nx]
            w = scale * (q[i] if i < nx else r[i - nx if r.size > 1 else 0])
            total += 0.5 * w * d * d
            if order > VALUES:
                lz[k, i] += w * d
                lzz[k, i, i] += w
        l[k] += total


@kernel
def quadratic_cost(targets, goal, Q, R, first, X, U, scale, order, l, lz, lzz):
    """Quadratic with matrices Q (n, n), R (nu, nu), or R (1, 1) for a multiple of 1, and a goal of u (nu,) or (1,).

    ControlCost with a matrix of weights is one without Q, n = 0.
    """
    n, nu = Q.shape[0], U.shape[1]
    begin = lz.shape[1] - nu
    for k in range(X.shape[0]):
        target = row_of(targets, first + k)
        for i in range(n):
            f = 0.0
            for j in range(n):
                f += Q[i, j] * (X[k, j] - target[j])
                if order > VALUES:
                    lzz[k, i, j] += scale * Q[i, j]
            l[k] += scale * 0.5 * f * (X[k, i] - target[i])
            if order > VALUES:
                lz[k, i] += scale * f
        for i in range(nu):
            f = 0.0
            for j in range(nu):
                w = R[i, j] if R.shape[0] == nu else (R[0, 0] if i == j else 0.0)
                f += w * (U[k, j] - goal[j if goal.shape[0] == nu else 0])
                if order > VALUES:
                    lzz[k, begin + i, begin + j] += scale * w
            l[k] += scale * 0.5 * f * (U[k, i] - goal[i if goal.shape[0] == nu else 0])
            if order > VALUES:
                lz[k, begin + i] += scale * f


@kernel
def state_error(layout, target, a, order, y, weight, J, H):
    """x ⊖ target as a quantity of `ddp.tracing.quantities`: J is 1 but for joints whose motions do not commute."""
    n = y.shape[1]
    r, block = np.zeros(n), np.zeros((6, 6))
    for k in range(a.shape[0]):
        difference(layout, target, a[k], r)
        for i in range(n if order != SECOND else 0):
            y[k, i] = r[i]
            for j in range(n if order == FIRST else 0):
                J[k, i, j] = 1.0 if i == j else 0.0
        for b in range(layout.group.shape[0] if order != VALUES else 0):
            _, t, kind, nj = layout.group[b]
            xi = twist_of(kind, r, t, 1.0)
            if order == FIRST:
                joint_log_jacobian(kind, nj, xi, block)
            else:
                joint_log_hessian(kind, nj, xi, twist_of(kind, weight[k], t, 1.0), block)
            for i in range(nj):
                for j in range(nj):
                    if order == FIRST:
                        J[k, t + i, t + j] = block[i, j]
                    else:
                        H[k, t + i, t + j] += block[i, j]
