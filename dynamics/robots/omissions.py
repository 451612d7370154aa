"""Parts of a robot file that its robot goes without: collected while it is read, then logged at once or refused."""

import logging
from functools import cache

from ddp.errors import ModelError

logger = logging.getLogger("mayne")

_FEW = 6
"""Elements that a message names of an effect that is not dropped; of more it says how many."""


Effects = dict[str, dict[str, None]]
"""Elements by effects, each once, in the order in which they were found."""


class Omissions:
    """Effects that the dynamics leave out, each with its elements: "dry friction of {} is not modelled"."""

    def __init__(self) -> None:
        self._dropped: Effects = {}
        self._doubted: Effects = {}
        self._partial: Effects = {}

    def drop(self, effect: str, element: str) -> None:
        """Note an element whose effect mayne does not model; ``effect`` has {} where its elements are named."""
        self._dropped.setdefault(effect, {})[element] = None

    def doubt(self, effect: str, element: str) -> None:
        """Note an element that is worth a warning and no reason to refuse a robot."""
        self._doubted.setdefault(effect, {})[element] = None

    def place(self, effect: str, element: str) -> None:
        """Note an element whose effect is modelled in some functions alone, as its file has it."""
        self._partial.setdefault(effect, {})[element] = None

    @property
    def dropped(self) -> str:
        """Sentence that names the effects which are not modelled, empty if there are none."""
        return _sentence(self._dropped)

    @property
    def warned(self) -> str:
        """Sentence that names these and the elements in doubt."""
        parts = _sentence(self._dropped), _sentence(self._doubted, _FEW)
        return "; ".join(part for part in parts if part)

    @property
    def partial(self) -> str:
        """Sentence that names the effects which act in some functions alone."""
        return _sentence(self._partial, _FEW)


def announce(name: str, omissions: Omissions, strict: bool, once: bool = False) -> None:
    """Log the omissions, warnings once a process if ``once``; ModelError if ``strict`` and some is dropped."""
    if strict and omissions.dropped:
        raise ModelError(f"{name}: {omissions.dropped}")
    if omissions.warned:
        (warn_once if once else logger.warning)(f"{name}: {omissions.warned}")
    if omissions.partial:
        logger.info("%s: %s", name, omissions.partial)


@cache
def warn_once(message: str) -> None:
    """Log a warning that this process has not logged."""
    logger.warning(message)


def _sentence(effects: Effects, most: int | None = None) -> str:
    return "; ".join(effect.format(listed([*elements], most)) for effect, elements in effects.items())


def listed(elements: list[str], most: int | None) -> str:
    """Elements with commas between them, of more than ``most`` the first and how many more."""
    if most is not None and len(elements) > most:
        return f"{', '.join(elements[: most - 1])} and {len(elements) - most + 1} more"
    return ", ".join(elements)
