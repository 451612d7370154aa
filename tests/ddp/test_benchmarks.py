"""Optima, gains and guesses of the benchmark problems that need no robot; `test_convergence` counts iterations."""

import numpy as np
import pytest
from systems import Quadratic, cartpole, pendulum

import ddp
from dynamics.steps.function_dynamics import FunctionDynamics


@pytest.mark.parametrize(("problem", "cost"), [(pendulum, 2.9008066548), (cartpole, 0.9204225793)])
def test_both_solvers_reach_the_known_optimum_of_systems_that_are_functions(problem, cost):
    solution = ddp.solve(problem(), ddp.DDP(tolerance=1e-9))
    assert solution.cost == pytest.approx(cost, rel=1e-8)
    assert solution.history[-1].hessian == "exact"
    assert solution.stationarity() == pytest.approx(solution.gradient, abs=1e-12)
    assert solution.stationarity() < 1e-8
    linear = ddp.solve(problem(), ddp.ILQR(tolerance=1e-9))
    assert linear.cost == pytest.approx(cost, rel=1e-6)
    assert {record.hessian for record in linear.history} == {"gauss-newton"}


def resolved_sensitivity(base: ddp.Solution) -> np.ndarray:
    """du0*/dx0 by 4th-order differences of problems solved again."""
    columns = []
    for direction in np.eye(2):
        total = np.zeros(1)
        for point, weight in ((1, 8), (-1, -8), (2, -1), (-2, 1)):
            moved = pendulum(x0=tuple(1e-3 * point * direction))
            total = total + weight * ddp.solve(moved, ddp.DDP(tolerance=1e-14), guess=base).U[0] / 12e-3
        columns.append(total)
    return np.stack(columns, axis=1)


def test_exact_gains_are_the_optimal_sensitivity_and_gauss_newton_gains_are_not():
    base = ddp.solve(pendulum(), ddp.DDP(tolerance=1e-14))
    sensitivity = resolved_sensitivity(base)
    scale = np.abs(sensitivity).max()
    assert np.abs(base.K[0] - sensitivity).max() < 1e-5 * scale
    assert np.abs(ddp.solve(pendulum(), ddp.ILQR()).K[0] - sensitivity).max() > 1e-2 * scale


def test_exact_hessians_from_the_start_converge_too():
    solution = ddp.solve(pendulum(), ddp.DDP(hessian="exact"))
    assert solution.stationarity() < 1e-6
    assert {record.hessian for record in solution.history} == {"exact+lm"}


def test_random_starts_converge_whatever_they_are():
    rng = np.random.default_rng(5)
    for _ in range(4):
        solution = ddp.solve(pendulum(), guess=rng.normal(size=(100, 1)))
        assert solution.stationarity() < 1e-6


def test_a_solution_is_a_guess_that_needs_no_more_than_one_iteration():
    first = ddp.solve(pendulum())
    assert ddp.solve(pendulum(), guess=first).iterations == 1
    assert ddp.solve(pendulum(), guess=(first.X, first.U)).iterations == 1
    assert ddp.solve(pendulum(), guess=first.U).cost == pytest.approx(first.cost, rel=1e-14)


class Unstable:
    """An inverted pendulum's step: what is not held up falls."""

    def __call__(self, x, u):
        return np.array([x[0] + 0.05 * x[1], x[1] + 0.05 * (20.0 * np.sin(x[0]) + u[0])])


def balance(x0: float, horizon: int = 200) -> ddp.Problem:
    running = Quadratic(np.array([1.0, 0.1, 0.01]), np.zeros(3))
    terminal = Quadratic(np.array([10.0, 1.0, 0.0]), np.zeros(3))
    return ddp.Problem(FunctionDynamics(Unstable(), 2, 1, dt=0.05), [running], [terminal], np.array([x0, 0.0]), horizon)


def test_a_solution_is_followed_with_its_gains_where_motion_is_unstable():
    first = ddp.solve(balance(0.3))
    moved = ddp.solve(balance(0.301), guess=first)
    assert moved.iterations <= 2
    assert moved.cost == pytest.approx(first.cost, rel=1e-2)
    assert moved.history[0].expected < 1e-3 * first.cost  # even the first control was corrected
    open_loop = balance(0.301)
    assert open_loop.cost(open_loop.dynamics.rollout(open_loop.x0, first.U), first.U) > 10.0 * first.cost


def test_a_solution_over_another_horizon_is_no_guess():
    with pytest.raises(ddp.ProblemError, match=r"guess.U: expected shape \(150, 1\), got \(200, 1\)"):
        ddp.solve(balance(0.3, 150), guess=ddp.solve(balance(0.3)))


class Scaled:
    """A cost in other units."""

    def __init__(self, term, scale):
        self.term, self.scale = term, scale

    def values(self, X, U):
        return self.scale * self.term.values(X, U)

    def expand(self, X, U, weight, exact, l, lz, lzz):
        self.term.expand(X, U, self.scale * weight, exact, l, lz, lzz)


@pytest.mark.parametrize("solver", [ddp.ILQR, ddp.DDP])
@pytest.mark.parametrize("scale", [1e-8, 1e4])
def test_the_unit_of_the_cost_does_not_matter(solver, scale):
    plain = pendulum()
    terms = [[Scaled(term, scale) for term in group] for group in (plain.running, plain.terminal)]
    scaled = ddp.Problem(plain.dynamics, *terms, plain.x0, plain.horizon)
    reference, solution = ddp.solve(plain, solver()), ddp.solve(scaled, solver())
    assert solution.cost == pytest.approx(scale * reference.cost, rel=1e-8)
    assert solution.iterations == reference.iterations


@pytest.mark.parametrize("solver", [ddp.ILQR, ddp.DDP])
def test_a_solve_ends_where_no_decrease_is_representable(solver):
    solution = ddp.solve(pendulum(), solver(tolerance=1e-300))
    assert solution.converged
    assert solution.status.startswith(f"converged to rounding after {solution.iterations} iterations, no further")
    assert solution.iterations < 200
    *_, before, earlier, last = (record.expected for record in solution.history)
    assert last < 1e-25 or max(before, earlier, last) < 1e-15
    assert solution.stationarity() < 1e-9


class Offset:
    """A constant cost."""

    def value(self, x, u):
        return -1e5

    def gradient(self, x, u):
        return np.zeros(3)

    def hessian(self, x, u):
        return np.zeros((3, 3))


def test_a_good_guess_serves_whatever_the_sign_of_the_cost():
    base = pendulum()
    best = ddp.solve(base)
    moved = ddp.Problem(base.dynamics, base.running, [*base.terminal, Offset()], base.x0, base.horizon)
    assert ddp.solve(moved, guess=best.U).iterations <= 2


def test_a_cost_that_is_no_number_beyond_a_wall_is_named_with_its_knot():
    class Wall:
        def value(self, x, u):
            return np.where(x[0] < 0.5, 0.0, np.nan) + 0.0 * x[0]

    base = pendulum()
    walled = ddp.Problem(base.dynamics, [*base.running, Wall()], base.terminal, base.x0, base.horizon)
    with pytest.raises(ddp.SolveError, match=r"running\[1\] \(Wall\): its cost is nan at knot \d+"):
        ddp.solve(walled)
