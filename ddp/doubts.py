"""Doubts about a problem that is well-formed and hardly meant so; told once, before it is solved or sent."""

import logging
from collections.abc import Iterable
from typing import Any

from ddp.errors import settle
from ddp.systems.system import ability

logger = logging.getLogger("mayne")

MOST = 200
"""Doubts that are remembered, so that each is told once."""

_told: set[str] = set()


def tell_doubts(problem: Any) -> None:
    """Tell what a system doubts about its problem, the first time that it, or a copy of it, is solved or sent."""
    if vars(problem).get("_looked", False):
        return
    settle(problem, _looked=True)
    doubts = ability(problem.dynamics, "doubts")
    tell(() if doubts is None else doubts(problem))


def tell(doubts: Iterable[str]) -> None:
    """Tell doubts that have not been told yet."""
    for doubt in doubts:
        if doubt not in _told and len(_told) < MOST:
            _told.add(doubt)
            logger.warning("%s", doubt)
