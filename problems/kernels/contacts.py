# mypy: allow-untyped-defs, allow-untyped-calls
"""Costs on contact forces that the dynamics have found already: read in their notes and records, knot by knot.

Rows ``r = R f - target`` (nr,) of forces f (nc,) cost ``½ w Σ_i e_i²``, e_i how far r_i is beyond its limits. With
g = R' w e, the gradient is ``f_z' g`` and the Hessian ``f_z' R' w R f_z`` of the rows that are beyond, and, if exact,
that of g·f: for that g is left in the record, where the dynamics' own contraction finds it.
"""

import numpy as np

from ddp import kernel
from ddp.costs.bound import EXACT, VALUES
from problems.kernels.states import beyond, row_of


@kernel
def excess(R, target, lower, upper, f, e):
    """Write how far each row of R f - target is beyond its limits into e (nr,); the sum of squares."""
    total = 0.0
    for i in range(R.shape[0]):
        value = -target[i]
        for j in range(R.shape[1]):
            value += R[i, j] * f[j]
        e[i] = beyond(value, lower[i], upper[i])
        total += e[i] * e[i]
    return total


@kernel
def pulled(R, e, weight, g):
    """g := w R' e."""
    for j in range(g.size):
        g[j] = 0.0
        for i in range(R.shape[0]):
            g[j] += weight * e[i] * R[i, j]


@kernel
def add_products(fz, ld, R, e, g, scale, weight, lz, lzz):
    """lz += scale f_z' g;  lzz += scale w Σ (R_i f_z)' (R_i f_z) over the rows with e_i not zero.

    fz: f_z (nc, nz) by rows, ld apart.
    """
    nz, nc = lz.size, R.shape[1]
    row = np.empty(nz)
    for j in range(nc):
        for a in range(nz):
            lz[a] += scale * g[j] * fz[ld * j + a]
    for i in range(R.shape[0]):
        if e[i] != 0.0:
            row[:] = 0.0
            for j in range(nc):
                if R[i, j] != 0.0:
                    for a in range(nz):
                        row[a] += R[i, j] * fz[ld * j + a]
            for a in range(nz):
                if row[a] != 0.0:
                    x = scale * weight * row[a]
                    for b in range(nz):
                        lzz[a, b] += x * row[b]


@kernel
def force_cost(where, R, targets, lower, upper, weight, first, X, U, known, scale, order, l, lz, lzz):
    """ForceLimits of forces that are known: of values noted by rollouts, of derivatives recorded by expansions.

    The Hessian of g·f is not among these: g is left in the record, whose contraction adds it.
    where: the first of the forces in a record, of g, of their derivatives, and how far rows of those are apart.
    """
    nc = R.shape[1]
    forces, asked, begin, ld = where
    if order == VALUES:
        forces = 0
    e, g = np.zeros(R.shape[0]), np.zeros(nc)
    for k in range(X.shape[0]):
        cost = excess(R, row_of(targets, first + k), lower, upper, known[k, forces : forces + nc], e)
        l[k] += scale * 0.5 * weight * cost
        if order == VALUES or cost == 0.0:
            continue
        pulled(R, e, weight, g)
        add_products(known[k, begin : begin + nc * ld], ld, R, e, g, scale, weight, lz[k], lzz[k])
        if order == EXACT:
            for j in range(nc):
                known[k, asked + j] += scale * g[j]
