"""Systems in phases: a robot whose contacts change from phase to phase, with impacts where feet touch down."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ddp.errors import ModelError, ProblemError, affordable, as_array, axes, instances, integer, numbers, suggesting
from ddp.machine.aligned import working_memory
from ddp.machine.number import WIDTH
from ddp.protocols import Array, copied
from ddp.systems.system import COUPLED, ENDING, Routines, expanded
from dynamics.contacts.contact import (
    ROLLING,
    Contacts,
    are_natural,
    are_regular,
    as_impacts,
    compile_contacts,
    directions_of,
)
from dynamics.continuous.linearize import held_directions
from dynamics.phases.cones import pulls
from dynamics.phases.phase import Phase, rotated
from dynamics.phases.tracking import TrackedPhases
from dynamics.rigid_bodies.rigid_body import inverse_dynamics
from dynamics.rigid_bodies.samples import check_configurations
from dynamics.robots.libraries import pin
from dynamics.robots.model import Robot, check_rigid
from dynamics.steps.modes import HELD, IMPACT, STEP, Mode
from dynamics.steps.routines import routines_of
from dynamics.steps.schemes import TOUCHING
from dynamics.steps.stepped_robot import SteppedRobot

THERE, FAR = 1e-4, 0.05
"""Distances of a contact from where it is held [m, rad]: it counts as there, and errors say how it is brought there."""


@suggesting
class PhasedDynamics(SteppedRobot):
    """``x' = f_k(x, u)`` of a robot, x = (q, v), through phases of contacts, with exact first and second derivatives.

    robot: from ``dynamics.load``.  dt [s]: the time step, where phases have none of their own.
    phases: one after the other; knots beyond the last (a problem's horizon is best ``knots``) stay in its contacts.
    actuation S (nv, nu), damping, springs, control_limits (nu, 2): as in ``RobotDynamics``; none acts in an impact.

    A step of time is semi-implicit Euler under contacts, ``v' = v + h a``, ``q' = q ⊕ h v'``, with stabilised
    accelerations or, in phases that are ``held``, with q' where contacts are held; an impact is
    ``v' = v⁺``, ``q' = q``, and its control acts on nothing. Running costs count at impacts as at knots of dt.
    ``schedule`` (knots,) numbers the mode of every knot.
    """

    _scheme = TOUCHING

    def __init__(
        self, robot: Robot, dt: float, phases: Iterable[Phase] | Phase, actuation: ArrayLike | None = None,
        damping: bool | None = None, springs: bool | None = None, control_limits: ArrayLike | None = None,
    ) -> None:  # fmt: skip
        super().__init__(robot, dt, actuation, damping, springs, control_limits)
        check_rigid(robot)
        self.phases = instances("phases", phases, Phase, "Phases", some=True)
        knots = sum(phase.size for phase in self.phases)
        affordable("knots of the phases", knots, knots * (2 * robot.nv) ** 2)
        modes: list[Mode] = []
        schedule: list[int] = []
        for phase in self.phases:
            if phase.struck:
                schedule.append(len(modes))
                modes.append(Mode(IMPACT, as_impacts(compile_contacts(robot, phase.struck)), phase.restitution, 0.0))
            schedule += [len(modes)] * phase.knots
            contacts = compile_contacts(robot, phase.contacts)
            exactly = phase.held and bool(phase.contacts)
            h = self.dt if phase.dt is None else phase.dt
            kind, held = (HELD, contacts.asking(0.0, 0.0, 1.0)) if exactly else (STEP, contacts.lasting(h))
            modes.append(Mode(kind, held, 0.0, h))
        self._compose(modes, schedule)
        touching = [contacts for phase in self.phases for contacts in (phase.contacts, phase.struck)]
        if not all(are_regular(robot, contacts) for contacts in touching):
            self.lanes = 0  # contacts may be redundant

    @property
    def knots(self) -> int:
        """Knots of all phases: the horizon to use."""
        return len(self.schedule)

    @property
    def durations(self) -> Array:
        """Duration of each knot [s]: its step of time, or 0 at an impact."""
        return self.step_durations(self.knots)

    @property
    def phase_durations(self) -> Array:
        """Duration of each phase [s]."""
        return np.array([phase.knots * (self.dt if phase.dt is None else phase.dt) for phase in self.phases])

    @property
    def semi_implicit(self) -> tuple[Array, NDArray[np.int64]]:
        """How long steps are, the last mode's to the end, and rows of joints whose motions do not commute."""
        return self.step_durations(self.knots + 1), self._bent_rows

    @property
    def in_blocks(self) -> int:
        """Which blocks second orders are: see `system.Abilities`."""
        return ENDING if any(mode.kind == HELD for mode in self._described) else COUPLED

    def phase_of(self, knot: int) -> Phase:
        """The phase that a knot belongs to."""
        knot, ends = min(integer("knot", knot), self.knots), np.cumsum([phase.size for phase in self.phases])
        return self.phases[min(int(np.searchsorted(ends, knot, side="right")), len(self.phases) - 1)]

    def is_impact(self, knot: int) -> bool:
        """Whether a knot is an impact."""
        return bool(self._described[self._modes_from(integer("knot", knot), 1)[0]].kind == IMPACT)

    def lasting(self, durations: ArrayLike, field: str = "durations") -> "PhasedDynamics":
        """A copy of the system whose phases last so long (P,) [s], in as many steps; errors name them ``field``."""
        given = as_array(field, durations, (len(self.phases),))
        phases = []
        for i, phase in enumerate(self.phases):
            if phase.knots and not given[i] > 0.0:
                raise ProblemError(f"{field}[{i}]: expected more than 0 s, got {given[i]}")
            phases.append(replace(phase, dt=float(given[i]) / phase.knots) if phase.knots else phase)
        return PhasedDynamics(self.robot, self.dt, phases, *self._given()[2:])

    def from_knot(self, knot: int) -> "PhasedDynamics":
        """The system from a later knot on, as phases that come again and again: its knots are those of one cycle.

        Modes are shared, so that it costs next to nothing: horizons of periodic gaits recede by it.
        """
        first = integer("knot", knot) % self.knots
        schedule, last = np.roll(self.schedule, -first), self._last
        if first:
            last = int(schedule[-1]) + self.is_impact(first - 1)  # steps of a phase follow its impact
        return copied(self, phases=rotated(self.phases, first), schedule=schedule, _extended=schedule, _last=last)

    def shares_modes(self, other: object) -> bool:
        """Whether another system is this one, or both are from some knots of the same cycle on."""
        return isinstance(other, PhasedDynamics) and other._modes is self._modes

    def by_duration(self, X: Array, U: Array) -> Array:
        """``∂f_k/∂h`` (M, n) of the knots 0 .. M-1, h how long each takes: a tangent vector at the next state.

        v' = v + h a, q' = q ⊕ h v':  ∂v'/∂h = a + h a_h,  ∂q'/∂h = Jr(h v') (v' + h ∂v'/∂h); impacts take no time.
        """
        (model, nq, nv), h = (self.robot.model, self.robot.nq, self.robot.nv), self.step_durations(len(U))
        a, a_h = self._by_duration(X, U)
        after = X[:, nq:] + h[:, None] * a
        rates = np.where(h[:, None] > 0.0, a + h[:, None] * a_h[:, :nv], 0.0)
        moved = np.where(h[:, None] > 0.0, after + h[:, None] * rates, 0.0)
        for k in range(len(U)):
            moved[k] = pin.dIntegrate(model, X[k, :nq], h[k] * after[k], pin.ARG1) @ moved[k]
        return np.hstack([moved, rates])

    def forces_by_duration(self, X: Array, U: Array) -> Array:
        """``∂f/∂h`` (M, nc) of the contact forces of knots 0 .. M-1, zeros beyond the forces that a knot has."""
        return self._by_duration(X, U)[1][:, self.robot.nv :]

    def _by_duration(self, X: Array, U: Array) -> tuple[Array, Array]:
        """a (M, nv), and z_h (M, nv + nc), z = (a, f), which is not zero where contacts are held, or roll.

        K z_h = -[0 ; C w], w = (v + 2 h a) / h² (held_steps.py), so that, K [w ; 0] being [M w ; C w],
        z_h = K⁻¹ [M w ; 0] - [w ; 0]. Of what rolls (rolling.py), z_h = -K⁻¹ [0 ; c_h], c_h = -(J v / h² + 2 e / h³).
        """
        (M, nq, nv), out = (len(U), self.robot.nq, self.robot.nv), expanded(self, X, U)
        a, zh, still = out.record[:, self.nx : self.nx + nv], np.zeros((M, nv + self.notes_size)), np.zeros(nv)
        for k, (mode, h) in enumerate(zip(self._modes_from(0, M), self.step_durations(M), strict=True)):
            kind, contacts, *_ = self._described[mode]
            nz, lk = nv + self._modes.table[mode, 2], int(self._layout.lk)
            K = out.record[k, self._layout.K :][: nz * lk].reshape(nz, lk)
            if kind == STEP and (contacts.kind == ROLLING).any():
                zh[k, :nz] = K[:, nv:nz] @ self._rolling_by_duration(X[k], h, k)
            if kind == HELD:
                w = (X[k, nq:] + 2.0 * h * a[k]) / h**2
                Mw = np.subtract(*(inverse_dynamics(self.robot, X[k, :nq], still, b) for b in (w, still)))
                zh[k, :nz] = K[:, :nv] @ Mw
                zh[k, :nv] -= w
        return a, zh

    def _rolling_by_duration(self, x: Array, h: float, knot: int) -> Array:
        """-c_h (nc,) of the contacts of a knot: of those that roll, zeros of others."""
        q, v, rows = x[: self.robot.nq], x[self.robot.nq :], []
        for contact in self.phase_of(knot).contacts:
            rates = np.zeros(contact.size)
            if contact.kind == "rolling":
                rates = contact.jacobian(self.robot, q) @ v / h**2 + 2.0 * contact.height(self.robot, q) / h**3
            rows.append(rates)
        return np.concatenate(rows)

    def held_directions(self, x: ArrayLike, knot: int = 0) -> Array:
        """Rows C (2 nc, n): deviations from x that the contacts of a knot's phase allow have ``C dx = 0``."""
        q, v = np.split(as_array("x", x, (self.nx,)), [self.robot.nq])
        return held_directions(self.robot, q, v, self.phase_of(knot).contacts)

    def nominal_control(self, x: ArrayLike, knot: int = 0) -> Array:
        """The controls (nu,) that best balance gravity and springs in x, with a knot's contacts, by least squares.

        (M, nu) of states (M, nx).
        """
        if axes(x) == 2:
            return np.array([self.nominal_control(one, knot) for one in np.asarray(x)])
        x = as_array("x", x, (self.nx,))
        q = x[: self.robot.nq]
        check_configurations(self.robot, "x", q[None])
        tau = self.holding_torques(np.tile(x, (WIDTH, 1)))[0]  # else kernels of single samples compile for it alone
        return np.asarray(np.linalg.lstsq(np.hstack([self.actuation, self._pushes(q, knot)]), tau)[0][: self.nu])

    def _pushes(self, q: Array, knot: int) -> Array:
        """Jᵀ (nv, nc): what contact forces of a knot's phase do on the joints."""
        rows = [contact.jacobian(self.robot, q) for contact in self.phase_of(knot).contacts]
        return np.vstack([np.zeros((0, self.robot.nv)), *rows]).T

    def noted_forces(
        self, contacts: Contacts, first: int, count: int, restitution: float | None = None
    ) -> tuple[int, int, int, int] | None:
        """Place of the forces f (nc,) of these contacts at some knots, all of them steps of time under just them.

        restitution: of impacts, if it is their impulses that are asked for.

        In records: f, the weights g (nc,) on it that second orders take up, and the rows [f_q f_v f_u] of its
        derivatives, and how far those are apart. Notes begin with f. None where knots are not, or forces are asked for
        in other axes than a point's in the world's and a surface's in its own.
        """
        fits = are_natural(contacts)
        for mode in set(self._modes_from(first, count).tolist()):
            kind, own, e, h = self._described[mode]
            asked = own.equals(contacts.lasting(h)) if kind == STEP else own.stand_as(contacts)
            fits = fits and asked and (e == restitution if kind == IMPACT else restitution is None)
        ld = int(self._layout.ld)
        where = self.nx + self.robot.nv + 1, int(self._layout.g), int(self._layout.Z) + self.robot.nv * ld, ld
        return where if fits else None

    def routines(self, count: int, alone: bool = False, before: Routines | None = None) -> Routines | None:
        """Compiled work on trajectories of one problem, where no contacts are redundant."""
        if not (alone and self.lanes):
            return None
        rooms = self._room_of_rollouts, self._room_of_expansions, self._room_of_blocks
        schedule = self._modes_from(0, count).copy()
        return routines_of(self._scheme, self._modes, self._tree, schedule, *rooms, None, True, False, before)

    def contract_batch(self, record: Array, weight: Array, out: Array) -> None:
        assert self._scheme.in_blocks is not None
        self._scheme.in_blocks.contract(self._modes.handle, working_memory(self._room_of_blocks), record, weight, out)

    @property
    def tracked(self) -> TrackedPhases:
        return TrackedPhases(self)

    def step_durations(self, count: int) -> Array:
        steps = np.array([mode.step for mode in self._described])
        return steps[self._modes_from(0, count)]

    def excesses(self, problem: Any, X: Array, U: Array) -> list[str]:
        return [*super().excesses(problem, X, U), *pulls(self, problem, X, U)]

    def undefined(self, x: ArrayLike, knot: int = 0) -> ModelError:
        x = as_array("x", x, (self.nx,))
        if self._described[self._modes_from(knot, 1)[0]].kind == HELD:
            q, held = x[: self.robot.nq], self.phase_of(knot).contacts
            away, foot = max((contact.distance(self.robot, q), contact.frame) for contact in held)
            frames, (count, rank) = ", ".join(contact.frame for contact in held), directions_of(self.robot, held, q)
            why = "they contradict each other, or are out of reach of a step"
            if len(held) == 1:
                why = "it is out of reach of a step"
            if rank < count:
                why = (
                    f"of {count} directions that are held, it moves {rank} independently; legs of two joints, for "
                    "example, cannot move feet sideways: hold fewer at once, or stabilise them, by held=False of the "
                    "phase and gains=(kp, kd) of its contacts"
                )
            now = f"the furthest from there now is {foot}, {1e3 * away:.3g} mm"
            why += f" ({now if away > THERE else 'all are there now'})"
            if away > FAR:
                why += ": start closer, or bring contacts there by gains=(kp, kd), with held=False of the phase"
            return ModelError(f"{self.robot.name}: no step from x = {numbers(x)} ends with {frames} in place: {why}")
        return self._undefined_motion(x)

    def _given(self) -> tuple[float, tuple[Phase, ...], Array, bool, bool, Array]:
        return self.dt, self.phases, self.actuation, self.damping, self.springs, self.control_limits

    def __repr__(self) -> str:
        return f"PhasedDynamics({self.robot.name!r}, dt={self.dt}, knots={self.knots}, phases={len(self.phases)})"
