"""How long derivatives and iterations of a problem take."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from ddp.problem import Problem
from ddp.protocols import Array
from ddp.solver import DDP, solve, start_policy

ITERATIONS = 5


def excited(problem: Problem) -> tuple[Array, Array]:
    """States (N+1, nx) and controls (N, nu) near the guess, where no derivative vanishes by chance."""
    rng = np.random.default_rng(0)
    system, given = problem.dynamics, start_policy(problem, problem.guess)
    U = given.U + 0.1 * rng.normal(size=given.U.shape)
    X = given.X if given.imposed else system.rollout(problem.x0, U)
    return system.integrate(X, 0.1 * rng.normal(size=(len(X), system.n))), U


def warm(problem: Problem) -> None:
    """Compile, or load from the cache, whatever a solve needs, so that no later one is timed with it."""
    for hessian in ("gauss-newton", "exact"):
        solve(problem, DDP(hessian=hessian, max_iterations=1), throw=False)


def timings(problem: Problem, repeat: int) -> dict[str, float]:
    """Milliseconds on one thread, warm: the best of ``repeat``, for iterations the mean of the first few."""
    X, U = excited(problem)
    padded, out, stop = problem.padded(U), problem.allocate(), problem.horizon + 1
    times = {"rollout": _best(lambda: problem.dynamics.rollout(problem.x0, U), repeat)}
    times["first derivatives"] = _best(lambda: problem.expand(X, padded, out, 0, stop), repeat)
    times["second derivatives"] = _best(lambda: problem.expand_second(X, padded, out, 0, stop), repeat)
    warm(problem)
    for hessian in ("gauss-newton", "exact"):
        solver = DDP(hessian=hessian, max_iterations=ITERATIONS)
        history = solve(problem, solver, throw=False).history
        times[f"iteration, {hessian}"] = (
            1e3 * sum(record.seconds for record in history) / max(1, len(history))
        )
    return times


def _best(function: Callable[[], object], repeat: int) -> float:
    function()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)
