"""The ``mayne`` command, and ``python -m mayne``.

Its version and the list of its commands are told, and unknown commands refused, without importing what they need, which
takes seconds. All imports that take time are made where Ctrl-C is told in one word.
"""

import gc
import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from mayne import _telling

if TYPE_CHECKING:
    import click

ABOUT = "Trajectory optimisation with full second-order DDP."

COMMANDS = {
    "bench": "Time the derivatives and the iterations of problem NAME on one thread.",
    "check": "Check every derivative of problem NAME against differences, near its guess.",
    "compare": "Solve problem NAME with iLQR and with DDP; --html shows both motions in one scene.",
    "demo": "Solve a reach and a reorientation with iLQR and with DDP, and draw both.",
    "drive": "Push and steer the robot of problem NAME in the browser while it plans again in MuJoCo, until Ctrl-C.",
    "list": "List the problems, or the parameters of problem NAME; `mayne list robots`: the robots.",
    "mpc": "Control problem NAME's system over a receding horizon while it is pushed about.",
    "node": "Apply the policy of problem NAME, or of FILE of `mayne solve --save`, as a node of ROS 2, until Ctrl-C.",
    "play": "Play the policy of problem NAME, or of FILE of `mayne solve --save`, in MuJoCo, beside a joint PD.",
    "replan": "Control the robot of problem NAME in MuJoCo by plans made again and again, of gaits by commands.",
    "resume": "Go on with the solve that wrote FILE, of `mayne solve --checkpoint`.",
    "simulate": "Simulate system NAME, a soft or hybrid robot; without NAME, list them.",
    "solve": "Solve problem NAME; its own parameters (`mayne list NAME`) are options as well.",
    "sweep": "Solve a problem many times by the plan in file PLAN, and keep the solutions in a store.",
    "teach": "Open problem NAME (pendulum, cartpole, arm or another) as a page with sliders that solve it again.",
    "view": "Play the motion saved in FILE in the browser, until Ctrl-C, or write it with --html.",
    "warm": "Compile ahead what problems NAME, by default all, need, and keep it in the cache.",
}
"""The first lines of the docstrings in `problems.cli`."""


def overview() -> "click.Group":
    """The command as far as it explains itself."""
    import click

    commands = [click.Command(name, help=text, short_help=text) for name, text in COMMANDS.items()]
    settings = {"help_option_names": ["-h", "--help"]}
    group = click.Group("mayne", commands, help=ABOUT, context_settings=settings)
    return click.version_option(package_name="mayne")(group)


def main() -> None:
    """Run the command on the program's arguments."""
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:  # an exception would be lost in imports of C's
        signal.signal(signal.SIGINT, _leave)
    command = _loaded(sys.argv[1] if len(sys.argv) > 1 else "--help")
    if ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    command(prog_name="mayne")


def _leave(*_: object) -> None:
    os.write(2, b"\r\x1b[Kinterrupted\n" if os.isatty(2) else b"interrupted\n")
    os._exit(128 + signal.SIGINT)


def _loaded(given: str) -> Callable[..., object]:
    """The command for a first argument: the whole one only where it is needed, which a terminal is told of.

    Imports leave no garbage, and looking for some is a fifth of their time.
    """
    if given in ("-h", "--help", "--version"):
        return overview()
    if not given.startswith("-") and given not in COMMANDS:
        _refuse(given)
    gc.disable()
    try:
        with _telling():
            from problems.cli import main as command
    finally:
        gc.enable()
    for name, text in COMMANDS.items():
        command.commands[name].help = command.commands[name].help or text  # without docstrings, as under python -OO
    return command


def _refuse(given: str) -> None:
    """Say that there is no such command, and which is meant; exit status 2."""
    from difflib import get_close_matches

    near = get_close_matches(given, COMMANDS, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(COMMANDS)}"
    if given.count("/") == 1 and given[0] != "/" and "." not in given:  # a problem's name, such as arm/reach
        hint = f"`mayne solve {given[:80]}` solves a problem, `mayne list` tells all"
    if sys.stderr is not None:  # as where it is closed
        sys.stderr.write(f"Error: no such command: {given[:80]!r}; {hint}\n")
    sys.exit(2)


if __name__ == "__main__":
    main()
