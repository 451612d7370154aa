"""Phase durations as decision variables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ddp.errors import ProblemError
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.solution import Solution
from dynamics.phased_dynamics import PhasedDynamics
from problems.contact_costs import ForceConstraint, ForceLimits
from problems.reaction import stretches


def with_durations(problem: Problem, durations: ArrayLike) -> Problem:
    """The same problem, whose phases last so long (P,) [s] in as many knots; references stay those of their knots."""
    system = phased(problem).lasting(durations)

    def on(terms: Any) -> list[Any]:
        return [replace(t, system=system) if isinstance(t, (ForceLimits, ForceConstraint)) else t for t in terms]

    lists = {name: on(getattr(problem, name)) for name in ("running", "terminal", "constraints", "terminal_constraints")}
    maps = {name: {k: on(v) for k, v in getattr(problem, name).items()} for name in ("at", "during", "constraints_at")}
    return replace(problem, dynamics=system, **lists, **maps)


def phased(problem: Problem) -> PhasedDynamics:
    """The system of a problem with phases."""
    if not isinstance(problem, Problem) or not isinstance(problem.dynamics, PhasedDynamics):
        raise ProblemError("problem: expected one of PhasedDynamics, whose phases last some time")
    return problem.dynamics


def gradient(solution: Solution) -> Array:
    """The derivative (P,) [1/s] of the optimal cost by how long each phase lasts, 0 where none of its knots takes time.

    By the envelope theorem: at an optimum X, U the cost changes as the Lagrangian does while X, U and multipliers stay.
    """
    if solution.problem is None:
        raise ProblemError("solution: expected one with its problem")
    system = phased(solution.problem)
    rates = solution.problem.by_durations(solution.X, solution.U, solution.multipliers)
    return np.array([rates[knots.start : knots.stop].mean() if knots else 0.0 for knots in stretches(system)])
