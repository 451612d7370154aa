"""Contact forces as functions f(x, u) of states and controls, with exact first and second derivatives.

Costs on forces and on friction are made of these.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ddp.errors import ProblemError, nearest, settle
from ddp.machine.aligned import working_memory
from ddp.protocols import Array
from dynamics.contacts import batch as contact_batch
from dynamics.contacts.contact import Contact, Contacts, compile_contacts, forces, refuse_rolling
from dynamics.rigid_bodies.passive import passive_torques
from dynamics.robots.model import Robot
from dynamics.robots.tree import Tree
from dynamics.steps.robot_dynamics import RobotDynamics


@dataclass(frozen=True, eq=False)
class ContactForces:
    """The forces (nc,) of some contacts of a robot driven by controls u, all of them one after the other.

    robot: from ``dynamics.load``.  contacts: those held at the knots in question, as in a ``Phase``.
    actuation S (nv, nu), damping, springs: those of the system, as in ``RobotDynamics``.
    Nothing is checked at the calls below: they are a solver's. NaN where the mass matrix is singular.
    """

    robot: Robot
    contacts: Iterable[Contact]
    actuation: Any = None
    damping: bool | None = None
    springs: bool | None = None
    _arrays: Contacts = field(init=False, repr=False)
    _tree: Tree = field(init=False, repr=False)

    def __post_init__(self) -> None:
        held = (self.contacts,) if isinstance(self.contacts, Contact) else tuple(self.contacts)
        free = RobotDynamics(self.robot, 1.0, self.actuation, damping=self.damping, springs=self.springs)
        tree = self.robot.resisting(free.damping, free.springs)
        settle(
            self, contacts=held, actuation=free.actuation, damping=free.damping, springs=free.springs,
            _arrays=compile_contacts(self.robot, held), _tree=tree,
        )  # fmt: skip
        refuse_rolling(self._arrays)

    @property
    def nx(self) -> int:
        """Numbers in a state."""
        return self.robot.nq + self.robot.nv

    @property
    def nu(self) -> int:
        """Controls."""
        return int(self.actuation.shape[1])

    @property
    def size(self) -> int:
        """Numbers in all forces."""
        return forces(self._arrays)

    def rows(self, frame: str) -> slice:
        """Which of them are those of the contact at a frame; ProblemError if there is none."""
        first = 0
        for contact in self.contacts:
            if contact.frame == frame:
                return slice(first, first + contact.size)
            first += contact.size
        known = [contact.frame for contact in self.contacts]
        raise ProblemError(f"frame: no contact at {frame!r}; {nearest(frame, known)}")

    def values(self, X: Array, U: Array) -> Array:
        """f (M, nc) at X (M, nx), U (M, nu)."""
        A, F = np.empty((len(X), self.robot.nv)), np.empty((len(X), self.size))
        failed = contact_batch.contact_dynamics(*self._knots(X, U), A, F)
        return self._known(failed, F)

    def derivatives(self, X: Array, U: Array) -> Array:
        """∂f/∂z (M, nc, nz) along z = (dx, du)."""
        nv = self.robot.nv
        q, v, t = (np.empty((len(X), nv + self.size, nv)) for _ in range(3))
        failed = contact_batch.contact_derivatives(*self._knots(X, U), q, v, t)
        by_u = t[:, nv:] @ self.actuation
        return self._known(failed, np.concatenate([q[:, nv:], v[:, nv:], by_u], axis=2))

    def hessians(self, X: Array, U: Array, weight: Array) -> Array:
        """The Hessians (M, nz, nz) of ``weight @ f`` in exponential coordinates, weight (M, nc)."""
        nv, n, nz, M = self.robot.nv, 2 * self.robot.nv, 2 * self.robot.nv + self.nu, len(X)
        weights = np.concatenate([np.zeros((M, nv)), weight], axis=1)[:, None]
        qq, qv, vv, qt = (np.empty((M, 1, nv, nv)) for _ in range(4))
        failed = contact_batch.contact_hessians(*self._knots(X, U), weights, qq, qv, vv, qt)
        H = np.zeros((M, nz, nz))
        H[:, :nv, :nv] = 0.5 * (qq[:, 0] + np.swapaxes(qq[:, 0], 1, 2))
        H[:, :nv, nv:n] = qv[:, 0]
        H[:, :nv, n:] = qt[:, 0] @ self.actuation
        H[:, nv:n, nv:n] = vv[:, 0]
        H[:, nv:, :nv] = np.swapaxes(H[:, :nv, nv:], 1, 2)
        return self._known(failed, H)

    def _knots(self, X: Array, U: Array) -> tuple[Any, ...]:
        nq = self.robot.nq
        Q, V = np.ascontiguousarray(X[:, :nq]), np.ascontiguousarray(X[:, nq:])
        tau = U @ self.actuation.T + passive_torques(self._tree, Q, V)
        memory = working_memory(contact_batch.size(self._tree.nb, nq, self.robot.nv, self._arrays.count, self.size))
        return self._tree.address, memory, self._arrays, self.size, 0.0, 0.0, False, Q, V, tau, np.zeros((len(X), 0, 6))

    @staticmethod
    def _known(failed: int, array: Array) -> Array:
        if failed >= 0:
            array[failed:] = np.nan
        return array
