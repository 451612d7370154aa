"""A robot as a discrete-time system: steps on the configuration manifold, exact to second order."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ddp.errors import REAL, ModelError, ProblemError, as_array, axes, choice, flag, numbers, positive, said
from ddp.machine.number import QUAD
from ddp.system import Contraction, Expansion
from dynamics.arrays.lanes import arena
from dynamics.contacts.contact import compile_contacts
from dynamics.geometry.configuration import difference_batch, integrate_batch
from dynamics.geometry.joint_motion import GROUPS
from dynamics.rigid_bodies.passive import passive_torques
from dynamics.rigid_bodies.rigid_body import inverse_dynamics
from dynamics.robots.equipment import pairs_of_limits
from dynamics.robots.model import Robot, check_robot
from dynamics.robots.samples import check_configurations
from dynamics.steps import hessians, lane_contraction
from dynamics.steps.contraction import ExplicitStep, contract_rows, explicit_callback
from dynamics.steps.gaps import closing_callback
from dynamics.steps.lane_rollouts import rollout, step, track
from dynamics.steps.lane_rollouts import size as room_of_rollouts
from dynamics.steps.linearization import keep_rates, linearize, size
from dynamics.steps.modes import STEP, flatten, free_layout
from dynamics.steps.runge_kutta import EULER, RK4, SEMI_IMPLICIT
from dynamics.steps.runge_kutta_linearization import linearize_explicit, stage_sizes
from dynamics.steps.runge_kutta_linearization import size as room_of_stages
from dynamics.steps.tracking import TrackedRobot

Array = NDArray[np.float64]

INTEGRATORS = {"semi-implicit-euler": SEMI_IMPLICIT, "euler": EULER, "rk4": RK4}
"""Their methods, see runge_kutta.py."""


class RobotDynamics:
    """``x' = f(x, u)`` of a robot, x = (q, v), controls u held over a step dt.

    Torques are ``τ = S u - stiffness (q - springref) - damping v``, see passive.py; dry friction is not modelled.

    robot: from ``dynamics.load``.  dt [s]: the time step.
    actuation S (nv, nu): how controls act on the degrees of freedom [N, N m per unit of control]; default
    ``robot.actuation``: the actuators of an MJCF file, else one control for each joint.
    integrator: "semi-implicit-euler", ``v' = v + dt a(q, v, τ)``, ``q' = q ⊕ dt v'``; "euler", the same with
    ``q' = q ⊕ dt v``; "rk4", of order four on the manifold, see runge_kutta.py. Their derivatives are all exact.
    damping: whether joints' viscous friction, the model's ``damping`` [N m s/rad, N s/m], acts. Default: as the format
    of the robot's file has it, ``robot.equipment.damped``: yes for MJCF; no for URDF, SDF and a ``pinocchio.Model``.
    springs: whether joints' springs, ``robot.equipment.stiffness`` [N m/rad, N/m], act. Default: yes, wherever a robot
    has them.
    control_limits (nu, 2): lower and upper limit of each control, ±inf for none, which a ``ddp.Problem`` takes unless
    it is given others. Default: those of the file's actuators; none where ``actuation`` is given, or there are no
    actuators: a URDF's limits of effort are offered, ``control_limits=robot.control_limits``, and not imposed.
    """

    def __init__(
        self, robot: Robot, dt: float, actuation: ArrayLike | None = None, integrator: str = "semi-implicit-euler",
        damping: bool | None = None, springs: bool | None = None, control_limits: ArrayLike | None = None,
    ) -> None:  # fmt: skip
        check_robot(robot, ProblemError)
        choice("integrator", integrator, INTEGRATORS)
        self.robot = robot
        self._nx, self._n = robot.nq + robot.nv, 2 * robot.nv
        self.integrator = integrator
        self.damping = robot.equipment.damped if damping is None else flag("damping", damping)
        self.springs = springs is None or flag("springs", springs)
        self._method = INTEGRATORS[integrator]
        self._stages = len(self._method) - 1
        self._tree = robot.resisting(self.damping, self.springs)
        self._dt = positive("dt", dt)
        if control_limits is None and actuation is None and robot.equipment.drives:
            control_limits = robot.control_limits
        self.actuation = as_array("actuation", robot.actuation if actuation is None else actuation, (robot.nv, None))
        self.actuation = self.actuation.copy()
        if self.actuation.shape[1] == 0:
            raise ProblemError(f"actuation: expected at least one column, got shape {self.actuation.shape}")
        self._nu = int(self.actuation.shape[1])
        if control_limits is None:
            control_limits = np.tile([-np.inf, np.inf], (self._nu, 1))
        self.control_limits = pairs_of_limits("control_limits", control_limits, self._nu, ProblemError)
        self._modes = flatten([(STEP, compile_contacts(robot, ()), 0.0, self._dt)])
        self._layout = free_layout(robot.nq, robot.nv, self._nu)
        self._room_of_contractions = lane_contraction.size(self._tree, robot.nq, self._bent)
        self._written = lane_contraction.written(self._tree, self._bent)
        self._room_of_rollouts = room_of_rollouts(self._tree, robot.nq, self._nu, self._stages)
        if self._stages:
            self._room_of_expansions = room_of_stages(self._tree, robot.nq, self._nu, self._stages)
        else:
            self._room_of_expansions = size(self._tree, self._nu, self.record_size)

    @property
    def nx(self) -> int:
        """Numbers in a state."""
        return self._nx

    @property
    def n(self) -> int:
        """Numbers in a tangent vector of the state, 2 nv."""
        return self._n

    @cached_property
    def semi_implicit(self) -> tuple[float, NDArray[np.int64]] | None:
        """dt, and the rows of joints whose motions do not commute: see `system.Abilities`."""
        if self._stages:
            return None
        tree, bent = self._tree, self._bent
        return self._dt, np.ascontiguousarray(np.stack([tree.iv[bent], tree.nj[bent]], axis=1), dtype=np.int64)

    @cached_property
    def _bent(self) -> NDArray[np.bool_]:
        """Which bodies' joints move by a group that does not commute."""
        return np.isin(self._tree.kind, GROUPS)

    @property
    def thread_safe(self) -> bool:
        """Always: every thread has its own workspace."""
        return True

    @property
    def lanes(self) -> int:
        """How many step lengths a rollout does for the price of one."""
        return QUAD

    @property
    def nu(self) -> int:
        """Controls."""
        return self._nu

    @property
    def dt(self) -> float:
        """Time step [s]."""
        return self._dt

    @cached_property
    def record_size(self) -> int:
        """Floats a knot keeps for its second order: its `Layout`, or what explicit stages keep."""
        _, of_stage = stage_sizes(self.robot.nq, self.robot.nv, self.nu)
        return int(self._stages * of_stage) if self._stages else self._layout.end

    def step(self, x: ArrayLike, u: ArrayLike, first: int = 0) -> Array:
        """The next state: x (nx,), u (nu,) or batches (N, nx), (N, nu). NaN where it diverges."""
        X, U = self._states("x", x), self._batch("u", u, self.nu)
        if len(X) != len(U):
            raise ProblemError(f"u: expected {len(X)} controls for {len(X)} states, got {len(U)}")
        Xn = np.empty_like(X)
        step(*self._roller, X, U, Xn)
        return Xn[0] if axes(x) == 1 else Xn

    def rollout(self, x0: ArrayLike, U: ArrayLike) -> Array:
        """The states (N+1, nx) that controls U (N, nu) lead to from x0; NaN from where it diverges."""
        return self._roll(self._states("x0", x0, (self.nx,))[0], as_array("U", U, (None, self.nu)))

    def _roll(self, x0: Array, U: Array) -> Array:
        X = np.empty((len(U) + 1, self.nx))
        X[0] = x0
        rollout(*self._roller, U, X)
        return X

    def difference(self, x0: ArrayLike, x1: ArrayLike) -> Array:
        """``x1 ⊖ x0``: (n,) or (N, n)."""
        X0, X1, single = _paired("x0", x0, self.nx, "x1", x1, self.nx, np.float64)
        out = np.empty((len(X0), self.n))
        difference_batch(self.robot.tree, X0, X1, out)
        return out[0] if single else out

    def integrate(self, x: ArrayLike, dx: ArrayLike) -> Array:
        """``x ⊕ dx``: (nx,) or (N, nx). A complex dx gives a complex state, for complex-step derivatives."""
        dtype = np.complex128 if any(_is_complex(value) for value in (x, dx)) else np.float64
        X, dX, single = _paired("x", x, self.nx, "dx", dx, self.n, dtype)
        out = np.empty((len(X), self.nx), dtype)
        integrate_batch(self.robot.tree, X, dX, out)
        return np.asarray(out[0] if single else out)

    def check_state(self, field: str, x: ArrayLike) -> None:
        """Raise ProblemError if an x (..., nx) is not a state of this robot."""
        self._states(field, x)

    def linearize(self, x: ArrayLike, u: ArrayLike) -> tuple[Array, Array]:
        """``A (n, n), B (n, nu)`` of one knot, in exponential coordinates."""
        out = self._expand_one(x, u)
        return out.A[0], out.B[0]

    def hessian(self, x: ArrayLike, u: ArrayLike, weight: ArrayLike) -> Array:
        """The exact Hessian (n+nu, n+nu) of ``weight @ (f(x ⊕ dx, u + du) ⊖ f(x, u))`` of one knot."""
        out = self._expand_one(x, u)
        self.expand_second(out.A, out.B, out)
        record = out.record[0]
        H = np.empty((self.n + self.nu, self.n + self.nu))
        self.contract(record[None], as_array("weight", weight, (self.n,))[None], H[None])
        return H

    def nominal_control(self, x: ArrayLike) -> Array:
        """The controls (nu,) that best balance gravity and springs at rest where x is, by least squares."""
        return np.asarray(self._balance @ self.holding_torques(x))

    def holding_torques(self, x: ArrayLike) -> Array:
        """The torques (nv,) that, with springs, keep a robot at rest in the configuration of x."""
        at_rest = as_array("x", x, (self.nx,)).copy()
        at_rest[self.robot.nq :] = 0.0
        q, still = np.split(at_rest, [self.robot.nq])
        return np.asarray(inverse_dynamics(self.robot, q, still, still) - self.passive_torques(at_rest[None])[0])

    def passive_torques(self, X: Array) -> Array:
        """Torques (M, nv) of the springs and the viscous friction that act, at states X (M, nx)."""
        return passive_torques(self._tree, X[:, : self.robot.nq], X[:, self.robot.nq :])

    @cached_property
    def _balance(self) -> Array:
        """The controls (nu, nv) that come closest to torques."""
        return np.asarray(np.linalg.pinv(self.actuation))

    def track(
        self, X: Array, U: Array, k: Array, K: Array, alphas: Array, gaps: Array, lower: Array, upper: Array
    ) -> tuple[Array, Array]:
        """Closed-loop rollouts, one for each alpha: see `System`; NaN from where they diverge."""
        X, U, k, K, gaps = map(np.ascontiguousarray, (X, U, k, K, gaps))
        if not lower.shape == upper.shape == U.shape:
            lower, upper = np.broadcast_to(lower, U.shape), np.broadcast_to(upper, U.shape)
        low, high = np.ascontiguousarray(lower), np.ascontiguousarray(upper)
        Xs, Us = np.empty((len(alphas), *X.shape)), np.empty((len(alphas), *U.shape))
        track(*self._roller, X, U, k, K, alphas, gaps, low, high, Xs, Us)
        return Xs, Us

    @property
    def _roller(self) -> tuple[int, Array, Array, float, Array]:
        """First arguments of the kernels of rollouts."""
        return self._tree.address, arena(self._room_of_rollouts), self.actuation, self._dt, self._method

    def expand(self, X: Array, U: Array, out: Expansion, first: int = 0) -> None:
        """A, B and record of M knots."""
        memory = arena(self._room_of_expansions)
        knots = self.actuation, self._dt, X, U, out.A, out.B, out.record
        if self._stages:
            linearize_explicit(self._tree, memory, self._method, *knots)
        else:
            linearize(self._tree.address, memory, *knots)

    def expand_second(self, X: Array, U: Array, out: Expansion, first: int = 0) -> None:
        """Complete records of semi-implicit steps; those of others are complete."""
        if not self._stages:
            keep_rates(self._dt, out.A, out.B, self._layout.Z, self._layout.ld, out.record)

    def contract(self, record: Array, weight: Array, out: Array) -> None:
        """out (M, n+nu, n+nu): ``hessian`` of M knots, from their records and weights (M, n)."""
        if self._stages:
            contract_rows(*self.contraction()[:2], record, weight, out)
        else:
            memory = arena(hessians.size(self._tree, self._layout, self.robot.nq, self.nu, 0, 0))
            system = self._tree, memory, self._modes, self._layout, self.robot.nq, self.nu
            hessians.contract(*system, record, weight, out)

    @property
    def batched(self) -> bool:
        """Whether many knots are contracted faster than one by one: see `system.Abilities`."""
        return not self._stages

    def contract_batch(self, record: Array, weight: Array, out: Array) -> None:
        """The blocks of M knots of a semi-implicit step: see `system.Abilities`."""
        nq = self.robot.nq
        lane_contraction.contract_knots(
            self._tree.address, arena(self._room_of_contractions), nq, self._dt, self._written, record, weight, out
        )

    def contraction(self) -> Contraction:
        """The compiled second order of single knots."""
        return self._contraction

    @cached_property
    def _contraction(self) -> Contraction:
        if not self._stages:
            return hessians.contraction(self._tree, self.nu, self._modes, self._layout)
        step = ExplicitStep(tree=self._tree, nu=self.nu, h=self._dt, method=self._method)
        return Contraction(explicit_callback().address, step.address, step)

    def closing(self) -> Contraction:
        """Log(Exp(gap) Exp(y)) to second order, compiled; flat where no joint is a free-flyer, spherical or planar."""
        return self._closing

    @cached_property
    def _closing(self) -> Contraction:
        if not self._bent.any():
            return Contraction(0, 0, None)
        return Contraction(closing_callback().address, self._tree.address, self._tree)

    @property
    def tracked(self) -> TrackedRobot:
        """Knowledge that feedback needs: see `system.Abilities`."""
        return TrackedRobot(self)

    def __getstate__(self) -> tuple[Robot, float, Array, str, bool, bool, Array]:
        return (
            self.robot, self._dt, self.actuation, self.integrator, self.damping, self.springs, self.control_limits
        )  # fmt: skip

    def __setstate__(self, state: tuple[Robot, float, Array, str, bool, bool, Array]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def _expand_one(self, x: ArrayLike, u: ArrayLike) -> Expansion:
        X, U = self._states("x", x, (self.nx,)), as_array("u", u, (self.nu,))[None]
        n = self.n
        out = Expansion(np.empty((1, n, n)), np.empty((1, n, self.nu)), np.empty((1, self.record_size)))
        self.expand(X, U, out)
        if not np.isfinite(out.A).all():
            raise ModelError(f"{self.robot.name}: the mass matrix is singular at x = {numbers(X[0])}")
        return out

    def _states(self, field: str, x: ArrayLike, shape: tuple[int, ...] | None = None) -> Array:
        """One state, or a batch if no ``shape`` is asked for, as a batch; ProblemError if one is not a state."""
        X = self._batch(field, x, self.nx) if shape is None else as_array(field, x, shape)[None]
        check_configurations(self.robot, field, X[:, : self.robot.nq], ProblemError)
        return X

    def _batch(self, field: str, value: ArrayLike, size: int) -> Array:
        single = axes(value) < 2
        return as_array(field, value, (size,) if single else (None, size)).reshape(-1, size)

    def __repr__(self) -> str:
        return f"RobotDynamics({self.robot.name!r}, dt={self._dt}, nu={self.nu}, integrator={self.integrator!r})"


def _paired(
    a_field: str, a: ArrayLike, a_size: int, b_field: str, b: ArrayLike, b_size: int, dtype: type
) -> tuple[Array, Array, bool]:
    """Two arguments as batches of one length, and whether both were single samples."""
    if (
        isinstance(a, np.ndarray) and isinstance(b, np.ndarray)
        and a.dtype == b.dtype == dtype and (a.shape, b.shape) == ((a_size,), (b_size,))
    ):  # fmt: skip
        return a[None].copy(), b[None].copy(), True
    try:
        A, B = (_real_or_complex(value, dtype) for value in (a, b))
        N = max(1 if A.ndim == 1 else len(A), 1 if B.ndim == 1 else len(B))
        first: Array = np.array(np.broadcast_to(A, (N, a_size)))
        second: Array = np.array(np.broadcast_to(B, (N, b_size)))
    except Exception:  # whatever numpy, or an object that says it is an array, comes up with
        raise ProblemError(
            f"{a_field}, {b_field}: expected numbers of shapes ({a_size},), ({b_size},) or batches of them,"
            f" got {said(a)}, {said(b)}"
        ) from None
    return first, second, A.ndim == 1 and B.ndim == 1


def _is_complex(value: ArrayLike) -> bool:
    return isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind == "c"


def _real_or_complex(value: ArrayLike, dtype: type) -> Array:
    """An array of ``dtype``, unless that loses what it holds."""
    array = np.asarray(value)
    if array.dtype.kind not in REAL + ("c" if dtype is np.complex128 else "") or np.ma.is_masked(value):
        raise TypeError("expected numbers")
    return array.astype(dtype)
