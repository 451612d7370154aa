"""Optima of full-space steps beside SciPy, conditions of optimality, differences of values and of solutions."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import scipy.optimize
from constrained_systems import linear_quadratic, on_a_rail

import ddp
from dynamics import FunctionDynamics
from problems import cartpole
from problems.costs import ControlCost, StateCost
from tests.benchmarks.optimisers import limited, published

LINEAR = ddp.DDP(step="linear", max_iterations=100)


def test_rows_that_give_way_do_so_in_proportion(rng):
    problem = on_a_rail(constraints=[ddp.Soft(ddp.Inequality(lambda x, u: x[0], lower=-0.2, upper=0.2), 1.0, "L2")])
    best = ddp.solve(problem)
    rows = problem.rows
    beyond = rows.beyond(rows.values(best.X, best.U))
    soft = rows.compliance > 0.0
    assert np.abs(beyond[soft]).max() > 1e-2
    np.testing.assert_allclose(best.multipliers[soft] * rows.compliance[soft], beyond[soft], atol=1e-9)


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


@pytest.mark.parametrize("seed", [13, 14, 50])
def test_controls_that_limits_hold_are_there_exactly_however_dear_that_is(seed):
    """Costs are of 1e9 and more, so that multipliers hide how near to limits controls are."""
    rng = np.random.default_rng(seed)
    A, B, w = np.eye(3) + 0.5 * rng.normal(size=(3, 3)), rng.normal(size=(3, 1)), rng.normal(size=3)
    system = FunctionDynamics(lambda x, u: A @ x + B @ u, 3, 1)
    problem = ddp.Problem(
        system, [lambda x, u: 0.5 * x @ x + 0.05 * u @ u + 0.1 * (x[0] ** 4 + u[0] ** 4)], [lambda x, u: 0.5 * x @ x],
        rng.normal(size=3), 12, control_limits=(-np.inf, -0.3),
        constraints=[ddp.Inequality(lambda x, u: x @ x + w @ x + 0.1 * u[0], lower=-10.0)],
    )  # fmt: skip
    solution = ddp.solve(problem)
    held = ~solution.K.any(axis=2)
    assert held.sum() >= 8
    assert (solution.U[held] == -0.3).all()
    assert solution.stationarity() < 1e-12 * solution.cost
    assert not solution.sensitivity("x0").dU[held].any()


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


@pytest.mark.parametrize("lower", [0.2, [0.2, -np.inf]])
@pytest.mark.parametrize(("norm", "price"), [("L1", 0.5), ("L1", 10.0), ("L2", 10.0)])
def test_soft_constraints_move_what_is_at_rest_without_them(norm, price, lower):
    """To stay at 0 is the minimum of quadratic costs, exactly; beside them violations have a price."""
    system = FunctionDynamics(lambda x, u: x + 0.3 * u[0], 1, 2)
    soft = ddp.Soft(ddp.Inequality(lambda x, u: u, lower=lower), price, norm)
    problem = ddp.Problem(
        system, [lambda x, u: 0.5 * (x @ x + u @ u)], [], [0.0], 4, constraints=[soft], guess=np.zeros((4, 2))
    )

    def paid(flat):
        U = flat.reshape(4, 2)
        X = problem.dynamics.rollout(problem.x0, U)
        missed = np.maximum(np.broadcast_to(lower, 2) - U, 0.0)
        costs = price * missed if norm == "L1" else 0.5 * price * missed**2
        return 0.5 * ((X[:-1] ** 2).sum() + (U**2).sum()) + costs.sum()

    best = ddp.solve(problem)
    assert best.kind == "minimum"
    assert paid(best.U.ravel()) == pytest.approx(best.cost, rel=1e-12)
    found = scipy.optimize.minimize(paid, best.U.ravel() + 0.01, method="Powell", options={"xtol": 1e-9, "ftol": 1e-15})
    assert best.cost == pytest.approx(found.fun, rel=1e-7)


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


@dataclass
class Bent:
    """x_0 <= 0.2, whose curvature is not a number where a multiplier holds it: an error in a user's own class."""

    bend: float
    lower = np.array([-np.inf])
    upper = np.array([0.2])

    def values(self, X, U):
        return X[:, :1]

    def jacobian(self, X, U):
        return np.tile(np.eye(1, 3), (len(X), 1, 1))

    def curvature(self, X, U, weight):
        return np.where(np.abs(weight[:, :, None]) > 1e-9, self.bend, 0.0) * np.eye(3)


@pytest.mark.parametrize("step", ["linear", "rollout"])
def test_a_curvature_that_is_no_number_is_named_where_it_leaves_a_minimum_in_doubt(step):
    system = FunctionDynamics(lambda x, u: np.array([x[0] + 0.1 * x[1], x[1] + 0.1 * u[0]]), 2, 1, dt=0.1)
    best = {}
    for bend in (0.0, np.nan):
        cost, end = (lambda x, u: u @ u), (lambda x, u: 10.0 * (x[0] - 2.0) ** 2)
        problem = ddp.Problem(system, [cost], [end], [0.0, 0.0], 10, constraints=[Bent(bend)])
        best[bend] = ddp.solve(problem, ddp.DDP(step=step))
    assert best[0.0].kind == "minimum"
    assert best[np.nan].kind == "unknown"
    assert best[np.nan].cost == pytest.approx(best[0.0].cost)
    what = "curvature is nan" if step == "linear" else "Hessian is not finite"
    assert f"where the exact Hessian is not finite (constraints[0] (Bent): its {what} at knot 10" in best[np.nan].status
