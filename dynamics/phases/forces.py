"""Forces of contacts over steps of time, and impulses of impacts, as functions of state and control.

Terms and constraints read them through one protocol, `Pushes`: all numbers of a knot in one row, 3 a point and 6 a
surface, in the axes that each contact names.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeAlias

import numpy as np

from ddp.errors import ModelError, ProblemError, instance, instances, integer, nearest, rows, settle
from ddp.machine.aligned import working_memory
from ddp.protocols import Array
from ddp.systems.system import expanded
from dynamics.contacts import batch as contact_batch
from dynamics.contacts.contact import Contact, Contacts, are_natural, compile_contacts, forces, refuse_rolling
from dynamics.contacts.dynamics import as_share, impact_dynamics, impact_dynamics_derivatives, impact_dynamics_hessian
from dynamics.phases.phase import Phase
from dynamics.phases.phased_dynamics import PhasedDynamics
from dynamics.rigid_bodies.passive import passive_torques
from dynamics.robots.model import Robot
from dynamics.robots.tree import Tree
from dynamics.steps.robot_dynamics import RobotDynamics


@dataclass(frozen=True, eq=False)
class ContactForces:
    """The forces (nc,) of some contacts of a robot driven by controls u, all of them one after the other.

    robot: from ``dynamics.load``.  contacts: those held at the knots in question, as in a ``Phase``.
    actuation S (nv, nu), damping, springs: those of the system, as in ``RobotDynamics``.
    nx, nu, size: numbers in a state, controls, numbers in all forces.
    Nothing is checked at the calls below: they are a solver's. NaN where the mass matrix is singular.
    """

    robot: Robot
    contacts: Iterable[Contact]
    actuation: Any = None
    damping: bool | None = None
    springs: bool | None = None
    nx: int = field(init=False, repr=False)
    nu: int = field(init=False, repr=False)
    size: int = field(init=False, repr=False)
    _arrays: Contacts = field(init=False, repr=False)
    _tree: Tree = field(init=False, repr=False)

    def __post_init__(self) -> None:
        held = as_contacts(self.contacts)
        free = RobotDynamics(self.robot, 1.0, self.actuation, damping=self.damping, springs=self.springs)
        arrays, tree = compile_contacts(self.robot, held), self.robot.resisting(free.damping, free.springs)
        settle(
            self, contacts=held, actuation=free.actuation, damping=free.damping, springs=free.springs,
            nx=free.nx, nu=free.nu, size=forces(arrays), _arrays=arrays, _tree=tree,
        )  # fmt: skip
        refuse_rolling(arrays)

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


System: TypeAlias = RobotDynamics | PhasedDynamics


class Pushes(Protocol):
    """Forces or impulses f (size,) of some contacts of a system."""

    system: System
    contacts: Sequence[Contact]
    size: int

    def values(self, X: Array, U: Array) -> Array:
        """f (M, size) at states X (M, nx) under controls U (M, nu)."""

    def derivatives(self, X: Array, U: Array, g: Array, exact: bool) -> tuple[Array, Array]:
        """∂f/∂z (M, size, nz), z = (dx, du), and the Hessians (M, nz, nz) of g·f, g (M, size); zeros unless exact."""

    def by_duration(self, X: Array, U: Array) -> Array:
        """∂f/∂h (M, size), h how long the knot takes."""

    def noted(self, dynamics: object, knots: slice) -> tuple[int, int, int, int] | None:
        """Place of f among what these dynamics note at some knots, if they do: `PhasedDynamics.noted_forces`."""


def pushes(
    system: System, contacts: Iterable[Contact], restitution: float | None = None, phase: int | None = None
) -> Pushes:
    """The forces of contacts while time passes; or, given the restitution of an impact, its impulses.

    phase: of the system, for its step of time, where several hold these contacts and last differently.
    """
    instance("system", system, (RobotDynamics, PhasedDynamics), "the dynamics of a robot")
    held = as_contacts(contacts)
    return _Forces(system, held, phase) if restitution is None else _Impulses(system, held, restitution)


def as_contacts(contacts: Iterable[Contact] | Contact) -> tuple[Contact, ...]:
    """Contacts, or the only one, each checked."""
    return instances("contacts", contacts, Contact, "Contacts")


class _Forces:
    """Forces [N, N m] of steps of time, held exactly where the phases of the system with these contacts are.

    They are what the derivatives of a system with nothing but these contacts record, see `PhasedDynamics.noted_forces`;
    but in axes other than points' in the world's and surfaces' in their own, those of `ContactForces`.
    """

    def __init__(self, system: System, contacts: Sequence[Contact], phase: int | None) -> None:
        self.system, self.contacts = system, contacts
        self._held, compiled = _are_held(system, contacts), compile_contacts(system.robot, contacts)
        self._compiled, self.size = compiled, forces(compiled)
        self._by_step = self._held or any(contact.kind == "rolling" for contact in contacts)
        self._step = _step(system, contacts, phase) if self._by_step else system.dt
        self._phase, own = Phase(contacts, held=self._held), (system.actuation, system.damping, system.springs)
        self._turned = None if are_natural(compiled) else ContactForces(system.robot, contacts, *own)
        self._last: list[tuple[Array, Array, Array]] = []

    def __getstate__(self) -> dict[str, Any]:
        """Keep the forces alone of the last record, a thirtieth: the next costs of the same trajectory need them."""
        known = self._where[0] + self.size if self._last else 0
        return vars(self) | {"_last": [(X, U, record[:, :known].copy()) for X, U, record in self._last]}

    @cached_property
    def _alone(self) -> PhasedDynamics:
        """System with nothing but these contacts: made, for some milliseconds, where the solved one notes no forces."""
        own = self.system.actuation, self.system.damping, self.system.springs
        return PhasedDynamics(self.system.robot, self._step, self._phase, *own)

    @cached_property
    def _where(self) -> tuple[int, int, int, int]:
        return self._alone.noted_forces(self._compiled, 0, 1) or (0, 0, 0, 0)

    def values(self, X: Array, U: Array) -> Array:
        X, U = _knots(self.system, X, U)
        if self._turned is not None:
            return self._turned.values(X, U)
        first = self._where[0]
        return self._recorded(X, U, first + self.size)[:, first : first + self.size]

    def derivatives(self, X: Array, U: Array, g: Array, exact: bool) -> tuple[Array, Array]:
        X, U = _knots(self.system, X, U)
        nz = self.system.n + self.system.nu
        H = np.zeros((len(X), nz, nz))
        if self._turned is not None:
            return self._turned.derivatives(X, U), self._turned.hessians(X, U, g) if exact else H
        record, (_, asked, begin, ld) = self._recorded(X, U, self._alone.record_size), self._where
        if exact:
            weighed = record.copy()
            weighed[:, asked : asked + self.size] = g
            self._alone.contract(weighed, np.zeros((len(X), self.system.n)), H)
        return record[:, begin : begin + self.size * ld].reshape(len(X), self.size, ld)[:, :, :nz].copy(), H

    def by_duration(self, X: Array, U: Array) -> Array:
        X, U = _knots(self.system, X, U)
        return self._alone.forces_by_duration(X, U) if self._by_step else np.zeros((len(X), self.size))

    def noted(self, dynamics: object, knots: slice) -> tuple[int, int, int, int] | None:
        if not isinstance(dynamics, PhasedDynamics) or not dynamics.shares_modes(self.system):
            return None
        return dynamics.noted_forces(self._compiled, knots.start, knots.stop - knots.start)

    def _recorded(self, X: Array, U: Array, count: int) -> Array:
        """Record the derivatives of knots, at least the first ``count`` numbers of each.

        The last ones are kept for the next order of the same trajectory.
        NaN where there is no step of time.
        """
        for last in self._last[:1]:
            if last[2].shape[1] >= count and np.array_equal(last[0], X) and np.array_equal(last[1], U):
                return last[2]
        out = expanded(self._alone, X, U)
        out.record[~np.isfinite(out.A).all(axis=(1, 2))] = np.nan
        self._last[:] = [(X.copy(), U.copy(), out.record)]
        return out.record


class _Impulses:
    """Impulses [N s, N m s] of an impact; no control acts on them."""

    def __init__(self, system: System, contacts: Sequence[Contact], restitution: float) -> None:
        self.system, self.contacts = system, contacts
        self.restitution = as_share("restitution", restitution)
        self._arrays = compile_contacts(system.robot, contacts)
        self.size = forces(self._arrays)

    def values(self, X: Array, U: Array) -> Array:
        q, v = self._split(X)
        try:
            return impact_dynamics(self.system.robot, q, v, self._arrays, self.restitution).impulse
        except ModelError:  # numbers overflow: as of steps of time, whose forces are NaN there
            return np.full((len(X), self.size), np.nan)

    def derivatives(self, X: Array, U: Array, g: Array, exact: bool) -> tuple[Array, Array]:
        (q, v), robot, nv = self._split(X), self.system.robot, self.system.robot.nv
        M, nz = len(X), self.system.n + self.system.nu
        Fz, H = np.zeros((M, self.size, nz)), np.zeros((M, nz, nz))
        rates = impact_dynamics_derivatives(robot, q, v, self._arrays, self.restitution).impulse
        Fz[:, :, :nv], Fz[:, :, nv : 2 * nv] = rates.dq, rates.dv
        if exact:
            blocks = impact_dynamics_hessian(robot, q, v, self._arrays, None, g, self.restitution, symmetric=True)
            H[:, :nv, :nv], H[:, :nv, nv : 2 * nv] = blocks.qq, blocks.qv
            H[:, nv : 2 * nv, :nv] = np.swapaxes(blocks.qv, 1, 2)
        return Fz, H

    def by_duration(self, X: Array, U: Array) -> Array:
        return np.zeros((len(X), self.size))

    def noted(self, dynamics: object, knots: slice) -> tuple[int, int, int, int] | None:
        if not isinstance(dynamics, PhasedDynamics) or not dynamics.shares_modes(self.system):
            return None
        return dynamics.noted_forces(self._arrays, knots.start, knots.stop - knots.start, self.restitution)

    def _split(self, X: Array) -> tuple[Array, Array]:
        X = rows("numbers in a state", X, self.system.nx)
        return X[:, : self.system.robot.nq], X[:, self.system.robot.nq :]


def _knots(system: System, X: Array, U: Array) -> tuple[Array, Array]:
    return rows("numbers in a state", X, system.nx), rows("controls", U, system.nu)


def _are_held(system: System, contacts: Sequence[Contact]) -> bool:
    """Whether the phases with these contacts, known by their frames, hold them exactly."""
    if not isinstance(system, PhasedDynamics):
        return False
    names = sorted(contact.frame for contact in contacts)
    same = [phase for phase in system.phases if phase.knots and sorted(c.frame for c in phase.contacts) == names]
    held = {phase.held for phase in same}
    if len(held) > 1:
        raise ProblemError(f"contacts: some phases with {', '.join(names)} are held, others are not")
    if held == {True} and any((one.kind == "surface") == (one.reference != "local") for one in contacts):
        raise ProblemError(
            "contacts: expected forces of held points in the axes of the world, and those of surfaces in their own"
        )
    given = {contact.frame: contact.target for contact in contacts}
    if held == {True} and not any(all(_is_at(given[c.frame], c.target) for c in phase.contacts) for phase in same):
        raise ProblemError(
            f"target of the contacts at {', '.join(names)}: expected where a phase of the system holds them, got "
            f"{', '.join(str(given[name]) for name in names)}"
        )
    return held == {True}


def _step(system: System, contacts: Sequence[Contact], phase: int | None) -> float:
    """The step of time [s] of the phase, or of all that hold these contacts."""
    phases = system.phases if isinstance(system, PhasedDynamics) else ()
    if phase is not None:
        if not 0 <= integer("phase", phase) < len(phases):
            raise ProblemError(f"phase: expected one of the system's 0 .. {len(phases) - 1}, got {phase}")
        phases = phases[phase : phase + 1]
    names = sorted(contact.frame for contact in contacts)
    steps = {
        system.dt if one.dt is None else one.dt
        for one in phases
        if one.knots and sorted(contact.frame for contact in one.contacts) == names
    }
    if len(steps) != 1:
        raise ProblemError(f"phase: expected which one holds {', '.join(names)}, got {phase}; steps of time: {steps}")
    return steps.pop()


def _is_at(target: Any, place: Any) -> bool:
    """Whether two targets of contacts are one."""
    if target is None:
        return False
    return np.allclose(getattr(target, "homogeneous", target), getattr(place, "homogeneous", place), atol=1e-9)
