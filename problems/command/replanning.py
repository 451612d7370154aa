"""Receding horizons that control their robots in MuJoCo, by plans made again and again.

The command ``mayne replan`` gives them commands and pushes; ``mayne drive`` has them steered and pushed in the browser;
``mayne node`` publishes a policy, or such plans, as a node of ROS 2.
"""

import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import click
import numpy as np

import viz
from ddp.errors import ProblemError, as_array, said
from ddp.options import DDP
from ddp.problem import Problem
from ddp.protocols import Array
from ddp.receding import RecedingHorizon
from ddp.solver import solve
from dynamics.steps.doubts import obstacles_of
from problems.closed_loop import terminal_cost
from problems.command import playing, shell
from problems.command.output import progress, tell
from problems.command.simulating import disturbing, solved, some_numbers
from problems.interop.follower import Follower
from problems.interop.motion import optional
from problems.interop.ros_node import run_node
from problems.play.driven import Driven
from problems.play.receding import Run, simulate_receding
from problems.play.simulation import feet_of, system_of
from problems.registry import Entry, find
from problems.schedule import ORDERS
from problems.walking.controller import Walking

ITERATIONS = 2
"""Iterations of each plan but the first."""

PUT_OFF = 10.0
"""Times the cost that the end of a plan has of which a motion is not where plans go."""


def unchanged(problem: Problem) -> Problem:
    """Return the problem."""
    return problem


@shell.of_problem
@click.option("--command", "wanted", help="A gait's forward,left,turning [m/s, rad/s]; or TIME:those;TIME:those;...")
@click.option("--duration", type=float, default=5.0, show_default=True, help="Duration of the simulation [s].")
@click.option("--every", type=float, default=0.02, show_default=True, help="Time between plans [s].")
@click.option("--latency", type=float, default=0.02, show_default=True, help="From a measurement to its plan [s].")
@shell.CHASE
@disturbing
@click.option("--plot", type=shell.DRAWING, help="Write the distance from the plans against time (.png, .pdf, .svg).")
@shell.HTML
@shell.JSON
def replan(
    name: str, options: tuple[str, ...], wanted: str | None, duration: float, every: float, latency: float, chase: bool,
    push: str | None, mass: float, friction: float | None, delay: float, noise: float, rate: float, seed: int,
    plot: str | None, robot: str | None, html: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Control the robot of problem NAME in MuJoCo by plans made again and again, of gaits by commands."""
    command = _commands(wanted or "0,0,0")
    pushes = {} if push is None else {0.5 * duration: some_numbers("--push", push)}
    entry = find(name)
    planner, by_command = planner_of(entry, robot, options, latency, chased if chase else unchanged)
    if chase and by_command:
        raise ProblemError(f"--chase: expected for a problem with a target, {name} walks by commands")
    if wanted and not by_command:
        raise ProblemError(f"--command: {name} has none, it is what gaits walk by")
    with planner, progress(f"{entry.name}, playing"):
        run = simulate_receding(
            planner, duration, command, every, pushes, mass=mass, friction=friction, rate=rate, delay=delay,
            noise=noise, seed=seed,
        )  # fmt: skip
    told = run.steady() if by_command else []
    rows = [[_three(wish), _three(mean)] for wish, mean in told]
    table = ["command", "velocity [m/s, m/s, rad/s]"], rows
    data = {
        "problem": entry.name, "fell": run.fell, "seconds": float(run.play.t[-1]), "rms": run.play.rms,
        "milliseconds": _spread(run), "misses": run.misses,
        "velocities": [{"command": wish.tolist(), "velocity": mean.tolist()} for wish, mean in told],
    }  # fmt: skip
    last = planner.solution if isinstance(planner, RecedingHorizon) else None
    advice = [] if last is None or last.problem is None else put_off(last.problem, run.play.X[-1], last.X[-1])
    tell(as_json, data, f"{entry.name}: {run}", *([table] if told else []), *advice)
    if plot:
        unit = "m" if system_of(planner.system).robot.is_floating else "rad"
        playing.plot_runs({"receding horizon": run.play}, unit, entry.description, plot)
    if html:
        floor = float(planner.floor) if isinstance(planner, Walking) else None
        problem = None if isinstance(planner, Walking) else planner.problem
        playing.draw_beside(entry.description, system_of(planner.system), run.play, html, floor, problem=problem)
    shell.end(not run.fell)


@shell.of_problem
@click.option("--every", type=float, default=0.04, show_default=True, help="Time between plans [s].")
@click.option("--latency", type=float, default=0.02, show_default=True, help="From a measurement to its plan [s].")
@click.option("--friction", type=float, default=0.7, show_default=True, help="Friction of the ground.")
@click.option("--duration", type=float, default=float("inf"), help="End after so many simulated seconds.")
@shell.NO_BROWSER
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
        if not feet_of(system_of(planner.system)):
            shell.refuse_idle("expected for robots that stand on feet", "--friction")
        driven = Driven(planner, every, friction=friction)
        with progress(f"{entry.name}, preparing"):
            driven.advance(every)
            driven.restart()
        stage = viz.Stage(
            driven.robot, driven.q, entry.description, not no_browser,
            ground=driven.floor, commands=("forward", "left", "turning") if gait else (), target=driven.target,
            sliders=[viz.Slider.about(weight, value) for weight, value in driven.weights.items()],
            obstacles=[] if isinstance(planner, Walking) else obstacles_of(planner.problem),
        )  # fmt: skip
        click.echo(f"drive {entry.name} at {stage.where} until you press Ctrl-C", err=True)
        sys.stdout.flush()
        try:
            driven.play(stage, duration)
        except KeyboardInterrupt:
            click.echo("", err=True)


def planner_of(
    entry: Entry, robot: str | None, options: Sequence[str], latency: float,
    changed: Callable[[Problem], Problem] = unchanged,
) -> tuple[Walking | RecedingHorizon, bool]:  # fmt: skip
    """The receding horizon of a problem, ``changed`` before, and whether it walks by commands."""
    gait = entry.name.partition("/")[2]
    if gait not in ORDERS:
        problem = shell.named(entry.name, robot, options)[1]
        with progress(f"{entry.name}, preparing"):
            return controller_of(problem, latency, changed), False
    chosen = shell.chosen_of(entry, options)
    known = inspect.signature(Walking).parameters
    for option in chosen:
        if option not in known:
            raise ProblemError(f"--{option.replace('_', '-')}: plans that are made again have no such parameter")
    with progress(f"{entry.name}, preparing"):
        return Walking(robot or entry.robot_name, gait, latency, **chosen), True


def controller_of(
    problem: Problem, latency: float, changed: Callable[[Problem], Problem] = unchanged
) -> RecedingHorizon:
    """The receding horizon of a ``changed`` problem, whose first plan begins where whole solves end.

    Few iterations from rest may leave an arm among obstacles with a plan that drives it out of control. The
    problem as it stands is solved first: one whose target counts at every knot takes eight times as long from rest.
    Iterations are of second order: after wild drags, Gauss-Newton's do not find back to a motion that obeys limits.
    """
    receding, guess = changed(problem), None
    for stage in (problem, receding) if receding is not problem else (problem,):
        found = solve(stage, guess=guess, throw=False)
        guess = found if np.isfinite(found.cost) else None
    return RecedingHorizon(receding, DDP(max_iterations=ITERATIONS), guess, latency=latency)


def chasing(problem: Problem) -> Problem:
    """Copy whose target counts at every knot: a horizon that recedes would never come to its end's."""
    running = {id(term) for term in problem.running}
    targets = [term for term in problem.terminal if hasattr(term, "target") and id(term) not in running]
    if len(targets) != 1:
        return problem
    return replace(problem, running=[*problem.running, targets[0]])


def chased(problem: Problem) -> Problem:
    """`chasing`; ProblemError where there is no such target."""
    if (found := chasing(problem)) is problem:
        raise ProblemError("--chase: expected for a problem whose end has one target, this one's has not")
    return found


def put_off(problem: Problem, x: Array, end: Array) -> list[str]:
    """Advice where plans arrive at their ``end`` (nx,), which recedes, but the motion does not, at x (nx,)."""
    if chasing(problem) is problem or not terminal_cost(problem, x) > PUT_OFF * terminal_cost(problem, end):
        return []
    return ["plans arrive at their end, which recedes: pay for the target at every step, too, by --chase"]


def _three(numbers: Any) -> str:
    return ", ".join(f"{number:.3g}" for number in np.asarray(numbers))


def _spread(run: Run) -> dict[str, float]:
    """Median and 95th percentile [ms]."""
    if not run.milliseconds.size:
        return {}
    median, p95 = np.percentile(run.milliseconds, [50, 95])
    return {"median": float(median), "p95": float(p95)}


def _commands(words: str) -> dict[float, Sequence[float]]:
    """Commands by the times from which they hold."""
    found: dict[float, Sequence[float]] = {}
    for part in words.split(";"):
        *times, numbers = part.split(":")
        try:
            found[float(*times)] = as_array("--command", [float(word) for word in numbers.split(",")], (3,)).tolist()
        except ValueError:
            raise ProblemError(f"--command: expected three numbers with commas, got {said(part)}") from None
    return found


ROS = "--ros-args"


@click.command(context_settings=shell.OPEN)
@click.argument("name", metavar="NAME|FILE")
@shell.OPTIONS
@click.option("--replan", is_flag=True, help="Plan again and again; gaits then walk by the velocities of cmd_vel.")
@click.option("--rate", type=float, default=500.0, show_default=True, help="Rate of efforts [Hz].")
@click.option("--every", type=float, default=0.02, show_default=True, help="Time between plans [s].")
@click.option("--latency", type=float, default=0.02, show_default=True, help="From a measurement to its plan [s].")
@click.option("--patience", type=float, default=0.05, show_default=True, help="Oldest measurement to act on [s].")
@click.option("--joints", help="Names of joints, with commas, in the order of efforts; default the robot's.")
@click.option("--states", default="joint_states", show_default=True, help="Topic of joints' positions and velocities.")
@click.option("--odometry", default="odom", show_default=True, help="Topic of a free base.")
@click.option("--commands", default="effort_controller/commands", show_default=True, help="Topic of efforts.")
@shell.PROBLEM
@shell.ROBOT
def node(
    name: str, options: tuple[str, ...], replan: bool, rate: float, every: float, latency: float, patience: float,
    joints: str | None, states: str, odometry: str, commands: str, problem: str | None, robot: str | None,
) -> None:  # fmt: skip
    """Apply the policy of problem NAME, or of FILE of `mayne solve --save`, as a node of ROS 2, until Ctrl-C.

    Options behind --ros-args are for ROS.
    """
    cut = options.index(ROS) if ROS in options else len(options)
    own, ros = options[:cut], options[cut:]
    if replan:
        shell.refuse_idle("expected without --replan, of which NAME says the problem", "--problem")
    else:
        shell.refuse_idle("expected together with --replan", "--every", "--latency")
    planning = planner_of(find(name), robot, own, latency)[0] if replan else None
    source = planning or solved(name, robot, own, problem)[2].policy
    names = None if joints is None else [word.strip() for word in joints.split(",")]
    follower = Follower(source, names, patience)
    optional("rclpy", "mayne node")
    with progress(f"{name}, preparing"):
        follower.warm()
    click.echo(f"efforts of {', '.join(follower.joints)} on {commands} at {rate:g} Hz until you press Ctrl-C", err=True)
    run_node(follower, rate, every, states=states, odometry=odometry, commands=commands, arguments=ros)
