"""The demonstration: an arm and a quadruped, each solved with iLQR and with DDP, compared and drawn."""

from __future__ import annotations

from pathlib import Path

import viz
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.solution import Solution
from ddp.solver import DDP, ILQR, solve
from dynamics.robot_dynamics import RobotDynamics
from problems.obstacles import CapsuleClearance, SphereClearance
from problems.output import COLUMNS, console, print_table, row
from problems.progress import progress
from problems.registry import Entry, find
from problems.timing import warm

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
        draw(entry, problem, solutions["DDP"].X, page)
        files += [plot, page]
    print_table(["problem", "solver", *COLUMNS], rows)
    output = console()
    output.print("\nwritten, for an image viewer and a browser:")
    for file in files:
        output.print(f"  {file}", soft_wrap=True)
    return converged


def compare(entry: Entry, problem: Problem, solvers: dict[str, DDP], workers: int | str) -> dict[str, Solution]:
    """One solution for each solver, from the same guess; what compiles does so before any is timed."""
    solutions = {}
    with progress(f"{entry.name}, preparing"):
        warm(entry, problem)
    for title, solver in solvers.items():
        with progress(f"{entry.name}, {title}") as callback:
            solutions[title] = solve(
                problem, solver, entry.guess(problem), callback=callback, throw=False, workers=workers
            )
    return solutions


def draw(entry: Entry, problem: Problem, X: Array, page: Path | None) -> str:
    """Draw a trajectory with its last state as a ghost, in a file or else live; where it was drawn."""
    system = problem.dynamics
    if not isinstance(system, RobotDynamics):
        return "nowhere: this system is no robot"
    robot = system.robot
    frames = [name for name in entry.frames if robot.model.existFrame(name)]  # another robot may lack some
    solids = obstacles_of(problem)
    if page is None:
        return viz.animate(robot, X, system.dt, frames, X[-1], obstacles=solids).where
    return viz.save_html(page, robot, X, system.dt, frames, X[-1], entry.description, obstacles=solids).where


def obstacles_of(problem: Problem) -> list[viz.Capsule]:
    """What a problem's constraints keep the robot clear of, each once, for the viewer."""
    lists = [
        placed.constraint.obstacles
        for placed in problem.placed
        if isinstance(placed.constraint, (SphereClearance, CapsuleClearance))
    ]
    each = {id(obstacle): obstacle for obstacles in lists for obstacle in obstacles}.values()
    return [viz.Capsule(obstacle.start, obstacle.end, obstacle.radius) for obstacle in each]
