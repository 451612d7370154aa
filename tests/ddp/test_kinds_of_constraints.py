"""Kinds of constraints: functions of users, traced or not, soft ones, compiled ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from thorough import cases

import ddp
from ddp.errors import ProblemError
from tests.ddp.systems import Quadratic
from tests.ddp.test_constraints import N, dense, linear_problem, torque


@pytest.mark.parametrize("derivatives", ["traced", "differences"])
def test_what_no_control_enters_holds_at_the_end_too(derivatives):
    """Also one row of several of a traced function; not where it is asked not to."""
    drift = ddp.Inequality(lambda x, u: x[1], lower=-0.2, upper=0.2, derivatives=derivatives)
    cost = Quadratic(np.array([0.0, 0.0, 0.1]), np.zeros(3))
    pull = Quadratic(np.array([0.0, 50.0, 0.0]), np.array([0.0, 1.0, 0.0]))
    plain = replace(linear_problem(constraints=[drift]), running=[cost], terminal=[pull])
    held, free = ddp.solve(plain), ddp.solve(replace(plain, constraints=[replace(drift, at_end=False)]))
    assert held.X[-1, 1] <= 0.2 + 1e-8 < free.X[-1, 1]
    assert held.residuals()[0].knots == range(N + 1)
    assert free.residuals()[0].knots == range(N)
    both = ddp.Inequality(lambda x, u: np.array([u[0], x[1]]), upper=[9.0, 0.2], derivatives=derivatives)
    (residual,) = ddp.solve(replace(plain, constraints=[both])).residuals()
    if derivatives == "traced":
        assert residual.knots == range(N + 1)
        assert residual.worst <= 1e-8
    else:
        assert residual.knots == range(N)


@pytest.mark.parametrize("kind", [ddp.Inequality, ddp.JittedConstraint])
@pytest.mark.parametrize(("bounds", "held"), [
    ({}, (-np.inf, 0.0)), ({"lower": [-np.inf]}, (-np.inf, 0.0)), ({"lower": -0.2}, (-0.2, np.inf)),
    ({"upper": 0.2}, (-np.inf, 0.2)),
    ({"lower": [-0.2]}, (-0.2, np.inf)), ({"lower": -0.2, "upper": 0.0}, (-0.2, 0.0)),
])  # fmt: skip
def test_a_bound_alone_leaves_the_other_side_free(kind, bounds, held):
    (placed,) = linear_problem(constraints=[kind(lambda x, u: x[1], **bounds)]).placed
    assert (placed.lower[1:] == held[0]).all()  # at x0 it holds or not
    assert (placed.upper[1:] == held[1]).all()


SOFT = [
    (norm, price, derivatives)
    for norm, price in (("L1", 3.0), ("L1", 100.0), ("L2", 3.0), ("L2", 40.0))
    for derivatives in ("traced", "differences")
]


@pytest.mark.parametrize(
    ("norm", "price", "derivatives"), cases(SOFT, [("L1", 3.0, "traced"), ("L2", 3.0, "differences")])
)
def test_soft_constraints_cost_what_they_are_violated_by(norm, price, derivatives):
    """Against the same problem in slack variables, solved by scipy; |v| and v² weigh by time among running ones."""
    slow = ddp.Inequality(lambda x, u: -0.15 - x[1], derivatives=derivatives)
    problem = linear_problem(
        constraints=[ddp.Soft(slow, price, norm)], terminal_constraints=[ddp.Equality(lambda x, u: x[0] - 0.7)]
    )
    solution = ddp.solve(problem)
    a, S, H, g = dense(problem)
    weights = price * np.append(np.full(N - 1, 0.1), 1.0)
    v_of, W = [*range(1, N + 1)], np.diag(weights)
    ends = {
        "type": "eq", "fun": lambda z: a[N][0] + S[N][0] @ z[:N] - 0.7,
        "jac": lambda z: np.append(S[N][0], np.zeros(N)),
    }  # fmt: skip
    rows = np.hstack([S[v_of, 1], np.eye(N)])
    slack = {"type": "ineq", "fun": lambda z: 0.15 + a[v_of, 1] + rows @ z, "jac": lambda z: rows}

    def cost(z):
        U, v = z[:N], z[N:]
        return 0.5 * U @ H @ U + g @ U + (weights @ v if norm == "L1" else 0.5 * v @ W @ v)

    def slope(z):
        return np.append(H @ z[:N] + g, weights if norm == "L1" else W @ z[N:])

    starts = np.append(solution.U[:, 0], np.ones(N)), np.append(np.zeros(N), 0.1 * np.ones(N)), np.ones(2 * N)
    found = min(  # its line searches end early from some
        (
            minimize(
                cost, z, jac=slope, method="SLSQP", constraints=[ends, slack],
                bounds=[(None, None)] * N + [(0, None)] * N, options={"ftol": 1e-15, "maxiter": 1000},
            )
            for z in starts
        ),
        key=lambda one: one.fun if abs(ends["fun"](one.x)) < 1e-9 and slack["fun"](one.x).min() > -1e-8 else np.inf,
    )  # fmt: skip
    violation = solution.residuals()[0].violation[1:, 0]
    free = replace(problem, constraints=[], terminal_constraints=[])
    at_rest = cost(np.zeros(2 * N)) - free.cost(a, np.zeros((N, 1)))
    assert solution.cost + at_rest == pytest.approx(cost(np.append(solution.U[:, 0], violation)), rel=1e-9)
    shares = dict(solution.explain().shares)
    assert sum(shares.values()) == pytest.approx(solution.cost, rel=1e-12)
    ours = cost(np.append(solution.U[:, 0], violation))
    assert ours == pytest.approx(found.fun, rel=1e-6)
    assert ours < found.fun + 1e-7  # violations of 1e-8 at prices of 10
    np.testing.assert_allclose(solution.U[:, 0], found.x[:N], atol=1e-3)
    assert violation.max() > 1e-3 or (norm, price) == ("L1", 100.0)
    assert solution.violation <= 1e-8
    assert solution.converged


@pytest.mark.parametrize(("make", "words"), [
    (lambda: ddp.Soft(ddp.Inequality(torque), 0.0), "price: expected positive numbers"),
    (lambda: ddp.Soft(ddp.Inequality(torque), 1.0, "L3"), "norm: unknown 'L3'"),
    (lambda: ddp.Soft(None, 1.0), "constraint: expected a constraint, got None"),
    (lambda: linear_problem(constraints=[ddp.Soft(ddp.Inequality(torque), [1.0, 2.0])]), "price: expected a number or"),
    (lambda: linear_problem(constraints=[ddp.Soft(3.0, 1.0)]), r"constraints\[0\] .*expected a constraint"),
])  # fmt: skip
def test_malformed_soft_constraints_are_named(make, words):
    with pytest.raises(ProblemError, match=words):
        make()


def bump(x, u):
    return np.array([x[0] * u[0], np.sin(x[1]) - u[0] ** 2])


def bump_jacobian(x, u):
    return np.array([[u[0], 0.0, x[0]], [0.0, np.cos(x[1]), -2.0 * u[0]]])


def bump_hessian(x, u, weight):
    return np.array([
        [0.0, 0.0, weight[0]], [0.0, -weight[1] * np.sin(x[1]), 0.0], [weight[0], 0.0, -2.0 * weight[1]],
    ])  # fmt: skip


@pytest.mark.parametrize("given", [(), (bump_jacobian,), (bump_jacobian, bump_hessian)])
def test_jitted_constraints_are_those_of_their_functions(given):
    jitted = linear_problem(constraints=[ddp.JittedConstraint(bump, *given, upper=[0.2, 0.5])])
    traced = linear_problem(constraints=[ddp.Inequality(bump, upper=[0.2, 0.5])])
    rng = np.random.default_rng(6)
    X, U, y = rng.normal(size=(N + 1, 2)), rng.normal(size=(N, 1)), rng.normal(size=2 * N)
    found = []
    for problem in (jitted, traced):
        rows, lz, H = problem.rows, np.zeros((N + 1, 3)), np.zeros((N + 1, 3, 3))
        rows.add_forces(rows.jacobian(X, U), y, lz)
        rows.add_curvature(X, U, y, H)
        found.append((rows.values(X, U), lz, H))
    for ours, theirs, tolerance in zip(*found, (1e-15, 1e-10, 1e-8), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=tolerance)
    assert ddp.solve(jitted).cost == pytest.approx(ddp.solve(traced).cost, rel=1e-8)


@pytest.mark.parametrize(("make", "words"), [
    (lambda: ddp.JittedConstraint(3.0), "function: expected a function of x and u that numba can compile, got 3.0"),
    (lambda: ddp.JittedConstraint(bump, None, bump_hessian), "jacobian: expected a function of x and u beside hessian"),
    (lambda: ddp.JittedConstraint(bump, at_end=None), "at_end: expected True or False"),
    (lambda: linear_problem(constraints=[ddp.JittedConstraint(bump, bump)]), r"jacobian: expected shape \(2, 3\)"),
    (lambda: linear_problem(constraints=[ddp.JittedConstraint(bump, upper=[1.0])]), "upper: expected shape"),
])  # fmt: skip
def test_malformed_jitted_constraints_are_named(make, words):
    with pytest.raises(ProblemError, match=words):
        make()


@pytest.mark.parametrize("kind", [ddp.Inequality, ddp.JittedConstraint])
def test_bounds_that_are_lists_vary_as_arrays_do(kind):
    problem = linear_problem(constraints=[kind(bump, lower=(-9.0, -9.0), upper=[0.2, 0.5])])
    fresh = linear_problem(constraints=[kind(bump, lower=[-9.0, -9.0], upper=[0.1, 0.4])])
    varied = problem.varying({"constraints[0].upper": [0.1, 0.4]})
    assert ddp.solve(varied).cost == ddp.solve(fresh).cost
    assert problem.number("lower").tolist() == [-9.0, -9.0]
