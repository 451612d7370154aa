"""Warm starts of full-space steps: earlier solutions, shifted or in wider limits, end where cold ones do."""

from dataclasses import replace

import numpy as np
import pytest
from constrained_systems import on_a_rail, point_to_point

import ddp
from ddp.interior.layout import Workplace
from dynamics import ContinuousDynamics, FunctionDynamics
from problems import arm, cartpole, quadrotor
from problems.costs import ControlCost, StateCost
from problems.systems.car import dubins
from tests.benchmarks.optimisers import limited

LINEAR = ddp.DDP(step="linear", max_iterations=100)


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


@pytest.mark.parametrize("soft", [False, True])
def test_receding_horizons_follow_targets_past_obstacles(soft):
    problem = arm.obstacles(horizon=50, dt=0.02)  # three clearances, limits of torques, the target 1 cm further a step
    if soft:
        rows = [ddp.Soft(one, 1e3) for one in problem.constraints]
        problem = replace(problem, constraints=rows, terminal_constraints=rows[:-1])
    pose, x = problem.number("terminal[0].target"), problem.x0
    with ddp.RecedingHorizon(problem) as controller:
        for k in range(25):
            ahead = pose.copy()
            ahead[:2, 3] += 0.15 * np.array([np.cos(k / 15) - 1.0, np.sin(k / 15)])
            controller.vary({"terminal[0].target": ahead})
            solution = controller.solve(x)
            assert solution.converged
            assert k == 0 or solution.iterations <= 9
            assert solution.stationarity() < 1e-6
            x = problem.dynamics.step(x, solution.U[0])


def test_a_car_among_circles_finds_what_binds_where_the_exact_model_is_not_convex():
    system, weights = ContinuousDynamics(dubins, 3, 2, 0.05, "rk4"), np.array([1.0, 1.0, 0.01])
    centers, radii = np.array([[0.8, 0.7], [1.8, 1.6], [2.6, 2.4]]), np.array([0.35, 0.35, 0.3])
    circles = ddp.Inequality(lambda x, u: radii**2 - ((x[:2] - centers) ** 2).sum(axis=1))
    target = np.array([1.5, 1.0, 0.0])
    problem = ddp.Problem(
        system, [ControlCost(np.zeros(2), 0.1), StateCost(system, target, weights)],
        [StateCost(system, target, 10.0 * weights)], np.array([0.0, 0.2, 0.3]), 40,
        control_limits=([0.0, -2.0], [1.5, 2.0]), constraints=[circles], guess=np.full((40, 2), 0.1),
    )  # fmt: skip
    x, rng = problem.x0, np.random.default_rng(0)
    with ddp.RecedingHorizon(problem) as controller:
        for k in range(100):
            goal = target + 0.8 * np.array([np.cos(k / 16) - 1.0, np.sin(k / 16), 0.0])
            controller.vary({"running[1].target_x": goal, "terminal[0].target_x": goal})
            solution = controller.solve(x)
            assert solution.converged
            assert k == 0 or solution.iterations <= 12
            x = system.integrate(system.step(x, solution.U[0]), 3e-3 * rng.normal(size=3))


def test_few_iterations_are_enough_for_steps_of_receding_horizons_past_obstacles(rng):
    problem = arm.obstacles(horizon=50, dt=0.02)
    pose, x = problem.number("terminal[0].target"), problem.x0
    with ddp.RecedingHorizon(problem, ddp.DDP(max_iterations=8), ddp.solve(problem)) as controller:
        for k in range(15):
            ahead = pose.copy()
            ahead[1, 3] += 0.005 * k
            controller.vary({"terminal[0].target": ahead})
            solution = controller.solve(x)
            assert solution.converged
            noise = 3e-3 * rng.normal(size=12)
            x = problem.dynamics.integrate(problem.dynamics.step(x, solution.U[0]), noise)


def test_motions_of_few_iterations_violate_little_what_cannot_be_met():
    problem = arm.obstacles(horizon=50, dt=0.02)
    centers, x, found = problem.number("centers"), problem.x0, []
    with ddp.RecedingHorizon(problem, ddp.DDP(max_iterations=10), ddp.solve(problem)) as controller:
        for k in range(20):  # obstacles rise by 1 cm a step, below the arm as well
            controller.vary(centers=centers + np.array([0.0, 0.0, 0.01 * k]))
            solution = controller.solve(x)
            x = problem.dynamics.step(x, solution.U[0])
            clear = controller.problem.constraints[:3]
            found.append(max(-one.values(x[None], np.zeros((1, 6))).min() for one in clear))
    assert 1e-3 < max(found) < 2e-2


def test_shifted_solutions_rest_at_the_end_where_that_is_better():
    problem = limited.boxed_reach()
    later = ddp.solve(problem).shift(2)
    system = problem.dynamics
    assert later.violation < 1e-8
    assert np.abs(system.step(later.X[:-1], later.U) - later.X[1:]).max() < 1e-12
    np.testing.assert_allclose(later.X[-2:], later.X[-3] + np.zeros((2, 1)), atol=1e-8)
    assert later.cost == pytest.approx(later.problem.cost(later.X, later.U))


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
