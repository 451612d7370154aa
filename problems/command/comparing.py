"""The commands ``mayne compare`` and ``mayne demo``: problems solved with iLQR and with DDP, compared and drawn."""

from pathlib import Path
from typing import Any

import click

import viz
from ddp.problem import Problem
from ddp.solutions.solution import Solution
from ddp.solver import solve
from problems.command import shell
from problems.command.output import COLUMNS, check_folder, console, print_table, progress, row, summary, tell, wrote
from problems.command.playing import animate, check_robot, draw
from problems.command.report import write_report
from problems.command.timing import warm
from problems.registry import Entry, find

PROBLEMS = ("arm/reach", "quadruped/reorientation")
"""Problems of the demonstration."""


@shell.of_problem
@shell.solving
@shell.HTML
@shell.PLOT
@click.option("--report", type=shell.File(".html"), help="Write all of the comparison as one page (.html).")
@shell.JSON
def compare(
    name: str, options: tuple[str, ...], tolerance: float, max_iterations: int, workers: str, robot: str | None,
    html: str | None, plot: str | None, report: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Solve problem NAME with iLQR and with DDP; --html shows both motions in one scene."""
    entry, problem, _ = shell.named(name, robot, options)
    if html:
        check_robot(entry, problem)
    solutions = _by_both(entry, problem, workers, tolerance=tolerance, max_iterations=max_iterations)
    outcomes = {title.lower(): summary(solution) for title, solution in solutions.items()}
    rows = [[title, *row(solution)] for title, solution in solutions.items()]
    tell(as_json, {"problem": name, "solvers": outcomes}, (["solver", *COLUMNS], rows))
    if plot:
        viz.plot_convergence(solutions, plot, title=entry.description)
    wrote(plot)
    if html:
        animate(entry, problem, solutions, html)
    if report:
        with progress(f"{entry.name}, reporting"):
            again = ["mayne", "compare", name, *options, *(["--robot", robot] if robot else [])]
            again += ["--tolerance", f"{tolerance:g}", "--max-iterations", str(max_iterations), "--report", report]
            write_report(entry, problem, solutions, again, Path(report))
    wrote(report)
    shell.end(all(solution.converged for solution in solutions.values()))


@click.command()
@click.option(
    "--folder", type=click.Path(file_okay=False), default="demo", show_default=True, help="Folder of what it draws.",
)
def demo(folder: str) -> None:
    """Solve a reach and a reorientation with iLQR and with DDP, and draw both."""
    check_folder("--folder", folder)
    rows: list[list[str]] = []
    files: list[Path] = []
    converged = True
    for name in PROBLEMS:
        entry = find(name)
        problem = entry()
        solutions = _by_both(entry, problem, workers=1)
        rows += [[name, title, *row(solution)] for title, solution in solutions.items()]
        converged = converged and all(solution.converged for solution in solutions.values())
        stem = Path(folder).resolve() / name.replace("/", "-")
        plot, page = stem.with_name(f"{stem.name}-convergence.png"), stem.with_suffix(".html")
        viz.plot_convergence(solutions, plot, title=entry.description)
        draw(entry, problem, solutions["DDP"], page)
        files += [plot, page]
    print_table(["problem", "solver", *COLUMNS], rows)
    output = console()
    output.print("\nwritten, for an image viewer and a browser:")
    for file in files:
        output.print(f"  {file}", soft_wrap=True, markup=False)
    shell.end(converged)


def _by_both(entry: Entry, problem: Problem, workers: int | str, **options: Any) -> dict[str, Solution]:
    """Solve with each solver from the same guess; kernels are compiled before any solve is timed."""
    solvers = {shell.TITLES[key]: shell.SOLVERS[key](**options) for key in ("ilqr", "ddp")}
    solutions = {}
    with progress(f"{entry.name}, preparing"):
        warm(problem)
    for title, solver in solvers.items():
        with progress(f"{entry.name}, {title}") as callback:
            solutions[title] = solve(problem, solver, callback=callback, throw=False, workers=workers)
    return solutions
