"""The outer loop for problems with constraints: the method of multipliers around the loop of solver.py.

    repeat  minimise the augmented Lagrangian until its quadratic model expects a decrease of less than ω
            e = violation and lack of complementarity (`Lagrangian.shifts`)
            λ = ρ e                                         (the new estimate of the multipliers)
            where e has not fallen to a quarter: ρ = 10 ρ   (of that constraint alone)
            ω = ω / 10, down to the solver's tolerance

as in ALGENCAN (Birgin & Martinez 2014, algorithm 4.1). With this λ the gradient of the Lagrangian is the one that the
inner loop made small, so that close to the end one or two inner iterations suffice each time. Second derivatives of
constraints are in the exact Hessians: the inner loop stays of second order.

If penalties grow and the violation stays while its own slope vanishes, there is no way down in the neighbourhood: the
status then says so, and which constraint is violated most, where, and by how much.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ddp.errors import ProblemError, as_array, positive, positive_integer
from ddp.globalisation import GAUSS_NEWTON
from ddp.iterate import Iterate
from ddp.lagrangian import Lagrangian, state_size
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.solution import Solution

ENOUGH = 0.25
"""A round has done enough for a constraint if its e falls to this fraction."""

GROWTH = 10.0
FIRST=2.0

STUCK = 3
"""After so many rounds in which penalties grew and the violation did not fall, the slope of the violation decides."""

LARGEST_MULTIPLIER = 1e12
"""Multipliers beyond this are no longer followed: penalties alone then drive the violation down."""

Descend = Callable[..., tuple[str, str]]
"""The inner loop of solver.py: (iterate, solver, globalisation, history, callback) -> (outcome, reason)."""


@dataclass(frozen=True)
class AugmentedLagrangian:
    """How constraints are held; a field of `DDP`, without effect on problems that have none.

    tolerance: convergence needs no violation larger than this, in the constraints' units, and no multiplier further
        than this from the bound that it belongs to.
    stationarity: ... and no larger entry in the gradient of the Lagrangian in the controls.
    penalty: what the first round costs a unit of violation squared, in units of the cost; None: so much that the
        violation of the guess costs as much as everything else, between 1 and 1e4.
    max_penalty: beyond this the solve ends, not converged.
    rounds: how often the multipliers are updated at most.
    """

    tolerance: float = 1e-8
    stationarity: float = 1e-6
    penalty: float | None = None
    max_penalty: float = 1e10
    rounds: int = 60

    def __post_init__(self) -> None:
        for name in ("tolerance", "stationarity", "max_penalty"):
            object.__setattr__(self, name, positive(f"constraints.{name}", getattr(self, name)))
        object.__setattr__(self, "rounds", positive_integer("constraints.rounds", self.rounds))
        if self.penalty is not None:
            object.__setattr__(self, "penalty", positive("constraints.penalty", self.penalty))
            if self.penalty > self.max_penalty:
                raise ProblemError(
                    f"constraints.penalty: expected at most max_penalty = {self.max_penalty:g}, got {self.penalty:g}"
                )


def relaxed(problem: Problem, options: AugmentedLagrangian, guess: Any) -> Problem:
    """The problem without constraints that the inner loop solves; itself if it has none.

    Multipliers and penalties are those of the guess if that is a `Solution` of a problem with the same constraints.
    """
    placed = problem.placed
    if not placed:
        return problem
    warm = isinstance(guess, Solution) and guess.multipliers.size > 0
    lagrangian = Lagrangian(placed, np.ones(state_size(placed)), warm)
    lagrangian.multipliers[:] = 0.0
    if isinstance(guess, Solution) and warm:
        lagrangian.multipliers[:] = as_array("guess.multipliers", guess.multipliers, (lagrangian.multipliers.size,))
        lagrangian.penalties[:] = as_array("guess.penalties", guess.penalties, (len(placed),))
    return problem.augmented(lagrangian)


def minimise(
    iterate: Iterate, solver: Any, globalisation: Any, history: list[Any], callback: Any, descend: Descend
) -> tuple[str, str]:
    """The rounds: outcome ("" if it did not converge) and reason, as the inner loop gives them."""
    options: AugmentedLagrangian = solver.constraints
    state = _State(iterate, options)
    tolerance = np.inf
    while state.round < options.rounds:
        if tolerance > solver.tolerance:
            tolerance = max(solver.tolerance, min(0.1 * tolerance, 1e-2 * (1.0 + abs(iterate.cost))))
            if state.settled:
                tolerance = solver.tolerance
        globalisation.restart(tolerance)
        inner = replace(solver, tolerance=tolerance)
        outcome, reason = descend(iterate, inner, globalisation, history, callback)
        if not outcome:
            return "", f"{reason}; {state.worst()}"
        if state.cold:
            state.cold = False
            state.first_penalties()
            continue
        state.measure()
        if state.settled and tolerance <= solver.tolerance:
            sweep, _ = iterate.final_sweep(solver.hessian != GAUSS_NEWTON)
            if sweep is None or sweep.gradient <= options.stationarity or tolerance < 1e-8 * solver.tolerance:
                return outcome, ""
            tolerance *= 1e-2
        if verdict := state.verdict():
            return "", verdict
        state.update()
    return "", f"the limit of {options.rounds} updates of the multipliers was reached; {state.worst()}"


class _State:
    """Multipliers and penalties between two rounds."""

    def __init__(self, iterate: Iterate, options: AugmentedLagrangian) -> None:
        self.iterate, self.options = iterate, options
        self.lagrangian = iterate.problem.lagrangian
        self.round = self.stuck = 0
        self.e = np.full(len(self.lagrangian.placed), np.inf)
        self.grew = self.e < 0.0
        self.before = np.inf
        if options.penalty is not None:
            self.lagrangian.penalties[:] = options.penalty
        self.cold = options.penalty is None and not self.lagrangian.warm
        if self.cold:
            self.lagrangian.penalties[:] = 1e-12
        self._publish()

    @property
    def settled(self) -> bool:
        return bool(self.e.max() <= self.options.tolerance)

    def worst(self) -> str:
        found = self.iterate.problem.residuals(self.iterate.X, self.iterate.U)
        return str(max(found, key=lambda residual: residual.worst))

    def measure(self) -> None:
        """After a round: the next estimate of the multipliers, and which penalties have to grow."""
        problem, options = self.iterate.problem, self.options
        self.estimate, e = self.lagrangian.shifts(self.iterate.X, problem.padded(self.iterate.U))
        self.grew = (e > ENOUGH * self.e) & (e > options.tolerance)
        self.e = e
        self.round += 1
        violation = problem.violation(self.iterate.X, self.iterate.U)
        stays = self.grew.any() and violation > 0.99 * self.before
        self.stuck = self.stuck + 1 if stays else 0
        self.before = violation

    def verdict(self) -> str:
        """Why there is no use in going on; empty if there is."""
        return ""

    def update(self) -> None:
        multipliers, penalties = self.lagrangian.multipliers, self.lagrangian.penalties
        multipliers[:] = np.clip(self.estimate, -LARGEST_MULTIPLIER, LARGEST_MULTIPLIER)
        penalties[self.grew] = np.minimum(GROWTH * penalties[self.grew], self.options.max_penalty)
        self._publish()

    def first_penalties(self) -> None:
        problem = self.iterate.problem.plain
        cost = problem.cost(self.iterate.X, self.iterate.U)
        for i, found in enumerate(problem.residuals(self.iterate.X, self.iterate.U)):
            own = self.lagrangian.placed[i]
            finite = np.minimum(abs(found.values - own.lower), abs(found.values - own.upper))
            square = max(float((found.violation**2).sum()), 0.01 * float((finite[np.isfinite(finite)] ** 2).sum()))
            self.lagrangian.penalties[i] = np.clip(FIRST * (1.0 + abs(cost)) / max(square, 1e-12), 1e-6, 1e6)
        self._publish()

    def _publish(self) -> None:
        self.iterate.work.derivatives.dual[:] = self.lagrangian.state
        self.iterate.renew()


def certified(solution: Solution) -> Solution:
    """The solution of the problem with constraints, from the one of its last relaxation; as it is without any."""
    relaxation = solution.problem
    if relaxation is None or not relaxation.constrained:
        return solution
    problem, lagrangian = relaxation.plain, relaxation.lagrangian
    finite = np.isfinite(solution.X).all()
    multipliers = lagrangian.multipliers
    if finite:
        multipliers, _ = lagrangian.shifts(solution.X, problem.padded(solution.U))
    return replace(
        solution,
        cost=float(problem.values(solution.X, problem.padded(solution.U)).sum()) if finite else solution.cost,
        problem=problem,
        multipliers=multipliers.copy(),
        penalties=lagrangian.penalties.copy(),
        violation=problem.violation(solution.X, solution.U) if finite else np.inf,
    )
