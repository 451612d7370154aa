"""Parts of all commands: errors as messages, arguments and options, the problem that a command names."""

import errno
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from ddp.errors import ModelError, ProblemError, SolveError, said
from ddp.options import DDP, ILQR, Newton
from ddp.problem import Problem
from dynamics.robots.loading import READERS
from problems.command.output import check_file, progress
from problems.command.parameters import build, parameters, parse
from problems.registry import Entry, find

INTERRUPTED, CLOSED = 130, 141
"""Exit status after Ctrl-C, and where nobody reads the output any more, as shells have them."""

Command = Callable[..., None]


class BadInput(click.ClickException):
    """A message without a traceback, and exit status 2."""

    exit_code = 2


class Commands(click.Group):
    """Turn the errors that mayne raises on purpose into messages."""

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        """Add a command, which the list of commands tells of by its first paragraph, however long."""
        cmd.short_help = " ".join((cmd.help or "").partition("\n\n")[0].split())
        super().add_command(cmd, name)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (ProblemError, ModelError) as reason:
            raise BadInput(str(reason)) from None
        except SolveError as reason:
            raise click.ClickException(str(reason)) from None
        except click.BadParameter as reason:
            if isinstance(reason, click.MissingParameter):
                if reason.param is not None and reason.param.name == "name":
                    raise click.MissingParameter("`mayne list` tells the names.", reason.ctx, reason.param) from None
                raise
            raise BadInput(reason.format_message()) from None  # without lines of usage, which was right
        except BrokenPipeError:  # of `mayne list | head`
            return CLOSED

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run a command; Ctrl-C, even while click reads options, ends it as shells end programs."""
        if not kwargs.get("standalone_mode", True):
            return super().main(*args, **kwargs)
        try:
            code = super().main(*args, **{**kwargs, "standalone_mode": False})
            click.echo(nl=False)  # it flushes, which a full disk may refuse
        except click.ClickException as reason:
            reason.show()
            code = reason.exit_code
        except (click.Abort, KeyboardInterrupt):
            click.echo("interrupted", err=True)
            code = INTERRUPTED
        except OSError as reason:
            if reason.errno not in (errno.ENOSPC, errno.EPIPE):
                raise
            if reason.errno == errno.ENOSPC:
                click.echo(f"Error: standard output: {reason.strerror}", err=True)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for what is flushed when Python ends
            code = BadInput.exit_code if reason.errno == errno.ENOSPC else CLOSED
        return sys.exit(code)


class File(click.Path):
    """Path of a file to write, refused where it cannot be; suffixes: its kinds, by default a solution's (.npz)."""

    def __init__(self, *suffixes: str) -> None:
        super().__init__()
        self.suffixes = suffixes

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Check a path before there is anything to write."""
        option = param.opts[0] if param else "path"
        check_file(option, value, self.suffixes)
        other = ctx.meta.setdefault(os.path.realpath(value), option) if ctx else option
        if other != option:
            raise ProblemError(f"{option}: expected another file than that of {other}, got {said(value)}")
        return super().convert(value, param, ctx)


DRAWING = File(".png", ".pdf", ".svg")
SOLVERS: dict[str, Callable[..., DDP]] = {"ddp": DDP, "ilqr": ILQR, "newton": Newton}
TITLES = {"ddp": "DDP", "ilqr": "iLQR", "newton": "Newton"}

NAME = click.argument("name")
PROBLEM = click.option("--problem", help="Name of its problem, of a file that `mayne solve --save` did not write.")
ROBOT = click.option("--robot", help="Another robot: a file, or a name that `mayne list robots` tells.")
OPTIONS = click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[--PARAMETER VALUE]...")
OPEN = {"ignore_unknown_options": True}  # for the parameters of the problem, which `parse` reads
HTML = click.option("--html", type=File(".html", ".htm"), help="Write the motion as a page that any browser plays.")
SAVE = click.option("--save", type=File(), help="Write the solution (.npz), for `mayne view`.")
PLOT = click.option("--plot", type=DRAWING, help="Write how it converged (.png, .pdf, .svg).")
NO_BROWSER = click.option("--no-browser", is_flag=True, help="Tell the address of the viewer, and open no browser.")
CHASE = click.option("--chase", is_flag=True, help="Let the target of the end count at every step, too.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def of_problem(command: Command) -> click.Command:
    """Make a command of a problem: its name, its parameters as options, another robot."""
    return click.command(context_settings=OPEN)(NAME(OPTIONS(ROBOT(command))))


def solving(command: Command) -> Command:
    """The options of commands that solve."""
    for option in (
        click.option(
            "--workers",
            default="1",
            show_default=True,
            help="Threads or processes that share derivatives: a number, auto, threads:2, processes:2.",
        ),
        click.option("--max-iterations", type=int, default=1000, show_default=True, help="Most iterations."),
        click.option(
            "--tolerance", type=float, default=1e-9, show_default=True,
            help="End when the next step is expected to lower the cost by less.",
        ),
    ):
        command = option(command)
    return command


def named(
    name: str, robot: str | None, options: Sequence[str], saved: dict[str, Any] | None = None
) -> tuple[Entry, Problem, dict[str, Any]]:
    """A problem, by its name, what a file has saved of it, and the command's options; and all those choices."""
    _refuse_file(name)
    entry = find(name)
    chosen = (saved or {}) | chosen_of(entry, options)
    if robot is not None:
        if "robot" not in parameters(entry):
            raise ProblemError(f"robot: {name} is about one system, no robot can take its place")
        chosen["robot"] = robot
    with progress(f"{name}, preparing"):
        return entry, build(entry, chosen), chosen


def chosen_of(entry: Entry, options: Sequence[str]) -> dict[str, Any]:
    """The parameters of a problem that the command's options choose; errors know the options of all commands."""
    others = [option for parameter in click.get_current_context().command.params for option in parameter.opts]
    return parse(entry, options, others, _commands_by_option())


def _commands_by_option() -> dict[str, list[str]]:
    """Names of the commands that have each option."""
    found: dict[str, list[str]] = {}
    for name, command in getattr(click.get_current_context().find_root().command, "commands", {}).items():
        for option in dict.fromkeys(option for parameter in command.params for option in parameter.opts):
            found.setdefault(option, []).append(name)
    return found


def _refuse_file(name: str) -> None:
    """Raise ProblemError for the name of a file in place of that of a problem."""
    suffix = Path(name).suffix.lower()
    if suffix in READERS:
        raise ProblemError(
            f"problem: expected a name, got the robot file {said(name)}: give it as --robot, as in "
            f"`mayne solve arm/reach --robot {name}`"
        )
    if suffix == ".npz":
        found = "a saved solution, which `mayne view` shows" if os.path.isfile(name) else "and there is no such file"
        raise ProblemError(f"problem: expected a name, got {said(name)}, {found}")


def refuse_idle(reason: str, *options: str) -> None:
    """Raise ProblemError for the first of some options that is given, for which the command has no use."""
    context, default = click.get_current_context(), click.core.ParameterSource.DEFAULT
    for parameter in context.command.params:
        if parameter.opts[0] in options and context.get_parameter_source(str(parameter.name)) is not default:
            raise ProblemError(f"{parameter.opts[0]}: {reason}")


def end(success: bool) -> None:
    """End the command: exit status 0 for success, 1 otherwise."""
    click.get_current_context().exit(0 if success else 1)
