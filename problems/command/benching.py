"""The command ``mayne bench``: how long things take here."""

from pathlib import Path

import click

from ddp.errors import at_least_zero
from problems.command import dynamics_bench, papers, soft
from problems.command.output import check_file, progress, tell, wrote
from problems.command.shell import JSON, named, refuse_idle
from problems.command.timing import timings

IDLE = {"papers": ("--json",), "dynamics": ("--repeat", "--page")}
"""Options that names have no use for; other names have none for `OF_OTHERS`."""
OF_OTHERS = "--seconds", "--page"


@click.command()
@click.argument("name", default="quadruped/reorientation")
@click.option("--repeat", type=click.IntRange(min=1), default=20, show_default=True, help="Measurements of each time.")
@click.option("--seconds", type=float, default=2.0, show_default=True, help="Seconds for each row of `bench dynamics`.")
@click.option("--page", type=click.Path(), default="papers.html", show_default=True, help="File of `bench papers`.")
@JSON
def bench(name: str, repeat: int, seconds: float, page: str, as_json: bool) -> None:
    """Time the derivatives and the iterations of problem NAME on one thread.

    NAME "dynamics": the derivatives of robots' dynamics against Pinocchio's, called per knot; "soft": soft and hybrid
    robots beside those of a paper; "papers": the figures and tables of the source papers, as one page.
    """
    refuse_idle(f"`bench {name}` has no use for it", *IDLE.get(name, OF_OTHERS))
    at_least_zero("--seconds", seconds)
    if name == "papers":
        check_file("--page", page, [".html"])
        with progress("the papers' figures and tables, measuring"):
            papers.write_papers(Path(page), seconds, repeat, lambda title: click.echo(title, err=True))
        wrote(page)
        return
    if name == "soft":
        with progress("soft and hybrid robots, timing"):
            found = soft.rows(repeat)
        tell(as_json, {"rows": [row._asdict() for row in found]}, (soft.HEADER, [row.cells for row in found]))
        return
    if name == "dynamics":
        with progress("dynamics, timing"):
            measured = dynamics_bench.rows(seconds) + dynamics_bench.scaling(4.0 * seconds)
        told = {"knots": dynamics_bench.KNOTS, "rows": [row._asdict() for row in measured]}
        header = ["per knot", "robot", "µs", "reference", "ratio", "at most"]
        tell(as_json, told, (header, [row.cells for row in measured]))
        return
    _, problem, _ = named(name, None, ())
    with progress(f"{name}, timing"):
        times = timings(problem, repeat)
    rows = [[what, f"{milliseconds:.3f}"] for what, milliseconds in times.items()]
    told = {"problem": name, "horizon": problem.horizon, "milliseconds": times}
    tell(as_json, told, ([f"{name}, N = {problem.horizon}", "ms"], rows))
