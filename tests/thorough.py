"""Cases of tests that repeat a check: a few of each kind in the suite, all where pytest is told `--thorough`."""

from collections.abc import Sequence
from typing import TypeVar

Cases = TypeVar("Cases", int, Sequence)

is_asked = False
"""Whether pytest was told so: set before tests are collected."""


def cases(every: Cases, few: Cases) -> Cases:
    """Cases of a test, or how many there are: every one in `make thorough`, a few of them in `make test`."""
    numbers = isinstance(every, int)
    assert (0 < few <= every) if numbers else (len(few) > 0 and all(one in every for one in few)), (every, few)
    return every if is_asked else few
