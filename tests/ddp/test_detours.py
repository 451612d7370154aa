"""Detours of states: guesses around what the straight way to a motion's end violates."""

import numpy as np
import pytest

import ddp
from ddp.constraints.detours import detour
from dynamics import ContinuousDynamics
from problems import quadrotor
from problems.costs import ControlCost, StateCost
from problems.obstacles import Sphere, SphereClearance
from tests.benchmarks.optimisers import limited

END = np.array([3.0, 0.0, 0.0, 0.0])


def mass(centre, unit=1.0, fails=False):
    """A point that is pushed in a plane, in numbers of 1/unit m, and has to go around discs that stand in a row."""
    discs = np.array([(centre[0], centre[1] + 0.9 * k, 0.5) for k in (-1, 0, 1)]) * unit

    def clear(x, u):
        if fails and x[1] != 0.0:
            raise ValueError("outside of what is known")
        return discs[:, 2] ** 2 - ((x[:2] - discs[:, :2]) ** 2).sum(axis=1)

    per = unit**-2.0
    system = ContinuousDynamics(lambda x, u: np.concatenate([x[2:], u]), nx=4, nu=2, dt=0.05, integrator="rk4")
    return ddp.Problem(
        system,
        [StateCost(system, unit * END, np.full(4, 0.01 * per)), ControlCost(np.zeros(2), np.full(2, 0.1 * per))],
        [], np.zeros(4), 100, control_limits=(-3.0 * unit, 3.0 * unit), constraints=[ddp.Inequality(clear, upper=0.0)],
        terminal_constraints=[ddp.Equality(lambda x, u: x - unit * END)],
    )  # fmt: skip


@pytest.mark.parametrize("unit", [1.0, 1e3])
def test_a_point_goes_around_a_row_of_discs_in_any_unit(unit):
    problem = mass((1.5, 0.01), unit)
    solution = ddp.solve(problem)
    assert solution.converged
    assert solution.iterations <= 80
    assert np.abs(solution.X[:, 1]).max() > unit  # past the outer disc


def test_a_detour_violates_less_than_the_straight_way_and_ends_where_constraints_ask_for():
    problem = mass((1.5, 0.01))
    (X, U), _ = detour(problem, np.array([0.5, 0.4, 1.0, -1.0]))
    (again, _), _ = detour(problem, np.array([0.5, 0.4, 1.0, -1.0]))
    np.testing.assert_array_equal(X, again)
    np.testing.assert_array_equal(X[0], problem.x0)
    np.testing.assert_allclose(X[-1], END, atol=1e-6)
    np.testing.assert_allclose(X[:, 2:], 0.0, atol=1e-6)  # discs know nothing of speeds
    straight = END * np.linspace(0.0, 1.0, 101)[:, None]
    assert problem.violation(X, U) < 1e-6 < problem.violation(straight, U)


def test_there_is_no_detour_where_the_straight_way_is_clear_or_nothing_is_known_beside_it():
    assert detour(mass((1.5, 5.0)), END) == (None, False)
    assert detour(mass((1.5, 0.01), fails=True), END) == (None, True)
    assert detour(mass((1.5, 0.01)), np.full(4, np.nan)) == (None, False)


def test_rollouts_come_first_where_no_bump_helps():
    problem = limited.gait("trot")
    U = problem.guess[1]
    noise = 0.1 * (np.abs(U).max() + 1.0) * np.random.default_rng(3).normal(size=U.shape)
    solution = ddp.solve(problem, guess=U + noise)
    assert solution.iterations <= 140  # 280 with full-space steps first
    assert solution.cost == pytest.approx(ddp.solve(problem).cost, rel=1e-6)


def test_detours_of_a_flying_body_keep_to_its_manifold_and_bend_its_place_alone():
    system = quadrotor.loop().dynamics
    robot = system.robot
    x0 = np.concatenate([robot.neutral(), np.zeros(6)])
    end, hover = x0.copy(), system.nominal_control(x0)
    end[:3] = [3.0, 0.2, 0.1]
    clear = SphereClearance(robot, robot.joint_names[0], 0.2, [Sphere([1.5, 0.0, 0.1], 0.5)])
    problem = ddp.Problem(
        system, [ControlCost(hover, np.full(4, 0.1))], [StateCost(system, end, np.full(12, 100.0))], x0, 60,
        constraints=[clear],
    )  # fmt: skip
    (X, U), _ = detour(problem, end)
    assert problem.violation(X, U) < 1e-6
    system.check_state("X", X)
    np.testing.assert_allclose(X[:, 3:], np.tile(x0[3:], (61, 1)), atol=1e-12)
