"""Humanoids that stand on their soles, kept there by a linear-quadratic regulator while they are pushed."""

import numpy as np
from numpy.typing import ArrayLike

from ddp.errors import ProblemError, as_array, positive, positive_integer
from ddp.feedback.regulators import Regulator, lqr
from ddp.problem import Problem
from ddp.protocols import Array
from dynamics.contacts.contact import Contact
from dynamics.contacts.dynamics import impact_dynamics
from dynamics.phases.phase import Phase
from dynamics.phases.phased_dynamics import PhasedDynamics
from problems import checks
from problems.costs import ControlCost, StateCost
from problems.legs import stance


def standing(robot: checks.RobotLike = "talos", horizon: int = 100, dt: float = 0.01) -> Problem:
    """Stand still on all soles for ``horizon * dt`` seconds (1 s), the torques within the robot's limits.

    Weights of errors and of torques are those that motions on legs are tracked with, in units of the robot. The guess,
    torques that hold the posture, is the solution.
    """
    on = stance(checks.loaded(robot))
    soles = [Contact(foot, kind="surface" if on.surface else "point") for foot in on.feet]
    phase = Phase(soles, positive_integer("horizon", horizon, "of steps,"))
    system = PhasedDynamics(on.robot, positive("dt", dt), phase, control_limits=on.robot.control_limits)
    x0 = np.concatenate([on.robot.q0, np.zeros(on.robot.nv)])
    u = system.nominal_control(x0)
    weights = system.tracked.weights(x0[None], u[None])
    running = [StateCost(system, x0, weights.state), ControlCost(u, weights.control)]
    problem = Problem(dynamics=system, running=running, terminal=[], x0=x0, horizon=horizon)
    return problem.with_guess(np.tile(u, (horizon, 1)))


def regulator(problem: Problem) -> Regulator:
    """The regulator of an infinite horizon about the posture of `standing`, with its weights."""
    system = _standing(problem)
    x, u = problem.x0, system.nominal_control(problem.x0)
    weights = system.tracked.weights(x[None], u[None])
    return lqr(system, x, u, system.dt * weights.state, system.dt * weights.control)


def pushed(problem: Problem, velocity: ArrayLike) -> Array:
    """The state (nx,) after a push that gives the base a velocity (3,) [m/s], of which soles allow a part."""
    system, dv = _standing(problem), as_array("velocity", velocity, (3,))
    q, v = np.split(problem.x0.copy(), [system.robot.nq])
    v[:3] += dv
    return np.concatenate([q, impact_dynamics(system.robot, q, v, system.phases[0].contacts).v])


def balance(problem: Problem, keeper: Regulator, x0: Array) -> Array:
    """States (N+1, nx) from x0 under a regulator, with soles that hold."""
    system, X = problem.dynamics, np.tile(x0, (problem.horizon + 1, 1))
    for k in range(problem.horizon):
        X[k + 1] = system.step(X[k], keeper.policy(k * system.dt, X[k]), k)
    return X


def _standing(problem: Problem) -> PhasedDynamics:
    if not isinstance(problem, Problem) or not isinstance(problem.dynamics, PhasedDynamics):
        raise ProblemError("problem: expected one of `standing`")
    return problem.dynamics
