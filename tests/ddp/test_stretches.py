"""Terms of stretches of knots: where they count, and what is refused."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from systems import Quadratic

import ddp
from ddp.derivatives import EXACT, FIRST, RECORDS
from ddp.errors import ProblemError
from dynamics.steps.function_dynamics import FunctionDynamics
from problems.costs import ControlCost, StateCost

DT, N = 0.1, 6


@pytest.fixture
def system():
    return FunctionDynamics(lambda x, u: np.array([x[0] + DT * x[1], x[1] + DT * u[0]]), 2, 1, dt=DT)


@pytest.fixture
def targets(rng):
    return rng.normal(size=(3, 2))


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def problem(system, during, **more):
    effort = ControlCost(np.zeros(1), np.ones(1))
    return ddp.Problem(dynamics=system, running=[effort], terminal=[], x0=np.zeros(2), horizon=N, during=during, **more)


def test_a_term_counts_at_the_knots_of_its_stretch_times_dt(system, targets, rng):
    weights = np.array([2.0, 3.0])
    moving, still = StateCost(system, targets, weights), StateCost(system, targets[0], weights)
    assert moving.knots is not None
    X, U = rng.normal(size=(N + 1, 2)), rng.normal(size=(N, 1))
    found = problem(system, {range(2, 5): [moving], range(1, 3): [still]}).cost(X, U)

    def half(x, target):
        return 0.5 * float(weights @ (x - target) ** 2)

    expected = 0.5 * DT * float((U**2).sum())
    expected += DT * sum(half(X[2 + k], targets[k]) for k in range(3))
    expected += DT * sum(half(X[k], targets[0]) for k in (1, 2))
    assert found == pytest.approx(expected, rel=1e-13)


def test_expansions_do_not_depend_on_how_knots_are_shared(system, targets, rng):
    shared = problem(system, {range(2, 5): [StateCost(system, targets, np.ones(2))]})
    X, U = rng.normal(size=(N + 1, 2)), shared.padded(rng.normal(size=(N, 1)))
    whole, parts = shared.allocate(), shared.allocate()
    for out, bounds in ((whole, (0, N + 1)), (parts, (0, 3, 4, N + 1))):
        for start, stop in pairwise(bounds):
            shared.expand(X, U, out, start, stop)
            shared.expand(X, U, out, start, stop, EXACT | RECORDS)
    for name in ("l", "lz", "lzz", "exact", "diagonal"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name))
    assert whole.lz[2:5, :2].any()
    assert not whole.lz[[0, 1, 5, 6], :2].any()


def test_a_moving_target_is_followed_and_its_derivatives_are_right(system):
    path = np.stack([np.sin(np.arange(N)), np.cos(np.arange(N))], axis=1)
    followed = problem(system, {range(N): [StateCost(system, path, np.array([1e8, 0.0]))]})
    solution = ddp.solve(followed)
    assert solution.iterations <= 2
    np.testing.assert_allclose(solution.X[2:N, 0], path[2:, 0], atol=1e-3)
    report = ddp.check_derivatives(followed, solution.X, solution.U)
    assert report.ok, str(report)


@pytest.mark.parametrize(
    ("during", "message"),
    [
        ({2: []}, r"during: expected ranges of knots within range\(0, 6\), got 2"),
        ({range(3, 8): []}, r"during: .* got range\(3, 8\)"),
        ({range(3, 7): []}, r"got range\(3, 7\); what counts at knot 6, the last, is given in terminal$"),
        ({range(3, 3): []}, r"during: .* got range\(3, 3\)"),
        ({range(0, 4, 2): []}, r"during: .* got range\(0, 4, 2\)"),
        ([1], "during: expected a mapping of ranges to lists of terms, got list"),
        ({range(2): ["cost"]}, r"during\[range\(0, 2\)\]\[0\]: expected a cost term"),
    ],
)
def test_what_is_wrong_with_a_stretch_is_named(system, during, message):
    with pytest.raises(ProblemError, match=message):
        problem(system, during)


def test_a_path_of_another_length_is_refused(system, targets):
    with pytest.raises(ProblemError, match=r"expected a term of 2 knots, those of range\(0, 2\), got one of 3"):
        problem(system, {range(2): [StateCost(system, targets, np.ones(2))]})
    with pytest.raises(ProblemError, match="made for a stretch of 3 knots"):
        StateCost(system, targets, np.ones(2)).values(np.zeros((2, 2)), np.zeros((2, 1)))
    with pytest.raises(ProblemError, match="target_x: expected rows of 2 numbers"):
        StateCost(system, np.zeros((3, 4)), np.ones(2))


def test_a_moving_target_does_not_serve_knots_that_it_was_not_made_for(system, targets):
    with pytest.raises(ProblemError, match=r"running\[0\].*expected a term of 8 knots"):
        ddp.Problem(system, [StateCost(system, targets, np.ones(2))], [], np.zeros(2), 8)
    with pytest.raises(ProblemError, match=r"terminal\[0\].*expected a term of 1 knots"):
        ddp.Problem(system, [], [StateCost(system, targets, np.ones(2))], np.zeros(2), 8)


@pytest.mark.parametrize("knots", [range(0, N, 3), range(0, 4 * N, 2)], ids=["few runs", "many runs"])
def test_exact_hessians_of_an_earlier_trajectory_are_forgotten_where_knots_are_separable(system, rng, knots):
    curved = {k: [Quadratic(rng.uniform(1.0, 2.0, 3), np.zeros(3))] for k in knots}
    valley = StateCost(system, np.zeros(2), rng.uniform(1.0, 2.0, 2))
    mixed = ddp.Problem(system, [valley], [valley], np.zeros(2), 4 * N, at=curved)
    X, U = rng.normal(size=(4 * N + 1, 2)), mixed.padded(rng.normal(size=(4 * N, 1)))
    used, fresh = mixed.allocate(), mixed.allocate()
    mixed.expand(X, U, used, 0, 4 * N + 1)
    mixed.expand(X, U, used, 0, 4 * N + 1, EXACT | RECORDS)
    for out in (used, fresh):
        mixed.expand(X, U, out, 0, 4 * N + 1, FIRST | EXACT | RECORDS)
    np.testing.assert_array_equal(used.hessians(mixed.separable), fresh.hessians(mixed.separable))
    assert not mixed.separable.all()
    assert fresh.diagonal[mixed.separable, :2].all()
