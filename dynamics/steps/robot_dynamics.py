"""A robot as a discrete-time system: steps on the configuration manifold, exact to second order."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ddp.errors import ModelError, as_array, choice, items, numbers, suggesting
from ddp.machine.aligned import working_memory
from ddp.protocols import Array
from ddp.systems.system import Cones, Contraction, Expansion, Footing, Routines, System, Tracking
from dynamics.contacts.contact import compile_contacts
from dynamics.geometry.joint_motion import ROD
from dynamics.quantities.displacements import squares_of_angles
from dynamics.quantities.units import forces_of
from dynamics.rigid_bodies.open_loops import errors_of_loops
from dynamics.rigid_bodies.residual import balance
from dynamics.robots import loop
from dynamics.robots.model import Robot
from dynamics.robots.omissions import warn_once
from dynamics.rods.hybrid_robot import HybridRobot
from dynamics.steps import lane_contraction, schemes
from dynamics.steps.deviations import deviation
from dynamics.steps.modes import STEP, Mode
from dynamics.steps.routines import routines_of
from dynamics.steps.stepped_robot import SteppedRobot

OPEN, MOVING, STARTS = 1e-6, 1e-2, ("x0", "states")
"""Loops that are further from closed are told of [m, rad], or open faster [m/s, rad/s; times lever arms beyond 1 m], in
those of the states that `check_state` looks at which motions start from."""

SINGULAR = "the Jacobian of its loops has lost rank"
"""Why there is no step, in words, where loops are closed."""


@suggesting
class RobotDynamics(SteppedRobot):
    """``x' = f(x, u)`` of a robot, x = (q, v), controls u held over a step dt.

    Torques are ``τ = S u - stiffness (q - springref) - damping v``, see passive.py; dry friction is not modelled.

    robot: from ``dynamics.load``.  dt [s]: the time step.
    actuation S (nv, nu): how controls act on the degrees of freedom [N, N m per unit of control]; default
    ``robot.actuation``: the actuators of an MJCF file, else one control for each joint.
    integrator: "semi-implicit-euler", ``v' = v + dt a(q, v, τ)``, ``q' = q ⊕ dt v'``; "euler", the same with
    ``q' = q ⊕ dt v``; "rk4", of order four on the manifold, see runge_kutta.py. Implicit ones, for stiff springs and
    friction, see implicit_steps.py: "implicit-euler", ``v' = v + dt a(q', v', τ)``; "implicit-midpoint", of order two,
    which keeps energy; "sdirk2", of order two, which damps what is too fast for it. The first and the last end with the
    robot's loops closed, and both are of order one then: halve dt to see how far off motions of closed chains are, or
    have ``simulate`` keep to a tolerance. Their derivatives are all exact.
    damping: whether joints' viscous friction, the model's ``damping`` [N m s/rad, N s/m], acts. Default: as the format
    of the robot's file has it, ``robot.equipment.damped``: yes for MJCF and SDF; no for URDF and a ``pinocchio.Model``.
    springs: whether joints' springs, ``robot.equipment.stiffness`` [N m/rad, N/m], act. Default: yes, wherever a robot
    has them.
    control_limits (nu, 2): lower and upper limit of each control, ±inf for none, which a ``ddp.Problem`` takes unless
    it is given others. Default: those of the file's actuators; none where ``actuation`` is given, or there are no
    actuators: a URDF's limits of effort are offered, ``control_limits=robot.control_limits``, and not imposed.
    prescribed: names of joints whose part of S u is their acceleration [rad/s², m/s²], whatever torque that takes; of
    implicit steps alone. Each of their degrees of freedom needs a control of its own.
    """

    def __init__(
        self, robot: Robot, dt: float, actuation: ArrayLike | None = None, integrator: str = "semi-implicit-euler",
        damping: bool | None = None, springs: bool | None = None, control_limits: ArrayLike | None = None,
        prescribed: Sequence[str] = (),
    ) -> None:  # fmt: skip
        super().__init__(robot, dt, actuation, damping, springs, control_limits)
        choice("integrator", integrator, schemes.INTEGRATORS)
        self.prescribed = tuple(items("prescribed", prescribed, "names of joints", ModelError))
        self._prescribed = self._dofs_of(self.prescribed)
        if self._prescribed and integrator not in schemes.IMPLICIT:
            raise ModelError(f"prescribed: expected an implicit integrator, such as 'sdirk2', got {integrator!r}")
        if robot.is_hybrid and integrator not in schemes.IMPLICIT:
            raise ModelError(
                f"integrator: expected 'sdirk2', or another implicit step, for {robot.name}, whose rods are stiff,"
                f" got {integrator!r}"
            )
        self.integrator = integrator
        self._compose([Mode(STEP, compile_contacts(robot, ()), 0.0, self.dt)], [])
        self._room_of_batches = lane_contraction.size(self._tree, self._bent)
        self._written = lane_contraction.written(self._tree, self._bent)

    def _dofs_of(self, names: Sequence[str]) -> tuple[int, ...]:
        """Degrees of freedom of prescribed joints; ModelError if one has no control of its own."""
        found: list[int] = []
        for name in names:
            choice("prescribed", name, self.robot.joint_names, f"{self.robot.name} has no joint", ModelError)
            b = self.robot.joint_names.index(name)
            own = range(int(self._tree.iv[b]), int(self._tree.iv[b] + self._tree.nj[b]))
            for i in own:
                columns = np.flatnonzero(self.actuation[i])
                alone = len(columns) == 1 and np.count_nonzero(self.actuation[:, columns[0]]) == 1
                if self._tree.kind[b] == ROD or not alone:
                    raise ModelError(
                        f"prescribed: expected a joint with a control of its own for each direction, got {name!r}"
                    )
            found += own
        return tuple(found)

    @cached_property
    def semi_implicit(self) -> tuple[float, NDArray[np.int64]] | None:
        """dt, and the rows of joints whose motions do not commute: see `system.Abilities`."""
        return (self.dt, self._bent_rows) if self._scheme.halves else None

    def nominal_control(self, x: ArrayLike) -> Array:
        """The controls (nu,) that best balance gravity, springs and loads at rest where x is, by least squares.

        Tendons of rods only pull. Prescribed joints have no acceleration. (M, nu) of states (M, nx).
        """
        torques, state = self.holding_torques(x), np.asarray(x, dtype=np.float64)
        if not (self.robot.is_hybrid or self.robot.loops or self._prescribed):
            return np.asarray(torques @ self._balance.T)
        if state.ndim > 1:
            return np.array([self.nominal_control(one) for one in state]).reshape(len(state), self.nu)
        G = self.driving(state[None])[0]
        if self.robot.loops:
            J = loop.errors(self.robot.mechanism, self.robot.loops, state[: self.robot.nq])[1]
            G = np.hstack([G, (J / np.maximum(np.abs(J).max(axis=1, keepdims=True), 1e-300)).T])  # in any units
        lower = np.full(G.shape[1], -np.inf)
        lower[: self._tree.cables] = np.minimum(self.robot.control_limits[: self._tree.cables, 0], 0.0)
        found = least_squares(G, torques, lower)[: self.nu]
        found[self.actuation[list(self._prescribed)].any(axis=0)] = 0.0
        return found

    def torques(self, X: ArrayLike, U: ArrayLike) -> Array:
        """Generalised forces (N, nv) in the steps from X (N, nx) under U (N, nu): of controls, tendons and wrenches.

        Controls of prescribed joints are accelerations: theirs are the torques that these take, on average over a step.
        """
        dofs, U = list(self._prescribed), as_array("U", U, (None, self.nu), finite=False)
        found = super().torques(X, np.where(self.actuation[dofs].any(axis=0), 0.0, U))
        if dofs:
            found[:, dofs] += self.prescribed_torques(X, U)
        return found

    def prescribed_torques(self, X: ArrayLike, U: ArrayLike) -> Array:
        """Torques (N, m) of the prescribed degrees of freedom in the steps from X (N, nx) under U (N, nu).

        A stage of a step looks at motion at (q_s, v_s, a_s), see implicit_steps.py, where the rows of the other degrees
        of freedom vanish, R - Jᵀ λ = 0 with forces λ of loops. So λ is known, and the prescribed rows are the torques.
        Of several stages the mean by their parts of the step is what the joint's momentum feels.
        """
        X = as_array("X", X, (None, self.nx), finite=False)
        U = as_array("U", U, (len(X), self.nu), finite=False)
        robot, dofs = self.robot, np.array(self._prescribed, np.int64)
        nq, free = robot.nq, np.delete(np.arange(robot.nv), dofs)
        others = np.where(self.actuation[dofs].any(axis=0), 0.0, U)
        total = np.zeros((len(U), len(dofs)))
        for theta, length, part in self._scheme.method.tolist():
            h = length * self.dt
            integrator = "implicit-euler" if theta == 1.0 else "implicit-midpoint"
            ends = RobotDynamics(robot, h, self.actuation, integrator, *self._given()[3:]).step(X, U)
            v, later = X[:, nq:], ends[:, nq:]
            between = (1.0 - theta) * v + theta * later
            Q = self.integrate(X, np.hstack([theta * h * between, np.zeros_like(v)]))[:, :nq]
            R = balance(self._tree, self.actuation, Q, others, between, (later - v) / h)[0]
            for k, q in enumerate(Q if robot.loops else ()):
                J = loop.errors(robot.mechanism, robot.loops, q)[1]
                R[k] -= J.T @ np.linalg.lstsq(J[:, free].T, R[k, free])[0]
            total += part * length * R[:, dofs]
            X = self.integrate(X, part * self.difference(X, ends))
        return total

    @cached_property
    def _balance(self) -> Array:
        """The controls (nu, nv) that come closest to torques."""
        return np.asarray(np.linalg.pinv(self.actuation))

    def contract_batch(self, record: Array, weight: Array, out: Array) -> None:
        lane_contraction.contract_knots(
            self._tree.address, working_memory(self._room_of_batches), self.dt, self._written, record, weight, out
        )

    @property
    def implicit(self) -> bool:
        return self.integrator in schemes.IMPLICIT

    def routines(self, count: int, alone: bool = False, before: Routines | None = None) -> Routines | None:
        """Compiled work on trajectories, where all bodies are rigid and steps are not implicit."""
        if self.robot.is_hybrid or self.implicit:
            return None
        blockwise = self.semi_implicit is not None
        rooms = self._room_of_rollouts, self._room_of_expansions
        return routines_of(
            self._scheme, self._modes, self._tree, self._modes_from(0, count).copy(), *rooms,
            self._room_of_batches if blockwise else self._room_of_contractions,
            self._written if blockwise else None, alone, not self._one_of_many, before,
        )  # fmt: skip

    def check_state(self, field: str, x: ArrayLike) -> None:
        X = self._states(field, x)
        if field in STARTS:
            self._tell_of_start(field, X)

    def step(self, x: ArrayLike, u: ArrayLike, first: int = 0) -> Array:
        end = super().step(x, u, first)
        if self.robot.loops and not isfinite(end.sum()):
            self._tell_of_ends(np.reshape(x, (-1, self.nx)), end.reshape(-1, self.nx))
        return end

    def rollout(self, x0: ArrayLike, U: ArrayLike) -> Array:
        X = super().rollout(x0, U)
        self._tell_of_start("x0", X[:1])
        if self.robot.loops:
            self._tell_of_ends(X[:-1], X[1:])
        return X

    def _expand_one(self, x: ArrayLike, u: ArrayLike, knot: int) -> Expansion:
        out = super()._expand_one(x, u, knot)
        self._tell_of_start("x", np.reshape(x, (1, self.nx)))
        return out

    def _tell_of_start(self, field: str, X: Array) -> None:
        """Warn where loops are open, or velocities open them, in states (M, nx) that motions start from.

        Ends of steps have velocities that open them, too, by about as much as these change in dt.
        """
        if not self.robot.loops:
            return
        memory, v = working_memory(self._room_of_rollouts, 1), X[:, self.robot.nq :]
        way = self.dt * np.hstack([v, np.zeros_like(v)])
        Q = np.concatenate([X, self.integrate(X, -way), self.integrate(X, way)])[:, : self.robot.nq]
        e, J = errors_of_loops(self.robot, memory, Q)
        now, before, after = (J @ np.tile(v, (3, 1))[:, :, None]).reshape(3, len(X), -1)
        least = np.abs(after - before).max(axis=1, initial=0.0) + MOVING * max(1.0, np.abs(J).max(initial=0.0))
        if np.abs(e[: len(X)]).max(initial=0.0) > OPEN:
            why = "are open, steps close them at once, at speeds of the gap over dt: robot.closed(q) closes them"
        elif not self._prescribed and (np.abs(now).max(axis=1, initial=0.0) > least).any():
            why = "open by its velocities, steps change these at once: those after a step without controls fit"
        else:
            return
        warn_once(f"{field}: loops of {self.robot.name} {why}")

    def _tell_of_ends(self, X: Array, ends: Array) -> None:
        """Warn where a step has no end because the Jacobian of loops has lost rank."""
        found = np.flatnonzero(~np.isfinite(ends).all(axis=1))
        if len(found) and (why := self._held_up(X[found[0]], "")).startswith(SINGULAR):
            warn_once(f"{self.robot.name}: no step from where {why}")

    def _held_up(self, x: Array, at: str) -> str:
        """Why loops leave no step from x, named by ``at``; empty if they do not."""
        robot = self.robot
        if not robot.loops:
            return ""
        e, J = loop.errors(robot.mechanism, robot.loops, x[: robot.nq])
        if (gap := np.abs(e).max(initial=0.0)) > OPEN:
            return f"loops are open by {gap:.3g}{at}: robot.closed(q) closes them"
        return f"{SINGULAR}{at}: start beside it, as with links bent" if loop.is_short(J) else ""

    def undefined(self, x: ArrayLike, knot: int = 0) -> ModelError:
        x = as_array("x", x, (self.nx,))
        if why := self._held_up(x, f" at x = {numbers(x)}"):
            return ModelError(f"{self.robot.name}: no step: {why}")
        newton = ", or Newton's method does not converge: take shorter steps"
        return self._undefined_motion(x, newton if self.implicit else "")

    @property
    def tracked(self) -> "TrackedRobot":
        return TrackedRobot(self)

    def _given(self) -> tuple[float, Array, str, bool, bool, Array, tuple[str, ...]]:
        own = self.dt, self.actuation, self.integrator, self.damping, self.springs, self.control_limits
        return *own, self.prescribed

    @property
    def _scheme(self) -> schemes.Scheme:
        return schemes.INTEGRATORS[self.integrator]

    def __repr__(self) -> str:
        return f"RobotDynamics({self.robot.name!r}, dt={self.dt}, nu={self.nu}, integrator={self.integrator!r})"


def least_squares(A: Array, b: Array, lower: Array) -> Array:
    """The least x of those with the least |A x - b| and x >= lower, which is zero or minus infinity."""
    pulling = np.isfinite(lower)
    x = np.linalg.pinv(A, rcond=1e-4) @ b
    if not (x[pulling] < 0.0).any():
        return np.asarray(x)
    from scipy.optimize import nnls  # it takes a quarter of a second to import, which few robots need

    # nonnegative least squares, the others as differences of two
    size = 1e-6 * max(np.abs(A).max(), 1e-300)  # so that the answer is one
    wide = np.vstack([np.hstack([A, -A[:, ~pulling]]), size * np.eye(A.shape[1] + np.count_nonzero(~pulling))])
    found, _ = nnls(wide, np.concatenate([b, np.zeros(wide.shape[1])]))
    found[: A.shape[1]][~pulling] -= found[A.shape[1] :]
    return np.asarray(found[: A.shape[1]])


# -- feedback on its motions -------------------------------------------------------------------------------------------


ERROR, RATE, SHARE = 0.02, 0.2, 0.2
"""Errors of positions [rad, m] and velocities [rad/s, m/s], and the share of the largest control, that weigh the same:
Bryson's rule. Errors of rods count by the displacement of their mass, see displacements.py. The largest control is the
motion's, or one that holds its start against gravity; controls count by the forces that they make."""


@dataclass(frozen=True, eq=False)
class TrackedRobot:
    """Knowledge of a robot without contacts for feedback: see `ddp.systems.system.Tracked`."""

    system: SteppedRobot

    def weights(self, X: Array, U: Array) -> Tracking:
        """Weights by Bryson's rule about a motion X (N+1, nx), U (N, nu); nothing is forbidden."""
        nv, nu, made = self.system.robot.nv, self.system.nu, forces_of(self.system.actuation)
        holding = np.abs(made * self.system.nominal_control(X[0])).max()
        largest = max(np.abs(made * U).max(initial=0.0), holding) or 1.0
        weights = np.array([ERROR**-2.0, RATE**-2.0])
        state = np.repeat(weights, nv)
        if isinstance(robot := self.system.robot, HybridRobot):
            state = np.kron(np.diag(weights), squares_of_angles(robot, X[0, : robot.nq]))
        return Tracking(state, (SHARE * largest) ** -2.0 * made**2, state, np.zeros((nu, 2 * nv)))

    def stretches(self, horizon: int) -> list[range]:
        return [range(horizon)]

    def in_steps(self, counts: Sequence[int], durations: Sequence[float]) -> System:
        return RobotDynamics(self.system.robot, durations[0] / counts[0], *self.system._given()[1:])

    def free_and_resisted(self, X: Array) -> tuple[Array, Array]:
        free = np.tile(np.eye(self.system.n), (len(X), 1, 1))
        return free, np.zeros_like(free)

    def settled(self, x: Array) -> Array:
        return x

    def driven(self) -> NDArray[np.bool_]:
        robot = self.system.robot
        tendons = robot.recipe.tendons if isinstance(robot, HybridRobot) else {}
        pulled = [bool(tendons.get(body)) for body in robot.tree.body.tolist()]
        return np.asarray(np.logical_or(self.system.actuation.any(axis=1), pulled))

    def pulling(self) -> NDArray[np.bool_]:
        robot = self.system.robot
        return np.arange(self.system.nu) < (len(robot.tendons) if isinstance(robot, HybridRobot) else 0)

    def cones(self, X: Array, U: Array, friction: float) -> Cones | None:
        """None: there are no contacts."""
        return None

    def footing(self, X: Array) -> Footing | None:
        """None: there are no feet."""
        return None

    def deviation(self) -> Contraction:
        return deviation(self.system.robot.tree)
