"""Second starts: reaches whose joints turn far are solved once more from a straight way to the cheapest end.

Motions that stay at rest, as no control changes the cost to first order, are left by random controls.
"""

from dataclasses import replace

import numpy as np
import pytest

import ddp
from ddp import DDP
from ddp.solutions.explanation import WOUND, may_be_dear
from ddp.starts import MOST
from dynamics import FunctionDynamics, load
from dynamics.steps import routines
from problems import arm
from problems.constraints import JointLimits
from problems.costs import FramePosition, StateCost


def reaches(name, count=12, spread=1.8):
    """Reaches of a robot's tool to where it is after all joints have turned at random: positions, and poses."""
    robot, rng, found = load(name), np.random.default_rng(0), []
    for i in range(count):
        turned = robot.q0 + rng.uniform(-spread, spread, robot.nv)
        one = arm.reach(robot, arm._pose(robot, arm._tool(robot), turned), horizon=40, dt=0.02)
        target, still = one.terminal
        at = FramePosition(robot, target.frame, target.target.translation, 1e3)
        found.append(replace(one, terminal=[at, still]) if i % 2 else one)
    return found


def plain(problem):
    """The default guess, given as controls: it is started from once."""
    return np.tile(problem.dynamics.nominal_control(problem.x0), (problem.horizon, 1))


@pytest.fixture(autouse=True)
def _code_of_all_robots(monkeypatch):
    """Code of a robot's own compiles for seconds, and decides nothing here."""
    monkeypatch.setattr(routines, "MOST", 0)


@pytest.fixture(scope="module")
def solved():
    """Reaches, solved from the default guess and from the same controls."""
    problems = [one for name in ("ur3", "talos_arm") for one in reaches(name)]
    return [(one, ddp.solve(one, guess=plain(one)), ddp.solve(one)) for one in problems]


def test_reaches_end_at_no_dearer_minima_and_many_at_much_cheaper_ones(solved):
    costs = np.array([(once.cost, twice.cost) for _, once, twice in solved])
    assert (costs[:, 1] <= costs[:, 0]).all()
    assert (costs[:, 1] < costs[:, 0] / 1.5).sum() >= 4
    assert all(twice.converged and twice.stationarity() < 1e-5 * max(1.0, twice.cost) for *_, twice in solved)


def test_others_are_solved_as_from_the_same_controls(solved):
    settled = [(once, twice) for one, once, twice in solved if not may_be_dear(once, one)]
    assert len(settled) >= 8
    for once, twice in [*settled, *((ddp.solve(one, guess=plain(one)), ddp.solve(one)) for one in beyond())]:
        assert once.iterations == twice.iterations
        np.testing.assert_array_equal(once.X, twice.X)
        np.testing.assert_array_equal(once.K, twice.K)


def beyond():
    """A reach that needs no second start, and two that none helps: too far away, and turned as two joints never are."""
    pendulum = load("double_pendulum")
    turned = arm._pose(pendulum, arm._tool(pendulum), pendulum.q0 + 2.5)
    turned.rotation = turned.rotation @ np.diag([-1.0, 1.0, -1.0])
    return arm.reach(), arm.out_of_reach(), arm.reach(pendulum, turned, horizon=40, dt=0.02)


def test_iterations_of_both_starts_count_and_are_shown_with_costs_of_the_problem_itself(solved):
    for one, once, twice in solved:
        shown = []
        again = ddp.solve(one, callback=shown.append)
        assert (again.iterations, again.cost) == (twice.iterations, twice.cost)
        assert len(shown) == len(again.history) == again.iterations <= MOST * once.iterations
        assert f"after {again.iterations} iterations" in again.status
        assert again.history[-1].cost == again.cost
        assert sorted(record[:-4] for record in shown) == sorted(record[:-4] for record in again.history)
        assert [record.cost for record in shown[: once.iterations]] == [record.cost for record in once.history]
        assert again.cost in [record.cost for record in shown]


class Costs:
    """Watcher: whether costs of records are those of the problem along what is shown."""

    def __init__(self, problem):
        self.problem, self.count = problem, 0

    def watch(self, record, X, U):
        np.testing.assert_allclose(record.cost, self.problem.cost(X, U), rtol=1e-12)
        self.count += 1


def test_watchers_are_shown_both_starts(solved):
    one, once, _ = next(entry for entry in solved if entry[1].iterations < entry[2].iterations)
    watcher = Costs(one)
    assert ddp.solve(one, callback=watcher).iterations == watcher.count > once.iterations


def test_the_limit_of_iterations_is_that_of_both_starts(solved):
    one, once, twice = next(entry for entry in solved if entry[2].cost < 0.9 * entry[1].cost)
    for most in (once.iterations, once.iterations + 2, twice.iterations - 1, twice.iterations):
        found = ddp.solve(one, DDP(max_iterations=most), throw=False)
        assert found.converged
        assert found.iterations <= most
        assert found.cost == (twice.cost if most == twice.iterations else once.cost)


@pytest.mark.parametrize("held", ["limits", "constraints"])
def test_within_limits_and_constraints(held):
    """UR3s whose torques are limited, or whose joints are."""
    cheaper = 0
    for one in reaches("ur3"):
        robot, U = one.dynamics.robot, plain(one)
        most = 2.0 * np.abs(U[0]).max() * np.ones(robot.nv)
        bound = {"control_limits": (-most, most)} if held == "limits" else {"constraints": [JointLimits(robot)]}
        problem = replace(one, **bound)
        once, twice = ddp.solve(problem, guess=U, throw=False), ddp.solve(problem, throw=False)
        assert twice.converged >= once.converged
        assert twice.cost <= once.cost or not once.converged
        assert twice.violation < 1e-6
        cheaper += twice.cost < once.cost / 1.5
    assert cheaper >= 1


def test_solvers_of_many_make_the_same_second_starts():
    problem = reaches("ur5", 1)[0]
    targets = [one.terminal[0].target.homogeneous for one in reaches("ur5", 24)[::2]]  # poses
    over = {"terminal[0].target": np.array(targets)}
    assert ddp.Batch(problem, len(targets)).obstacle == ""
    found, once, again, costs = ddp.Batch(problem, len(targets)).solve(over), 0, 0, []
    for i, target in enumerate(targets):
        sample = problem.varying({"terminal[0].target": target})
        alone = ddp.solve(sample)
        once += ddp.solve(sample, guess=plain(sample)).iterations
        again += alone.iterations
        np.testing.assert_allclose(found.solution(i).cost, alone.cost, rtol=1e-7)
        assert found.solution(i).iterations == alone.iterations
        assert ddp.solve_best(sample, [None]).best.cost == alone.cost
        costs.append((alone.cost, ddp.solve_best(sample, 8, executor=1).best.cost))
    assert again > once
    two, eight = np.sum(costs, axis=0)
    assert two <= 1.02 * eight


def test_joints_that_turn_far_are_told_where_no_second_start_was_made(solved):
    """Constraints or none: the guess was given."""
    one, once, _ = next(entry for entry in solved if may_be_dear(entry[1], entry[0]))
    assert once.explain().advice == WOUND
    limits = JointLimits(one.dynamics.robot, -20.0, 20.0)
    held = ddp.solve(replace(one, constraints=[limits]), guess=(once.X, once.U))
    assert held.explain().advice == WOUND
    assert WOUND not in str(held)
    assert ddp.solve(arm.reach()).explain().advice == ""


def test_second_starts_go_on_where_they_are_cheaper():
    """A reach whose second start is cheaper than the first one's end when it has taken twice as many iterations."""
    one = reaches("ur10", 56, 1.6)[-1]
    once, twice = ddp.solve(one, guess=plain(one)), ddp.solve(one)
    assert twice.cost < once.cost / 1.3
    assert twice.converged
    assert MOST * once.iterations < twice.iterations <= MOST**2 * once.iterations
    both = ddp.Batch(one, 1).solve({"x0": one.x0[None]})
    assert (both.solution(0).cost, both.solution(0).iterations) == (twice.cost, twice.iterations)


def test_rounding_does_not_decide_where_second_starts_lead():
    """Ends are tried along axes of what motions reach, whose signs rounding decides."""
    for one in reaches("ur10", 15)[::2]:
        cost = ddp.solve(one).cost
        for size in (1e-15, 1e-14, 1e-13):
            moved = one.starting_at(one.x0 + size * np.random.default_rng(1).normal(size=one.x0.shape))
            assert ddp.solve(moved).cost == pytest.approx(cost, rel=1e-8)


def car(x, u):
    """Position, heading, speed; steering and acceleration."""
    return x + 0.05 * np.array([x[3] * np.cos(x[2]), x[3] * np.sin(x[2]), x[3] * u[0], u[1]])


def beside(y=1.0, **limits):
    """A car at rest whose place to be is straight to its side."""
    system = FunctionDynamics(car, 4, 2, dt=0.05)
    target = StateCost(system, [0.0, y, 0.0, 0.0], [1e3] * 4)
    return ddp.Problem(system, [lambda x, u: 0.5 * (u @ u)], [target], np.zeros(4), 80, **limits)


def test_a_car_at_rest_is_at_a_minimum_and_not_at_a_saddle():
    """Say so: all eigenvalues of the Hessian in the controls, by differences, are positive."""
    problem = beside()
    still, step = ddp.solve(problem, guess=np.zeros((80, 2))), 1e-3 * np.eye(160)

    def costs(U):
        """Of controls (., 160), all at once."""
        x, U = np.zeros((4, len(U))), U.reshape(-1, 80, 2)
        for t in range(80):
            x = car(x, U[:, t].T)
        away = x.T - [0.0, 1.0, 0.0, 0.0]
        return 0.5 * problem.dynamics.dt * (U**2).sum(axis=(1, 2)) + 500.0 * (away**2).sum(axis=1)

    for U in np.random.default_rng(0).normal(size=(3, 80, 2)):
        assert costs(U.reshape(1, 160))[0] == pytest.approx(problem.cost(problem.dynamics.rollout(problem.x0, U), U))
    H = [costs(step + a) - costs(step - a) - costs(a - step) + costs(-step - a) for a in step]
    assert np.linalg.eigvalsh(0.25e6 * np.array(H)).min() > 0.01
    assert not still.U.any()
    assert (still.converged, still.kind) == (True, "minimum")


@pytest.mark.parametrize("limits", [{}, {"control_limits": ([-1.5, -1.0], [1.5, 1.0])}])
def test_cars_that_stay_at_rest_are_moved(limits):
    problem = beside(**limits)
    still, found = ddp.solve(problem, guess=np.zeros((80, 2))), ddp.solve(problem)
    assert found.converged
    assert found.kind == "minimum"
    assert found.cost < 0.1 * still.cost
    assert found.stationarity() < 1e-5 or limits
    assert found.iterations == len(found.history) > still.iterations
    assert found.explain().advice == ""
    assert (np.abs(found.U) <= [1.5, 1.0]).all() or not limits


def test_solvers_of_many_move_the_same_cars():
    targets = np.array([[0.0, y, 0.0, 0.0] for y in (-1.0, 0.5, 1.0, 2.0)] + [[1.0, 0.5, 0.0, 0.0]])
    batch = ddp.Batch(beside(), len(targets))
    found = batch.solve({"terminal[0].target_x": targets})
    assert batch.obstacle == ""
    for i, target in enumerate(targets):
        problem = beside().varying({"terminal[0].target_x": target})
        rolled = ddp.solve(problem, ddp.DDP(step="rollout"))  # the steps of batches of cars, too
        np.testing.assert_allclose(found.solution(i).cost, [rolled.cost, ddp.solve(problem).cost], rtol=1e-7)
        assert found.solution(i).iterations == rolled.iterations


def test_what_no_control_moves_stays_as_it_is():
    """A state that costs more where it is than elsewhere, and that controls do not know."""
    system = FunctionDynamics(lambda x, u: np.array([x[0] + u[0], x[1]]), 2, 1)
    target = StateCost(system, [0.0, 1.0], [1.0, 1.0])
    problem = ddp.Problem(system, [lambda x, u: u @ u], [target], np.zeros(2), 10)
    found = ddp.solve(problem)
    assert not found.U.any()
    assert found.iterations == ddp.solve(problem, guess=np.zeros((10, 1))).iterations


def test_motions_that_stay_at_their_targets_ask_no_more_of_steps():
    """Costs alone tell that nothing is to be gained elsewhere."""
    asked = []
    system = FunctionDynamics(lambda x, u: asked.append(1) or x + 0.1 * u, 2, 2, derivatives="differences")
    problem = ddp.Problem(system, [lambda x, u: x @ x + u @ u], [lambda x, u: x @ x], np.zeros(2), 10)
    counts = []
    for guess in (None, np.zeros((10, 2)), None):
        asked.clear()
        assert ddp.solve(problem, guess=guess).iterations == 0
        counts.append(len(asked))
    assert counts[1] == counts[2]


def test_functions_that_fail_away_from_where_a_car_rests_leave_it_there():
    def narrow(x, u):
        if np.abs(u).max() > 1e-2:
            raise ValueError("too fast")
        return car(x, u)

    plain = beside()
    system = FunctionDynamics(narrow, 4, 2, dt=0.05, derivatives="differences")
    problem = ddp.Problem(system, plain.running, plain.terminal, plain.x0, plain.horizon)
    found = ddp.solve(problem, throw=False)
    assert not found.U.any()
