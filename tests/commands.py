"""Run the command in tests, and see it fail, or what it writes on a terminal."""

import os
import pty
import subprocess
from collections.abc import Sequence

from click.testing import CliRunner, Result

from problems import cli

SMALL = "pendulum/swing-up"
"""A problem that is solved at once."""


def mayne(*arguments: object) -> Result:
    """Run the command with some arguments."""
    return CliRunner().invoke(cli.main, [str(argument) for argument in arguments])


def on_a_terminal(command: Sequence[object], status: int = 0, **options: object) -> str:
    """All that a program writes on a terminal, which gives it in parts of any size."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([str(word) for word in command], stdout=theirs, stderr=theirs, **options)
    os.close(theirs)
    written = bytearray()
    try:
        while part := os.read(ours, 4096):
            written += part
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    assert process.wait() == status, written
    return written.decode()


def fails_with(result: Result, status: int, *words: str, without: str = "Traceback") -> None:
    """The run ended with a status and a message on standard error, not with a traceback, and without a word."""
    assert result.exit_code == status, result.output
    assert isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.stderr
    assert without not in result.stderr
    for word in words:
        assert word in result.stderr
