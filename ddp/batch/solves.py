"""Solves of problems that differ in numbers: by the compiled loop where it knows them, else one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ddp.batch.lanes import COST, DONE, ENDING, EXPECTED, GRADIENT, ITERATIONS, LEFT
from ddp.batch.native import Guess, Native, Results, obstacle
from ddp.errors import as_array
from ddp.guesses import Followed, Start, as_guess
from ddp.machine.number import WIDTH
from ddp.machine.recycled import recycled_rows
from ddp.options import DDP
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.solutions.solution import Solution
from ddp.solutions.status import Ending, Status, limit_reached
from ddp.solver import may_be_better, solve
from ddp.starts import start_policy
from ddp.successive import Successive
from ddp.sweeps.inertia import MINIMUM, UNKNOWN

ENDINGS = Ending.CONVERGED, Ending.ROUNDING, Ending.ITERATIONS
"""Endings of the compiled loop by number."""

Others = dict[int, Solution | Exception]
"""Solutions of `ddp.solve` by the problem's place, or what it raised."""


class Solves:
    """Memory and threads for many solves of problems like one.

    compiled: whether the compiled loop may serve.   obstacle: why it does not, in words; empty if it does.
    """

    def __init__(self, problem: Problem, solver: DDP, threads: int = 1, compiled: bool = True) -> None:
        self._problem, self._solver = problem, solver
        self.obstacle = obstacle(problem, solver) if compiled else "not asked for"
        self._native = None if self.obstacle else Native(problem, solver, threads)
        self._successive: Successive | None = None

    def run(
        self, problems: Sequence[Problem], guess: Guess | None, start: Callable[[int], Start], out: Results,
        states: Array | None = None,
    ) -> Others:  # fmt: skip
        """Solve problems into ``out``; those that `ddp.solve` did are returned.

        guess: as the compiled loop takes guesses; None if it cannot.   start: the guess of a single problem.
        states (M, nx): where the problems begin, if not at their own x0.
        """
        like, native = self._problem, self._native
        out.numbers[:, ENDING] = LEFT
        if native is not None and guess is not None:
            same = [p.dynamics is like.dynamics and p.lower is like.lower and p.upper is like.upper for p in problems]
            own = slice(None) if all(same) else np.flatnonzero(same)
            x0 = np.array([p.x0 for p in problems]) if states is None else np.asarray(states)
            tables = [like.objective.table]
            if any(p.objective is not like.objective for p in problems):
                tables = [p.objective.table for p, serves in zip(problems, same, strict=True) if serves]
            if any(same):
                native.solve(x0, guess, tables, out, own)
        others: Others = {}
        for i in np.flatnonzero(out.numbers[:, ENDING] == LEFT).tolist():
            problem = problems[i] if states is None else problems[i].starting_at(states[i])
            try:
                found = others[i] = self.alone(problem, start(i))
            except Exception as reason:
                others[i] = reason
                continue
            out.X[i], out.U[i], out.k[i], out.K[i] = found.X, found.U, found.k, found.K
            out.numbers[i, [COST, GRADIENT, DONE]] = found.cost, found.gradient, found.iterations
        return others

    def alone(self, problem: Problem, start: Start) -> Solution:
        """Solve one problem by Python's loop, as `solve` does: in another way, too, where the first one fails."""
        if self._successive is None:
            self._successive = Successive()
        guess, first = problem.guess if start is None else start, self._solver.attempts(problem)[0]
        try:
            found = self._successive.solve(problem, guess, first)
        except BaseException:  # whatever state memory is in
            self._successive = None
            raise
        if first is self._solver or not may_be_better(found, self._solver, first.full_space(problem)):
            return found
        return solve(problem, self._solver, guess, throw=False)

    def solution(self, problem: Problem, out: Results, i: int) -> Solution:
        """The solution of a problem that the compiled loop solved; its arrays are parts of ``out``."""
        numbers, ending = out.numbers[i], int(out.numbers[i, ENDING])
        done, converged, sentence = int(numbers[DONE]), ending < ITERATIONS, self.sentence(out, i)
        return Solution(
            X=out.X[i], U=out.U[i], k=out.k[i], K=out.K[i], cost=float(numbers[COST]),
            gradient=float(numbers[GRADIENT]), converged=converged, status=Status(sentence, ENDINGS[ending]),
            iterations=done, seconds=0.0, history=(), problem=problem, kind=MINIMUM if converged else UNKNOWN,
        )  # fmt: skip

    def sentence(self, out: Results, i: int) -> str:
        """The status of a problem that the compiled loop solved."""
        ending, done = out.numbers[i, ENDING], int(out.numbers[i, DONE])
        if ending < ITERATIONS:
            return f"converged after {done} iterations"
        reason = limit_reached(self._solver.max_iterations, float(out.numbers[i, EXPECTED]))
        return f"not converged after {done} iterations, {reason}"

    def close(self) -> None:
        """End threads."""
        if self._native is not None:
            self._native.close()
        if self._successive is not None:
            self._successive.close()


def guess_of(problems: Sequence[Problem], start: Start) -> Guess | None:
    """One guess for some problems, None for their own, as the compiled loop takes it; None if it does not."""
    d, N = problems[0].dynamics, problems[0].horizon
    if start is None:
        start = as_guess(problems[0].guess, d, N)
        if any(p.guess is not problems[0].guess for p in problems):
            return None
    if isinstance(start, tuple):
        return None
    if start is None or isinstance(start, np.ndarray):
        U = np.repeat(_resting(problems)[:, None], N, axis=1) if start is None else start[None]
        return Guess(np.zeros((1, N + 1, d.nx)), U, np.zeros((1, N, d.nu, d.n)), True)
    return policies_of([start])


def _resting(problems: Sequence[Problem]) -> Array:
    """Controls (M, nu) that keep problems at rest where they begin: eight at a time, so that none depends on others."""
    d, M = problems[0].dynamics, len(problems)
    if any(p.dynamics is not d for p in problems):
        return np.array([start_policy(p, None).U[0] for p in problems])
    X0 = np.resize(np.array([p.x0 for p in problems]), (-(-M // WIDTH) * WIDTH, d.nx))
    U = [d.nominal_control(eight) for eight in X0.reshape(-1, WIDTH, d.nx)]
    return as_array("dynamics.nominal_control", np.concatenate(U), (len(X0), d.nu))[:M]


def policies_of(starts: Sequence[Followed]) -> Guess:
    """Policies that problems follow, one of each or one of all."""
    parts = [[getattr(start, name) for start in starts] for name in ("X", "U", "K")]
    made = recycled_rows(len(starts), *(part[0].shape for part in parts))
    for part, out in zip(parts, made, strict=True):
        np.stack(part, out=out)
    X, U, K = made
    return Guess(X, U, K, False)
