"""Fixtures of the tests of the solver."""

import pytest
from fresh import Fresh


@pytest.fixture(scope="module")
def fresh():
    """Processes that have imported numba and compiled nothing."""
    made = Fresh()
    yield made
    made.close()
