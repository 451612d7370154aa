"""Solves of problems that differ in numbers: by the compiled loop where it knows them, else one after the other."""

from collections.abc import Callable, Sequence

import numpy as np

from ddp.batch.lanes import CONVERGED, COST, DONE, ENDING, EXPECTED, GRADIENT, ITERATIONS, LEFT, ROUNDING
from ddp.batch.native import LANES, Guess, Native, Results, obstacle
from ddp.errors import DDPError, ProblemError
from ddp.guesses import Motion, Start, as_guess, resting
from ddp.many.rows import ARRAYS, Rows, fail, fill, kept_in, said_in
from ddp.many.rows import ENDINGS as NAMES
from ddp.options import DDP
from ddp.posture_guesses import second_starts
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.solutions.explanation import may_be_dear, rests
from ddp.solutions.solution import Solution
from ddp.solutions.status import STEEP, Ending, converged, limit_reached, unstable
from ddp.solver import limit_of_both, may_be_better, solve
from ddp.successive import Successive
from ddp.sweeps.inertia import MINIMUM, UNKNOWN

ENDINGS = Ending.CONVERGED, Ending.ROUNDING, Ending.ITERATIONS
"""Endings of the compiled loop by number."""

Others = dict[int, Solution | Exception]
"""Solutions of `ddp.solve` by the problem's place, or what it raised."""


class Solves:
    """Memory and threads for many solves of problems like one.

    compiled: whether the compiled loop may serve.   obstacle: why it does not, in words; empty if it does.
    most: problems that are solved side by side in a thread, no more than these.
    """

    def __init__(
        self, problem: Problem, solver: DDP, threads: int = 1, compiled: bool = True, most: int = LANES
    ) -> None:  # fmt: skip
        self._problem, self._solver = problem, solver
        self.obstacle = obstacle(problem, solver) if compiled else "not asked for"
        self._native = None if self.obstacle else Native(problem, solver, threads, most)
        self._successive: Successive | None = None
        self._closed = False

    def run(
        self, problems: Sequence[Problem], guess: Guess | None, start: Callable[[int], Start], out: Results,
        states: Array | None = None,
    ) -> Others:  # fmt: skip
        """Solve problems into ``out``; those that `ddp.solve` did are returned, and NaN where it raised.

        guess: as the compiled loop takes guesses; None if it cannot.   start: the guess of a single problem.
        states (M, nx): where the problems begin, if not at their own x0.
        """
        if self._closed:
            raise ProblemError("batch: expected one that is open, this one was closed; make another")
        like, native = self._problem, self._native
        out.numbers[:, ENDING] = LEFT
        if native is not None and guess is not None:
            same = [
                p.dynamics is like.dynamics and p.lower is like.lower and p.upper is like.upper
                and p.objective.has_shapes_of(like.objective) for p in problems
            ]  # fmt: skip
            own = slice(None) if all(same) else np.flatnonzero(same)
            x0 = np.array([p.x0 for p in problems]) if states is None else np.asarray(states)
            tables = [like.objective.table]
            if any(p.objective is not like.objective for p in problems):
                tables = [p.objective.table for p, serves in zip(problems, same, strict=True) if serves]
            if any(same):
                native.solve(x0, guess, tables, out, own)
                if states is None and guess.alone:
                    default = [i for i, p in enumerate(problems) if p.guess is None and start(i) is None]
                    self._start_again(default, problems, x0, out)
                steep = (out.numbers[:, ENDING] < ITERATIONS) & (out.numbers[:, GRADIENT] > STEEP)
                for i in np.flatnonzero(steep).tolist():  # `ddp.solve` tells of them
                    if unstable(out.numbers[i, GRADIENT], out.U[i], out.numbers[i, COST]):
                        out.numbers[i, ENDING] = LEFT
        others: Others = {}
        for i in np.flatnonzero(out.numbers[:, ENDING] == LEFT).tolist():
            problem = problems[i] if states is None else problems[i].starting_at(states[i])
            try:
                found = others[i] = self.alone(problem, start(i), states is None)
            except Exception as reason:
                others[i] = reason
                for name in ARRAYS:
                    getattr(out, name)[i] = np.nan
                out.numbers[i, [COST, GRADIENT, DONE]] = np.nan, np.nan, 0.0
                continue
            for name in ARRAYS:
                getattr(out, name)[i] = getattr(found, name)
            out.numbers[i, [COST, GRADIENT, DONE]] = found.cost, found.gradient, found.iterations
        return others

    def _start_again(self, which: Sequence[int], problems: Sequence[Problem], x0: Array, out: Results) -> None:
        """Make second starts where minima from default guesses may be dear, as `solve` does."""
        done, native = out.numbers[:, DONE].copy(), self._native
        settled = [i for i in which if out.numbers[i, ENDING] < ITERATIONS]
        motions, limit = {i: Motion(out.X[i], out.U[i], out.K[i]) for i in settled}, done.copy()
        limit[settled] = [limit_of_both(motions[i], done[i], self._solver) for i in settled]
        some = [i for i in settled if done[i] < limit[i]]
        starts = second_starts([problems[i] for i in some], [motions[i] for i in some])
        ways = {i: way for i, way in zip(some, starts, strict=True) if isinstance(way, Motion)}
        if not ways or native is None:
            return
        at, found = np.array(list(ways)), Results.empty(self._problem, len(ways))
        X, U, K = (np.array([getattr(way, name) for way in ways.values()]) for name in ("X", "U", "K"))
        native.solve(x0[at], Guess(X, U, K, False), [problems[i].objective.table for i in ways], found)
        total = done[at] + found.numbers[:, DONE]
        better = (found.numbers[:, ENDING] < ITERATIONS) & (total <= limit[at])
        better &= found.numbers[:, COST] < out.numbers[at, COST]
        for name, values in vars(found).items():
            getattr(out, name)[at[better]] = values[better]
        out.numbers[at, DONE] = np.minimum(total, limit[at])
        left = found.numbers[:, ENDING] == LEFT
        left |= (total > limit[at]) & (found.numbers[:, COST] < out.numbers[at, COST])  # `solve` goes on from there
        out.numbers[at[left], ENDING] = LEFT

    def alone(self, problem: Problem, start: Start, again: bool = True) -> Solution:
        """Solve one problem by Python's loop, as `solve` does: in another way, too, where the first one fails.

        again: whether to make second starts from default guesses.
        """
        if self._successive is None:
            self._successive = Successive()
        guess, first = problem.guess if start is None else start, self._solver.attempts(problem)[0]
        try:
            found = self._successive.solve(problem, guess, first, first is not self._solver)
        except BaseException:  # whatever state memory is in
            self._successive = None
            raise
        dear = again and guess is None and found.converged
        if dear and (may_be_dear(found, problem) or rests(found, problem)):
            return solve(problem, self._solver, throw=False)
        if first is self._solver or not may_be_better(found, self._solver, first.full_space(problem)):
            return found
        return solve(problem, self._solver, guess, throw=False)

    def enter(self, rows: Rows, out: Results, others: Others) -> None:
        """Write what `run` has led to into rows: their numbers, and the arrays that they keep."""
        numbers, ending = out.numbers, np.minimum(out.numbers[:, ENDING], ITERATIONS).astype(int)
        rows["cost"], rows["gradient"], rows["converged"] = numbers[:, COST], numbers[:, GRADIENT], ending < ITERATIONS
        rows["iterations"] = rows["work"] = numbers[:, DONE]
        rows["ending"] = np.array([NAMES.index(one.name) for one in ENDINGS])[ending]
        rows["kind"], rows["violation"], rows["sentence"] = np.where(rows["converged"], MINIMUM, UNKNOWN), 0.0, b""
        for name in kept_in(rows):
            rows[name] = getattr(out, name)
        for i in np.flatnonzero(ending != CONVERGED).tolist():
            if i not in others:
                rows["sentence"][i] = said_in(self._sentence(numbers[i]))
        for i, other in others.items():
            if isinstance(other, Solution):
                fill(rows[i], other)
            else:
                fail(rows[i], reason_of(other))

    def _sentence(self, numbers: Array) -> str:
        """The status of a problem that rounding or the limit of iterations ended in the compiled loop."""
        if numbers[ENDING] == ROUNDING:
            return converged(int(numbers[DONE]), self._solver.tolerance)
        reason = limit_reached(self._solver.max_iterations, float(numbers[EXPECTED]))
        return f"not converged after {int(numbers[DONE])} iterations, {reason}"

    def close(self) -> None:
        """End threads; nothing can be solved afterwards."""
        self._closed = True
        if self._native is not None:
            self._native.close()
        if self._successive is not None:
            self._successive.close()


def reason_of(error: Exception) -> str:
    """The sentence of an error, with its type where that is none of this package."""
    return str(error) if isinstance(error, DDPError) else f"{type(error).__name__}: {error}"


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
        x0 = np.array([p.x0 for p in problems])
        U = np.repeat(resting(d, x0)[:, None], N, axis=1) if start is None else start[None]
        return Guess(np.zeros((1, N + 1, d.nx)), U, np.zeros((1, N, d.nu, d.n)), True)
    return Guess(start.X[None], start.U[None], start.K[None], False)
