"""Fixtures of all tests."""

import gc
import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest
import thorough

import ddp
import problems
import viz.robots
from dynamics.robots.omissions import warn_once

SLOW = (
    "test_abuse.py", "test_tutorials.py", "ddp/test_kills.py", "test_readme.py", "test_convergence.py",
    "ddp/test_cache.py", "test_command_line.py", "test_command_line_files.py", "test_contributing.py",
    "ddp/test_interrupts.py",
)  # fmt: skip
"""Files whose few tests take a minute: first, so that no process does them alone at the end."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that has `thorough.cases` give all cases."""
    parser.addoption("--thorough", action="store_true", help="all cases of tests that repeat a check: make thorough")


def pytest_configure(config: pytest.Config) -> None:
    """Tell modules of tests, before they are imported."""
    thorough.is_asked = config.getoption("--thorough")


class _FromTheLast(pytest.Dir):
    """A folder whose last files are read first."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """Files and folders, the other way round."""
        return reversed(list(super().collect()))


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Dir | None:
    """Have one of two processes begin with the last file: what one has compiled of the tests, the other one reads."""
    backwards = os.environ.get("PYTEST_XDIST_WORKER") == "gw1"
    return _FromTheLast.from_parent(parent, path=path) if backwards else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort tests by their files, slow ones first; within a file they stay in order."""
    slow = [Path(__file__).parent / name for name in SLOW]

    def rank(item: pytest.Item) -> tuple[int, Path]:
        return next((k for k, path in enumerate(slow) if item.path == path), len(slow)), item.path

    items.sort(key=rank)


def pytest_collection_finish() -> None:
    """Have garbage be sought among what tests make, not among the modules and the ten thousand tests themselves."""
    gc.freeze()


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers that are the same in every run."""
    return np.random.default_rng(20240607)


@pytest.fixture(scope="session")
def solved():
    """Solutions by (name, solver), each solved once."""
    return cache(lambda name, solver: ddp.solve(problems.find(name)(), solver))


@pytest.fixture(autouse=True, scope="session")
def _named_robots_look_as_before():
    """Read the shapes of a robot of example-robot-data once, whoever loads and draws it again."""
    read, known = viz.robots.shapes_of, []

    def shapes_of(robot):
        named = getattr(getattr(robot, "source", None), "is_named", False)
        for other, found in known if named else ():
            if viz.robots._alike(other, robot):
                return found
        found = read(robot)
        if named and not found[1]:  # of what is missing, each drawing tells
            known.append((robot, found))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(viz.robots, "shapes_of", shapes_of)
        yield


@pytest.fixture(autouse=True, scope="module")
def _pinocchio_from_the_module_on() -> None:
    """Random numbers that fixtures of a module draw with Pinocchio are the same in every run."""
    pin.seed(20240607)


@pytest.fixture(autouse=True)
def _from_the_test_on() -> None:
    """Pinocchio draws the same numbers, and robots are warned of, whichever test ran before."""
    pin.seed(20240607)
    warn_once.cache_clear()
