"""Declarations of several fields of a struct at once."""

from collections.abc import Callable
from typing import Any


def each(count: int, kind: Callable[..., Any], *columns: Any, **constant: bool) -> tuple[Any, ...]:
    """Make so many fields of a kind of struct.py, fields.py or variables.py: ``N, nx, nu = each(3, integer)``."""
    return tuple(kind(*columns, **constant) for _ in range(count))
