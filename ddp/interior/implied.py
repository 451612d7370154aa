"""Bounds that equalities hold already: a goal on a joint's limit leaves nothing to the slack of that limit.

Barriers keep slacks positive. Where equalities alone decide the value of a bounded row, and that is at its bound, there
is no inside: multipliers of the two grow against each other, and of a sweep's Hessians only rounding is left. Such rows
are left out: they hold wherever the equalities do.

An equality at a knot decides on states before it, too: with q and v given at the end, q' = q + h v' gives q one knot
earlier. Going back, what is given at a knot, S z = s of z = (x, u), leaves of states

    L x = r,   L = Z' S_x,  r = Z' s    with    Z' S_u = 0

and S of the knot before are equalities there, and L [A B] z = r - L g, with g the gap between the two. Rows in the span
of L are decided on. All is linear, seen from a motion: limits of joints and states given at the end are so anyway.
"""

import numpy as np
from numpy.typing import NDArray

from ddp.derivatives import Derivatives
from ddp.problem import Problem
from ddp.protocols import Array

ROUNDING = 1e-9
"""Singular values, and what of a row is beside a span, that are smaller than this share are zero."""

BEYOND, NEAR = 1e-9, 1e-6
"""Values that leave nothing to a slack: so far beyond the bound, and so near to it, times 1, or the bound."""

EARLIER = 8
"""Knots that are looked at before one with an equality, at most."""


def implied(problem: Problem, d: Derivatives, X: Array, U: Array, gaps: Array) -> NDArray[np.bool_]:
    """Flags (m,) of bounded rows that equalities of single knots hold at a bound, seen from a motion X, U with gaps.

    d: its derivatives, of which A and B are read. Knots before one of whose rows none is found are not looked at, nor
    rows that are curved: what bounds them elsewhere may not be what is at the bound here.
    """
    rows, n, found = problem.rows, problem.dynamics.n, np.zeros(problem.rows.size, dtype=bool)
    hard = ~rows.soft & ~rows.free
    equal, bounded = rows.equal & hard, ~rows.equal & rows.straight & hard
    knots = {entry.start for entry in rows.placed if entry.stop == entry.start + 1 and entry.own(equal).any()}
    if not (knots and bounded.any()):
        return found
    c, J, S, s, last = rows.values(X, U), rows.jacobian(X, U), np.zeros((0, rows.nz)), np.zeros(0), max(knots)
    for t in range(last, 0, -1):
        if t in knots:
            last = t
        elif not len(S) and t < min(knots):
            break
        own, C = rows.at_knot(J, t)
        if t in knots:
            held = equal[own]
            S, s = np.vstack([S, C[held]]), np.append(s, (rows.lower - c)[own[held]])
        if not (np.isfinite(S).all() and np.isfinite(s).all()):
            break
        L, r = _of_states(S, s, n)
        own, C = own[bounded[own]], C[bounded[own]]
        found[own] = _is_decided(L, C) & _is_at_bound(c[own] + C[:, :n] @ (L.T @ r), rows.lower[own], rows.upper[own])
        if (len(own) and not found[own].any()) or t == last - EARLIER:
            L, r = L[:0], r[:0]
        S, s = np.hstack([L @ d.A[t - 1], L @ d.B[t - 1]]), r - L @ gaps[t - 1]
    return found


def _of_states(S: Array, s: Array, n: int) -> tuple[Array, Array]:
    """Rows of L x = r, orthonormal, that S z = s leaves of states x (n,), with z = (x, u)."""
    size = np.maximum(np.linalg.norm(S, axis=1), np.finfo(float).tiny)
    S, s = S / size[:, None], s / size
    reach = np.linalg.norm(S[:, n:], axis=0)
    if reach.any():
        W, sizes, _ = np.linalg.svd(S[:, n:] / np.where(reach > 0.0, reach, 1.0))
        Z = W[:, int((sizes > ROUNDING).sum()) :]
        S, s = Z.T @ S, Z.T @ s
    W, sizes, L = np.linalg.svd(S[:, :n], full_matrices=False)
    some = sizes > ROUNDING
    return L[some], (W[:, some].T @ s) / sizes[some]


def _is_decided(L: Array, C: Array) -> NDArray[np.bool_]:
    """Which rows C (k, nz) are in the span of orthonormal rows L of states."""
    n, size = L.shape[1], np.linalg.norm(C, axis=1)
    beside = np.hstack([C[:, :n] - (C[:, :n] @ L.T) @ L, C[:, n:]])
    return np.asarray((np.linalg.norm(beside, axis=1) <= ROUNDING * size) & (size > 0.0))


def _is_at_bound(c: Array, lower: Array, upper: Array) -> NDArray[np.bool_]:
    """Whether values (k,) are at a bound."""
    one, another = (np.maximum(1.0, np.where(np.isfinite(bound), np.abs(bound), 0.0)) for bound in (lower, upper))
    room = np.minimum((c - lower) / one, (upper - c) / another)
    return np.asarray((room >= -BEYOND) & (room <= NEAR))
