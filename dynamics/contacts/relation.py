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

from collections import namedtuple

from ddp.compiling.kernel import apart, kernel
from ddp.machine.fields import Fields, matrix_of, vector
from ddp.machine.memory import as_vector, columns_from
from dynamics.contacts.curvature import subtract_force_torques
from dynamics.contacts.kinematics import contact_derivatives, contact_jacobian, move_contacts, place_contacts
from dynamics.contacts.products import path_product
from dynamics.contacts.response import invert_delassus, invert_kkt, refine, respond
from dynamics.contacts.rolling import roll
from dynamics.rigid_bodies.forward import forward_dynamics, invert
from dynamics.rigid_bodies.inverse import inverse_dynamics_derivatives
from dynamics.rigid_bodies.kinematics import add_accelerations, clear, forces
from dynamics.rigid_bodies.passive import resist


class Factors(Fields):
    """Factors of a `Relation`, and scratch; J, M, LD and Ry begin as zeros."""

    D, pivots, c = vector("nv"), vector("nc"), vector("nc")
    J, M, LD, Ry = matrix_of("nc", "nv"), matrix_of("nv", "nv"), matrix_of("nv", "nv"), matrix_of("nv + nc", "2 nv")
    Minv, corner, G, right = matrix_of("nv", "nv"), matrix_of("nv", "nv"), matrix_of("nv", "nc"), matrix_of("nv", "nc")
    S, CM, down = matrix_of("nc", "nc"), matrix_of("nc", "nv"), matrix_of("nc", "nv")


Relation = namedtuple("Relation", "nv nc a f Kinv D pivots c J M LD Ry Minv corner G right S CM down dq dv cq cv")
"""The first order at one knot, for nz = nv + nc unknowns z.

a (nv,), f (nc,): the solution (impacts: v⁺ - v and Λ).   D (nv,), pivots (nc,): diagonals of the factorisations;
pivots are relative to the diagonal.   Kinv (nz, nz): K⁻¹, of which zτ is [:, :nv].   J (nc, nv).
G (nv, nc), S (nc, nc): M⁻¹ Jᵀ and Λc, see response.py.   CM, down (nc, nv), right (nv, nc), corner (nv, nv):
C M⁻¹, and blocks of K⁻¹.   Ry (nz, 2 nv): R_q and R_v, whose first nv rows are dq, dv and others cq, cv.
Scratch: Minv, LD, M (nv, nv), c (nc,). LD, M, Ry and J begin as zeros: where a degree of freedom has nothing to do
with another, or moves no contact, nothing is written.
"""


@kernel
def relation(tree, nc, a, f, Kinv, w):
    """A `Relation` of its results and its ``Factors``, which it clears."""
    nv = tree.nv
    by_v = columns_from(w.Ry, nv)
    clear(as_vector(w.J), nc * nv + 2 * nv * nv + (nv + nc) * 2 * nv)
    return Relation(
        nv, nc, a, f, Kinv, w.D, w.pivots, w.c, w.J, w.M, w.LD, w.Ry, w.Minv, w.corner, w.G, w.right, w.S, w.CM, w.down,
        w.Ry, by_v, w.Ry[nv:], by_v[nv:],
    )  # fmt: skip


@kernel
def move_freely(tree, contacts, q, v, tau, fext, ws, place, r):
    """a = M⁻¹ (τ - bias) without forces of contacts; leaves the factors, J and G."""
    forward_dynamics(tree, q, v, tau, fext, ws, r.LD, r.D, r.a)
    invert(tree, r.LD, r.M, r.dq, r.Minv)
    place_contacts(tree, contacts, q, ws, place)
    contact_jacobian(tree, contacts, ws, place, r.J)
    path_product(tree, contacts, r.J, r.Minv, r.nv, r.CM)
    for i in range(r.nc):
        for j in range(r.nv):
            r.G[j, i] = r.CM[i, j]


@apart
def contact_forward(tree, contacts, epsilon, q, v, tau, fext, ws, place, r):
    """a, f of motion under contacts; leaves the factors, and motions at a = M⁻¹ (τ - bias)."""
    move_freely(tree, contacts, q, v, tau, fext, ws, place, r)
    move_contacts(tree, contacts, ws, place, r.c)  # at a = 0
    invert_delassus(tree, contacts, epsilon, r)
    respond(contacts, epsilon, r)


@kernel
def impact_forward(tree, contacts, epsilon, restitution, q, v, zero, no_fext, ws, place, r):
    """v⁺ - v and Λ of an impact; tree without gravity, zero (nv,) velocities."""
    move_freely(tree, contacts, q, zero, zero, no_fext, ws, place, r)
    invert_delassus(tree, contacts, epsilon, r)
    for i in range(r.nc):
        total = 0.0 * v[0]
        for k in range(r.nv):
            total = total + (1.0 + restitution) * r.J[i, k] * v[k]
        r.c[i] = total
    for i in range(r.nv):
        r.a[i] = 0.0 * v[i]
    respond(contacts, epsilon, r)


@apart
def relate_residuals(tree, contacts, epsilon, q, v, tau, fext, ws, place, r):
    """Fill a ``Relation`` of motion under contacts but for its derivatives z_q, z_v."""
    contact_forward(tree, contacts, epsilon, q, v, tau, fext, ws, place, r)
    invert_kkt(r)
    add_accelerations(tree, r.a, ws)
    move_contacts(tree, contacts, ws, place, r.c)
    roll(tree, contacts, r.a, ws, place)
    inverse_dynamics_derivatives(tree, ws, r.dq, r.dv)
    resist(tree, r.dq, r.dv)
    subtract_force_torques(tree, contacts, ws, place, r.f, r.dq)
    contact_derivatives(tree, contacts, ws, place, r.cq, r.cv)
    refine(contacts, epsilon, r, 0.0, r.nv, r.Kinv)


@kernel
def impact_residuals(tree, contacts, epsilon, restitution, q, v, seen, zero, no_fext, ws, place, r):
    """Fill a ``Relation`` of an impact but for its derivatives z_q = -K⁻¹ R_q, z_v = (1 ; 0) - K⁻¹ R_v.

    R_v = (0 ; (1 + e) J).   seen (nv,) := v⁺ + e v, the velocity that contacts see.
    """
    impact_forward(tree, contacts, epsilon, restitution, q, v, zero, no_fext, ws, place, r)
    invert_kkt(r)
    add_accelerations(tree, r.a, ws)
    inverse_dynamics_derivatives(tree, ws, r.dq, r.dv)
    subtract_force_torques(tree, contacts, ws, place, r.f, r.dq)
    see_velocities(tree, contacts, restitution, v, r.a, no_fext, seen, r.c, ws, place)
    contact_derivatives(tree, contacts, ws, place, r.cq, r.cv)
    for i in range(r.nc):
        for j in range(r.nv):
            r.cv[i, j] = (1.0 + restitution) * r.cv[i, j]


@kernel
def see_velocities(tree, contacts, restitution, v, jump, no_fext, seen, gap, ws, place):
    """Motions of contacts at the velocity v⁺ + e v, jump := v⁺ - v; what they see into gap (nc,)."""
    for i in range(tree.nv):
        seen[i] = (1.0 + restitution) * v[i] + jump[i]
    forces(tree, seen, jump, no_fext, ws)
    move_contacts(tree, contacts, ws, place, gap)
