# mypy: allow-untyped-defs, allow-untyped-calls
"""Linearisation of a robot's motion in continuous time, without local coordinates.

The state x = (q, v) is perturbed on the manifold, q ⊕ Δ and v + δv, where a free base is (H, v_0) with its twist in its
own axes: H Exp(Δ_0). The twist of the body is held fixed where its pose is perturbed. With the accelerations a of
forward dynamics, which the perturbed motion obeys to first order,

    Δ'  = -ad_v Δ + δv                      ad_v of every joint: zero of joints of one degree of freedom
    δv' = a_q Δ + a_v δv + a_τ S δu,        a_q = -M⁻¹ ID_q,   a_v = -M⁻¹ ID_v,   a_τ = M⁻¹

where ID_q is the left-trivialised (geometric) derivative of inverse dynamics at the nominal accelerations
(``inverse_dynamics_derivatives``). Bos, Traversaro, Pucci & Saccon, "Efficient geometric linearization of moving-base
rigid robot dynamics", J. Geometric Mechanics, 2022; its table 5 holds the twist along inertial axes fixed, its table 7
that along the body's, which here is held throughout. Nothing is singular at any attitude.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from ddp.compiling.kernel import kernel
from ddp.errors import instances
from ddp.machine.aligned import working_memory
from ddp.machine.fields import Fields, matrix_of
from ddp.machine.memory import hold, rows_of
from ddp.machine.number import width
from ddp.machine.packing import unpack_columns
from ddp.machine.recycled import recycled
from ddp.protocols import Array
from ddp.systems.system import LinearSystem
from dynamics.contacts.contact import Contact, compile_contacts, refuse_rolling
from dynamics.contacts.dynamics import contact_dynamics_derivatives
from dynamics.geometry.joint_motion import is_group, joint_bracket, twist_of
from dynamics.quantities.quantities import frame_velocity_derivatives
from dynamics.rigid_bodies import batch
from dynamics.rigid_bodies.kinematics import clear
from dynamics.rigid_bodies.passive import drive, entries_of
from dynamics.rigid_bodies.samples import Samples, Stack
from dynamics.robots.equipment import as_actuation
from dynamics.robots.model import Robot
from dynamics.robots.tree import Tree


class Controlled(Fields):
    """a_u."""

    au = matrix_of("nv", "nu")


def linearize(
    robot: Robot, q: ArrayLike, v: ArrayLike, tau: ArrayLike, actuation: ArrayLike | None = None,
    fext: ArrayLike | None = None, contacts: Iterable[Contact] | Contact | None = None,
) -> LinearSystem:  # fmt: skip
    """A (2 nv, 2 nv) [1/s, 1/s²] and B (2 nv, nu) of ``δx' = A δx + B δu``, δx = (Δ, δv), about q, v, tau.

    One sample or a batch along the leading axis. Units: Δ in m and rad, δv in m/s and rad/s, and v' as v a second.
    tau (nv,) [N, N m]: all torques of the joints. actuation S (nv, nu): how controls act, τ = S u [N, N m per unit of
    control]; default ``robot.actuation``.  fext (njoints, 6): wrenches in the joints' frames, constant there.
    contacts: those that are held; then a is the one of ``contact_dynamics``.
    ModelError if the mass matrix is singular, ProblemError for arguments that do not fit.
    """
    s = Samples(robot, q, ("v", v), ("tau", tau), fext, "local")
    S = as_actuation(robot.actuation if actuation is None else actuation, robot.nv)
    tree, n, nu, nv = robot.tree, 2 * robot.nv, S.shape[1], robot.nv
    A, B = recycled((s.N, n, n)), recycled((s.N, n, nu))
    fill_upper(tree.address, s.first, A, B)
    if contacts is None:
        memory = working_memory(batch.size(tree.nb, tree.nq, nv) + Controlled.size(tree, nu=nu))
        s.check(fill_lower(tree.address, memory, entries_of(S), s.q, s.first, s.second, s.fext, A, B))
    else:
        a = contact_dynamics_derivatives(robot, q, v, tau, contacts, fext).a
        A[:, nv:, :nv], A[:, nv:, nv:], B[:, nv:] = a.dq, a.dv, a.dtau @ S
    return s.named(LinearSystem(A, B))


def held_directions(robot: Robot, q: ArrayLike, v: ArrayLike, contacts: Iterable[Contact] | Contact) -> Array:
    """Rows C (2 nc, 2 nv) of what contacts hold: deviations δx = (Δ, δv) that they allow have ``C δx = 0``.

    First the rows of positions, J Δ = 0, then those of velocities, ∂(J v)/∂q Δ + J δv = 0; J as the contacts see it.
    """
    several = instances("contacts", contacts, Contact, "Contacts")
    refuse_rolling(compile_contacts(robot, several))
    zeros = Stack(robot, q).zeros()
    found = [(np.zeros((*zeros.shape[:-1], 0, robot.nv)),) * 2]
    for contact in several:
        reference = "local-world-aligned" if contact.kind == "point" else "local"
        rates = frame_velocity_derivatives(robot, q, v, contact.frame, reference)
        found.append((rates.dv[..., : contact.size, :], rates.dq[..., : contact.size, :]))
    J, turned = (np.concatenate(parts, axis=-2) for parts in zip(*found, strict=True))
    return np.concatenate([np.concatenate([J, 0.0 * J], axis=-1), np.concatenate([turned, J], axis=-1)], axis=-2)


@kernel
def fill_lower(address, memory, pulls, Q, V, tau, fext, A, B):
    """Lower halves of A (N, n, n), B (N, n, nu) of every sample; the first whose mass matrix is not positive, or -1.

    pulls (., 4): ``entries_of`` S.
    """
    nu = B.shape[2]
    pulls, Q, V, tau, fext, A, B = (
        rows_of(pulls), rows_of(Q), rows_of(V), rows_of(tau), rows_of(fext), rows_of(A), rows_of(B),
    )  # fmt: skip
    tree, ws, x, r = batch.relating(address, memory, fext)
    nv, n = tree.nv, 2 * tree.nv
    c = Controlled(r.end, tree, nu)
    for t in range(0, len(Q), width(ws.end)):
        batch.take(x, tree, Q, V, tau, fext, t)
        batch.relate(tree, x.q, x.first, x.second, x.fext, ws, r)
        drive(pulls, nv, nu, r.Minv, c.au)
        for i in range(nv):
            unpack_columns(r.aq[i], nv, A, t, (nv + i) * n)
            unpack_columns(r.av[i], nv, A, t, (nv + i) * n + nv)
            unpack_columns(c.au[i], nu, B, t, (nv + i) * nu)
        failed = batch.first_failure(tree, r.D, r.a, t, len(Q))
        if failed >= 0:
            return failed
    return -1


@kernel
def fill_upper(address, V, A, B):
    """Upper halves, [-ad_v | 1] of A (N, n, n) and zeros of B (N, n, nu), joint by joint: Δ' = δv - v × Δ."""
    made, V, A, B, nu = np.empty((6, 6)), rows_of(V), rows_of(A), rows_of(B), B.shape[2]
    bracket, tree = rows_of(made), Tree(address)
    nv, n = tree.nv, 2 * tree.nv
    for t in range(len(V)):
        clear(A[t], nv * n)
        clear(B[t], nv * nu)
        for i in range(nv):
            A[t, i * n + nv + i] = 1.0
        for b in range(tree.nb):
            kind, nj, iv = tree.kind[b], tree.nj[b], tree.iv[b]
            if is_group(kind):
                joint_bracket(kind, nj, twist_of(kind, V[t], iv, 1.0), bracket)
                for i in range(nj):
                    for j in range(nj):
                        A[t, (iv + i) * n + iv + j] = -bracket[i, j]
    hold(made)
