"""The command ``mayne play``: a motion's policy in another simulator, beside a joint PD and beside torques alone."""

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import click
import numpy as np

from ddp.errors import ProblemError, as_array, positive, said
from ddp.feedback.policy import SUFFIXES
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.solutions.columns import check_belongs
from ddp.solutions.solution import Solution
from ddp.solver import solve
from dynamics import RobotDynamics, load
from problems.command import playing
from problems.command.output import progress, tell, wrote
from problems.command.shell import (
    DRAWING,
    HTML,
    JSON,
    OPEN,
    OPTIONS,
    PROBLEM,
    ROBOT,
    File,
    chosen_of,
    end,
    named,
    refuse_idle,
)
from problems.play import policies
from problems.play.played import root_mean_square
from problems.play.simulation import simulate, system_of
from problems.play.terrain import as_range
from problems.registry import ALL, Entry

TITLES = {"adaptive": "policy", "pd": "joint PD", "open": "torques alone"}
LEARNING = "adaptive", "contact"
BY_CONTACT = {"contact": "policy", "adaptive": "policy by time", "pd": "joint PD", "open": "torques alone"}


def disturbing(command: Callable[..., None]) -> Callable[..., None]:
    """The options of commands that simulate: all that plans do not know."""
    shown: dict[str, Any] = {"type": float, "show_default": True}
    for option in (
        click.option("--seed", type=int, default=0, show_default=True, help="Seed of what is random."),
        click.option("--rate", default=1000.0, help="Rate of the controller [Hz].", **shown),
        click.option("--noise", default=0.0, help="Noise of measurements: 1 is 1 mm, 2 mrad, ...", **shown),
        click.option("--delay", default=0.0, help="Delay from a measurement to its control [s].", **shown),
        click.option("--friction", type=float, help="Friction of the ground; default the plan's."),
        click.option("--mass", default=1.0, help="Factor on the mass of the base, or of an arm.", **shown),
        click.option("--push", help="Velocity [m/s] added halfway: sideways, or forward,sideways; or of joints."),
    ):
        command = option(command)
    return command


@click.command(context_settings=OPEN)
@click.argument("name", metavar="NAME|FILE")
@OPTIONS
@click.option("--in", "inside", type=click.Choice(["mujoco"]), default="mujoco", show_default=True, help="Simulator.")
@disturbing
@click.option("--uneven", help="Uneven ground [m]: its greatest height and depth, or lowest,highest.")
@click.option("--by-contact", is_flag=True, help="Tell the policy which feet touch the ground.")
@click.option("--known-delay", is_flag=True, help="Let the policy know the delay.")
@click.option("--export", "gains", type=File(*SUFFIXES), help="Write the policy's gains (.npz, .csv, .json).")
@click.option("--plot", type=DRAWING, help="Write the errors against time (.png, .pdf, .svg).")
@PROBLEM
@ROBOT
@HTML
@JSON
def play(
    name: str, options: tuple[str, ...], inside: str, push: str | None, mass: float, friction: float | None,
    delay: float, uneven: str | None, by_contact: bool, known_delay: bool, noise: float, rate: float, seed: int,
    gains: str | None, plot: str | None, problem: str | None, robot: str | None, html: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Play the policy of problem NAME, or of FILE of `mayne solve --save`, in MuJoCo, beside a joint PD.

    A FILE of `Solution.save` in Python needs --problem, or --robot and --dt. A motion whose time is free is one of
    `mayne solve NAME --durations free --save FILE`.
    """
    kick = None if push is None else some_numbers("--push", push)
    heights = 0.0 if uneven is None else some_numbers("--uneven", uneven)
    entry, found, solution = solved(name, robot, options, problem)
    system = system_of(found.dynamics, entry.name)
    conditions: dict[str, Any] = {"push": kick, "mass": mass, "friction": friction, "delay": delay}
    conditions |= {"noise": noise, "rate": rate, "uneven": heights, "seed": seed}
    runs = {}
    with progress(f"{entry.name}, playing"):
        for policy, title in (BY_CONTACT if by_contact else TITLES).items():
            chosen = policies.named(solution, policy, delay if known_delay and policy in LEARNING else 0.0)
            runs[title] = simulate(solution, inside, policy=chosen, **conditions)
    unit, scale = ("cm", 100.0) if system.robot.is_floating else ("rad", 1.0)
    turned = {title: root_mean_square(run.attitude) for title, run in runs.items()}
    told = {
        title: {"rms": run.rms, "attitude": turned[title], "fell": run.fell, "seconds": float(run.t[-1])}
        for title, run in runs.items()
    }
    conditions["push"] = None if kick is None else kick.tolist()
    conditions["uneven"] = np.asarray(heights).tolist()
    rows = []
    for title, run in runs.items():
        sizes = [f"{scale * size:.3g}" for size in (run.rms, run.error.max())]
        sizes += [f"{turned[title]:.3g}"] if system.robot.is_floating else []
        rows.append([title, *sizes, "fell" if run.fell else "stayed", f"{run.t[-1]:.2f}"])
    turns = ["rms [deg]"] if system.robot.is_floating else []
    header = [entry.name, f"rms [{unit}]", "largest", *turns, "outcome", "seconds"]
    data = {"problem": entry.name, "in": inside, "conditions": conditions, "runs": told}
    tell(as_json, data, (header, rows))
    if gains:
        solution.feedback(delay=delay if known_delay else 0.0).export(gains)
    wrote(gains)
    if plot:
        playing.plot_runs(runs, "m" if system.robot.is_floating else "rad", entry.description, plot)
    if html:
        playing.draw_beside(entry.description, system, runs["policy"], html, lowest=as_range(heights)[0], problem=found)
    end(not runs["policy"].fell)


def solved(
    name: str, robot: str | None, options: tuple[str, ...], own: str | None = None
) -> tuple[Entry, Problem, Solution]:
    """The solution of a problem by its name, or of a file that tells its problem; ``own`` is told instead."""
    if name in ALL or not os.path.isfile(name):  # refuses no name, however long
        refuse_idle("expected with a FILE that does not tell its problem", "--problem")
        entry, problem, _ = named(name, robot, options)
        with progress(f"{entry.name}, solving") as callback:
            return entry, problem, solve(problem, callback=callback)
    signed, chosen = playing.signature(name)
    if not (own or signed):
        return _of_robot(name, robot, options)
    entry, problem, _ = named(own or signed, robot, options, chosen)
    return entry, problem, playing.opened(name, problem)


def _of_robot(file: str, robot: str | None, options: tuple[str, ...]) -> tuple[Entry, Problem, Solution]:
    """The solution of a file, without its costs, as a motion of a robot by steps of --dt."""

    def build(dt: float = 0.0) -> Problem:
        system = RobotDynamics(load(str(robot)), positive("--dt", dt))
        if system.nx != (nx := solution.X.shape[1]):
            raise ProblemError(f"--robot: expected one whose states have {nx} numbers, {robot} has {system.nx}")
        return Problem(system, [], [], solution.X[0], len(solution.U))

    entry = Entry(file, build, f"a motion of {robot}", (), 0.0, robot or "", ())
    chosen = chosen_of(entry, options)
    if robot is None or not chosen:
        raise ProblemError(f"file: {playing.nameless(file, robot)}; in Python, mayne.simulate(solution) plays it")
    solution = playing.opened(file)
    problem = entry.build(**chosen)
    solution = replace(solution, problem=problem, cost=0.0)
    check_belongs(f"path: {file} is of another problem", solution, problem)
    return entry, problem, solution


def some_numbers(option: str, words: str) -> Array:
    """One number, or (m,) of several with commas between them."""
    try:
        numbers = [float(word) for word in words.split(",")]
    except ValueError:
        raise ProblemError(f"{option}: expected a number, or some with commas, got {said(words)}") from None
    return np.array(numbers[0]) if len(numbers) == 1 else as_array(option, numbers, (None,))
