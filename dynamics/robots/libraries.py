"""Pinocchio and coal, imported when something of them is first used.

They read, check and draw robots, and take .1 s of CPU and 48 MB resident, of which 6 are a process's own. Who solves
problems of robots that were read elsewhere needs neither.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import coal
    import pinocchio as pin

__all__ = ["coal", "pin"]


class _Library:
    """A module that is imported when an attribute of it is first asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        found = getattr(import_module(self._name), name)
        setattr(self, name, found)
        return found

    def __reduce__(self) -> Any:
        return _Library, (self._name,)


if not TYPE_CHECKING:
    coal, pin = _Library("coal"), _Library("pinocchio")
