"""A problem solved over a receding horizon while its system is pushed about: model predictive control, simulated."""

import time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp.errors import ProblemError, affordable, at_least_zero, instance, integer, positive_integer, said
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.receding import RecedingHorizon
from dynamics.steps.robot_dynamics import RobotDynamics


class Run(NamedTuple):
    """Record of S steps.

    X (S+1, nx), U (S, nu): the states after pushes, and the controls applied.
    milliseconds (S,), iterations (S,), converged (S,): of each solve.
    pushed: the steps after which the system was pushed.   end (nx,): the last state of the last plan.
    """

    X: Array
    U: Array
    milliseconds: Array
    iterations: Array
    converged: NDArray[np.bool_]
    pushed: tuple[int, ...]
    end: Array


def close_loop(problem: Problem, steps: int, push: float = 0.0, every: int = 25, seed: int = 0) -> Run:
    """Apply the first control of a solution, step, perhaps push, solve again from there; ``steps`` times.

    problem: of one and the same system at every knot, a `RobotDynamics`; its horizon recedes.
    push: standard deviation of what every ``every``-th step adds to each velocity [rad/s, m/s], from a seed.
    Raises ProblemError for bad input.
    """
    instance("problem", problem, Problem)
    system, count, period = problem.dynamics, positive_integer("steps", steps), positive_integer("every", every)
    affordable("steps", count, 10 * count * (system.nx + system.nu))
    if not isinstance(system, RobotDynamics):
        raise ProblemError(
            f"problem: expected one of a RobotDynamics, the same at every knot, got {said(system)}"
        )
    strength = at_least_zero("push", push)
    rng, nv = np.random.default_rng(integer("seed", seed)), system.robot.nv
    X, U = np.empty((count + 1, system.nx)), np.empty((count, system.nu))
    milliseconds, iterations, converged = np.empty(count), np.empty(count), np.zeros(count, dtype=bool)
    pushed = []
    X[0] = problem.x0
    with RecedingHorizon(problem) as controller:
        for k in range(count):
            start = time.perf_counter()
            solution = controller.solve(X[k])
            milliseconds[k], iterations[k] = 1e3 * (time.perf_counter() - start), solution.iterations
            converged[k] = solution.converged
            U[k] = solution.U[0]
            X[k + 1] = system.step(X[k], U[k])
            if strength > 0.0 and (k + 1) % period == 0:
                kick = np.concatenate([np.zeros(nv), strength * rng.normal(size=nv)])
                X[k + 1] = system.integrate(X[k + 1], kick)
                pushed.append(k + 1)
    return Run(X, U, milliseconds, iterations, converged, tuple(pushed), solution.X[-1])


def terminal_cost(problem: Problem, x: Array) -> float:
    """Evaluate the terms at the end of the horizon at a state x (nx,)."""
    x, u = np.array([x]), np.zeros((1, problem.dynamics.nu))
    ends = [term for _, term, knots in problem.terms() if knots.start == problem.horizon]
    return float(sum(term.values(x, u)[0] for term in ends))
