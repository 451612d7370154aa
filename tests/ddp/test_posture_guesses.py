"""Guesses of a problem's own: ends that a motion may have, by the arrival cost of a linear-quadratic model."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import ddp
from ddp import posture_guesses
from ddp.posture_guesses import Ends, own_guesses, straight
from ddp.starts import begun, start_policy
from dynamics import FunctionDynamics, RobotDynamics, load
from problems import arm, cartpole
from problems.constraints import JointLimits
from problems.costs import ControlCost, FramePosition, StateCost
from problems.obstacles import Sphere, SphereClearance


def reach(turned=(0.0, 2.0, -2.2, 0.0, 0.0, 0.0)):
    """A UR3 whose tool is to be where it is with joints turned; several postures reach it."""
    robot = load("ur3")
    system, rest = RobotDynamics(robot, 0.02), np.concatenate([robot.q0, np.zeros(6)])
    target = arm._pose(robot, "tool0", robot.q0 + turned).translation
    running = [ControlCost(system.nominal_control(rest), 1e-3), StateCost(system, rest, np.full(12, 0.05))]
    end = [FramePosition(robot, "tool0", target, 1e3), StateCost(system, rest, np.r_[np.zeros(6), np.full(6, 10.0)])]
    return ddp.Problem(system, running, end, rest, 50)


def linear():
    """A linear system with quadratic costs about other states and controls than zero, and where it drifts."""
    random = np.random.default_rng(3)
    A, B = np.eye(3) + 0.2 * random.normal(size=(3, 3)), random.normal(size=(3, 2))
    system = FunctionDynamics(lambda x, u: A @ x + B @ u + np.array([0.1, -0.2, 0.3]), 3, 2)
    state, control = StateCost(system, [0.3, -0.1, 0.5], [0.5, 0.2, 0.1]), ControlCost([0.4, -0.3], [1.0, 2.0])
    return ddp.Problem(system, [state, control], [], np.array([0.2, -0.4, 0.1]), 11)


def test_arrival_costs_of_linear_systems_are_those_of_the_best_motions_there():
    """Two ends differ by as much as least squares over all controls say."""
    problem = linear()
    system, N, (m, L) = problem.dynamics, problem.horizon, (part[0] for part in posture_guesses._arrival([problem]))

    def motion(u):
        X = system.rollout(problem.x0, u.reshape(N, 2))
        return X[-1], problem.cost(X, u.reshape(N, 2))

    zero, unit = np.zeros(2 * N), np.eye(2 * N)
    end, base = motion(zero)
    ends = np.array([motion(e)[0] - end for e in unit]).T
    plus = np.array([motion(e)[1] for e in unit])
    H = np.array([[motion(a + b)[1] for b in unit] for a in unit]) - plus[:, None] - plus[None] + base
    g = plus - base - 0.5 * np.diag(H)

    def arriving(x):
        kkt = np.block([[H, ends.T], [ends, np.zeros((3, 3))]])
        return motion(np.linalg.solve(kkt, np.concatenate([-g, x - end]))[: 2 * N])[1]

    def estimate(x):
        y = np.linalg.solve(L, x - problem.x0 - m[0])
        return 0.5 * y @ y

    random = np.random.default_rng(0)
    least = arriving(problem.x0 + m[0])
    for _ in range(5):
        x = random.normal(size=3)
        np.testing.assert_allclose(estimate(x), arriving(x) - least, rtol=1e-9)


def test_minima_of_estimates_reach_the_target_in_different_postures():
    problem = reach()
    ends = Ends(problem).found()[0]
    at = np.array([problem.values(np.tile(x, (51, 1)), np.zeros((50, 6)))[-1] for x in ends])
    here = problem.values(np.tile(problem.x0, (51, 1)), np.zeros((50, 6)))[-1]
    assert len(ends) >= 3
    assert (at < 0.01 * here).sum() >= 3
    apart = np.abs(ends[:, None] - ends[None]).max(axis=2) + 10.0 * np.eye(len(ends))
    assert apart.min() > 0.05


def test_straight_ways_are_motions_that_rest_at_both_ends():
    """But for errors of a step."""
    problem = reach()
    (way,) = straight([problem], Ends(problem).found()[0][:1])
    gaps = problem.dynamics.difference(way.X[1:], problem.dynamics.step(way.X[:-1], way.U))
    assert np.abs(gaps[:, 6:]).max() < 1e-3
    assert np.abs(gaps[:, :6]).max() < 0.02 * np.abs(np.diff(way.X[:, :6], axis=0)).max() + 2e-3
    assert np.abs(way.X[[0, -1], 6:]).max() < 0.02 * np.abs(way.X[:, 6:]).max()


def test_ends_are_the_same_whichever_other_problems_are_searched_at_once():
    problems = [reach(), reach((0.5, -1.0, 2.0, 0.0, 1.0, 0.0)), reach((1.0, 1.0, -1.0, 0.5, 0.0, 0.0))]
    for one, found in zip(problems, Ends(*problems).found(), strict=True):
        np.testing.assert_array_equal(found, Ends(one).found()[0])


def test_straight_ways_are_the_same_whichever_others_are_made_at_once():
    problems = [reach(), reach((0.5, -1.0, 2.0, 0.0, 1.0, 0.0)), replace(reach(), control_limits=(-1.0, 1.0))]
    ends = np.array([Ends(one).found(1)[0][0] for one in problems])
    for i, way in enumerate(straight(problems, ends, 4)):
        (alone,) = straight(problems[i : i + 1], ends[i : i + 1], 4)
        assert way.cost == alone.cost
        np.testing.assert_array_equal(way.U, alone.U)
        for found, expected in zip(vars(way.kept()).values(), vars(alone.kept()).values(), strict=True):
            np.testing.assert_array_equal(found, expected)
        np.testing.assert_allclose(way.kept().U, way.U, rtol=0, atol=1e-9 * np.abs(way.U).max())


def test_gains_of_straight_ways_keep_to_them():
    problem = reach()
    for way in straight([problem, problem], Ends(problem).found(2)[0], 4):
        kept, alone = (start_policy(problem, guess) for guess in (way.kept(), way.U))
        kept, alone = (np.abs(begun(problem, policy).X - way.X)[:, :6].max() for policy in (kept, alone))
        assert kept < 0.5 * alone


@pytest.mark.parametrize("unit", [2.0**-30, 2.0**30])
def test_straight_ways_are_the_same_in_other_units_of_controls(unit):
    plain = reach()
    ends, robot = Ends(plain).found(1)[0], plain.dynamics.robot
    other = ddp.Problem(RobotDynamics(robot, plain.dynamics.dt, unit * np.eye(6)), [], [], plain.x0, plain.horizon)
    plain = replace(plain, running=[], terminal=[])
    way, found = (straight([problem], ends)[0].kept() for problem in (plain, other))
    assert np.array_equal(found.X, way.X)
    np.testing.assert_allclose(unit * found.U, way.U, rtol=0, atol=1e-9 * np.abs(way.U).max())
    np.testing.assert_allclose(unit * found.K, way.K, rtol=0, atol=1e-9 * np.abs(way.K).max())


def test_hard_constraints_of_the_end_hold_at_the_ends_that_are_found():
    free = reach()
    first = Ends(free).found()[0][0]
    turned = int(np.abs(first[:6] - free.x0[:6]).argmax())
    lower, upper = np.full(6, -20.0), np.full(6, 20.0)
    half = 0.5 * (first + free.x0)[turned]
    (upper if first[turned] > half else lower)[turned] = half
    bounded = Ends(replace(free, constraints=[JointLimits(free.dynamics.robot, lower, upper)])).found()[0][0]
    assert lower[turned] - 0.05 < bounded[turned] < upper[turned] + 0.05


def test_own_guesses_are_always_the_same_and_begin_with_the_default():
    problem = reach()
    guesses, again = own_guesses(problem, 6), own_guesses(reach(), 6)
    assert guesses[0] is None is again[0]
    assert len(guesses) == 6
    for one, other in zip(guesses[1:], again[1:], strict=True):
        np.testing.assert_array_equal(one[0], other[0])
        np.testing.assert_array_equal(one[1], other[1])
        np.testing.assert_array_equal(one[0][0], problem.x0)
    for count in (1, 2, 4):
        for one, other in zip(own_guesses(problem, count)[1:3], guesses[1:3], strict=False):
            np.testing.assert_array_equal(one[0], other[0])
    ends = {tuple(np.round(one[0][-1], 3)) for one in guesses[1:]}
    assert len(ends) == 5


def test_own_guesses_find_no_dearer_optima_and_often_cheaper_ones():
    cheaper, random = 0, np.random.default_rng(8)
    for _ in range(8):
        problem = reach(random.uniform(-2.0, 2.0, 6))
        rest = np.tile(problem.dynamics.nominal_control(problem.x0), (problem.horizon, 1))
        alone, found = ddp.solve(problem, guess=rest), ddp.solve_best(problem, 4, executor=1)
        assert found.best.converged
        assert found.best.cost <= alone.cost * (1.0 + 1e-9)
        assert sum(len(one.guesses) for one in found.optima) + len(found.failures) == 4
        cheaper += found.best.cost < 0.95 * alone.cost
    assert cheaper >= 2


def test_a_reach_whose_default_is_dear_has_a_much_cheaper_optimum_within_four_guesses():
    turned = arm.reach("ur5").x0[:6] + np.array([1.8, -1.2, 1.3, -1.4, 0.1, -1.5])
    found = ddp.solve_best(arm.reach("ur5", arm._pose(load("ur5"), "tool0", turned)), 4, executor=1)
    assert str(found) == "3 optima: 0.9006 from 2, 1.0563 from 1, 2.6623 from 1"


def test_optima_from_own_guesses_are_the_same_whoever_solves():
    problem = reach()
    alone = ddp.solve_best(problem, 5, executor=1)
    with ThreadPoolExecutor(2) as threads:
        shared = ddp.solve_best(problem, 5, executor=threads)
    assert str(alone) == str(shared)
    for one, other in zip(alone.optima, shared.optima, strict=True):
        np.testing.assert_array_equal(one.solution.X, other.solution.X)


def test_own_guesses_go_around_obstacles():
    free = reach()
    robot, end = free.dynamics.robot, Ends(free).found()[0][0]
    at = arm._pose(robot, "tool0", 0.5 * (free.x0[:6] + end[:6])).translation
    problem = replace(free, constraints=[SphereClearance(robot, "tool0", 0.01, [Sphere(at, 0.06)])])
    X, _ = own_guesses(problem, 2)[1]
    (way,) = straight([problem], X[-1:])
    assert problem.violation(way.X, way.U) > 0.01
    assert problem.violation(X, way.U) < 1e-5
    assert ddp.solve_best(problem, 3, executor=1).best.violation < 1e-6


def test_any_problem_has_own_guesses():
    """Underactuated ones, those with one end, and those whose functions fail away from x0."""
    assert len(own_guesses(cartpole.swing_up(), 5)) == 5
    assert len(own_guesses(linear(), 4)) == 4

    def narrow(x, u):
        if abs(x[0]) > 0.5:
            raise ValueError("too far")
        return x + u

    system = FunctionDynamics(narrow, 1, 1, derivatives="differences")
    running, end = ControlCost([0.0], [1.0]), StateCost(system, [0.4], [1.0])
    problem = ddp.Problem(system, [running], [end], np.zeros(1), 3)
    assert ddp.solve_best(problem, 3, executor=1).best.converged


@pytest.mark.parametrize("gain", [-5.0, -1e4])
@pytest.mark.parametrize("place", ["running", "terminal"])
def test_own_guesses_are_as_many_where_costs_are_negative(place, gain):
    problem = reach()
    paid = replace(problem, **{place: [*getattr(problem, place), lambda x, u: gain]})
    assert len(own_guesses(paid, 4)) == 4
    assert len(Ends(paid).found()[0]) >= 3


def test_ends_without_a_cost_do_not_hide_the_others(monkeypatch):
    ends = Ends(reach()).found()[0]
    first, *others = straight([reach()] * len(ends), ends)
    found = [first._replace(cost=np.nan), *others]
    monkeypatch.setattr("ddp.posture_guesses.straight", lambda problems, ends: found)
    assert len(own_guesses(reach(), 4)) == 4


def test_guesses_that_cannot_be_made_are_told(monkeypatch, caplog):
    def fails(problem):
        raise ValueError("too far")

    monkeypatch.setattr("ddp.posture_guesses.Ends", fails)
    assert ddp.solve_best(cartpole.swing_up(), 3, executor=1).best.converged
    assert "guesses: a function of the problem fails elsewhere: 1 of 3 made" in caplog.text


@pytest.mark.parametrize("count", [0, -2, True])
def test_numbers_of_guesses_are_checked(count):
    with pytest.raises(ddp.ProblemError, match="guesses: expected a whole number of at least 1"):
        ddp.solve_best(cartpole.swing_up(), count)
