"""Many problems of one kind, solved by a compiled loop: `Batch`, and steps of many receding horizons."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ddp.batch.lanes import COST, DONE
from ddp.batch.native import Guess, Results
from ddp.batch.solves import Others, Solves, guess_of
from ddp.constraints.placement import shifted
from ddp.costs import cost_table
from ddp.doubts import tell_doubts
from ddp.errors import DDPError, ModelError, ProblemError, as_array, instance, positive_integer, said
from ddp.guesses import Motion, Start, as_guess
from ddp.machine.recycled import recycled_rows
from ddp.many.plan import given
from ddp.many.rows import ARRAYS, NOMINAL, NONE, Source, empty_rows, row_type
from ddp.many.solutions import Solutions
from ddp.options import DDP, as_solver
from ddp.places import varied_each
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.solutions.solution import Solution, badness
from ddp.solutions.status import Status
from ddp.starts import start_policy
from ddp.successive import Closing


class Batch(Closing):
    """``size`` problems that differ in numbers, solved at once: eight in a register, by loops without Python.

        batch = ddp.Batch(problem, len(X0), threads=2)
        solutions = batch.solve({"x0": X0})

        horizons = ddp.Batch(problem, 1000, ddp.DDP(max_iterations=1, last_sweep=False))
        while running:
            U = horizons.step(states)              # the controls that 1000 robots apply now

    problem: what problems have in common.
    solver: `DDP` (the default), `ILQR` or `Newton`.
    X (size, N+1, nx), U (size, N, nu), K (size, N, nu, n): states, controls and gains of the last call.
    threads: how many share the problems; they work at the same time, since loops hold no lock of Python's.

    Rollouts and derivatives of up to ten degrees of freedom are compiled for the robot, its masses and step: once, some
    seconds for six joints, and kept.

    Iterations, endings and optima are those of `solve` from the same guess, to rounding, and depend on no other problem
    of the batch. Without limits of controls, where states have more than four numbers or controls are no fewer than
    the coordinates that they move, steps are rollouts, as with ``step="rollout"`` of `DDP`. Dynamics are of rigid
    robots without contacts, or functions that are traced, in explicit steps; terms are built in, traced or jitted.
    Whatever else problems have is ``obstacle``, in words: then `solve` does all of them, one after the other. So it
    does with single problems that come to an end which is neither a minimum nor the limit of iterations, or where the
    gradient is rounding that unstable dynamics magnify; ``left`` counts those of the last call. Problems for which it
    raises an error, where a cost is no number, say, are in ``failed``, why by place: their cost, X, U and K are NaN,
    and the others' are as they would be without them.

    It can be pickled and copied between calls, and goes on elsewhere as it would have here. Raises ProblemError for bad
    input.
    """

    def __init__(self, problem: Problem, size: int, solver: DDP | None = None, threads: int = 1) -> None:
        instance("problem", problem, Problem)
        self.problem, self.size = problem, positive_integer("size", size)
        self.solver = as_solver(solver)
        self.threads = positive_integer("threads", threads)
        problem.renew()
        tell_doubts(problem)
        try:
            self._out = Results.empty(problem, self.size)
            for part in vars(self._out).values():
                part[:] = 0.0
        except (MemoryError, ValueError) as reason:
            raise ProblemError(f"size: expected as many problems as memory has room for, got {said(size)}") from reason
        self._begin()
        self.left, self._begun = 0, np.zeros(self.size, dtype=bool)
        self.failed: dict[int, str] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_solves", "_traces")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._out = Results(**{name: part.copy() for name, part in vars(self._out).items()})  # copies have their own
        self._begin()

    def _begin(self) -> None:
        """Make memory for the problem's functions as they are now."""
        self._solves = Solves(self.problem, self.solver, min(self.threads, self.size), most=self.size)
        self.obstacle, self._traces = self._solves.obstacle, self.problem.traces
        self.X, self.U, self.K = self._out.X, self._out.U, self._out.K

    def _renew(self) -> None:
        """Make memory anew if functions have been traced again."""
        self.problem.renew()
        if any(one is not own for one, own in zip(self.problem.traces, self._traces, strict=True)):
            self._solves.close()
            self._begin()

    def solve(self, over: Mapping[str, Any], guess: Start = None) -> Solutions:
        """Solve the problems that have other numbers in some places, see `Problem.varying`.

        over: arrays with one sample a row, (size, ...), by the names of places.
        guess: as of `solve`, for all problems; None: each problem's own.
        """
        self._renew()
        arrays = given(self.problem, over)
        count = len(next(iter(arrays.values())))
        if count != self.size:
            raise ProblemError(f"over: expected {self.size} samples, the size of the batch, got {count}")
        problems = list[Problem]()
        for i, one in enumerate(varied_each(self.problem, arrays)):
            if isinstance(one, DDPError):
                raise type(one)(f"over, sample {i} of {count}: {one}")
            if isinstance(one, Exception):
                raise one
            problems.append(one)
        checked = as_guess(guess, self.problem.dynamics, self.problem.horizon)
        others = self._solve(problems, guess_of(problems, checked), lambda i: checked)
        rows = empty_rows(self.size, row_type(self.problem, ARRAYS, "float64"))
        self._solves.enter(rows, self._out, others)
        rows["row"], rows["moved"] = np.arange(count), np.nan
        rows["start"], rows["parent"] = (Source.OWN, NONE) if checked is None else (Source.GIVEN, NOMINAL)
        return Solutions(rows, arrays, self.problem)

    def step(self, states: ArrayLike) -> Array:
        """The controls (size, nu) to apply in the states (size, nx), each problem solved from its last solution.

        That is moved on by a knot and followed with its gains, as `RecedingHorizon` does; the first time, and where the
        last one has failed or has no finite cost, guesses are the problem's own. The whole plans are
        ``X`` (size, N+1, nx), ``U``, ``K``, until the next call.
        """
        self._renew()
        d = self.problem.dynamics
        X0 = as_array("states", states, (self.size, d.nx))
        d.check_state("states", X0)
        if self._begun.any():
            guess = self._moved_on(X0)

            def start(i: int) -> Start:
                return self._led_on(i, Motion(guess.X[i], guess.U[i], guess.K[i])) if self._begun[i] else None

            self._solve([self.problem] * self.size, guess, start, X0)
        else:
            problems = [self.problem.starting_at(x) for x in X0]
            self._solve(problems, guess_of(problems, None), lambda i: None, X0)  # without second starts
        self._begun = np.isfinite(self._out.numbers[:, COST])
        return self._out.U[:, 0].copy()

    @property
    def cost(self) -> Array:
        """Costs (size,) of the last call."""
        return self._out.numbers[:, COST].copy()

    @property
    def iterations(self) -> NDArray[np.int64]:
        """Numbers of iterations (size,) of the last call."""
        return self._out.numbers[:, DONE].astype(np.int64)

    def _moved_on(self, X0: Array) -> Guess:
        """The last solutions a knot later, as `Solution.shift` has them; own guesses where there is none."""
        problem, d, out = self.problem, self.problem.dynamics, self._out
        X, U, K = recycled_rows(self.size, *(part.shape[1:] for part in (out.X, out.U, out.K)))
        for part, later in ((out.X, X), (out.U, U), (out.K, K)):
            later[:, :-1], later[:, -1] = part[:, 1:], part[:, -1]
        begun: Any = slice(None) if self._begun.all() else np.flatnonzero(self._begun)  # views, where it can be
        x, u, found = out.X[begun, -1], out.U[begun, -1], []
        with np.errstate(all="ignore"):  # some may diverge
            policy = u + np.einsum("mij,mj->mi", K[begun, -1], d.difference(out.X[begun, -2], x))
            ends = [self._end(x, u, last) for last in (policy, d.nominal_control(x))]
            for end, last in ends:
                X[begun, -1], U[begun, -1] = end, last
                found.append(self._badness(X[begun], U[begun]))
        rests = np.array([[resting < led] for led, resting in zip(*found, strict=True)])
        X[begun, -1], U[begun, -1] = (np.where(rests, resting, led) for led, resting in zip(*ends, strict=True))
        for i in np.flatnonzero(~self._begun).tolist():
            try:
                own = start_policy(problem.starting_at(X0[i]), problem.guess)
                X[i], U[i], K[i] = own.X, own.U, own.K
            except DDPError:  # `ddp.solve` says what is wrong
                X[i], U[i], K[i] = X0[i], np.nan, 0.0
        return Guess(X, U, K, False)

    def _led_on(self, i: int, later: Motion) -> Start:
        """The last motion of a problem a knot later, with multipliers and penalties of constraints if there are any."""
        placed, out, nan = self.problem.placed, self._out, float("nan")
        if not placed:
            return later
        multipliers = shifted(placed, self.problem.horizon, out.multipliers[i], 1)
        return Solution(
            later.X, later.U, np.zeros_like(later.U), later.K, nan, nan, False, Status(""), 0, 0.0, (), self.problem,
            multipliers, out.penalties[i].copy(),
        )  # fmt: skip

    def _badness(self, X: Array, U: Array) -> list[Any]:
        """`badness` of trajectories, or, where costs are all that counts, those of their last step and state."""
        if self.obstacle:
            return [badness(self.problem, *one) for one in zip(X, U, strict=True)]
        costs = np.empty((len(X), 2))
        cost_table.last_values(self.problem.objective.table, X, U, costs)
        return [*costs.sum(axis=1)]

    def _end(self, x: Array, u: Array, last: Array) -> tuple[Array, Array]:
        """States (m, nx) after states x by controls ``last`` (m, nu), and these; x and u where these lead nowhere."""
        problem = self.problem
        known = np.isfinite(last).all(axis=1, keepdims=True)
        last = np.where(known, np.clip(last, problem.lower[-1], problem.upper[-1]), u)
        try:
            end = problem.dynamics.step(x, last, problem.horizon - 1)
        except ModelError:
            end = np.array([self._after(*one) for one in zip(x, last, strict=True)])
        leads = known & np.isfinite(end).all(axis=1, keepdims=True)
        return np.where(leads, end, x), np.where(leads, last, u)

    def _after(self, x: Array, u: Array) -> Array:
        """The state (nx,) after the last knot; NaN where there is none."""
        try:
            return self.problem.dynamics.step(x, u, self.problem.horizon - 1)
        except ModelError:
            return np.full_like(x, np.nan)

    def _solve(
        self, problems: list[Problem], guess: Guess | None, start: Callable[[int], Start], states: Array | None = None
    ) -> Others:  # fmt: skip
        """Solve all problems; those that the compiled loop has left are returned."""
        others = self._solves.run(problems, guess, start, self._out, states)
        self.left, self.failed = len(others), {}
        for i, other in others.items():
            if isinstance(other, (ProblemError, ModelError)):
                self.failed[i] = str(other)
            elif isinstance(other, Exception):
                raise other
        return others
