"""Lists of the command line: problems, their parameters, robots."""

from __future__ import annotations

import inspect

import click

from problems.command import robots
from problems.command.output import print_json, print_table
from problems.command.parameters import parameters
from problems.command.progress import progress
from problems.registry import ALL, Entry


def list_problems(as_json: bool) -> None:
    """Print all problems."""
    entries = ALL.values()
    if as_json:
        names = ("name", "robot_name", "cost", "description", "tags")
        print_json([{name: getattr(entry, name) for name in names} for entry in entries])
    else:
        rows = [[entry.name, entry.robot_name, f"{entry.cost:g}", entry.description] for entry in entries]
        print_table(["problem", "robot", "cost", "what happens"], rows)


def list_robots(as_json: bool) -> None:
    """Print the robots that can be loaded by their names."""
    with progress("reading robots"):
        listed, refused = robots.loadable()
    if as_json:
        print_json([robot._asdict() for robot in listed])
        return
    print_table(["robot", "degrees of freedom", "base"], [[*map(str, robot)] for robot in listed])
    if refused:
        click.echo(f"in example-robot-data, but not for mayne: {', '.join(refused)}", err=True)


def describe(entry: Entry, as_json: bool) -> None:
    """Print a problem's description, and its parameters with their defaults."""
    defaults = parameters(entry)
    about = inspect.cleandoc(entry.build.__doc__ or "")
    if as_json:
        print_json({"name": entry.name, "description": entry.description, "parameters": defaults})
        return
    click.echo(f"{entry.name}: {entry.description}\n\n{about}\n")
    print_table(["parameter", "default"], [[f"--{k.replace('_', '-')}", str(v)] for k, v in defaults.items()])
