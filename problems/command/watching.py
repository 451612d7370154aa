"""Solves that are watched: iterations kept for a page, or shown while they are made."""

from __future__ import annotations

from collections.abc import Callable

import click

import viz
from ddp.errors import ProblemError
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.solutions.record import Record
from ddp.solutions.solution import Solution
from problems.command.demo import check_robot
from problems.command.playing import wait
from problems.registry import Entry


class Seen:
    """Pages that the options --iterations and --live of a solve ask for; alone: one solve and no search."""

    def __init__(
        self, entry: Entry, problem: Problem, alone: bool, iterations: bool, live: bool, open_browser: bool
    ) -> None:
        if (iterations or live) and not alone:
            raise ProblemError("--iterations, --live: expected without --durations, which makes many solves")
        if iterations or live:
            check_robot(entry, problem)
        self.iterations = viz.Iterations() if iterations else None
        self._live = viz.Live(problem, entry.description, open_browser) if live else None
        self._name = entry.name
        if self._live is not None:
            click.echo(f"the iterations of {self._name} are at {self._live.where}", err=True)

    def and_tell(self, callback: Callable[[Record], None]) -> Both:
        """Callback that shows iterations and calls another."""
        return Both(callback, [watcher for watcher in (self.iterations, self._live) if watcher is not None])

    def end(self, solution: Solution) -> None:
        """Show the solution behind its iterations, until Ctrl-C."""
        if self._live is not None:
            self._live.finish(solution)
            wait(f"the iterations of {self._name} are", self._live.where)


class Both:
    """Callback of a solve for several who watch it."""

    def __init__(self, callback: Callable[[Record], None], watchers: list[viz.Iterations | viz.Live]) -> None:
        self._callback, self._watchers = callback, watchers

    def watch(self, record: Record, X: Array, U: Array) -> None:
        """Tell all of them of an iteration."""
        self._callback(record)
        for watcher in self._watchers:
            watcher.watch(record, X, U)
