# mypy: allow-untyped-defs, allow-untyped-calls
"""Costs and constraints of quantities, such as a frame's velocity: one compiled loop each, for every quantity.

A quantity y (size,) of a state is a kernel of `ddp.tracing.quantities`, with a Jacobian J (size, n) by some tangent
numbers, ``columns`` (n,), and Hessians of weighted sums. Kernels here call its C function.
"""

import numpy as np

from ddp import kernel
from ddp.constraints.bound import CompiledConstraint, Kernels
from ddp.constraints.bound import bind as bind_constraint
from ddp.costs.batch import CompiledCost
from ddp.costs.bound import EXACT, VALUES
from ddp.costs.bound import bind as bind_cost
from ddp.protocols import Array
from ddp.tracing.quantities import FIRST, SECOND, Quantity, add_hessians, evaluate
from problems.kernels.states import row_of


def squared(quantity: Quantity, targets: Array, W: Array) -> CompiledCost:
    """``½ (y - target)ᵀ W (y - target)``, W (size, size); targets (T, size): one for each knot, or one for all."""
    return bind_cost(square, quantity.bound, quantity.taken, targets, W)


def along(quantity: Quantity, axes: Array | None = None, offset: Array | float = 0.0) -> CompiledConstraint:
    """``axes y - offset`` of directions (K, size), offset (K,) or one for all; y itself if there are no axes."""
    columns, axes = quantity.taken, np.empty((0, quantity.size)) if axes is None else axes
    return bind_constraint(ALONG, quantity.bound, columns, axes, np.full(len(axes), offset), columns=columns)


@kernel
def square(function, columns, targets, W, first, X, U, scale, order, l, lz, lzz):
    """Half a weighted square: its Hessian is ``Jᵀ W J``, and of EXACT that of ``(W r)ᵀ y`` too."""
    M, size, n = X.shape[0], W.shape[0], columns.shape[0]
    y, f, moved = np.empty((M, size)), np.empty((M, size)), np.empty((size, n))
    count = 0 if order == VALUES else M
    J, H = np.empty((count, size, n)), np.zeros((count, n, n))
    evaluate(function, VALUES if order == VALUES else FIRST, X, y, f, J, H)
    for k in range(M):
        target = row_of(targets, first + k)
        for i in range(size):
            total = 0.0
            for j in range(size):
                total += W[i, j] * (y[k, j] - target[j])
            f[k, i] = total
            l[k] += 0.5 * scale * total * (y[k, i] - target[i])
    if order == EXACT:
        evaluate(function, SECOND, X, y, f, J, H)
    for k in range(count):
        for i in range(size):
            for a in range(n):
                moved[i, a] = 0.0
            for j in range(size):
                if W[i, j] != 0.0:
                    for a in range(n):
                        moved[i, a] += W[i, j] * J[k, j, a]
        for a in range(n):
            total = 0.0
            for i in range(size):
                d = J[k, i, a]
                total += d * f[k, i]
                for b in range(n):
                    H[k, a, b] += d * moved[i, b]
            lz[k, columns[a]] += scale * total
    add_hessians(scale, H, columns, lzz)


@kernel
def values_along(function, columns, axes, offset, X, U, out):
    """Values."""
    M, size = X.shape[0], axes.shape[1]
    J, H = np.empty((0, size, columns.shape[0])), np.empty((0, 0, 0))
    if axes.shape[0] == 0:
        evaluate(function, VALUES, X, out, out, J, H)
        return
    y = np.empty((M, size))
    evaluate(function, VALUES, X, y, y, J, H)
    for k in range(M):
        for i in range(axes.shape[0]):
            total = -offset[i]
            for j in range(size):
                total += axes[i, j] * y[k, j]
            out[k, i] = total


@kernel
def jacobian_along(function, columns, axes, offset, X, U, out):
    """Axes times the quantity's Jacobian."""
    M, size, n = X.shape[0], axes.shape[1], columns.shape[0]
    y, H = np.empty((M, size)), np.empty((0, 0, 0))
    if axes.shape[0] == 0:
        evaluate(function, FIRST, X, y, y, out, H)
        return
    J = np.empty((M, size, n))
    evaluate(function, FIRST, X, y, y, J, H)
    for k in range(M):
        for i in range(axes.shape[0]):
            for a in range(n):
                out[k, i, a] = 0.0
            for j in range(size):
                if axes[i, j] != 0.0:
                    for a in range(n):
                        out[k, i, a] += axes[i, j] * J[k, j, a]


@kernel
def curvature_along(function, columns, axes, offset, X, U, weight, out):
    """Hessian of ``(axesᵀ weight) · y``."""
    M, size, n = X.shape[0], axes.shape[1], columns.shape[0]
    f, J, H = np.zeros((M, size)), np.empty((0, size, n)), np.zeros((M, n, n))
    for k in range(M):
        for i in range(axes.shape[0]):
            for j in range(size):
                f[k, j] += weight[k, i] * axes[i, j]
    if axes.shape[0] == 0:
        evaluate(function, SECOND, X, f, weight, J, H)
    else:
        evaluate(function, SECOND, X, f, f, J, H)
    add_hessians(1.0, H, columns, out)


ALONG = Kernels(values_along, jacobian_along, curvature_along)
