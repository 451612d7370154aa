"""A robot's system of one mode or many: all that does not depend on which steps its modes are."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ddp.errors import ModelError, ProblemError, as_array, axes, flag, integer, numbers, positive
from ddp.machine.aligned import aligned_zeros, working_memory
from ddp.machine.number import QUAD
from ddp.protocols import Array, copied
from ddp.systems.system import Contraction, Expansion, Stepping, expanded
from ddp.tracing.spaces import Space
from dynamics.contacts import contact
from dynamics.geometry.configuration import difference_batch, integrate_batch
from dynamics.geometry.joint_motion import CONTINUOUS, GROUPS, REVOLUTE
from dynamics.rigid_bodies.passive import passive_torques
from dynamics.rigid_bodies.residual import balance
from dynamics.rigid_bodies.rigid_body import inverse_dynamics
from dynamics.rigid_bodies.samples import check_configurations
from dynamics.robots.equipment import as_actuation, pairs_of_limits
from dynamics.robots.model import Robot, check_robot
from dynamics.robots.tree import space_of_states
from dynamics.steps import rollouts
from dynamics.steps.deviations import close_at
from dynamics.steps.doubts import doubts_of, efforts_of, excesses_of, is_beyond_reach, strangers
from dynamics.steps.modes import Mode, modes_of
from dynamics.steps.names import names_of
from dynamics.steps.pairs import is_complex, paired
from dynamics.steps.schemes import Scheme


class SteppedRobot(ABC):
    """``x' = f_k(x, u)`` of a robot, x = (q, v), whose knots k are of the modes that a schedule has.

    nx, n, nu: numbers in a state, in a tangent vector of it, 2 nv, and controls.
    dt [s]: time step; with phases, of those that have none of their own.
    notes_size: numbers of the forces of the mode with the most of them.
    """

    schedule: NDArray[np.int64]
    _prescribed: tuple[int, ...] = ()
    """Degrees of freedom whose control is their acceleration."""

    def __init__(
        self, robot: Robot, dt: float, actuation: ArrayLike | None, damping: bool | None, springs: bool | None,
        control_limits: ArrayLike | None,
    ) -> None:  # fmt: skip
        check_robot(robot, ProblemError)
        self.robot = robot
        self.nx, self.n = robot.nq + robot.nv, 2 * robot.nv
        self.damping = robot.equipment.damped if damping is None else flag("damping", damping)
        self.springs = springs is None or flag("springs", springs)
        self._tree = robot.resisting(self.damping, self.springs)
        self.dt = positive("dt", dt)
        if control_limits is None and actuation is None and robot.equipment.drives:
            control_limits = robot.control_limits
        given = robot.actuation if actuation is None else actuation
        self.actuation = as_actuation(given, robot.nv, robot.tree.cables).copy()
        self.actuation.flags.writeable = False  # kernels have its numbers by then
        self.nu = int(self.actuation.shape[1])
        self.control_limits = pairs_of_limits("control_limits", control_limits, self.nu)

    def __setattr__(self, name: str, value: object) -> None:
        fixed = "robot", "nx", "n", "nu", "dt", "damping", "springs", "actuation", "integrator", "phases"
        if name in fixed and {name, "_modes"} <= vars(self).keys():
            raise AttributeError(f"{name}: kernels have it already: make another {type(self).__name__} with it")
        super().__setattr__(name, value)

    def __setstate__(self, state: Any) -> None:
        own, slots = state if isinstance(state, tuple) else (state, {})  # of subclasses with slots
        vars(self).update(own)
        for name, value in slots.items():
            object.__setattr__(self, name, value)
        self.actuation.flags.writeable = False

    @property
    @abstractmethod
    def _scheme(self) -> Scheme:
        """Kernels of its steps."""

    def _compose(self, modes: list[Mode], schedule: list[int]) -> None:
        """Enter the modes, and which of them each knot is of."""
        scheme, loops = self._scheme, self.robot.held
        if self.robot.loops and not scheme.holds:
            raise ProblemError(
                f"{self.robot.name} has loops, which only steps of RobotDynamics(integrator='implicit-euler') and"
                " 'sdirk2' hold"
            )
        self.schedule = self._extended = np.array(schedule, dtype=np.int64)
        self._last = len(modes) - 1
        self.notes_size = max(contact.forces(mode.contacts) for mode in modes)
        most = max(loops.entries, *(mode.contacts.count for mode in modes)), max(self.notes_size, loops.nc)
        tree, nu, stages, self._described = self._tree, self.nu, scheme.stages, modes
        self._layout = scheme.layout(self.robot.nq, self.robot.nv, nu, most[1], stages)
        self._modes = modes_of(tree, loops, self.actuation, self._prescribed, scheme.method, modes, self._layout)
        self._room_of_rollouts = rollouts.size(scheme.roller, tree, nu, stages, *most)
        self._room_of_expansions = scheme.room(tree, self._layout, nu, *most)
        self._room_of_contractions = scheme.contractor.room(tree, self._layout, *most)
        if scheme.in_blocks is not None:
            self._room_of_blocks = scheme.in_blocks.room(tree, self._layout, *most)

    # -- sizes and abilities -----------------------------------------------------------------------------------------

    @property
    def named_numbers(self) -> tuple[list[str], list[str], list[str]]:
        return names_of(self.robot, self.actuation)

    @property
    def record_size(self) -> int:
        """Floats that a knot keeps for its second order, see modes.py."""
        return int(self._layout.end)

    thread_safe = True
    lanes = QUAD
    """Step lengths that a rollout does for the price of one."""

    _one_of_many = False
    """Whether masses have been varied: code of a robot's own would be compiled for each of them."""

    @property
    def batched(self) -> bool:
        return self._scheme.batched

    @property
    def variable(self) -> tuple[str, ...]:
        return () if self.robot.is_hybrid else ("masses",)

    @property
    def masses(self) -> Array:
        """Masses (bodies,) [kg] of the bodies that joints carry."""
        return self.robot.masses

    def varied(self, masses: ArrayLike) -> Self:
        """Copy of the system with a robot of other masses, see `Robot.with_masses`."""
        robot = self.robot.with_masses(masses)
        tree = robot.resisting(self.damping, self.springs)
        return copied(self, robot=robot, _tree=tree, _modes=self._modes.replace(tree=tree), _one_of_many=True)

    def _modes_from(self, first: int, count: int) -> NDArray[np.int64]:
        """The modes of some knots; beyond the schedule, those of the last mode."""
        begin = min(first, len(self.schedule))
        if begin + count > len(self._extended):
            beyond = np.full(begin + count - len(self._extended), self._last)
            self._extended = np.concatenate([self._extended, beyond])
        return self._extended[begin : begin + count]

    # -- states ------------------------------------------------------------------------------------------------------

    @cached_property
    def space(self) -> Space:
        return space_of_states(self.robot.tree)

    def difference(self, x0: ArrayLike, x1: ArrayLike) -> Array:
        """``x1 ⊖ x0``: (n,) or (N, n)."""
        X0, X1, single = paired("x0", x0, self.nx, "x1", x1, self.nx, np.float64)
        out = np.empty((len(X0), self.n))
        difference_batch(self.robot.tree, X0, X1, out)
        return out[0] if single else out

    def integrate(self, x: ArrayLike, dx: ArrayLike) -> Array:
        """``x ⊕ dx``: (nx,) or (N, nx). A complex dx gives a complex state, for complex-step derivatives."""
        dtype = np.complex128 if any(is_complex(value) for value in (x, dx)) else np.float64
        X, dX, single = paired("x", x, self.nx, "dx", dx, self.n, dtype)
        out = np.empty((len(X), self.nx), dtype)
        integrate_batch(self.robot.tree, X, dX, out)
        return np.asarray(out[0] if single else out)

    def check_state(self, field: str, x: ArrayLike) -> None:
        self._states(field, x)

    def _states(self, field: str, x: ArrayLike, shape: tuple[int, ...] | None = None) -> Array:
        """One state, or a batch if no ``shape`` is asked for, as a batch; ProblemError if one is not a state."""
        X = self._batch(field, x, self.nx) if shape is None else as_array(field, x, shape)[None]
        check_configurations(self.robot, field, X[:, : self.robot.nq], ProblemError)
        return X

    def _batch(self, field: str, value: ArrayLike, size: int) -> Array:
        single = axes(value) < 2
        return as_array(field, value, (size,) if single else (None, size)).reshape(-1, size)

    # -- steps and rollouts ------------------------------------------------------------------------------------------

    def step(self, x: ArrayLike, u: ArrayLike, first: int = 0) -> Array:
        """The next state: x (nx,), u (nu,) of knot ``first``, or batches (M, .) from there. NaN where it diverges."""
        X, U, first = self._states("x", x), self._batch("u", u, self.nu), integer("knot", first)
        if len(X) != len(U):
            raise ProblemError(f"u: expected {len(X)} controls for {len(X)} states, got {len(U)}")
        Xn = np.empty_like(X)
        system = self._modes.handle, working_memory(self._room_of_rollouts), self._modes_from(first, len(U))
        self._scheme.roller.step(*system, X, U, Xn)
        return Xn[0] if axes(x) == 1 else Xn

    def strayed(self, X: Array, dX: Array, U: Array) -> tuple[Array, Array]:
        to, gaps = np.empty_like(X), np.empty((len(U), self.n))
        memory, schedule = working_memory(self._room_of_rollouts), self._modes_from(0, len(U))
        self._scheme.roller.stray(self._modes.handle, memory, schedule, X, dX, U, to, gaps)
        return to, gaps

    def rollout(self, x0: ArrayLike, U: ArrayLike) -> Array:
        """The states (N+1, nx) that controls U (N, nu) lead to from x0; NaN from where it diverges."""
        X, U = self._states("x0", x0, (self.nx,)), as_array("U", U, (None, self.nu))
        K, gaps = np.empty((0, self.nu, self.n)), np.empty((0, self.n))
        return self.track(X, U, U, K, np.zeros(1), gaps, U, U)[0][0]

    def track(
        self, X: Array, U: Array, k: Array, K: Array, alphas: Array, gaps: Array, lower: Array, upper: Array,
        notes: Array | None = None,
    ) -> tuple[Array, Array]:  # fmt: skip
        """Closed-loop rollouts, one for each alpha: see `System`; NaN from where they diverge.

        K and gaps of no knots, (0, ...), are zeros, and then k and limits do not count.
        notes (S, N, notes_size): where the contact forces of all knots go, if they are wanted.
        """
        X, U, k, K, gaps = map(np.ascontiguousarray, (X, U, k, K, gaps))
        if not lower.shape == upper.shape == U.shape:
            lower, upper = np.broadcast_to(lower, U.shape), np.broadcast_to(upper, U.shape)
        low, high, (N, s) = np.ascontiguousarray(lower), np.ascontiguousarray(upper), (len(U), len(alphas))
        Xs, Us = np.empty((s, N + 1, self.nx)), np.empty((s, *U.shape))
        forces = np.empty((s, N, 0)) if notes is None else notes
        system = self._modes.handle, working_memory(self._room_of_rollouts), self._modes_from(0, N)
        self._scheme.roller.track(*system, X, U, k, K, alphas, gaps, low, high, Xs, Us, forces)
        return Xs, Us

    def stepping(self, count: int, lanes: int) -> Stepping:
        memory, schedule = aligned_zeros((self._room_of_rollouts, 8)), self._modes_from(0, count).copy()
        start, room, registers = self._modes.start, memory.ctypes.data, 1 + (lanes > QUAD)
        words = np.array([start, room, schedule.ctypes.data, self.nx, self.nu, registers], dtype=np.int64)
        function = self._scheme.roller.eight(type(self._modes))
        return Stepping(function.address, words.ctypes.data, np.zeros(0), (words, memory, schedule, function))

    def track_noting(
        self, X: Array, U: Array, k: Array, K: Array, alphas: Array, gaps: Array, lower: Array, upper: Array
    ) -> tuple[Array, Array, Array]:
        notes = np.empty((len(alphas), len(U), self.notes_size))
        return *self.track(X, U, k, K, alphas, gaps, lower, upper, notes), notes

    # -- derivatives -------------------------------------------------------------------------------------------------

    def expand(self, X: Array, U: Array, out: Expansion, first: int = 0) -> None:
        schedule = self._modes_from(first, len(U))
        self._scheme.linearize(self._modes.handle, working_memory(self._room_of_expansions), schedule, X, U, *out)

    def expand_second(self, X: Array, U: Array, out: Expansion, first: int = 0) -> None:
        if self._scheme.complete is not None:
            self._scheme.complete(self._modes.handle, *out)

    def contract(self, record: Array, weight: Array, out: Array) -> None:
        self._scheme.contractor.contract(
            self._modes.handle, working_memory(self._room_of_contractions), record, weight, out
        )

    def contraction(self) -> Contraction:
        return self._scheme.contractor.contraction(self._modes)

    def closing(self) -> Contraction:
        """Log(Exp(gap) Exp(y)) to second order, compiled; flat where no joint is a free-flyer, spherical or planar."""
        if not self._bent.any():
            return Contraction(0, 0, None)
        return Contraction(close_at.address, self._tree.start, self._tree)  # knows joints alone

    @cached_property
    def _bent(self) -> NDArray[np.bool_]:
        """Whether each body's joint moves by a group that does not commute."""
        return np.isin(self._tree.kind, GROUPS)

    @property
    def _bent_rows(self) -> NDArray[np.int64]:
        """Where the velocities (g, 2) of such joints begin, and how many they are."""
        tree, bent = self._tree, self._bent
        return np.ascontiguousarray(np.stack([tree.iv[bent], tree.nj[bent]], axis=1), dtype=np.int64)

    def linearize(self, x: ArrayLike, u: ArrayLike, knot: int = 0) -> tuple[Array, Array]:
        """``A (n, n), B (n, nu)`` of one knot, in exponential coordinates."""
        out = self._expand_one(x, u, knot)
        return out.A[0], out.B[0]

    def hessian(self, x: ArrayLike, u: ArrayLike, weight: ArrayLike, knot: int = 0) -> Array:
        """The exact Hessian (n+nu, n+nu) of ``weight @ (f(x ⊕ dx, u + du) ⊖ f(x, u))`` of one knot."""
        out, H = self._expand_one(x, u, knot), np.empty((1, self.n + self.nu, self.n + self.nu))
        self.contract(out.record, as_array("weight", weight, (self.n,))[None], H)
        return H[0]

    def _expand_one(self, x: ArrayLike, u: ArrayLike, knot: int) -> Expansion:
        X, U, knot = self._states("x", x, (self.nx,)), as_array("u", u, (self.nu,))[None], integer("knot", knot)
        out = expanded(self, X, U, knot)
        if not np.isfinite(out.A).all():
            raise self.undefined(X[0], knot)
        return out

    def identity(self) -> tuple[Any, ...]:
        """All that decides how it moves, as plain data, arrays and a robot."""
        return type(self).__name__, self.robot, *self._given()

    @abstractmethod
    def nominal_control(self, x: ArrayLike) -> Array:
        """The control (nu,) that keeps a state x at rest as well as one can."""

    @abstractmethod
    def _given(self) -> tuple[Any, ...]:
        """Arguments of the constructor that come after the robot."""

    def doubts(self, problem: Any) -> Iterable[str]:
        return doubts_of(self, problem)

    def strangers(self, parts: Iterable[Any]) -> list[str]:
        return [*strangers(self.robot, parts)]

    def excesses(self, problem: Any, X: Array, U: Array) -> list[str]:
        X, U = as_array("X", X, (None, self.nx), finite=False), as_array("U", U, (None, self.nu), finite=False)
        return [*excesses_of(self.robot, X), *efforts_of(self, U)]

    def is_beyond_reach(self, problem: Any) -> bool:
        return is_beyond_reach(self.robot, problem)

    def turn(self, X: Array) -> float:
        tree = self.robot.tree
        turning = tree.iv[(tree.kind == REVOLUTE) | (tree.kind == CONTINUOUS)]
        X = as_array("X", X, (None, self.nx), finite=False)
        return float(np.abs(self.difference(X[0], X[-1])[turning]).max(initial=0.0))

    @abstractmethod
    def undefined(self, x: ArrayLike, knot: int = 0) -> Exception:
        """The error of a knot that has no next state."""

    def _undefined_motion(self, x: Array, more: str = "") -> ModelError:
        """The error of a knot whose accelerations are no numbers; more: another reason that it may have."""
        why = f"the mass matrix is singular, or accelerations overflow{more}"
        return ModelError(f"{self.robot.name}: no step from x = {numbers(x)}: {why}")

    # -- torques -----------------------------------------------------------------------------------------------------

    def holding_torques(self, x: ArrayLike) -> Array:
        """The torques (nv,) that, with springs, rods and loads, keep a robot at rest in the configuration of x.

        (M, nv) of states (M, nx).
        """
        at_rest = as_array("x", x, (self.nx,) if axes(x) == 1 else (None, self.nx)).copy()
        if at_rest.ndim == 1:
            return self.holding_torques(at_rest[None])[0]
        at_rest[:, self.robot.nq :] = 0.0
        Q, still = at_rest[:, : self.robot.nq].copy(), np.zeros((len(at_rest), self.robot.nv))
        if self.robot.is_hybrid:
            return balance(self._tree, self.actuation, Q, np.zeros((len(Q), self.nu)))[0]
        return np.asarray(inverse_dynamics(self.robot, Q, still, still) - self.passive_torques(at_rest))

    def driving(self, X: ArrayLike) -> Array:
        """Matrices (M, nv, nu) by which controls act: S, with the pull of tendons at states X (M, nx)."""
        X = as_array("X", X, (None, self.nx), finite=False)
        if self.robot.is_hybrid:
            return balance(self._tree, self.actuation, X[:, : self.robot.nq], np.zeros((len(X), self.nu)))[1]
        return np.broadcast_to(self.actuation, (len(X), *self.actuation.shape))

    def torques(self, X: ArrayLike, U: ArrayLike) -> Array:
        """Generalised forces (N, nv) of controls U (N, nu) in states X (N, nx), of tendons and wrenches among them."""
        S = self.driving(X)
        return np.einsum("kij,kj->ki", S, as_array("U", U, (len(S), self.nu), finite=False))

    def passive_torques(self, X: ArrayLike) -> Array:
        """Torques (M, nv) of the springs and the viscous friction that act, at states X (M, nx)."""
        X = as_array("X", X, (None, self.nx), finite=False)
        return passive_torques(self._tree, X[:, : self.robot.nq], X[:, self.robot.nq :])
