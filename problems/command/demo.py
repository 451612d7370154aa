"""The demonstration: an arm and a quadruped, each solved with iLQR and with DDP, compared and drawn."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import viz
from ddp.errors import ProblemError
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.solution import Solution
from ddp.solver import DDP, ILQR, solve
from dynamics.phases.phased_dynamics import PhasedDynamics
from dynamics.steps.augmented import Augmented
from dynamics.steps.free_start import FreeStart
from dynamics.steps.robot_dynamics import RobotDynamics
from problems.command.output import COLUMNS, console, print_table, row
from problems.command.progress import progress
from problems.command.timing import warm
from problems.obstacles import CapsuleClearance, SphereClearance
from problems.reaction import friction, ground, ground_forces, standing
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
        draw(entry, problem, solutions["DDP"].X, page, solutions["DDP"].U, signals=viz.signals_of(solutions["DDP"]))
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


def draw_several(entry: Entry, problem: Problem, solutions: dict[str, Solution], page: Path) -> str:
    """Draw solutions of a problem in one scene, and write its page; where it is."""
    system = check_robot(entry, problem)
    frames = [name for name in entry.frames if system.robot.model.existFrame(name)]
    floor = ground(system) if isinstance(system, PhasedDynamics) else None
    about: dict[str, Any] = {"obstacles": obstacles_of(problem), "title": entry.description, "ground": floor}
    return viz.save_html(page, solutions, frames=frames, **about).where


def check_robot(entry: Entry, problem: Problem) -> RobotDynamics | PhasedDynamics:
    """The system of a problem whose motion can be drawn; ProblemError for others."""
    system = problem.dynamics
    if not isinstance(system, (RobotDynamics, PhasedDynamics)):
        raise ProblemError(f"{entry.name}: expected the motion of a robot to draw, got {type(system).__name__}")
    return system


def inside(system: Any, X: Array) -> tuple[Any, Array]:
    """The system in compositions, and its part of their states."""
    while isinstance(system, (Augmented, FreeStart)):
        if isinstance(system, FreeStart):
            X = X[system.before :]
        system = system.system
        X = np.ascontiguousarray(X[:, : system.nx])
    return system, X


def draw(
    entry: Entry, problem: Problem, X: Array, page: Path | None, U: Array | None = None, open_browser: bool = False,
    signals: Mapping[str, viz.Signal] | None = None,
) -> str:  # fmt: skip
    """Draw a trajectory with its last state as a ghost, in a file or else live; where it was drawn.

    Of legged motion, given U (N, nu), the forces on the feet as well, with cones of friction, and the ground.
    open_browser: for what is live.   signals: numbers to plot beside it.
    """
    system, X = inside(problem.dynamics, X)
    if system is problem.dynamics or not hasattr(system, "robot"):
        system = check_robot(entry, problem)
    else:
        U = None  # forces are those of the composition's controls
    robot = system.robot
    frames = [name for name in entry.frames if robot.has_frame(name)]  # another robot may lack some
    about: dict[str, Any] = {"obstacles": obstacles_of(problem), "title": entry.description, "signals": signals}
    dt: Any = system.dt
    if isinstance(system, PhasedDynamics):
        frames += [name for name in standing(system) if name not in frames]
        forces = None if U is None else ground_forces(system, X, U)
        cones = None if forces is None else friction(problem)
        dt = system.durations[: len(X) - 1]
        about |= {"forces": forces, "cones": cones, "ground": ground(system)}
    if page is None:
        return viz.animate(robot, X, dt, frames, X[-1], open_browser, **about).where
    return viz.save_html(page, robot, X, dt, frames, X[-1], **about).where


def obstacles_of(problem: Problem) -> list[viz.Capsule]:
    """Obstacles of a problem's constraints, each once, as the viewer draws them."""
    lists = [
        placed.constraint.obstacles
        for placed in problem.placed
        if isinstance(placed.constraint, (SphereClearance, CapsuleClearance))
    ]
    each = {id(obstacle): obstacle for obstacles in lists for obstacle in obstacles}.values()
    return [viz.Capsule(obstacle.start, obstacle.end, obstacle.radius) for obstacle in each]


def check_contacts(entry: Entry, problem: Problem) -> PhasedDynamics:
    """The system of a problem with contacts; ProblemError for one without."""
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
