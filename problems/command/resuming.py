"""The command ``mayne resume``: a solve goes on from the file that it wrote before it was ended."""

import json
import os
from pathlib import Path
from typing import Any

import click

from ddp import archive
from ddp.checkpoint import Checkpoint
from ddp.errors import ProblemError, said
from ddp.solver import solve
from problems.command import playing
from problems.command.output import progress, summary, taken, tell, wrote
from problems.command.shell import HTML, JSON, SAVE, SOLVERS, TITLES, end, named


def kept(path: str, name: str, chosen: dict[str, Any], solver: str, tolerance: float) -> Checkpoint:
    """The checkpoint of a problem by its name, which says by itself how to go on."""
    method = json.dumps({"solver": solver, "tolerance": tolerance})
    return Checkpoint(path, {"signature": playing.signed(name, chosen), "method": method})


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--max-iterations", type=int, default=1000, show_default=True, help="Iterations at most, from the start.")
@click.option("--workers", default="1", show_default=True, help="Who shares the derivatives, as of `mayne solve`.")
@SAVE
@HTML
@JSON
def resume(file: str, max_iterations: int, workers: str, save: str | None, html: str | None, as_json: bool) -> None:
    """Go on with the solve that wrote FILE, of `mayne solve --checkpoint`."""
    if save and os.path.realpath(save) == os.path.realpath(file):
        raise ProblemError(f"--save: expected another file than the checkpoint, got {said(save)}")
    name, own = playing.signature(file)
    solver, tolerance = _method(file)
    entry, problem, chosen = named(name, None, (), own)
    method = SOLVERS[solver](tolerance=tolerance, max_iterations=max_iterations)
    title = f"{name}, {TITLES[solver]}"
    with progress(title) as callback:
        checkpoint = kept(file, name, chosen, solver, tolerance)
        solution = solve(problem, method, None, callback, False, workers, checkpoint)
    told = {"problem": name, "solver": solver} | summary(solution)
    tell(as_json, told, f"{title}: {solution} {taken(solution)}")
    if save:
        playing.save(save, solution, name, chosen)
    wrote(save)
    if html:
        playing.animate(entry, problem, solution, html)
    end(solution.converged)


def _method(file: str) -> tuple[str, float]:
    """The solver's name and its tolerance that a file tells; ProblemError for one that is no checkpoint."""
    try:
        method = json.loads(str(archive.read(Path(file), {"method": "U0"})["method"]))
        solver, tolerance = method["solver"], float(method["tolerance"])
        if solver in SOLVERS:
            return solver, tolerance
    except (KeyError, TypeError, ValueError, RecursionError):
        pass
    raise ProblemError(
        f"file: {file} is no checkpoint of `mayne solve --checkpoint`, or is damaged; "
        "one of `solve(..., checkpoint=)` in Python goes on by the same call"
    )
