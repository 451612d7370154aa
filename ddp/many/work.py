"""Solving blocks of samples, in whatever process: the part of many solves that workers do."""

from __future__ import annotations

import hashlib
import pickle
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ddp.errors import DDPError
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
from ddp.successive import Successive

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
    guesses: of each sample, if it has one of its own.
    """

    problem: Problem
    solver: DDP
    type: np.dtype[np.void]
    policies: np.dtype[np.void]
    nominal: Solution | None = None
    root: Array | None = None
    guesses: tuple[Any, ...] | None = None


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
    """A batch to be sent, and its digest."""
    pickled = pickle.dumps(work, protocol=pickle.HIGHEST_PROTOCOL)
    return hashlib.sha256(pickled).hexdigest(), pickled


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
    """Solve the blocks of a task one after the other; into: the rows of all samples, to be written to directly."""
    begin = time.perf_counter()
    rows = np.empty(sum(len(block.rows) for block in task.blocks) if into is None else 0, work.type)
    policies, first, solves = [], 0, _Solves(work)
    known = {
        int(policy["row"]): Known(policy_of(policy), float(policy["slope"]), policy["point"].copy())
        for policy in task.policies
    }
    for block in task.blocks:
        own: dict[int, Known | None] = dict(known)
        for i, (row, parent) in enumerate(zip(block.rows.tolist(), block.parents.tolist(), strict=True)):
            k = first + i
            values = {name: array[k] for name, array in task.values.items()}
            point = task.points[k] if len(task.points) else None
            out = rows[k] if into is None else into[row]
            own[row] = _solved_one(work, solves, row, parent, values, point, own, out)
        if block.anchors:
            policies += [_policy(work, row, own[row]) for row in block.rows.tolist()]
            policies = [policy for policy in policies if policy is not None]
        first += len(block.rows)
    solves.close()
    if into is not None:
        rows = brief(into, np.concatenate([block.rows for block in task.blocks]))
    return Done(rows, np.array(policies, work.policies), time.perf_counter() - begin)


class _Solves:
    """Solves of a batch's samples in memory that is made once."""

    def __init__(self, work: Work) -> None:
        self._solver, self._successive = work.solver, Successive()

    def solve(self, problem: Problem, guess: Any = None) -> Solution:
        """Solve from a guess, by default the problem's own."""
        start = problem.guess if guess is None else guess
        try:
            return self._successive.solve(problem, start, self._solver)
        except BaseException:  # whatever state memory is in
            self._successive = Successive()
            raise

    def close(self) -> None:
        self._successive.close()


def _solved_one(
    work: Work, solves: _Solves, row: int, parent: int, values: dict[str, Any], point: Array | None,
    own: Mapping[int, Known | None], out: Any,
) -> Known | None:  # fmt: skip
    """Solve one sample into its row; return the policy for those that follow it, the parent's if it has none."""
    out["row"], out["parent"], out["start"], out["moved"] = row, parent, OWN, np.nan
    before = _nominal(work) if parent == NOMINAL else own.get(parent)
    try:
        problem = work.problem.varying(values)
        if before is None:
            guess = None if work.guesses is None else work.guesses[row]
            out["start"] = OWN if guess is None else GIVEN
            found = solves.solve(problem, guess)
            fill(out, found)
            return Known(found, np.nan, point) if found.converged else None
        return _followed(solves, problem, before, point, out)
    except Exception as reason:
        fail(out, str(reason) if isinstance(reason, DDPError) else f"{type(reason).__name__}: {reason}")
        return before


def _followed(solves: _Solves, problem: Problem, before: Known, point: Array | None, out: Any) -> Known:
    """Solve a sample from its parent's policy, and from its own guess where that seems to have missed something."""
    found = solves.solve(problem, before.solution)
    if point is None or before.point is None:  # a solution that the user gives is followed, and that is all
        out["start"] = GIVEN
        fill(out, found)
        return before
    out["start"] = NEIGHBOUR
    distance = float(np.linalg.norm(point - before.point)) or 1.0
    rise = (found.cost - before.solution.cost) / distance
    size = RISE * abs(before.solution.cost) / distance
    expected = size if np.isnan(before.slope) else max(STEEPER * before.slope, 0.1 * size)
    if not (found.converged and rise <= expected):
        other = solves.solve(problem)
        better = (other.converged, -other.cost) > (found.converged, -found.cost)
        out["start"] = OWN_BETTER if better else NEIGHBOUR_BETTER
        found = other if better else found
    fill(out, found)
    out["moved"] = _distance(problem, before.solution, found)
    if not found.converged:
        return before
    slope = abs(found.cost - before.solution.cost) / distance
    return Known(found, float(np.fmax(before.slope, slope)), point)


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
