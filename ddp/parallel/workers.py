"""Workers for the derivatives of an iterate: this thread alone, several threads, or several processes.

A knot's derivatives depend on that knot alone, so results are the same to the last bit whoever does it. Threads share
memory and need no pickling; they serve where the work is done by compiled kernels, which let go of Python's lock.
What users write in Python holds that lock, and needs processes (process_pool.py).
"""

import itertools
import operator
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, cast

import numpy as np

from ddp.costs.batch import ability
from ddp.derivatives import FIRST, Derivatives, contract_with
from ddp.errors import ProblemError, one_of, positive_integer, said
from ddp.parallel.differentiator import Differentiator
from ddp.parallel.process_pool import Processes, WorkerError
from ddp.problem import Problem
from ddp.protocols import Array

__all__ = ["WorkerError", "Workers", "as_workers", "differentiator"]

AUTO, THREADS, PROCESSES = KINDS = "auto", "threads", "processes"

BLOCK = 8
"""Threads take whole blocks of so many knots, as SIMD lanes do."""

SHARES = 4
"""Slices for each thread: whoever is done with one takes the next, so that a busy core does not hold up the others."""

WORTHWHILE = {THREADS: 0.5e-3, PROCESSES: 0.2}
"""The time [s] that the derivatives of an iterate must take for "auto" to share them. Threads: ten times what it
takes to tell them. Processes: starting them takes about two seconds, that must come back within a solve."""

MOST_KEPT, LARGEST, LARGEST_ALONE = 16, 2**17, 2**21
"""Solves whose derivatives a thread keeps for the next ones, and numbers in all of their Hessians (1 MB), at most; the
last one alone may have as many as humanoids have over 180 knots (16 MB)."""

TRIED = 2
"""Iterates that "auto" differentiates alone before it decides, by the fastest: kernels may be compiled in them."""


@dataclass(frozen=True)
class Workers:
    """Choice of the workers that share the derivatives.

    count: how many, this one included; "auto": as many as there are cores, if the derivatives of the first iterates
        take long enough (`WORTHWHILE`).
    kind: "threads", "processes", or "auto": threads where the dynamics and all terms and constraints say that they are
        `thread_safe`, as the built-in ones do; processes otherwise. Forced threads are right for terms whose Python
        code may be called from several threads at once, and quick where it lets go of Python's lock.
    """

    count: int | str = AUTO
    kind: str = AUTO

    def __post_init__(self) -> None:
        one_of("workers.kind", self.kind, KINDS)
        if not isinstance(self.count, str) or self.count != AUTO:
            object.__setattr__(self, "count", positive_integer("workers.count", cast(int, self.count)))


def as_workers(value: Any) -> Workers:
    """Make `Workers` of a number, "auto", "threads:2" or "processes:2"; ProblemError for anything else."""
    if isinstance(value, Workers):
        return value
    if not isinstance(value, str):
        return Workers(positive_integer("workers", value))
    first, colon, second = value.partition(":")
    kind, count = (first, second if colon else AUTO) if first in KINDS else (AUTO, first)
    if count == AUTO or (count.isdecimal() and int(count) > 0):
        return Workers(AUTO if count == AUTO else int(count), kind)
    raise ProblemError(f'workers: expected at least 1, "auto", "threads:2" or "processes:2", got {said(value)}')


@contextmanager
def differentiator(problem: Problem, workers: Workers | int) -> Iterator[Differentiator]:
    """Make the differentiator that ``workers`` asks for; its threads and processes end with the block."""
    work = _differentiator(problem, workers if isinstance(workers, Workers) else Workers(workers))
    try:
        if isinstance(work, Processes):
            work.start()
        yield work
        _recent.keep(work)
    finally:
        work.close()


def _differentiator(problem: Problem, asked: Workers) -> Differentiator:
    count = AUTO if asked.count == AUTO else min(int(asked.count), problem.horizon + 1)
    if count == 1:
        return _recent.take(problem) or local(problem)
    kind = asked.kind if asked.kind != AUTO else (THREADS if thread_safe(problem) else PROCESSES)
    if count == AUTO:
        return _Measured(problem, kind)
    if kind == THREADS:
        return _Threads(problem, problem.allocate(), int(count))
    return Processes(problem, int(count))


def local(problem: Problem) -> Differentiator:
    """A differentiator in this thread, with memory of its own."""
    return _Local(problem, problem.allocate())


def thread_safe(problem: Problem) -> bool:
    """Whether the dynamics and all terms and constraints are thread-safe."""
    parts = [problem.dynamics, *(term for _, term, _ in problem.terms())]
    return all(ability(part, "thread_safe") for part in parts)


def common(problem: Problem) -> tuple[object, ...]:
    """Objects that problems share which differ in numbers: x0, limits, those of terms, constraints that moved."""
    return problem.dynamics, problem.objective.runs, (problem._before or problem).placed


def sizes(problem: Problem) -> tuple[object, ...] | None:
    """Everything about a problem that memory for its derivatives depends on; None where there are constraints."""
    d, runs = problem.dynamics, problem.objective.runs.tobytes()
    return None if problem.placed else (problem.horizon, d.nx, d.n, d.nu, d.record_size, problem.lanes, runs)


class _Local(Differentiator):
    """Everything in this thread."""

    def __init__(self, problem: Problem, derivatives: Derivatives) -> None:
        self._problem, self.derivatives = problem, derivatives

    @property
    def alone(self) -> bool:
        return True

    @property
    def description(self) -> str:
        return "this thread alone"

    contraction = None

    def close(self) -> None:
        """Do nothing: there is nothing to end."""

    def make(self, X: Array, U: Array, made: int) -> None:
        self._problem.expand(X, U, self.derivatives, 0, len(X), made)

    def rest(self) -> None:
        """Let go of the problem, until `wake`.   last: a weak reference to it."""
        self.common, self.sizes, self.last = common(self._problem), sizes(self._problem), weakref.ref(self._problem)
        del self._problem

    def wake(self, problem: Problem) -> Self:
        """Itself, for a problem that has the last one's objects or sizes."""
        self._problem = problem
        return self


class _Recent(threading.local):
    """Derivatives of a thread's last solves, for the next ones of problems that differ in numbers alone.

    Those whose problem is gone, or which would have to go, serve others of the same sizes: memory there, no number.
    """

    def __init__(self) -> None:
        self._works: list[_Local] = []

    def keep(self, work: Differentiator) -> None:
        """Keep what one thread made, and no more than `MOST_KEPT` and `LARGEST`: the oldest go first."""
        if isinstance(work, _Local):
            work.rest()
            self._works.append(work)
        while _are_too_many(self._works):
            del self._works[0]

    def take(self, problem: Problem) -> _Local | None:
        """Derivatives of a problem with such terms, and the same constraints and dynamics, or of such sizes."""
        works, objects, numbers = self._works, common(problem), sizes(problem)
        found = [k for k, own in enumerate(works) if all(map(operator.is_, own.common, objects))]
        if not found and numbers is not None:
            alike = [k for k, own in enumerate(works) if own.sizes == numbers]
            found = [k for k in reversed(alike) if works[k].last() is None]
            if not found and alike and _are_too_many([*works, works[alike[0]]]):
                found = alike
        return works.pop(found[0]).wake(problem) if found else None


def _are_too_many(works: Sequence[_Local]) -> bool:
    """Whether these are more than a thread keeps."""
    most = LARGEST if len(works) > 1 else LARGEST_ALONE
    return len(works) > MOST_KEPT or sum(own.derivatives.exact.size for own in works) > most


_recent = _Recent()


class _Threads(Differentiator):
    """A pool of threads, this one among them, that take slices of the knots until none is left."""

    def __init__(self, problem: Problem, derivatives: Derivatives, count: int) -> None:
        self._problem, self.derivatives, self._count = problem, derivatives, count
        self._pool = ThreadPoolExecutor(count - 1, thread_name_prefix="mayne")
        self._waiting: deque[tuple[int, int]] = deque()

    @property
    def description(self) -> str:
        return f"{self._count} threads"

    def contract(self, weights: Array, out: Array, in_blocks: bool = False) -> None:
        dynamics, record = self._problem.dynamics, self.derivatives.record

        def contract(start: int, stop: int) -> None:
            contract_with(dynamics, record[start:stop], weights[start:stop], out[start:stop], in_blocks)

        self._share(contract, len(record))

    def close(self) -> None:
        """End the threads, once they are done with the slice that they are at."""
        self._waiting.clear()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def make(self, X: Array, U: Array, made: int) -> None:
        def make(start: int, stop: int) -> None:
            self._problem.expand(X, U, self.derivatives, start, stop, made)

        self._share(make, len(X))

    def _share(self, work: Callable[[int, int], None], size: int) -> None:
        """Do ``work(start, stop)`` for all slices of ``size`` knots; of several failures, raise the first knots'."""
        self._waiting = deque(slices(size, self._count))
        failures: dict[int, Exception] = {}
        others = [self._pool.submit(_take, self._waiting, work, failures) for _ in range(self._count - 1)]
        _take(self._waiting, work, failures)
        wait(others)
        for other in others:
            other.result()  # what is no Exception
        if failures:
            raise failures[min(failures)]


def _take(waiting: deque[tuple[int, int]], work: Callable[[int, int], None], failures: dict[int, Exception]) -> None:
    """Do one slice after another, with others who do the same."""
    with np.errstate(all="ignore"):  # every thread has its own
        while True:
            try:
                start, stop = waiting.popleft()
            except IndexError:
                return
            try:
                work(start, stop)
            except Exception as failure:
                failures[start] = failure


def slices(size: int, count: int) -> list[tuple[int, int]]:
    """The knots 0 .. size-1 in slices of whole blocks, `SHARES` for each of ``count`` threads if there are so many."""
    blocks = max(1, size // BLOCK)
    bounds = np.linspace(0, blocks, min(blocks, SHARES * count) + 1).astype(int) * BLOCK
    bounds[-1] = size
    return [(int(start), int(stop)) for start, stop in itertools.pairwise(bounds)]


def cores() -> int:
    """The processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Measured(Differentiator):
    """One thread alone at first; others with it once its fastest iterate has shown that this is worthwhile."""

    def __init__(self, problem: Problem, kind: str) -> None:
        self._problem, self._kind, self._count = problem, kind, min(cores(), problem.horizon + 1)
        self._pool: Processes | None = None
        if kind == PROCESSES and self._count > 1:
            try:
                self._pool = Processes(problem, self._count)
            except ProblemError as reason:
                self._count, self._reason = 1, str(reason)
        elif self._count == 1:
            self._reason = "one core"
        self.derivatives = problem.allocate() if self._pool is None else self._pool.derivatives
        self._now: Differentiator = _Local(problem, self.derivatives)
        self._times: list[float] = []
        self._decided = self._count == 1

    @property
    def alone(self) -> bool:
        return self._decided and self._now.alone

    @property
    def description(self) -> str:
        """Description of the choice, and why it was made."""
        if self._count == 1:
            return f"{self._now.description} ({self._reason})"
        if not self._times:
            return self._now.description
        return f"{self._now.description} (an iterate's derivatives took {1e3 * min(self._times):.2g} ms of one)"

    def contract(self, weights: Array, out: Array, in_blocks: bool = False) -> None:
        self._timed(partial(self._now.contract, weights, out, in_blocks))

    def turn_to(self, problem: Problem) -> None:
        self._problem = problem
        self._now.turn_to(problem)

    def close(self) -> None:
        self._now.close()
        if self._pool is not None:
            self._pool.close()

    def make(self, X: Array, U: Array, made: int) -> None:
        if not self._decided and made & FIRST:  # another iterate
            if len(self._times) == TRIED:
                self._decided = True
                self._take_over()
            else:
                self._times.append(0.0)
        self._timed(partial(self._now.make, X, U, made))

    def _timed(self, stage: Callable[[], None]) -> None:
        before = time.perf_counter()
        stage()
        if not self._decided:
            self._times[-1] += time.perf_counter() - before

    def _take_over(self) -> None:
        """Hand over to several threads or processes, if that pays."""
        if min(self._times) < WORTHWHILE[self._kind]:
            return
        if self._pool is None:
            self._now = _Threads(self._problem, self.derivatives, self._count)
        else:
            self._pool.start()
            self._now = self._pool
