# mypy: allow-untyped-defs, allow-untyped-calls
"""Algebra of contacts on tuples of scalars: motions at a point, and first moments."""

from __future__ import annotations

from ddp.compiling.kernel import inline
from dynamics.geometry.spatial import add3, angular, cross3, join, linear, rotate_back


@inline
def velocity_at(p, m):
    """P(m): the velocity that a motion gives the point p."""
    return add3(linear(m), cross3(angular(m), p))


@inline
def seen_from(R, p, m):
    """A motion in the axes of the frame (R, p)."""
    return join(rotate_back(R, velocity_at(p, m)), rotate_back(R, angular(m)))


@inline
def add_outer(A, i, k, scale, x, f):
    """Row i from column k += scale x fᵀ."""
    for a in range(3):
        for b in range(3):
            A[i, k + 3 * a + b] += scale * x[a] * f[b]


@inline
def add_vector(A, i, k, scale, f):
    """Row i from column k += scale f."""
    for a in range(3):
        A[i, k + a] += scale * f[a]
