"""Multi-start: one problem from many guesses, and the optima that they lead to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ddp.errors import ProblemError, instance, items, positive, suggesting
from ddp.guesses import as_guess
from ddp.many.driver import Driver
from ddp.many.executors import Executor, crew_of
from ddp.many.plan import independent
from ddp.many.progress import Reporter
from ddp.many.rows import policy_type, row_type, solution_of
from ddp.many.shelf import Memory
from ddp.many.work import Work
from ddp.options import DDP, as_solver
from ddp.problem import Problem
from ddp.solutions.solution import Solution

NOTHING = 1e-12
"""Difference of costs that is none, where these are zero; of states its square root."""


class Optimum(NamedTuple):
    """One optimum of several.

    solution: from the first guess that leads there.   guesses: indices of all that do.
    """

    solution: Solution
    guesses: tuple[int, ...]

    @property
    def cost(self) -> float:
        """The cost of the best solution."""
        return self.solution.cost


class Optima(NamedTuple):
    """Outcome of `solve_best`: optima from the best one on, and guesses that led to none.

    failures: indices of guesses from which the solve did not converge, or raised an error, and why.
    """

    optima: tuple[Optimum, ...]
    failures: tuple[tuple[int, str], ...]

    @property
    def best(self) -> Solution:
        """The best solution; ProblemError if no guess has led to one."""
        if not self.optima:
            raise ProblemError(f"guesses: none has led to an optimum; {self.failures[0][1]}")
        return self.optima[0].solution

    def __str__(self) -> str:
        found = ", ".join(f"{one.cost:.5g} from {len(one.guesses)}" for one in self.optima[:6])
        failed = f"; {len(self.failures)} guesses led to none" if self.failures else ""
        noun = "optimum" if len(self.optima) == 1 else "optima"
        return f"{len(self.optima)} {noun}: {found}{', ...' if len(self.optima) > 6 else ''}{failed}"


@suggesting
def solve_best(
    problem: Problem, guesses: Sequence[Any], solver: DDP | None = None, executor: int | Executor | None = None,
    tolerance: float = 1e-4, retries: int = 1, progress: Any = False,
) -> Optima:  # fmt: skip
    """Solve a problem from many guesses, and tell which optima there are, how often each was found, and the best.

    guesses: each U (N, nu), a pair (X, U), a `Solution` or None, as of `solve`.
    tolerance: solutions are the same optimum if their costs differ by no more than this, relative to the cost, and
        their states by no more than its square root, relative to the largest entry; 1e-12 and 1e-6 at least, for costs
        and states that are zero.
    solver, executor, retries, progress: as of `solve_many`.

    Raises ProblemError for bad input before any work.
    """
    instance("problem", problem, Problem)
    method = as_solver(solver)
    given = items("guesses", guesses, "guesses", some=True)
    starts = []
    for i, guess in enumerate(given):
        try:
            starts.append(as_guess(guess, problem.dynamics, problem.horizon))
        except ProblemError as reason:
            raise ProblemError(f"guesses[{i}]: {reason}") from None
    near = positive("tolerance", tolerance)
    kind = row_type(problem, ("X", "U", "k", "K", "multipliers", "penalties"), np.float64)
    shelf, reporter = Memory(len(starts), kind), Reporter(progress, len(starts))
    crew = crew_of(executor)
    reporter.begin(f"{len(starts)} solves from guesses", 0, 0, 0)
    problem.renew()
    work = Work(problem, method, kind, policy_type(problem, 0), guesses=tuple(starts))
    arrays = {"x0": np.tile(problem.x0, (len(starts), 1))}
    Driver(work, arrays, np.zeros((0, 0)), shelf, crew, retries, reporter).run(independent(np.arange(len(starts))))
    reporter.end()
    failures = [(i, row["sentence"].decode()) for i, row in enumerate(shelf.rows) if not row["converged"]]
    return Optima(tuple(_clusters(problem, shelf.rows, near)), tuple(failures))


def _clusters(problem: Problem, rows: Any, near: float) -> list[Optimum]:
    """Optima from the best one on."""
    found: list[tuple[Any, list[int]]] = []
    for i in sorted(np.flatnonzero(rows["converged"]).tolist(), key=lambda i: (rows["cost"][i], i)):
        row, size = rows[i], np.abs(rows["X"][i]).max()
        for other, members in found:
            apart = np.abs(problem.dynamics.difference(other["X"], row["X"])).max()
            dearer = row["cost"] - other["cost"]
            if dearer <= max(near * abs(other["cost"]), NOTHING) and apart**2 <= max(near * size**2, NOTHING):
                members.append(i)
                break
        else:
            found.append((row, [i]))
    return [Optimum(solution_of(row, problem), tuple(sorted(members))) for row, members in found]
