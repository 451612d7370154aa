"""Time in which this process has been loading and compiling kernels, which is not counted as solving.

numba takes its compiler's lock for both and tells when: so whatever is loaded or compiled is found, without the
calls that lead there knowing of it. The lock lets one thread in, others that wait for it wait for kernels, too. So do
forks: a child, which has no other thread than that which forks, is left with no kernel half made and no lock held.
"""

import os
import sys
import threading
import time
from collections.abc import Callable

from numba.core import event
from numba.core.compiler_lock import global_compiler_lock


class _Setup(event.Listener):  # type: ignore[misc]
    """Seconds with at least one thread inside of the compiler's lock, or before it."""

    def __init__(self) -> None:
        self.entered: list[Callable[[], None]] = []
        self.left: list[Callable[[], None]] = []
        self.forked: list[Callable[[], None]] = [self.reset]
        self.reset()

    def reset(self) -> None:
        self._guard = threading.Lock()
        self._threads, self._since, self._total = 0, 0.0, 0.0

    def on_start(self, happening: event.Event) -> None:
        with self._guard:
            first = self._threads == 0
            if first:
                self._since = time.perf_counter()
            self._threads += 1
        for tell in self.entered if first else ():
            tell()

    def on_end(self, happening: event.Event) -> None:
        with self._guard:
            if self._threads == 1:
                self._total += time.perf_counter() - self._since
            self._threads = max(0, self._threads - 1)  # a child's, which begins at none, leaves its parent's lock
        if self._threads == 0:
            for tell in self.left:
                tell()

    def working_time(self) -> float:
        """Seconds of a clock that stands still while kernels are loaded and compiled."""
        with self._guard:
            now = time.perf_counter()
            return self._since - self._total if self._threads else now - self._total

    def seconds(self) -> float:
        with self._guard:
            return self._total + (time.perf_counter() - self._since if self._threads else 0.0)

    def lasting(self) -> float:
        with self._guard:
            return time.perf_counter() - self._since if self._threads else 0.0


_setup = _Setup()
event.register("numba:compiler_lock", _setup)


def _begin_child() -> None:
    """Start anew in a child of a fork, and let it compile."""
    for reset in _setup.forked:
        reset()
    global_compiler_lock.release()


if sys.platform != "win32":
    lock = global_compiler_lock
    os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=_begin_child)


def setup_lasting() -> float:
    """Time for which kernels have been loaded or compiled without a break [s]; 0 if none are now."""
    return _setup.lasting()


def around_setup(before: Callable[[], None], after: Callable[[], None]) -> None:
    """Call, from now on, ``before`` when kernels have to be loaded or compiled, and ``after`` when Python goes on."""
    _setup.entered.append(before)
    _setup.left.append(after)


def in_children(reset: Callable[[], None]) -> None:
    """Call, from now on, ``reset`` in children of forks, whose locks other threads may have held that are no more."""
    _setup.forked.append(reset)


working_time = _setup.working_time
"""Seconds of a clock that stands still while kernels are loaded and compiled."""


class Stopwatch:
    """Runs from where it is made: `seconds` at work and `setup_seconds` of loading and compiling kernels."""

    def __init__(self) -> None:
        self._working, self._setup = working_time(), _setup.seconds()

    @property
    def seconds(self) -> float:
        """Wall time without loading and compiling kernels."""
        return working_time() - self._working

    @property
    def setup_seconds(self) -> float:
        """Wall time of loading and compiling kernels, by whichever thread of this process."""
        return _setup.seconds() - self._setup
