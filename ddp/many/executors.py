"""Executors: this process, processes of this machine, or anything with the ``submit`` of `concurrent.futures`."""

import multiprocessing
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol, cast

import numpy as np

from ddp.errors import ProblemError, instance, positive_integer, said
from ddp.many.work import REMEMBERED
from ddp.parallel.process_pool import GUARD, deaf_to_interrupts, refuse_daemons, settle_in
from ddp.parallel.workers import cores

MOST_PROCESSES = 1024
"""Processes of this machine, at most."""

LOSSES = {
    "distributed": {"KilledWorker"},
    "ray": {"WorkerCrashedError", "OutOfMemoryError", "NodeDiedError", "ObjectLostError"},
}
"""Errors of Dask and Ray that say that a worker, its machine, or what it had to return has gone."""


class Executor(Protocol):
    """Anything that runs functions somewhere, as executors of `concurrent.futures` do."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        """Begin to run a function, and return its future."""


class Crew:
    """An executor for one batch: how many tasks it is given at a time, how it begins anew, and how it ends.

    is_here: whether tasks share the memory of this process.   is_local: whether they write files where it reads them.
    """

    at_once = 512
    is_here = is_local = False

    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Hand a task over; ProblemError if the executor takes none, or gives something else than a future."""
        try:
            future = self._executor.submit(function, *arguments)
        except BrokenExecutor:
            raise
        except RuntimeError as reason:  # it was shut down
            raise ProblemError(f"executor: {reason}") from None
        except Exception as reason:
            raise ProblemError(f"executor: {type(reason).__name__}: {reason}") from reason
        instance("executor", future, Future, "submit to return a `concurrent.futures.Future`")
        return future

    def renew(self) -> None:
        """Refuse: an executor of the user's that is broken stays so."""
        raise ProblemError("executor: it has broken and takes no more work; what is in a store is kept")

    def close(self) -> None:
        """Do nothing: the executor is the user's."""


class Here(Crew):
    """Runs tasks in this process, one after the other."""

    at_once = 1
    is_here = True

    def __init__(self) -> None:
        """Need no executor."""

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(function(*arguments))
        except Exception as reason:
            future.set_exception(reason)
        return future


class Threads(Crew):
    """Threads of this process, for loops that hold no lock of Python's: the user's, or as many as there are cores."""

    is_here = True

    def __init__(self, pool: ThreadPoolExecutor | None = None) -> None:
        self._own = ThreadPoolExecutor(cores(), thread_name_prefix="mayne") if pool is None else None
        super().__init__(self._own or pool)  # type: ignore[arg-type]
        self.at_once = 2 * cores()

    def close(self) -> None:
        """End threads that are not the user's; they finish the tasks that they are at."""
        if self._own is not None:
            self._own.shutdown(wait=True, cancel_futures=True)


class Spawning:
    """Context of `multiprocessing` that starts processes anew, and knows which."""

    def __init__(self) -> None:
        self._context, self._started = multiprocessing.get_context("spawn"), list[Any]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def Process(self, target: Any, args: Any) -> Any:
        """Make a process, as contexts do."""
        self._started.append(process := self._context.Process(target=target, args=args))
        return process

    def kill(self) -> None:
        """End all processes, also those that are importing and listen to nobody yet."""
        for process in self._started:
            if process.pid is not None:
                process.kill()


class Pool(Crew):
    """Processes of this machine, which begin with the first task and end with this one, however it ends."""

    is_local = True

    def __init__(self, count: int) -> None:
        refuse_daemons("executor", count, "give executor=1")
        self.at_once, self._count, self._has_begun = 2 * count, count, False
        self._pool: ProcessPoolExecutor | None = None
        self._refused = ""

    def _begin(self) -> ProcessPoolExecutor:
        self._spawning = context = cast(Any, Spawning())
        self._theirs, self._ours = self._spawning.Pipe()
        self._pool = ProcessPoolExecutor(self._count, context, settle_in, (self._theirs,))
        return self._pool

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        with deaf_to_interrupts():  # processes are started by it
            try:
                pool = self._begin() if self._pool is None else self._pool
                return pool.submit(function, *arguments)
            except OSError as reason:  # limits of processes, files or memory, or a current folder that is gone
                self._refused = f"cannot start {self._count} processes: {reason.strerror or reason}"
                raise BrokenExecutor(self._refused) from None

    def renew(self) -> None:
        """Start other processes after one has died; ProblemError where none can be started."""
        if self._refused:
            raise ProblemError(f"executor: {self._refused}")
        self._has_begun = self._has_begun or self._ours.poll()
        if not self._has_begun:
            raise ProblemError(f"executor: processes ended while they were starting. {GUARD}")
        self.close()

    def close(self) -> None:
        """End the processes, whatever they are at."""
        if self._pool is not None:
            self._ours.close()
            self._spawning.kill()
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._theirs.close()
            self._pool = None


class RayExecutor:
    """Ray as an executor of `concurrent.futures`, for ``solve_many(executor=RayExecutor())``.

    options: of ``ray.remote``, as num_cpus=1. Ray has to be installed, and is started if it is not.
    """

    def __init__(self, **options: Any) -> None:
        try:
            import ray
        except ImportError:
            raise ProblemError("executor: expected Ray to be installed: pip install ray") from None
        if not ray.is_initialized():
            ray.init()
        self._options = {"num_cpus": 1, "max_retries": 0} | options
        self._ray, self._put, self._remote = ray, OrderedDict[int, tuple[Any, Any]](), dict[Any, Any]()

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        """Run a function as a task of Ray; large bytes among its arguments go to the object store once.

        Cancelling its future ends the task, also one that has begun: Ray would run all that was submitted.
        """
        if function not in self._remote:
            self._remote[function] = self._ray.remote(**self._options)(function)
        task, future = self._remote[function].remote(*map(self._stored, arguments)), Future[Any]()
        future.add_done_callback(lambda done: self._ray.cancel(task) if done.cancelled() else None)
        task.future().add_done_callback(partial(_hand_on, future))
        return future

    def _stored(self, argument: Any) -> Any:
        if not isinstance(argument, bytes):
            return argument
        if id(argument) not in self._put:
            self._put[id(argument)] = argument, self._ray.put(argument)
            while len(self._put) > REMEMBERED:
                self._put.popitem(last=False)
        return self._put[id(argument)][1]


def _hand_on(future: Future[Any], ended: Future[Any]) -> None:
    """Give a future the outcome of Ray's: what the function raised, without the trace that Ray wraps it in."""
    if future.set_running_or_notify_cancel():
        reason = ended.exception()
        if reason is None:
            future.set_result(ended.result())
        else:
            future.set_exception(getattr(reason, "cause", None) or reason)


def crew_of(executor: Any) -> Crew | None:
    """The crew that an argument means; None where it is to be seen what pays. ProblemError for what is no executor."""
    if executor is None:
        return None
    if isinstance(executor, (int, np.integer)) and not isinstance(executor, bool):
        count = positive_integer("executor", int(executor))
        if count > MOST_PROCESSES:
            raise ProblemError(f"executor: expected at most {MOST_PROCESSES} processes, got {said(executor)}")
        return Here() if count == 1 else Pool(count)
    if isinstance(executor, type) or not callable(getattr(executor, "submit", None)):
        raise ProblemError(
            "executor: expected a number of processes, or an object with submit as those of concurrent.futures have,"
            f" got {said(executor)}"
        )
    return Threads(executor) if isinstance(executor, ThreadPoolExecutor) else Crew(executor)


def is_killed(reason: BaseException) -> bool:
    """Whether it says that one worker of Dask's or Ray's has died, rather than that the function raised."""
    return any(cls.__name__ in LOSSES.get(cls.__module__.partition(".")[0], ()) for cls in type(reason).__mro__)
