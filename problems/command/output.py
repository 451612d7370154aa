"""Output of commands: results as tables for people or JSON for programs, and progress on standard error."""

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from ddp.compiling.announce import COMPILING, is_quiet, shown_by
from ddp.errors import ProblemError, said
from ddp.files import as_path, as_path_of, as_target
from ddp.solutions.solution import Solution
from ddp.solutions.status import Record
from problems.durations import TimedSolution

GAP, LAST = 2, 16
"""Spaces between columns of tables; least width of the last one, where terminals are narrow."""
COLUMNS = ("iterations", "cost", "gradient", "seconds", "outcome")


def check_file(option: str, path: str, suffixes: Sequence[str] = ()) -> None:
    """Refuse a file that cannot be written, before there is anything to write.

    suffixes: its kinds; none for a solution's (.npz), whose name may have any end that promises no other format.
    """
    if as_path(path, option).is_dir():
        raise ProblemError(f"{option}: expected a file, got a folder, {said(path)}")
    target = as_target(path, suffixes, option)
    if not suffixes:
        as_path_of(".npz", path, option)
    if target.exists() and not os.access(target, os.W_OK):
        raise ProblemError(f"{option}: {path!r} cannot be written, permission is denied")
    try:
        folder = os.path.dirname(os.path.realpath(target))
    except OSError as reason:  # of a working folder that has been removed
        raise ProblemError(f"{option}: cannot write {path!r}: {reason.strerror}") from None
    _check_room(option, folder)


def check_folder(option: str, path: str) -> None:
    """Make a folder if there is none; refuse one that files cannot be written into, before there is any."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as reason:
        raise ProblemError(f"{option}: cannot write into {path!r}: {reason.strerror}") from None
    _check_room(option, path)


def _check_room(option: str, folder: str) -> None:
    """Refuse a folder that files cannot be written into, as one of a file system that cannot be written to."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as reason:
        raise ProblemError(f"{option}: cannot write into {folder!r}: {reason.strerror}") from None


def console() -> Console:
    """Standard output; lines are as long as they have to be where it is no terminal."""
    terminal = Console(highlight=False)
    return terminal if terminal.is_terminal else Console(highlight=False, width=200)


def tell(as_json: bool, value: Any, *shown: str | tuple[Sequence[str], Sequence[Sequence[str]]]) -> None:
    """Print a result: its value as JSON, or else texts, and tables as header and rows."""
    if as_json:
        plain = json.loads(json.dumps(value), parse_constant=lambda constant: None)  # null for NaN and infinity
        print(json.dumps(plain, indent=2))
        return
    for part in shown:
        if isinstance(part, str):
            click.echo(part)
        else:
            print_table(*part)


def wrote(*paths: str | None) -> None:
    """Tell which files were written, of those that were asked for."""
    for path in filter(None, paths):
        click.echo(f"wrote {path}", err=True)


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Rows under a header, without lines; brackets are text, of units and of lists, and no markup.

    Terminals break the last column alone, and lines where there is no room for that.
    """
    table = Table(box=None, pad_edge=False)
    for i, name in enumerate(header):
        table.add_column(escape(name), no_wrap=i < len(header) - 1)
    for row in rows:
        table.add_row(*map(escape, row))
    output = console()
    others = [max(map(len, column)) + GAP for column in list(zip(header, *rows, strict=True))[:-1]]
    output.width = max(output.width, sum(others) + LAST)
    with output.capture() as drawn:
        output.print(table)
    click.echo(drawn.get(), nl=False)


def row(solution: Solution) -> list[str]:
    """A solution as the `COLUMNS` of a comparison."""
    numbers = [f"{solution.cost:.6g}", f"{solution.gradient:.1e}", f"{solution.seconds:.2f}"]
    return [str(solution.iterations), *numbers, "converged" if solution.converged else solution.status]


def summary(solution: Solution) -> dict[str, Any]:
    """A solution's outcome and history; the trajectory is for ``Solution.save``."""
    fields = ("converged", "status", "start", "cost", "gradient", "violation", "iterations", "seconds", "setup_seconds")
    history = [record._asdict() for record in solution.history]
    return {name: getattr(solution, name) for name in fields} | {"history": history}


def told(timed: TimedSolution) -> dict[str, Any]:
    """Outcome and history of a search for durations, for JSON."""
    fields = ("converged", "status", "cost", "time_value", "seconds", "setup_seconds")
    trials = [{**vars(trial), "durations": trial.durations.tolist()} for trial in timed.history]
    lasting = {"durations": timed.durations.tolist(), "duration_gradient": timed.gradient.tolist(), "solves": trials}
    return {name: getattr(timed, name) for name in fields} | lasting


def taken(outcome: Solution | TimedSolution) -> str:
    """Time of a solve, in words; with loading and compiling kernels where that can be felt."""
    setup = outcome.setup_seconds
    return f"({outcome.seconds:.2f} s{f', and {setup:.1f} s to load and compile kernels' if setup >= 0.05 else ''})"


@contextmanager
def progress(label: str) -> Iterator[Callable[[Record], None]]:
    """Within the block, show that ``label`` is at work; yields a callback for ``ddp.solve``.

    On a terminal: a line with the kernels that compile and one with the iteration. Elsewhere: one line, once a
    process, if anything has to be compiled. With MAYNE_QUIET=1 nothing.
    """
    if is_quiet():
        yield lambda record: None
        return
    console = Console(stderr=True)
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    bars = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    compiling = _Compiling(bars)
    solving = bars.add_task(_fitting(label, console), total=None)
    iterations = 0

    def iterated(record: Record) -> None:
        nonlocal iterations
        iterations += 1
        note = f"iteration {iterations}: cost {record.cost:.6g}, gradient {record.gradient:.1e}"
        bars.update(solving, description=_fitting(f"{label} {note}", console))

    with bars, shown_by(compiling, ends=False):
        yield iterated


def _fitting(text: str, console: Console) -> str:
    """Cut a text so that spinner, text and time fit into one line."""
    room = max(1, console.width - len("s  0:00:00 "))
    return text if len(text) <= room else f"{text[: room - 3]}..."


class _Compiling:
    """The compiling of kernels as one of the bars; where there is no terminal, a line when it begins."""

    announced = False

    def __init__(self, bars: Progress) -> None:
        self._bars, self._task = bars, bars.add_task("", total=None, visible=False)

    def show(self, text: str) -> None:
        if self._bars.console.is_terminal:
            self._bars.update(self._task, description=_fitting(text, self._bars.console), visible=True)
        elif not _Compiling.announced:
            _Compiling.announced = True
            self._bars.console.print(f"{COMPILING}...", highlight=False)

    def hide(self) -> None:
        """Do nothing: the line of the iterations shows the time in between."""

    def end(self, text: str) -> None:
        self._bars.update(self._task, visible=False)
        if self._bars.console.is_terminal:
            self._bars.console.print(text, highlight=False)
