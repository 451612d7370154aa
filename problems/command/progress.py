"""Progress on standard error: kernels that compile, iterations of a solve."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from ddp.compiling.announce import COMPILING, is_quiet, shown_by
from ddp.solutions.record import Record


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
