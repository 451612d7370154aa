"""Derivatives nobody wrote: of NumPy functions as dynamics, and of a user's cost."""

import math

import numpy as np
import pytest
from systems import Arrive, Swing, cartpole_step, pendulum, pendulum_step, user_pendulum

import ddp
from ddp import differences
from ddp.terms import DerivedTerm, positive_part
from dynamics.function_dynamics import FunctionDynamics


def pendulum_derivatives(x, u):
    """A, B and the Hessian of the pendulum's second state, by hand."""
    dt, g = 0.03, 9.81
    slope, bend = -dt * g * np.cos(x[0]), dt * g * np.sin(x[0])
    A = np.array([[1.0 + dt * slope, dt], [slope, 1.0]])
    return A, np.array([[dt * dt], [dt]]), bend


def real_pendulum_step(x, u):
    """The same, but nothing in it takes complex numbers."""
    speed = float(x[1]) + 0.03 * (float(u[0]) - 9.81 * math.sin(x[0]))
    return np.array([float(x[0]) + 0.03 * speed, speed])


@pytest.mark.parametrize(
    ("f", "first", "second"), [(pendulum_step, 1e-14, 1e-11), (real_pendulum_step, 1e-11, 1e-8)]
)
def test_derivatives_of_a_function_are_exact_whether_or_not_it_takes_complex_numbers(rng, f, first, second):
    dynamics = FunctionDynamics(f, 2, 1)
    for _ in range(5):
        x, u, w = rng.normal(size=2), rng.normal(size=1), rng.normal(size=2)
        A, B, bend = pendulum_derivatives(x, u)
        np.testing.assert_allclose(dynamics.linearize(x, u)[0], A, rtol=0, atol=first)
        np.testing.assert_allclose(dynamics.linearize(x, u)[1], B, rtol=0, atol=first)
        H = dynamics.hessian(x, u, w)
        expected = np.zeros((3, 3))
        expected[0, 0] = bend * (0.03 * w[0] + w[1])
        np.testing.assert_allclose(H, expected, rtol=0, atol=second)
        assert np.array_equal(H, H.T)


@pytest.mark.parametrize(
    "f",
    [
        lambda z: np.array([np.abs(z[0] - 2.0) * z[1]]),  # complex step: derivative zero, without a sound
        lambda z: np.array([np.real(z[0]) * z[1]]),
        lambda z: np.array([np.hypot(float(np.real(z[0])), 1.0) * z[1]]),
        lambda z: np.array([math.atan2(z[0], z[1])]),
    ],
)
def test_a_function_that_complex_numbers_would_fool_gets_real_differences(f):
    z = np.array([0.3, 0.7])
    J, analytic = differences.jacobian(f, z)
    assert not analytic
    h = 1e-6
    central = [(f(z + h * e) - f(z - h * e)) / (2 * h) for e in np.eye(2)]
    np.testing.assert_allclose(J, np.stack(central, axis=-1), rtol=0, atol=1e-8)


def test_the_batched_calls_of_a_function_are_its_single_ones(rng):
    dynamics = FunctionDynamics(cartpole_step, 4, 1)
    X, U = rng.normal(size=(6, 4)), rng.normal(size=(6, 1))
    assert np.array_equal(dynamics.step(X, U), [cartpole_step(*knot) for knot in zip(X, U, strict=True)])
    states = dynamics.rollout(X[0], U)
    assert np.array_equal(states[1:], dynamics.step(states[:-1], U))


def test_a_divergent_rollout_is_not_a_number_from_there_on():
    dynamics = FunctionDynamics(lambda x, u: np.array([math.exp(x[0])]), 1, 1)
    X = dynamics.rollout(np.ones(1), np.zeros((10, 1)))
    assert np.isfinite(X[:4]).all()
    assert np.isnan(X[4:]).all()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((None, 2, 1), ddp.ProblemError, "f: expected a function"),
        ((pendulum_step, 0, 1), ddp.ProblemError, "nx: .* at least 1"),
        ((pendulum_step, 2, 1, 0.0), ddp.ProblemError, "dt: expected a positive number"),
        ((lambda x, u: x[:1], 2, 1), ddp.ModelError, r"f: expected a next state of shape \(2,\), got \(1,\)"),
        ((lambda x, u: x[7], 2, 1), ddp.ModelError, "f: raised IndexError"),
        ((lambda x, u: np.array(["a", "b"]), 2, 1), ddp.ModelError, "f: expected a next state of numbers"),
    ],
)
def test_malformed_functions_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        FunctionDynamics(*arguments)


def expansion(term, x, u, exact=True):
    out = np.zeros(1), np.zeros((1, 3)), np.zeros((1, 3, 3))
    DerivedTerm(term, FunctionDynamics(pendulum_step, 2, 1)).expand(x[None], u[None], 2.0, exact, *out)
    return [part[0] / 2.0 for part in out]


class Rough(Swing):
    """A cost that does not take complex numbers."""

    def value(self, x, u):
        return float(math.cos(x[0]) * u[0] + x[1] ** 4)


def test_a_cost_that_is_only_a_value_gets_its_derivatives(rng):
    x, u = rng.normal(size=2), rng.normal(size=1)
    value, gradient, hessian = expansion(Swing(), x, u)
    assert value == Swing().value(x, u)
    np.testing.assert_allclose(gradient, [0.1 * (x[0] - np.pi), 0.01 * x[1], 0.1 * u[0]], rtol=0, atol=1e-14)
    np.testing.assert_allclose(hessian, np.diag([0.1, 0.01, 0.1]), rtol=0, atol=1e-11)
    _, gradient, hessian = expansion(Rough(), x, u)
    s, c = np.sin(x[0]), np.cos(x[0])
    np.testing.assert_allclose(gradient, [-s * u[0], 4 * x[1] ** 3, c], rtol=0, atol=1e-10)
    np.testing.assert_allclose(
        hessian, [[-c * u[0], 0, -s], [0, 12 * x[1] ** 2, 0], [-s, 0, 0]], rtol=0, atol=1e-8
    )


def test_a_cost_with_a_gradient_in_the_state_alone_gets_its_hessian(rng):
    x, u = rng.normal(size=2), rng.normal(size=1)
    _, gradient, hessian = expansion(Arrive(), x, u)
    assert gradient[2] == 0.0
    np.testing.assert_allclose(hessian, np.diag([1000.0, 1000.0, 0.0]), rtol=0, atol=1e-8)


def test_the_gauss_newton_hessian_of_a_users_cost_is_positive_semidefinite():
    x, u = np.array([1.0, 0.5]), np.array([1.0])
    exact, convex = expansion(Rough(), x, u)[2], expansion(Rough(), x, u, exact=False)[2]
    assert np.linalg.eigvalsh(exact)[0] < -0.1
    assert np.linalg.eigvalsh(convex)[0] > -1e-12
    np.testing.assert_allclose(convex - exact, positive_part(-exact), rtol=0, atol=1e-12)


def test_a_users_cost_solves_like_the_built_in_one():
    mine, theirs = ddp.solve(user_pendulum()), ddp.solve(pendulum())
    assert mine.cost == pytest.approx(theirs.cost, rel=1e-12)
    assert mine.iterations == theirs.iterations
    np.testing.assert_allclose(mine.K, theirs.K, rtol=0, atol=1e-5)


def test_a_function_may_write_on_its_arguments_and_reuse_its_result():
    result = np.zeros(2)

    def careless(x, u):
        x[1] += 0.03 * (u[0] - 9.81 * np.sin(x[0]))
        x[0] += 0.03 * x[1]
        if np.iscomplexobj(x):
            return x
        result[:] = x
        return result

    U = np.random.default_rng(3).normal(size=(20, 1))
    mine, theirs = FunctionDynamics(careless, 2, 1), FunctionDynamics(pendulum_step, 2, 1)
    np.testing.assert_allclose(mine.rollout(np.ones(2), U), theirs.rollout(np.ones(2), U), rtol=1e-14)
    assert np.array_equal(mine.linearize(np.ones(2), U[0])[0], theirs.linearize(np.ones(2), U[0])[0])


def test_a_cost_that_is_changed_between_solves_is_not_remembered():
    class Heavy(Swing):
        weight = 1.0

        def value(self, x, u):
            return self.weight * super().value(x, u)

    term = Heavy()
    problem = ddp.Problem(FunctionDynamics(pendulum_step, 2, 1, dt=0.03), [term], [Arrive()], np.zeros(2), 20)
    ddp.solve(problem, ddp.DDP(max_iterations=1), throw=False)
    term.weight = 100.0
    changed = ddp.solve(problem, ddp.DDP(max_iterations=1), throw=False)
    fresh = ddp.Problem(problem.dynamics, [term], [Arrive()], np.zeros(2), 20)
    assert np.array_equal(changed.U, ddp.solve(fresh, ddp.DDP(max_iterations=1), throw=False).U)
