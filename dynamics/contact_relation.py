"""Motion under contacts, and impacts, as implicit functions z(y) of R(y, z) = 0: first order, second contracted.

=========  ==========  ===============  =====================================================================
system     z           y                R
=========  ==========  ===============  =====================================================================
contact    (a, f)      (q, v, τ)        ID(q, v, a) - Jᵀ f - τ ;  c(q, v, a) + ε f,  c linear in a by J
impact     (v⁺, Λ)     (q, v)           M (v⁺ - v) - Jᵀ Λ ;  J (v⁺ + e v) + ε Λ
=========  ==========  ===============  =====================================================================

(Singh et al., "Details", §XI and §XII.) K = ∂R/∂z = [M -Jᵀ ; J ε], so with the Delassus matrix and Λc its inverse

    f = -(J M⁻¹ Jᵀ + ε)⁻¹ c(a = M⁻¹ (τ - bias))          K⁻¹ = [M⁻¹ - M⁻¹Jᵀ Λc J M⁻¹   M⁻¹Jᵀ Λc ; -Λc J M⁻¹   Λc]

and everything else is implicit.py. An impact is inverse dynamics without velocity and gravity at a := v⁺ - v (the
papers' IDOZA), and contacts that see the velocity v⁺ + e v.

ε [1/kg] regularises redundant contacts (Tikhonov): zero gives the exact system, whose factorisation then fails.
Lanes know ε = 0 alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba.extending import overload

from ddp.kernel import kernel
from dynamics.contact_curvature import add_contact_curvature, couple_forces, subtract_force_torques
from dynamics.contact_kinematics import contact_derivatives, contact_jacobian, move_contacts, place_contacts
from dynamics.contact_products import dense_product
from dynamics.forward import forward_dynamics, invert
from dynamics.hessian import inverse_dynamics_hessian, virtual_velocities
from dynamics.inverse import inverse_dynamics_derivatives
from dynamics.kinematics import (
    accelerations,
    clear,
    composite_inertias,
    composite_momenta,
    sum_over_subtrees,
    velocities,
)
from dynamics.lanes import WIDTH, LaneArrayType, lane_array, lane_matrix, lane_memory, lane_vector

REDUNDANT = 1e-10
"""Contacts are redundant where a pivot of the Delassus matrix falls below this part of its diagonal."""


class Relation(NamedTuple):
    """The first order at one knot, for nz = nv + nc unknowns z.

    a (nv,), f (nc,): the solution (impacts: v⁺ - v and Λ).   D (nv,), pivots (nc,): diagonals of the factorisations;
    pivots are relative to the diagonal.   Kinv (nz, nz), zq, zv (nz, nv): K⁻¹ and derivatives; zτ is K⁻¹[:, :nv].
    J (nc, nv).   Scratch: Minv, LD, M (nv, nv), JM (nc, nv), S (nc, nc), c (nc,), Rq, Rv (nz, nv) and their
    first nv rows dq, dv and others cq, cv.
    """

    a: np.ndarray
    f: np.ndarray
    D: np.ndarray
    pivots: np.ndarray
    Kinv: np.ndarray
    zq: np.ndarray
    zv: np.ndarray
    J: np.ndarray
    Minv: np.ndarray
    LD: np.ndarray
    M: np.ndarray
    JM: np.ndarray
    S: np.ndarray
    c: np.ndarray
    Rq: np.ndarray
    Rv: np.ndarray
    dq: np.ndarray
    dv: np.ndarray
    cq: np.ndarray
    cv: np.ndarray


@kernel
def relation(nv, nc, like):
    """Arrays for one knot, of the number type of ``like``."""
    nz, t = nv + nc, like.dtype
    Rq, Rv = np.zeros((nz, nv), t), np.zeros((nz, nv), t)
    return Relation(
        np.zeros(nv, t), np.zeros(nc, t), np.zeros(nv, t), np.zeros(nc, t), np.zeros((nz, nz), t),
        np.zeros((nz, nv), t), np.zeros((nz, nv), t), np.zeros((nc, nv), t), np.zeros((nv, nv), t),
        np.zeros((nv, nv), t), np.zeros((nv, nv), t), np.zeros((nc, nv), t), np.zeros((nc, nc), t), np.zeros(nc, t),
        Rq, Rv, Rq[:nv], Rv[:nv], Rq[nv:], Rv[nv:],
    )  # fmt: skip


def invert_delassus(epsilon, r):  # type: ignore[no-untyped-def]
    """r.S := (J M⁻¹ Jᵀ + ε)⁻¹, r.JM := J M⁻¹ inside kernels, and the pivots; needs J and M⁻¹."""


@overload(invert_delassus)
def _invert_delassus(epsilon, r):  # type: ignore[no-untyped-def]
    if isinstance(r.types[0], LaneArrayType):
        return lambda epsilon, r: _invert_factors(r)
    return lambda epsilon, r: _invert_any(epsilon, r)


@kernel
def _invert_any(epsilon, r):
    """By factors where ε is zero, by eigenvectors else: their rounding is not magnified by 1/ε² but by 1/ε."""
    if epsilon == 0.0:
        _invert_factors(r)
        return
    _form_delassus(r)
    r.pivots[:] = 1.0
    if not np.isfinite(r.S.real).all():
        r.S[:] = np.nan
        return
    values, vectors = np.linalg.eigh(r.S)
    largest = np.max(np.abs(values))
    for i in range(r.S.shape[0]):
        for j in range(i + 1):
            total = 0.0
            for k in range(values.size):
                value = values[k] if values[k] > REDUNDANT * largest else 0.0
                total += vectors[i, k] * vectors[j, k] / (value + epsilon)
            r.S[i, j] = r.S[j, i] = total


@kernel
def _form_delassus(r):
    nc, nv = r.J.shape
    dense_product(1.0, r.J, r.Minv, r.JM)
    for i in range(nc):
        for j in range(i + 1):
            total = 0.0 * r.D[0]
            for k in range(nv):
                total = total + r.JM[i, k] * r.J[j, k]
            r.S[i, j] = total
            r.S[j, i] = total


@kernel
def _invert_factors(r):
    """S⁻¹ = L⁻ᵀ D⁻¹ L⁻¹; in a corner of K⁻¹, N, the factor L, then its inverse."""
    _form_delassus(r)
    nc, S, N = r.J.shape[0], r.S, r.Kinv
    for i in range(nc):
        for j in range(i):
            total = S[i, j]
            for k in range(j):
                total = total - N[i, k] * S[k, k] * N[j, k]
            N[i, j] = total / S[j, j]
        total = S[i, i]
        for k in range(i):
            total = total - N[i, k] * N[i, k] * S[k, k]
        r.pivots[i] = total / S[i, i]
        S[i, i] = total
    for i in range(nc):  # L⁻¹, in the upper triangle of N
        for j in range(i):
            total = -N[i, j]
            for k in range(j + 1, i):
                total = total - N[i, k] * N[j, k]
            N[j, i] = total
    for i in range(nc):
        N[i, i] = 1.0 / S[i, i]
    for i in range(nc):
        for j in range(i + 1):
            total = N[i, i] if i == j else N[j, i] * N[i, i]
            for k in range(i + 1, nc):
                total = total + N[i, k] * N[k, k] * N[j, k]
            S[i, j] = total
            S[j, i] = total


def lane_relation_size(nv: int, nc: int) -> int:
    """How many lanes ``lane_relation`` takes beside a record."""
    return 2 * nv + 2 * nc + 3 * nv * nv + 2 * nc * nv + nc * nc + 2 * (nv + nc) * nv


@kernel
def lane_relation(nv, nc, arena, record, start, D, pivots):
    """Arrays for eight knots; a, f, K⁻¹, z_q, z_v in a packed record (modes.py) in which a begins at ``start``.

    D, pivots: memory of nv and nc lanes.
    """
    nz, f = nv + nc, start + nv + 1
    K, m = f + nc, nv * nv
    q = K + nz * nz
    Rq, Rv = lane_memory(arena, nz * nv), lane_memory(arena, nz * nv)
    c = lane_vector(arena, nc)
    J, Minv, LD, M = (
        lane_matrix(arena, nc, nv), lane_matrix(arena, nv, nv), lane_matrix(arena, nv, nv), lane_matrix(arena, nv, nv),
    )  # fmt: skip
    return Relation(
        lane_array(record[start : start + nv]), lane_array(record[f : f + nc]), lane_array(D), lane_array(pivots),
        lane_array(record[K:q].reshape(nz, nz, WIDTH)), lane_array(record[q : q + nz * nv].reshape(nz, nv, WIDTH)),
        lane_array(record[q + nz * nv : q + 2 * nz * nv].reshape(nz, nv, WIDTH)), J, Minv, LD, M,
        lane_matrix(arena, nc, nv), lane_matrix(arena, nc, nc), c,
        lane_array(Rq.reshape(nz, nv, WIDTH)), lane_array(Rv.reshape(nz, nv, WIDTH)),
        lane_array(Rq[:m].reshape(nv, nv, WIDTH)), lane_array(Rv[:m].reshape(nv, nv, WIDTH)),
        lane_array(Rq[m:].reshape(nc, nv, WIDTH)), lane_array(Rv[m:].reshape(nc, nv, WIDTH)),
    )  # fmt: skip


@kernel
def are_independent(r):
    """Whether no contact holds what others hold already."""
    for i in range(r.pivots.size):
        if not r.pivots[i].real > REDUNDANT:
            return False
    return True


@kernel
def respond(r, gap):
    """f = -(J M⁻¹ Jᵀ + ε)⁻¹ gap, and a += M⁻¹ Jᵀ f."""
    nc, nv = r.J.shape
    for i in range(nc):
        total = 0.0 * gap[i]
        for j in range(nc):
            total = total - r.S[i, j] * gap[j]
        r.f[i] = total
    for i in range(nv):
        total = r.a[i]
        for k in range(nc):
            total = total + r.JM[k, i] * r.f[k]
        r.a[i] = total


@kernel
def contact_forward(tree, contacts, epsilon, q, v, tau, fext, ws, place, r):
    """a, f of motion under contacts; leaves the factors, and motions at a = M⁻¹ (τ - bias)."""
    forward_dynamics(tree, q, v, tau, fext, ws, r.LD, r.D, r.a)
    invert(tree, r.LD, r.M, r.Minv)
    place_contacts(tree, contacts, q, ws, place)
    move_contacts(tree, contacts, ws, place, r.c)  # at a = 0
    contact_jacobian(tree, contacts, ws, place, r.J)
    invert_delassus(epsilon, r)
    for i in range(r.c.size):
        for k in range(r.a.size):
            r.c[i] += r.J[i, k] * r.a[k]
    respond(r, r.c)


@kernel
def impact_forward(tree, contacts, epsilon, restitution, q, v, zero, no_fext, ws, place, r):
    """v⁺ - v and Λ of an impact; tree without gravity, zero (nv,) velocities."""
    forward_dynamics(tree, q, zero, zero, no_fext, ws, r.LD, r.D, r.a)
    invert(tree, r.LD, r.M, r.Minv)
    place_contacts(tree, contacts, q, ws, place)
    contact_jacobian(tree, contacts, ws, place, r.J)
    invert_delassus(epsilon, r)
    for i in range(r.c.size):
        total = 0.0 * v[0]
        for k in range(v.size):
            total = total + (1.0 + restitution) * r.J[i, k] * v[k]
        r.c[i] = total
    for i in range(v.size):
        r.a[i] = 0.0 * v[i]
    respond(r, r.c)


@kernel
def invert_kkt(r):
    """K⁻¹ of a solved relation."""
    nc, nv = r.J.shape
    K, JM, S = r.Kinv, r.JM, r.S
    for i in range(nc):
        for j in range(nc):
            K[nv + i, nv + j] = S[i, j]
    for i in range(nc):
        for j in range(nv):
            total = S[i, 0] * JM[0, j]
            for k in range(1, nc):
                total = total + S[i, k] * JM[k, j]
            K[nv + i, j] = -total
            K[j, nv + i] = total
    for i in range(nv):
        for j in range(i + 1):
            total = r.Minv[i, j]
            for k in range(nc):
                total = total - K[i, nv + k] * JM[k, j]
            K[i, j] = K[j, i] = total


@kernel
def relate_contact(tree, contacts, epsilon, q, v, tau, fext, ws, place, r):
    """Fill a ``Relation`` of motion under contacts."""
    contact_forward(tree, contacts, epsilon, q, v, tau, fext, ws, place, r)
    invert_kkt(r)
    accelerations(tree, v, r.a, fext, ws)
    move_contacts(tree, contacts, ws, place, r.c)
    sum_over_subtrees(tree, ws.f)
    composite_momenta(tree, ws)
    inverse_dynamics_derivatives(tree, ws, r.dq, r.dv, r.M)
    for i in range(v.size):
        r.dv[i, i] += tree.damping[i]
    subtract_force_torques(tree, contacts, ws, place, r.f, r.dq)
    contact_derivatives(tree, contacts, ws, place, r.cq, r.cv)
    dense_product(-1.0, r.Kinv, r.Rq, r.zq)
    dense_product(-1.0, r.Kinv, r.Rv, r.zv)


@kernel
def relate_impact(tree, contacts, epsilon, restitution, q, v, seen, zero, no_fext, ws, place, r):
    """Fill a ``Relation`` of an impact; seen (nv,) := v⁺ + e v, the velocity that contacts see."""
    nc, nv = r.J.shape
    impact_forward(tree, contacts, epsilon, restitution, q, v, zero, no_fext, ws, place, r)
    invert_kkt(r)
    accelerations(tree, zero, r.a, no_fext, ws)
    sum_over_subtrees(tree, ws.f)
    composite_momenta(tree, ws)
    inverse_dynamics_derivatives(tree, ws, r.dq, r.dv, r.M)
    subtract_force_torques(tree, contacts, ws, place, r.f, r.dq)
    see_velocities(tree, contacts, restitution, v, r.a, seen, r.c, ws, place)
    contact_derivatives(tree, contacts, ws, place, r.cq, r.cv)
    dense_product(-1.0, r.Kinv, r.Rq, r.zq)
    for j in range(nv):  # -K⁻¹ [-M ; e J]
        for i in range(nv):
            total = 0.0 * v[0]
            for k in range(nc):
                total = total - (1.0 + restitution) * r.Kinv[i, nv + k] * r.J[k, j]
            r.zv[i, j] = total
        r.zv[j, j] += 1.0
        for i in range(nc):
            total = 0.0 * v[0]
            for k in range(nc):
                total = total - (1.0 + restitution) * r.S[i, k] * r.J[k, j]
            r.zv[nv + i, j] = total


@kernel
def see_velocities(tree, contacts, restitution, v, jump, seen, gap, ws, place):
    """Motions of contacts at the velocity v⁺ + e v, jump := v⁺ - v; what they see into gap (nc,)."""
    for i in range(v.size):
        seen[i] = (1.0 + restitution) * v[i] + jump[i]
    velocities(tree, seen, ws)
    move_contacts(tree, contacts, ws, place, gap)


class Curvature(NamedTuple):
    """Blocks of ω R_yy and ω R_yz: qq, qv, vv (nv, nv), qz (nv, nz); omega, mu, nu; qa, cross, crossed: scratch."""

    omega: np.ndarray
    mu: np.ndarray
    nu: np.ndarray
    qq: np.ndarray
    qv: np.ndarray
    vv: np.ndarray
    qa: np.ndarray
    qz: np.ndarray
    other: np.ndarray
    cross: np.ndarray


@kernel
def curvature(nv, nc, like):
    """Arrays for one knot, of the number type of ``like``."""
    t = like.dtype
    omega = np.zeros(nv + nc, t)
    return Curvature(
        omega, omega[:nv], omega[nv:], np.zeros((nv, nv), t), np.zeros((nv, nv), t), np.zeros((nv, nv), t),
        np.zeros((nv, nv), t), np.zeros((nv, nv + nc), t), np.zeros((nv, nv), t), np.zeros((nv, nv), t),
    )  # fmt: skip


def lane_curvature_size(nv: int, nc: int) -> int:
    """How many lanes ``lane_curvature`` takes."""
    return (nv + nc) + 6 * nv * nv + nv * (nv + nc)


@kernel
def lane_curvature(nv, nc, arena):
    """Arrays for eight knots."""
    omega = lane_memory(arena, nv + nc)
    qq, qv, vv = lane_matrix(arena, nv, nv), lane_matrix(arena, nv, nv), lane_matrix(arena, nv, nv)
    qa, qz, other = lane_matrix(arena, nv, nv), lane_matrix(arena, nv, nv + nc), lane_matrix(arena, nv, nv)
    both = lane_array(omega), lane_array(omega[:nv]), lane_array(omega[nv:])
    return Curvature(both[0], both[1], both[2], qq, qv, vv, qa, qz, other, lane_matrix(arena, nv, nv))


@kernel
def weigh(Kinv, weight, omega):
    """ω = -K⁻ᵀ w."""
    for j in range(omega.size):
        total = Kinv[0, j] * weight[0]
        for i in range(1, omega.size):
            total = total + Kinv[i, j] * weight[i]
        omega[j] = -total


@kernel
def couple_accelerations(h):
    """The first nv columns of qz := qa."""
    nv = h.qa.shape[0]
    for i in range(nv):
        for j in range(nv):
            h.qz[i, j] = h.qa[i, j]


@kernel
def add_couplings(h, zq, zv, qq, qv):
    """qq, qv += (ω R_yz) z_y and its transpose."""
    nv = qq.shape[0]
    dense_product(1.0, h.qz, zq, h.cross)
    for i in range(nv):
        for j in range(nv):
            qq[i, j] += h.cross[i, j] + h.cross[j, i]
    dense_product(1.0, h.qz, zv, h.cross)
    for i in range(nv):
        for j in range(nv):
            qv[i, j] += h.cross[i, j]


@kernel
def contact_hessian(tree, contacts, weight, ws, place, Kinv, zq, zv, f, h):
    """Blocks qq (iterated), qv, vv of the Hessian of weight·(a, f), and ω R_qz in h.qz; after ``relate_contact``."""
    nv = h.qa.shape[0]
    weigh(Kinv, weight, h.omega)
    virtual_velocities(tree, h.mu, ws)
    inverse_dynamics_hessian(tree, ws, h.qq, h.qv, h.vv, h.qa)
    add_contact_curvature(tree, contacts, ws, place, h.nu, f, h.qq, h.qv, h.vv, h.qa)
    couple_accelerations(h)
    couple_forces(tree, contacts, ws, place, nv, h.qz)
    add_couplings(h, zq, zv, h.qq, h.qv)


@kernel
def impact_hessian(tree, contacts, restitution, weight, v, seen, zero, no_fext, ws, place, r, h):
    """Blocks qq (iterated), qv of the Hessian of weight·(v⁺, Λ); after ``relate_impact``."""
    known = v, r.a, r.f, r.Kinv
    impact_blocks(tree, contacts, restitution, weight, *known, seen, zero, no_fext, r.c, ws, place, h)
    add_couplings(h, r.zq, r.zv, h.qq, h.qv)


@kernel
def impact_blocks(tree, contacts, restitution, weight, v, jump, f, Kinv, seen, zero, no_fext, gap, ws, place, h):
    """ω R_yy in h.qq, h.qv and ω R_qz in h.qz; needs placements of bodies and contacts."""
    nv = h.qa.shape[0]
    weigh(Kinv, weight, h.omega)
    velocities(tree, zero, ws)
    accelerations(tree, zero, jump, no_fext, ws)
    composite_inertias(tree, ws)
    sum_over_subtrees(tree, ws.f)
    composite_momenta(tree, ws)
    virtual_velocities(tree, h.mu, ws)
    inverse_dynamics_hessian(tree, ws, h.qq, h.qv, h.vv, h.qa)
    see_velocities(tree, contacts, restitution, v, jump, seen, gap, ws, place)
    clear(h.other)
    add_contact_curvature(tree, contacts, ws, place, h.nu, f, h.qq, h.other, h.vv, h.cross)
    for i in range(nv):
        for j in range(nv):
            h.qv[i, j] = restitution * h.other[i, j] - h.qa[i, j]
            h.qa[i, j] += h.other[i, j]
    couple_accelerations(h)
    couple_forces(tree, contacts, ws, place, nv, h.qz)
