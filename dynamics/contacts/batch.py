# mypy: allow-untyped-defs, allow-untyped-calls
"""The kernels of motion under contacts and of impacts over batches of samples, one compiled call each, for any number.

They are given the address of a tree and memory of ``size`` numbers, as those of rigid_bodies/batch.py are, and whether
contacts are struck (impact), and return the first sample whose mass matrix is not positive definite, or -1.
"""

from functools import cache

from ddp.compiling.kernel import inline, kernel
from ddp.machine.fields import Fields, matrix_of, vector
from ddp.machine.memory import as_vector, columns_from, rows_of
from ddp.machine.number import width
from ddp.machine.packing import pack, unpack, unpack_columns
from dynamics.arrays.products import dense_product
from dynamics.contacts.axes import add_turning_curvature, turn_derivatives, turn_forces
from dynamics.contacts.hessian import Curvature, clear_blocks, contact_blocks, impact_blocks
from dynamics.contacts.kinematics import Place
from dynamics.contacts.relation import (
    Factors,
    contact_forward,
    impact_forward,
    impact_residuals,
    relate_residuals,
    relation,
)
from dynamics.contacts.response import refine
from dynamics.rigid_bodies import batch
from dynamics.rigid_bodies.batch import first_failure, given, take
from dynamics.rigid_bodies.implicit import adjoint_weight
from dynamics.rigid_bodies.kinematics import clear


class Solution(Fields):
    """Results of a relation and their derivatives; v⁺ + e v or v⁺, zeros, a weight on results, and one that is turned.

    zy (nz, 2 nv): [z_q z_v].
    """

    zero, a, f, seen, weight = vector("nv"), vector("nv"), vector("nc"), vector("nv"), vector("nv + nc")
    Kinv, zy = matrix_of("nv + nc", "nv + nc"), matrix_of("nv + nc", "2 nv")


@cache
def size(nb: int, nq: int, nv: int, m: int, nc: int) -> int:
    """Numbers of memory that any kernel here takes, of m contacts and nc forces."""
    counts = {"nb": nb, "nv": nv, "m": m, "nc": nc}
    return batch.size(nb, nq, nv) + sum(fields.size(**counts) for fields in (Place, Factors, Solution, Curvature))


@inline
def _scratch(address, memory, contacts, nc, fext):
    """The tree, a workspace, a sample, places of contacts, a relation, its results and room for second order."""
    tree, ws, x = given(address, memory, fext)
    place = Place(x.end, tree, contacts.count)
    w = Factors(place.end, tree, nc)
    z = Solution(w.end, tree, nc)
    clear(z.zero, tree.nv)
    return tree, ws, x, place, relation(tree, nc, z.a, z.f, z.Kinv, w), z, Curvature(z.end, tree, nc)


@kernel
def unpack_rows(M, first, count, columns, out, t):
    """Write rows of a matrix of numbers as (count, columns) of the samples from t on."""
    for i in range(count):
        unpack_columns(M[first + i], columns, out, t, i * columns)


@inline
def results(tree, contacts, epsilon, restitution, impact, x, ws, place, r, z):
    """a, or v⁺ of an impact; forces or impulses are in r.f."""
    if impact:
        impact_forward(tree, contacts, epsilon, restitution, x.q, x.first, z.zero, x.fext, ws, place, r)
        for i in range(tree.nv):
            z.seen[i] = x.first[i] + r.a[i]
        return z.seen
    contact_forward(tree, contacts, epsilon, x.q, x.first, x.second, x.fext, ws, place, r)
    return r.a


@inline
def related(tree, contacts, epsilon, restitution, impact, x, ws, place, r, z):
    """Derivatives -K⁻¹ [R_q R_v] by q and v into z.zy; where those of forces by τ are, of an impact scratch."""
    nv, nz = r.nv, r.nv + r.nc
    if impact:
        impact_residuals(tree, contacts, epsilon, restitution, x.q, x.first, z.seen, z.zero, x.fext, ws, place, r)
    else:
        relate_residuals(tree, contacts, epsilon, x.q, x.first, x.second, x.fext, ws, place, r)
    dense_product(nz, 2 * nv, nz, -1.0, r.Kinv, r.Ry, z.zy)
    refine(contacts, epsilon, r, 1.0, 2 * nv, z.zy)
    for i in range(nv if impact else 0):
        z.zy[i, nv + i] += 1.0
    return r.down if impact else r.Kinv[nv:]


@inline
def curved(tree, contacts, restitution, impact, x, weight, ws, place, r, z, h):
    """Blocks qq (iterated), qv, vv, qt of the Hessian of weight·z in h, after ``related``; of impacts the first two."""
    nv, nz = r.nv, r.nv + r.nc
    adjoint_weight(nz, r.Kinv, weight, h.omega)
    clear_blocks(tree, h)
    if impact:
        motion = x.first, r.a, r.f
        impact_blocks(tree, contacts, restitution, h.omega, motion, z.zero, x.fext, ws, place, h, h)
    else:
        contact_blocks(tree, contacts, h.omega, ws, place, r.f, h)
        dense_product(nv, nv, nz, 1.0, h.qz, r.Kinv, h.qt)
    dense_product(nv, nv, nz, 1.0, h.qz, z.zy, h.cross)  # (ω R_yz) z_y and its transpose
    for i in range(nv):
        for j in range(nv):
            h.qq[i, j] += h.cross[i, j] + h.cross[j, i]
    dense_product(nv, nv, nz, 1.0, h.qz, columns_from(z.zy, nv), h.cross)
    for i in range(nv):
        for j in range(nv):
            h.qv[i, j] += h.cross[i, j]


@kernel
def contact_dynamics(address, memory, contacts, nc, epsilon, restitution, impact, Q, V, tau, fext, A, F):
    """a or v⁺ (N, nv) and f or Λ (N, nc) of every sample."""
    Q, V, tau, fext, A, F = rows_of(Q), rows_of(V), rows_of(tau), rows_of(fext), rows_of(A), rows_of(F)
    tree, ws, x, place, r, z, _ = _scratch(address, memory, contacts, nc, fext)
    for t in range(0, len(Q), width(z.end)):
        take(x, tree, Q, V, tau, fext, t)
        moved = results(tree, contacts, epsilon, restitution, impact, x, ws, place, r, z)
        turn_forces(contacts, place, False, 0, r.f)
        unpack(moved, tree.nv, A, t)
        unpack(r.f, nc, F, t)
        failed = first_failure(tree, r.D, r.a, t, len(Q))
        if failed >= 0:
            return failed
    return -1


@kernel
def contact_derivatives(address, memory, contacts, nc, epsilon, restitution, impact, Q, V, tau, fext, zq, zv, zt):
    """Derivatives of (a, f) or (v⁺, Λ) by q, v and, where zt has rows, τ: (N, nv + nc, nv) of every sample."""
    Q, V, tau, fext = rows_of(Q), rows_of(V), rows_of(tau), rows_of(fext)
    zq, zv, zt = rows_of(zq), rows_of(zv), rows_of(zt)
    tree, ws, x, place, r, z, _ = _scratch(address, memory, contacts, nc, fext)
    nv = tree.nv
    by_v = columns_from(z.zy, nv)
    for t in range(0, len(Q), width(z.end)):
        take(x, tree, Q, V, tau, fext, t)
        by_tau = related(tree, contacts, epsilon, restitution, impact, x, ws, place, r, z)
        turn_derivatives(tree, contacts, ws, place, r.f, z.zy[nv:], by_v[nv:], by_tau)
        unpack_rows(z.zy, 0, nv + nc, nv, zq, t)
        unpack_rows(by_v, 0, nv + nc, nv, zv, t)
        if len(zt) > 0:
            unpack_rows(r.Kinv, 0, nv + nc, nv, zt, t)
        failed = first_failure(tree, r.D, r.a, t, len(Q))
        if failed >= 0:
            return failed
    return -1


@kernel
def contact_hessians(
    address, memory, contacts, nc, epsilon, restitution, impact, Q, V, tau, fext, weights, qq, qv, vv, qt
):
    """Hessians (N, W, nv, nv) of W weights (N, W, nv + nc) on (a, f) or (v⁺, Λ) of every sample, qq iterated.

    Those of impacts by v twice and by τ vanish: vv and qt have no rows then.
    """
    count = weights.shape[1]
    Q, V, tau, fext, weights = rows_of(Q), rows_of(V), rows_of(tau), rows_of(fext), rows_of(weights)
    qq, qv, vv, qt = rows_of(qq), rows_of(qv), rows_of(vv), rows_of(qt)
    tree, ws, x, place, r, z, h = _scratch(address, memory, contacts, nc, fext)
    nv = tree.nv
    by_q, by_v, nz, square = z.zy[nv:], columns_from(z.zy, nv)[nv:], nv + nc, nv * nv
    for t in range(0, len(Q), width(z.end)):
        take(x, tree, Q, V, tau, fext, t)
        by_tau = related(tree, contacts, epsilon, restitution, impact, x, ws, place, r, z)
        failed = first_failure(tree, r.D, r.a, t, len(Q))
        if failed >= 0:
            return failed
        for i in range(count):
            pack(columns_from(weights, i * nz), t, z.weight, nz)
            turn_forces(contacts, place, True, nv, z.weight)
            curved(tree, contacts, restitution, impact, x, z.weight, ws, place, r, z, h)
            add_turning_curvature(tree, contacts, ws, place, z.weight[nv:], r.f, by_q, by_v, by_tau, h.qq, h.qv, h.qt)
            unpack_columns(as_vector(h.qq), square, qq, t, i * square)
            unpack_columns(as_vector(h.qv), square, qv, t, i * square)
            if len(vv) > 0:
                unpack_columns(as_vector(h.vv), square, vv, t, i * square)
                unpack_columns(as_vector(h.qt), square, qt, t, i * square)
    return -1
