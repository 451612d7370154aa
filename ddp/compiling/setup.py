"""Time in which this process has been loading and compiling kernels, which is not counted as solving.

numba takes its compiler's lock for both and tells when: so whatever is loaded or compiled is found, without the
calls that lead there knowing of it. The lock lets one thread in, others that wait for it wait for kernels, too. So do
forks, and for the call of LLVM that another thread is in: a child, which has no other thread than that which forks, is
left with no kernel half made.
"""

import _thread
import os
import sys
import threading
import time
from collections.abc import Callable
from functools import cached_property

from llvmlite import binding
from numba.core import event
from numba.core.compiler_lock import global_compiler_lock

COMPILING = "numba:compiler_lock"
"""numba's name of the time in which a thread has the compiler's lock, or waits for it."""

PACKAGES = "ddp", "dynamics", "mayne", "problems", "viz"
"""Whose cached properties compile kernels."""

SOON = 0.1
"""Seconds in which Python has left what it does at forks."""


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
event.register(COMPILING, _setup)


_interrupts: list[KeyboardInterrupt] = []
"""Interrupts of forks that wait, which Python would drop, and fork: they come when it has forked."""


_calls = binding.ffi.lib._lock._lock
"""Lock of llvmlite's, which a thread has in each of its calls of LLVM; it takes no other lock there."""


def _wait() -> None:
    """Have no other thread make kernels, or call LLVM."""
    while not _has_taken(global_compiler_lock.acquire, global_compiler_lock.is_locked):
        event.end_event(COMPILING)  # of this wait, which numba counts from its beginning
    while not _has_taken(_calls.acquire, _calls._is_owned):
        pass


def _has_taken(acquire: Callable[[], object], is_owned: Callable[[], bool]) -> bool:
    """Wait for a lock, and tell whether this thread has it, which an interrupt may end the wait without."""
    try:
        acquire()
    except KeyboardInterrupt as interrupt:
        _interrupts.append(interrupt)
        return is_owned()  # where the interrupt came at the end of the wait
    return True


def _go_on() -> None:
    """Let other threads of the parent compile again."""
    _calls.release()
    global_compiler_lock.release()
    if _interrupts:
        _interrupts.clear()
        _thread.start_new_thread(_interrupt, ())


def _interrupt() -> None:
    """Interrupt the main thread when it has left what Python does at forks."""
    time.sleep(SOON)
    _thread.interrupt_main()


def _begin_child() -> None:
    """Start anew in a child of a fork, and let it compile."""
    _interrupts.clear()
    for reset in _setup.forked:
        reset()
    _calls.release()
    global_compiler_lock.release()


def _renew_properties() -> None:
    """Have cached properties of ours that other threads were computing computed by the child."""
    for module in [module for name, module in sys.modules.items() if name.partition(".")[0] in PACKAGES]:
        for thing in list(vars(module).values()):
            for one in list(vars(thing).values()) if issubclass(type(thing), type) else ():
                if type(one) is cached_property:
                    vars(one)["lock"] = threading.RLock()


if sys.version_info < (3, 12):  # later ones have no locks
    _setup.forked.append(_renew_properties)
if sys.platform != "win32":
    os.register_at_fork(before=_wait, after_in_parent=_go_on, after_in_child=_begin_child)


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
