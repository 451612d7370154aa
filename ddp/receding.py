"""Receding horizons (model predictive control): one problem, solved again and again from where the system is."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ddp.costs.batch import durations_of
from ddp.doubts import tell, tell_doubts
from ddp.errors import (
    ModelError,
    ProblemError,
    UndefinedCostError,
    as_array,
    at_least_zero,
    instance,
    pointing,
    suggesting,
)
from ddp.feedback.policy import Policy, as_state
from ddp.feedback.succession import Succession
from ddp.guesses import Start
from ddp.options import DDP, as_solver
from ddp.parallel.workers import Workers
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.solutions.solution import Solution
from ddp.successive import Closing, Successive
from ddp.systems.system import System, ability


@pointing()
@suggesting
class RecedingHorizon(Closing):
    """Solves ``problem`` from ever new states, each time from its last solution.

        with ddp.RecedingHorizon(problem) as controller:
            while running:
                solution = controller.solve(measured_state)
                apply(solution.U[0])                        # or, at a higher rate, those of its policy:
                # policy = solution.feedback("solver"), policy(t, x)

    problem: its x0 is where the first guess starts; terms and constraints ``at`` single knots keep their place in the
        horizon.
    solver: `DDP` (the default), `ILQR` or `Newton`; few ``max_iterations`` bound the time of a solve. With constraints
        8 to 10 are enough for most steps, and what cannot be met is violated by little then; fewer are not.
    guess: for the first solve, as in `solve`.
    workers: as in `solve`; threads and processes live until the end of the block or `close`.
    latency [s]: from a measurement to when its plan is there, see `plan`.

    Of the attempts that `solve` makes where constraints are not met only the first one is made: others take as long
    again, and where a push has left no way they find none either. What was reached is returned, with its status;
    `solve(problem.starting_at(x), guess=controller.solution)` tries the others.

    Phases of contacts, and the references and footholds of gaits, belong to fixed times and do not move on with the
    horizon: such problems are refused.

    Memory for derivatives, compiled kernels and processes are kept. It can be pickled between solves, and goes on
    elsewhere as it would have here. Raises ProblemError for bad input.
    """

    def __init__(
        self, problem: Problem, solver: DDP | None = None, guess: Start = None, workers: int | str | Workers = 1,
        latency: float = 0.0,
    ) -> None:  # fmt: skip
        instance("problem", problem, Problem)
        _check_recedes(problem)
        guess = problem.guess if guess is None else guess
        self.problem, self.solver, self.guess = problem, as_solver(solver), guess
        self.latency = at_least_zero("latency", latency, " s")
        if self.latency >= (lasts := durations_of(problem.dynamics, problem.horizon).sum()):
            tell([f"latency: {self.latency:g} s, the horizon ends after {lasts:g} s: are these milliseconds?"])
        tell_doubts(problem)
        self.restart()
        self._solves = Successive(workers)
        self._solves.prepare(problem, guess, self.solver)  # what is wrong with the guess is said here

    @property
    def system(self) -> System:
        """The dynamics of the problem."""
        return self.problem.dynamics

    @property
    def x0(self) -> Array:
        """The initial state (nx,) of the problem."""
        return self.problem.x0

    def restart(self) -> None:
        """Forget what was solved and planned: the next one is the first."""
        self.solution: Solution | None = None
        self._solved = self.problem  # with the numbers of the solution
        self.policy: Policy | None = None
        self._policies = Succession()

    def plan(self, t: float, x: ArrayLike, command: object = None) -> Policy:
        """The policy from t + latency on [s], of a system in state x (nx,) at time t; its times are absolute.

        It has the solver's gains, and begins at a step of time from the first one on, later than the last policy, whose
        gains lead there. The first begins at t. A policy is returned again where no other is found.
        command: without meaning here, as `problems.Walking` has one.
        """
        dt = self.system.dt
        now, state = as_time(t, dt), as_state(self.system, "x", x)
        start, steps, last = now, 1, self.policy
        if last is not None:
            begun = float(last.starts[0])
            steps = max(1, int(np.ceil((now + self.latency - begun) / dt - 1e-6)))
            start = begun + steps * dt
            near = start - now <= self.problem.horizon * dt  # a clock that was set back is far
            state = self._policies.predicted(now, state, start, controlled=near)
        try:
            solution = self.solve(state, min(steps, self.problem.horizon))
        except (UndefinedCostError, ModelError):
            if last is None:
                raise
            return last
        if last is None or np.isfinite(solution.cost):
            policy = solution.feedback("solver")
            self.policy = replace(policy, starts=policy.starts + start)
            self._policies.add(self.policy)
        assert self.policy is not None
        return self.policy

    def vary(self, numbers: Mapping[str, ArrayLike] | None = None, /, **named: Any) -> None:
        """Go on with other numbers in some places, as of `Problem.varying`: ``controller.vary(target=pose)``."""
        self.problem = self.problem.varying(numbers, **named)

    def solve(self, x: Array, steps: int = 1) -> Solution:
        """The solution from state x (nx,), ``steps`` knots after the last one was asked for.

        The guess is the last solution, moved on by as many knots and followed from x with its gains; the first time,
        the user's. Where that has no finite cost, others are tried: the user's, nominal controls, a system that stays
        at x; ``solution.start`` says so. What does not converge is returned all the same, with its status. Raises
        ProblemError for an x that is no state, after `close`, and where the cost of no guess is a number; SolveError if
        a worker dies.
        """
        self.problem.renew()
        problem = self.problem.starting_at(x)
        failed: list[Solution | UndefinedCostError | ModelError] = []
        for guess in self._guesses(problem, steps):
            try:
                outcome = self._solves.solve(problem, guess, self.solver)
            except (UndefinedCostError, ModelError) as fault:
                failed.append(fault)
                continue
            if np.isfinite(outcome.cost):
                if failed:
                    why = failed[0].status if isinstance(failed[0], Solution) else failed[0]
                    outcome = replace(outcome, start=f"{outcome.start}; the guess before these had no cost: {why}")
                self.solution, self._solved = outcome, self.problem
                return outcome
            failed.append(outcome)
        self.solution = None
        for ended in failed:
            if isinstance(ended, Solution):
                return ended
        raise next(fault for fault in failed if isinstance(fault, Exception))

    def _guesses(self, problem: Problem, steps: int) -> Iterator[Start]:
        """Guesses of a solve, each for where those before have no cost."""
        if self.solution is not None:
            yield self.solution.shift(steps)
        yield self.guess
        if self.guess is not None:
            yield None
        u = problem.dynamics.nominal_control(problem.x0)
        yield np.tile(problem.x0, (problem.horizon + 1, 1)), np.tile(u, (problem.horizon, 1))

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        if self.solution is not None:
            self.solution = replace(self.solution, problem=self._solved.starting_at(self.solution.X[0]))


def as_time(t: float, dt: float) -> float:
    """The time t [s]; ProblemError where steps of dt [s] are lost in its rounding."""
    now = float(as_array("t", t, ()))
    if np.spacing(abs(now)) > dt:
        raise ProblemError(f"t: expected a time [s] that steps of {dt:g} s can be added to, got {now:g}")
    return now


def _check_recedes(problem: Problem) -> None:
    """Raise ProblemError where phases, which stay at their knots, would start over at every solve."""
    if ability(problem.dynamics, "step_durations") is None:
        return
    kinds = ability(problem.dynamics, "schedule")
    changes = kinds is not None and len(np.unique(kinds[: problem.horizon])) > 1
    if problem.during or changes or np.ptp(durations_of(problem.dynamics, problem.horizon)) > 0.0:
        raise ProblemError(
            "problem: expected one whose horizon can recede, got contacts in phases, which belong to fixed"
            " times and would start over at every solve: solve it once and follow its policy, or"
            " plan gaits again and again by mayne.Walking"
        )
