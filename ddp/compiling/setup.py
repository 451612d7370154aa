"""How long this process has been loading and compiling kernels, which is not counted as solving.

numba takes its compiler's lock for both and tells when: so whatever is loaded or compiled is found, without the
calls that lead there knowing of it. The lock lets one thread in, others that wait for it wait for kernels, too.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable

from numba.core import event


class _Setup(event.Listener):  # type: ignore[misc]
    """Seconds with at least one thread inside of the compiler's lock, or before it."""

    def __init__(self) -> None:
        self.left: list[Callable[[], None]] = []
        self.reset()

    def reset(self) -> None:
        self._guard = threading.Lock()
        self._threads, self._entered, self._total = 0, 0.0, 0.0

    def on_start(self, happening: event.Event) -> None:
        with self._guard:
            if self._threads == 0:
                self._entered = time.perf_counter()
            self._threads += 1

    def on_end(self, happening: event.Event) -> None:
        with self._guard:
            self._threads = max(0, self._threads - 1)
            if self._threads == 0:
                self._total += time.perf_counter() - self._entered
        if self._threads == 0:
            for tell in self.left:
                tell()

    def seconds(self) -> float:
        with self._guard:
            return self._total + (time.perf_counter() - self._entered if self._threads else 0.0)

    @property
    def is_busy(self) -> bool:
        return self._threads > 0


_setup = _Setup()
event.register("numba:compiler_lock", _setup)
if sys.platform != "win32":
    os.register_at_fork(after_in_child=_setup.reset)  # whose other threads are no more


def is_setting_up() -> bool:
    """Whether kernels are being loaded or compiled."""
    return _setup.is_busy


def after_setup(tell: Callable[[], None]) -> None:
    """From now on, call ``tell`` whenever kernels have been loaded or compiled, and Python goes on."""
    _setup.left.append(tell)


def working_time() -> float:
    """Seconds of a clock that stands still while kernels are loaded and compiled."""
    return time.perf_counter() - _setup.seconds()


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
