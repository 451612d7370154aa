"""Motions that come sooner as a whole, see travel.py: oracles are rollouts, and the same motion moved."""

from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest

import ddp
from ddp.interior import method
from ddp.interior.memory import POINT
from ddp.interior.point import Point
from ddp.interior.travel import Moves, travel, worth_of
from ddp.parallel.workers import Workers, differentiator
from problems import pendulum
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
    with differentiator(problem, Workers(1)) as work:
        point = Point(problem, work, X, U, 1.0, 1e-6)
        point.differentiate()
        point.adjoint()
        point.arrive()
        point.propose(0.0, 0.0, False)
        yield point


def late(problem):
    """A motion that waits for `WAITS` knots and then is the best of those with so many fewer."""
    solution = ddp.solve(resting(problem.horizon - WAITS))
    X = np.concatenate([np.repeat(solution.X[:1], WAITS, axis=0), solution.X])
    return X, np.concatenate([np.zeros((WAITS, 1)), solution.U])


def test_a_motion_that_waits_comes_sooner_and_leaves_little_open():
    problem = resting()
    X, U = late(problem)
    with swept(problem, X, U) as point:
        before, cost = worth_of(point), point.cost
        knots = travel(point)
        assert 1 <= knots <= problem.horizon // 4
        assert worth_of(point) < before
        assert point.cost < cost
        gaps = problem.dynamics.difference(point.X[1:], problem.dynamics.step(point.X[:-1], point.U))
        np.testing.assert_allclose(point.gaps, gaps, atol=1e-12)  # of rounding
        assert point.theta <= 0.1
        moved = np.abs(problem.dynamics.difference(point.X[:-knots], X[knots:])).max()
        assert moved < 0.1 * np.abs(problem.dynamics.difference(point.X, X)).max()


@pytest.mark.parametrize("name", ["nominal_control", "track"])
def test_a_motion_stays_where_a_users_own_code_fails_at_states_that_steps_have_not_come_to(name, monkeypatch):
    problem = resting()

    def fails(*_):
        raise ValueError("not defined there")

    with swept(problem, *late(problem)) as point:
        kept, worth = {name: point.place.own[name].copy() for name in POINT}, worth_of(point)
        monkeypatch.setattr(type(problem.dynamics), name, fails)
        assert travel(point) == 0
        assert worth_of(point) == worth
        for name, array in kept.items():
            np.testing.assert_array_equal(point.place.own[name], array, name)


def test_a_motion_that_does_not_come_sooner_stays_as_it_was_to_the_bit():
    problem = resting()
    solution = ddp.solve(problem)
    with swept(problem, solution.X, solution.U) as point:
        kept = {name: point.place.own[name].copy() for name in POINT}
        state, worth = point.bounds.state.copy(), worth_of(point)
        assert travel(point) == 0
        assert worth_of(point) == worth
        np.testing.assert_array_equal(point.bounds.state, state)
        for name, array in kept.items():
            np.testing.assert_array_equal(point.place.own[name], array, name)


def test_multipliers_of_knots_move_with_them_and_those_of_the_end_stay():
    problem = resting()
    with swept(problem, *late(problem)) as point:
        costate, nu = point.costate.copy(), point.bounds.equal[: point.first].copy()
        Moves(point).to(WAITS)
        np.testing.assert_array_equal(point.costate[:-WAITS], costate[WAITS:])
        np.testing.assert_array_equal(point.bounds.equal[: point.first], nu)


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


@pytest.mark.parametrize("name", ["altro/pendulum", "acrobot/limited"])
def test_swing_ups_take_no_more_iterations_than_their_bars(name):
    case = CASES[name]
    problem = case.build()
    solver = replace(published.tolerant(), constraints=None) if name.startswith("altro/") else ddp.DDP()
    for guess in limited.starts(problem, case.count, case.sigma):
        assert ddp.solve(problem, solver, guess).iterations <= case.most
