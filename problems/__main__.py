"""``python -m problems`` is the ``mayne`` command."""

from problems.command.cli import main

main(prog_name="mayne")
