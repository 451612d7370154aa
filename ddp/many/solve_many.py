"""Solving many problems that differ in numbers, and one problem from many guesses: public functions and arguments."""

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numba
import numpy as np

from ddp.doubts import logger, tell_doubts
from ddp.errors import (
    DDPError,
    ProblemError,
    affordable,
    instance,
    integer,
    items,
    positive,
    positive_integer,
    said,
    suggesting,
)
from ddp.feedback.policy import names
from ddp.guesses import as_guess
from ddp.many.buffers import Memory
from ddp.many.driver import Driver
from ddp.many.executors import Executor, crew_of
from ddp.many.identity import digest, identity_of, varied_of
from ddp.many.plan import BLOCK, TREE, Block, equals, given, independent, of_shard, points_of, tree_of, with_scouts
from ddp.many.progress import Reporter
from ddp.many.rows import ENDINGS, NOMINAL, NONE, STARTS, policy_type, row_type, solution_of
from ddp.many.solutions import Solutions
from ddp.many.store import FORMAT, VERSION, Store, waiting
from ddp.many.work import Work, packed
from ddp.options import DDP, as_solver
from ddp.packages import edition
from ddp.posture_guesses import own_guesses
from ddp.problem import Problem
from ddp.solutions.columns import times
from ddp.solutions.solution import Solution
from ddp.solver import solve

NEIGHBOURS = "neighbours"

KEPT = "X", "U", "K", "multipliers", "penalties"

FEW = 64
"""Samples of a batch that are solved one by one, with less to load and to compile, if there are no more."""


@suggesting
def solve_many(
    problem: Problem,
    over: Mapping[str, Any],
    solver: DDP | None = None,
    executor: int | Executor | None = None,
    start: Solution | str | None = None,
    into: str | os.PathLike[str] | None = None,
    keep: Sequence[str] = KEPT,
    dtype: Any = "float64",
    retries: int = 1,
    progress: Any = False,
    shard: tuple[int, int] | None = None,
    verify: bool | None = None,
) -> Solutions:
    """Solve a problem many times, each time with other numbers in some places.

        batch = solve_many(problem, over={"x0": X0, "target": poses}, start="neighbours", into="reach.zarr")

    over: arrays with one sample a row, (M, ...), by the names of places, see `Problem.varying`; all of the same length.
    solver: `DDP` (the default), `ILQR` or `Newton`.
    executor: who solves. None: this process, with threads where compiled loops solve (see `Batch.obstacle`), and if
        much is left to do, processes of this machine; a number of processes, 1 for this one alone; or an object with
        ``submit`` as of `concurrent.futures`: a pool of threads or processes, Dask's ``client.get_executor()``,
        ``MPIPoolExecutor``, loky's, ``ddp.RayExecutor()``. Processes that are started here import the main script: its
        own call must be under ``if __name__ == "__main__":``; if it is not, a number of them is refused, and None goes
        on in this process alone, with a warning.
    start: what solves start from. None: the problem's own guess; a `Solution`, whose policy each follows; "neighbours":
        each follows the policy of the nearest sample among some that are solved before, the first ones that of the
        problem's own solution. Near are optimal motions, by the derivatives of that solution, or of few samples their
        numbers. Where that does not converge, or costs more than the way there lets expect, the problem's own guess is
        tried as well, and the better one kept. See ``verify`` for what that misses. Where there are several branches of
        optima, as on both sides of an obstacle, this takes longer than None.
    into: path of a zarr group (the extra ``mayne[batch]``), which is resumed if it is there; None: memory.
    keep: of "X", "U", "k", "K", "multipliers", "penalties"; the last two are of constraints alone.
    dtype: what they are kept as, "float64" or "float32".
    retries: how often samples are solved again whose worker has died.
    progress: True: on standard error, a line on a terminal; elsewhere lines of JSON, first ``{"begins": text}``, then
        about every five seconds and at the end the fields of `Progress`, null for what is not known yet. Or a function
        of a `Progress`.
    shard: ``(number, count)``, number 1 .. count: solve only a share, into a store that all shares write to. The one
        that ends last completes it.
    verify: which samples that follow neighbours are solved from the problem's own guess as well, whatever they cost,
        so that none ends worse than in a loop of `solve`. True: all, which takes more time than that loop. None: about
        50 first, and all of them if two or more of these are better from it. False: none. Samples that are verified
        offer the better optima so found to their neighbours. ``work`` counts the iterations of all that was tried.

    Results lie in the order of ``over``, and are the same to the last bit whoever solves and however often it was
    interrupted: guesses depend on the problem and its samples alone. A sample that does not converge, or raises an
    error, is a row that says so. Ctrl-C, or whatever ends the process, leaves a store from which the same call goes on.

    Raises ProblemError for bad input before any work, and for a store of another problem, which it names.
    """
    instance("problem", problem, Problem)
    method = as_solver(solver)
    tell_doubts(problem)
    by_tree = isinstance(start, str)
    if not (start is None or isinstance(start, Solution) or (by_tree and start == NEIGHBOURS)):
        raise ProblemError(f"start: expected None, a Solution or 'neighbours', got {said(start)}")
    try:
        as_guess(None if by_tree else start, problem.dynamics, problem.horizon)
    except ProblemError as reason:
        raise ProblemError(f"start: {reason}") from None
    share = _shard(shard, into)
    tries = integer("retries", retries)
    if verify is not None and not isinstance(verify, (bool, np.bool_)):
        raise ProblemError(f"verify: expected None, True or False, got {said(verify)}")
    if verify and not by_tree:
        raise ProblemError("verify: expected together with start='neighbours', whose samples it verifies")
    problem.renew()
    arrays = dict(sorted(given(problem, over).items()))  # rounding decides between neighbours on a grid
    count = len(next(iter(arrays.values())))
    kind = row_type(problem, keep, dtype)
    reporter = Reporter(progress, count)
    crew = crew_of(executor)
    try:
        nothing = np.zeros((0, 0))
        points, root = points_of(problem, arrays) if by_tree else (nothing, None)
        policies = policy_type(problem, points.shape[1])
        if into is not None and crew is not None and not crew.is_here:
            packed(Work(problem, method, kind, policies))  # what cannot be sent is refused before there is a store
        plan = {"start": TREE if by_tree else "one solution" if start is not None else "own guess"}
        if by_tree:
            plan["verify"] = "where scouts show the need" if verify is None else "all" if verify else "none"
        given_start = digest((start.X, start.U, start.K)) if isinstance(start, Solution) else ""
        if into is None:
            results: Memory | Store = Memory(count, kind)
        else:
            versions = {"mayne": edition(), "numpy": np.__version__, "numba": numba.__version__}
            versions["machine"] = platform.machine()  # results depend on these to the last bit
            results = Store(into, kind, arrays, {
                "format": FORMAT, "version": VERSION, "problem": identity_of(problem, method),
                "over": {name: digest(values) for name, values in arrays.items()}, "varied": varied_of(problem, arrays),
                "plan": plan | {
                    "given": given_start, "samples": count, "block": BLOCK, "keep": list(kind.names or ()),
                    "dtype": np.dtype(dtype).name,
                },
                "versions": versions, "solver": repr(method), "starts": "; ".join(STARTS),
                "endings": "; ".join(ENDINGS),
            }, _axes(problem, count))  # fmt: skip
        already = np.flatnonzero(results.done)
        size = f", {_bytes(count * kind.itemsize)}" + (f" into {into}" if into is not None else "")
        converged, failed = results.known("converged", already), np.isnan(results.known("cost", already))
        told = len(already), int(converged.sum()), int(failed.sum())
        reporter.begin(f"{count} solves of {_bytes(kind.itemsize)}{size}", *told)
        nominal = start if isinstance(start, Solution) else None
        if by_tree and not results.done.all():
            with suppress(DDPError):  # samples may be solved where the problem itself is not
                own = solve(problem, method, throw=False)
                nominal = own if own.converged else None
        together = np.argsort(equals(arrays), kind="stable")  # equal ones in one task, which solves them once
        blocks: Iterable[Block] = independent(together, NONE if start is None else NOMINAL)
        if root is not None:
            blocks = tree_of(problem, nominal, arrays, points, root)
        if by_tree and verify is None:
            blocks = with_scouts(blocks)
        if share is not None:
            blocks = of_shard(blocks, share)
        if nominal is not None:  # workers know a batch again by what it comes to
            nominal = replace(nominal, seconds=0.0, setup_seconds=0.0, history=())
        work = Work(problem, method, kind, policies, nominal, compiled=count >= FEW)
        Driver(work, arrays, points, results, crew, tries, reporter, root, bool(verify)).run(blocks)
    finally:
        if crew is not None:
            crew.close()
    results.settle()
    reporter.end()
    if isinstance(results, Memory):
        return Solutions(results.rows, arrays, problem)
    return Solutions(results.group, arrays, problem, waiting(results.group))


def _axes(problem: Problem, count: int) -> dict[str, Any]:
    """Coordinates of the axes of arrays: numbers of samples, times of knots [s], names of states and of controls."""
    t, (positions, velocities, controls) = times(problem.dynamics, problem.horizon), names(problem.dynamics)
    labels = {"state": [*positions, *(f"rate of {name}" for name in velocities)], "control": controls}
    named = {name: np.array(label, np.dtypes.StringDType()) for name, label in labels.items()}
    return {"sample": np.arange(count), "state_knot": t, "knot": t[:-1], **named}


def _bytes(count: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} bytes"


def _shard(shard: Any, into: Any) -> tuple[int, int] | None:
    if shard is None:
        return None
    if not isinstance(shard, (tuple, list)) or len(shard) != 2:
        raise ProblemError(f"shard: expected a pair (number, count), got {said(shard)}")
    number, count = integer("shard[0]", shard[0], 0), integer("shard[1]", shard[1], 1)
    if not 1 <= number <= count:
        raise ProblemError(f"shard: expected a number of 1 to {count}, how many there are, got {number}")
    if into is None:
        raise ProblemError("shard: expected together with into, the store that shares write to")
    return number, count


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
        if not self.optima:
            return f"no optima{failed}; of guess {self.failures[0][0]}: {self.failures[0][1]}"
        noun = "optimum" if len(self.optima) == 1 else "optima"
        return f"{len(self.optima)} {noun}: {found}{', ...' if len(self.optima) > 6 else ''}{failed}"


@suggesting
def solve_best(
    problem: Problem, guesses: int | Sequence[Any], solver: DDP | None = None, executor: int | Executor | None = None,
    tolerance: float = 1e-4, retries: int = 1, progress: Any = False,
) -> Optima:  # fmt: skip
    """Solve a problem from many guesses, and tell which optima there are, how often each was found, and the best.

    guesses: each U (N, nu), a pair (X, U), a `Solution` or None, as of `solve`; or how many of the problem's own,
        always the same, in this order: the default, straight ways to the two ends that seem cheapest, such as postures
        of an arm that reach its target, and to random ends, around what these would violate: see `ddp.posture_guesses`.
        The default alone, with a warning, where a function of the problem fails at such ends.
    tolerance: solutions are the same optimum if their costs differ by no more than this, relative to the cost, and
        their states by no more than its square root, relative to the largest entry; 1e-12 and 1e-6 at least, for costs
        and states that are zero.
    solver, executor, retries, progress: as of `solve_many`.

    Raises ProblemError for bad input before any work.
    """
    instance("problem", problem, Problem)
    method = as_solver(solver)
    starts = []
    if isinstance(guesses, (int, np.integer)):
        count = positive_integer("guesses", guesses)
        affordable("guesses", count, count * (problem.horizon + 1) * (problem.dynamics.nx + problem.dynamics.nu))
        problem.renew()
        guesses = own_guesses(problem, count)
        if len(guesses) < count:
            logger.warning("guesses: a function of the problem fails elsewhere: %d of %d made", len(guesses), count)
    given = items("guesses", guesses, "guesses, or how many", some=True)
    for i, guess in enumerate(given):
        try:
            starts.append(as_guess(guess, problem.dynamics, problem.horizon))
        except ProblemError as reason:
            raise ProblemError(f"guesses[{i}]: {reason}") from None
    near = positive("tolerance", tolerance)
    kind = row_type(problem, ("X", "U", "k", "K", "multipliers", "penalties"), np.float64)
    results, reporter = Memory(len(starts), kind), Reporter(progress, len(starts))
    crew = crew_of(executor)
    reporter.begin(f"{len(starts)} solves from guesses", 0, 0, 0)
    problem.renew()
    work = Work(problem, method, kind, policy_type(problem, 0), guesses=tuple(starts))
    arrays = {"x0": np.tile(problem.x0, (len(starts), 1))}
    Driver(work, arrays, np.zeros((0, 0)), results, crew, retries, reporter).run(independent(np.arange(len(starts))))
    reporter.end()
    failures = [(i, row["sentence"].decode()) for i, row in enumerate(results.rows) if not row["converged"]]
    return Optima(tuple(_clusters(problem, results.rows, near)), tuple(failures))


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
