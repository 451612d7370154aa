"""Tells that kernels are compiled: a first solve of half a minute without a word looks broken.

On a terminal and in a notebook it is one line on standard error, there while kernels compile; once none has for a
moment, or a solve ends, it says how many there were:

    compiling kernels (first run only): 31 of 90, 12 s
    compiled 214 of 214 kernels in 33 s

Loading them from the cache, or waiting for another process that compiles them, shows a line, too, where it takes long.
Elsewhere there is no line. The logger ``mayne`` has a record of each in any case. MAYNE_QUIET=1, or a level of that
logger above INFO, turns the line off. Nobody knows before how many kernels a solve will compile: the total is that of
the kernels that those begun so far can call. It grows as others are begun, and never falls while kernels compile; when
all of it is begun, the line says that more may come. What is interrupted is said to be.
"""

import atexit
import inspect
import logging
import multiprocessing
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from types import CodeType
from typing import Any, Protocol

from ddp.compiling import kernel
from ddp.compiling.compiled import Kernel, watchers
from ddp.compiling.setup import around_setup, in_children, setup_lasting

logger = logging.getLogger("mayne")

COMPILING, LOADING = "compiling kernels (first run only)", "loading kernels"

REDRAWN, LONG, SETTLED = 0.25, 0.5, 3.0
"""Times [s]: between drawings of the line, of loading before it is told of, without kernels until compiling is over."""


class Display(Protocol):
    """Shows progress: `show` while kernels compile, `hide` where Python goes on, `end` once none has to."""

    def show(self, text: str) -> None: ...

    def hide(self) -> None: ...

    def end(self, text: str) -> None: ...


class Line:
    """One line on standard error, drawn over itself; nothing where nobody looks."""

    def __init__(self) -> None:
        self._drawn = 0

    def show(self, text: str) -> None:
        if is_watched():
            text = text[: shutil.get_terminal_size().columns - 1]
            write("\r" + text.ljust(self._drawn))
            self._drawn = len(text)

    def hide(self) -> None:
        if self._drawn:
            write("\r" + " " * self._drawn + "\r")
            self._drawn = 0

    def end(self, text: str) -> None:
        self.hide()
        if is_watched():
            write(text + "\n")


def write(text: str) -> None:
    """Write to standard error, if somebody listens there."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (AttributeError, OSError, ValueError):  # there is none, or it is closed
        logger.debug("standard error cannot be written to")


def is_watched() -> bool:
    """Whether someone sees standard error, a terminal's or a notebook's, and did not ask for silence."""
    if is_quiet():
        return False
    return sys.stderr is not None and ("ipykernel" in sys.modules or sys.stderr.isatty())


def is_quiet() -> bool:
    """Whether silence is asked for, by MAYNE_QUIET or the logger's level."""
    return os.environ.get("MAYNE_QUIET", "0") not in ("", "0") or logger.level > logging.INFO


class _Announcer:
    """Counts the kernels of one stretch of compiling, and has them shown."""

    def __init__(self) -> None:
        self.display: Display = Line()
        self.ever = False
        self.reset()

    def reset(self) -> None:
        self._guard = threading.RLock()
        self._begun = self._failed = self._total = 0
        self._stopped = False
        self._expected: set[str] = set()
        self._met: set[str] = set()
        self._seconds = self._since = self._last = 0.0
        self._thread: threading.Thread | None = None

    def begin(self, name: str) -> None:
        """A kernel starts to compile; workers' kernels are not told of, which many compile at once."""
        self.ever = True
        if multiprocessing.parent_process() is not None:
            return
        with self._guard:
            self._last = time.perf_counter()
            if self._begun == 0:
                logger.info("%s...", COMPILING)
            if not self._since:
                self._since = self._last
            self._begun += 1
            if name not in self._expected | self._met:
                self._expected |= callable_from(name) - self._met
            self._expected.discard(name)
            self._met.add(name)
            self._total = max(self._total, self._begun + len(self._expected))
            self._draw()
            self._start()

    def fail(self) -> None:
        """A kernel that was begun is not compiled, because of an error or an interrupt."""
        with self._guard:
            self._failed, self._stopped = self._failed + 1, True

    def stop(self) -> None:
        """An interrupt ends the stretch, whether or not a kernel was being compiled."""
        self._stopped = self._begun > 0

    def wait(self) -> None:
        """Kernels have to be loaded or compiled."""
        if self._thread is None and is_watched() and multiprocessing.parent_process() is None:
            with self._guard:
                self._start()

    def _start(self) -> None:
        self._last = time.perf_counter()
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="announce-kernels", daemon=True)
            self._thread.start()

    def pause(self) -> None:
        """Kernels are ready for now, and Python goes on: what it prints has the terminal to itself."""
        if self._thread is not None:
            with self._guard:
                self._last = time.perf_counter()
                if isinstance(sys.exception(), KeyboardInterrupt):
                    self.stop()
                if self._since:
                    self._seconds, self._since = self._seconds + self._last - self._since, 0.0
                    self._expected.clear()  # what no call has led to, or was in the cache
                self.display.hide()

    def finish(self) -> None:
        """No kernel has to be compiled for now: say how many there were, if any."""
        if self._begun:
            with self._guard:
                if self._begun and not self._since:
                    if self._stopped:
                        done = f"{self._begun - self._failed} kernels, then stopped,"
                    else:
                        done = f"{self._begun} of {self._begun} kernels"
                    text = f"compiled {done} in {self._seconds:.0f} s"
                    self._begun, self._failed, self._total, self._seconds = 0, 0, 0, 0.0
                    self._stopped = False
                    self._met.clear()
                    logger.info(text)
                    self.display.end(text)

    def _draw(self) -> None:
        lasting = self._seconds + time.perf_counter() - self._since
        more = ", more may come" if self._begun >= self._total else ""
        self.display.show(f"{COMPILING}: {self._begun} of {self._total}, {lasting:.0f} s{more}")

    def _watch(self) -> None:
        """Draw the line again and again, so that time is seen to pass, until compiling is over."""
        while True:
            time.sleep(REDRAWN)
            with self._guard:
                if self._since:
                    self._draw()
                elif (lasting := setup_lasting()) > LONG:
                    self.display.show(f"{LOADING}, {lasting:.0f} s")
                elif not lasting and time.perf_counter() - self._last > SETTLED:
                    self._thread = None
                    self.finish()
                    return


@cache
def callable_from(name: str) -> frozenset[str]:
    """The qualified names of the kernels that those of a name call by names of their modules, and theirs."""
    found: set[str] = set()
    waiting = [made for made in kernel.registered() if made.py_func.__qualname__ == name]
    while waiting:
        for called in _called(waiting.pop().py_func):
            if called.py_func.__qualname__ not in found:
                found.add(called.py_func.__qualname__)
                waiting.append(called)
    return frozenset(found)


def _called(function: Any) -> Iterator[Kernel]:
    """The kernels among what a function's code names."""
    names = set(_names(function.__code__))
    for name in names:
        value = function.__globals__.get(name)
        if inspect.ismodule(value):
            yield from filter(_is_compiled_with_callers, (vars(value).get(other) for other in names))
        elif _is_compiled_with_callers(value):
            yield value


def _is_compiled_with_callers(value: Any) -> bool:
    """Whether it is a kernel that is not compiled when it is first called."""
    return isinstance(value, Kernel) and value.returns is None


def _names(code: CodeType) -> Iterable[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


_announcer = _Announcer()


def has_compiled() -> bool:
    """Whether kernels were compiled in this process: not all have come from the cache."""
    return _announcer.ever


def finish() -> None:
    """Say that kernels are compiled, if any were: where a solve ends, what it printed comes after this."""
    _announcer.finish()


@contextmanager
def shown_by(display: Display, ends: bool = True) -> Iterator[None]:
    """Within the block, show the progress of compiling by other means than a line.

    ends: whether the block has a count of its own; without, what compiles before and after it is counted with it.
    """
    if ends:
        _announcer.finish()
    before, _announcer.display = _announcer.display, display
    before.hide()
    try:
        yield
    except KeyboardInterrupt:
        _announcer.stop()
        ends = True
        raise
    finally:
        if ends:
            _announcer.finish()
        _announcer.display = before


watchers.append(_announcer)
around_setup(_announcer.wait, _announcer.pause)
in_children(_announcer.reset)
atexit.register(_announcer.finish)
