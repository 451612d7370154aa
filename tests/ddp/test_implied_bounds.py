"""Bounds that equalities hold already: which they are, and that solves come to the same optimum without them."""

import numpy as np
import pytest
from scipy.optimize import minimize
from thorough import cases

import ddp
from ddp.interior import solve as solves
from ddp.interior.implied import implied
from ddp.interior.point import INSIDE, Point
from ddp.iterate import Iterate
from ddp.parallel.workers import differentiator
from ddp.starts import start_policy
from dynamics import FunctionDynamics, RobotDynamics, load
from problems.constraints import JointLimits, StateEquality
from problems.costs import ControlCost, StateCost

N = 6


def reaching(name, inside, seed=0, **more):
    """A motion of a robot to rest, whose goal is at a limit of about half of the joints, or so far inside of it."""
    robot, rng = load(name), np.random.default_rng(seed)
    system, ranges, n = RobotDynamics(robot, 0.02), robot.ranges, robot.nv
    low = rng.random(n) < 0.5
    q = np.where(rng.random(n) < 0.5, np.where(low, ranges.lower, ranges.upper), robot.q0)
    goal = np.concatenate([np.clip(q, ranges.lower + inside, ranges.upper - inside), np.zeros(n)])
    start, hold = np.concatenate([robot.q0, np.zeros(n)]), np.full(n, 1e-3)
    costs = [ControlCost(system.nominal_control(start), hold), StateCost(system, goal, np.full(2 * n, 0.05))]
    held = {"constraints": [JointLimits(robot)], "terminal_constraints": [StateEquality(system, goal)]} | more
    return ddp.Problem(system, costs, [], start, 50, **held)


def found(problem, guess=None):
    """Flags of `implied` where a solve begins, by knot and row of the first constraint."""
    with differentiator(problem, 1) as work:
        at = Iterate(problem, work, start_policy(problem, guess))
        at.weigh()
        flags = implied(problem, work.derivatives, at.X, at.U, at.gaps)
    return problem.placed[0].own(flags)


@pytest.mark.parametrize("name", ["panda", "ur10"])
@pytest.mark.parametrize("seed", range(cases(4, 1)))
def test_goals_on_limits_of_joints_are_reached_as_those_just_inside(name, seed):
    on, inside = (ddp.solve(reaching(name, share, seed)) for share in (0.0, 1e-3))
    assert on.converged
    assert on.violation <= 1e-8
    assert on.iterations <= 2 * inside.iterations + 5
    assert abs(on.cost - inside.cost) <= 0.05 * inside.cost


def test_without_bounds_that_equalities_hold_the_optimum_is_that_of_the_quadratic_program():
    A, B = np.array([[1.0, 0.5], [0.0, 1.0]]), np.array([[0.25], [0.5]])  # q' = q + h v'
    system = FunctionDynamics(lambda x, u: A @ x + B @ u, 2, 1)
    cost = lambda x, u: 0.5 * u @ u + 0.1 * (x[0] - 3.0) ** 2  # noqa: E731
    wall, end = ddp.Inequality(lambda x, u: x[0], upper=1.0), ddp.Equality(lambda x, u: x - [1.0, 0.0])
    problem = ddp.Problem(system, [cost], [], [0.0, 0.0], 12, constraints=[wall], terminal_constraints=[end])
    solution = ddp.solve(problem)

    def states(u):
        x, all_x = np.zeros(2), []
        for one in u:
            all_x.append(x)
            x = A @ x + B[:, 0] * one
        return np.array([*all_x, x])

    oracle = minimize(
        lambda u: 0.5 * u @ u + 0.1 * ((states(u)[:-1, 0] - 3.0) ** 2).sum(), np.zeros(12), method="SLSQP",
        constraints=[
            {"type": "eq", "fun": lambda u: states(u)[-1] - [1.0, 0.0]},
            {"type": "ineq", "fun": lambda u: 1.0 - states(u)[1:-2, 0]},  # the last two hold by the other
        ], options={"ftol": 1e-14, "maxiter": 500},
    )  # fmt: skip
    assert solution.converged
    assert solution.iterations <= 12
    assert solution.violation <= 1e-8
    np.testing.assert_allclose(solution.cost, oracle.fun, rtol=1e-7)
    np.testing.assert_allclose(solution.U[:, 0], oracle.x, atol=1e-4)


@pytest.mark.parametrize("seed", range(cases(40, 5)))
def test_rows_are_found_that_every_motion_with_the_equalities_has_at_a_bound(seed):
    rng = np.random.default_rng(seed)
    n, nu, k = 4, int(rng.integers(1, 4)), int(rng.integers(1, 5))
    A, B, E = np.eye(n) + 0.3 * rng.normal(size=(n, n)), rng.normal(size=(n, nu)), rng.normal(size=(k, n))
    system, x0, e = FunctionDynamics(lambda x, u: A @ x + B @ u, n, nu), rng.normal(size=n), rng.normal(size=k)
    C = np.vstack([rng.normal(size=(2, k)) @ E, rng.normal(size=(1, n))])  # two that E decides, one that it does not
    upper = np.append(C[:2] @ np.linalg.pinv(E) @ e + [0.0, 0.5], 50.0)
    rows, end = ddp.Inequality(lambda x, u: C @ x, upper=upper), ddp.Equality(lambda x, u: E @ x - e)
    problem = ddp.Problem(system, [], [], x0, N, constraints=[rows], terminal_constraints=[end])
    flags = found(problem)

    powers = [np.linalg.matrix_power(A, t) for t in range(N + 1)]
    moved = [np.hstack([powers[t - 1 - j] @ B if j < t else np.zeros((n, nu)) for j in range(N)]) for t in range(N + 1)]
    G, g = E @ moved[N], e - E @ powers[N] @ x0
    assert np.linalg.matrix_rank(G) == k
    particular = np.linalg.pinv(G) @ g
    for t in range(1, N + 1):
        slopes = C @ moved[t]
        beside = slopes - slopes @ np.linalg.pinv(G) @ G
        decided = np.linalg.norm(beside, axis=1) <= 1e-9 * np.linalg.norm(slopes, axis=1)
        at_bound = np.abs(C @ (powers[t] @ x0 + moved[t] @ particular) - upper) <= 1e-7
        np.testing.assert_array_equal(flags[t], decided & at_bound)


def test_limits_are_found_at_the_end_and_one_knot_before_where_speeds_are_given_too():
    problem = reaching("panda", 0.0)
    flags, goal, ranges = found(problem), ddp.solve(problem).X[-1, :9], problem.dynamics.robot.ranges
    at_limit = np.minimum(goal - ranges.lower, ranges.upper - goal) <= 1e-5
    assert 0 < at_limit.sum() < 9
    np.testing.assert_array_equal(flags[-1], at_limit)
    np.testing.assert_array_equal(flags[-2], at_limit)
    assert not flags[:-2].any()
    assert not found(reaching("panda", 1e-3)).any()


def test_rows_that_were_left_out_and_do_not_hold_are_taken_back(monkeypatch):
    problem = reaching("panda", 0.02)
    free = ddp.solve(ddp.Problem(problem.dynamics, problem.running, [], problem.x0, 50,
                                 terminal_constraints=problem.terminal_constraints))
    q = free.X[:, :9]
    ends = np.maximum(q[0], q[-1]) + 1e-3
    limits = JointLimits(problem.dynamics.robot, q.min(0) - 1.0, np.maximum(ends, q.max(0) - 1e-3))
    tight = ddp.Problem(
        problem.dynamics, problem.running, [], problem.x0, 50, constraints=[limits],
        terminal_constraints=problem.terminal_constraints,
    )  # fmt: skip
    assert tight.violation(free.X, free.U) > 1e-5
    plain = ddp.solve(tight)
    monkeypatch.setattr(solves, "implied", lambda problem, *motion: ~problem.rows.equal)
    again = ddp.solve(tight)
    for solution in (plain, again):
        assert solution.converged
        assert solution.violation <= 1e-8
    np.testing.assert_allclose(again.cost, plain.cost, rtol=1e-7)


def test_points_that_follow_another_leave_out_the_same_rows():
    problem = reaching("panda", 0.0, control_limits=(-100.0, 100.0))
    flags = found(problem)
    with differentiator(problem, 1) as work:
        at = Iterate(problem, work, start_policy(problem, None))
        at.weigh()
        left_out = np.zeros(problem.multiplier_count, dtype=bool)
        problem.placed[0].own(left_out)[:] = flags
        point = Point(problem, work, at.X, at.U, 1.0, 0.01, INSIDE, free=left_out)
        point.arrive()
        for other in (point.held(), point.off_limits(0.01)):
            np.testing.assert_array_equal(other.free, left_out)
            np.testing.assert_array_equal(other.bounds.kind[: len(left_out)][left_out], 0)
