"""Tracking of legged motions: weights of errors, directions that contacts forbid, contacts held in velocity alone."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ddp.protocols import Array
from ddp.systems.system import Cones, Footing, Tracking
from dynamics.contacts.contact import Contact
from dynamics.phases.base import Base, base_of
from dynamics.phases.cones import cones
from dynamics.phases.phase import Phase, stretches
from dynamics.quantities.quantities import frame_velocity_derivatives
from dynamics.quantities.units import Units, forces_of, units_of
from dynamics.rigid_bodies.rigid_body import inverse_mass_matrix
from dynamics.robots.model import Robot
from dynamics.robots.tree import Indices
from dynamics.steps.robot_dynamics import TrackedRobot

if TYPE_CHECKING:
    from dynamics.phases.phased_dynamics import PhasedDynamics

STANDING = {"position": 300.0, "rotation": 100.0, "posture": 3.0, "velocity": 10.0, "turning": 1.0, "speed": 0.1}
"""Weights of errors of legged motions, per second, see `Units.of_state`."""

TORQUE = 2.5
"""Weight of torques, per second [1/(m g h)²]. In `make bench-policy`, with 1, trots err by 0.8 times as much, and
bounds, whose feet stand on one line, fall in 3 of 50 runs and not in 1."""

HOLD = 1.0
"""Time for which feedback takes the last step to go on [√(h / g)]. Gains that only bring a motion to its end are too
large to stay there: with 0.5, a G1 that is held there falls under noise of 2 in `simulate`; with 3, jumps err more."""

FINAL = 10.0
"""Weight of errors at the end, once, over that of errors per second, in units of √(h / g)."""

STIFFNESS, DAMPING = 0.8, 0.1
"""Stiffness and damping of joints against errors that contacts forbid, in units of m g h [N m/rad] and
m g h √(h / g) [N m s/rad]."""

PERIOD = 1e-3
"""Period of a robot's controller [s]. Damping of a joint with inertia I, held so long, is unstable above 2 I / PERIOD:
a G1's ankle, of 0.3 g m² without its rotor, would be shaken by 17 I / PERIOD. So no motion of all joints together is
damped by more than I / PERIOD: those of an iCub's arm, each by so much, would be by 2.1 times as much."""

FRICTION = 0.5
"""Coefficient that feedback counts on, on any ground. In `make bench-policy`, bounds where it is 0.5 err by 0.2 to 2.6
cm; without these cones HyQ's comes down and ANYmal's errs by 8 cm."""

LEAD = 0.5
"""Part of a step by which positions lead velocities: steps in phases are semi-implicit, q' = q ⊕ h v'."""

SLOW, FAR = 0.1, 0.01
"""Speed of feet that creep and roll on soft ground [√(g h)], and a way beyond that speed that is sliding [h]. In
`make bench-policy`, feet of bounds that hold creep by 0.02 to 0.07 and those that slide by 0.2 to 2; with 0.2 for SLOW,
or a FAR from 0.005 to 0.08, none of 50 bounds falls either, and 49 or 50 are better than a joint PD."""

STRETCHED = 0.05
"""A leg moves its foot in directions in which it does so by at least this part of the most; others are left out."""

STRAIGHT = 0.03
"""Likewise of joints that resist. With 0.02 to 0.04 an iCub, whose straight knees have 0.01 to 0.05, stands; without
it falls. With 0.05 a step of Talos, whose knees have 0.04 to 0.06, is pushed 1.7 times as far off."""


@dataclass(frozen=True, eq=False)
class TrackedPhases(TrackedRobot):
    """Knowledge of a robot with contacts for feedback: see `ddp.systems.system.Tracked`."""

    system: "PhasedDynamics"

    def weights(self, X: Array, U: Array) -> Tracking:
        """Weights about a motion in units of the robot that stands at its start; by Bryson's rule if it has no legs."""
        robot, (base, units) = self.system.robot, self.standing(X)
        if base is None or units is None:
            return super().weights(X, U)
        state = units.of_state(robot.nv - len(base.dofs), **STANDING, slides=base.slides)
        return self.in_units(units, state, TORQUE, FINAL, base.dofs)

    def units(self, X: Array) -> Units | None:
        """Units of a robot whose base is free, `standing`; None of others."""
        return self.standing(X)[1] if self.system.robot.is_floating else None

    def standing(self, X: Array) -> tuple[Base | None, Units | None]:
        """The base that the robot's legs carry, and its units as it stands at the start of a motion X (N+1, nx).

        None of what is fixed, hangs, rolls or has no legs.
        """
        robot, feet = self.system.robot, next((p.contacts for p in self.system.phases if p.contacts), ())
        base = base_of(self.system, q := X[0, : robot.nq])
        if not feet or base is None or any(foot.kind == "rolling" for foot in feet):
            return None, None
        units = units_of(robot, q, [foot.frame for foot in feet])
        return (base, units) if units.height > 0.0 else (None, None)

    def in_units(
        self, units: Units, state: Array, torque: float, final: float, base: Indices | None = None
    ) -> Tracking:
        """Weights of a state (n,), see `Units.of_state`, of torques and of the end, see `TORQUE` and `FINAL`."""
        restoring = stiffness(units, self.system.robot, self.system.actuation, base)
        control, end = torque * units.torque**-2.0 * forces_of(self.system.actuation) ** 2, final * units.time * state
        lower, upper = self.system.control_limits.T
        limits = (lower, upper) if np.isfinite(self.system.control_limits).any() else None
        return Tracking(
            state, control, end, restoring, held=False, limits=limits, lead=LEAD, friction=FRICTION,
            hold=HOLD * units.time,
        )  # fmt: skip

    def stretches(self, horizon: int) -> list[range]:
        return stretches(self.system.phases, horizon)

    def in_steps(self, counts: Sequence[int], durations: Sequence[float]) -> "PhasedDynamics":
        """The system with contacts held in velocity, and so many steps and so long [s] in each phase."""
        s, lasting = self.system, zip(self.system.phases, counts, durations, strict=True)
        phases = [in_velocity(phase, count, duration) for phase, count, duration in lasting]
        return type(s)(s.robot, s.dt, phases, s.actuation, s.damping, s.springs, s.control_limits)

    def free_and_resisted(self, X: Array) -> tuple[Array, Array]:
        robot, n = self.system.robot, self.system.n
        base = base_of(self.system, X[0, : robot.nq])
        free, resisted = np.tile(np.eye(n), (len(X), 1, 1)), np.zeros((len(X), n, n))
        for phase, knots in zip(self.system.phases, self.stretches(len(X)), strict=True):
            at = slice(knots.start, knots.stop)
            free[at], resisted[at] = free_and_resisted(robot, X[at], phase.contacts, base)
        return free, resisted

    def cones(self, X: Array, U: Array, friction: float) -> Cones | None:
        return cones(self.system, X, U, friction) if friction < np.inf else None

    def footing(self, X: Array) -> Footing | None:
        base, units = self.standing(X)
        return None if base is None or units is None else footing(self.system, X, units, base)


def stiffness(units: Units, robot: Robot, actuation: Array, base: Indices | None = None) -> Array:
    """Feedback (nu, n) of joints that resist: controls from errors of positions and velocities.

    base (b,): degrees of freedom that legs carry, by default those of a free-flyer.
    """
    moved = np.linalg.pinv(actuation)
    moved[:, robot.floating_dofs if base is None else base] = 0.0
    damping = held_damping(robot, DAMPING * units.torque * units.time, base)
    return -np.hstack([STIFFNESS * units.torque * moved, damping * moved])


def held_damping(robot: Robot, damping: float, base: Indices | None = None) -> Array:
    """Damping of joints (nv,), at most what stops them within a `PERIOD`, moving together or one alone.

    No eigenvalue of D M⁻¹ is larger than the largest sum of a row's sizes. base: as of `stiffness`.
    """
    moved = np.abs(inverse_mass_matrix(robot, robot.q0[None])[0])
    moved[:, robot.floating_dofs if base is None else base] = 0.0
    with np.errstate(divide="ignore"):  # joints of a base may move none of the others
        return np.asarray(np.minimum(damping, 1.0 / (PERIOD * moved.sum(axis=1))))


def free_and_resisted(
    robot: Robot, X: Array, contacts: Sequence[Contact], base: Base | None
) -> tuple[Array, Array]:  # fmt: skip
    """The part of errors that contacts leave, and what joints resist of the rest, (M, n, n) at X (M, nx).

    Of positions ``N = I - M⁻¹ Jᵀ (J M⁻¹ Jᵀ)⁻¹ J`` is left, of velocities ``N e_v - J⁺ ∂(J v)/∂q N e_q``, J⁺ = M⁻¹ Jᵀ
    (J M⁻¹ Jᵀ)⁻¹: those that contacts have after the positions' errors too. Without that, legs that touch down fast are
    held against the speed that their feet would keep, which real ones do not: by gains ten times as large in jumps.

    S = L⁺ L, L of J the columns of joints: the part of joints' velocities that moves the contacts. A hand gets a part
    of what its foot may not do, by the inertia of both: that is no error of its wrist. Nor is the height of the base
    one of legs so straight that they hardly change it: see `STRAIGHT`; an iCub's hips would turn by 20 rad for a metre.
    """
    nv, M = robot.nv, len(X)
    free = np.tile(np.eye(2 * nv), (M, 1, 1)).reshape(M, 2, nv, 2, nv)
    resisted = np.zeros_like(free)
    if contacts and M:
        Q, V = np.split(X, [robot.nq], axis=1)
        J = np.array([np.vstack([contact.jacobian(robot, q) for contact in contacts]) for q in Q])
        away = np.asarray(inverse_mass_matrix(robot, Q)) @ np.swapaxes(J, 1, 2)
        back = away @ np.linalg.pinv(J @ away)
        forbidden = back @ J
        free[:, 0, :, 0] = free[:, 1, :, 1] = N = np.eye(nv) - forbidden
        free[:, 1, :, 0] = -back @ np.concatenate([_turned(robot, Q, V, one) for one in contacts], axis=1) @ N
        J[:, :, robot.floating_dofs if base is None else base.dofs] = 0.0
        S = np.linalg.pinv(J, rcond=STRAIGHT) @ J
        resisted[:, 0, :, 0] = resisted[:, 1, :, 1] = S @ forbidden
        resisted[:, 1, :, 0] = -S @ free[:, 1, :, 0]
    return free.reshape(M, 2 * nv, 2 * nv), resisted.reshape(M, 2 * nv, 2 * nv)


def _turned(robot: Robot, Q: Array, V: Array, contact: Contact) -> Array:
    """``∂(J v)/∂q`` (M, nc, nv) of what a contact holds still; zeros of what rolls."""
    if contact.kind == "rolling":
        return np.zeros((len(Q), contact.size, robot.nv))
    return frame_velocity_derivatives(robot, Q, V, contact.frame, contact.reference).dq[:, : contact.size]


def in_velocity(phase: Phase, knots: int, duration: float) -> Phase:
    """The phase in so many steps of time and so long [s], its contacts held in velocity and pulled to no place.

    Feedback of contacts that are held in place would pull errors which they forbid back within one step.
    """
    contacts = [replace(contact, gains=(0.0, 0.0), target=None) for contact in phase.contacts]
    return replace(phase, contacts=contacts, held=False, knots=knots, dt=duration / knots if knots else None)


def footing(system: "PhasedDynamics", X: Array, units: Units, base: Base) -> Footing:
    """Feet at the knots of X (M, nx), in the axes of their contacts, of which the third is across the ground."""
    robot, M = system.robot, len(X)
    known = {contact.frame: contact.size for phase in system.phases for contact in phase.contacts}
    names, most = list(known), max(known.values())
    moves, legs = np.zeros((M, len(names), most, robot.nv)), np.zeros((M, len(names), robot.nv, most))
    for phase, knots in zip(system.phases, stretches(system.phases, M), strict=True):
        at, still = slice(knots.start, knots.stop), np.zeros((len(knots), robot.nv))
        for contact in phase.contacts if knots else ():
            found = frame_velocity_derivatives(robot, X[at, : robot.nq], still, contact.frame, contact.reference)
            J, foot = found.dv[:, : contact.size].copy(), names.index(contact.frame)
            moves[at, foot, : contact.size] = J
            J[:, :, base.dofs] = 0.0
            legs[at, foot, :, : contact.size] = np.linalg.pinv(J, rcond=STRETCHED)
    slow = SLOW * units.height / units.time
    return Footing(tuple(names), moves, legs, slow, FAR * units.height / slow)
