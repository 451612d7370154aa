"""Motions of floating robots, flown from random errors of attitude at the start.

Each start is flown by three policies about the solution, all asked several times within a step:

- ``solver``: the solver's own gains, with which the cost is least for small errors;
- ``priced``: these again, of the cost with a price on being off the motion;
- ``tracking``: a time-varying LQR about the motion, with weights of errors in units of the robot;
- ``replanned``: the solver's own gains about a solution from the start as it is, which takes one solve.

The robot that flies may have a heavier base than the planned one. Costs are compared with those of the planned robot's
optimum from the same start, so that 1 is the least possible but for differences between robots and between steps.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from ddp.errors import ProblemError, affordable, as_array, instance, integer, positive, positive_integer, said
from ddp.feedback.policy import Policy
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.solver import solve
from dynamics.robots.model import Robot
from dynamics.steps.robot_dynamics import RobotDynamics

ENOUGH = 0.1
"""Largest error of the base's attitude at the end, as a part of the largest turn of the motion."""

AFFORDED = 2.0
"""Largest cost, as a multiple of the optimum's from the same start."""

ATTITUDE = slice(3, 6)
"""Attitude of a floating base among tangent coordinates."""

FINER = 5
"""Steps of the simulation, and answers of the policy, in one step of the plan."""

LOST = 1e6
"""Largest number in a state of a flight that is not lost [m, rad, m/s, rad/s]."""


@dataclass(frozen=True, eq=False)
class Flights:
    """Outcome of S flights by one policy.

    errors (S,): of the base's attitude at the end [rad].   costs (S,): as multiples of the optima's; both are infinite
    where a flight ended in no finite state.   turn: the largest of the planned motion [rad].
    """

    policy: str
    errors: Array = field(repr=False)
    costs: Array = field(repr=False)
    turn: float

    @property
    def successes(self) -> int:
        """Number of flights that end within a tenth of the motion, at less than twice the least cost."""
        return int(((self.errors <= ENOUGH * self.turn) & (self.costs <= AFFORDED)).sum())

    def __str__(self) -> str:
        degrees = np.rad2deg(self.errors)
        return (
            f"{self.policy:9s}  {self.successes:3d} of {len(self.errors)}  error {np.median(degrees):6.2f}, "
            f"at most {degrees.max():6.2f} deg  cost {np.median(self.costs):6.3f}, at most {self.costs.max():7.3f}"
        )


def fly_all(
    problem: Problem, count: int = 100, angle: float = np.deg2rad(20.0), mass: float = 1.0, seed: int = 0
) -> tuple[Flights, ...]:
    """Fly a problem's motion from ``count`` random errors of attitude by each policy.

    problem: of a `RobotDynamics` with a floating base; it is planned again with Runge and Kutta's steps of order 4.
    angle [rad]: the largest error, of those that ``seed`` draws.   mass: factor on mass and inertia of the base.
    Raises ProblemError for bad input.
    """
    system = _floating(problem)
    own = system.actuation, "rk4", system.damping, system.springs, system.control_limits  # finer steps hardly differ
    system = RobotDynamics(system.robot, system.dt, *own)
    plan = replace(problem, dynamics=system)
    solution = solve(plan)
    starts = tilted(plan, count, angle, seed)
    flown = RobotDynamics(heavier(system.robot, mass), system.dt / FINER, *own)
    optima = [solve(plan.starting_at(x0), guess=solution.U) for x0 in starts]
    policies = {name: [solution.feedback(name)] * count for name in ("solver", "priced", "tracking")}
    policies["replanned"] = [optimum.feedback("solver") for optimum in optima]
    turn = float(_attitude_errors(system, np.tile(plan.x0, (plan.horizon + 1, 1)), solution.X).max())
    outcomes = []
    for name, chosen in policies.items():
        errors, costs = np.full((2, count), np.inf)
        for k in range(count):
            flight = fly(flown, chosen[k], starts[k], plan.horizon)
            if flight is not None:
                X, U = flight
                errors[k] = _attitude_errors(system, solution.X[-1:], X[-1:])[0]
                costs[k] = plan.cost(X, U) / optima[k].cost
        outcomes.append(Flights(name, errors, costs, turn))
    return tuple(outcomes)


def fly(system: RobotDynamics, policy: Policy, x0: Array, horizon: int) -> tuple[Array, Array] | None:
    """States (N+1, nx) and mean controls (N, nu) of N = ``horizon`` times `FINER` steps; None if it diverges."""
    X, U = np.empty((horizon + 1, system.nx)), np.zeros((horizon, system.nu))
    x = X[0] = x0
    for k in range(horizon):
        for j in range(FINER):
            u = policy((k * FINER + j) * system.dt, x)
            x = system.step(x, u)
            U[k] += u / FINER
            if not np.abs(x).max() < LOST:
                return None
        X[k + 1] = x
    return X, U


def tilted(problem: Problem, count: int, angle: float, seed: int = 0) -> Array:
    """Initial states (count, nx) of a floating robot, turned by up to ``angle`` [rad]: evenly from a ball."""
    system, rng = _floating(problem), np.random.default_rng(integer("seed", seed))
    affordable("count", positive_integer("count", count), 4 * count * problem.horizon * system.n)
    largest = float(as_array("angle", angle, ()))
    if not 0.0 <= largest < np.pi:
        raise ProblemError(f"angle: expected less than half a turn, 0 <= angle < π, got {largest:g}")
    turns = rng.normal(size=(count, 3))
    turns *= (largest * np.cbrt(rng.uniform(size=count)) / np.linalg.norm(turns, axis=1))[:, None]
    moved = np.zeros((count, system.n))
    moved[:, ATTITUDE] = turns
    return np.asarray(system.integrate(np.tile(problem.x0, (count, 1)), moved))


def heavier(robot: Robot, factor: float) -> Robot:
    """A copy of a robot whose first body has ``factor`` times its mass and inertia."""
    return robot.with_masses(np.append(positive("mass", factor) * robot.masses[:1], robot.masses[1:]))


def _attitude_errors(system: RobotDynamics, X: Array, others: Array) -> Array:
    """Angles (M,) between the base's attitudes of states (M, nx)."""
    return np.asarray(np.linalg.norm(system.difference(X, others)[:, ATTITUDE], axis=1))


def _floating(problem: Problem) -> RobotDynamics:
    """The dynamics of a problem of a floating robot; ProblemError for others."""
    instance("problem", problem, Problem)
    system = problem.dynamics
    if not isinstance(system, RobotDynamics) or not system.robot.is_floating:
        raise ProblemError(f"problem: expected one of a robot with a floating base, got one of {said(system)}")
    return system
