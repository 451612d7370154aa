"""Iterations, costs, order of convergence and gains on the benchmark problems that need no robot."""

import numpy as np
import pytest
from systems import cartpole, pendulum

import ddp

PENDULUM, CARTPOLE = 2.9008066548, 0.9204225793


@pytest.mark.parametrize(("problem", "cost", "bar"), [(pendulum, PENDULUM, 17), (cartpole, CARTPOLE, 55)])
def test_ddp_reaches_the_known_optimum_within_the_known_iterations(problem, cost, bar):
    solution = ddp.solve(problem(), ddp.DDP(tolerance=1e-9))
    assert solution.converged
    assert solution.cost == pytest.approx(cost, rel=1e-8)
    assert solution.iterations <= bar
    assert solution.history[-1].hessian == "exact"
    assert solution.stationarity() == pytest.approx(solution.gradient, abs=1e-12)
    assert solution.stationarity() < 1e-8


@pytest.mark.parametrize(
    ("problem", "cost", "bar"), [(pendulum, PENDULUM, int(1.1 * 59)), (cartpole, CARTPOLE, int(1.1 * 85))]
)
def test_ilqr_is_no_worse_than_fddp(problem, cost, bar):
    solution = ddp.solve(problem(), ddp.ILQR(tolerance=1e-9))
    assert solution.cost == pytest.approx(cost, rel=1e-6)
    assert solution.iterations <= bar
    assert {record.hessian for record in solution.history} == {"gauss-newton"}


def order_of_convergence(solution: ddp.Solution) -> float:
    """The slope of log expected decrease (quadratic in the error) over the last iterations above rounding."""
    e = [record.expected for record in solution.history if record.expected > 1e-25][-3:]
    return float(np.log(e[2] / e[1]) / np.log(e[1] / e[0]))


def test_ddp_converges_quadratically_and_ilqr_does_not():
    assert order_of_convergence(ddp.solve(pendulum(), ddp.DDP(tolerance=1e-16))) >= 1.8
    assert order_of_convergence(ddp.solve(pendulum(), ddp.ILQR(tolerance=1e-16))) <= 1.2


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
