# mypy: allow-untyped-defs, allow-untyped-calls
"""The compiled loops of the costs on energy and momentum: one call for all knots of a block.

The conventions are those of kernels/states.py.
"""

from __future__ import annotations

import numpy as np

from ddp import kernel
from ddp.costs.bound import EXACT, VALUES
from dynamics.geometry.spatial import dot6, load6, part6
from dynamics.quantities.center_of_mass import inertial_workspace
from dynamics.quantities.energy import add_energy_curvature, energy_gradient, place_energy
from dynamics.quantities.momentum import about, add_momentum_curvature, momentum_derivatives, place_momentum
from problems.kernels.states import half_square


@kernel
def energy_cost(tree, target, weight, first, X, U, scale, order, l, lz, lzz):
    """Energy."""
    nv = tree.nv
    nq = X.shape[1] - nv
    memory, gradient = inertial_workspace(tree, X), np.empty(2 * nv)
    for k in range(X.shape[0]):
        r = place_energy(tree, X[k, :nq], X[k, nq:], memory) - target
        l[k] += scale * 0.5 * weight * r * r
        if order == VALUES:
            continue
        energy_gradient(tree, X[k, nq:], memory, gradient[:nv], gradient[nv:])
        for i in range(2 * nv):
            lz[k, i] += scale * weight * r * gradient[i]
            for j in range(2 * nv):
                lzz[k, i, j] += scale * weight * gradient[i] * gradient[j]
        if order == EXACT:
            add_energy_curvature(tree, memory, scale * weight * r, lzz[k])


@kernel
def momentum_cost(tree, at_center, target, weights, first, X, U, scale, order, l, lz, lzz):
    """Momentum."""
    nv = tree.nv
    nq = X.shape[1] - nv
    memory, g, r, f = inertial_workspace(tree, X), np.empty((nv, 3)), np.empty(6), np.empty(6)
    D, unused = np.empty((2 * nv, 6)), np.zeros(nv)
    w = part6(weights, 0)
    for k in range(X.shape[0]):
        mass, c, h = place_momentum(tree, X[k, :nq], X[k, nq:], memory)
        value = about(at_center, c, h)
        for i in range(6):
            r[i] = value[i] - target[i]
            f[i] = weights[i] * r[i]
        l[k] += scale * half_square(weights, r)
        if order == VALUES:
            continue
        momentum_derivatives(tree, at_center, mass, c, h, memory, g, D[:nv], D[nv:])
        force = part6(f, 0)
        for i in range(2 * nv):
            d = load6(D, i)
            lz[k, i] += scale * dot6(d, force)
            wd = (w[0] * d[0], w[1] * d[1], w[2] * d[2], w[3] * d[3], w[4] * d[4], w[5] * d[5])
            for j in range(2 * nv):
                lzz[k, i, j] += scale * dot6(load6(D, j), wd)
        if order == EXACT:
            add_momentum_curvature(tree, at_center, c, h, memory, g, D[:nv], D[nv:], force, scale, unused, lzz[k])
