"""Receding horizons (model predictive control): one problem, solved again and again from where the system is."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Self

import numpy as np

from ddp.compiling.setup import Stopwatch
from ddp.costs.stretches import durations_of
from ddp.errors import ProblemError, said
from ddp.guesses import Start
from ddp.parallel.workers import Workers, as_workers, differentiator
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.solution import Solution
from ddp.solver import DDP, descend_from, start_policy
from ddp.system import ability


class RecedingHorizon:
    """Solves ``problem`` from ever new states, each time from its last solution.

        with ddp.RecedingHorizon(problem) as controller:
            while running:
                solution = controller.solve(measured_state)
                apply(solution.U[0])                        # or, at a higher rate, those of its policy:
                # policy = solution.feedback("solver"), policy(t, x)

    problem: its x0 is where the first guess starts; terms and constraints ``at`` single knots keep their place in the
        horizon.
    solver: `DDP` (the default), `ILQR` or `Newton`; few ``max_iterations`` bound the time of a solve.
    guess: for the first solve, as in `solve`.
    workers: as in `solve`; threads and processes live until the end of the block or `close`.

    Phases of contacts, and the references and footholds of gaits, belong to fixed times and do not move on with the
    horizon: such problems are refused.

    Memory for derivatives, compiled kernels and processes are kept. Raises ProblemError for bad input.
    """

    def __init__(
        self, problem: Problem, solver: DDP | None = None, guess: Start = None, workers: int | str | Workers = 1,
    ) -> None:  # fmt: skip
        if not isinstance(problem, Problem):
            raise ProblemError(f"problem: expected a Problem, got {said(problem)}")
        _check_recedes(problem)
        self.solver = DDP() if solver is None else solver
        if not isinstance(self.solver, DDP):
            raise ProblemError(f"solver: expected DDP(...), ILQR(...) or Newton(...), got {said(solver)}")
        guess = problem.guess if guess is None else guess
        self.problem, self.guess = problem, guess
        self.solution: Solution | None = None
        start_policy(problem, guess)  # what is wrong with it is said here
        self._resources = ExitStack()
        goal = self.solver.constraints.relaxed(problem, guess)
        self._closed = False
        self._work = self._resources.enter_context(differentiator(goal, as_workers(workers)))

    def solve(self, x: Array, steps: int = 1) -> Solution:
        """The solution from state x (nx,), ``steps`` knots after the last one was asked for.

        The guess is the last solution, moved on by as many knots and followed from x with its gains; the first time,
        the user's. What does not converge is returned all the same, with its status. Raises ProblemError for an x that
        is no state and after `close`, and SolveError if a worker dies.
        """
        start = Stopwatch()
        if self._closed:
            raise ProblemError("controller: expected one that is open, this one was closed; make another")
        problem = self.problem.starting_at(x)
        guess = self.guess if self.solution is None else self.solution.shift(steps)
        goal = self.solver.constraints.relaxed(problem, guess)
        outcome = descend_from(goal, self.solver, start_policy(problem, guess), self._work, None, start)
        self.solution = outcome if np.isfinite(outcome.cost) else None
        return outcome

    def close(self) -> None:
        """End threads and processes; nothing can be solved afterwards."""
        self._closed = True
        self._resources.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _check_recedes(problem: Problem) -> None:
    """Raise ProblemError where phases, which stay at their knots, would start over at every solve."""
    if ability(problem.dynamics, "step_durations") is None:
        return
    if problem.during or np.ptp(durations_of(problem.dynamics, problem.horizon)) > 0.0:
        raise ProblemError(
            "problem: expected one whose horizon can recede, got phases of contacts: their contacts, references and"
            " footholds belong to fixed times and would start over at every solve; solve it once and follow its policy"
        )
