# mypy: allow-untyped-defs, allow-untyped-calls
"""Motion under contacts, and impacts, as implicit functions z(y) of R(y, z) = 0: first order, second contracted.

=========  ==========  ===============  =====================================================================
system     z           y                R
=========  ==========  ===============  =====================================================================
contact    (a, f)      (q, v, τ)        ID(q, v, a) - Jᵀ f - τ ;  c(q, v, a) + ε f,  c linear in a by J
impact     (v⁺, Λ)     (q, v)           M (v⁺ - v) - Jᵀ Λ ;  J (v⁺ + e v) + ε Λ
=========  ==========  ===============  =====================================================================

(Singh et al., "Details", §XI and §XII.) K = ∂R/∂z = [M -Jᵀ ; J ε], so with the inverse Λc of the Delassus matrix

    f = -Λc c(a = M⁻¹ (τ - bias))          Λc = (J M⁻¹ Jᵀ + ε)⁻¹          K⁻¹: response.py

and everything else is implicit.py. An impact is inverse dynamics without velocity and gravity at a := v⁺ - v (the
papers' IDOZA), and contacts that see the velocity v⁺ + e v.

ε [1/kg] regularises redundant contacts (Tikhonov): zero gives the exact system, whose factorisation then fails.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ddp.compiling.kernel import kernel
from dynamics.arrays.lanes import lane_array, lane_matrix, lane_vector
from dynamics.arrays.views import folded
from dynamics.contacts.curvature import subtract_force_torques
from dynamics.contacts.kinematics import contact_derivatives, contact_jacobian, move_contacts, place_contacts
from dynamics.contacts.products import dense_product
from dynamics.contacts.response import invert_delassus, invert_kkt, respond
from dynamics.rigid_bodies.forward import forward_dynamics, invert
from dynamics.rigid_bodies.inverse import inverse_dynamics_derivatives
from dynamics.rigid_bodies.kinematics import add_accelerations, clear, velocities
from dynamics.rigid_bodies.passive import resist


class Relation(NamedTuple):
    """The first order at one knot, for nz = nv + nc unknowns z.

    a (nv,), f (nc,): the solution (impacts: v⁺ - v and Λ).   D (nv,), pivots (nc,): diagonals of the factorisations;
    pivots are relative to the diagonal.   Kinv (nz, nz), zq, zv (nz, nv): K⁻¹ and derivatives; zτ is K⁻¹[:, :nv].
    J (nc, nv).   G (nv, nc), S (nc, nc): M⁻¹ Jᵀ and Λc, see response.py.   CM, down (nc, nv), right (nv, nc),
    corner (nv, nv): C M⁻¹, and blocks of K⁻¹.   Scratch: Minv, LD, M (nv, nv), c (nc,), Rq, Rv (nz, nv) and their
    first nv rows dq, dv and others cq, cv. LD, M, Rq, Rv and J begin as zeros: where a degree of freedom has nothing to
    do with another, or moves no contact, nothing is written.
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
    G: np.ndarray
    S: np.ndarray
    CM: np.ndarray
    down: np.ndarray
    right: np.ndarray
    corner: np.ndarray
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
        np.zeros((nv, nv), t), np.zeros((nv, nv), t), np.zeros((nv, nc), t), np.zeros((nc, nc), t),
        np.zeros((nc, nv), t), np.zeros((nc, nv), t), np.zeros((nv, nc), t), np.zeros((nv, nv), t), np.zeros(nc, t),
        Rq, Rv, Rq[:nv], Rv[:nv], Rq[nv:], Rv[nv:],
    )  # fmt: skip


def lane_relation_size(nv: int, nc: int) -> int:
    """How many lanes ``lane_relation`` takes beside what it is given."""
    return nc + 7 * nc * nv + 6 * nv * nv + nc * nc + nv


@kernel
def lane_relation(arena, a, f, D, pivots, Kinv):
    """Arrays for eight knots but z_q and z_v, and [R_q R_v] (nz, 2 nv); a, f, D, pivots are given as memory."""
    nv, nc = a.shape[0], f.shape[0]
    nz, n = nv + nc, 2 * nv
    c, J, G = lane_vector(arena, nc), lane_matrix(arena, nc, nv), lane_matrix(arena, nv, nc)
    CM, down, right = lane_matrix(arena, nc, nv), lane_matrix(arena, nc, nv), lane_matrix(arena, nv, nc)
    corner = lane_matrix(arena, nv, nv)
    Minv, LD, M = lane_matrix(arena, nv, nv), lane_matrix(arena, nv, nv), lane_matrix(arena, nv, nv)
    S, none, R = lane_matrix(arena, nc, nc), lane_matrix(arena, 0, nv), lane_vector(arena, nz * n + nv)
    by_q, by_v, Ry = R[: nz * n], R[nv : nv + nz * n], folded(R[: nz * n], nz, n)
    r = Relation(
        lane_array(a), lane_array(f), lane_array(D), lane_array(pivots), Kinv, none, none, J, Minv, LD, M, G, S,
        CM, down, right, corner, c, Ry, folded(by_v, nz, n), folded(by_q[: nv * n], nv, n),
        folded(by_v[: nv * n], nv, n), folded(by_q[nv * n :], nc, n), folded(by_v[nv * n :], nc, n),
    )  # fmt: skip
    for begins_as_zeros in (J, LD, M, Ry):
        clear(begins_as_zeros)
    return r, Ry


@kernel
def contact_forward(tree, contacts, epsilon, q, v, tau, fext, ws, place, r):
    """a, f of motion under contacts; leaves the factors, and motions at a = M⁻¹ (τ - bias)."""
    forward_dynamics(tree, q, v, tau, fext, ws, r.LD, r.D, r.a)
    invert(tree, r.LD, r.M, r.dq, r.Minv)
    place_contacts(tree, contacts, q, ws, place)
    move_contacts(tree, contacts, ws, place, r.c)  # at a = 0
    contact_jacobian(tree, contacts, ws, place, r.J)
    invert_delassus(tree, contacts, epsilon, r)
    for i in range(r.c.size):
        for k in range(r.a.size):
            r.c[i] += r.J[i, k] * r.a[k]
    respond(r, r.c)


@kernel
def impact_forward(tree, contacts, epsilon, restitution, q, v, zero, no_fext, ws, place, r):
    """v⁺ - v and Λ of an impact; tree without gravity, zero (nv,) velocities."""
    forward_dynamics(tree, q, zero, zero, no_fext, ws, r.LD, r.D, r.a)
    invert(tree, r.LD, r.M, r.dq, r.Minv)
    place_contacts(tree, contacts, q, ws, place)
    contact_jacobian(tree, contacts, ws, place, r.J)
    invert_delassus(tree, contacts, epsilon, r)
    for i in range(r.c.size):
        total = 0.0 * v[0]
        for k in range(v.size):
            total = total + (1.0 + restitution) * r.J[i, k] * v[k]
        r.c[i] = total
    for i in range(v.size):
        r.a[i] = 0.0 * v[i]
    respond(r, r.c)


@kernel
def relate_contact(tree, contacts, epsilon, q, v, tau, fext, ws, place, r):
    """Fill a ``Relation`` of motion under contacts."""
    relate_residuals(tree, contacts, epsilon, q, v, tau, fext, ws, place, r)
    derive(r)


@kernel
def derive(r):
    """z_q, z_v := -K⁻¹ R_q, -K⁻¹ R_v."""
    dense_product(-1.0, r.Kinv, r.Rq, r.zq)
    dense_product(-1.0, r.Kinv, r.Rv, r.zv)


@kernel
def relate_residuals(tree, contacts, epsilon, q, v, tau, fext, ws, place, r):
    """Fill a ``Relation`` of motion under contacts but for its derivatives z_q, z_v."""
    contact_forward(tree, contacts, epsilon, q, v, tau, fext, ws, place, r)
    invert_kkt(r)
    add_accelerations(tree, r.a, ws)
    move_contacts(tree, contacts, ws, place, r.c)
    inverse_dynamics_derivatives(tree, ws, r.dq, r.dv)
    resist(tree, r.dq, r.dv)
    subtract_force_torques(tree, contacts, ws, place, r.f, r.dq)
    contact_derivatives(tree, contacts, ws, place, r.cq, r.cv)


@kernel
def relate_impact(tree, contacts, epsilon, restitution, q, v, seen, zero, no_fext, ws, place, r):
    """Fill a ``Relation`` of an impact; seen (nv,) := v⁺ + e v, the velocity that contacts see."""
    impact_residuals(tree, contacts, epsilon, restitution, q, v, seen, zero, no_fext, ws, place, r)
    derive(r)
    for i in range(v.size):
        r.zv[i, i] += 1.0


@kernel
def impact_residuals(tree, contacts, epsilon, restitution, q, v, seen, zero, no_fext, ws, place, r):
    """Fill a ``Relation`` of an impact but for its derivatives z_q = -K⁻¹ R_q, z_v = (1 ; 0) - K⁻¹ R_v.

    R_v = (0 ; (1 + e) J).
    """
    nc, nv = r.J.shape
    impact_forward(tree, contacts, epsilon, restitution, q, v, zero, no_fext, ws, place, r)
    invert_kkt(r)
    add_accelerations(tree, r.a, ws)
    inverse_dynamics_derivatives(tree, ws, r.dq, r.dv)
    subtract_force_torques(tree, contacts, ws, place, r.f, r.dq)
    see_velocities(tree, contacts, restitution, v, r.a, seen, r.c, ws, place)
    contact_derivatives(tree, contacts, ws, place, r.cq, r.cv)
    for i in range(nc):
        for j in range(nv):
            r.cv[i, j] = (1.0 + restitution) * r.cv[i, j]


@kernel
def see_velocities(tree, contacts, restitution, v, jump, seen, gap, ws, place):
    """Motions of contacts at the velocity v⁺ + e v, jump := v⁺ - v; what they see into gap (nc,)."""
    for i in range(v.size):
        seen[i] = (1.0 + restitution) * v[i] + jump[i]
    velocities(tree, seen, ws)
    move_contacts(tree, contacts, ws, place, gap)
