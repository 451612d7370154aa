"""Progress of many solves: a line on a terminal, lines of JSON elsewhere, or a function of the user's."""

import json
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from ddp.compiling.announce import Line, is_quiet, write
from ddp.errors import ProblemError, said

OFTEN, SELDOM = 0.2, 5.0
"""Seconds between two lines on a terminal, and elsewhere."""


class Progress(NamedTuple):
    """Counts of a batch on its way, as `solve_many` reports them.

    done, total, converged, failed: samples; failed are those that have raised an error or lost their worker.
    rate: solves per second of this run since its first ones, before which kernels are loaded and processes begin.
    remaining [s]: what is left by that. Both are NaN until more are done.
    """

    done: int
    total: int
    converged: int
    failed: int
    rate: float
    remaining: float

    def __str__(self) -> str:
        known = self.rate == self.rate
        left = f", {self.rate:.4g}/s, {_time(self.remaining)} left" if known else ""
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.done} of {self.total} solved, {self.converged} converged{failed}{left}"


class Reporter:
    """Tells the progress of a batch."""

    def __init__(self, asked: Any, total: int) -> None:
        if not isinstance(asked, bool) and not callable(asked):
            raise ProblemError(f"progress: expected True, False or a function of a Progress, got {said(asked)}")
        self._tell: Callable[[Progress], object] | None = asked if callable(asked) else None
        self._prints = asked is True and not is_quiet()
        self._terminal = self._prints and sys.stderr is not None and sys.stderr.isatty()
        self._total, self._begin, self._last, self._line = total, float("nan"), -SELDOM, Line()
        self.done = self.converged = self.failed = self._before = 0

    def begin(self, text: str, done: int, converged: int, failed: int) -> None:
        """Tell what is about to be done; rows that are there already do not count for the rate."""
        self.done = self._before = done
        self.converged, self.failed = converged, failed
        if self._terminal:
            self._line.end(text)
        elif self._prints:
            write(json.dumps({"begins": text}) + "\n")

    def add(self, done: int, converged: int, failed: int) -> None:
        """Count rows, and tell now and then."""
        self.done, self.converged, self.failed = self.done + done, self.converged + converged, self.failed + failed
        now = time.perf_counter()
        if self._begin != self._begin:
            self._begin, self._before = now, self.done
        if self._tell is not None:
            self._tell(self.state)
        if self._prints and now - self._last >= (OFTEN if self._terminal else SELDOM):
            self._last = now
            self._show(self.state)

    def end(self) -> None:
        """Tell how it ended."""
        if self._terminal:
            self._line.end(str(self.state))
        elif self._prints:
            self._show(self.state)

    @property
    def state(self) -> Progress:
        """Progress so far."""
        solved, seconds = self.done - self._before, time.perf_counter() - self._begin
        rate = solved / max(seconds, 1e-9) if solved else float("nan")
        remaining = (self._total - self.done) / rate if self.done < self._total else 0.0
        return Progress(self.done, self._total, self.converged, self.failed, rate, remaining)

    def _show(self, state: Progress) -> None:
        if self._terminal:
            self._line.show(str(state))
            return
        told = {name: None if value != value else value for name, value in state._asdict().items()}
        write(json.dumps(told) + "\n")


def _time(seconds: float) -> str:
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    return f"{whole // 60} min" if whole < 7200 else f"{whole / 3600:.1f} h"
