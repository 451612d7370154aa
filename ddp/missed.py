"""Violations of constraints by factors of rows: units of rows change no decision of a solve."""

from contextlib import suppress
from functools import cached_property

import numpy as np

from ddp.augmented import scales
from ddp.errors import DDPError
from ddp.guesses import Start
from ddp.interior.course import TOLERANCE
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.solutions.solution import Solution
from ddp.starts import start_policy


class Missed:
    """Violations by factors of rows (m,) where a solve begins, see scaling.py: units of rows change no decision.

    Solutions that have converged have none.
    """

    def __init__(self, problem: Problem, guess: Start) -> None:
        self._problem, self._guess = problem, guess

    @cached_property
    def factors(self) -> Array:
        """Factors (m,); ones where a user's own code fails."""
        with np.errstate(all="ignore"), suppress(DDPError):
            return scales(self._problem, start_policy(self._problem, self._guess))[1]
        return np.ones(self._problem.rows.size)

    def by(self, X: Array, U: Array) -> float:
        """The largest violation of a motion."""
        return self._problem.rows.worst(X, U, self.factors)

    def of(self, solution: Solution) -> float:
        """The largest violation of a solution."""
        finite = np.isfinite(solution.violation) and solution.violation > 0.0
        return self.by(solution.X, solution.U) if finite else solution.violation

    def any(self, solution: Solution) -> bool:
        """Whether a solution violates anything."""
        return not solution.converged and self.of(solution) > TOLERANCE
