"""The ``mayne`` command, and ``python -m mayne``.

Its version and the list of its commands are told without importing what they need, which takes seconds.
"""

import sys

import click

ABOUT = "Trajectory optimisation with full second-order DDP."

COMMANDS = {
    "bench": "Time the derivatives and the iterations of problem NAME on one thread.",
    "check": "Check every derivative of problem NAME against differences, near its guess.",
    "compare": "Solve problem NAME with iLQR and with DDP.",
    "demo": "Solve a reach and a reorientation with iLQR and with DDP, and draw both.",
    "list": "List the problems, or the parameters of problem NAME; NAME robots: the robots.",
    "mpc": "Control problem NAME's system over a receding horizon while it is pushed about.",
    "solve": "Solve problem NAME; its own parameters (`mayne list NAME`) are options as well.",
    "view": "Play the motion saved in FILE in the browser, until Ctrl-C, or write it with --html.",
}
"""The first lines of the docstrings in `problems.cli`."""


def overview() -> click.Group:
    """The command as far as it explains itself."""
    commands = [click.Command(name, help=text) for name, text in COMMANDS.items()]
    settings = {"help_option_names": ["-h", "--help"]}
    group = click.Group("mayne", commands, help=ABOUT, context_settings=settings)
    return click.version_option(package_name="mayne")(group)


def main() -> None:
    """Run the command on the program's arguments."""
    if sys.argv[1:2] in ([], ["-h"], ["--help"], ["--version"]):
        overview()(prog_name="mayne")
    from problems.cli import main as command

    command(prog_name="mayne")


if __name__ == "__main__":
    main()
