"""A robot as a discrete-time system: steps on the configuration manifold, exact to second order."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ddp.errors import ModelError, choice, numbers
from ddp.system import Contraction, Expansion
from dynamics.arrays.lanes import arena
from dynamics.contacts.contact import compile_contacts
from dynamics.robots.model import Robot
from dynamics.steps import lane_contraction, runge_kutta, runge_kutta_linearization
from dynamics.steps.contraction import contract_rows, explicit_contraction
from dynamics.steps.linearization import keep_rates, linearize, size
from dynamics.steps.modes import STEP, Layout, Mode, free_layout
from dynamics.steps.rollouts import FREE
from dynamics.steps.stepped_robot import SteppedRobot
from dynamics.steps.tracking import TrackedRobot

Array = NDArray[np.float64]


class RobotDynamics(SteppedRobot):
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
        super().__init__(robot, dt, actuation, damping, springs, control_limits)
        choice("integrator", integrator, runge_kutta.INTEGRATORS)
        self.integrator = integrator
        method, free = runge_kutta.INTEGRATORS[integrator], Mode(STEP, compile_contacts(robot, ()), 0.0, self._dt)
        self._stages = len(method) - 1
        layout = free_layout(robot.nq, robot.nv, self.nu)
        if self._stages:
            end = self._stages * runge_kutta_linearization.stage_sizes(robot.nq, robot.nv, self.nu)[1]
            layout = Layout(end, end, end, end, 0, 0)
            self._room_of_expansions = runge_kutta_linearization.size(self._tree, robot.nq, self.nu, self._stages)
        else:
            self._room_of_expansions = size(self._tree, self.nu, layout.end)
        self._compose([free], [], method, layout, FREE)
        self._room_of_batches = lane_contraction.size(self._tree, robot.nq, self._bent)
        self._written = lane_contraction.written(self._tree, self._bent)

    @cached_property
    def semi_implicit(self) -> tuple[float, NDArray[np.int64]] | None:
        """dt, and the rows of joints whose motions do not commute: see `system.Abilities`."""
        if self._stages:
            return None
        tree, bent = self._tree, self._bent
        return self._dt, np.ascontiguousarray(np.stack([tree.iv[bent], tree.nj[bent]], axis=1), dtype=np.int64)

    def nominal_control(self, x: ArrayLike) -> Array:
        """The controls (nu,) that best balance gravity and springs at rest where x is, by least squares."""
        return np.asarray(self._balance @ self.holding_torques(x))

    @cached_property
    def _balance(self) -> Array:
        """The controls (nu, nv) that come closest to torques."""
        return np.asarray(np.linalg.pinv(self.actuation))

    def expand(self, X: Array, U: Array, out: Expansion, first: int = 0) -> None:
        """A, B and record of M knots."""
        expand = runge_kutta_linearization.linearize_explicit if self._stages else linearize
        expand(self._modes.address, arena(self._room_of_expansions), X, U, out.A, out.B, out.record)

    def expand_second(self, X: Array, U: Array, out: Expansion, first: int = 0) -> None:
        """Complete records of semi-implicit steps; those of others are complete."""
        if not self._stages:
            keep_rates(self._dt, out.A, out.B, self._layout.Z, self._layout.ld, out.record)

    def contract(self, record: Array, weight: Array, out: Array) -> None:
        """out (M, n+nu, n+nu): ``hessian`` of M knots, from their records and weights (M, n)."""
        if self._stages:
            contract_rows(*self.contraction()[:2], record, weight, out)
        else:
            super().contract(record, weight, out)

    @property
    def batched(self) -> bool:
        """Whether many knots are contracted faster than one by one: see `system.Abilities`."""
        return not self._stages

    def contract_batch(self, record: Array, weight: Array, out: Array) -> None:
        """The blocks of M knots of a semi-implicit step: see `system.Abilities`."""
        nq = self.robot.nq
        lane_contraction.contract_knots(
            self._tree.address, arena(self._room_of_batches), nq, self._dt, self._written, record, weight, out
        )

    @cached_property
    def _contraction(self) -> Contraction:
        return explicit_contraction(self._modes) if self._stages else super()._contraction

    def _undefined(self, x: Array, knot: int) -> ModelError:
        return ModelError(f"{self.robot.name}: the mass matrix is singular at x = {numbers(x)}")

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

    def __repr__(self) -> str:
        return f"RobotDynamics({self.robot.name!r}, dt={self._dt}, nu={self.nu}, integrator={self.integrator!r})"
