# mypy: allow-untyped-defs, allow-untyped-calls
"""Distances between capsules of one robot as a quantity of `ddp.tracing.quantities`.

Segments p + s d of one body and q + t e of another are nearest at P and Q, where the distance is ``n · (P - Q)``. A
degree of freedom with the column (linear v, angular ω) moves a point by ``v + ω × P``, and points on what it carries
turn with it: ``D_j D_k P = ω_j × D_k P`` for j before k.
"""

import numpy as np

from ddp import inline, kernel
from ddp.tracing.quantities import FIRST, SECOND
from dynamics.geometry.spatial import add3, cross3, dot3, scale3, sub3
from dynamics.quantities.points import knots_workspace, place_segments
from dynamics.quantities.segments import TOUCHING, free_inverse, nearest, normal


@inline
def _three(A, row, lane):
    return (A[row, lane], A[row + 1, lane], A[row + 2, lane])


@inline
def _segment(E, c, lane):
    """A segment's beginning, and how far it goes."""
    p = _three(E, 6 * c, lane)
    return p, sub3(_three(E, 6 * c + 3, lane), p)


@inline
def _moved(S, j, lane, P):
    """Velocity of a point by a degree of freedom."""
    return add3(_three(S, 6 * j, lane), cross3(_three(S, 6 * j + 3, lane), P))


@inline
def _last(tree, b):
    """The last degree of freedom that moves a body; -1 if none does."""
    return tree.iv[b] + tree.nj[b] - 1 if b >= 0 else -1


@kernel
def self_clearance(tree, bodies, ends, radii, pairs, a, order, y, weight, J, H):
    """The distance of two axes less both radii, of pairs (K, 2) of capsules.

    Its Jacobian is ``n · (D P - D Q)``: how nearest points move along the axes does not count. Hessians are as those of
    `clearances.clearance`; the second axis moves too: D_tx = -eᵀ J - (P - Q)ᵀ ∂e/∂x.
    """
    m, memory = tree.nv, knots_workspace(tree, a.shape[1])
    E, S = np.empty((6 * bodies.size, 8)), np.empty((6 * m, 8))
    D, g, ms, mt = np.empty((3, m)), np.empty(m), np.empty(m), np.empty(m)
    for begin in range(0, a.shape[0], 8):
        place_segments(tree, bodies, ends, a, begin, memory, E, S)
        for lane in range(min(8, a.shape[0] - begin)):
            t = begin + lane
            for i in range(pairs.shape[0]):
                if order == SECOND and weight[t, i] == 0.0:
                    continue
                one, other = pairs[i, 0], pairs[i, 1]
                p, d = _segment(E, one, lane)
                q, e = _segment(E, other, lane)
                along, across, s_free, t_free = nearest(p, d, q, e)
                P, Q = add3(p, scale3(along, d)), add3(q, scale3(across, e))
                apart = sub3(P, Q)
                n, length = normal(apart)
                if order != SECOND:
                    y[t, i] = np.sqrt(dot3(apart, apart)) - radii[one] - radii[other]
                if order == FIRST:
                    J[t, i] = 0.0
                    _add_along(tree, bodies[one], S, lane, P, n, J[t, i])
                    _add_along(tree, bodies[other], S, lane, Q, scale3(-1.0, n), J[t, i])
                if order != SECOND or length <= TOUCHING:
                    continue
                D[:], ms[:], mt[:] = 0.0, 0.0, 0.0
                _add_body(tree, bodies[one], S, lane, P, d, apart, 1.0, D, ms)
                _add_body(tree, bodies[other], S, lane, Q, e, apart, -1.0, D, mt)
                for j in range(m):
                    g[j] = n[0] * D[0, j] + n[1] * D[1, j] + n[2] * D[2, j]
                    for k in range(3):
                        ms[j] += d[k] * D[k, j]
                        mt[j] -= e[k] * D[k, j]
                w = weight[t, i]
                _add_distance_curvature(w / length, free_inverse(d, e, s_free, t_free), D, g, ms, mt, H[t])
                _add_turning(tree, bodies[one], S, lane, P, scale3(w, n), H[t])
                _add_turning(tree, bodies[other], S, lane, Q, scale3(-w, n), H[t])


@kernel
def _add_distance_curvature(factor, inverse, J, g, ms, mt, H):
    """H += factor (Jᵀ J - g gᵀ - D_xf D_ff⁻¹ D_fx), with ms = D_sx, mt = D_tx, g = nᵀ J (m,)."""
    iss, itt, ist = inverse
    for a in range(g.shape[0]):
        for b in range(g.shape[0]):
            h = -g[a] * g[b] - iss * ms[a] * ms[b] - itt * mt[a] * mt[b] - ist * (ms[a] * mt[b] + mt[a] * ms[b])
            for i in range(3):
                h += J[i, a] * J[i, b]
            H[a, b] += factor * h


@kernel
def _add_body(tree, b, S, lane, P, d, apart, sign, J, along):
    """J (3, m) += sign D P of a point P on body b, along (m,) += sign (P - Q) · D d of its axis d."""
    j = _last(tree, b)
    while j >= 0:
        v = _moved(S, j, lane, P)
        for k in range(3):
            J[k, j] += sign * v[k]
        along[j] += sign * dot3(apart, cross3(_three(S, 6 * j + 3, lane), d))
        j = tree.previous[j]


@inline
def _add_along(tree, b, S, lane, P, n, row):
    """row (m,) += n · D P of a point P on body b."""
    j = _last(tree, b)
    while j >= 0:
        row[j] += dot3(n, _moved(S, j, lane, P))
        j = tree.previous[j]


@kernel
def _add_turning(tree, b, S, lane, P, f, H):
    """H += f · D D P of a point P on body b."""
    k = _last(tree, b)
    while k >= 0:
        v = _moved(S, k, lane, P)
        H[k, k] += dot3(f, cross3(_three(S, 6 * k + 3, lane), v))
        j = tree.previous[k]
        while j >= 0:
            h = dot3(f, cross3(_three(S, 6 * j + 3, lane), v))
            if tree.body[j] == tree.body[k]:
                h = 0.5 * (h + dot3(f, cross3(_three(S, 6 * k + 3, lane), _moved(S, j, lane, P))))
            H[j, k] += h
            H[k, j] += h
            j = tree.previous[j]
        k = tree.previous[k]
