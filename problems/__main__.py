"""``python -m problems`` is the ``mayne`` command."""

from problems.cli import main

main(prog_name="mayne")
