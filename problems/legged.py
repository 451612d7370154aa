"""Any schedule of any legs as one hybrid problem: phases of contacts, and an impact where feet touch down.

Weights have no unit but those named: lengths count in heights of the centre of mass above the feet h, forces in weights
m g, torques in m g h, speeds in √(g h), rates in √(g / h), angles in radians. So the same weights fit a robot of 2 kg
and one of 90 kg.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import pinocchio as pin

from ddp.costs.batch import BatchTerm
from ddp.costs.stretches import weights_of
from ddp.errors import ProblemError, positive, said
from ddp.problem import Problem
from ddp.protocols import Array, Constraint
from dynamics.phases.phase import Phase, stretches
from dynamics.phases.phased_dynamics import PhasedDynamics
from dynamics.quantities.quantities import frame_velocity_derivatives
from dynamics.quantities.units import Units
from dynamics.rigid_bodies.rigid_body import inverse_dynamics
from dynamics.robots.model import Robot
from problems import checks
from problems.constraints import FramePoseEquality, FramePositionEquality
from problems.contact_costs import StateLimits, friction_cone, friction_constraint
from problems.costs import ControlCost, ControlLimits, FramePose, FramePosition, FrameVelocity, StateCost
from problems.layout import scalar_joints
from problems.legs import Stance
from problems.strides import Strides

FACES, PART, MARGIN = 8, 0.9, 0.01
"""Pyramid inside a cone of friction: its faces; the part of it that forces may use before they cost; and a margin
within that, in units of the robot's weight, so that a foot that presses lightly does not slip either."""

SOLE = (0.08, 0.04)
"""Half length and half width [m] of feet that are surfaces."""


EFFORT, GRIP = 0.9, 0.65
"""Shares of limits of control and of friction that plans may use: what is left is the feedback's."""


@dataclass(frozen=True)
class Weights:
    """Weights of a gait's costs, per second unless said otherwise; units as in the module's docstring.

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
        for field in fields(self):
            object.__setattr__(self, field.name, checks.weight(f"weights.{field.name}", getattr(self, field.name)))


def legged(
    laid: Strides,
    weights: Weights | None = None,
    friction: float = 0.7,
    gains: tuple[float, float] | None = None,
    sole: tuple[float, float] = SOLE,
    cones: str = "barrier",
    footholds: str = "cost",
    impulses: str = "cost",
    effort: float | None = EFFORT,
    grip: float = GRIP,
) -> Problem:
    """The problem of moving along strides; its guess is to `follow_nominal`.

    friction: the coefficient between feet and ground; forces are kept within a pyramid of eight faces inside the cone
    of its share ``grip``.
    gains (1/s², 1/s): of Baumgarte's stabilisation, that pull feet which stand to where they should and slow them down,
    but for an error in proportion to dt²; by default every step of time ends with feet exactly where they stand.
    sole: half length and half width [m] of feet that are surfaces.
    cones: "barrier", a cost on forces near and beyond their cones; or "constraint": moreover, none leaves its cone.
    footholds: "cost" on where feet touch down; or "constraint": moreover, they do so in their places.
    impulses: "cost" on impulses beyond their cones; or "constraint": moreover, none leaves its cone. That is hard to
    solve: gaits touch down so softly that impulses are near the tips of their cones.
    effort: share of the robot's limits of control that the plan may use, but for a few per cent; None: all and more.
    grip: share of ``friction`` that it may use. Feedback has the rest of both.
    """
    for field, value, kind in (("laid", laid, Strides), ("weights", weights, Weights)):
        if not isinstance(value, kind) and not (value is None and field == "weights"):
            raise ProblemError(f"{field}: expected {kind.__name__}, got {said(value)}")
    checks.one_of("cones", cones, ("barrier", "constraint"))
    checks.one_of("footholds", footholds, ("cost", "constraint"))
    checks.one_of("impulses", impulses, ("cost", "constraint"))
    held, gains = gains is None, (0.0, 0.0) if gains is None else gains
    w, stance = Weights() if weights is None else weights, laid.stance
    robot, h = stance.robot, stance.height
    g, mu, inside = stance.gravity, positive("friction", friction), positive("grip", grip) * np.cos(np.pi / FACES)
    phases = []
    for i in range(len(laid.counts)):
        contacts = laid.contacts(i, gains)
        phases.append(Phase(contacts, laid.counts[i], contacts if i in laid.impacts else (), held=held))
    system = PhasedDynamics(robot, laid.dt, phases, control_limits=robot.control_limits)
    state = _state_weights(stance, w)
    cheap = ControlCost(np.zeros(system.nu), np.full(system.nu, w.torque / (stance.weight * h) ** 2))
    limits = StateLimits(robot, *_joint_limits(robot), w.limits)
    always = [cheap, limits, *_torque_limits(robot, effort, w)]
    during: dict[range, list[BatchTerm]] = {}
    at: dict[int, list[BatchTerm]] = {}
    constraints: dict[int | range, list[Constraint]] = {}
    size = sole if stance.surface else None
    for i in range(len(laid.counts)):
        knots = laid.knots(i)
        terms: list[BatchTerm] = [StateCost(system, laid.X[knots.start : knots.stop], state), *always]
        contacts = laid.contacts(i, gains)
        if contacts:
            weight, margin = w.friction / stance.weight**2, MARGIN * stance.weight
            terms.append(
                friction_cone(
                    system, contacts, mu, weight, faces=FACES, inside=PART * inside, margin=margin, sole=size,
                    phase=i,
                )
            )
        if contacts and cones == "constraint":
            constraints[knots] = [
                friction_constraint(system, contacts, mu, faces=FACES, inside=inside, sole=size, phase=i)
            ]
        for foot, path in laid.paths(i).items():
            terms.append(FramePosition(robot, foot, path, w.foot / h**2))
            if stance.surface:
                terms.append(FramePose(robot, foot, _next_hold(laid, foot, i), np.repeat([0.0, w.foot], 3)))
        during[knots] = terms
        if i in laid.impacts:
            knot = laid.impacts[i]
            at[knot] = _landing(laid, i, w, h, g)
            weight = w.impulse / (stance.mass**2 * g * h)
            at[knot].append(
                friction_cone(system, contacts, mu, weight, faces=FACES, inside=inside, sole=size, restitution=0.0)
            )
            if impulses == "constraint":
                constraints[knot] = [
                    friction_constraint(system, contacts, mu, faces=FACES, inside=inside, sole=size, restitution=0.0)
                ]
            if footholds == "constraint":
                constraints.setdefault(knot, []).extend(_footholds(laid, i))
    end = StateCost(system, laid.X[-1], w.final * np.sqrt(h / g) * state)
    x0 = laid.X[0].copy()
    x0[: robot.nq], x0[robot.nq :] = stance.q, 0.0
    problem = Problem(
        dynamics=system, running=[], terminal=[end, limits], x0=x0, horizon=system.knots, at=at, during=during,
        constraints_at=constraints, control_limits=(-np.inf, np.inf),
    )  # fmt: skip
    return problem.with_guess(follow_nominal(problem))


def _state_weights(stance: Stance, w: Weights) -> Array:
    base, robot = stance.robot.floating_dofs, stance.robot
    if len(base) != 6 or base[0] != 0:
        raise ProblemError(f"robot: expected one free-flying base before all joints, got {robot.name}")
    units = Units(stance.height, stance.mass, stance.gravity)
    return units.of_state(robot.nv - 6, w.position, w.rotation, w.posture, w.velocity, w.turning, w.speed)


def _torque_limits(robot: Robot, effort: float | None, w: Weights) -> list[BatchTerm]:
    """Cost on controls beyond their share of the limits, if there are any."""
    size = np.abs(robot.control_limits).max(axis=1)
    if effort is None or not np.isfinite(size).any():
        return []
    share = positive("effort", effort)
    weights = np.where(np.isfinite(size), w.effort / np.where(np.isfinite(size), size, 1.0) ** 2, 0.0)
    lower, upper = share * robot.control_limits.T
    return [ControlLimits(lower, upper, weights)]


def _joint_limits(robot: Robot) -> tuple[Array, Array]:
    """The model's limits of angles as those of tangent coordinates (n,)."""
    lower, upper = np.full(2 * robot.nv, -np.inf), np.full(2 * robot.nv, np.inf)
    for q, v in scalar_joints(robot).flat:
        low, high = robot.model.lowerPositionLimit[q], robot.model.upperPositionLimit[q]
        if low < high and abs(low) < 1e10 and abs(high) < 1e10:
            lower[v], upper[v] = low, high
    return lower, upper


def _next_hold(laid: Strides, foot: str, i: int) -> pin.SE3:
    """Pose at which a sole that swings in phase i stands next, or else stood before."""
    order = [*range(i, len(laid.holds)), *range(i, -1, -1)]
    return next(laid.holds[k][foot] for k in order if foot in laid.holds[k])


def _landing(laid: Strides, i: int, w: Weights, h: float, g: float) -> list[BatchTerm]:
    """Terms of a touch-down: on feet's distance from their places, and on their speed."""
    robot = laid.stance.robot
    terms: list[BatchTerm] = []
    for foot in laid.schedule.landing(i):
        hold = laid.holds[i][foot]
        if laid.stance.surface:
            terms.append(FramePose(robot, foot, hold, np.repeat([w.landing / h**2, w.landing], 3)))
        else:
            terms.append(FramePosition(robot, foot, hold.translation, w.landing / h**2))
        slow = np.repeat([w.landing_speed / (g * h), 0.0], 3)
        terms.append(FrameVelocity(robot, foot, np.zeros(6), slow, "local-world-aligned"))
    return terms


def _footholds(laid: Strides, i: int) -> list[Constraint]:
    """Constraints that feet touch down in their places."""
    robot, holds = laid.stance.robot, laid.holds[i]
    if laid.stance.surface:
        return [FramePoseEquality(robot, foot, holds[foot]) for foot in laid.schedule.landing(i)]
    return [FramePositionEquality(robot, foot, holds[foot].translation) for foot in laid.schedule.landing(i)]


def follow_nominal(problem: Problem) -> tuple[Array, Array]:
    """The guess (X, U): the nominal states, and the torques that, with the feet's forces, come closest to moving so.

    The nominal states are those that the state costs pull to; torques follow by inverse dynamics and least squares.
    """
    system = problem.dynamics if isinstance(problem, Problem) else None
    if not isinstance(system, PhasedDynamics):
        got = said(problem) if system is None else f"one of {said(system)}"
        raise ProblemError(f"problem: expected a gait, got {got}")
    nq, N = system.robot.nq, problem.horizon
    X = np.tile(problem.x0, (N + 1, 1))
    for stretch, terms in problem.during.items():
        for term in terms:
            if isinstance(term, StateCost):
                X[stretch.start : stretch.stop] = term.target_x
    X[-1] = next(term.target_x for term in problem.terminal if isinstance(term, StateCost))
    X[0] = problem.x0
    for k in range(1, N):
        if system.is_impact(k):
            X[k] = np.concatenate([X[k + 1, :nq], X[k - 1, nq:]])
    return X, _torques(system, X)


def _torques(system: PhasedDynamics, X: Array) -> Array:
    """U (N, nu) of least norm that, with contact forces, comes closest to the accelerations along X (N+1, nx)."""
    robot, N = system.robot, len(X) - 1
    Q, V = X[:N, : robot.nq], X[:, robot.nq :]
    steps = weights_of(system, N)[:, None]
    tau = inverse_dynamics(robot, Q, V[:-1], np.diff(V, axis=0) / steps) - system.passive_torques(X[:N])
    U = np.zeros((N, system.nu))
    for phase, knots in zip(system.phases, stretches(system.phases), strict=True):
        if not knots:
            continue
        at = slice(knots.start, knots.stop)
        actions = [np.broadcast_to(system.actuation, (len(knots), *system.actuation.shape))]
        for contact in phase.contacts:
            J = frame_velocity_derivatives(robot, Q[at], 0.0 * V[:-1][at], contact.frame, contact.reference).dv
            actions.append(np.swapaxes(J[:, : contact.size], 1, 2))
        both = np.linalg.pinv(np.concatenate(actions, axis=2)) @ tau[at][:, :, None]
        U[at] = both[:, : system.nu, 0]
    return U
