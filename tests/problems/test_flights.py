"""Motions flown from random errors: the solver's own gains where errors are small, and solves where they are not."""

from dataclasses import replace

import numpy as np
import pytest
from thorough import cases

import ddp
from dynamics import RobotDynamics
from problems import examples, flights, pendulum, quadrotor


def by_policy(outcomes):
    return {outcome.policy: outcome for outcome in outcomes}


def test_a_loop_is_flown_at_the_least_cost_by_the_solver_s_own_gains():
    found = by_policy(examples.fly_loop())
    assert [found[name].successes for name in ("solver", "tracking", "replanned")] == [10, 10, 10]
    assert found["solver"].costs.max() < 1.01 < np.median(found["tracking"].costs)
    assert "10 of 10" in str(found["solver"])


def test_legs_turn_a_heavier_base_from_two_degrees_by_gains():
    count = cases(10, 4)
    found = by_policy(examples.turn_in_the_air(count))
    assert found["solver"].successes >= found["tracking"].successes == count
    assert found["priced"].successes == count
    assert np.median(found["solver"].errors) < 0.2 * np.median(found["tracking"].errors)


def test_legs_turn_a_heavier_base_from_twenty_degrees_by_solves_alone():
    count = cases(10, 4)
    found = by_policy(examples.turn_in_the_air(count, angle=np.deg2rad(20.0)))
    assert found["replanned"].successes == count
    assert found["tracking"].successes < count / 2
    assert found["solver"].successes < count / 2
    assert found["priced"].successes > found["tracking"].successes


def test_starts_are_turned_within_the_angle():
    problem = quadrotor.loop()
    starts = flights.tilted(problem, 50, 0.3)
    moved = problem.dynamics.difference(np.tile(problem.x0, (50, 1)), starts)
    angles = np.linalg.norm(moved[:, 3:6], axis=1)
    assert 0.25 < angles.max() < 0.3
    assert np.abs(np.delete(moved, [3, 4, 5], axis=1)).max() == 0.0


def test_flights_keep_the_friction_and_the_limits_of_their_system(monkeypatch):
    class PlannedError(Exception):
        pass

    def solve(problem):
        raise PlannedError(problem.dynamics)

    plain = quadrotor.loop()
    robot, S = plain.dynamics.robot, plain.dynamics.actuation
    given = RobotDynamics(robot, 0.02, S, damping=True, control_limits=[[0.0, 9.0]] * 4)
    monkeypatch.setattr(flights, "solve", solve)
    with pytest.raises(PlannedError) as planned:
        flights.fly_all(replace(plain, dynamics=given), count=1)
    (system,) = planned.value.args
    assert (system.damping, system.springs) == (True, given.springs)
    assert np.array_equal(system.control_limits, given.control_limits)


@pytest.mark.parametrize(("given", "words"), [
    ({"problem": 3}, "problem: expected a Problem"),
    ({"problem": pendulum.swing_up()}, "problem: expected one of a robot with a floating base"),
    ({"count": 0}, "count: expected a whole number of at least 1"),
    ({"angle": 4.0}, "angle: expected less than half a turn"),
    ({"mass": 0.0}, "mass: expected a positive number"),
])  # fmt: skip
def test_bad_flights_are_refused(given, words):
    with pytest.raises(ddp.ProblemError, match=words):
        flights.fly_all(**({"problem": quadrotor.loop(), "count": 1} | given))
