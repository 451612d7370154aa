"""Lists of the command line: problems, their parameters, robots."""

import inspect
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import click

from ddp.errors import ModelError
from dynamics.robots.model import load
from problems.command.output import progress, tell
from problems.command.parameters import HOW, parameters
from problems.registry import ALL, Entry


class Listed(NamedTuple):
    """A robot's name, its degrees of freedom (nv), and whether its base is "fixed" or "floating"."""

    name: str
    degrees_of_freedom: int
    base: str


def list_problems(as_json: bool) -> None:
    """Print all problems."""
    names, entries = ("name", "robot_name", "cost", "description", "tags"), ALL.values()
    rows = [[entry.name, entry.robot_name, f"{entry.cost:g}", entry.description] for entry in entries]
    told = [{name: getattr(entry, name) for name in names} for entry in entries]
    tell(as_json, told, (["problem", "robot", "cost", "what happens"], rows))


def list_robots(as_json: bool) -> None:
    """Print the robots that can be loaded by their names."""
    with progress("reading robots"):
        listed, refused = loadable()
    rows = [[*map(str, robot)] for robot in listed]
    tell(as_json, [robot._asdict() for robot in listed], (["robot", "degrees of freedom", "base"], rows))
    if refused and not as_json:
        click.echo(f"in example-robot-data, but not for mayne: {', '.join(refused)}", err=True)


def describe(entry: Entry, as_json: bool) -> None:
    """Print a problem's description, and its parameters with their defaults."""
    defaults = parameters(entry)
    about = inspect.cleandoc(entry.build.__doc__ or "")
    rows = [[f"--{name.replace('_', '-')}", str(default)] for name, default in defaults.items()]
    told = {"name": entry.name, "description": entry.description, "parameters": defaults}
    text = f"{entry.name}: {entry.description}\n\n{about}\n\n{HOW[0].upper()}{HOW[1:]}\n"
    tell(as_json, told, text, (["parameter", "default"], rows))


def loadable() -> tuple[list[Listed], list[str]]:
    """The robots of example-robot-data, and the names of those that cannot be loaded."""
    from example_robot_data import robots_loader  # with Pinocchio: most commands need neither

    listed, refused = [], []
    with _unannounced():
        for name in sorted(robots_loader.ROBOTS):
            try:
                robot = load(name)
            except ModelError:
                refused.append(name)
            else:
                listed.append(Listed(name, robot.nv, "floating" if robot.is_floating else "fixed"))
    return listed, refused


@contextmanager
def _unannounced() -> Iterator[None]:
    """Silence warnings of what a model leaves out: they are for whoever uses that robot."""
    logger = logging.getLogger("mayne")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)
