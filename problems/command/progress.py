"""Progress on standard error: what compiles, which iteration a solve is at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from ddp.compiling import kernel
from ddp.solution import Record

COMPILING = "compiling kernels (first run only)"

_compiled: set[str] = set()
"""The kernels that this process has been seen to compile."""


@contextmanager
def progress(label: str) -> Iterator[Callable[[Record], None]]:
    """Within the block, show that ``label`` is at work; yields a callback for ``ddp.solve``.

    On a terminal: a line with the kernels that compile and one with the iteration. Elsewhere: one line, once a
    process, if anything has to be compiled.
    """
    console = Console(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TextColumn("{task.fields[note]}"),
    )
    bars = Progress(
        *columns, TimeElapsedColumn(), console=console, transient=True, disable=not console.is_terminal
    )
    compiling = bars.add_task(COMPILING, total=None, note="", visible=False)
    solving = bars.add_task(label, total=None, note="")
    iterations = 0

    def started(name: str) -> None:
        if not _compiled and not console.is_terminal:
            console.print(f"{COMPILING}...", highlight=False)
        _compiled.add(name)
        known = max(len(kernel.registered()), len(_compiled))
        bars.update(compiling, note=f"{len(_compiled)} of at most {known}", visible=True)

    def iterated(record: Record) -> None:
        nonlocal iterations
        iterations += 1
        bars.update(compiling, visible=False)
        note = f"iteration {iterations}: cost {record.cost:.6g}, gradient {record.gradient:.1e}"
        bars.update(solving, note=note)

    with bars, kernel.compilations(started):
        yield iterated
