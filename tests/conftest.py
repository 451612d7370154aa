"""What all tests share."""

import numpy as np
import pinocchio as pin
import pytest


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers that are the same in every run."""
    return np.random.default_rng(20240607)


@pytest.fixture(autouse=True, scope="module")
def _pinocchio_from_the_module_on() -> None:
    """What fixtures of a module draw with Pinocchio is the same in every run."""
    pin.seed(20240607)


@pytest.fixture(autouse=True)
def _pinocchio_from_the_test_on() -> None:
    """And what a test draws, whichever ran before it."""
    pin.seed(20240607)
