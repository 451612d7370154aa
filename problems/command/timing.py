"""How long derivatives and iterations of a problem take."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from ddp.problem import Problem
from ddp.protocols import Array
from ddp.solver import DDP, solve
from problems.registry import Entry

ITERATIONS = 5


def excited(entry: Entry, problem: Problem) -> tuple[Array, Array]:
    """States (N+1, nx) and controls (N, nu) near the guess, where no derivative vanishes by chance."""
    rng = np.random.default_rng(0)
    system, guess = problem.dynamics, entry.guess(problem)
    if isinstance(guess, tuple):
        X, U = guess
        U = U + 0.1 * rng.normal(size=U.shape)
    else:
        U = np.tile(system.nominal_control(problem.x0), (problem.horizon, 1)) if guess is None else guess
        U = U + 0.1 * rng.normal(size=U.shape)
        X = system.rollout(problem.x0, U)
    return system.integrate(X, 0.1 * rng.normal(size=(len(X), system.n))), U


def warm(entry: Entry, problem: Problem) -> None:
    """Compile, or load from the cache, whatever a solve needs, so that no later one is timed with it."""
    for hessian in ("gauss-newton", "exact"):
        solve(problem, DDP(hessian=hessian, max_iterations=1), entry.guess(problem), throw=False)


def timings(entry: Entry, problem: Problem, repeat: int) -> dict[str, float]:
    """Milliseconds on one thread, warm: the best of ``repeat``, for iterations the mean of the first few."""
    X, U = excited(entry, problem)
    padded, out, stop = problem.padded(U), problem.allocate(), problem.horizon + 1
    times = {"rollout": _best(lambda: problem.dynamics.rollout(problem.x0, U), repeat)}
    times["first derivatives"] = _best(lambda: problem.expand(X, padded, out, 0, stop), repeat)
    times["second derivatives"] = _best(lambda: problem.expand_second(X, padded, out, 0, stop), repeat)
    warm(entry, problem)
    for hessian in ("gauss-newton", "exact"):
        solver = DDP(hessian=hessian, max_iterations=ITERATIONS)
        history = solve(problem, solver, entry.guess(problem), throw=False).history
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
