"""The command ``mayne drive``: a robot in MuJoCo that is pushed and steered in the browser while it plans again."""

from __future__ import annotations

import sys
from dataclasses import replace

import click

import viz
from ddp.problem import Problem
from problems.command.progress import progress
from problems.command.replanning import planner_of
from problems.command.shell import NAME, NO_BROWSER, OPEN, OPTIONS, ROBOT
from problems.play.driven import Driven
from problems.registry import find

COMMANDS = "forward", "left", "turning"


@click.command(context_settings=OPEN)
@NAME
@OPTIONS
@click.option("--every", type=float, default=0.04, show_default=True, help="Time between plans [s].")
@click.option("--latency", type=float, default=0.02, show_default=True, help="From a measurement to its plan [s].")
@click.option("--friction", type=float, default=0.7, show_default=True, help="Of the ground.")
@click.option("--duration", type=float, default=float("inf"), help="End after so many simulated seconds.")
@ROBOT
@NO_BROWSER
def drive(
    name: str, options: tuple[str, ...], every: float, latency: float, friction: float, duration: float,
    robot: str | None, no_browser: bool,
) -> None:  # fmt: skip
    """Push and steer the robot of problem NAME in the browser while it plans again in MuJoCo, until Ctrl-C.

    Drag the robot with the mouse to pull it, and the ball of an arm's target to move that; the arrow keys, or W A S D Q
    E, pads and gamepads walk gaits; the space bar pushes; R starts again. Sliders change the weights of the plans.
    """
    entry = find(name)
    planner, gait = planner_of(entry, robot, options, latency, chasing)
    with planner:
        driven = Driven(planner, every, friction=friction)
        with progress(f"{entry.name}, preparing"):
            driven.advance(every)
            driven.restart()
        stage = viz.Stage(
            driven.robot, driven.q, entry.description, not no_browser,
            ground=driven.floor, commands=COMMANDS if gait else (), target=driven.target,
            sliders=[viz.Slider.about(weight, value) for weight, value in driven.weights.items()],
        )  # fmt: skip
        click.echo(f"drive {entry.name} at {stage.where} until you press Ctrl-C", err=True)
        sys.stdout.flush()
        try:
            driven.play(stage, duration)
        except KeyboardInterrupt:
            click.echo("", err=True)


def chasing(problem: Problem) -> Problem:
    """Copy whose target counts at every knot: a horizon that recedes would never come to its end's."""
    targets = [term for term in problem.terminal if hasattr(term, "target")]
    if len(targets) != 1:
        return problem
    return replace(problem, running=[*problem.running, targets[0]])
