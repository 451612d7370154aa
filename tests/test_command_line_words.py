"""The command line in words: tables on narrow terminals, help of every option."""

import click
import pytest
from rich.console import Console

from mayne import __main__ as front
from problems import ALL, cli
from problems.command import listing, output


def test_narrow_terminals_show_whole_names_of_problems(monkeypatch, capsys):
    for width in (40, 80, 120):
        narrow = Console(width=width)
        monkeypatch.setattr(output, "console", lambda narrow=narrow: narrow)
        listing.list_problems(False)
        shown = capsys.readouterr().out
        assert all(f"{name} " in shown for name in ALL), width
        assert "…" not in shown
        if width >= 80:
            assert max(map(len, shown.splitlines())) <= width


def test_every_option_says_what_it_is():
    for name, command in cli.main.commands.items():
        for option in command.params:
            assert not isinstance(option, click.Option) or option.help, f"{name} {option.opts}"


@pytest.mark.parametrize("name", front.COMMANDS)
def test_every_command_says_what_it_does_where_docstrings_are_gone(name, monkeypatch):
    """Keeps descriptions as under ``python -OO``."""
    own = cli.main.commands[name]
    assert own.get_short_help_str(200).rstrip(".") in front.COMMANDS[name]
    monkeypatch.setattr(own, "help", None)
    assert front._loaded(name).commands[name].help == front.COMMANDS[name]
