"""Robots whose joints follow others: q_f = m q_l + o, one coordinate for a leader and its followers.

With G (nv, nv - f) of v = G w, F (nv, f) the units of followers, e = J q - o their gaps, J = (1 of a follower, -m of
its leader), h the step and ID inverse dynamics, accelerations are

    a = G α + F b,   Gᵀ (ID(q, v, a) - S u - passive) = 0,   b = -J v / h - e / h²

so that e = 0 after every semi-implicit step, exactly, whatever e was before. The step is that of the robot under the
torques τ(x, u) = ID(q, v, a) - passive, which followers are held by. With M the mass matrix, P = G (Gᵀ M G)⁻¹ Gᵀ and y
a weight on τ,

    τ_z = ID_z + M a_z - passive_z,   a_z = F b_z + P (S_z u + passive_z - ID_z - M F b_z),
    yᵀ τ_zz = ∇² of ID along (z, a_z), weighed by y - P M y.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ddp.errors import ModelError, ProblemError, as_array, choice, instance, said, suggesting
from ddp.protocols import Array
from ddp.systems.by_knot import ByKnot
from ddp.systems.derived_dynamics import checked_state
from ddp.systems.system import expanded
from dynamics.rigid_bodies.rigid_body import (
    inverse_dynamics,
    inverse_dynamics_derivatives,
    inverse_dynamics_hessian,
    mass_matrix,
)
from dynamics.robots.equipment import pairs_of_limits
from dynamics.robots.found import Followers
from dynamics.robots.model import Robot, check_rigid
from dynamics.robots.tree import space_of_states
from dynamics.steps.doubts import doubts_of, excesses_of, plain_numbers, strangers
from dynamics.steps.names import names_of
from dynamics.steps.robot_dynamics import RobotDynamics, TrackedRobot

APART = 1e-6
"""Distance of a follower from its place that is told of before a solve [rad, m], and of its speed [rad/s, m/s]."""


@suggesting
class MimicDynamics(ByKnot):
    """Semi-implicit steps of a robot whose followers move with their leaders, ``q_f = multiplier q_l + offset``.

    robot: from ``dynamics.load``.   dt [s]: the time step.
    followers: ``{"finger_2": ("finger_1", 1.0, 0.0)}``; default those of the robot's file: <mimic> of URDF and SDF,
    linear <equality><joint> of MJCF. Followers and leaders are joints with one plain number, which continuous joints of
    URDF have not.
    actuation, damping, springs, control_limits: as of `RobotDynamics`; by default controls that drive followers alone
    are left out, with their rows of ``robot.control_limits``.

    States are those of the robot, followers among them: costs, limits, frames and drawings serve as they are. One that
    is not in its place comes there in the first step, however fast that is, of which a solve warns; `following` gives a
    start in which all are. Derivatives are exact to second order, and made in Python: a solve takes some six times as
    long as with `RobotDynamics`.
    """

    _fixed = "robot", "dt", "followers"
    variable = ("masses",)

    def __init__(
        self, robot: Robot, dt: float, followers: Followers | None = None, actuation: ArrayLike | None = None,
        damping: bool | None = None, springs: bool | None = None, control_limits: ArrayLike | None = None,
    ) -> None:  # fmt: skip
        check_rigid(robot)
        plain = RobotDynamics(robot, dt, actuation, damping=damping, springs=springs)
        self.robot, self.dt, self.damping, self.springs = robot, plain.dt, plain.damping, plain.springs
        self.followers = _checked(robot, followers)
        nv, names = robot.nv, list(self.followers)
        places = [robot.numbers_of(name) for name in names]
        leads = [robot.numbers_of(leader) for leader, _, _ in self.followers.values()]
        self._q, self._v = ([part[i][0] for part in places] for i in (0, 1))
        self._leading = [part[0][0] for part in leads]
        factors = np.array([factor for _, factor, _ in self.followers.values()])
        self._factors, self._offsets = factors, np.array([offset for _, _, offset in self.followers.values()])
        J = np.eye(nv)[self._v]
        J[np.arange(len(names)), [part[1][0] for part in leads]] -= factors
        free = np.delete(np.eye(nv), self._v, axis=1)
        free[self._v] = -J @ free
        self._J, self._G, self._F = J, free, np.eye(nv)[:, self._v]
        S, limits = plain.actuation, plain.control_limits
        if control_limits is not None:
            limits = as_array("control_limits", control_limits, (None, None), finite=False)
        if actuation is None:
            left = self.driving(S)
            limits = limits[left] if limits.shape == (S.shape[1], 2) else limits
            S = S[:, left]
        self.actuation = np.ascontiguousarray(S)
        self.nx, self.nu = robot.nq + nv, S.shape[1]
        self.control_limits = pairs_of_limits("control_limits", limits, self.nu)
        self._space = space_of_states(robot.tree)
        self._inner = RobotDynamics(robot, dt, np.eye(nv), damping=self.damping, springs=self.springs)

    @property
    def named_numbers(self) -> tuple[list[str], list[str], list[str]]:
        return names_of(self.robot, self.actuation)

    def driving(self, S: Array) -> NDArray[np.bool_]:
        """Flags of controls (nu,) that are kept of an actuation (nv, nu), all but those that drive followers alone."""
        return np.asarray(~S.any(axis=0) | np.delete(S, self._v, axis=0).any(axis=0))

    def following(self, q: ArrayLike) -> Array:
        """A configuration (nq,) whose followers are where their leaders ask for."""
        found = as_array("q", q, (self.robot.nq,)).copy()
        found[self._q] = self._factors * found[self._leading] + self._offsets
        return found

    @property
    def masses(self) -> Array:
        """Masses (bodies,) [kg] of the bodies that joints carry."""
        return self.robot.masses

    def varied(self, masses: ArrayLike) -> "MimicDynamics":
        """Copy of the system with a robot of other masses, see `Robot.with_masses`."""
        return MimicDynamics(self.robot.with_masses(masses), *self._given())

    def _given(self) -> tuple[float, Followers, Array, bool, bool, Array]:
        return self.dt, self.followers, self.actuation, self.damping, self.springs, self.control_limits

    @property
    def tracked(self) -> "TrackedMimic":
        return TrackedMimic(self)

    def nominal_control(self, x: Array) -> Array:
        """Controls (nu,) that best balance gravity and springs at rest where x is, by least squares; or (M, nu)."""
        return np.asarray(self._inner.holding_torques(x) @ self._G @ self._balance.T)

    @cached_property
    def _balance(self) -> Array:
        return np.asarray(np.linalg.pinv(self._G.T @ self.actuation))

    def torques(self, X: ArrayLike, U: ArrayLike) -> Array:
        """Generalised forces (N, nv) of controls U (N, nu), without those that hold followers."""
        return as_array("U", U, (None, self.nu), finite=False) @ self.actuation.T

    def doubts(self, problem: Any) -> Iterator[str]:
        yield from self._apart(problem.x0)
        yield from doubts_of(self, problem)

    def strangers(self, parts: Iterable[Any]) -> list[str]:
        return [*strangers(self.robot, parts)]

    def excesses(self, problem: Any, X: Array, U: Array) -> list[str]:
        return excesses_of(self.robot, as_array("X", X, (None, self.nx), finite=False))

    def _apart(self, x0: Array) -> Iterator[str]:
        """The follower that is furthest from its place at the start; if all are there, the one with another speed."""
        q, v = np.split(x0, [self.robot.nq])
        units = {name: "rad" if turns else "m" for name, _, _, turns in plain_numbers(self.robot)}
        for now, gaps, verb, rate, cure in (
            (q[self._q], q[self._q] - self.following(q)[self._q], "is at", "", "system.following(q) has it there"),
            (v[self._v], self._J @ v, "moves at", "/s", "give it its leader's speed times the multiplier"),
        ):
            i = int(np.argmax(np.abs(gaps)))
            if abs(gaps[i]) > APART:
                name, (leader, _, _) = list(self.followers.items())[i]
                numbers = f"{name} {verb} {now[i]:.4g} {units[name]}{rate}, {leader} asks for {now[i] - gaps[i]:.4g}"
                yield f"x0: {numbers}: it jumps there in the first step of {self.dt:g} s; {cure}"
                return

    # -- accelerations and the torques that make them ----------------------------------------------------------------

    def _accelerated(self, q: Array, v: Array, u: Array) -> tuple[Array, Array, Array]:
        """a (nv,), M and P (nv, nv)."""
        h, G = self.dt, self._G
        gaps = q[self._q] - self._factors * q[self._leading] - self._offsets
        begun = self._F @ (-(self._J @ v) / h - gaps / h**2)
        M = mass_matrix(self.robot, q)
        P = G @ np.linalg.solve(G.T @ M @ G, G.T)
        pushed = self.actuation @ u + self._passive(q, v) - inverse_dynamics(self.robot, q, v, begun)
        return begun + P @ pushed, M, P

    def _passive(self, q: Array, v: Array) -> Array:
        return self._inner.passive_torques(np.concatenate([q, v])[None])[0]

    def _holding(self, x: Array, u: Array) -> tuple[Array, Array, Array, Array]:
        """τ (nv,), a, M and P."""
        q, v = np.split(x, [self.robot.nq])
        a, M, P = self._accelerated(q, v, u)
        return inverse_dynamics(self.robot, q, v, a) - self._passive(q, v), a, M, P

    def _called(self, x: Any, u: Any) -> Any:
        return checked_state("step", lambda x, u: self._inner.step(x, self._holding(x, u)[0]), x, u, self.nx)

    def _first_order(self, x: Array, u: Array) -> tuple[Array, Array, Array, Array, Array]:
        """τ (nv,), a, a_z and τ_z (nv, nz), and P M."""
        tau, a, M, P = self._holding(x, u)
        q, v = np.split(x, [self.robot.nq])
        by, nv, h = inverse_dynamics_derivatives(self.robot, q, v, a), self.robot.nv, self.dt
        tree = self.robot.resisting(self.damping, self.springs)
        resisted = np.hstack([by.dq + np.diag(tree.stiffness), by.dv + np.diag(tree.damping), np.zeros((nv, self.nu))])
        begun = np.zeros((nv, 2 * nv + self.nu))
        begun[:, :nv], begun[:, nv : 2 * nv] = -self._F @ self._J / h**2, -self._F @ self._J / h
        pushed = -resisted - M @ begun
        pushed[:, 2 * nv :] += self.actuation
        a_z = begun + P @ pushed
        return tau, a, a_z, resisted + M @ a_z, P @ M

    def _slopes(self, x: Array, u: Array) -> tuple[Array, Array]:
        tau, _, _, by, _ = self._first_order(x, u)
        A, B = self._inner.linearize(x, tau)
        whole = np.hstack([A, np.zeros((len(A), self.nu))]) + B @ by
        return whole[:, : self.n], whole[:, self.n :]

    def _tensor(self, x: Array, u: Array) -> Array:
        n, nv, robot = self.n, self.robot.nv, self.robot
        tau, a, a_z, by, PM = self._first_order(x, u)
        step = expanded(self._inner, x[None], tau[None], 0)
        Hf = np.empty((n, n + nv, n + nv))
        self._inner.contract(np.repeat(step.record, n, axis=0), np.eye(n), Hf)
        T = np.zeros((n + nv, n + self.nu))
        T[:n, :n], T[n:] = np.eye(n), by
        found = T.T @ Hf @ T
        weights = step.B[0] - step.B[0] @ PM.T  # rows y of B, as y - P M y
        q, v = np.split(x, [robot.nq])
        Q, V, A = (np.tile(part, (n, 1)) for part in (q, v, a))
        H = inverse_dynamics_hessian(robot, Q, V, A, weights, symmetric=True)
        own = np.zeros_like(found)
        own[:, :nv, :nv], own[:, nv:n, nv:n] = H.qq, H.vv
        own[:, :nv, nv:n] = H.qv
        own[:, nv:n, :nv] = H.qv.swapaxes(1, 2)
        crossed = np.zeros_like(found)
        crossed[:, :nv] = H.qa @ a_z
        whole = found + own + crossed + crossed.swapaxes(1, 2)
        return np.asarray(0.5 * (whole + whole.swapaxes(1, 2)))

    def __reduce__(self) -> Any:
        return MimicDynamics, (self.robot, *self._given())

    def __repr__(self) -> str:
        return f"MimicDynamics({self.robot.name!r}, dt={self.dt}, followers={list(self.followers)}, nu={self.nu})"

    def _origin(self) -> str:
        return "exact"


@dataclass(frozen=True, eq=False)
class TrackedMimic(TrackedRobot):
    """Knowledge of a robot with followers for feedback: see `ddp.systems.system.Tracked`."""

    system: MimicDynamics  # type: ignore[assignment]

    def in_steps(self, counts: Sequence[int], durations: Sequence[float]) -> MimicDynamics:
        return MimicDynamics(self.system.robot, durations[0] / counts[0], *self.system._given()[1:])

    def free_and_resisted(self, X: Array) -> tuple[Array, Array]:
        """Errors of leaders, with followers where these have them: what followers err by on their own is not answered.

        Steps would take such gaps back at once, at accelerations that no robot has, and feedback would push with them.
        """
        own = self.system
        with_leaders = own._G @ np.delete(np.eye(own.robot.nv), own._v, axis=0)
        free = np.tile(np.kron(np.eye(2), with_leaders), (len(X), 1, 1))
        return free, np.zeros_like(free)

    def settled(self, x: Array) -> Array:
        own = self.system
        q, v = np.split(x, [own.robot.nq])
        return np.concatenate([own.following(q), own._G @ np.delete(v, own._v)])


def _checked(robot: Robot, given: Followers | None) -> dict[str, tuple[str, float, float]]:
    """Followers with leaders that follow nobody; ModelError for what cannot follow, or be followed."""
    whose = "got none"
    if given is None:
        whose = f"{robot.name} has no joint that mimics another"
        own = (robot.source and robot.source.followers) or {}
        given = {name: leading for name, leading in own.items() if name in robot.joint_names}
    instance("followers", given, Mapping, "a mapping from followers to (leader, multiplier, offset)")
    if not given:
        raise ProblemError(f"followers: expected some, {whose}")
    for name, told in given.items():
        if not (isinstance(told, Sequence) and len(told) == 3 and isinstance(told[0], str)):
            raise ModelError(f"followers[{said(name)}]: expected (leader, multiplier, offset), got {said(told)}")
    found = {}
    for name, (leader, factor, offset) in given.items():
        seen = [name]
        while leader in given and leader not in seen:
            seen.append(leader)
            next_leader, next_factor, next_offset = given[leader]
            leader, factor, offset = next_leader, factor * next_factor, factor * next_offset + offset
        if leader in seen:
            raise ModelError(f"followers: expected a leader that follows nobody, got a circle of {', '.join(seen)}")
        for joint in (name, leader):
            choice("followers", joint, robot.joint_names, f"{robot.name} has no joint", ModelError)
            numbers = robot.numbers_of(joint)
            if [len(part) for part in numbers] != [1, 1]:
                wheel = ', a continuous joint, whose turns are not counted: type="revolute" counts them'
                got = said(joint) + (wheel if len(numbers[1]) == 1 else "")
                raise ModelError(f"followers: expected joints with one number, such as hinges, got {got}")
        factor, offset = (float(as_array(f"followers[{name!r}]", part, ())) for part in (factor, offset))
        found[name] = leader, factor, offset
    return found
