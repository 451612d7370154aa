"""Any schedule of any legs as one hybrid problem: phases of contacts, and an impact where feet touch down.

Weights have no unit but those named: lengths count in heights of the centre of mass above the feet h, forces in weights
m g, torques in m g h, speeds in √(g h), rates in √(g / h), angles in radians. So the same weights fit a robot of 2 kg
and one of 90 kg.
"""

from __future__ import annotations

from dataclasses import fields
from functools import partial

import numpy as np

from ddp.costs.batch import BatchTerm, weights_of
from ddp.errors import ProblemError, instance, said, suggesting
from ddp.problem import Problem
from ddp.protocols import Array, Constraint
from ddp.solutions.solution import Solution
from ddp.systems.system import Tracking
from dynamics.phases.phase import Phase, stretches
from dynamics.phases.phased_dynamics import PhasedDynamics
from dynamics.quantities.quantities import frame_velocity_derivatives
from dynamics.rigid_bodies.rigid_body import inverse_dynamics
from dynamics.robots.libraries import pin
from problems import checks
from problems.constraints import FramePoseEquality, FramePositionEquality
from problems.contact_costs import friction_constraint
from problems.costs import StateCost
from problems.gait_terms import EFFORT, FACES, GRIP, SOLE, GaitTerms
from problems.gait_terms import Weights as Weights
from problems.strides import Strides

WEIGHED = f"gaits.Weights(...) with fields {', '.join(field.name for field in fields(Weights))}"
"""Weights in words."""


@suggesting
def legged(
    laid: Strides,
    weights: Weights | None = None,
    friction: float = 0.7,
    gains: tuple[float, float] | None = None,
    sole: tuple[float, float] = SOLE,
    cones: str = "barrier",
    footholds: str = "cost",
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
    effort: share of the robot's limits of control that the plan may use, but for a few per cent; None: all and more.
    grip: share of ``friction`` that it may use. Feedback has the rest of both.
    """
    weights = Weights() if weights is None else weights
    instance("laid", laid, Strides, "Strides")
    instance("weights", weights, Weights, WEIGHED)
    checks.one_of("cones", cones, ("barrier", "constraint"))
    checks.one_of("footholds", footholds, ("cost", "constraint"))
    held, gains = gains is None, (0.0, 0.0) if gains is None else gains
    stance = laid.stance
    robot = stance.robot
    own = GaitTerms(stance, weights, friction, grip, effort, sole)
    phases = []
    for i in range(len(laid.counts)):
        contacts = laid.contacts(i, gains)
        phases.append(Phase(contacts, laid.counts[i], contacts if i in laid.impacts else (), held=held))
    system = PhasedDynamics(robot, laid.dt, phases, control_limits=robot.control_limits)
    always = own.always(system.nu)
    within = partial(friction_constraint, system, mu=own.friction, faces=FACES, inside=own.inside, sole=own.size)
    during: dict[range, list[BatchTerm]] = {}
    at: dict[int, list[BatchTerm]] = {}
    constraints: dict[int | range, list[Constraint]] = {}
    for i in range(len(laid.counts)):
        knots = laid.knots(i)
        terms: list[BatchTerm] = [own.follow(system, laid.X[knots.start : knots.stop]), *always]
        contacts = laid.contacts(i, gains)
        if contacts:
            terms.append(own.forces(system, contacts, i))
        if contacts and cones == "constraint":
            constraints[knots] = [within(contacts, phase=i)]
        for foot, path in laid.paths(i).items():
            terms.append(own.path(foot, path))
            if stance.surface:
                terms.append(own.turned(foot, _next_hold(laid, foot, i)))
        during[knots] = terms
        if i in laid.impacts:
            knot, landing = laid.impacts[i], laid.schedule.landing(i)
            at[knot] = [term for foot in landing for term in own.landing(foot, laid.holds[i][foot])]
            at[knot].append(own.impulses(system, contacts))
            if footholds == "constraint":
                constraints[knot] = _footholds(laid, i)
    x0 = laid.X[0].copy()
    x0[: robot.nq], x0[robot.nq :] = stance.q, 0.0
    problem = Problem(
        dynamics=system, running=[], terminal=[own.end(system, laid.X[-1]), own.limits], x0=x0, horizon=system.knots,
        at=at, during=during, constraints_at=constraints, control_limits=(-np.inf, np.inf),
    )  # fmt: skip
    return problem.with_guess(follow_nominal(problem))


def _next_hold(laid: Strides, foot: str, i: int) -> pin.SE3:
    """Pose at which a sole that swings in phase i stands next, or else stood before."""
    order = [*range(i, len(laid.holds)), *range(i, -1, -1)]
    return next(laid.holds[k][foot] for k in order if foot in laid.holds[k])


def _footholds(laid: Strides, i: int) -> list[Constraint]:
    """Constraints that feet touch down in their places."""
    robot, holds = laid.stance.robot, laid.holds[i]
    if laid.stance.surface:
        return [FramePoseEquality(robot, foot, holds[foot]) for foot in laid.schedule.landing(i)]
    return [FramePositionEquality(robot, foot, holds[foot].translation) for foot in laid.schedule.landing(i)]


def tracking(solution: Solution, weights: Weights) -> Tracking:
    """Weights of feedback along a solved gait, ``solution.feedback(weights=tracking(solution, weights))``.

    weights: of the state, torque and final, in their units; those of feet, friction and limits are of plans alone.
    """
    system = solution.problem.dynamics if isinstance(solution, Solution) and solution.problem else None
    if not isinstance(system, PhasedDynamics) or (units := system.tracked.units(solution.X)) is None:
        raise ProblemError(f"solution: expected that of a gait, got {said(solution)}")
    instance("weights", weights, Weights, WEIGHED)
    state = weights.of_state(units, system.robot)
    return system.tracked.in_units(units, state, weights.torque, weights.final)


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
    for stretch, terms in [(range(N), problem.running), *problem.during.items()]:
        for term in terms:
            if isinstance(term, StateCost):
                X[stretch.start : stretch.stop] = term.targets
    X[-1] = next(term.targets[-1] for term in problem.terminal if isinstance(term, StateCost))
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
