"""Gaps of full-space steps in other units: solves take the same way, also where nothing moves yet."""

import numpy as np
import pytest
from test_units import MIXED, on_rails

import ddp
from ddp.interior.measures import gauge, to_powers_of_two
from ddp.interior.scaling import sizes_of_gaps
from dynamics import FunctionDynamics
from tests.ddp.systems import cartpole_step


def cart(states, control=1.0, cost=1.0, costing=4, **changes):
    """A cart-pole's swing-up, by full-space steps, whose numbers are so many times what they are in SI units.

    costing: so many of its states, the first ones, cost anything.
    """
    s, upright, weights = np.ones(4) * states, np.array([0.0, np.pi, 0.0, 0.0]), np.array([0.1, 0.1, 0.01, 0.01])

    def away(x):
        return (x / s - upright)[:costing]

    def running(x, u):
        return cost * (0.5 * (weights[:costing] * away(x)) @ away(x) + 0.005 * (u[0] / control) ** 2)

    system = FunctionDynamics(lambda x, u: s * cartpole_step(x / s, u / control), 4, 1, dt=0.02)
    end = [lambda x, u: 500.0 * cost * (away(x) @ away(x))]
    return ddp.Problem(system, [running], end, np.zeros(4), 100, **changes)


@pytest.mark.parametrize("states", [2.0**10, 2.0**20, 2.0 ** np.array([20.0, 0.0, 20.0, 0.0])], ids=["3", "6", "mixed"])
def test_full_space_steps_need_few_iterations_where_states_are_large(states):
    plain, found = ddp.solve(cart(1.0)), ddp.solve(cart(states))
    assert any(record.full_space for record in found.history)
    assert found.iterations <= 1.5 * plain.iterations
    assert found.cost == pytest.approx(plain.cost, rel=1e-9)


def begun(guess, states, control):
    """A guess for `cart` in its units: at rest, noise of controls, or states with gaps between them."""
    if guess == "rest":
        return None
    rng = np.random.default_rng(0)
    U, X = rng.normal(size=(100, 1)), np.linspace(np.zeros(4), [0.0, np.pi, 0.0, 0.0], 101)
    X[1:] += 0.3 * rng.normal(size=(100, 4))
    return control * U if guess == "noise" else (states * X, control * U)


ORDINARY = 2.0 ** np.array([3.0, 5.0, 2.0, -1.0])
"""Units whose quotients, unlike those of ones, are not left out of traces: so both have the same operations."""


@pytest.mark.parametrize("guess", ["rest", "noise", "gaps"])
@pytest.mark.parametrize(("states", "control", "cost"), [
    (2.0**20, 2.0**-7, 2.0**3), (2.0**-20, 2.0**13, 2.0**-30),
    (2.0 ** np.array([20.0, -15.0, 10.0, -20.0]), 8.0, 2.0**20),
], ids=["large", "small", "mixed"])  # fmt: skip
def test_linear_steps_take_the_same_way_to_the_same_bits_in_any_units(states, control, cost, guess):
    """Units are powers of two: what is measured in them changes nothing, also where nothing moves yet."""
    linear, first = ddp.DDP(step="linear"), (ORDINARY, 8.0, 0.5)
    plain = ddp.solve(cart(*first), linear, begun(guess, *first[:2]))
    found = ddp.solve(cart(states, control, cost), linear, begun(guess, states, control))
    assert plain.converged
    np.testing.assert_array_equal(found.X / states, plain.X / ORDINARY)
    np.testing.assert_array_equal(found.U / control, plain.U / 8.0)
    assert found.iterations == plain.iterations <= 16
    assert found.cost / cost == plain.cost / 0.5


@pytest.mark.parametrize("states", [2.0**20, 2.0**-20], ids=["large", "small"])
@pytest.mark.parametrize("guess", ["rest", "gaps"])
def test_states_that_cost_nothing_are_measured_by_how_far_controls_move_them(states, guess):
    linear, (plain, found) = ddp.DDP(step="linear"), (cart(units, costing=2) for units in (1.0, states))
    plain = ddp.solve(plain, linear, begun(guess, 1.0, 1.0))
    found = ddp.solve(found, linear, begun(guess, states, 1.0))
    assert found.iterations <= plain.iterations + 1
    assert found.cost == pytest.approx(plain.cost, rel=1e-9)


@pytest.mark.parametrize("states", [2.0**20, 2.0 ** np.array([20.0, 0.0, 20.0, 0.0])], ids=["large", "mixed"])
def test_linear_steps_within_limits_begin_where_large_states_rest(states):
    linear, limits = ddp.DDP(step="linear"), {"control_limits": (-12.0, 12.0)}
    plain, found = ddp.solve(cart(1.0, **limits), linear), ddp.solve(cart(states, **limits), linear)
    assert found.converged
    assert found.iterations <= 1.5 * plain.iterations  # 640 where gaps of states at rest count as they are
    assert found.cost == pytest.approx(plain.cost, rel=1e-9)


def test_gaps_are_measured_by_what_costs_a_quarter_of_a_guess(rng):
    """By how far states move where they cost nothing; within limits only if that is far from one."""
    X, U = rng.normal(size=(11, 3)), rng.normal(size=(10, 1))
    A, B, costs = np.tile(np.eye(3), (10, 1, 1)), np.ones((10, 3, 1)), rng.normal(size=11)
    weights = 2.0**-20 * rng.random(4)
    weights[1:3] = 50.0, 0.0
    limits = np.full((10, 1), -np.inf), np.full((10, 1), np.inf)
    X[:, 0] = X[0, 0]
    size = sizes_of_gaps(costs, weights, *limits, A, B, X, U, False)
    np.testing.assert_allclose(0.5 * weights[:2] * size[:2] ** 2, 0.25 * np.abs(costs).sum(), rtol=1e-14)
    assert size[2] == np.abs(X[:, 2] - X[0, 2]).max()
    within = sizes_of_gaps(costs, weights, *limits, A, B, X, U, True)
    assert within[:3].tolist() == [size[0], 1.0, 1.0]


@pytest.mark.parametrize("share", [0.3e-6, 3e-6])
def test_states_that_are_still_are_as_large_as_controls_move_them(rng, share):
    """Or by a control what this moves moves; the last one not, as it costs something, though less than a millionth."""
    A, B, costs = rng.normal(size=(9, 3, 3)), rng.normal(size=(9, 3, 1)), rng.normal(size=10)
    B[:, 1] = 0.0
    dear, control, root = 2.0 * np.abs(costs).sum(), 7.0, 3.0
    reach = root * np.abs(B).max(axis=0)[:, 0] * control
    weights = np.array([0.0, 0.0, dear / (2.0 * share * reach[2]) ** 2, dear / (2.0 * control) ** 2])
    limits = np.full((9, 1), -np.inf), np.full((9, 1), np.inf)
    size = sizes_of_gaps(costs, weights, *limits, A, B, np.zeros((10, 3)), np.zeros((9, 1)), False)
    through = root * np.abs(A - np.eye(3)).max(axis=0)[1] @ reach
    own = share * reach[2]
    np.testing.assert_allclose(size, [reach[0], through, own, control], rtol=1e-13)
    costly = np.concatenate([np.full(2, 1.0), weights[2:]])  # then nothing is still
    found = sizes_of_gaps(costs, costly, *limits, A, B, np.zeros((10, 3)), np.zeros((9, 1)), False)
    np.testing.assert_allclose(found, [0.5 * dear**0.5] * 2 + [own, control], rtol=1e-13)


def test_units_of_gaps_and_of_states_midway_between_powers_of_two_double_with_them():
    size = 2.0**0.5 * 2.0 ** np.arange(7.0, 11.0)
    factors = np.empty((1, 4))
    assert gauge(size, factors)
    assert (factors[0, :-1] == 2.0 * factors[0, 1:]).all()
    to_powers_of_two(size)
    assert (factors[0] == 1.0 / size).all()


@pytest.mark.parametrize("states", [1.0, 2.0**20], ids=["one", "large"])
def test_batches_measure_gaps_as_single_solves_do(states):
    problem, begin = cart(states), states * 0.1 * np.random.default_rng(0).normal(size=(9, 4))
    found = ddp.Batch(problem, 9).solve({"x0": begin})
    alone = [ddp.solve(problem.starting_at(x0)) for x0 in begin]
    assert sum(one.history[0].full_space for one in alone) == 9
    assert found.iterations.tolist() == [one.iterations for one in alone]
    np.testing.assert_allclose(found.cost, [one.cost for one in alone], rtol=1e-12)


@pytest.mark.parametrize("build", [on_rails, cart])
@pytest.mark.parametrize("states", [1.0, 2.0**20, MIXED])
def test_records_tell_gaps_in_units_of_states(build, states):
    problem, told = build(states=states), list[tuple[float, float]]()

    class Watching:
        def watch(self, record, X, U):
            after = np.array([problem.dynamics.step(*knot) for knot in zip(X[:-1], U, range(len(U)), strict=True)])
            told.append((record.gap, np.abs(after - X[1:]).max()))

    ddp.solve(problem, callback=Watching())
    record, found = np.array(told).T
    assert found.max() > 1e-3 * np.max(states)
    np.testing.assert_allclose(record, found, rtol=1e-6, atol=1e-9 * np.max(states))
