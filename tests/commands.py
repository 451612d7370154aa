"""Run the command in tests, and see it fail."""

from click.testing import CliRunner, Result

from problems import cli

SMALL = "pendulum/swing-up"
"""A problem that is solved at once."""


def mayne(*arguments: object) -> Result:
    """Run the command with some arguments."""
    return CliRunner().invoke(cli.main, [str(argument) for argument in arguments])


def fails_with(result: Result, status: int, *words: str, without: str = "Traceback") -> None:
    """The run ended with a status and a message on standard error, not with a traceback, and without a word."""
    assert result.exit_code == status, result.output
    assert isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.stderr
    assert without not in result.stderr
    for word in words:
        assert word in result.stderr
