"""Cost terms of gaits, in units of the robot that stands; `legged` and `walking` place them along their horizons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from ddp.costs.batch import BatchTerm
from ddp.errors import ProblemError, positive, settle_by, suggesting
from ddp.protocols import Array
from dynamics.contacts.contact import Contact
from dynamics.phases.phased_dynamics import PhasedDynamics
from dynamics.quantities.units import Units, forces_of
from dynamics.robots.libraries import pin
from dynamics.robots.model import Robot
from problems import checks
from problems.contact_costs import ForceLimits, friction_cone
from problems.costs import ControlCost, ControlLimits, FramePose, FramePosition, FrameVelocity, JointLimits, StateCost
from problems.legs import Stance

FACES, PART, MARGIN = 8, 0.9, 0.01
"""Pyramid inside a cone of friction: its faces; the part of it that forces may use before they cost; and a margin
within that, in units of the robot's weight, so that a foot that presses lightly does not slip either."""

SOLE = (0.08, 0.04)
"""Half length and half width [m] of feet that are surfaces."""

EFFORT, GRIP = 0.9, 0.65
"""Shares of limits of control and of friction that plans may use: what is left is the feedback's."""


@suggesting
@dataclass(frozen=True)
class Weights:
    """Weights of a gait's costs, per second unless said otherwise; units as in the docstring of `legged`'s module.

    torque [1/(m g h)²].   position [1/h²] and rotation [1/rad²] of the base, posture [1/rad²] of the joints, about
    their nominal path; velocity [1/(g h)] and turning [h/g] of the base, speed [h/g] of the joints.
    foot [1/h²]: swinging feet about their paths.   friction [1/(m g)²]: forces beyond their cones.   limits [1/rad²]:
    joints beyond their limits.   landing [1/h²], landing_speed [1/(g h)]: of feet where they touch down, once.
    impulse [1/(m² g h)]: impulses of touch-down beyond their cones, once.
    final: factor on the weights of the state at the end, once, in units of √(h/g).   effort [1/limit²]: controls beyond
    their share of the robot's limits.
    """

    torque: float = 1.0
    position: float = 10.0
    rotation: float = 30.0
    posture: float = 0.3
    velocity: float = 1.0
    turning: float = 0.3
    speed: float = 0.01
    foot: float = 3e3
    friction: float = 30.0
    limits: float = 100.0
    landing: float = 1e5
    landing_speed: float = 300.0
    impulse: float = 10.0
    final: float = 10.0
    effort: float = 100.0

    def __post_init__(self) -> None:
        settle_by(self, checks.weight, *(field.name for field in fields(self)), of="weights.")

    def of_state(self, units: Units, robot: Robot) -> Array:
        """Weights (n,) of a tangent state, in SI units."""
        base = self.position, self.rotation, self.posture
        return units.of_state(robot.nv - 6, *base, self.velocity, self.turning, self.speed)


@dataclass(frozen=True, eq=False)
class GaitTerms:
    """The terms of a robot's gaits; see `legged.legged` for the fields."""

    stance: Stance
    weights: Weights
    friction: float = 0.7
    grip: float = GRIP
    effort: float | None = EFFORT
    sole: tuple[float, float] = SOLE

    def __post_init__(self) -> None:
        settle_by(self, positive, "friction", "grip", *(() if self.effort is None else ("effort",)))

    @property
    def inside(self) -> float:
        """Part of the friction's coefficient that forces may use: of its share, the pyramid inside the cone."""
        return float(self.grip * np.cos(np.pi / FACES))

    @property
    def size(self) -> tuple[float, float] | None:
        """Half length and half width [m] of feet, None for points."""
        return self.sole if self.stance.surface else None

    @cached_property
    def state(self) -> Array:
        """Weights (n,) of a state's distance from its nominal one."""
        base, robot, w = self.stance.robot.floating_dofs, self.stance.robot, self.weights
        if len(base) != 6 or base[0] != 0:
            raise ProblemError(f"robot: expected one free-flying base before all joints, got {robot.name}")
        units = Units(self.stance.height, self.stance.mass, self.stance.gravity)
        return w.of_state(units, robot)

    def follow(self, system: PhasedDynamics, X: Array) -> StateCost:
        """Distance from nominal states, X (nx,) or (M, nx)."""
        return StateCost(system, X, self.state)

    def end(self, system: PhasedDynamics, x: Array) -> StateCost:
        """Distance from the nominal state x (nx,) at the end, once."""
        return StateCost(system, x, self.weights.final * self.stance.unit * self.state)

    @cached_property
    def limits(self) -> JointLimits:
        """Joints beyond their limits, of those that have a range."""
        robot, (lower, upper, *_) = self.stance.robot, self.stance.robot.ranges
        fixed = lower >= upper
        within = np.where(fixed, -np.inf, lower), np.where(fixed, np.inf, upper)
        return JointLimits(robot, self.weights.limits, *within)

    def always(self, nu: int) -> list[BatchTerm]:
        """Terms of every knot: of controls, of joints' limits, and of controls beyond their share of the limits."""
        w, stance, bounds = self.weights, self.stance, self.stance.robot.control_limits
        made = forces_of(stance.robot.actuation)
        cheap = ControlCost(np.zeros(nu), w.torque / (stance.weight * stance.height) ** 2 * made**2)
        size = np.abs(np.where(np.isfinite(bounds), bounds, 0.0)).max(axis=1)  # of one side alone, where one has none
        if self.effort is None or not size.any():
            return [cheap, self.limits]
        weights = np.where(size > 0.0, w.effort / np.where(size > 0.0, size, 1.0) ** 2, 0.0)
        lower, upper = self.effort * bounds.T
        return [cheap, self.limits, ControlLimits(lower, upper, weights)]

    def forces(self, system: PhasedDynamics, contacts: Sequence[Contact], phase: int | None = None) -> ForceLimits:
        """Forces beyond their cones, with a margin."""
        weight, margin = self.weights.friction / self.stance.weight**2, MARGIN * self.stance.weight
        return friction_cone(
            system, contacts, self.friction, weight, faces=FACES, inside=PART * self.inside, margin=margin,
            sole=self.size, phase=phase,
        )  # fmt: skip

    def impulses(self, system: PhasedDynamics, contacts: Sequence[Contact]) -> ForceLimits:
        """Impulses of a touch-down beyond their cones."""
        stance = self.stance
        weight = self.weights.impulse / (stance.mass**2 * stance.gravity * stance.height)
        return friction_cone(
            system, contacts, self.friction, weight, faces=FACES, inside=self.inside, sole=self.size, restitution=0.0
        )

    def path(self, foot: str, places: Array) -> FramePosition:
        """Distance of a swinging foot from its path (M, 3) [m]."""
        return FramePosition(self.stance.robot, foot, places, self.weights.foot / self.stance.height**2)

    def turned(self, foot: str, pose: pin.SE3) -> FramePose:
        """Distance of a swinging sole from the attitude of a pose."""
        return FramePose(self.stance.robot, foot, pose, np.repeat([0.0, self.weights.foot], 3))

    def landing(self, foot: str, pose: pin.SE3) -> list[BatchTerm]:
        """Distance of a foot that touches down from its place, and its speed."""
        w, stance = self.weights, self.stance
        weight = w.landing / stance.height**2
        slow = np.repeat([w.landing_speed / (stance.gravity * stance.height), 0.0], 3)
        speed = FrameVelocity(stance.robot, foot, np.zeros(6), slow, "local-world-aligned")
        if stance.surface:
            return [FramePose(stance.robot, foot, pose, np.repeat([weight, w.landing], 3)), speed]
        return [FramePosition(stance.robot, foot, pose.translation, weight), speed]
