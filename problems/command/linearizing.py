"""Check of the linearisation in continuous time, for the command line."""

from __future__ import annotations

from collections.abc import Sequence

import click

import dynamics
from ddp.errors import ProblemError
from problems import linearization
from problems.command.output import print_json


def check(robot: str | None, options: Sequence[str], as_json: bool) -> linearization.DifferenceSweep:
    """Sweep the steps of differences, of a robot or of the paper's, and print their errors."""
    if options:
        raise ProblemError(f"{options[0]}: `check linearization` has no parameters; it has --robot, --plot and --json")
    subject = linearization.branched() if robot is None else dynamics.load(robot)
    found = linearization.sweep(subject, linearization.perturbed(subject))
    if as_json:
        errors = {"one_sided": found.one_sided.tolist(), "central": found.central.tolist()}
        outcome = {"ok": found.ok, "slopes": found.slopes, "floor": found.floor, "scale": found.scale}
        print_json({"robot": subject.name} | outcome | {"deltas": found.deltas.tolist()} | errors)
    else:
        click.echo(f"{subject.name}: errors of differences against the exact linearisation\n{found}")
    return found
