"""Processes that share the derivatives of an iterate and live as long as the solve.

They are spawned once, with the problem pickled once. Trajectory and derivatives lie in memory that all share: each
process is sent which derivatives to make, and answers with a word. That memory has no name
(`multiprocessing.RawArray`: an unlinked file), so nothing can be left behind, whatever happens. Every process owns a
contiguous slice of the knots.
"""

import ctypes
import math
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np

from ddp.errors import DDPError, ModelError, ProblemError, SolveError
from ddp.parallel.differentiator import Differentiator
from ddp.parallel.functions import check_sent, sent_of
from ddp.problem import Problem
from ddp.protocols import Array

READY = b"ready"


class WorkerError(SolveError):
    """A process of the pool died, or failed in a way that no term or function accounts for."""


class _Shared:
    """The trajectory and the derivatives of a problem, laid out one after another in one shared block.

    size: number of floats that they take, known without a block, too.
    """

    def __init__(self, problem: Problem, block: Any = None) -> None:
        memory, self.size = None if block is None else np.frombuffer(block, dtype=np.float64), 0

        def take(shape: tuple[int, ...]) -> Array:
            begin, self.size = self.size, self.size + math.prod(shape)
            return np.zeros(0) if memory is None else memory[begin : self.size].reshape(shape)

        self.X = take((problem.horizon + 1, problem.dynamics.nx))
        self.U = take((problem.horizon + 1, problem.dynamics.nu))
        self.derivatives = problem.allocate(take)


class Processes(Differentiator):
    """The processes, and the pipes that tell them what to do."""

    def __init__(self, problem: Problem, count: int) -> None:
        refuse_daemons("workers", count, "solve with workers=1 or threads")
        try:
            self._pickled = pickle.dumps((problem, sent_of(problem)))
        except (pickle.PicklingError, AttributeError, TypeError) as reason:
            raise ProblemError(
                f"workers: the problem cannot be sent to {count} processes ({reason}): "
                "define its functions and classes at the top of a module, or solve with workers=1"
            ) from reason
        self._spawn = multiprocessing.get_context("spawn")
        self._block = self._spawn.RawArray(ctypes.c_double, _Shared(problem).size)
        self._shared = _Shared(problem, self._block)
        self.derivatives = self._shared.derivatives
        self._bounds = np.linspace(0, problem.horizon + 1, count + 1).astype(int).tolist()
        self._problem = problem
        self._count = count
        self._processes: list[Any] = []
        self._pipes: list[Connection] = []

    @property
    def description(self) -> str:
        return f"{self._count} processes"

    def start(self) -> None:
        """Spawn the processes and wait until each has read the problem."""
        with deaf_to_interrupts():
            for begin, end in zip(self._bounds, self._bounds[1:], strict=False):
                ours, theirs = self._spawn.Pipe()
                self._pipes.append(ours)
                process = self._spawn.Process(
                    target=_work, args=(theirs, self._pickled, self._block, begin, end), daemon=True
                )
                try:
                    process.start()
                except RuntimeError as reason:  # we are ourselves a child that is still importing its main module
                    raise ProblemError(f"workers: {GUARD}") from reason
                except OSError as reason:  # limits of processes, files or memory, or a current folder that is gone
                    told = f"cannot start {self._count} processes: {reason.strerror or reason}"
                    raise ProblemError(f"workers: {told}") from None
                finally:
                    theirs.close()
                self._processes.append(process)
        self._gather(starting=True)

    def turn_to(self, problem: Problem) -> None:
        """Refuse: processes have the problem that they began with."""
        raise ProblemError("workers: expected threads, processes serve one problem")

    def close(self) -> None:
        """End the processes, at the latest by force."""
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(0.2)
            process.kill()
            process.join()
            process.close()
        self._pipes, self._processes = [], []

    def make(self, X: Array, U: Array, made: int) -> None:
        self._shared.X[:], self._shared.U[: len(U)] = X, U
        for number, pipe in enumerate(self._pipes):
            try:
                pipe.send_bytes(bytes([made]))
            except OSError:
                self._lost(number)
        self._gather(starting=False)

    def _gather(self, starting: bool) -> None:
        """Wait for every process's answer; raise what the first of them raised, or WorkerError if one ended."""
        waiting = dict(enumerate(self._pipes))
        failures: dict[int, bytes] = {}
        while waiting:
            by_object = {self._pipes[i]: i for i in waiting} | {self._processes[i].sentinel: i for i in waiting}
            for i in {by_object[ready] for ready in wait(list(by_object))}:
                try:
                    answer = self._pipes[i].recv_bytes() if self._pipes[i].poll() else None
                except (EOFError, OSError):
                    answer = None
                if answer is None:
                    self._lost(i, starting)
                elif answer != READY:
                    failures[i] = answer
                del waiting[i]
        if failures:  # the first knots', not the fastest process's
            raise _rebuilt(min(failures), failures[min(failures)])

    def _lost(self, i: int, starting: bool = False) -> None:
        process = self._processes[i]
        process.join(1.0)
        what = f"worker {i} (process {process.pid}) ended with exit code {process.exitcode}"
        if starting:
            raise ProblemError(f"workers: {what} while it was starting. {GUARD}")
        raise WorkerError(f"{what} during the solve")


GUARD = (
    "The processes import the main script: its own call of solve must be under `if __name__ == '__main__':` "
    "(and cannot come from standard input)"
)

_KINDS: dict[str, type[DDPError]] = {"ProblemError": ProblemError, "ModelError": ModelError}


def _rebuilt(i: int, answer: bytes) -> Exception:
    """The exception that a worker described; its traceback there is added as a note."""
    kind, message, trace = pickle.loads(answer)
    failure = _KINDS.get(kind, WorkerError)(message)
    failure.add_note(f"in worker {i}:\n{trace}")
    return failure


def refuse_daemons(field: str, count: int, instead: str) -> None:
    """Raise ProblemError where this process can start no others; instead: how to do without."""
    if multiprocessing.current_process().daemon:
        raise ProblemError(
            f"{field}: this process is itself a daemonic one of multiprocessing, which cannot start {count} processes:"
            f" {instead}, or start it with daemon=False"
        )


@contextmanager
def deaf_to_interrupts() -> Iterator[None]:
    """Processes started within the block never see Ctrl-C, not even while importing; here it is held back."""
    if sys.platform == "win32" or threading.current_thread() is not threading.main_thread():
        yield
        return
    resource_tracker.ensure_running()  # it would lift the block if it had to be started inside
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def settle_in(pipe: Connection | None = None) -> None:
    """Let this process end with its parent, or when a pipe is closed, whatever it is at; leave Ctrl-C to the parent.

    The pipe is sent a word: this process has imported what its parent asks for.
    """
    parent = multiprocessing.parent_process()
    if pipe is not None:
        with suppress(OSError):  # the parent has gone
            pipe.send_bytes(READY)
    ends = [*([] if pipe is None else [pipe]), *([] if parent is None else [parent.sentinel])]
    if ends:
        threading.Thread(target=_end_with, args=(ends,), daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _end_with(ends: list[Any]) -> None:
    wait(ends)
    os._exit(1)


def _work(pipe: Connection, pickled: bytes, block: Any, begin: int, end: int) -> None:
    """A worker's life: read the problem, then do what the pipe says until it closes."""
    settle_in()
    np.seterr(all="ignore")
    try:
        try:
            problem, functions = pickle.loads(pickled)
        except Exception as reason:
            raise ProblemError(f"workers: a process cannot read the problem ({reason}). {GUARD}") from reason
        check_sent(problem, functions)
        shared = _Shared(problem, block)
        pipe.send_bytes(READY)
        while True:
            problem.expand(shared.X, shared.U, shared.derivatives, begin, end, pipe.recv_bytes()[0])
            pipe.send_bytes(READY)
    except (EOFError, OSError):
        return
    except Exception as failure:
        message = str(failure) if isinstance(failure, DDPError) else f"{type(failure).__name__}: {failure}"
        pipe.send_bytes(pickle.dumps((type(failure).__name__, message, traceback.format_exc())))
