"""The demonstration: an arm and a quadruped, each solved with iLQR and with DDP, compared and drawn."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import viz
from ddp.errors import ProblemError
from ddp.options import DDP, ILQR
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.solutions.solution import Solution
from ddp.solver import solve
from dynamics.phases.phased_dynamics import PhasedDynamics
from dynamics.phases.reaction import friction, ground_forces, standing
from dynamics.steps.free_start import inside
from problems.command.output import COLUMNS, console, print_table, row
from problems.command.progress import progress
from problems.command.timing import warm
from problems.registry import Entry, find

PROBLEMS = ("arm/reach", "quadruped/reorientation")
SOLVERS = {"iLQR": ILQR(), "DDP": DDP()}


def run(folder: Path) -> bool:
    """Solve, print the comparison, write plots and animations into ``folder``; whether all converged."""
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[list[str]] = []
    files: list[Path] = []
    converged = True
    for name in PROBLEMS:
        entry = find(name)
        problem = entry()
        solutions = compare(entry, problem, SOLVERS, workers=1)
        rows += [[name, title, *row(solution)] for title, solution in solutions.items()]
        converged = converged and all(solution.converged for solution in solutions.values())
        stem = folder.resolve() / name.replace("/", "-")
        plot, page = stem.with_name(f"{stem.name}-convergence.png"), stem.with_suffix(".html")
        viz.plot_convergence(solutions, plot, title=entry.description)
        draw(entry, solutions["DDP"], page)
        files += [plot, page]
    print_table(["problem", "solver", *COLUMNS], rows)
    output = console()
    output.print("\nwritten, for an image viewer and a browser:")
    for file in files:
        output.print(f"  {file}", soft_wrap=True, markup=False)
    return converged


def compare(entry: Entry, problem: Problem, solvers: dict[str, DDP], workers: int | str) -> dict[str, Solution]:
    """Solve with each solver from the same guess; kernels are compiled before any solve is timed."""
    solutions = {}
    with progress(f"{entry.name}, preparing"):
        warm(problem)
    for title, solver in solvers.items():
        with progress(f"{entry.name}, {title}") as callback:
            solutions[title] = solve(problem, solver, callback=callback, throw=False, workers=workers)
    return solutions


class Trajectory(NamedTuple):
    """States X (M+1, nx) under controls U (M, nu) of a problem's system, for the viewer."""

    X: Array
    U: Array
    problem: Problem


def draw_several(entry: Entry, problem: Problem, solutions: dict[str, Solution], page: Path) -> str:
    """Draw solutions of a problem in one scene, and write its page; where it is."""
    check_robot(entry, problem)
    return viz.save_html(page, solutions, frames=_frames(entry, problem), title=entry.description).where


def check_robot(entry: Entry, problem: Problem) -> None:
    """Raise ProblemError for a problem whose motion cannot be drawn."""
    system, _ = inside(problem.dynamics, problem.x0[None])
    if not hasattr(system, "robot"):
        raise ProblemError(
            f"{entry.name}: expected the motion of a robot to draw, got {type(system).__name__}; in Python,"
            " mayne.plot_solution draws those"
        )


def draw(
    entry: Entry, solution: Solution | Trajectory, page: Path | None, open_browser: bool = False,
    iterations: viz.Iterations | None = None,
) -> str:  # fmt: skip
    """Draw a motion with all that its problem knows, in a file or else live; where it was drawn.

    open_browser: for what is live.   iterations: for a slider over them, of a file.
    """
    problem = solution.problem
    assert problem is not None
    check_robot(entry, problem)
    frames = _frames(entry, problem)
    if page is None:
        return viz.animate(solution, frames=frames, title=entry.description, open_browser=open_browser).where
    return viz.save_html(page, solution, frames=frames, title=entry.description, iterations=iterations).where


def _frames(entry: Entry, problem: Problem) -> list[str]:
    """Frames whose paths are drawn: the entry's, as far as the robot has them, and feet."""
    system, _ = inside(problem.dynamics, problem.x0[None])
    feet = [*standing(system)] if isinstance(system, PhasedDynamics) else []
    return list(dict.fromkeys([*(name for name in entry.frames if system.robot.has_frame(name)), *feet]))


def check_contacts(entry: Entry, problem: Problem) -> PhasedDynamics:
    """Return the system of a problem with contacts; ProblemError for one without."""
    if not isinstance(problem.dynamics, PhasedDynamics):
        raise ProblemError(f"--schedule, --forces: expected a problem with contacts, {entry.name} has none")
    return problem.dynamics


def plot_gait(entry: Entry, problem: Problem, solution: Solution, schedule: str | None, forces: str | None) -> None:
    """Plot who stands when, and the forces on the feet; ProblemError for a problem without contacts."""
    if not (schedule or forces):
        return
    system = check_contacts(entry, problem)
    if schedule:
        viz.plot_schedule(standing(system), system.durations, schedule, entry.description)
    if forces:
        acting = ground_forces(system, solution.X, solution.U)
        viz.plot_forces(acting, system.durations, forces, friction(problem), entry.description)
