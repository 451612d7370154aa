"""The robots that can be loaded by their names."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from example_robot_data import robots_loader

from ddp.errors import ModelError
from dynamics.robots.model import load


class Listed(NamedTuple):
    """A robot's name, its degrees of freedom (nv), and whether its base is "fixed" or "floating"."""

    name: str
    degrees_of_freedom: int
    base: str


def loadable() -> tuple[list[Listed], list[str]]:
    """The robots of example-robot-data, and the names of those that cannot be loaded."""
    listed, refused = [], []
    with _unannounced():
        for name in sorted(robots_loader.ROBOTS):
            try:
                robot = load(name)
            except ModelError:
                refused.append(name)
            else:
                listed.append(Listed(name, robot.nv, "floating" if robot.is_floating else "fixed"))
    return listed, refused


@contextmanager
def _unannounced() -> Iterator[None]:
    """Without warnings of what a model leaves out: they are for whoever uses that robot."""
    logger = logging.getLogger("mayne")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)
