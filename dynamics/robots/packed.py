# mypy: allow-untyped-defs, allow-untyped-calls
"""Read a ``Packed`` inside kernels: arrays on its memory, nothing copied."""

from __future__ import annotations

from numba import carray

from ddp.compiling.kernel import integer_pointer, kernel, pointer
from dynamics.arrays.views import view
from dynamics.rigid_bodies.batch import Relation
from dynamics.rigid_bodies.kinematics import Workspace
from dynamics.rigid_bodies.kinematics import views_of as views_of
from dynamics.robots.flattened import Walk
from dynamics.robots.model import Model

_HEADER = 11


@kernel
def read_numbers(context):
    """nq, nu, h, stages and the address of the scratch memory."""
    header = carray(integer_pointer(context), _HEADER)
    h = carray(pointer(header[7]), 22 * header[0] + 8 * header[1] + 7)[22 * header[0] + 8 * header[1] + 6]
    return header[2], header[3], h, header[8], header[9]


@kernel
def read_method(context):
    """The method of an explicit step (stages + 1, stages + 3), see steps/runge_kutta.py."""
    header = carray(integer_pointer(context), _HEADER)
    return matrix(header[10], header[8] + 1, header[8] + 3)


@kernel
def read_tree(context):
    """The tree."""
    header = carray(integer_pointer(context), _HEADER)
    nb, nv, ns, nr = header[0], header[1], header[4], header[5]
    n, x = header[6], header[7]
    s = n + 8 * (5 * nb + 2 * nv)
    a = x + 8 * (22 * nb + 6 * nv)
    springs = a + 8 * (2 * nv + 7 + 30 * nb)
    return Model(
        parent=_integers(n, nb), kind=_integers(n + 8 * nb, nb), iq=_integers(n + 16 * nb, nb),
        iv=_integers(n + 24 * nb, nb), nj=_integers(n + 32 * nb, nb),
        placement=matrix(x, nb, 12), turns=matrix(a + 8 * (2 * nv + 7), 3 * nb, 10),
        subspace=matrix(x + 8 * 22 * nb, nv, 6), inertia=matrix(x + 8 * 12 * nb, nb, 10),
        armature=vector(a, nv), gravity=vector(a + 16 * nv, 6), damping=vector(a + 8 * nv, nv),
        stiffness=vector(springs, nv), springref=vector(springs + 8 * nv, nv),
        body=_integers(n + 40 * nb, nv), previous=_integers(n + 40 * nb + 8 * nv, nv),
        segment=carray(integer_pointer(s), (ns, 4)), relatives=_integers(s + 32 * ns, nr),
    )  # fmt: skip


@kernel
def read_walk(context):
    """The walk through the tree."""
    header = carray(integer_pointer(context), _HEADER)
    nb, nv, ns, nr = header[0], header[1], header[4], header[5]
    w = header[6] + 8 * (5 * nb + 2 * nv + 4 * ns + nr)
    return Walk(view(_integers(w, nb)), view(_integers(w + 8 * nb, nb)), view(_integers(w + 16 * nb, nv)))


@kernel
def _integers(address, n):
    return carray(integer_pointer(address), n)


@kernel
def vector(address, n):
    """The n floats at an address."""
    return carray(pointer(address), n)


@kernel
def matrix(address, n, m):
    """The (n, m) floats at an address."""
    return carray(pointer(address), (n, m))


@kernel
def workspace_at(address, nb, nv):
    """A ``Workspace`` of floats in 95 nb + 36 nv of them."""
    b, d = 8 * nb, 8 * nv
    s = address + 95 * b
    return Workspace(
        matrix(address, nb, 9), matrix(address + 9 * b, nb, 3), matrix(address + 12 * b, nb, 6),
        matrix(address + 18 * b, nb, 6), matrix(address + 24 * b, nb, 6), matrix(address + 30 * b, nb, 10),
        matrix(address + 40 * b, nb, 10), matrix(address + 50 * b, nb, 6), matrix(address + 56 * b, nb, 12),
        matrix(address + 68 * b, nb, 12), matrix(address + 80 * b, nb, 12), matrix(address + 92 * b, nb, 3),
        matrix(s, nv, 6), matrix(s + 6 * d, nv, 6), matrix(s + 12 * d, nv, 6),
        matrix(s + 18 * d, nv, 6), matrix(s + 24 * d, nv, 6), matrix(s + 30 * d, nv, 6),
    )  # fmt: skip


@kernel
def relation_at(address, nv, first):
    """A ``Relation`` in 4 nv² + 3 nv floats, its results a_q, a_v, M⁻¹ in ``first`` (3, nv, nv)."""
    m, d = 8 * nv * nv, 8 * nv
    square = address + 3 * d
    return Relation(
        vector(address, nv), vector(address + d, nv), first[2], first[0], first[1], matrix(square, nv, nv),
        matrix(square + m, nv, nv), matrix(square + 2 * m, nv, nv), matrix(square + 3 * m, nv, nv),
        vector(address + 2 * d, nv),
    )  # fmt: skip
