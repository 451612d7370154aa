"""Problems of the same sizes solved one after the other, in memory, threads and processes that are made once."""

from contextlib import ExitStack
from typing import Any, Self

from ddp.batch.compiled_iterations import expect_others
from ddp.compiling.setup import Stopwatch
from ddp.constraints.placement import Placed
from ddp.errors import ProblemError
from ddp.guesses import Start
from ddp.options import DDP
from ddp.parallel.differentiator import Differentiator
from ddp.parallel.workers import Workers, as_workers, differentiator
from ddp.problem import Problem
from ddp.solutions.solution import Solution
from ddp.solver import descend_from
from ddp.starts import start_policy


class Closing:
    """Base of objects that end their threads and processes at the end of a ``with``.   _solves: what has them."""

    _solves: Any

    def close(self) -> None:
        """End threads and processes, if there are any; nothing can be solved afterwards."""
        self._solves.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class Successive:
    """Solves of problems that differ in states, or in where terms are and what they refer to, but not in sizes.

    workers: as in `solve`; processes serve one and the same problem from several states alone.
    Copies make memory and workers of their own when they first solve.
    """

    def __init__(self, workers: int | str | Workers = 1) -> None:
        self.workers, self._resources = as_workers(workers), ExitStack()
        self._work: Differentiator | None = None
        self._traces: tuple[object, object] = None, None
        self._placed: tuple[Placed, ...] = ()
        self._closed = False

    def __reduce__(self) -> Any:
        return type(self), (self.workers,)

    def prepare(self, problem: Problem, guess: Start, solver: DDP) -> None:
        """Make memory and workers; ProblemError for a bad guess."""
        start_policy(problem, guess)
        goal = solver.relaxed(problem, guess)
        self._work = self._resources.enter_context(differentiator(goal, self.workers))
        self._traces, self._placed = problem.traces, problem.placed
        expect_others(self._work.kept, solver)  # the first solve loads what all others need

    def solve(self, problem: Problem, guess: Start, solver: DDP, first: bool = False) -> Solution:
        """Solve, and return what does not converge all the same; ProblemError after `close`. first: see `Guess`."""
        start = Stopwatch()
        if self._closed:
            raise ProblemError("controller: expected one that is open, this one was closed; make another")
        objective, traced = problem.traces
        if self._work is None or traced is not self._traces[1]:  # processes have functions that are others by now
            self._resources.close()
            self.prepare(problem, guess, solver)
        assert self._work is not None
        goal = solver.relaxed(problem, guess)
        moved = goal is not problem and problem.placed is not self._placed  # constraints that are in the cost
        if moved or objective is not self._traces[0]:
            try:
                self._work.turn_to(goal)
            except ProblemError:  # of processes; where x0 alone has moved, other rows may hold at the first knot
                pairs = zip(problem.placed, self._placed, strict=True)
                if objective is not self._traces[0] or any(one.constraint is not its.constraint for one, its in pairs):
                    raise
                self._resources.close()
                self.prepare(problem, guess, solver)
        self._traces, self._placed = problem.traces, problem.placed
        policy = start_policy(problem, guess)._replace(first=first)
        return descend_from(goal, solver, policy, self._work, None, start)

    def close(self) -> None:
        """End threads and processes; nothing can be solved afterwards."""
        self._closed = True
        self._resources.close()
