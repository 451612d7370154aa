# mypy: allow-untyped-defs, allow-untyped-calls
"""Algebra of contacts on tuples of scalars: motions at a point, first moments, and parts of rows."""

from __future__ import annotations

from ddp.compiling.kernel import inline
from dynamics.geometry.spatial import (
    add3,
    angular,
    cross3,
    join,
    linear,
    rotate_back,
)


@inline
def velocity_at(p, m):
    """P(m): the velocity that a motion gives the point p."""
    return add3(linear(m), cross3(angular(m), p))


@inline
def seen_from(R, p, m):
    """A motion in the axes of the frame (R, p)."""
    return join(rotate_back(R, velocity_at(p, m)), rotate_back(R, angular(m)))


@inline
def load3_at(A, i, k):
    """Three numbers of row i from column k."""
    return (A[i, k], A[i, k + 1], A[i, k + 2])


@inline
def load9_at(A, i, k):
    """Nine numbers of row i from column k."""
    return (
        A[i, k], A[i, k + 1], A[i, k + 2], A[i, k + 3], A[i, k + 4], A[i, k + 5], A[i, k + 6], A[i, k + 7], A[i, k + 8],
    )  # fmt: skip


@inline
def load6_at(A, i, k):
    """Six numbers of row i from column k."""
    return (A[i, k], A[i, k + 1], A[i, k + 2], A[i, k + 3], A[i, k + 4], A[i, k + 5])


@inline
def part3(f, r):
    """Three numbers of a vector from r."""
    return (f[r], f[r + 1], f[r + 2])


@inline
def part6(f, r):
    """Six numbers of a vector from r."""
    return (f[r], f[r + 1], f[r + 2], f[r + 3], f[r + 4], f[r + 5])


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


@inline
def outer(x, f):
    """x fᵀ, row by row."""
    return (
        x[0] * f[0], x[0] * f[1], x[0] * f[2], x[1] * f[0], x[1] * f[1], x[1] * f[2], x[2] * f[0], x[2] * f[1],
        x[2] * f[2],
    )  # fmt: skip
