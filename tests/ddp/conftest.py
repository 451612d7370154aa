"""Fixtures of the tests of the solver."""

import multiprocessing

import pytest
from fresh import Fresh
from many_systems import samples

import ddp
from problems import pendulum


@pytest.fixture(scope="module")
def fresh():
    """Processes that have imported numba and compiled nothing."""
    made = Fresh()
    yield made
    made.close()


@pytest.fixture
def forked(monkeypatch):
    """Workers are forked here, where others are spawned and import for a second what this process has."""
    fork = multiprocessing.get_context("fork")
    monkeypatch.setattr(multiprocessing, "get_context", lambda method: fork)


@pytest.fixture(scope="session")
def problem():
    """A pendulum's swing-up, of which many are solved."""
    return pendulum.swing_up(horizon=60)


@pytest.fixture(scope="session")
def over():
    """How these differ."""
    return samples()


@pytest.fixture(scope="session")
def serial(problem, over, tmp_path_factory):
    """A store of them, made by this process alone, without interruption."""
    return ddp.solve_many(problem, over, executor=1, start="neighbours", into=tmp_path_factory.mktemp("s") / "a.zarr")
