"""Solving blocks of samples, in whatever process: the part of many solves that workers do."""

import hashlib
import pickle
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import numpy as np

from ddp.batch.solves import Solves
from ddp.errors import ProblemError
from ddp.many.buffers import Folder, Outlet, Parts, Shared
from ddp.many.identity import parts_of
from ddp.many.neighbours import Policies, Tree
from ddp.many.plan import Block, Indices
from ddp.many.rows import Rows, empty_rows
from ddp.options import DDP
from ddp.parallel.functions import check_sent, sent_of
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.solutions.solution import Solution

UNSENDABLE = pickle.PicklingError, AttributeError, TypeError
"""Errors of pickle for what other processes cannot import."""

REMEMBERED = 4
"""Batches that a worker keeps the problem of."""


@dataclass(frozen=True)
class Work:
    """A batch as workers know it.

    type, policies: of rows, and of what is kept of anchors, see rows.py.   nominal: the problem's own solution, or one
    that is given, without what differs from one solve of it to the next.
    guesses: of each sample, if it has one of its own.   compiled: whether the loop of `ddp.batch` may serve.
    spare: what solves, between tasks.
    """

    problem: Problem
    solver: DDP
    type: np.dtype[np.void]
    policies: np.dtype[np.void]
    nominal: Solution | None = None
    guesses: tuple[Any, ...] | None = None
    compiled: bool = False
    spare: list[Solves] = field(default_factory=list)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"spare": [], "functions": sent_of(self.problem)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        check_sent(state["problem"], state.pop("functions"))
        vars(self).update(state)


class Task(NamedTuple):
    """Blocks to be solved, what varies in them by name, and policies that they need.

    values: arrays for all rows of the blocks, one after the other.   points (rows, p): or none.
    root (p,): the problem itself as a point; None if no sample follows another.
    verified: whether samples that follow others are solved from the problem's own guess too, and exchange optima.
    """

    blocks: Sequence[Block]
    values: Mapping[str, Array]
    points: Array
    policies: Rows
    root: Array | None = None
    verified: bool = False


class Done(NamedTuple):
    """Outcome of a task: its rows, the policies of anchors, its CPU time [s], and the slot that rows are in.

    seconds: CPU time of the process, but no longer than the task took: other threads solve at the same time.
    anchors: number of policies that are where the rows are, and not here. Little is sent then: who waits for a pool of
    processes would wait for ever for the rest of what a worker was sending when it was killed.
    """

    rows: Rows
    policies: Rows
    seconds: float
    slot: int = -1
    anchors: int = 0


Brief = np.dtype([("row", "<i8"), ("cost", "<f8"), ("converged", "?")])
"""Type of what is told of rows that are in their places, or in a slot."""

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


def run(digest: str, pickled: bytes, task: Task, outlet: Outlet = None) -> Done:
    """Solve the blocks of a task; a sample whose solve raises is a row with its sentence.

    Where there is an outlet, and this process finds it, rows and policies go there: `Brief` rows are returned.
    """
    work = _works.get(digest)
    if work is None:
        work = _works[digest] = _unpacked(pickled)
        while len(_works) > REMEMBERED:
            _works.popitem(last=False)
    slot, into, at = -1, None, None
    if isinstance(outlet, Shared):
        count = sum(len(block.rows) for block in task.blocks)
        most = sum(len(block.rows) for block in task.blocks if block.anchors)
        slot, room = outlet.take(count * work.type.itemsize + most * work.policies.itemsize)
        if slot >= 0:
            into, at = room[: count * work.type.itemsize].view(work.type), np.arange(count)
    done = solved(work, task, into, at)
    if into is not None:
        room[into.nbytes : into.nbytes + done.policies.nbytes] = done.policies.view(np.uint8)
    elif isinstance(outlet, Folder):
        Parts(outlet).put(done.rows, done.policies)
        done = done._replace(rows=brief(done.rows))
    else:
        return done
    return done._replace(policies=done.policies[:0], slot=slot, anchors=len(done.policies))


def _unpacked(pickled: bytes) -> Work:
    """A batch that was sent; ProblemError where this process does not find what it is made of."""
    try:
        return cast(Work, pickle.loads(pickled))
    except (AttributeError, ImportError) as reason:
        raise ProblemError(
            f"executor: a worker cannot find a part of the problem ({reason}): "
            "define it in a module that workers can import, or give executor=1"
        ) from reason


def brief(rows: Rows, which: Any = slice(None)) -> Rows:
    """Some rows as `Brief` ones."""
    return rows[which][list(Brief.names or ())].astype(Brief)


def solved(work: Work, task: Task, into: Rows | None = None, at: Indices | None = None) -> Done:
    """Solve the blocks of a task, level by level of their trees.

    into: rows to be written to, at some places: those of all samples, if no places are given.
    """
    numbers = np.concatenate([block.rows for block in task.blocks])
    parents = np.concatenate([block.parents for block in task.blocks])
    if into is None:
        rows, at = empty_rows(len(numbers), work.type), np.arange(len(numbers))
    else:
        rows, at = into, numbers if at is None else at
    anchors = np.array([row for block in task.blocks if block.anchors for row in block.rows], dtype=np.int64)
    followed = numbers if task.verified else numbers[np.isin(numbers, parents) | np.isin(numbers, anchors)]
    policies = Policies(work.problem, task.policies, work.nominal, task.root, followed.tolist())
    try:
        solves = work.spare.pop()
    except IndexError:  # other threads have taken all
        solves = Solves(work.problem, work.solver, compiled=work.compiled)
    began = time.process_time(), time.perf_counter()
    samples = numbers, parents, task.values, task.points
    tree = Tree(work.problem, solves, *samples, policies, rows, at, task.verified, work.guesses)
    tree.solve()
    if task.verified:
        for which in np.split(np.arange(len(numbers)), np.cumsum([len(block.rows) for block in task.blocks])[:-1]):
            tree.exchange(which)
    work.spare.append(solves)
    cpu, wall = time.process_time() - began[0], time.perf_counter() - began[1]
    return Done(rows if into is None else brief(rows, at), policies.of(anchors), min(cpu, wall))
