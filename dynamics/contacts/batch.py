# mypy: allow-untyped-defs, allow-untyped-calls
"""The kernels of motion under contacts and of impacts over batches of samples, one compiled call each, for any number.

They are given the address of a tree and memory of ``size`` numbers, as those of rigid_bodies/batch.py are, and return
the first sample whose mass matrix is not positive definite, or -1.
"""

from __future__ import annotations

from functools import cache

from ddp.compiling.kernel import inline, kernel
from ddp.machine.fields import Fields, matrix_of, vector
from ddp.machine.memory import as_matrix, as_vector, columns_from, rows_of
from ddp.machine.number import width
from ddp.machine.packing import pack, unpack, unpack_columns
from dynamics.arrays.products import dense_product
from dynamics.contacts.axes import add_turning_curvature, turn_derivatives, turn_forces, turn_weights
from dynamics.contacts.hessian import Curvature, contact_hessian, impact_hessian
from dynamics.contacts.kinematics import Place
from dynamics.contacts.relation import (
    Factors,
    contact_forward,
    impact_forward,
    relate_contact,
    relate_impact,
    relation,
)
from dynamics.rigid_bodies import batch
from dynamics.rigid_bodies.batch import first_failure, given, take
from dynamics.rigid_bodies.kinematics import clear


class Solution(Fields):
    """Results of a relation and their derivatives; v⁺ + e v or v⁺, zeros, a weight on results, and one that is turned.

    zy (nz, 2 nv): [z_q z_v].
    """

    zero, a, f, seen, weight = vector("nv"), vector("nv"), vector("nc"), vector("nv"), vector("nv + nc")
    Kinv, zy = matrix_of("nv + nc", "nv + nc"), matrix_of("nv + nc", "2 nv")


@cache
def size(nb: int, nq: int, nv: int, m: int, nc: int) -> int:
    """How many numbers of memory any kernel here takes, of m contacts and nc forces."""
    counts = {"nb": nb, "nv": nv, "m": m, "nc": nc}
    return batch.size(nb, nq, nv) + sum(fields.size(**counts) for fields in (Place, Factors, Solution, Curvature))


@inline
def _bench(address, memory, contacts, nc, fext):
    """The tree, a workspace, a sample, places of contacts, a relation, its results and room for second order."""
    tree, ws, x = given(address, memory, fext)
    place = Place(x.end, tree, contacts.body.size)
    w = Factors(place.end, tree, nc)
    z = Solution(w.end, tree, nc)
    clear(z.zero, tree.nv)
    return tree, ws, x, place, relation(tree, nc, z.a, z.f, z.Kinv, w), z, Curvature(z.end, tree, nc)


@inline
def _none(Q):
    """No wrenches."""
    return as_matrix(as_vector(Q), 0, 0)


@kernel
def unpack_rows(M, first, count, columns, out, t):
    """Write rows of a matrix of numbers as (count, columns) of the samples from t on."""
    for i in range(count):
        unpack_columns(M[first + i], columns, out, t, i * columns)


@kernel
def contact_dynamics(address, memory, contacts, nc, epsilon, Q, V, tau, fext, A, F):
    """a (N, nv), f (N, nc) of every sample."""
    Q, V, tau, fext, A, F = rows_of(Q), rows_of(V), rows_of(tau), rows_of(fext), rows_of(A), rows_of(F)
    tree, ws, x, place, r, z, _ = _bench(address, memory, contacts, nc, fext)
    for t in range(0, len(Q), width(z.end)):
        take(x, tree, Q, V, tau, fext, t)
        contact_forward(tree, contacts, epsilon, x.q, x.first, x.second, x.fext, ws, place, r)
        turn_forces(contacts, place, 0, r.f)
        unpack(r.a, tree.nv, A, t)
        unpack(r.f, nc, F, t)
        failed = first_failure(tree, r.D, r.a, t, len(Q))
        if failed >= 0:
            return failed
    return -1


@kernel
def impact_dynamics(address, memory, contacts, nc, epsilon, restitution, Q, V, A, F):
    """v⁺ (N, nv), Λ (N, nc) of every sample."""
    Q, V, A, F = rows_of(Q), rows_of(V), rows_of(A), rows_of(F)
    none = _none(Q)
    tree, ws, x, place, r, z, _ = _bench(address, memory, contacts, nc, none)
    for t in range(0, len(Q), width(z.end)):
        take(x, tree, Q, V, V, none, t)
        impact_forward(tree, contacts, epsilon, restitution, x.q, x.first, z.zero, x.fext, ws, place, r)
        turn_forces(contacts, place, 0, r.f)
        for i in range(tree.nv):
            z.seen[i] = x.first[i] + r.a[i]
        unpack(z.seen, tree.nv, A, t)
        unpack(r.f, nc, F, t)
        failed = first_failure(tree, r.D, r.a, t, len(Q))
        if failed >= 0:
            return failed
    return -1


@kernel
def contact_derivatives(address, memory, contacts, nc, epsilon, Q, V, tau, fext, zq, zv, zt):
    """∂(a, f)/∂q, ∂v, ∂τ (N, nv + nc, nv) of every sample."""
    Q, V, tau, fext, zq, zv, zt = (
        rows_of(Q), rows_of(V), rows_of(tau), rows_of(fext), rows_of(zq), rows_of(zv), rows_of(zt),
    )  # fmt: skip
    tree, ws, x, place, r, z, _ = _bench(address, memory, contacts, nc, fext)
    nv = tree.nv
    by_v = columns_from(z.zy, nv)
    for t in range(0, len(Q), width(z.end)):
        take(x, tree, Q, V, tau, fext, t)
        relate_contact(tree, contacts, epsilon, x.q, x.first, x.second, x.fext, ws, place, r, z.zy)
        turn_derivatives(tree, contacts, ws, place, r.f, z.zy[nv:], by_v[nv:], r.Kinv[nv:])
        unpack_rows(z.zy, 0, nv + nc, nv, zq, t)
        unpack_rows(by_v, 0, nv + nc, nv, zv, t)
        unpack_rows(r.Kinv, 0, nv + nc, nv, zt, t)
        failed = first_failure(tree, r.D, r.a, t, len(Q))
        if failed >= 0:
            return failed
    return -1


@kernel
def impact_derivatives(address, memory, contacts, nc, epsilon, restitution, Q, V, zq, zv):
    """∂(v⁺, Λ)/∂q, ∂v (N, nv + nc, nv) of every sample."""
    Q, V, zq, zv = rows_of(Q), rows_of(V), rows_of(zq), rows_of(zv)
    none = _none(Q)
    tree, ws, x, place, r, z, _ = _bench(address, memory, contacts, nc, none)
    nv = tree.nv
    by_v = columns_from(z.zy, nv)
    for t in range(0, len(Q), width(z.end)):
        take(x, tree, Q, V, V, none, t)
        relate_impact(
            tree, contacts, epsilon, restitution, x.q, x.first, z.seen, z.zero, x.fext, ws, place, r, z.zy
        )  # fmt: skip
        turn_derivatives(tree, contacts, ws, place, r.f, z.zy[nv:], by_v[nv:], r.down)
        unpack_rows(z.zy, 0, nv + nc, nv, zq, t)
        unpack_rows(by_v, 0, nv + nc, nv, zv, t)
        failed = first_failure(tree, r.D, r.a, t, len(Q))
        if failed >= 0:
            return failed
    return -1


@kernel
def contact_hessians(address, memory, contacts, nc, epsilon, Q, V, tau, fext, weights, qq, qv, vv, qt):
    """Hessians (N, W, nv, nv) of W weights (N, W, nv + nc) on (a, f) of every sample, qq iterated."""
    count = weights.shape[1]
    Q, V, tau, fext, weights = rows_of(Q), rows_of(V), rows_of(tau), rows_of(fext), rows_of(weights)
    qq, qv, vv, qt = rows_of(qq), rows_of(qv), rows_of(vv), rows_of(qt)
    tree, ws, x, place, r, z, h = _bench(address, memory, contacts, nc, fext)
    nv = tree.nv
    by_v, nz, square = columns_from(z.zy, nv), nv + nc, nv * nv
    for t in range(0, len(Q), width(z.end)):
        take(x, tree, Q, V, tau, fext, t)
        relate_contact(tree, contacts, epsilon, x.q, x.first, x.second, x.fext, ws, place, r, z.zy)
        failed = first_failure(tree, r.D, r.a, t, len(Q))
        if failed >= 0:
            return failed
        for i in range(count):
            pack(columns_from(weights, i * nz), t, z.weight, nz)
            turn_weights(contacts, place, nv, z.weight)
            contact_hessian(tree, contacts, z.weight, ws, place, r, z.zy, h)
            dense_product(nv, nv, nz, 1.0, h.qz, r.Kinv, h.qt)
            by_q, by_tau, w = z.zy[nv:], r.Kinv[nv:], z.weight[nv:]
            add_turning_curvature(tree, contacts, ws, place, w, r.f, by_q, by_v[nv:], by_tau, h.qq, h.qv, h.qt)
            unpack_columns(as_vector(h.qq), square, qq, t, i * square)
            unpack_columns(as_vector(h.qv), square, qv, t, i * square)
            unpack_columns(as_vector(h.vv), square, vv, t, i * square)
            unpack_columns(as_vector(h.qt), square, qt, t, i * square)
    return -1


@kernel
def impact_hessians(address, memory, contacts, nc, epsilon, restitution, Q, V, weights, qq, qv):
    """Hessians (N, W, nv, nv) of W weights (N, W, nv + nc) on (v⁺, Λ) of every sample."""
    count = weights.shape[1]
    Q, V, weights, qq, qv = rows_of(Q), rows_of(V), rows_of(weights), rows_of(qq), rows_of(qv)
    none = _none(Q)
    tree, ws, x, place, r, z, h = _bench(address, memory, contacts, nc, none)
    nv = tree.nv
    by_v, nz, square = columns_from(z.zy, nv), nv + nc, nv * nv
    for t in range(0, len(Q), width(z.end)):
        take(x, tree, Q, V, V, none, t)
        relate_impact(
            tree, contacts, epsilon, restitution, x.q, x.first, z.seen, z.zero, x.fext, ws, place, r, z.zy
        )  # fmt: skip
        failed = first_failure(tree, r.D, r.a, t, len(Q))
        if failed >= 0:
            return failed
        for i in range(count):
            pack(columns_from(weights, i * nz), t, z.weight, nz)
            turn_weights(contacts, place, nv, z.weight)
            impact_hessian(tree, contacts, restitution, z.weight, x.first, z.zero, x.fext, ws, place, r, z.zy, h)
            by_q, w = z.zy[nv:], z.weight[nv:]
            add_turning_curvature(tree, contacts, ws, place, w, r.f, by_q, by_v[nv:], r.down, h.qq, h.qv, h.qt)
            unpack_columns(as_vector(h.qq), square, qq, t, i * square)
            unpack_columns(as_vector(h.qv), square, qv, t, i * square)
    return -1
