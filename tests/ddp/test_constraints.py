"""Constraints held by the augmented Lagrangian: against dense KKT systems, certificates, verdicts, bad input."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

import ddp
from ddp.compiling.setup import Stopwatch
from ddp.constraints.placement import shifted
from ddp.errors import ProblemError, SolveError
from ddp.parallel.workers import Workers, differentiator
from ddp.solver import descend_from
from ddp.starts import start_policy
from dynamics.steps.function_dynamics import FunctionDynamics
from tests.ddp.systems import Quadratic, pendulum

N = 12


def double_integrator(x, u):
    return np.array([x[0] + 0.1 * x[1], x[1] + 0.1 * u[0]])


def linear_problem(**constraints):
    """A quadratic cost about the origin; x0 = (1, 0)."""
    cost = Quadratic(np.array([1.0, 0.1, 0.1]), np.zeros(3))
    return ddp.Problem(
        FunctionDynamics(double_integrator, 2, 1, dt=0.1), [cost], [], np.array([1.0, 0.0]), N, **constraints
    )


def upright(x, u):
    return x - np.array([np.pi, 0.0])


def torque(x, u):
    return u


def position(x, u):
    return x[0]


def test_multipliers_at_the_end_stay_there_as_the_horizon_recedes():
    problem = linear_problem(constraints=[ddp.Inequality(lambda x, u: x[1])])
    np.testing.assert_array_equal(shifted(problem.placed, N, np.arange(N + 1.0), 2), [*range(2, N), N - 1, N - 1, N])


def dense(problem):
    """The states as functions of the controls, X = a + S U, and the cost's Hessian and gradient at U = 0."""
    A, B = problem.dynamics.linearize(problem.x0, np.zeros(1))
    a, S = np.zeros((N + 1, 2)), np.zeros((N + 1, 2, N))
    a[0] = problem.x0
    for k in range(N):
        a[k + 1], S[k + 1] = A @ a[k], A @ S[k]
        S[k + 1][:, k] += B[:, 0]
    W = 0.1 * np.diag([1.0, 0.1])
    H = sum(S[k].T @ W @ S[k] for k in range(N)) + 0.1 * 0.1 * np.eye(N)
    return a, S, H, sum(S[k].T @ W @ a[k] for k in range(N))


def test_equalities_of_a_linear_problem_solve_its_kkt_system():
    problem = linear_problem(
        terminal_constraints=[ddp.Equality(lambda x, u: x - [0.2, 0.1])],
        constraints_at={5: [ddp.Equality(lambda x, u: x[0] + 0.3 * u[0] - 0.8)]},
    )
    solution = ddp.solve(problem)
    a, S, H, g = dense(problem)
    row = S[5][0].copy()
    row[5] += 0.3
    C, c = np.vstack([row, S[N]]), np.concatenate([[a[5][0] - 0.8], a[N] - [0.2, 0.1]])
    kkt = np.linalg.solve(np.block([[H, C.T], [C, np.zeros((3, 3))]]), -np.concatenate([g, c]))
    np.testing.assert_allclose(solution.U[:, 0], kkt[:N], atol=1e-7)
    np.testing.assert_allclose(solution.multipliers, kkt[N:], atol=1e-6)
    assert solution.violation <= 1e-8
    assert solution.stationarity() <= 1e-6


def test_inequalities_of_a_linear_problem_satisfy_the_conditions_of_its_quadratic_programme():
    limits = [ddp.Inequality(torque, lower=-0.4, upper=2.0), ddp.Inequality(lambda x, u: -0.15 - x[1])]
    problem = linear_problem(constraints=limits, terminal_constraints=[ddp.Equality(lambda x, u: x[0] - 0.87)])
    solution = ddp.solve(problem)
    a, S, H, g = dense(problem)
    ends = {"type": "eq", "fun": lambda U: a[N][0] + S[N][0] @ U - 0.87, "jac": lambda U: S[N][0]}
    slow = {
        "type": "ineq",
        "fun": lambda U: 0.15 + a[1:N, 1] + S[1:N, 1] @ U,
        "jac": lambda U: S[1:N, 1],
    }
    found = minimize(
        lambda U: 0.5 * U @ H @ U + g @ U, np.zeros(N), jac=lambda U: H @ U + g, method="SLSQP",
        bounds=[(-0.4, 2.0)] * N, constraints=[ends, slow], options={"ftol": 1e-15, "maxiter": 200},
    )  # fmt: skip
    np.testing.assert_allclose(solution.U[:, 0], found.x, atol=1e-5)
    control, speed, end = solution.residuals()
    assert (solution.U[:, 0] < -0.4 + 1e-7).any()
    for residual, upper in ((control, 2.0), (speed, 0.0)):
        held, slack = residual.multipliers > 0.0, upper - residual.values
        assert np.abs(slack[held]).max(initial=0.0) <= 1e-8
        assert not residual.multipliers[slack > 1e-7].clip(0.0).any()
    assert (speed.multipliers > 1e-3).any()
    assert (control.multipliers[:, 0] <= 0.0).all()
    assert end.worst <= 1e-8
    assert solution.stationarity() <= 1e-6


@pytest.fixture(scope="module")
def swing():
    """A pendulum that has to be upright and at rest at the end, with a speed limit."""
    plain = pendulum()
    return replace(
        plain, terminal=[], terminal_constraints=[ddp.Equality(upright)],
        constraints=[ddp.Inequality(lambda x, u: x[1], jacobian=lambda x, u: [[0.0, 1.0]], lower=-4.0, upper=4.0)],
    )  # fmt: skip


@pytest.fixture(scope="module")
def swung(swing):
    return ddp.solve(swing, guess=np.zeros((100, 1)))


def test_a_pendulum_ends_where_it_must(swing, swung):
    assert swung.converged
    assert swung.violation <= 1e-8
    np.testing.assert_allclose(swung.X[-1], [np.pi, 0.0], atol=1e-8)
    assert np.abs(swung.X[:, 1]).max() <= 4.0 + 1e-8
    assert np.abs(swung.X[:, 1]).max() >= 4.0 - 1e-8
    assert swung.cost == pytest.approx(swing.cost(swung.X, swung.U), rel=1e-12)
    assert swung.history[-1].violation <= 1e-8
    assert max(record.penalty for record in swung.history) > 0.0


def lagrangian_gradient(solution):
    """Differences, of order four, of cost + multipliers · c along rollouts of U."""
    problem = solution.problem

    def value(U):
        X = problem.dynamics.rollout(problem.x0, U)
        residuals = problem.residuals(X, U, solution.multipliers)
        return problem.cost(X, U) + sum((r.multipliers * r.values).sum() for r in residuals)

    gradient, h = np.empty_like(solution.U), 1e-3
    for index in np.ndindex(*solution.U.shape):
        near, far = (np.zeros_like(solution.U) for _ in range(2))
        near[index], far[index] = h, 2.0 * h
        change = 8.0 * (value(solution.U + near) - value(solution.U - near))
        gradient[index] = (change - value(solution.U + far) + value(solution.U - far)) / (12.0 * h)
    return gradient


@pytest.mark.parametrize("field", ["X", "U", "multipliers"])
def test_residuals_of_other_shapes_are_refused(swung, field):
    given = {"X": swung.X, "U": swung.U, "multipliers": swung.multipliers} | {field: [1.0]}
    with pytest.raises(ddp.ProblemError, match=rf"{field}: expected shape .*, got \(1,\)"):
        swung.problem.residuals(**given)


def test_multipliers_make_the_lagrangian_stationary(swung):
    assert np.abs(lagrangian_gradient(swung)).max() <= 1e-6
    assert swung.stationarity() <= 1e-6
    assert np.abs(replace(swung, multipliers=0.5 * swung.multipliers).stationarity()) > 1e-3


def test_the_inner_loop_stays_of_second_order(swing, swung):
    """Once multipliers have settled, an exact round needs no more than two iterations."""
    again = ddp.solve(swing, guess=swung)
    assert again.iterations <= 3
    assert ddp.solve(swing, ddp.ILQR(max_iterations=2000), guess=swung).violation <= 1e-8


def test_solutions_keep_their_multipliers_in_files(swing, swung, tmp_path):
    swung.save(tmp_path / "swing.npz")
    loaded = ddp.Solution.load(tmp_path / "swing.npz", swing)
    np.testing.assert_array_equal(loaded.multipliers, swung.multipliers)
    assert loaded.violation == swung.violation
    assert loaded.stationarity() == swung.stationarity()
    assert ddp.solve(swing, guess=loaded).iterations <= 3
    with pytest.raises(ProblemError, match="multipliers"):
        ddp.Solution.load(tmp_path / "swing.npz", replace(swing, constraints=[]))
    with pytest.raises(ProblemError, match=r"guess\.multipliers"):
        ddp.solve(replace(swing, constraints=[]), guess=loaded)


def test_shifted_solutions_keep_their_multipliers(swing, swung):
    later = swung.shift(2)
    speed, end = swung.residuals()
    moved, kept = later.residuals()
    np.testing.assert_array_equal(moved.multipliers[:-2], speed.multipliers[2:])
    np.testing.assert_array_equal(kept.multipliers, end.multipliers)
    again = ddp.solve(later.problem, guess=later)
    assert again.violation <= 1e-8
    assert again.stationarity() <= 1e-6


def test_derivative_checks_cover_constraints(swing, swung):
    report = ddp.check_derivatives(swing, swung.X, swung.U)
    assert report.ok, str(report)
    names = {check.name for check in report.checks}
    assert {f"constraints[0] (Inequality) {what}" for what in ("Jacobian", "Hessian")} <= names
    wrong = replace(swing, constraints=[ddp.Inequality(lambda x, u: x[1] ** 2, jacobian=lambda x, u: [[0.0, x[1]]])])
    found = {check.name for check in ddp.check_derivatives(wrong, swung.X, swung.U).wrong}
    assert "constraints[0] (Inequality) Jacobian" in found


def test_constraints_of_a_stretch_are_those_of_its_knots():
    wall = ddp.Inequality(lambda x, u: x[1] + 0.1 * u[0], lower=-0.6, upper=np.inf)
    whole = ddp.solve(linear_problem(constraints_at={range(3, 9): [wall]}))
    each = ddp.solve(linear_problem(constraints_at={k: [wall] for k in range(3, 9)}))
    np.testing.assert_allclose(whole.X, each.X, atol=1e-6)
    assert whole.violation < 1e-8
    assert np.abs(whole.multipliers).max() > 1e-3


def test_rollouts_after_another_attempt_are_those_of_a_first_one(swing):
    solver, policy = ddp.DDP(step="rollout"), start_policy(swing, None)
    alone, before = ddp.solve(swing, solver), ddp.solve(swing, ddp.DDP(step="linear", max_iterations=60), throw=False)
    history, goal = [*before.history] * 4, solver.relaxed(swing, None)
    assert len(history) >= 50
    with differentiator(goal, Workers(1)) as work:
        second = descend_from(goal, solver, policy, work, None, Stopwatch(), history)
    assert second.iterations == 4 * before.iterations + alone.iterations
    np.testing.assert_array_equal(second.U, alone.U)


def test_constraints_that_contradict_each_other_are_called_infeasible():
    problem = linear_problem(
        constraints_at={7: [ddp.Equality(lambda x, u: x[0] - 3.0)], 8: [ddp.Inequality(lambda x, u: x[0], upper=2.0)]},
        constraints=[ddp.Inequality(lambda x, u: x[1], lower=-5.0, upper=5.0)],
    )
    with pytest.raises(SolveError, match=r"infeasible.*constraints.*quality\) is violated by .* at knot \d"):
        ddp.solve(problem)
    solution = ddp.solve(problem, throw=False)
    assert not solution.converged
    assert solution.violation > 0.1
    assert solution.iterations < 300


def test_a_start_that_violates_a_constraint_is_named():
    """x0 = (1, 0) is given: nothing is imposed there, and in one step x[0] does not change."""
    beyond, within = (ddp.Inequality(lambda x, u, low=low: x[0], lower=low) for low in (5.0, 0.5))
    solution = ddp.solve(linear_problem(constraints=[beyond, within]), throw=False)
    assert "at knot 1, and by 4 at x0, which is given" in solution.status
    assert [residual.given for residual in solution.residuals()] == [4.0, 0.0]


def test_infinite_numbers_violate_no_bound_on_their_open_side():
    """-log x is infinite at x0 = 0, where nothing is imposed, and bounded from below."""
    system = FunctionDynamics(lambda x, u: x + 0.1 * u, 1, 1)
    low, high = (ddp.Inequality(lambda x, u: -np.log(x[0]), **bound) for bound in ({"lower": -1.0}, {"upper": 9.0}))
    with np.errstate(divide="ignore"):
        problem = ddp.Problem(system, [lambda x, u: u @ u], [], [0.0], 3, constraints=[low, high])
        open_side, beyond = problem.residuals(np.array([[0.0], [1.0], [9.0], [1.0]]), np.zeros((3, 1)), np.zeros(8))
    assert (open_side.given, beyond.given) == (0.0, np.inf)
    np.testing.assert_allclose(open_side.violation.ravel(), [0.0, 0.0, 1.0 - np.log(9.0), 0.0])
    assert not beyond.violation.any()


def test_the_end_out_of_reach_is_named_with_its_knot_and_distance():
    """A linear system of bounded speed, |v| <= 1 over 1.2 s, cannot get from 1 to 5: at best to 2.1."""
    problem = linear_problem(
        constraints=[ddp.Inequality(lambda x, u: x[1], lower=-1.0, upper=1.0)],
        terminal_constraints=[ddp.Equality(position)],
    )
    far = replace(problem, terminal_constraints=[ddp.Equality(lambda x, u: x[0] - 5.0)])
    assert ddp.solve(problem).violation <= 1e-8
    solution = ddp.solve(far, throw=False)
    assert "infeasible" in solution.status
    assert " is violated by " in solution.status
    assert "at knot" in solution.status


def test_what_no_control_can_change_at_the_start_is_not_imposed():
    problem = linear_problem(constraints=[ddp.Inequality(lambda x, u: np.array([x[1] + 0.3, u[0] - 1.0]))])
    solution = ddp.solve(problem)
    assert solution.violation <= 1e-8
    assert solution.X[0, 1] == 0.0
    assert solution.X[1, 1] == pytest.approx(-0.3, abs=1e-8)
    assert not solution.residuals()[0].multipliers[0].any()


@pytest.fixture(scope="module")
def free():
    """The pendulum without any constraint."""
    return ddp.solve(pendulum(), guess=np.zeros((100, 1)))


def test_without_constraints_nothing_is_added(free):
    solution = free
    assert solution.multipliers.size == 0
    assert solution.violation == 0.0
    assert solution.residuals() == ()
    assert "violation" not in str(solution)
    assert {record.penalty for record in solution.history} == {0.0}
    assert solution.problem.allocate().dual.size == 0


def test_a_constraint_that_is_never_reached_costs_no_iteration(free):
    wide = replace(pendulum(), constraints=[ddp.Inequality(torque, lower=-1e3, upper=1e3)])
    solution = ddp.solve(wide, guess=np.zeros((100, 1)))
    rolled = ddp.solve(pendulum(), ddp.DDP(step="rollout"), np.zeros((100, 1)))  # as where constraints are not met yet
    np.testing.assert_array_equal(solution.U, rolled.U)
    np.testing.assert_allclose(solution.U, free.U, rtol=0.0, atol=1e-7)
    assert solution.iterations == rolled.iterations
    assert not solution.multipliers.any()


@pytest.mark.parametrize("limit", [1.0, 0.0])
def test_what_begins_at_its_optimum_ends_there(limit):
    cost = Quadratic(np.array([1.0, 0.1, 0.1]), np.zeros(3))
    held = [ddp.Inequality(lambda x, u: x[0] - limit)]
    rest = ddp.Problem(FunctionDynamics(double_integrator, 2, 1), [cost], [], np.zeros(2), N, constraints=held)
    solution = ddp.solve(rest)
    assert solution.converged
    assert solution.cost == 0.0


class Broken:
    """A constraint that fails somewhere along the way."""

    def __init__(self, how):
        self.how = how

    def __call__(self, x, u):
        if abs(x[0] - 1.0) > 1e-9:
            if self.how == "raises":
                raise ZeroDivisionError("the user's mistake")
            return float("nan")
        return x[0] - 2.0


@pytest.mark.parametrize("solver", [ddp.ILQR(max_regularization=1e-3), ddp.Newton(max_regularization=1e-3)])
def test_constraints_may_be_what_makes_hessians_positive_definite(solver):
    """The first round knows of none, and finds no regularisation that is large enough."""

    class Reward:
        def value(self, x, u):
            return -0.5 * u @ u

        def gradient(self, x, u):
            return np.array([0.0, -u[0]])

        def hessian(self, x, u):
            return np.diag([0.0, -1.0])

    problem = ddp.Problem(
        FunctionDynamics(lambda x, u: x + u, 1, 1), [Reward()], [], [0.0], 1, guess=np.full((1, 1), 0.5),
        terminal_constraints=[ddp.Equality(lambda x, u: x - 1.0)],
    )  # fmt: skip
    solution = ddp.solve(problem, solver)
    assert solution.converged
    np.testing.assert_allclose(solution.U, 1.0, atol=1e-8)


def test_a_constraint_that_fails_is_named_with_its_knot():
    with pytest.raises(ProblemError, match=r"constraints\[0\] \(Inequality\): c raised ZeroDivisionError: .* at knot"):
        ddp.solve(linear_problem(constraints=[ddp.Inequality(Broken("raises"))]), guess=np.ones((N, 1)))
    with pytest.raises(ProblemError, match=r"constraints\[0\] \(Inequality\): .*nan at knot 2"):
        ddp.solve(linear_problem(constraints=[ddp.Inequality(Broken("nan"))]), guess=np.ones((N, 1)))


@pytest.mark.parametrize(
    ("named", "constraints"),
    [
        (r"constraints: expected a list", {"constraints": ddp.Equality(torque)}),
        (r"constraints\[0\].*expected a constraint", {"constraints": [torque]}),
        (r"constraints\[0\].*the class Equality", {"constraints": [ddp.Equality]}),
        (r"constraints_at: expected knots from 0 to 12", {"constraints_at": {13: [ddp.Equality(position)]}}),
        (r"constraints_at: expected ranges of knots", {"constraints_at": {range(3, 14): [ddp.Equality(position)]}}),
        (
            r"constraints_at\[0\]\[0\] \(Equality of position\): .* the given initial state alone in its rows \[0\]",
            {"constraints_at": {0: [ddp.Equality(position)]}},
        ),
        (r"constraints_at: expected a mapping", {"constraints_at": [ddp.Equality(position)]}),
        (r"constraints\[0\].*lower <= upper", {"constraints": [ddp.Inequality(position, lower=1.0, upper=0.5)]}),
        (r"constraints\[0\].*upper: expected shape", {"constraints": [ddp.Inequality(position, upper=np.ones(2))]}),
        (r"constraints\[0\].*c raised IndexError", {"constraints": [ddp.Equality(lambda x, u: x[7])]}),
        (r"constraints\[0\].*one axis", {"constraints": [ddp.Equality(lambda x, u: np.eye(2))]}),
        (r"constraints\[0\].*expected numbers, got .*True", {"constraints": [ddp.Inequality(lambda x, u: x[0] < 9)]}),
        (r"constraints\[0\].*at least one number", {"constraints": [ddp.Equality(lambda x, u: [])]}),
        (r"terminal_constraints\[0\].*there is no control", {"terminal_constraints": [ddp.Equality(torque)]}),
    ],
)
def test_malformed_constraints_are_named(named, constraints):
    with pytest.raises(ProblemError, match=named):
        linear_problem(**constraints)


@pytest.mark.parametrize(
    ("named", "make"),
    [
        ("function", lambda: ddp.Equality(3.0)),
        ("jacobian: .* got 1.0; bounds are lower=, upper=", lambda: ddp.Inequality(torque, 1.0)),
        (r"constraints\.tolerance", lambda: ddp.AugmentedLagrangian(tolerance=0.0)),
        (r"constraints\.penalty", lambda: ddp.AugmentedLagrangian(penalty=1e9, max_penalty=1.0)),
        (r"constraints\.rounds", lambda: ddp.AugmentedLagrangian(rounds=0)),
        (r"constraints: expected AugmentedLagrangian", lambda: ddp.DDP(constraints=1e-8)),
    ],
)
def test_malformed_options_are_named(named, make):
    with pytest.raises(ProblemError, match=named):
        make()


def test_a_given_jacobian_of_the_wrong_shape_is_named():
    wrong = ddp.Inequality(position, jacobian=lambda x, u: np.ones((2, 2)), upper=0.5)
    with pytest.raises(ProblemError, match=r"constraints\[0\].*jacobian: expected shape \(1, 3\)"):
        ddp.solve(linear_problem(constraints=[wrong]))


@pytest.mark.parametrize("kind", [ddp.Inequality, ddp.JittedConstraint])
def test_bounds_are_copies_that_cannot_be_written_on(kind):
    for upper in (np.array([0.3]), np.array(0.3)):
        constraint = kind(position, lower=[-1.0], upper=upper)
        upper[...] = 0.2
        assert constraint.upper == 0.3
    for bound in (constraint.lower, constraint.upper):
        with pytest.raises(ValueError, match="read-only"):
            bound[:] = 0.1
