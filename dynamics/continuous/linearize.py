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

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ddp.errors import items
from ddp.machine.aligned import working_memory
from ddp.machine.recycled import recycled
from ddp.systems.system import LinearSystem
from dynamics.contacts.contact import Contact, compile_contacts, refuse_rolling
from dynamics.contacts.dynamics import contact_dynamics_derivatives
from dynamics.continuous import flow
from dynamics.quantities.quantities import frame_velocity_derivatives
from dynamics.rigid_bodies.passive import entries_of
from dynamics.rigid_bodies.samples import Samples, Stack
from dynamics.robots.equipment import as_actuation
from dynamics.robots.model import Robot

Array = NDArray[np.float64]


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
    n, nu, nv = 2 * robot.nv, S.shape[1], robot.nv
    A, B = recycled((s.N, n, n)), recycled((s.N, n, nu))
    flow.move(robot.tree.address, s.first, A, B)
    if contacts is None:
        memory = working_memory(flow.size(robot.tree, nu))
        s.check(flow.linearize(robot.tree.address, memory, entries_of(S), s.q, s.first, s.second, s.fext, A, B))
    else:
        a = contact_dynamics_derivatives(robot, q, v, tau, contacts, fext).a
        A[:, nv:, :nv], A[:, nv:, nv:], B[:, nv:] = a.dq, a.dv, a.dtau @ S
    return s.named(LinearSystem(A, B))


def held_directions(robot: Robot, q: ArrayLike, v: ArrayLike, contacts: Iterable[Contact] | Contact) -> Array:
    """Rows C (2 nc, 2 nv) of what contacts hold: deviations δx = (Δ, δv) that they allow have ``C δx = 0``.

    First the rows of positions, J Δ = 0, then those of velocities, ∂(J v)/∂q Δ + J δv = 0; J as the contacts see it.
    """
    several = (contacts,) if isinstance(contacts, Contact) else items("contacts", contacts, "Contacts")
    refuse_rolling(compile_contacts(robot, several))
    zeros = Stack(robot, q).zeros()
    found = [(np.zeros((*zeros.shape[:-1], 0, robot.nv)),) * 2]
    for contact in several:
        reference = "local-world-aligned" if contact.kind == "point" else "local"
        rates = frame_velocity_derivatives(robot, q, v, contact.frame, reference)
        found.append((rates.dv[..., : contact.size, :], rates.dq[..., : contact.size, :]))
    J, turned = (np.concatenate(parts, axis=-2) for parts in zip(*found, strict=True))
    return np.concatenate([np.concatenate([J, 0.0 * J], axis=-1), np.concatenate([turned, J], axis=-1)], axis=-2)
