"""Constraints on robots, with exact Jacobians and curvatures: limits, frames, states, distances to obstacles.

Each is ``lower <= c(x, u) <= upper`` at a knot, immutable, checked when it is made, and evaluated for all knots in one
call (the protocol `ddp.Constraint`). They go into a problem's ``constraints``, ``terminal_constraints`` or
``constraints_at``; those of states among its ``constraints`` hold at the end of the horizon too, unless
``at_end=False``. Units are those of c; everything malformed raises ProblemError, naming the field.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ddp.constraints.bound import CompiledConstraint
from ddp.constraints.compiled import KernelConstraint
from ddp.constraints.selection import combination, selection
from ddp.errors import ProblemError, as_array, axes, instance, suggesting
from ddp.protocols import Array
from ddp.systems.derived_dynamics import as_system
from ddp.systems.system import System
from ddp.tracing.quantities import Quantity
from dynamics.geometry.solids import Mark
from dynamics.phases.phased_dynamics import PhasedDynamics
from dynamics.quantities import traced as quantities
from dynamics.robots.equipment import pairs_of_limits
from dynamics.robots.libraries import pin
from dynamics.robots.model import Robot
from dynamics.steps.names import names_of
from dynamics.steps.robot_dynamics import RobotDynamics
from problems import checks
from problems.frame_limits import CenterOfMassLimits, FramePositionLimits, FrameVelocityLimits
from problems.kernels.quantities import along
from problems.kernels.states import state_error
from problems.layout import Layout, scalar_joints, state_layout
from problems.obstacles import SelfClearance
from problems.state_constraints import RobotConstraint, StateConstraint, group_of, keep_limited, limits_of, magnitudes
from problems.terms import AtPose, OfSystem, OfTorques

__all__ = [
    "CenterOfMassLimits", "FramePoseEquality", "FramePositionEquality", "FramePositionLimits", "FrameVelocityLimits",
    "JointLimits", "RobotConstraint", "SelfClearance", "StateConstraint", "StateEquality", "TorqueLimits",
    "VelocityLimits",
]  # fmt: skip


class _Selection(RobotConstraint):
    """Some numbers of the state, each its own tangent coordinate: rows (index in x, index in the tangent)."""

    _rows: NDArray[np.int64]

    @property
    def row_names(self) -> list[str]:
        """Names of the numbers' joints."""
        _, names, _ = names_of(self.robot, np.zeros((self.robot.nv, 0)))
        return [names[i % self.robot.nv] for i in self._rows[:, 1].tolist()]

    def _bound(self) -> CompiledConstraint:
        return selection(self._rows[:, 0], self._rows[:, 1])


@suggesting
@dataclass(frozen=True, eq=False)
class JointLimits(_Selection):
    """``lower <= q_j <= upper`` of revolute and prismatic joints [rad, m]; free-flyers and continuous joints have none.

    lower, upper: the model's unless given; a number, (nq,) or one for each number of ``joints``; infinite where there
        is none.
    joints: names of those that it is about; default all.
    """

    robot: Robot
    lower: Array = None  # type: ignore[assignment]
    upper: Array = None  # type: ignore[assignment]
    joints: Sequence[str] | None = None
    at_end: bool = True

    def _settle(self) -> None:
        own, nq = checks.robot("robot", self.robot).ranges, self.robot.nq
        group, _ = group_of(self.robot, self.joints)
        lower = limits_of("lower", own.lower if self.lower is None else self.lower, nq, group)
        upper = limits_of("upper", own.upper if self.upper is None else self.upper, nq, group)
        rows = scalar_joints(self.robot).flat
        rows = rows[np.isin(rows[:, 0], group)]
        keep_limited(self, rows, lower[rows[:, 0]], upper[rows[:, 0]])
        if len(self.lower) < len(group):  # copies with other numbers are made of those that are limited
            kept = set(self._rows[:, 0].tolist())
            names = [name for name in self.robot.joint_names if kept.issuperset(self.robot.numbers_of(name)[0])]
            if [number for name in names for number in self.robot.numbers_of(name)[0]] == self._rows[:, 0].tolist():
                checks.settle(self, joints=tuple(names))

    def ranges(self) -> Iterator[tuple[int, float, float]]:
        """Place in q, lower and upper limit of each joint that has some."""
        return zip(self._rows[:, 0].tolist(), self.lower.tolist(), self.upper.tolist(), strict=True)


@suggesting
@dataclass(frozen=True, eq=False)
class VelocityLimits(_Selection):
    """``|v_j| <= limit`` [rad/s, m/s].

    limits: the model's unless given; a number, (nv,) or one for each degree of freedom of ``joints``; infinite where
        there is none.
    joints: names of those that it is about; default all.
    """

    robot: Robot
    limits: Array = None  # type: ignore[assignment]
    joints: Sequence[str] | None = None
    at_end: bool = True

    def _settle(self) -> None:
        own, nq, nv = checks.robot("robot", self.robot).ranges, self.robot.nq, self.robot.nv
        _, group = group_of(self.robot, self.joints)
        limits = magnitudes("limits", own.velocity if self.limits is None else self.limits, nv, group)
        checks.settle(self, limits=limits)
        keep_limited(self, np.stack([nq + group, nv + group], axis=1), -limits[group], limits[group])


@suggesting
@dataclass(frozen=True, eq=False)
class TorqueLimits(OfTorques, KernelConstraint):
    """``lower <= τ_j <= upper`` of the torques τ = S u that a robot's actuation S makes of the controls [N m, N].

    limits: the model's effort limits unless given, where two zeros say that there is none; a number,
        (nv,) or one for each degree of freedom of ``joints``, or lower and upper ones (nv, 2); infinite where there is
        none. Degrees of freedom that no control acts on have none.
    joints: names of those that it is about; default all.
    """

    dynamics: RobotDynamics | PhasedDynamics
    limits: Array = None  # type: ignore[assignment]
    joints: Sequence[str] | None = None
    row_names: tuple[str, ...] = field(init=False, repr=False)
    _actuation: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        instance("dynamics", self.dynamics, (RobotDynamics, PhasedDynamics), "RobotDynamics or PhasedDynamics")
        robot, S = self.dynamics.robot, self.dynamics.actuation
        _, group = group_of(robot, self.joints)
        limits = robot.ranges.effort if self.limits is None else self.limits
        if axes(limits) == 2:
            limits = pairs = pairs_of_limits("limits", limits, robot.nv, ProblemError)
        else:
            limits = magnitudes("limits", limits, robot.nv, group)
            pairs = np.stack([-limits, limits], axis=1)
        finite = np.isfinite(pairs).any(axis=1)
        held = np.flatnonzero(finite & S.any(axis=1) & np.isin(np.arange(robot.nv), group))
        if not held.size:
            raise ProblemError(
                "limits: expected at least one that is finite, of a degree of freedom that is actuated: give"
                " limits= where the robot's file has none. Limits of controls, as an MJCF's ctrlrange, hold anyway"
            )
        _, names, _ = names_of(robot, S)
        held_names = tuple(names[i] for i in held)
        bounds = {"lower": pairs[held, 0], "upper": pairs[held, 1]}
        checks.settle(self, limits=limits, **bounds, row_names=held_names, _actuation=S[held].copy())

    @property
    def of_states(self) -> NDArray[np.bool_]:
        """No row (size,)."""
        return np.zeros(len(self.lower), dtype=bool)

    def _checked(self, X: Array, U: Array) -> tuple[Array, Array]:
        return np.ascontiguousarray(X, dtype=np.float64), checks.rows("controls", U, self.dynamics.nu)

    def _bound(self) -> CompiledConstraint:
        S, (nx, n) = self._actuation, (self.dynamics.nx, self.dynamics.n)
        if ((S != 0.0).sum(axis=1) == 1).all():
            acting = np.argmax(S != 0.0, axis=1)
            return selection(nx + acting, n + acting, S[np.arange(len(S)), acting])
        acting = np.flatnonzero(S.any(axis=0))
        return combination(nx + acting, n + acting, S[:, acting])


@suggesting
@dataclass(frozen=True, eq=False)
class StateEquality(OfSystem, StateConstraint):
    """``x = target_x``: c = x ⊖ target_x (n,) in the tangent space at the target."""

    dynamics: System
    target_x: Array
    at_end: bool = True
    movable: ClassVar[tuple[str, ...]] = ("target_x",)
    _layout: Layout = field(init=False, repr=False)

    def _settle(self) -> None:
        checks.settle(self, dynamics=as_system(self.dynamics))
        target = as_array("target_x", self.target_x, (self.nx,)).copy()
        self.dynamics.check_state("target_x", target)
        zeros = np.zeros(self.dynamics.n)
        checks.settle(self, target_x=target, lower=zeros, upper=zeros, _layout=state_layout(self.dynamics))

    def _bound(self) -> CompiledConstraint:
        layout, every = self._layout, np.arange(self.n)
        if len(layout.flat) == self.n:
            places = layout.flat[np.argsort(layout.flat[:, 1]), 0]
            return selection(places, every, offset=self.target_x[places])
        return along(Quantity("state_error", self, self.n, (), every, state_error, (layout, self.target_x)))


@suggesting
@dataclass(frozen=True, eq=False)
class FramePositionEquality(RobotConstraint):
    """``p(q) = target`` of a frame's origin p in the world: c = p - target (3,) [m]."""

    robot: Robot
    frame: str
    target_xyz: Array
    at_end: bool = True
    row_names = "x", "y", "z"
    movable: ClassVar[tuple[str, ...]] = ("target_xyz",)

    def _settle(self) -> None:
        checks.settle(self, target_xyz=as_array("target_xyz", self.target_xyz, (3,)).copy())
        checks.branch(self.robot, self.frame)
        checks.settle(self, lower=np.zeros(3), upper=np.zeros(3))

    def marks(self) -> list[Mark]:
        """Mark at the target."""
        return [Mark("target", self.target_xyz, self.target_xyz, frame=self.frame)]

    def _bound(self) -> CompiledConstraint:
        return along(quantities.frame_position(self.robot, self.frame), np.eye(3), self.target_xyz)


@suggesting
@dataclass(frozen=True, eq=False)
class FramePoseEquality(AtPose, RobotConstraint):
    """``oMf(q) = target``: c = log6(target⁻¹ oMf) (6,) [linear m; angular rad].

    target: a pin.SE3 or a homogeneous (4, 4) matrix, of which a copy is kept, which cannot be written to:
        `Problem.varying` changes it.
    """

    robot: Robot
    frame: str
    target: pin.SE3 = field()
    at_end: bool = True
    movable: ClassVar[tuple[str, ...]] = ("target",)
    _pose: Array = field(init=False, repr=False)

    def _settle(self) -> None:
        self._aim()
        checks.branch(self.robot, self.frame)
        checks.settle(self, lower=np.zeros(6), upper=np.zeros(6))

    def _bound(self) -> CompiledConstraint:
        return along(quantities.pose_error(self.robot, self.frame, self._pose))
