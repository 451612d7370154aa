"""Cost terms with exact Hessians, for any robot and for plain state spaces.

Each term is half a weighted sum of squares, immutable, checked when it is made, and evaluated for all knots
of a horizon in one compiled call (``values`` and ``expand``, the protocol `ddp.costs.batch.BatchTerm`). For
people and tests, ``value(x, u)``, ``gradient(x, u)`` and ``hessian(x, u)`` do one knot: derivatives by
z = (dx, du) of ``value(x ⊕ dx, u + du)`` at zero.

With residual r(z) and weights W, ``½ rᵀ W r`` has the gradient ``r_zᵀ W r`` and the exact Hessian
``r_zᵀ W r_z + Σ_i (W r)_i r_i,zz``; ``exact=False`` leaves the last sum out (Gauss-Newton).

Weights turn squares into a cost without unit: 1/m², 1/rad², 1/(N m)², ... and per second in running terms,
which are densities. None may be negative. Everything malformed raises ProblemError, naming the field.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ddp.costs.batch import CompiledCost
from ddp.costs.bound import bind
from ddp.errors import ProblemError, as_array, axes, said, suggesting
from ddp.protocols import Array, copied
from ddp.systems.derived_dynamics import as_system, refuse_positions
from ddp.systems.system import System, ability
from ddp.tracing.quantities import Quantity
from dynamics.geometry.solids import Mark
from dynamics.quantities import traced as quantities
from dynamics.quantities.frames import REFERENCES
from dynamics.quantities.whole import POINTS
from dynamics.robots.libraries import pin
from dynamics.robots.model import Robot
from problems import checks
from problems.kernels import states as state_kernels
from problems.kernels.quantities import squared
from problems.layout import Layout, from_the_end, scalar_joints, state_layout
from problems.quadratic_costs import GravityTorqueCost as GravityTorqueCost
from problems.quadratic_costs import Quadratic as Quadratic
from problems.terms import AtPose, ControlTerm, LimitTerm, MovingTerm, OfSystem, PlaceTerm, RobotTerm, StateTerm

SPATIAL = "three linear and three angular ones"
"""Numbers that poses and twists have, for errors."""


@suggesting
@dataclass(frozen=True, eq=False)
class StateCost(OfSystem, MovingTerm, StateTerm):
    """``½ Σ_i w_i (x ⊖ target)_i²``, the difference being a tangent vector at the target.

    dynamics: the system whose states they are.   target_x (nx,), or (M, nx) for each knot of a stretch.
    weights (n,): one for each tangent coordinate, positions before velocities; those of a free-flyer are
    [linear m; angular rad] in the target's axes, then its own velocity. Or one number for all, or a matrix (n, n).
    """

    dynamics: System
    target_x: Array
    weights: Array
    _layout: Layout = field(init=False, repr=False)

    def __post_init__(self) -> None:
        checks.settle(self, dynamics=as_system(self.dynamics))
        refuse_positions("target_x", self.target_x, self.dynamics)
        target = checks.targets("target_x", self.target_x, self.nx)
        self.dynamics.check_state("target_x", target)
        each = "positions before velocities" if ability(self.dynamics, "named_numbers") is not None else ""
        checks.settle(self, target_x=target, weights=checks.weighting("weights", self.weights, self.dynamics.n, each))
        layout = state_layout(self.dynamics)
        layout = layout.weighted(self.weights) if self.weights.ndim == 1 else layout
        checks.settle(self, _layout=layout, _targets=target.reshape(-1, self.nx))

    @property
    def separable(self) -> bool:
        """Whether weights are no matrix, and no joint with motions that do not commute has one."""
        return self.weights.ndim == 1 and len(self._layout.group) == 0

    @property
    def coupled(self) -> int | None:
        """How many numbers joints with motions that do not commute end within: a free-flyer's are the first six."""
        return int(self._layout.group[:, [1, 3]].sum(axis=1).max(initial=0)) if self.weights.ndim == 1 else None

    def _bound(self) -> CompiledCost:
        if self.weights.ndim == 2:
            return bind(state_kernels.state_matrix_cost, self._layout, self._targets, self.weights)
        if len(self._layout.circle) + len(self._layout.group) == 0:
            columns, tangents = self._layout.flat.T
            flat = columns, tangents, self._targets[:, columns], self.weights[tangents]
            return bind(state_kernels.square_cost, *flat, separable=True)
        own = self._layout, self._targets, self.weights
        return bind(state_kernels.state_cost, *own, separable=self.separable)


@suggesting
@dataclass(frozen=True, eq=False)
class ControlCost(ControlTerm):
    """``½ Σ_i w_i (u - target)_i²``; target_u (nu,). At the end of the horizon there is no control.

    weights (nu,), or one number for all, or a matrix (nu, nu).
    """

    target_u: Array
    weights: Array

    def __post_init__(self) -> None:
        if axes(self.target_u) == 0:
            of_all = "a row of numbers, one for each control, as np.zeros(system.nu) is"
            raise ProblemError(f"target_u: expected {of_all}, got {said(self.target_u)}")
        target = as_array("target_u", self.target_u, (None,)).copy()
        checks.settle(self, target_u=target, weights=checks.weighting("weights", self.weights, target.size))

    @property
    def separable(self) -> bool:
        """Whether weights are no matrix."""
        return self.weights.ndim == 1

    def _bound(self) -> CompiledCost:
        if self.weights.ndim == 2:
            no_state = np.zeros((1, 0)), np.zeros((0, 0))
            return bind(state_kernels.quadratic_cost, no_state[0], self.target_u, no_state[1], self.weights)
        rows = from_the_end(self.target_u.size)
        return bind(state_kernels.square_cost, rows, rows, self.target_u[None], self.weights, separable=True)


@suggesting
@dataclass(frozen=True, eq=False)
class ControlLimits(ControlTerm):
    """``½ Σ_i w_i (how far u_i is beyond its limits)²``: zero within them, with a continuous gradient.

    lower, upper (nu,): infinite where there is none.   weights (nu,). ``Problem(control_limits=...)`` is exact instead,
    and takes more iterations where many limits hold.
    The Hessian is that of the quadratic pieces: w_i beyond a limit, 0 within.
    """

    lower: Array
    upper: Array
    weights: Array
    separable = True

    def __post_init__(self) -> None:
        nu = as_array("lower", self.lower, (None,), finite=False).size
        lower, upper = (checks.limits(name, getattr(self, name), nu) for name in ("lower", "upper"))
        checks.ordered(lower, upper)
        checks.settle(self, lower=lower, upper=upper, weights=checks.weights("weights", self.weights, nu))

    def _bound(self) -> CompiledCost:
        own = self.lower, self.upper, self.weights
        return bind(state_kernels.limit_cost, *2 * [from_the_end(self.weights.size)], *own, separable=True)


@suggesting
@dataclass(frozen=True, eq=False)
class JointLimits(LimitTerm):
    """``½ w Σ_j (how far joint j is beyond its limits)²``: zero within them, with a continuous gradient.

    For revolute and prismatic joints [rad, m]; free-flyers and continuous joints have none.
    weight: one number.
    lower, upper (nq,): the model's unless given, infinite where there is none.
    """

    robot: Robot
    weight: float
    lower: Array | None = None
    upper: Array | None = None

    def __post_init__(self) -> None:
        own, joints = checks.robot("robot", self.robot).ranges, scalar_joints(self.robot)
        nq = self.robot.nq
        lower = checks.limits("lower", own.lower if self.lower is None else self.lower, nq)
        upper = checks.limits("upper", own.upper if self.upper is None else self.upper, nq)
        rows = joints.flat[:, 0]
        checks.ordered(lower[rows], upper[rows], rows)
        checks.settle(self, weight=checks.weight("weight", self.weight), lower=lower, upper=upper)
        checks.settle(self, _layout=joints, _bounds=(lower[rows], upper[rows]))

    def ranges(self) -> Iterator[tuple[int, float, float]]:
        """Place in q, lower and upper limit of each joint."""
        lower, upper = self._bounds
        return zip(self._layout.flat[:, 0].tolist(), lower.tolist(), upper.tolist(), strict=True)


class _OfPoint(MovingTerm, PlaceTerm):
    """``½ w |p(q) - target|²`` of a point p of a robot."""

    target_xyz: Array
    weight: float | Array

    def _aim(self) -> None:
        """Check the target and the weight."""
        checks.settle(self, target_xyz=checks.targets("target_xyz", self.target_xyz, 3))
        checks.settle(self, _targets=self.target_xyz.reshape(-1, 3), weight=checks.spatial("weight", self.weight))

    def marks(self) -> list[Mark]:
        """Mark at the target, if it stays in place."""
        at, frame = self._targets[0], getattr(self, "frame", "")
        return [Mark("target", at, at, frame=frame)] if len(self._targets) == 1 else []

    def _squared(self, point: Quantity) -> CompiledCost:
        return squared(point, self._targets, checks.as_matrix(checks.weighting("weight", self.weight, 3)))


@suggesting
@dataclass(frozen=True, eq=False)
class CenterOfMass(_OfPoint):
    """``½ w |c(q) - target|²`` of the centre of mass c in the world.

    target_xyz (3,) [m], or (M, 3) for each knot of a stretch.
    weight: one number, (3,) along the world's axes, or a matrix (3, 3).
    """

    robot: Robot
    target_xyz: Array
    weight: float | Array

    def __post_init__(self) -> None:
        checks.robot("robot", self.robot)
        self._aim()

    def _bound(self) -> CompiledCost:
        return self._squared(quantities.center_of_mass(self.robot))


@suggesting
@dataclass(frozen=True, eq=False)
class FramePose(AtPose, PlaceTerm):
    """``½ Σ_i w_i log6(target⁻¹ oMf)_i²`` of a frame's pose in the world.

    target: a pin.SE3 or a homogeneous (4, 4) matrix, of which a copy is kept, which cannot be written to:
        `Problem.varying` changes it.
    weights (6,): [linear m; angular rad]; or one number for all, or a matrix (6, 6).
    """

    robot: Robot
    frame: str
    target: pin.SE3 = field()
    weights: Array
    _pose: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._aim()
        checks.branch(self.robot, self.frame)
        checks.settle(self, weights=checks.weighting("weights", self.weights, 6, SPATIAL))

    def varied(self, **numbers: Any) -> FramePose:
        """Copy with other numbers, see `Problem.varying`; a target alone is all that is checked."""
        if numbers.keys() != {"target"}:
            return replace(self, **numbers)
        twin = copied(self, "compiled", **numbers)
        twin._aim()
        return twin

    def _bound(self) -> CompiledCost:
        error = quantities.pose_error(self.robot, self.frame, self._pose)
        return squared(error, np.zeros((1, 6)), checks.as_matrix(self.weights))


@suggesting
@dataclass(frozen=True, eq=False)
class FramePosition(_OfPoint):
    """``½ w |p(q) - target|²`` of a frame's origin p in the world.

    target_xyz (3,) [m], or (M, 3) for each knot of a stretch.
    weight: one number, (3,) along the world's axes, or a matrix (3, 3).
    """

    robot: Robot
    frame: str
    target_xyz: Array
    weight: float | Array

    def __post_init__(self) -> None:
        self._aim()
        checks.branch(self.robot, self.frame)

    def _bound(self) -> CompiledCost:
        return self._squared(quantities.frame_position(self.robot, self.frame))


@suggesting
@dataclass(frozen=True, eq=False)
class FrameVelocity(RobotTerm):
    """``½ Σ_i w_i (V - target)_i²`` of a frame's velocity V (6,) = [linear m/s; angular rad/s].

    target (6,) or a pin.Motion; weights (6,), or one number for all, or a matrix (6, 6).
    reference: "local", V in the frame's own axes; "world", the spatial velocity at the world's origin;
    "local-world-aligned", the velocity of the frame's origin in the world's axes.
    """

    robot: Robot
    frame: str
    target: Array
    weights: Array
    reference: str = "local"

    def __post_init__(self) -> None:
        target = self.target
        if hasattr(target, "vector") and isinstance(target, pin.Motion):
            target = target.vector
        checks.one_of("reference", self.reference, REFERENCES)
        checks.branch(self.robot, self.frame)
        checks.settle(self, weights=checks.weighting("weights", self.weights, 6, SPATIAL))
        checks.settle(self, target=as_array("target", target, (6,)).copy())

    def _bound(self) -> CompiledCost:
        velocity = quantities.frame_velocity(self.robot, self.frame, self.reference)
        return squared(velocity, self.target[None], checks.as_matrix(self.weights))


@suggesting
@dataclass(frozen=True, eq=False)
class Energy(RobotTerm):
    """``½ w (E(q, v) - target)²`` of kinetic and potential energy E, zero at the origin's height.

    target [J]; weight: one number [1/J²].
    """

    robot: Robot
    target: float
    weight: float

    def __post_init__(self) -> None:
        checks.robot("robot", self.robot)
        target = float(as_array("target", self.target, ()))
        checks.settle(self, target=target, weight=checks.weight("weight", self.weight))

    def _bound(self) -> CompiledCost:
        return squared(quantities.energy(self.robot), np.full((1, 1), self.target), np.full((1, 1), self.weight))


@suggesting
@dataclass(frozen=True, eq=False)
class Momentum(RobotTerm):
    """``½ Σ_i w_i (h(q, v) - target)_i²`` of the momentum h (6,) in world axes, [linear; angular].

    target (6,) [kg m/s; kg m²/s]; weights (6,).
    about: "center-of-mass" or "origin", what the angular part is about.
    """

    robot: Robot
    target: Array
    weights: Array
    about: str = "center-of-mass"

    def __post_init__(self) -> None:
        checks.robot("robot", self.robot)
        checks.one_of("about", self.about, POINTS)
        target = as_array("target", self.target, (6,)).copy()
        checks.settle(self, target=target, weights=checks.weights("weights", self.weights, 6))

    def _bound(self) -> CompiledCost:
        return squared(quantities.momentum(self.robot, self.about), self.target[None], np.diag(self.weights))
