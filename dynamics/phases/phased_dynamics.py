"""Hybrid systems: a robot whose contacts change from phase to phase, with impacts where feet touch down."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pinocchio as pin
from numpy.typing import ArrayLike, NDArray

from ddp.errors import ModelError, ProblemError, affordable, as_array, axes, integer, items, numbers, said
from ddp.machine.number import QUAD
from ddp.system import Contraction, Expansion
from dynamics.arrays.lanes import arena
from dynamics.contacts.contact import (
    LOCAL,
    LOCAL_WORLD_ALIGNED,
    POINT,
    Contacts,
    are_regular,
    as_impacts,
    compile_contacts,
    forces,
)
from dynamics.phases import lanes as phase_lanes
from dynamics.phases import rollouts as phase_rollouts
from dynamics.phases import steps as phase_steps
from dynamics.phases.held_steps import as_held
from dynamics.phases.phase import Phase
from dynamics.phases.tracking import TrackedPhases
from dynamics.quantities.quantities import frame_velocity_derivatives
from dynamics.rigid_bodies.rigid_body import inverse_dynamics
from dynamics.robots.model import Robot
from dynamics.steps import hessians
from dynamics.steps.modes import HELD, IMPACT, STEP, contacts_of, flatten, layout, step_of
from dynamics.steps.robot_dynamics import RobotDynamics

Array = NDArray[np.float64]


class PhasedDynamics:
    """``x' = f_k(x, u)`` of a robot, x = (q, v), through phases of contacts, with exact first and second derivatives.

    robot: from ``dynamics.load``.  dt [s]: the time step, where phases have none of their own.
    phases: one after the other; knots beyond the last (a problem's horizon is best ``knots``) stay in its contacts.
    actuation S (nv, nu), damping, springs, control_limits (nu, 2): as in ``RobotDynamics``; none acts in an impact.

    A step of time is semi-implicit Euler under contacts, ``v' = v + h a``, ``q' = q ⊕ h v'``, with stabilised
    accelerations or, in phases that are ``held``, with q' where contacts are held; an impact is
    ``v' = v⁺``, ``q' = q``, and its control acts on nothing. Running costs count at impacts as at knots of dt.
    ``schedule`` (knots,) numbers the mode of every knot.
    """

    def __init__(
        self, robot: Robot, dt: float, phases: Iterable[Phase] | Phase, actuation: ArrayLike | None = None,
        damping: bool | None = None, springs: bool | None = None, control_limits: ArrayLike | None = None,
    ) -> None:  # fmt: skip
        free = RobotDynamics(robot, dt, actuation, damping=damping, springs=springs, control_limits=control_limits)
        self._free, self.robot, self.damping, self.springs = free, robot, free.damping, free.springs
        self.actuation, self.control_limits = free.actuation, free.control_limits
        self.phases = (phases,) if isinstance(phases, Phase) else items("phases", phases, "Phases")
        for i, phase in enumerate(self.phases):
            if not isinstance(phase, Phase):
                raise ProblemError(f"phases[{i}]: expected a Phase, got {said(phase)}")
        if not self.phases:
            raise ProblemError("phases: expected at least one, got none")
        knots = sum(phase.size for phase in self.phases)
        affordable("knots of the phases", knots, knots * (2 * robot.nv) ** 2)
        self._tree = robot.resisting(self.damping, self.springs)
        modes: list[tuple[int, Contacts, float, float]] = []
        schedule: list[int] = []
        for phase in self.phases:
            if phase.struck:
                schedule.append(len(modes))
                modes.append((IMPACT, as_impacts(compile_contacts(robot, phase.struck)), phase.restitution, 0.0))
            schedule += [len(modes)] * phase.knots
            contacts = compile_contacts(robot, phase.contacts)
            exactly = phase.held and bool(phase.contacts)
            h = self.dt if phase.dt is None else phase.dt
            modes.append((HELD, as_held(contacts), 0.0, h) if exactly else (STEP, contacts, 0.0, h))
        self._modes, self.schedule = flatten(modes), np.array(schedule, dtype=np.int64)
        self._most = max(forces(contacts) for _, contacts, *_ in modes)
        count = max(len(contacts.body) for _, contacts, *_ in modes)
        self._layout = layout(self._modes, robot.nq, robot.nv, self.nu)
        self._lanes = phase_lanes.size(self._tree, self._layout, robot.nq, self.nu, count, self._most)
        self._contractions = hessians.size(self._tree, self._layout, robot.nq, self.nu, count, self._most)
        self._rollers = phase_rollouts.size(self._tree, robot.nq, self.nu, count, self._most)
        touching = [contacts for phase in self.phases for contacts in (phase.contacts, phase.struck)]
        self._regular = all(are_regular(robot, contacts) for contacts in touching)

    @property
    def nx(self) -> int:
        """Numbers in a state."""
        return self._free.nx

    @property
    def n(self) -> int:
        """Numbers in a tangent vector of the state, 2 nv."""
        return self._free.n

    @property
    def nu(self) -> int:
        """Controls."""
        return self._free.nu

    @property
    def dt(self) -> float:
        """Time step [s] where phases have none of their own."""
        return self._free.dt

    @property
    def lanes(self) -> int:
        """How many step lengths a rollout does for the price of one: 0 where each is on its own."""
        return QUAD if self._regular else 0

    @property
    def knots(self) -> int:
        """Knots of all phases: the horizon to use."""
        return len(self.schedule)

    @property
    def durations(self) -> Array:
        """How long each knot takes [s]: its step of time, or 0 at an impact."""
        return self.step_durations(self.knots)

    @property
    def phase_durations(self) -> Array:
        """How long each phase takes [s]."""
        return np.array([phase.knots * (self.dt if phase.dt is None else phase.dt) for phase in self.phases])

    @property
    def record_size(self) -> int:
        """Floats a knot keeps for its second order, see modes.py."""
        return int(self._layout.end)

    def phase_of(self, knot: int) -> Phase:
        """The phase that a knot belongs to."""
        knot, ends = min(integer("knot", knot), self.knots), np.cumsum([phase.size for phase in self.phases])
        return self.phases[min(int(np.searchsorted(ends, knot, side="right")), len(self.phases) - 1)]

    def is_impact(self, knot: int) -> bool:
        """Whether a knot is an impact."""
        return bool(self._modes.table[self._modes_from(knot, 1)[0], 0] == IMPACT)

    def step(self, x: ArrayLike, u: ArrayLike, first: int = 0) -> Array:
        """The next state: x (nx,), u (nu,) of knot ``first``, or batches (M, .) from there. NaN where it diverges."""
        single = axes(x) == 1
        X = as_array("x", x, (self.nx,) if single else (None, self.nx)).reshape(-1, self.nx)
        self.check_state("x", X)
        U = as_array("u", u, (self.nu,) if single else (len(X), self.nu)).reshape(-1, self.nu)
        Xn = np.empty_like(X)
        tree, *system = self._system(first, len(U))
        if not (self._regular and phase_rollouts.step(tree, arena(self._rollers), *system, X, U, Xn)):
            phase_steps.steps(tree, *system, X, U, Xn)
        return Xn[0] if single else Xn

    def rollout(self, x0: ArrayLike, U: ArrayLike) -> Array:
        """The states (N+1, nx) that controls U (N, nu) lead to from x0; NaN from where it diverges."""
        self.check_state("x0", as_array("x0", x0, (self.nx,)))
        U = as_array("U", U, (None, self.nu))
        X = np.tile(as_array("x0", x0, (self.nx,)), (len(U) + 1, 1))
        free = np.full(self.nu, np.inf)
        K, gaps = np.zeros((len(U), self.nu, self.n)), np.zeros((len(U), self.n))
        return self.track(X, U, np.zeros_like(U), K, np.zeros(1), gaps, -free, free)[0][0]

    def difference(self, x0: ArrayLike, x1: ArrayLike) -> Array:
        """``x1 ⊖ x0``: (n,) or (N, n)."""
        return self._free.difference(x0, x1)

    def integrate(self, x: ArrayLike, dx: ArrayLike) -> Array:
        """``x ⊕ dx``: (nx,) or (N, nx); complex for a complex dx."""
        return self._free.integrate(x, dx)

    def check_state(self, field: str, x: ArrayLike) -> None:
        """Raise ProblemError if an x (..., nx) is not a state of this robot."""
        self._free.check_state(field, x)

    def lasting(self, durations: ArrayLike, field: str = "durations") -> PhasedDynamics:
        """A copy of the system whose phases last so long (P,) [s], in as many steps; errors name them ``field``."""
        given = as_array(field, durations, (len(self.phases),))
        phases = []
        for i, phase in enumerate(self.phases):
            if phase.knots and not given[i] > 0.0:
                raise ProblemError(f"{field}[{i}]: expected more than 0 s, got {given[i]}")
            phases.append(replace(phase, dt=float(given[i]) / phase.knots) if phase.knots else phase)
        return PhasedDynamics(
            self.robot, self.dt, phases, self.actuation, self.damping, self.springs, self.control_limits
        )

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
        """a (M, nv), and z_h (M, nv + nc), z = (a, f), which is not zero where contacts are held.

        K z_h = -[0 ; C w], w = (v + 2 h a) / h² (held_steps.py), so that, K [w ; 0] being [M w ; C w],
        z_h = K⁻¹ [M w ; 0] - [w ; 0].
        """
        (M, nq, nv), n = (len(U), self.robot.nq, self.robot.nv), self.n
        out = Expansion(np.empty((M, n, n)), np.empty((M, n, self.nu)), np.empty((M, self.record_size)))
        self.expand(X, U, out)
        a, zh, still = out.record[:, self.nx : self.nx + nv], np.zeros((M, nv + self._most)), np.zeros(nv)
        for k, (mode, h) in enumerate(zip(self._modes_from(0, M), self.step_durations(M), strict=True)):
            if self._modes.table[mode, 0] == HELD:
                nz = nv + self._modes.table[mode, 2]
                w = (X[k, nq:] + 2.0 * h * a[k]) / h**2
                Mw = np.subtract(*(inverse_dynamics(self.robot, X[k, :nq], still, b) for b in (w, still)))
                lk = int(self._layout.lk)
                K = out.record[k, self._layout.K :][: nz * lk].reshape(nz, lk)
                zh[k, :nz] = K[:, :nv] @ Mw
                zh[k, :nv] -= w
        return a, zh

    def linearize(self, x: ArrayLike, u: ArrayLike, knot: int = 0) -> tuple[Array, Array]:
        """``A (n, n), B (n, nu)`` of one knot, in exponential coordinates."""
        out = self._expand_one(x, u, knot)
        return out.A[0], out.B[0]

    def hessian(self, x: ArrayLike, u: ArrayLike, weight: ArrayLike, knot: int = 0) -> Array:
        """The exact Hessian (n+nu, n+nu) of ``weight @ (f(x ⊕ dx, u + du) ⊖ f(x, u))`` of one knot."""
        out = np.empty((1, self.n + self.nu, self.n + self.nu))
        self.contract(self._expand_one(x, u, knot).record, as_array("weight", weight, (self.n,))[None], out)
        return out[0]

    def nominal_control(self, x: ArrayLike, knot: int = 0) -> Array:
        """The controls (nu,) that best balance gravity and springs in x, with a knot's contacts, by least squares."""
        tau = self._free.holding_torques(x)
        q = as_array("x", x, (self.nx,))[: self.robot.nq]
        return np.asarray(np.linalg.lstsq(np.hstack([self.actuation, self._pushes(q, knot)]), tau)[0][: self.nu])

    def passive_torques(self, X: Array) -> Array:
        """Torques (M, nv) of the springs and the viscous friction that act, at states X (M, nx)."""
        return self._free.passive_torques(X)

    def _pushes(self, q: Array, knot: int) -> Array:
        """Jᵀ (nv, nc): what contact forces of a knot's phase do on the joints."""
        still = np.zeros(self.robot.nv)
        columns = [np.zeros((self.robot.nv, 0))]
        for contact in self.phase_of(knot).contacts:
            J = frame_velocity_derivatives(self.robot, q, still, contact.frame, contact.reference).dv
            columns.append(J[: contact.size].T)
        return np.hstack(columns)

    def track(
        self, X: Array, U: Array, k: Array, K: Array, alphas: Array, gaps: Array, lower: Array, upper: Array
    ) -> tuple[Array, Array]:
        """Closed-loop rollouts, one for each alpha: see `System`; NaN from where they diverge."""
        return self.track_noting(X, U, k, K, alphas, gaps, lower, upper)[:2]

    def track_noting(
        self, X: Array, U: Array, k: Array, K: Array, alphas: Array, gaps: Array, lower: Array, upper: Array
    ) -> tuple[Array, Array, Array]:
        """``track``, with the contact forces of all knots, see ``noted_forces``."""
        s, N = len(alphas), len(U)
        Xs, Us, notes = np.empty((s, *X.shape)), np.empty((s, *U.shape)), np.empty((s, N, self.notes_size))
        if N == 0:  # no mode to be in
            Xs[:] = X
            return Xs, Us, notes
        X, U, k, K, gaps = map(np.ascontiguousarray, (X, U, k, K, gaps))
        if not lower.shape == upper.shape == U.shape:
            lower, upper = np.broadcast_to(lower, U.shape), np.broadcast_to(upper, U.shape)
        low, high = np.ascontiguousarray(lower), np.ascontiguousarray(upper)
        tree, *system = self._system(0, N)
        given = *system, X, U, k, K, alphas, gaps, low, high, Xs, Us, notes
        if not (self._regular and phase_rollouts.track(tree, arena(self._rollers), *given)):
            phase_steps.track(tree, *given)
        return Xs, Us, notes

    def expand(self, X: Array, U: Array, out: Expansion, first: int = 0) -> None:
        """A, B and record of M knots, of which the first has index ``first``."""
        tree, *system = self._system(first, len(U))
        phase_lanes.linearize(tree, arena(self._lanes), *system, X, U, out.A, out.B, out.record)

    @property
    def notes_size(self) -> int:
        """Numbers of the forces of the mode with the most of them."""
        return self._most

    def noted_forces(
        self, contacts: Contacts, first: int, count: int, restitution: float | None = None
    ) -> tuple[int, int, int, int] | None:
        """Where the forces f (nc,) of these contacts are at some knots, all of them steps of time under just them.

        restitution: of impacts, if it is their impulses that are asked for.

        In records: f, the weights g (nc,) on it that second orders take up, and the rows [f_q f_v f_u] of its
        derivatives, and how far those are apart. Notes begin with f. None where knots are not, or forces are asked for
        in other axes than a point's in the world's and a surface's in its own.
        """
        natural = np.where(contacts.kind == POINT, LOCAL_WORLD_ALIGNED, LOCAL)
        fits = bool((contacts.reference == natural).all())
        for mode in set(self._modes_from(first, count).tolist()):
            kind, (own, e) = self._modes.table[mode, 0], contacts_of(self._modes, mode)
            given = {STEP: contacts, HELD: as_held(contacts), IMPACT: as_impacts(contacts)}[kind]
            same = all(np.array_equal(a, b) for a, b in zip(own, given, strict=True))
            fits = fits and same and (e == restitution if kind == IMPACT else restitution is None)
        ld = int(self._layout.ld)
        where = self.nx + self.robot.nv + 1, int(self._layout.g), int(self._layout.Z) + self.robot.nv * ld, ld
        return where if fits else None

    @property
    def thread_safe(self) -> bool:
        """Always: every thread has its own workspace."""
        return True

    def expand_second(self, X: Array, U: Array, out: Expansion, first: int = 0) -> None:
        """Reset the weights g on forces in the records: ``expand`` has written everything else."""
        g = int(self._layout.g)
        out.record[:, g : g + self._most] = 0.0

    def contract(self, record: Array, weight: Array, out: Array) -> None:
        """The Hessians (M, nz, nz) of ``weight @ f`` of M knots, and of what costs asked for, see ``noted_forces``."""
        tree, modes, nq = self._tree, self._modes, self.robot.nq
        hessians.contract(
            tree, arena(self._contractions), modes, self._layout, nq, self.nu, record, weight, out
        )

    @property
    def batched(self) -> bool:
        """Whether many knots are contracted faster than one by one: see `system.Abilities`."""
        return True

    def contraction(self) -> Contraction:
        """The compiled second order of single knots."""
        return hessians.contraction(self._tree, self.nu, self._modes, self._layout)

    def closing(self) -> Contraction:
        """Log(Exp(gap) Exp(y)) to second order, compiled, as for free motion."""
        return self._free.closing()

    @property
    def tracked(self) -> TrackedPhases:
        """Knowledge that feedback needs: see `system.Abilities`."""
        return TrackedPhases(self)

    def _modes_from(self, first: int, count: int) -> NDArray[np.int64]:
        """The modes of some knots."""
        first = min(integer("knot", first), self.knots)
        knots = np.minimum(np.arange(first, first + count), self.knots - 1)
        last = len(self._modes.table) - 1  # beyond the end: the last phase's contacts, not its impact
        return np.where(np.arange(first, first + count) < self.knots, self.schedule[knots], last)

    def step_durations(self, count: int) -> Array:
        """How long each of the knots 0 .. count-1 takes [s], 0 for an impact; beyond the phases, as in the last one."""
        return np.array([step_of(self._modes, mode) for mode in self._modes_from(0, count)])

    def _system(self, first: int, count: int) -> tuple[object, ...]:
        return self._tree, self._modes, self._modes_from(first, count), self.actuation

    def _expand_one(self, x: ArrayLike, u: ArrayLike, knot: int) -> Expansion:
        X, U, n = as_array("x", x, (self.nx,))[None], as_array("u", u, (self.nu,))[None], self.n
        self.check_state("x", X)
        out = Expansion(np.empty((1, n, n)), np.empty((1, n, self.nu)), np.empty((1, self.record_size)))
        self.expand(X, U, out, knot)
        if not np.isfinite(out.A).all():
            if self._modes.table[self._modes_from(knot, 1)[0], 0] == HELD:
                frames = ", ".join(contact.frame for contact in self.phase_of(knot).contacts)
                raise ModelError(
                    f"{self.robot.name}: no step from x = {numbers(X[0])} ends with {frames} where they are held: they "
                    "depend on one another, contradict each other or are out of reach"
                )
            raise ModelError(f"{self.robot.name}: the mass matrix is singular at x = {numbers(X[0])}")
        return out

    def __getstate__(self) -> tuple[Robot, float, tuple[Phase, ...], Array, bool, bool, Array]:
        return self.robot, self.dt, self.phases, self.actuation, self.damping, self.springs, self.control_limits

    def __setstate__(self, state: tuple[Robot, float, tuple[Phase, ...], Array, bool, bool, Array]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def __repr__(self) -> str:
        return f"PhasedDynamics({self.robot.name!r}, dt={self.dt}, knots={self.knots}, phases={len(self.phases)})"
