"""Attributes that objects lack are told by the names that they have; properties keep their own errors."""

import copy
import pickle

import numpy as np
import pytest

import ddp
from ddp.feedback.adaptive import AdaptivePolicy
from dynamics.steps.function_dynamics import FunctionDynamics
from tests.ddp.systems import Quadratic


@pytest.fixture(scope="module")
def solution():
    dynamics = FunctionDynamics(lambda x, u: x + 0.1 * np.array([x[1], u[0]]), 2, 1, 0.1)
    return ddp.solve(ddp.Problem(dynamics, [Quadratic(np.ones(3), np.zeros(3))], [], np.ones(2), 5))


@pytest.mark.parametrize(
    ("part", "name", "told"),
    [
        (lambda solution: solution, "states", "'Solution' object has no attribute 'states'; X is what is often"),
        (lambda solution: solution, "polcy", "no attribute 'polcy'; did you mean 'policy'"),
        (lambda solution: solution, "zzz", r"no attribute 'zzz'; known are 'K', 'U', 'X'"),
        (lambda solution: solution.policy, "K", "'Policy' object has no attribute 'K'; G is what is often called so"),
        (lambda _: AdaptivePolicy.__new__(AdaptivePolicy), "export", "'AdaptivePolicy' .*; known are 'delay'"),
        (lambda solution: ddp.RecedingHorizon(solution.problem), "close_", "did you mean 'close'"),
    ],
)
def test_what_is_meant_is_named(solution, part, name, told):
    with pytest.raises(AttributeError, match=told):
        getattr(part(solution), name)


def test_objects_are_copied_and_looked_at_as_others_are(solution):
    for one in (solution, solution.policy):
        assert not hasattr(one, "states_") and not hasattr(one, "_repr_png_")  # noqa: PT018
        assert type(copy.deepcopy(one)) is type(copy.copy(one)) is type(one)
    assert np.array_equal(pickle.loads(pickle.dumps(solution)).X, solution.X)


def test_properties_keep_their_own_errors():
    @ddp.errors.pointing(whole="all")
    class Part:
        @property
        def whole(self):
            return {}.missing

    with pytest.raises(AttributeError, match=r"'dict' object has no attribute 'missing'$"):
        _ = Part().whole
