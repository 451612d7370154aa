"""Motions that come sooner as a whole, see travel.py: oracles are rollouts, and the same motion moved."""

from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

import ddp
from ddp.interior import method
from ddp.interior.memory import POINT
from ddp.interior.point import Point
from ddp.interior.row_steps import BELOW, NU
from ddp.interior.travel import travel
from ddp.parallel.workers import Workers, differentiator
from problems import cartpole, pendulum
from problems.constraints import StateEquality
from tests.benchmarks.optimisers import limited, published
from tests.benchmarks.optimisers.cases import CASES

WAITS = 20


def resting(horizon=100):
    """A pendulum that starts and ends at rest, with torques that lift it at once."""
    plain = pendulum.swing_up(horizon=horizon)
    end = StateEquality(plain.dynamics, np.array([np.pi, 0.0]))
    return replace(plain, terminal=[], terminal_constraints=[end], control_limits=(-8.0, 8.0))


@contextmanager
def swept(problem, X, U):
    """The point of a motion after one sweep, with the multipliers of its step."""
    with np.errstate(all="ignore"), differentiator(problem, Workers(1)) as work:  # as solves do
        point = Point(problem, work, X, U, 1.0, 1e-6)
        point.differentiate()
        point.adjoint()
        point.arrive()
        point.propose(0.0, 0.0, False)
        yield point


def aiming(horizon=100):
    """A pendulum like that whose end costs, so that nothing but its torques is limited."""
    return replace(pendulum.swing_up(horizon=horizon), control_limits=(-8.0, 8.0))


def late(problem, build=resting):
    """A motion that waits for `WAITS` knots and then is the best of those with so many fewer."""
    solution = ddp.solve(build(problem.horizon - WAITS))
    X = np.concatenate([np.repeat(solution.X[:1], WAITS, axis=0), solution.X])
    return X, np.concatenate([np.zeros((WAITS, 1)), solution.U])


def worth_of(point):
    """Cost, barrier, and what is open at the price of its multipliers."""
    priced = np.abs(point.weights * point.gaps).sum() + np.abs(point.bounds.multipliers * point.residual).sum()
    return point.cost + point.penalty + priced


def arrays_of(point):
    """Copies of all that a point and its rows have, and of its policy."""
    own, (k, K) = point.place.own, point.backward.policy
    return {name: own[name].copy() for name in POINT} | {"rows": point.bounds.state.copy(), "k": k * 1.0, "K": K * 1.0}


@pytest.mark.parametrize("build", [resting, aiming])
def test_a_motion_that_waits_comes_sooner_and_follows_from_its_controls(build):
    problem = build()
    X, U = late(problem, build)
    with swept(problem, X, U) as point:
        before, cost = worth_of(point), point.cost
        knots = travel(point)
        assert 1 <= knots <= problem.horizon // 4
        assert worth_of(point) < before
        assert point.cost < cost
        np.testing.assert_allclose(point.cost, problem.cost(point.X, point.U), rtol=1e-12)  # of rounding
        np.testing.assert_allclose(point.X, problem.dynamics.rollout(problem.x0, point.U), atol=1e-9)  # grown rounding
        assert not point.gaps.any()
        assert point.theta <= 0.1
        np.testing.assert_array_equal(point.U, np.clip(point.U, problem.lower, problem.upper))
        moved = np.abs(problem.dynamics.difference(point.X[:-knots], X[knots:])).max()
        assert moved < 0.1 * np.abs(problem.dynamics.difference(point.X, X)).max()


@pytest.mark.parametrize("soft", [False, True])
def test_slacks_keep_within_bounds_and_say_what_rows_miss_where_a_motion_has_come_sooner(soft):
    plain = resting()
    slow = ddp.Inequality(lambda x, u: x[1], lower=-30.0, upper=30.0)
    problem = replace(plain, constraints=[ddp.Soft(slow, 10.0) if soft else slow])
    with swept(problem, *late(plain)) as point:
        assert travel(point) > 0
        b = point.bounds
        assert ((b.slacks > b.lower) & (b.slacks < b.upper))[b.bounded].all()
        assert (b.state[BELOW:NU, b.bounded] > 0.0).all()
        np.testing.assert_array_equal(b.slacks[point.first :], point.U.ravel())
        np.testing.assert_array_equal(np.where(b.soft, 0.0, b.missed(point.values())), point.residual)


def test_a_motion_stays_where_no_control_is_known_that_holds_its_end(monkeypatch):
    problem = resting()

    def fails(*_):
        raise ValueError("not defined there")

    with swept(problem, *late(problem)) as point:
        kept, worth = arrays_of(point), worth_of(point)
        monkeypatch.setattr(type(problem.dynamics), "nominal_control", fails)
        assert travel(point) == 0
        assert worth_of(point) == worth
        for name, array in arrays_of(point).items():
            np.testing.assert_array_equal(array, kept[name], name)


@pytest.mark.parametrize("call", [1, 2, 3, 4, 5, 6, 7])
def test_a_motion_stays_where_a_users_own_code_fails_at_states_that_steps_have_not_come_to(call):
    plain, left = resting(), [np.inf]

    class Own:
        def values(self, X, U):
            left[0] -= 1
            if left[0] == 0:
                raise ValueError("not defined there")
            return np.zeros(len(X))

        def expand(self, X, U, weight, exact, l, lz, lzz):
            pass

    problem = replace(plain, running=[*plain.running, Own()])
    with swept(problem, *late(plain)) as point:
        kept, worth = arrays_of(point), worth_of(point)
        left[0] = call
        assert travel(point) == 0
        assert left[0] <= 0
        left[0] = np.inf
        assert worth_of(point) == worth
        for name, array in arrays_of(point).items():
            np.testing.assert_array_equal(array, kept[name], name)
        assert travel(point) > 0


def test_a_motion_that_does_not_come_sooner_stays_as_it_was_to_the_bit():
    problem = resting()
    solution = ddp.solve(problem)
    with swept(problem, solution.X, solution.U) as point:
        kept, worth = arrays_of(point), worth_of(point)
        assert travel(point) == 0
        assert worth_of(point) == worth
        for name, array in arrays_of(point).items():
            np.testing.assert_array_equal(array, kept[name], name)


def test_multipliers_of_knots_move_with_them_and_those_of_the_end_stay():
    problem = resting()
    with swept(problem, *late(problem)) as point:
        costate, weights, first = point.costate.copy(), point.weights.copy(), point.first
        state = point.bounds.state[BELOW:].copy()
        knots = travel(point)
        moved = point.bounds.state[BELOW:]
        np.testing.assert_array_equal(point.costate, costate[np.minimum(np.arange(101) + knots, 100)])
        np.testing.assert_array_equal(point.weights, weights[np.minimum(np.arange(100) + knots, 99)])
        np.testing.assert_array_equal(moved[:, :first], state[:, :first])
        np.testing.assert_array_equal(moved[:, first:], state[:, first + np.minimum(np.arange(100) + knots, 99)])


def test_multipliers_of_a_path_move_with_its_knots_but_for_the_first_and_the_last(rng):
    """No control changes the first row, which is not bounded; the last one is of the end, which stays where it is."""
    plain = resting()
    slow = ddp.Inequality(lambda x, u: x[1], lower=-30.0, upper=30.0)
    with swept(replace(plain, constraints=[slow]), *late(plain)) as point:
        state = point.bounds.state
        state[BELOW:] *= rng.uniform(1.0, 1.1, size=state[BELOW:].shape)
        before = state[BELOW:, :101].copy()
        knots = travel(point)
        assert knots > 0
        later = np.minimum(np.arange(101) + knots, 99)
        later[[0, 100]] = 0, 100
        np.testing.assert_array_equal(state[BELOW:, :101], before[:, later])


def test_a_motion_is_asked_to_come_sooner_after_steps_alone_that_hardly_change_its_cost(monkeypatch):
    """The first full step of an inexact Hessian that leaves little open lowers this cost to a third: none is asked."""
    asked = []
    monkeypatch.setattr(method, "travel", lambda point: asked.append(point.cost))
    solution = ddp.solve(published.cartpole(), ddp.DDP(step="linear"))
    costs = [record.cost for record in solution.history]
    brought = [costs[max(k - 1, 0)] - costs[k] for k in map(costs.index, asked)]
    assert len(asked) > 1
    assert (np.array(brought) < 0.1 * np.abs(asked)).all()


class Watched:
    """Records of full-space steps, with what the iterates that are shown with them cost and miss."""

    def __init__(self, problem):
        self.problem, self.told, self.found = problem, [], []

    def watch(self, record, X, U):
        if record.full_space:
            self.told.append((record.cost, record.violation))
            self.found.append((self.problem.total(X, U), self.problem.violation(X, U)))


def test_records_tell_what_a_motion_costs_and_misses_that_has_come_sooner(monkeypatch):
    problem, sooner = published.pendulum(), []
    monkeypatch.setattr(method, "travel", lambda point: sooner.append(travel(point)) or sooner[-1])
    watched = Watched(problem)
    assert ddp.solve(problem, replace(published.tolerant(), constraints=None), callback=watched).converged
    assert max(sooner) >= 4
    np.testing.assert_allclose(watched.told, watched.found, rtol=1e-12, atol=1e-12)  # of rounding


@pytest.mark.parametrize("limit", [8.0, 15.0])
def test_swing_ups_within_limits_of_controls_alone_take_fewer_iterations_to_the_same_minimum(limit, monkeypatch):
    problem = replace(cartpole.swing_up(), control_limits=(-limit, limit))
    moved = ddp.solve(problem)
    monkeypatch.setattr(method, "travel", lambda point: 0)
    stays = ddp.solve(problem)
    assert moved.iterations <= 0.75 * stays.iterations
    assert moved.history[-1].full_space
    assert abs(moved.cost - stays.cost) <= 1e-8 * stays.cost


@pytest.mark.parametrize("name", ["altro/pendulum", "acrobot/limited"])
def test_swing_ups_take_no_more_iterations_than_their_bars(name):
    case = CASES[name]
    problem = case.build()
    solver = replace(published.tolerant(), constraints=None) if name.startswith("altro/") else ddp.DDP()
    for guess in limited.starts(problem, case.count, case.sigma):
        assert ddp.solve(problem, solver, guess).iterations <= case.most
