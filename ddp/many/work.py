"""Solving blocks of samples, in whatever process: the part of many solves that workers do."""

from __future__ import annotations

import hashlib
import pickle
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ddp.batch.native import Guess, Results
from ddp.batch.solves import Solves, guess_of, policies_of
from ddp.errors import DDPError, ProblemError
from ddp.many.identity import parts_of
from ddp.many.plan import Block
from ddp.many.rows import (
    ARRAYS,
    GIVEN,
    NEIGHBOUR,
    NEIGHBOUR_BETTER,
    NOMINAL,
    OWN,
    OWN_BETTER,
    Rows,
    fail,
    fill,
    policy_of,
)
from ddp.many.shelf import Outlet, Parts, Shared
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.solution import Solution
from ddp.solver import DDP

UNSENDABLE = pickle.PicklingError, AttributeError, TypeError
"""Errors of pickle for what other processes cannot import."""

REMEMBERED = 4
"""Batches that a worker keeps the problem of."""

STEEPER = 3.0
"""Multiple of the steepest rise of cost on the way to a sample's parent, by distance, beyond which the problem's own
guess is tried as well."""

RISE = 1.5
"""Multiple of the parent's cost that serves where there is no such way yet."""


@dataclass(frozen=True)
class Work:
    """A batch as workers know it.

    type, policies: of rows, and of what is kept of anchors, see rows.py.   nominal: the problem's own solution, or one
    that is given.   root (p,): the problem itself as a point; None if no sample follows another.
    guesses: of each sample, if it has one of its own.   compiled: whether the loop of `ddp.batch` may serve.
    spare: what solves, between tasks.
    """

    problem: Problem
    solver: DDP
    type: np.dtype[np.void]
    policies: np.dtype[np.void]
    nominal: Solution | None = None
    root: Array | None = None
    guesses: tuple[Any, ...] | None = None
    compiled: bool = False
    spare: list[Solves] = field(default_factory=list)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"spare": []}


class Task(NamedTuple):
    """Blocks to be solved, what varies in them by name, and policies that they need.

    values: arrays for all rows of the blocks, one after the other.   points (rows, p): or none.
    """

    blocks: Sequence[Block]
    values: Mapping[str, Array]
    points: Array
    policies: Rows


class Done(NamedTuple):
    """Outcome of a task: its rows, the policies of anchors, and how long it took [s]."""

    rows: Rows
    policies: Rows
    seconds: float


class Known(NamedTuple):
    """A policy to follow: its solution, what its cost lets expect, and where it is."""

    solution: Solution
    slope: float
    point: Array | None


Brief = np.dtype([("row", "<i8"), ("cost", "<f8"), ("converged", "?")])
"""Type of what is told of rows that are in their place already."""

_outlets: list[Outlet] = [None]
"""Where this process puts rows: the last one."""

_works: OrderedDict[str, Work] = OrderedDict()
"""Batches that this process has met, by their digests."""


def packed(work: Work) -> tuple[str, bytes]:
    """A batch to be sent, and its digest; ProblemError that names the part of the problem that cannot be sent."""
    try:
        pickled = pickle.dumps(work, protocol=pickle.HIGHEST_PROTOCOL)
    except UNSENDABLE as reason:
        parts = parts_of(work.problem, work.solver).items()
        name = next((name for name, part in parts if not _sendable(part)), "problem")
        raise ProblemError(
            f"{name}: cannot be sent to other processes ({reason}): "
            "define it at the top of a module, or give executor=1"
        ) from reason
    return hashlib.sha256(pickled).hexdigest(), pickled


def _sendable(part: Any) -> bool:
    try:
        pickle.dumps(part, protocol=pickle.HIGHEST_PROTOCOL)
    except UNSENDABLE:
        return False
    return True


def run(digest: str, pickled: bytes, task: Task) -> Done:
    """Solve the blocks of a task; a sample whose solve raises is a row with its sentence.

    Where there is an outlet, rows go there, and those that are returned are `Brief`.
    """
    work = _works.get(digest)
    if work is None:
        work = _works[digest] = pickle.loads(pickled)
        while len(_works) > REMEMBERED:
            _works.popitem(last=False)
    outlet = _outlets[-1]
    if outlet is None:
        return solved(work, task)
    if isinstance(outlet, Shared):
        return solved(work, task, outlet.rows)
    done = solved(work, task)
    Parts(outlet).put(done.rows, done.policies)
    return done._replace(rows=brief(done.rows))


def put_into(outlet: Outlet) -> None:
    """Have this process put rows into an outlet from now on."""
    _outlets.append(outlet)


def brief(rows: Rows, which: Any = slice(None)) -> Rows:
    """Some rows as `Brief` ones."""
    return np.array(list(zip(*(rows[name][which] for name in Brief.names or ()), strict=True)), Brief)


def solved(work: Work, task: Task, into: Rows | None = None) -> Done:
    """Solve the blocks of a task, level by level of their trees; into: the rows of all samples, to be written to."""
    begin = time.perf_counter()
    count = sum(len(block.rows) for block in task.blocks)
    rows = np.empty(count if into is None else 0, work.type)
    known: dict[int, Known | None] = {
        int(policy["row"]): Known(policy_of(policy), float(policy["slope"]), policy["point"].copy())
        for policy in task.policies
    }
    samples: list[_Sample] = []
    for block in task.blocks:
        for row, parent in zip(block.rows.tolist(), block.parents.tolist(), strict=True):
            k = len(samples)
            values = {name: array[k] for name, array in task.values.items()}
            point = task.points[k] if len(task.points) else None
            samples.append(_Sample(row, parent, values, point, rows[k] if into is None else into[row]))
    solves = work.spare.pop() if work.spare else Solves(work.problem, work.solver, compiled=work.compiled)
    for level in _levels(samples):
        _solve_level(work, solves, level, known)
    work.spare.append(solves)
    anchors = [row for block in task.blocks if block.anchors for row in block.rows.tolist()]
    policies = [policy for row in anchors if (policy := _policy(work, row, known[row])) is not None]
    if into is not None:
        rows = brief(into, np.array([sample.row for sample in samples], dtype=np.int64))
    return Done(rows, np.array(policies, work.policies), time.perf_counter() - begin)


class _Sample(NamedTuple):
    """A sample to be solved, and the row to write to."""

    row: int
    parent: int
    values: dict[str, Any]
    point: Array | None
    out: Any


def _levels(samples: list[_Sample]) -> list[list[_Sample]]:
    """Samples by how many others of them have to be solved before."""
    depth: dict[int, int] = {}
    levels: list[list[_Sample]] = []
    for sample in samples:
        depth[sample.row] = own = depth.get(sample.parent, -1) + 1
        if own == len(levels):
            levels.append([])
        levels[own].append(sample)
    return levels


def _solve_level(work: Work, solves: Solves, samples: list[_Sample], known: dict[int, Known | None]) -> None:
    """Solve samples that need none of each other; ``known`` takes the policies for those that follow them."""
    alone, following = list[_Posed](), list[_Posed]()
    for sample in samples:
        out = sample.out
        out["row"], out["parent"], out["start"], out["moved"] = sample.row, sample.parent, OWN, np.nan
        before = known[sample.row] = _nominal(work) if sample.parent == NOMINAL else known.get(sample.parent)
        try:
            posed = _Posed(sample, work.problem.varying(sample.values), before)
        except Exception as reason:
            _fail(out, reason)
            continue
        (alone if before is None else following).append(posed)
    for posed, found in zip(alone, _solve_own(work, solves, alone), strict=True):
        out = posed.sample.out
        out["start"] = OWN if work.guesses is None or work.guesses[posed.sample.row] is None else GIVEN
        if isinstance(found, Exception):
            _fail(out, found)
            continue
        fill(out, found)
        known[posed.sample.row] = Known(found, np.nan, posed.sample.point) if found.converged else None
    found_there = _solve_following(solves, following)
    doubted = [
        i for i, (posed, found) in enumerate(zip(following, found_there, strict=True))
        if isinstance(found, Solution) and _is_doubted(posed, found)
    ]  # fmt: skip
    others = dict(zip(doubted, _solve_own(work, solves, [following[i] for i in doubted]), strict=True))
    for i, (posed, found) in enumerate(zip(following, found_there, strict=True)):
        known[posed.sample.row] = _entered(posed, found, others.get(i))


class _Posed(NamedTuple):
    """A sample, its problem, and the policy that it follows, if any."""

    sample: _Sample
    problem: Problem
    before: Known | None

    @property
    def distance(self) -> float:
        """How far the parent is; NaN where a solution is followed that the user gave."""
        if self.sample.point is None or self.before is None or self.before.point is None:
            return np.nan
        return float(np.linalg.norm(self.sample.point - self.before.point)) or 1.0


def _solve_own(work: Work, solves: Solves, posed: list[_Posed]) -> list[Solution | Exception]:
    """Solve problems from their own guesses, or those that samples without parents are given."""
    if work.guesses is not None and posed and posed[0].before is None:
        return [_attempt(solves, one.problem, work.guesses[one.sample.row]) for one in posed]
    problems = [one.problem for one in posed]
    return _solve(solves, problems, guess_of(problems, None) if problems else None, lambda i: None)


def _solve_following(solves: Solves, posed: list[_Posed]) -> list[Solution | Exception]:
    """Solve problems from the policies that they follow."""
    starts = [one.before.solution for one in posed if one.before is not None]
    return _solve(solves, [one.problem for one in posed], policies_of(starts) if starts else None, starts.__getitem__)


def _solve(
    solves: Solves, problems: list[Problem], guess: Guess | None, start: Callable[[int], Any]
) -> list[Solution | Exception]:
    """Solutions of problems, or what solving them raised."""
    if not problems:
        return []
    if solves.obstacle:
        return [_attempt(solves, problem, start(i)) for i, problem in enumerate(problems)]
    out = Results.empty(problems[0], len(problems))
    others = solves.run(problems, guess, start, out)
    return [others[i] if i in others else solves.solution(problem, out, i) for i, problem in enumerate(problems)]


def _attempt(solves: Solves, problem: Problem, start: Any) -> Solution | Exception:
    """The solution of one problem, or what solving it raised."""
    try:
        return solves.alone(problem, start)
    except Exception as reason:
        return reason


def _fail(out: Any, reason: Exception) -> None:
    """Write into a row why there is no solution."""
    fail(out, str(reason) if isinstance(reason, DDPError) else f"{type(reason).__name__}: {reason}")


def _is_doubted(posed: _Posed, found: Solution) -> bool:
    """Whether following a neighbour seems to have missed something, so that the problem's own guess is tried as well.

    A solution that the user gives is followed, and that is all.
    """
    distance, before = posed.distance, posed.before
    if np.isnan(distance) or before is None:
        return False
    rise = (found.cost - before.solution.cost) / distance
    size = RISE * abs(before.solution.cost) / distance
    expected = size if np.isnan(before.slope) else max(STEEPER * before.slope, 0.1 * size)
    return not (found.converged and rise <= expected)


def _entered(posed: _Posed, found: Solution | Exception, other: Solution | Exception | None) -> Known | None:
    """Write the better solution into its row; the policy for those that follow, the parent's if it has none."""
    out, before, distance = posed.sample.out, posed.before, posed.distance
    assert before is not None
    failed = found if isinstance(found, Exception) else other if isinstance(other, Exception) else None
    if failed is not None:
        _fail(out, failed)
        return before
    assert isinstance(found, Solution)
    if np.isnan(distance):
        out["start"] = GIVEN
        fill(out, found)
        return before
    out["start"] = NEIGHBOUR
    if isinstance(other, Solution):
        better = (other.converged, -other.cost) > (found.converged, -found.cost)
        out["start"] = OWN_BETTER if better else NEIGHBOUR_BETTER
        found = other if better else found
    fill(out, found)
    out["moved"] = _distance(posed.problem, before.solution, found)
    if not found.converged:
        return before
    slope = abs(found.cost - before.solution.cost) / distance
    return Known(found, float(np.fmax(before.slope, slope)), posed.sample.point)


def _distance(problem: Problem, a: Solution, b: Solution) -> float:
    """Root of the mean square of X_b ⊖ X_a."""
    difference = problem.dynamics.difference(a.X, b.X)
    return float(np.sqrt((difference * difference).mean()))


def _nominal(work: Work) -> Known | None:
    return None if work.nominal is None else Known(work.nominal, np.nan, work.root)


def _policy(work: Work, row: int, known: Known | None) -> Any:
    """A policy as a row of `policy_type`; None if there is none."""
    if known is None:
        return None
    made = np.zeros((), work.policies)
    made["row"], made["cost"], made["slope"], made["point"] = row, known.solution.cost, known.slope, known.point
    for name in ARRAYS:
        made[name] = getattr(known.solution, name)
    return made[()]
