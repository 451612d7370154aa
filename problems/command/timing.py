"""Times of derivatives and iterations of a problem."""

import time
from collections.abc import Callable
from functools import partial

from ddp.batch.batch import Batch
from ddp.check import excited
from ddp.derivatives import EXACT, FIRST, GAUSS_NEWTON, RECORDS
from ddp.options import DDP
from ddp.problem import Problem
from ddp.solver import solve

ITERATIONS = 5


def warm(problem: Problem) -> None:
    """Compile, or load from the cache, whatever a solve needs, so that no later one is timed with it."""
    for hessian in ("gauss-newton", "exact"):
        solve(problem, DDP(hessian=hessian, max_iterations=1), throw=False)


def warm_batch(problem: Problem) -> None:
    """Compile, or load, what a `ddp.Batch` of a problem needs beside, if it has a compiled loop."""
    with Batch(problem, 1, DDP(max_iterations=1)) as batch:
        if not batch.obstacle:
            batch.solve({"x0": problem.x0[None]})


def timings(problem: Problem, repeat: int) -> dict[str, float]:
    """Milliseconds on one thread, warm: the best of ``repeat``, for iterations the mean of the first few."""
    X, U = excited(problem)
    padded, out, stop = problem.padded(U), problem.allocate(), problem.horizon + 1
    times = {"rollout": 1e3 * least(lambda: problem.dynamics.rollout(problem.x0, U), repeat)}
    for order, made in ("first", FIRST | GAUSS_NEWTON), ("second", EXACT | RECORDS):
        times[f"{order} derivatives"] = 1e3 * least(partial(problem.expand, X, padded, out, 0, stop, made), repeat)
    warm(problem)
    for hessian in ("gauss-newton", "exact"):
        solver = DDP(hessian=hessian, max_iterations=ITERATIONS)
        history = solve(problem, solver, throw=False).history
        times[f"iteration, {hessian}"] = 1e3 * sum(record.seconds for record in history) / max(1, len(history))
    return times


def least(function: Callable[[], object], repeat: int, warm: bool = False) -> float:
    """Seconds of this thread, at least; warm: called before, so that nothing is compiled or loaded."""
    if not warm:
        function()
    best = float("inf")
    for _ in range(repeat):
        start = time.thread_time()
        function()
        best = min(best, time.thread_time() - start)
    return best
