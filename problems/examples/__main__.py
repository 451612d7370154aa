"""Run the examples that are named, by default all of them."""

import sys
from importlib import import_module

import click

from ddp.errors import ProblemError, choice

NAMES = "loop", "reorientation", "balance", "gaits", "throw"


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME ...]")
def main(names: tuple[str, ...]) -> None:
    """Run the examples that are named, by default all of them: loop, reorientation, balance, gaits, throw."""
    try:
        for name in names:
            choice("NAME", name, NAMES, "there is no example")
        for name in names or NAMES:
            example = import_module(f"problems.examples.{name}")
            click.echo(str(example.__doc__).splitlines()[0])
            for line in example.run():
                click.echo(f"  {line}")
    except ProblemError as error:
        click.echo(str(error), err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
