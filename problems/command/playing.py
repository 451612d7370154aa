"""Motions of the command line: saved, read again, drawn in a file or played in the browser."""

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from numpy.typing import ArrayLike

import viz
from ddp import archive
from ddp.errors import ProblemError
from ddp.places import replaced
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.solutions.columns import SAME
from ddp.solutions.solution import Solution
from ddp.solutions.status import Record
from dynamics import ContinuousDynamics, Motion, PhasedDynamics, load
from dynamics.phases.reaction import ground, standing
from dynamics.rods.hybrid_robot import HybridRobot
from dynamics.steps.free_start import inside
from problems.command.output import progress, wrote
from problems.command.parameters import build
from problems.durations import in_a_phase
from problems.play.played import Play, PlayedSystem
from problems.registry import Entry
from problems.sensitivity import with_durations
from problems.soft.systems import SoftSystem


class Trajectory(NamedTuple):
    """States X (M+1, nx) of a problem's system at times t (M+1,) [s], for the viewer; U (M, nu): None if not known."""

    X: Array
    U: Array | None
    problem: Problem
    t: ArrayLike


Drawn = Solution | Trajectory | dict[str, Solution]
"""One motion of a problem, or several by name."""


def check_robot(entry: Entry, problem: Problem) -> None:
    """Raise ProblemError for a problem whose motion cannot be drawn."""
    system, *_ = inside(problem.dynamics, problem.x0[None])
    if not hasattr(system, "robot"):
        raise ProblemError(
            f"{entry.name}: expected the motion of a robot to draw, got {type(system).__name__}; in Python,"
            " mayne.plot_solution draws those"
        )


def draw(
    entry: Entry, problem: Problem, motion: Drawn, page: str | Path | None, open_browser: bool = False,
    iterations: viz.Iterations | None = None,
) -> str:  # fmt: skip
    """Draw a motion with all that its problem knows, in a file or else live; where it was drawn.

    open_browser: for what is live.   iterations: for a slider over them, of a file.
    """
    check_robot(entry, problem)
    system, *_ = inside(problem.dynamics, problem.x0[None])
    own = [name for name in entry.frames if system.robot.has_frame(name)]
    feet = standing(system) if isinstance(system, PhasedDynamics) else ()
    frames = list(dict.fromkeys([*own, *feet])) or None  # of another robot: those that have targets
    if page is None:
        return viz.animate(motion, frames=frames, title=entry.description, open_browser=open_browser).where
    return viz.save_html(page, motion, frames=frames, title=entry.description, iterations=iterations).where


def animate(
    entry: Entry, problem: Problem, motion: Drawn, html: str | None, open_browser: bool = False,
    iterations: viz.Iterations | None = None,
) -> None:  # fmt: skip
    """Write an animation, or play it until it is interrupted."""
    with progress(f"{entry.name}, drawing"):
        where = draw(entry, problem, motion, html, open_browser, iterations)
    _play(entry.name, where, html)


def draw_beside(
    title: str, system: PlayedSystem, run: Play, page: str, floor: float | None = None,
    lowest: float = 0.0, problem: Problem | None = None,
) -> None:  # fmt: skip
    """Write a simulated motion beside its plan, at some fifty states a second.

    problem: whose targets, footholds, obstacles and walls are drawn.   floor [m]: height of the ground, by default the
    system's.   lowest [m]: of uneven ground, beside that height; it is drawn level there.
    """
    if floor is None and isinstance(system, PhasedDynamics):
        floor = ground(system)
    if floor is not None:
        floor += min(lowest, 0.0)
    with progress(f"{title}, drawing"):
        viz.save_html(page, replace(run, problem=problem), title=title, ground=floor)
    wrote(page)


def draw_system(moving: SoftSystem, motion: Motion, page: str) -> None:
    """Write the simulated motion of a system as an animation, at some fifty states a second."""
    seen, every = np.isfinite(motion.X).all(axis=1), max(1, round(0.02 / moving.dt))
    X, t = motion.X[seen][::every], motion.t[seen][::every]
    robot = moving.robot
    cables = len(robot.tendons) if isinstance(robot, HybridRobot) else 0
    pulls = motion.U[::every][: len(X) - 1, :cables] if cables else None
    viz.save_html(page, robot, X, np.diff(t), [*moving.frames], title=moving.description, tensions=pulls)


def plot_runs(runs: dict[str, Play], unit: str, title: str, path: str) -> None:
    """Write the errors of simulated motions against time."""
    viz.plot_errors({name: (run.t, run.error) for name, run in runs.items()}, path, unit, title)
    wrote(path)


def check_contacts(entry: Entry, problem: Problem) -> None:
    """Raise ProblemError for a problem without contacts."""
    if not isinstance(inside(problem.dynamics, problem.x0[None])[0], PhasedDynamics):
        raise ProblemError(f"--schedule, --forces: expected a problem with contacts, {entry.name} has none")


def plot_gait(entry: Entry, problem: Problem, solution: Solution, schedule: str | None, forces: str | None) -> None:
    """Plot who stands when, and the forces on the feet; ProblemError for a problem without contacts."""
    if not (schedule or forces):
        return
    check_contacts(entry, problem)
    if schedule:
        viz.plot_schedule(solution, schedule, title=entry.description)
    if forces:
        viz.plot_forces(solution, forces, title=entry.description)


def view_robot(file: str, source: str, dt: float, html: str | None, open_browser: bool) -> None:
    """Draw the states that a solution's file holds as those of a robot."""
    found = archive.read(Path(file), {"X": "f2", "converged": "b0", "status": "U0"})
    if "X" not in found:
        raise ProblemError(f"file: {file} is not a solution file, or is damaged")
    _doubt(file, bool(found.get("converged", True)), found.get("status"))
    X = found["X"][np.isfinite(found["X"]).all(axis=1)]
    with progress(f"{source}, drawing"):
        robot = load(source)
        if X.shape[1] not in (robot.nq, robot.nq + robot.nv):
            sizes = f"{robot.nq} or {robot.nq + robot.nv} numbers"
            raise ProblemError(f"--robot: expected one whose states have {X.shape[1]} numbers, {source} has {sizes}")
        if html:
            where = viz.save_html(html, robot, X, dt).where
        else:
            where = viz.animate(robot, X, dt, open_browser=open_browser).where
    _play(source, where, html)


def nameless(file: str, robot: str | None) -> str:
    """Say what to give with a file that has no problem's name."""
    missing = "--dt with --robot, or --problem" if robot else "--problem, or --robot and --dt"
    return f"{file} does not say which problem it solves: give {missing}"


def opened(file: str, problem: Problem | None = None) -> Solution:
    """Load the solution that a file holds; tell where it did not converge."""
    solution = Solution.load(file, problem)
    _doubt(file, solution.converged, solution.status)
    return solution


def _doubt(file: str, converged: bool, status: object) -> None:
    if not converged:
        click.echo(f"{file}: {status}", err=True)


def _play(name: str, where: str, html: str | None) -> None:
    """Print where a motion was drawn; if that is not a file, wait for Ctrl-C."""
    if html:
        wrote(where)
    else:
        wait(f"{name} moves", where, "; --html FILE writes a page and ends")


def wait(what: str, where: str, more: str = "") -> None:
    """Print where something is shown, and more, and wait for Ctrl-C."""
    click.echo(f"{what} at {where} until you press Ctrl-C{more}", err=True)
    sys.stdout.flush()  # what was printed is there, however the waiting ends
    try:
        while True:
            time.sleep(3600.0)
    except KeyboardInterrupt:
        click.echo("", err=True)


def save(path: str, solution: Solution, name: str, chosen: dict[str, Any]) -> None:
    """Write a solution together with the name and the parameters of its problem."""
    archive.write(path, solution.arrays() | {"signature": np.array(signed(name, chosen))})


def check_kept(entry: Entry, problem: Problem, chosen: dict[str, Any]) -> None:
    """Raise ProblemError where a file's name and parameters would be read as another problem than that of free time.

    That is so where --dt decides more than how long steps last, which costs and steps at states near x0 show.
    """
    dt = 1.25 * problem.dynamics.dt
    read, solved, rng = build(entry, chosen | {"dt": dt}), _in_steps(problem, dt), np.random.default_rng(0)
    d, N = problem.dynamics, problem.horizon
    U = 0.1 * rng.normal(size=(N, d.nu))
    X = d.integrate(np.tile(problem.x0, (N + 1, 1)), 0.1 * rng.normal(size=(N + 1, d.n)))

    def numbers(one: Problem) -> Array:
        return np.concatenate([one.x0, one.values(X, U), np.ravel(one.dynamics.step(X[:-1], U)), [one.violation(X, U)]])

    alike = read.horizon == N and np.allclose(numbers(read), numbers(solved), rtol=SAME, atol=SAME, equal_nan=True)
    if not alike:
        kept = f"{entry.name} with another --dt is another problem than that of free time, beside how long steps last"
        raise ProblemError(f"--save: expected without --durations: {kept}")


def _in_steps(problem: Problem, dt: float) -> Problem:
    """The problem of a motion without phases in steps of another duration [s], as solutions in free time have it."""
    if isinstance(problem.dynamics, ContinuousDynamics):
        return replaced(problem, lambda thing: thing, replace(problem.dynamics, dt=dt))
    return with_durations(in_a_phase(problem), [problem.horizon * dt])


def signed(name: str, chosen: dict[str, Any]) -> list[str]:
    """Texts that `signature` reads again."""
    return [name, json.dumps(chosen)]


def check_motion(file: str) -> None:
    """Raise ProblemError for a folder, which is no solution's file; a store of many has to be opened in Python."""
    if os.path.isdir(file):
        one = "a folder; of a store of many solutions, mayne.Solutions.open(path, problem)[i].save(...) writes one"
        raise ProblemError(f"file: expected a solution's file, got {file}, {one}")


def signature(path: str) -> tuple[str, dict[str, Any]]:
    """Read the problem and the parameters that a solution's file names; empty where it names none.

    A robot's file that is not where its relative path leads is looked for from the folder of the solution's.
    """
    found = archive.read(Path(path), {"signature": "U1"})
    try:
        name, chosen = found["signature"].tolist() if "signature" in found else ("", "{}")
        parameters = dict(json.loads(chosen))
        robot = str(parameters.get("robot", ""))
        beside = os.path.join(os.path.dirname(path), robot)
        if Path(robot).suffix and not os.path.exists(robot) and os.path.isfile(beside):
            parameters["robot"] = beside
        return str(name), parameters
    except (TypeError, ValueError, RecursionError):
        raise ProblemError(f"file: {path} is not a solution file, or is damaged") from None


class Seen:
    """Iterations of a solve, kept for a page (--iterations) or shown while they are made (--live).

    alone: whether it is one solve and no search.   tell: another callback, which is told of them first.
    """

    tell: Callable[[Record], None]

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

    def watch(self, record: Record, X: Array, U: Array) -> None:
        """Tell all of an iteration."""
        self.tell(record)
        for watcher in (self.iterations, self._live):
            if watcher is not None:
                watcher.watch(record, X, U)

    def end(self, solution: Solution) -> None:
        """Show the solution behind its iterations, until Ctrl-C."""
        if self._live is not None:
            self._live.finish(solution)
            wait(f"the iterations of {self._name} are", self._live.where)
