"""The loop of many solves: blocks that are ready are handed out in tasks of about a second, and results are kept."""

import logging
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from typing import Any

import numpy as np

from ddp.errors import DDPError, ProblemError, said
from ddp.machine.number import WIDTH
from ddp.many.buffers import Memory, Shared
from ddp.many.executors import Crew, Here, Pool, Threads, is_killed
from ddp.many.plan import Block
from ddp.many.progress import Reporter
from ddp.many.rows import Source, fail
from ddp.many.store import Store
from ddp.many.work import Done, Task, Work, packed, run, solved
from ddp.parallel.workers import cores
from ddp.protocols import Array

logger = logging.getLogger("mayne")

LASTING, SHORTEST, HEAVIEST = 1.0, 0.01, 1 << 23
"""CPU seconds of a task, about; those below which it is not worth its own cost, though others wait at the end; and
bytes of its trajectories and gains, which workers hold several times. Tasks in this process have twice as many bytes,
as its memory is there once."""

WORTHWHILE = 6.0
"""Seconds of work left from which processes are started for it: that takes each about two."""

THREADED, LASTINGLY = 0.3, 10.0
"""Seconds of work left from which threads share compiled loops, and how many times as much as others it takes for
these to be worth processes."""

ENOUGH = 2
"""Scouts with better optima from the problem's own guess from which all samples are solved from it."""


class Driver:
    """One run over the blocks that are not there yet.

    crew: who solves; None: this process at first, then threads or processes of this machine if enough is left to do.
    retries: how often a task is done again whose worker has died.   root: see `Task`.
    verified: whether all samples that follow others are solved from the problem's own guess too.
    """

    def __init__(
        self, work: Work, arrays: Mapping[str, Array], points: Array, results: Memory | Store, crew: Crew | None,
        retries: int, reporter: Reporter, root: Array | None = None, verified: bool = False,
    ) -> None:  # fmt: skip
        self._root, self._verified = root, verified
        self._work, self._arrays, self._points, self._results = work, arrays, points, results
        self._crew, self._retries, self._reporter, self._asked = crew, retries, reporter, crew is not None
        self._here = Here()
        self._sent: tuple[str, bytes] | None = None
        self._second = 0.0
        self._flying: dict[Future[Any], tuple[list[Block], int]] = {}
        self._suspects: deque[tuple[list[Block], int]] = deque()

    def run(self, blocks: Iterable[Block]) -> None:
        """Solve all blocks that are not there, scouts first; whatever ends it, what was solved is kept."""
        blocks = list(blocks)
        self._told = self._results.done.copy()
        self._take_back(blocks)
        left = [block.without(self._results.done) for block in blocks if not self._results.done[block.rows].all()]
        scouts = [block for block in blocks if block.scout]
        self._left = sum(len(block.rows) for block in left)
        try:
            self._solve([block for block in left if block.scout], True)
            verified = self._verified or (bool(left) and self._is_missing(scouts))
            self._second = self._second if verified else 0.0  # scouts cost several times as much as others
            self._solve([block for block in left if not block.scout], verified)
        finally:
            for future in self._flying:
                future.cancel()
            if self._crew is not None:
                self._crew.close()
            self._results.close()

    def _take_back(self, blocks: Sequence[Block]) -> None:
        """Have those solved again whose policies others need and a store has lost, as after a power cut."""
        results = self._results
        of = {int(row): block for block in blocks if block.anchors for row in block.rows}
        waiting = [block for block in blocks if not results.done[block.rows].all()]
        while waiting:
            for row in waiting.pop().needed:
                if results.done[row] and row not in results.policies:
                    results.done[of[row].rows] = False
                    waiting.append(of[row])

    def _is_missing(self, scouts: Sequence[Block]) -> bool:
        """Whether scouts show that neighbours miss better optima, which nothing tells of."""
        if not scouts:
            return False
        starts = self._results.known("start", np.concatenate([block.rows for block in scouts]))
        missed = int((starts == Source.MISSED).sum())
        if missed < ENOUGH:
            return False
        logger.warning(
            "%d of the first %d samples have better optima from the problem's own guess than from their neighbours': "
            "all samples are solved from both, and from those of others (verify=False: from neighbours alone)",
            missed, len(starts),
        )  # fmt: skip
        return True

    def _solve(self, blocks: Sequence[Block], verified: bool) -> None:
        """Solve blocks, each as soon as those that it needs are done."""
        self._verifying, self._due = verified, sum(len(block.rows) for block in blocks)
        self._ready: list[Block] = []
        self._waiting: dict[int, list[tuple[Block, set[int]]]] = {}
        for block in blocks:
            needed = {row for row in block.needed if not self._results.done[row]}
            if not needed:
                insort(self._ready, block, key=_turn)
            for row in needed:
                self._waiting.setdefault(row, []).append((block, needed))
        while self._ready or self._flying or self._suspects:
            self._hand_out()
            self._gather()

    def _hand_out(self) -> None:
        """Give tasks to the crew; those that may have killed a worker one at a time."""
        if self._suspects:
            if not self._flying:
                self._submit(*self._suspects.popleft())
            return
        crew = self._current()
        most = crew.at_once if self._second else _busy(crew)  # tasks are small until one is measured
        while self._ready and len(self._flying) < most:
            self._submit(self._next(crew), 0)

    def _current(self) -> Crew:
        """The crew; decided by what is left, once a few solves have been measured."""
        if self._crew is not None:
            return self._crew
        spare, left = self._work.spare, self._left * self._second
        is_compiled = bool(spare) and not spare[-1].obstacle
        if is_compiled and THREADED < left <= LASTINGLY * WORTHWHILE and cores() > 1:
            self._crew = Threads()
        elif left > (LASTINGLY if is_compiled else 1.0) * WORTHWHILE and cores() > 1:
            try:
                self._sent = packed(self._work)
                self._crew = Pool(cores())
            except ProblemError as reason:  # functions that cannot be sent, or a daemonic process
                logger.warning("solving in this process alone: %s", reason)
                self._crew = self._here
        return self._crew or self._here

    def _next(self, crew: Crew) -> list[Block]:
        """Blocks for a task of about a second, the largest ones that fit, but not so many that others wait."""
        most = 1
        if self._second:
            busy = _busy(crew)
            idle = max(1, busy - len(self._flying))
            ready = sum(len(block.rows) for block in self._ready)
            given = sum(len(block.rows) for blocks, _ in self._flying.values() for block in blocks)
            longest = min(LASTING / self._second, (HEAVIEST << crew.is_here) / self._work.policies.itemsize)
            share = max((self._due - given) / busy, SHORTEST / self._second)
            most = max(WIDTH, int(min(longest, share, -(-ready // idle))))
        taken = [self._ready.pop(0)]
        if self._second and len(taken[0].rows) > most and not self._verifying and (taken[0].parents < 0).all():
            head, rest = taken[0].split(most // WIDTH * WIDTH)
            taken = [head]
            insort(self._ready, rest, key=_turn)
        count = len(taken[0].rows)
        for anchors in (True, False):
            while (i := bisect_left(self._ready, (not anchors, count - most), key=_turn)) < len(self._ready):
                if count + len(self._ready[i].rows) > most or self._ready[i].anchors != anchors:
                    break
                taken.append(self._ready.pop(i))
                count += len(taken[-1].rows)
        return taken

    def _submit(self, blocks: list[Block], tried: int) -> None:
        rows = np.concatenate([block.rows for block in blocks])
        needed = sorted({row for block in blocks for row in block.needed})
        known = [self._results.policies[row] for row in needed if row in self._results.policies]
        policies = np.array(known, self._work.policies)
        points = self._points[rows] if len(self._points) else self._points
        values = {name: array[rows] for name, array in self._arrays.items()}
        task = Task(blocks, values, points, policies, self._root, self._verifying)
        crew = self._current()
        if crew.is_here:
            future = crew.submit(solved, self._work, task, self._results.inside)
        else:
            self._sent, outlet = self._sent or packed(self._work), self._results.outlet
            outlet = outlet if crew.is_local or isinstance(outlet, Shared) else None
            try:
                future = crew.submit(run, *self._sent, task, outlet)
            except BrokenExecutor as reason:
                future = Future()
                future.set_exception(reason)
        self._flying[future] = blocks, tried

    def _gather(self) -> None:
        """Keep what has come back; of tasks whose worker has died, do those again that have had no luck yet."""
        broken = []
        for future in wait(self._flying, return_when=FIRST_COMPLETED)[0]:
            blocks, tried = self._flying.pop(future)
            if future.cancelled():
                raise ProblemError("executor: it has cancelled a task; what is in a store is kept")
            reason = future.exception()
            if reason is None:
                self._keep(future.result())
            elif isinstance(reason, BrokenExecutor):
                broken.append((blocks, tried))
            elif is_killed(reason):
                self._again(blocks, tried + 1)
            elif isinstance(reason, DDPError) or not isinstance(reason, Exception):
                raise reason
            else:
                raise ProblemError(f"executor: {type(reason).__name__}: {reason}") from reason
        if broken:
            self._after(broken)

    def _after(self, broken: list[tuple[list[Block], int]]) -> None:
        """The pool has broken, and nobody knows by which task: all under way are done again, one at a time."""
        for future in list(self._flying):
            blocks, tried = self._flying.pop(future)
            if not future.cancelled() and future.exception() is None:
                self._keep(future.result())
            else:
                broken.append((blocks, tried))
        try:
            self._current().renew()
        except ProblemError as reason:
            if self._asked:
                raise
            logger.warning("solving in this process alone: %s", reason)
            self._current().close()
            self._crew = self._here
            for block in (block for blocks, _ in broken for block in blocks):
                insort(self._ready, block, key=_turn)
            return
        if len(broken) == 1:
            self._again(broken[0][0], broken[0][1] + 1)
        else:
            self._suspects += broken

    def _again(self, blocks: list[Block], tried: int) -> None:
        """Have a task done again whose worker has died, block by block; give it up after so many times."""
        if tried <= self._retries:
            self._suspects += [([block], tried) for block in blocks]
            return
        for block in blocks:
            rows = np.zeros(len(block.rows), self._work.type)
            for row, index, parent in zip(rows, block.rows, block.parents, strict=True):
                row["row"], row["parent"] = index, parent
                fail(row, f"its worker died, {tried} times")
            self._keep(Done(rows, np.zeros(0, self._work.policies), 0.0))

    def _keep(self, done: Done) -> None:
        """Keep rows, and let blocks go that have waited for them."""
        if not isinstance(done, Done):
            raise ProblemError(f"executor: expected futures of what functions return, got one of {said(done)}")
        rows = done.rows
        if rows.dtype == self._work.type:
            self._results.put(rows, done.policies)
        else:
            self._results.adopt(rows["row"], done.policies, done.slot, done.anchors)
        self._left -= len(rows)
        self._due -= len(rows)
        if done.seconds:
            each = done.seconds / len(rows)
            self._second = min(each, 0.5 * (self._second + each)) if self._second else each  # first ones load code
        told = self._told[rows["row"]]
        new = rows[~told]
        self._told[new["row"]] = True
        self._reporter.add(len(new), int(new["converged"].sum()), int(np.isnan(new["cost"]).sum()))
        for row in rows["row"].tolist():
            for block, needed in self._waiting.pop(row, ()):
                needed.discard(row)
                if not needed:
                    insort(self._ready, block, key=_turn)


def _busy(crew: Crew) -> int:
    """Tasks of a crew that are solved at the same time, about: the others wait."""
    return max(1, min(crew.at_once // 2, cores()))


def _turn(block: Block) -> tuple[bool, int]:
    """Order in which blocks are handed out: those that others wait for, then the largest ones first."""
    return not block.anchors, -len(block.rows)
