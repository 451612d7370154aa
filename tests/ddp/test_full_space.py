"""Full-space steps: counts of iterations, SciPy, differences of optimal values and of solutions, what is refused."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.optimize

import ddp
from ddp.interior.layout import Workplace
from dynamics import FunctionDynamics, frame_placement
from problems import arm, cartpole, pendulum, quadrotor
from problems.constraints import FramePositionEquality
from problems.costs import ControlCost, StateCost
from tests.benchmarks.optimisers import limited, published

LINEAR = ddp.DDP(step="linear", max_iterations=100)

UR5_FROM, UR5_TO = (0.0, -1.2, 1.4, -1.77, -1.57, 0.0), (1.6, -0.8, 0.9, -0.6, -0.8, 0.7)


def point_to_point(share, weight):
    """A UR5 from one posture to another, at rest in both, in .6 s with a share of its torques."""
    system = arm.reach("ur5").dynamics
    effort, goal = share * system.robot.model.effortLimit, np.concatenate([UR5_TO, np.zeros(6)])
    return ddp.Problem(
        system, [ControlCost(np.zeros(6), np.full(6, 1e-4))], [StateCost(system, goal, np.full(12, weight))],
        np.concatenate([UR5_FROM, np.zeros(6)]), 60, control_limits=(-effort, effort),
    )  # fmt: skip


def on_a_rail(**changes):
    """A cart-pole on a short rail, pushed by little, upright at rest at the end."""
    plain, upright = cartpole.swing_up(), np.array([0.0, np.pi, 0.0, 0.0])
    fields = {
        "terminal": [], "control_limits": (-8.0, 8.0),
        "constraints": [ddp.Inequality(lambda x, u: x[0], lower=-0.6, upper=0.6)],
        "terminal_constraints": [ddp.Equality(lambda x, u: x - upright)],
    }  # fmt: skip
    return replace(plain, **(fields | changes))


def noisy(problem, rng, size):
    """Controls that keep the initial state, with noise."""
    U = np.tile(problem.dynamics.nominal_control(problem.x0), (problem.horizon, 1))
    return U + size * rng.normal(size=U.shape)


def test_swing_ups_take_few_iterations_from_any_start(rng):
    free = ddp.solve(pendulum.swing_up(), LINEAR)
    assert free.iterations <= 9
    assert free.cost == pytest.approx(2.9008067, rel=1e-7)
    assert free.gap() == 0.0
    problem = cartpole.swing_up()
    for solver in (LINEAR, ddp.DDP()):
        for _ in range(11):
            solution = ddp.solve(problem, solver, guess=noisy(problem, rng, 1.0))
            assert solution.iterations <= 20
            assert solution.cost == pytest.approx(0.9204226, rel=1e-7)
            assert solution.kind == "minimum"


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e2, 1e4, 1e6])
def test_costs_of_any_size_meet_equalities_in_few_iterations(scale):
    goal = np.array([1.0, -0.5])
    system = FunctionDynamics(lambda x, u: np.stack([x[0] + 0.3 * x[1], x[1] + 0.3 * u[0] - 0.05 * np.sin(x[0])]), 2, 1)
    problem = ddp.Problem(
        system, [lambda x, u: scale * (0.05 * u @ u + (x - goal) @ (x - goal))], [], np.array([-1.0, 0.0]), 8,
        terminal_constraints=[ddp.Equality(lambda x, u: x + goal)],
    )  # fmt: skip
    solution = ddp.solve(problem, LINEAR)
    assert solution.iterations <= 15
    assert solution.violation < 1e-8
    assert solution.cost == pytest.approx(29.197342542681 * scale, rel=1e-9)


@pytest.mark.parametrize("scale", [1e-3, 1e3, 1e6])
def test_costs_in_other_units_lead_to_the_same_motion_between_limits(scale):
    plain = on_a_rail()
    problem = replace(plain, running=[replace(term, weights=scale * term.weights) for term in plain.running])
    for solver in (ddp.DDP(step="linear"), ddp.DDP()):
        solution = ddp.solve(problem, solver)
        assert solution.converged
        assert solution.cost == pytest.approx(1.15055576 * scale, rel=1e-7)


@pytest.mark.parametrize("moved", [0.0, 1e-9, 1e-6])
def test_rounding_is_no_work_where_a_motion_begins_at_its_goal(moved):
    plain, upright = pendulum.swing_up(), np.array([np.pi, 0.0])
    end = [ddp.Equality(lambda x, u: x - upright)]
    problem = replace(plain, x0=np.array([np.pi + moved, 0.0]), terminal=[], terminal_constraints=end, guess=None)
    rolled = ddp.solve(problem, ddp.DDP(step="rollout"))
    for solver in (LINEAR, ddp.DDP()):
        solution = ddp.solve(problem, solver)
        assert solution.iterations <= 6
        assert solution.violation < 1e-8
        assert solution.cost == pytest.approx(rolled.cost, rel=1e-5, abs=1e-28)


def test_motions_on_manifolds_end_where_rollouts_do():
    problem = quadrotor.loop()
    linear = ddp.solve(problem, LINEAR)
    assert linear.iterations <= ddp.solve(problem).iterations
    rolled = ddp.solve(problem, guess=linear.U)
    assert linear.cost == pytest.approx(rolled.cost, rel=1e-10)
    np.testing.assert_allclose(linear.U, rolled.U, atol=1e-6 * np.abs(rolled.U).max())
    np.testing.assert_allclose(linear.K, rolled.K, atol=1e-5 * np.abs(rolled.K).max())


@pytest.mark.parametrize("share", [0.5, 0.25])
@pytest.mark.parametrize("weight", [1e2, 1e4])
def test_stiff_valleys_between_limits_are_gone_through(rng, share, weight):
    problem = point_to_point(share, weight)
    for _ in range(3):
        solution = ddp.solve(problem, LINEAR, guess=noisy(problem, rng, 3.0))
        assert solution.iterations <= 40
        assert (np.abs(solution.U) <= problem.upper).all()
        assert solution.stationarity() < 1e-9
        held = (problem.lower == solution.U) | (problem.upper == solution.U)
        assert held.any()
        assert (solution.K[held] == 0.0).all()
        assert (solution.K[~held] != 0.0).any(axis=1).all()


def test_a_quadrotor_between_tight_bounds_arrives_in_about_the_iterations_that_it_takes_without():
    system = quadrotor.loop().dynamics
    x0 = np.concatenate([system.robot.neutral(), np.zeros(6)])
    goal, hover = x0.copy(), system.nominal_control(x0)
    goal[:3] = [2.0, 1.0, 1.0]
    running = [ControlCost(hover, np.full(4, 0.1)), StateCost(system, goal, np.repeat([0.1, 0.01], 6))]
    end = StateCost(system, goal, np.repeat([100.0, 10.0], [3, 9]))
    flight = ddp.Problem(system, running, [end], x0, 50, guess=np.tile(hover, (50, 1)))
    free, held = ddp.solve(flight), ddp.solve(replace(flight, control_limits=(np.zeros(4), 1.5 * hover)))
    assert (held.problem.upper == held.U).mean() > 0.2
    assert held.iterations <= 1.5 * free.iterations
    assert held.cost == pytest.approx(27.252028, rel=1e-6)
    assert held.stationarity() < 1e-6


def test_limits_cost_no_iteration_where_nothing_reaches_them():
    plain = arm.reach("ur5")
    free, wide = ddp.solve(plain), ddp.solve(replace(plain, control_limits=(-1e4, 1e4)))
    assert wide.iterations == free.iterations
    np.testing.assert_array_equal(wide.U, free.U)
    np.testing.assert_array_equal(wide.K, free.K)


def test_rows_that_give_way_do_so_in_proportion(rng):
    problem = on_a_rail(constraints=[ddp.Soft(ddp.Inequality(lambda x, u: x[0], lower=-0.2, upper=0.2), 1.0, "L2")])
    best = ddp.solve(problem)
    rows = problem.rows
    beyond = rows.beyond(rows.values(best.X, best.U))
    soft = rows.compliance > 0.0
    assert np.abs(beyond[soft]).max() > 1e-2
    np.testing.assert_allclose(best.multipliers[soft] * rows.compliance[soft], beyond[soft], atol=1e-9)


@pytest.mark.parametrize("price", [0.01, 0.03, 0.1, 0.25])
def test_warm_starts_know_which_soft_rows_are_paid_for(price):
    system = FunctionDynamics(lambda x, u: np.array([x[0] + 0.1 * x[1], x[1] + 0.1 * u[0]]), 2, 1, 1.0)
    slow = ddp.Soft(ddp.Inequality(lambda x, u: x[1] - 0.6), price, "L1")
    end = StateCost(system, np.array([1.0, 0.0]), 50.0)
    problem = ddp.Problem(system, [ControlCost(np.zeros(1), 0.1)], [end], np.zeros(2), 20, constraints=[slow])
    best = ddp.solve(problem)
    again = ddp.solve(problem, guess=best)
    assert (best.multipliers > 0.999 * price).sum() >= 7
    assert again.iterations == 1
    np.testing.assert_allclose(again.U, best.U, atol=1e-10)
    np.testing.assert_allclose(again.multipliers, best.multipliers, atol=1e-10)


@pytest.mark.parametrize("moved", [0.0, 1e-3, 1e-2])
def test_earlier_solutions_are_warm_starts_with_their_multipliers(rng, moved):
    for problem in (point_to_point(0.5, 1e4), on_a_rail()):
        first = ddp.solve(problem, LINEAR)
        x0 = problem.x0 + moved * rng.uniform(-1.0, 1.0, problem.x0.size)
        again = ddp.solve(problem.starting_at(x0), LINEAR, guess=first)
        assert again.converged
        assert again.iterations <= {0.0: 1, 1e-3: 2, 1e-2: 4}[moved]
        assert again.stationarity() < 1e-6


@pytest.mark.parametrize("price", [None, 100.0])
@pytest.mark.parametrize("steps", [0, 1])
def test_receding_horizons_keep_their_active_sets_under_pushes(rng, steps, price):
    problem = limited.cluttered_reach()
    if price is not None:
        problem = replace(problem, constraints=[ddp.Soft(one, price) for one in problem.constraints])
    first = ddp.solve(problem)
    guess = first.shift(steps) if steps else first
    for size in (1e-2, 5e-2, 5e-2):
        x0 = guess.X[0] + size * rng.normal(size=12)
        again = ddp.solve(problem.starting_at(x0), guess=guess)
        assert again.iterations <= 9
        assert again.violation <= 1e-8
        assert again.stationarity() < 1e-6


def test_shifted_solutions_rest_at_the_end_where_that_is_better():
    problem = limited.boxed_reach()
    later = ddp.solve(problem).shift(2)
    system = problem.dynamics
    assert later.violation < 1e-8
    assert np.abs(system.step(later.X[:-1], later.U) - later.X[1:]).max() < 1e-12
    np.testing.assert_allclose(later.X[-2:], later.X[-3] + np.zeros((2, 1)), atol=1e-8)
    assert later.cost == pytest.approx(later.problem.cost(later.X, later.U))


def test_constraints_that_cannot_be_met_are_named_and_confirmed():
    problem = on_a_rail(control_limits=(-0.5, 0.5))
    for solver in (LINEAR, ddp.DDP()):
        solution = ddp.solve(problem, solver, throw=False)
        assert solution.status.ending is ddp.Ending.INFEASIBLE
        assert "terminal_constraints[0] (Equality)[1] is violated by 2." in solution.status


def test_a_car_whose_guess_leads_through_walls_finds_the_door():
    solution = ddp.solve(published.car_escape(), ddp.DDP(tolerance=1e-4, max_iterations=60))
    assert solution.converged, solution.status
    assert solution.cost == pytest.approx(0.331654, rel=1e-4)


def test_first_barriers_whose_steps_lead_astray_are_lowered():
    problem = limited.gait("bound")
    solution = ddp.solve(problem)
    assert solution.converged
    assert solution.violation <= 1e-8
    assert solution.iterations <= 25  # 62 with the first barrier of all other problems
    assert solution.cost < 0.2287
    barriers = [record.penalty for record in solution.history if record.penalty > 0.0]
    assert barriers[0] < 1e-3


def test_slacks_do_not_hold_up_steps_past_obstacles(rng):
    problem, taken = arm.obstacles(), []
    for _ in range(6):
        x0 = problem.x0.copy()
        x0[:6] += 0.15 * rng.normal(size=6)
        solution = ddp.solve(problem.starting_at(x0), throw=False)
        assert solution.converged, solution.status
        taken.append(solution.iterations)
    assert np.median(taken) <= 36  # 43 with slacks that follow steps alone


def test_the_last_steps_hold_what_binds(rng):
    problem = on_a_rail()
    solution = ddp.solve(problem, guess=noisy(problem, rng, 1.0))
    assert solution.history[-1].full_space
    assert solution.history[-1].penalty == 0.0  # no barrier


def test_warm_starts_within_wider_limits_end_at_rounding_too():
    # Newton's first step from the barrier's end may raise errors: it is no reason to stay where the barrier ended
    rng, system = np.random.default_rng(5), (loop := quadrotor.loop()).dynamics
    for _ in range(8):
        x0, target = (system.integrate(loop.x0, rng.normal(size=12) * ([0.3] * 6 + [v] * 6)) for v in (0.3, 0.0))
        goal = StateCost(system, target, 10.0 ** rng.uniform(0.0, 3.0, size=12))
        inside = ddp.Inequality(lambda x, u: x[0], lower=-5.0, upper=5.0)
        effort, limits = ControlCost(np.full(4, 2.0), 1e-4), (0.0, 7.0)
        problem = ddp.Problem(system, [effort], [goal], x0, 8, control_limits=limits, constraints=[inside])
        wider = problem.varying(control_limits=(-1.0, 11.0))
        warm = ddp.solve(wider, guess=ddp.solve(problem))
        assert warm.stationarity() < 1e-6


def test_loose_tolerances_save_iterations_but_bend_no_constraint(rng):
    problem, taken = on_a_rail(), []
    guess = noisy(problem, rng, 1.0)
    best = ddp.solve(problem, guess=guess)
    for tolerance in (1e-6, 1e-4, 1e-2):
        solution = ddp.solve(problem, ddp.DDP(tolerance=tolerance), guess)
        taken.append(solution.iterations)
        assert solution.violation <= 1e-8
        assert solution.cost == pytest.approx(best.cost, rel=tolerance)
    assert max(taken) <= best.iterations
    assert taken[1] < best.iterations


def test_rails_limits_and_ends_are_kept_to_rounding(rng):
    problem = on_a_rail()
    for _ in range(3):
        solution = ddp.solve(problem, LINEAR, guess=noisy(problem, rng, 1.0))
        assert solution.iterations <= 40
        assert solution.cost == pytest.approx(1.150556, rel=1e-6)
        assert solution.violation < 1e-12
        assert solution.stationarity() < 1e-11
        assert solution.gap() == 0.0


def linear_quadratic(rng, **changes):
    """A linear system with quadratic costs, whose controls and states cannot go where they want."""
    n, nu = 3, 2
    A, B, C = np.eye(n) + 0.3 * rng.normal(size=(n, n)), rng.normal(size=(n, nu)), np.ones(n)
    system = FunctionDynamics(lambda x, u: A @ x + B @ u, n, nu)

    class Cost:
        def value(self, x, u):
            return 0.5 * (x - 1.0) @ (x - 1.0) + 0.05 * u @ u

    fields = {
        "constraints": [ddp.Inequality(lambda x, u: C @ x + 0.3 * u[0], upper=0.4)],
        "terminal_constraints": [ddp.Equality(lambda x, u: x[0] - 0.2)],
        "control_limits": (-0.6, [0.5, np.inf]),
    } | changes
    return ddp.Problem(system, [Cost()], [Cost()], 0.3 * rng.normal(size=n), 8, **fields)


def by_scipy(problem):
    """The optimum over controls alone, by sequential quadratic programmes with derivatives by differences."""

    def states(flat):
        return problem.dynamics.rollout(problem.x0, flat.reshape(problem.horizon, -1))

    def bounded(flat):
        U = np.vstack([flat.reshape(problem.horizon, -1), np.zeros(problem.dynamics.nu)])
        rows = [r for r in problem.residuals(states(flat), U[:-1]) if (r.name.startswith("constraints"))]
        return np.concatenate([0.4 - r.values.ravel() for r in rows])

    size = problem.horizon * problem.dynamics.nu
    return scipy.optimize.minimize(
        lambda flat: problem.cost(states(flat), flat.reshape(problem.horizon, -1)), np.zeros(size), method="SLSQP",
        bounds=np.stack([problem.lower.ravel(), problem.upper.ravel()], axis=1),
        constraints=[
            {"type": "ineq", "fun": bounded}, {"type": "eq", "fun": lambda flat: states(flat)[-1, :1] - 0.2},
        ],
        options={"ftol": 1e-15, "maxiter": 500},
    )  # fmt: skip


def test_a_linear_quadratic_problem_with_rows_of_all_kinds_ends_where_scipy_does(rng):
    problem = linear_quadratic(rng)
    solution, truth = ddp.solve(problem, LINEAR), by_scipy(problem)
    assert solution.kind == "minimum"
    assert solution.cost == pytest.approx(truth.fun, abs=1e-9)
    np.testing.assert_allclose(solution.U.ravel(), truth.x, atol=1e-4)
    active = [np.abs(r.multipliers).max() for r in solution.residuals()]
    assert min(active) > 1e-3  # every kind of row is active somewhere
    assert (problem.lower == solution.U).any() or (problem.upper == solution.U).any()


def test_linear_quadratic_ends_take_the_same_iterations_from_any_start():
    """Gaps are rounding there, and yet gradients: ends that hold to rounding make costs-to-go stiff."""
    problem = published.double_integrator()
    solutions = [ddp.solve(problem, guess=guess) for guess in limited.starts(problem, 4, 0.5)]
    assert all(solution.converged for solution in solutions)
    assert max(solution.iterations for solution in solutions) <= 10


def test_swings_between_limits_to_an_end_meet_the_conditions_of_optimality():
    """By differences of rollouts: they know nothing of linear models, barriers and active sets."""
    problem = published.pendulum()
    solution = ddp.solve(problem)
    assert solution.converged
    assert solution.iterations <= 40
    low, high = (np.equal(solution.U, limit) for limit in (problem.lower, problem.upper))
    assert low.any()
    assert high.any()
    assert not solution.K[low | high].any()

    def lagrangian(U):
        X = problem.dynamics.rollout(problem.x0, U)
        return problem.total(X, U) + solution.multipliers @ problem.rows.values(X, U)

    slope, moved = np.zeros_like(solution.U), 1e-5
    for k in range(problem.horizon):
        step = np.zeros_like(solution.U)
        step[k] = moved
        once, twice = (lagrangian(solution.U + a * step) - lagrangian(solution.U - a * step) for a in (1.0, 2.0))
        slope[k] = (8.0 * once - twice) / (12.0 * moved)
    assert np.abs(slope[~(low | high)]).max() < 1e-8
    assert slope[low].min() > 0.0 > slope[high].max()
    assert np.abs(problem.dynamics.rollout(problem.x0, solution.U)[-1] - [np.pi, 0.0]).max() < 1e-8


def test_multipliers_are_prices_of_bounds(rng):
    h, state = 1e-5, rng.bit_generator.state

    def solved(upper, end):
        rng.bit_generator.state = state
        problem = linear_quadratic(rng)
        C_row, end_row = problem.constraints[0], problem.terminal_constraints[0]
        moved = replace(
            problem, constraints=[replace(C_row, upper=upper)],
            terminal_constraints=[ddp.Equality(lambda x, u: end_row.function(x, u) - end)],
        )  # fmt: skip
        return ddp.solve(moved, LINEAR)

    plain = solved(0.4, 0.0)
    running, terminal = (r.multipliers for r in plain.residuals())
    by_upper = (solved(0.4 + h, 0.0).cost - solved(0.4 - h, 0.0).cost) / (2 * h)
    by_end = (solved(0.4, h).cost - solved(0.4, -h).cost) / (2 * h)
    assert -running.sum() == pytest.approx(by_upper, rel=1e-6)
    assert -terminal.sum() == pytest.approx(by_end, rel=1e-6)


def test_the_first_gain_is_the_sensitivity_of_the_constrained_optimum():
    problem, h = on_a_rail(), 1e-6
    solution = ddp.solve(problem, LINEAR)
    slopes = np.empty((4, 1))
    for i, e in enumerate(h * np.eye(4)):
        up, down = (ddp.solve(problem.starting_at(problem.x0 + s * e), LINEAR, guess=solution) for s in (1.0, -1.0))
        slopes[i] = (up.U[0] - down.U[0]) / (2 * h)
    np.testing.assert_allclose(solution.K[0], slopes.T, rtol=1e-4)


def test_an_arm_that_has_to_end_at_a_point_ends_there_in_the_best_basin():
    plain = arm.reach("ur5")
    goal = plain.dynamics.robot.model.effortLimit * 0.5
    point = np.array([0.35, 0.45, 0.35])
    problem = replace(
        plain, terminal=[], control_limits=(-goal, goal),
        terminal_constraints=[
            FramePositionEquality(plain.dynamics.robot, "tool0", point), ddp.Equality(lambda x, u: x[6:]),
        ],
    )  # fmt: skip
    solution = ddp.solve(problem, LINEAR)
    assert solution.violation < 1e-10
    assert solution.iterations <= 30
    assert solution.stationarity() < 1e-8


@pytest.mark.parametrize(("norm", "price"), [("L1", 1.0), ("L2", 10.0)])
def test_soft_constraints_end_where_the_augmented_lagrangian_does(norm, price):
    hard = on_a_rail()
    for soft in ({"constraints": [ddp.Soft(hard.constraints[0], price, norm)]}, {
        "terminal_constraints": [ddp.Soft(hard.terminal_constraints[0], price, norm)]
    }):  # fmt: skip
        problem = replace(hard, **soft)
        found, other = ddp.solve(problem), ddp.solve(problem, ddp.DDP(step="rollout"))
        assert "multipliers" in {record.contraction for record in found.history}
        assert found.cost == pytest.approx(other.cost, rel=1e-7)
        assert found.stationarity() < 1e-9
        np.testing.assert_allclose(found.multipliers, other.multipliers, atol=1e-4 * np.abs(other.multipliers).max())
        for ours, theirs in zip(found.residuals(), other.residuals(), strict=True):
            np.testing.assert_allclose(ours.violation, theirs.violation, atol=1e-6)


def test_a_kind_of_step_that_is_none_is_refused():
    with pytest.raises(ddp.ProblemError, match="step: expected one of 'rollout', 'linear', 'auto', got 'long'"):
        ddp.DDP(step="long")


def boxed(robot, rng, share):
    """An arm that has to be at rest with its tool at a random point, with a share of its torques."""
    plain = arm.reach(robot)
    own, target = plain.dynamics.robot, plain.terminal[0]
    there = plain.dynamics.integrate(plain.x0, np.concatenate([rng.uniform(-0.6, 0.6, own.nv), np.zeros(own.nv)]))
    point = frame_placement(own, there[: own.nq], target.frame)[:3, 3]
    effort = np.maximum(share * own.model.effortLimit, 1.3 * np.abs(plain.dynamics.nominal_control(plain.x0)))
    rest = ddp.Equality(lambda x, u: x[own.nq :])
    return replace(
        plain, terminal=[], control_limits=(-effort, effort),
        terminal_constraints=[FramePositionEquality(own, target.frame, point), rest],
    )  # fmt: skip


@pytest.mark.parametrize("robot", ["panda", "kinova"])
def test_noise_on_guesses_changes_neither_minima_nor_iterations_much(rng, robot):
    problem = boxed(robot, rng, 0.3)
    first = ddp.solve(problem)
    assert first.kind == "minimum"
    for _ in range(3):
        solution = ddp.solve(problem, guess=noisy(problem, rng, 3.0))
        assert solution.cost == pytest.approx(first.cost, rel=1e-6)
        assert solution.iterations <= first.iterations + 12
        assert solution.violation < 1e-10


def test_a_constraint_that_does_not_matter_at_the_minimum_costs_no_iteration():
    plain = arm.reach("ur5")
    free = ddp.solve(plain)
    wide = ddp.solve(replace(plain, constraints=[ddp.Inequality(lambda x, u: x[6:], lower=-50.0, upper=50.0)]))
    assert wide.iterations == free.iterations
    assert (wide.multipliers == 0.0).all()
    np.testing.assert_array_equal(wide.U, free.U)


def test_ends_are_reached_in_few_iterations_where_motion_without_them_costs_nothing():
    free = point_to_point(0.5, 0.0)
    held = ddp.Equality(lambda x, u: x - np.array([*UR5_TO, *np.zeros(6)]))
    solution = ddp.solve(replace(free, terminal=[], terminal_constraints=[held]))
    assert solution.converged
    assert solution.iterations <= 40
    assert solution.kind == "minimum"
    assert np.abs(solution.X[-1] - [*UR5_TO, *np.zeros(6)]).max() < 1e-8


def test_points_that_an_arm_cannot_reach_are_infeasible(rng):
    problem = boxed("ur5", rng, 0.5)
    robot = problem.dynamics.robot
    far = FramePositionEquality(robot, "tool0", [1.5, 0.5, 0.5])
    solution = ddp.solve(replace(problem, terminal_constraints=[far, problem.terminal_constraints[1]]), throw=False)
    assert solution.status.ending is ddp.Ending.INFEASIBLE
    assert "(FramePositionEquality)" in solution.status
    assert solution.iterations <= 300


@pytest.mark.parametrize("seed", [0, 3])
def test_soft_rows_that_cost_little_of_the_whole_are_told_to_be_paid_for(seed):
    # their excesses say so: at the barrier's end multipliers differ from prices by up to 2 %
    system, x0 = cartpole.swing_up().dynamics, 0.3 * np.random.default_rng(seed).normal(size=4)
    far = StateCost(system, np.array([0.0, np.pi, 0.0, 0.0]), np.array([10.0, 2e5, 10.0, 10.0]))
    slow = ddp.Soft(ddp.Inequality(lambda x, u: x[2:], lower=-0.3, upper=0.3), price=4e3)
    near = ddp.Soft(ddp.Inequality(lambda x, u: x[0], lower=-0.35, upper=0.35), price=2e3, norm="L2")
    effort = ControlCost(np.zeros(1), 30.0)
    problem = ddp.Problem(system, [effort], [far], x0, 40, control_limits=(-1.0, 1.0), constraints=[slow, near])
    solution = ddp.solve(problem)
    assert solution.stationarity() < 1e-6
    paid = solution.residuals()[0]
    beyond = np.abs(paid.violation) > 1e-6
    np.testing.assert_allclose(np.abs(paid.multipliers[beyond]), problem.placed[0].cap[beyond], rtol=1e-9)
    assert ddp.solve(problem, guess=solution).iterations <= 2


@pytest.mark.parametrize("build", [limited.rail, limited.bounded_flight, limited.boxed_reach, cartpole.swing_up])
def test_memory_of_an_earlier_solve_changes_no_bit(build, monkeypatch):
    clear = Workplace.clear

    def spoiled(place):
        for array in place.own.values():
            array.fill(np.nan)  # as solves leave it whose steps led to what is no number
        clear(place)

    monkeypatch.setattr(Workplace, "clear", spoiled)
    solver, problem = ddp.DDP(step="auto" if build is not cartpole.swing_up else "linear"), build()
    first = ddp.solve(problem, solver)
    moved = problem.starting_at(problem.dynamics.integrate(problem.x0, np.full(problem.dynamics.n, 1e-3)))
    ddp.solve(moved, solver, guess=first)  # with the derivatives, sweeps and rows of the first
    ddp.solve(build(), solver)  # with its own
    for again in (ddp.solve(problem, solver), ddp.solve(problem, solver)):
        for name in ("X", "U", "k", "K", "multipliers"):
            np.testing.assert_array_equal(getattr(again, name), getattr(first, name))
