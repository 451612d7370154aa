"""Parts of a robot file that its robot goes without: collected while it is read, said in one warning or refused."""

from __future__ import annotations

import logging
from functools import cache

from ddp.errors import ModelError

logger = logging.getLogger("mayne")

_FEW = 6
"""Elements that a message names of an effect that is not dropped; of more it says how many."""


class Omissions:
    """What the dynamics leave out, by kind of effect: "dry friction of {} is not modelled" and the elements."""

    def __init__(self) -> None:
        self._dropped: dict[str, list[str]] = {}
        self._elsewhere: dict[str, list[str]] = {}

    def drop(self, effect: str, element: str) -> None:
        """Note an element whose effect mayne does not model; ``effect`` has {} where its elements are named."""
        _note(self._dropped, effect, element)

    def place(self, effect: str, element: str) -> None:
        """Note an element whose effect is modelled, but not everywhere."""
        _note(self._elsewhere, effect, element)

    @property
    def dropped(self) -> str:
        """A sentence that names what is not modelled, empty if there is none."""
        return _sentence(self._dropped)

    @property
    def all(self) -> str:
        """A sentence that names these, and what acts in some functions alone."""
        parts = _sentence(self._dropped), _sentence(self._elsewhere, _FEW)
        return "; ".join(part for part in parts if part)


def announce(name: str, omissions: Omissions, strict: bool, once: bool = False) -> None:
    """Warn of what a robot goes without, once a process if ``once``; ModelError if ``strict`` and it is dropped."""
    if strict and omissions.dropped:
        raise ModelError(f"{name}: {omissions.dropped}")
    if omissions.all:
        (_warn_once if once else logger.warning)(f"{name}: {omissions.all}")


@cache
def _warn_once(message: str) -> None:
    logger.warning(message)


def _note(effects: dict[str, list[str]], effect: str, element: str) -> None:
    elements = effects.setdefault(effect, [])
    if element not in elements:
        elements.append(element)


def _sentence(effects: dict[str, list[str]], most: int | None = None) -> str:
    return "; ".join(effect.format(_listed(elements, most)) for effect, elements in effects.items())


def _listed(elements: list[str], most: int | None) -> str:
    if most is not None and len(elements) > most:
        return f"{', '.join(elements[: most - 1])} and {len(elements) - most + 1} more"
    return ", ".join(elements)
