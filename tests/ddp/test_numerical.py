"""Derivatives nobody wrote: of NumPy functions as dynamics, and of a user's cost."""

import math

import numpy as np
import pytest
from systems import Arrive, Swing, cartpole_step, pendulum, pendulum_step, user_pendulum

import ddp
from ddp import differences
from ddp.costs.terms import DerivedTerm, positive_part
from ddp.machine import algebra
from ddp.tracing.undefined import is_undefined
from dynamics.steps.function_dynamics import FunctionDynamics


def pendulum_derivatives(x, u):
    """A, B and the Hessian of the pendulum's second state, by hand."""
    dt, g = 0.03, 9.81
    slope, bend = -dt * g * np.cos(x[0]), dt * g * np.sin(x[0])
    A = np.array([[1.0 + dt * slope, dt], [slope, 1.0]])
    return A, np.array([[dt * dt], [dt]]), bend


def real_pendulum_step(x, u):
    """A step of which nothing takes complex numbers."""
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
    h = 1e-6
    central = [(f(z + h * e) - f(z - h * e)) / (2 * h) for e in np.eye(2)]
    for J in (differences.jacobian(f, z), differences.second_order(f, z)[0]):
        np.testing.assert_allclose(J, np.stack(central, axis=-1), rtol=0, atol=1e-8)


@pytest.mark.parametrize("number", [lambda z: z, float])
@pytest.mark.parametrize("scale", [1.0, 3.7, 1e9])
def test_curvature_that_is_rounding_alone_is_zero(number, scale):
    """The fourth power cancels in every second difference about zero, but for rounding of either sign."""
    _, H = differences.second_order(lambda z: scale * (number(z[0]) ** 4 + number(z[1]) ** 4), np.zeros(2))
    np.testing.assert_array_equal(H, np.zeros((2, 2)))


def squares(norm):
    """A sum of squares of z (3,) whose last part, far lighter than the others, is taken in some way."""
    return lambda z: 1e3 * z[0] ** 2 + z[1] ** 2 + 1e-3 * norm(z[2:])


@pytest.mark.parametrize(
    "norm",
    [
        lambda r: np.linalg.norm(r) ** 2,
        lambda r: np.abs(r[0]) ** 2,
        lambda r: np.vdot(r, r),
        lambda r: np.real(r[0]) ** 2,
        lambda r: r @ r,
    ],
)
@pytest.mark.parametrize("u", [0.0, 1e-7, 0.1, 1.0])
def test_a_square_by_any_name_has_its_curvature_wherever_it_is(norm, u):
    z = np.array([0.0, 1.0, u])
    gradient, hessian = differences.second_order(squares(norm), z)
    np.testing.assert_allclose(gradient, [0.0, 2.0, 2e-3 * u], rtol=0, atol=1e-10)
    np.testing.assert_allclose(hessian, np.diag([2e3, 2.0, 2e-3]), rtol=1e-9, atol=1e-7)


@pytest.mark.parametrize(
    "square", [lambda u: np.linalg.norm(u) ** 2, lambda u: np.abs(u[0]) ** 2, lambda u: np.vdot(u, u)]
)
def test_a_cost_written_with_a_norm_has_its_curvature_at_rest(square):
    class Effort:
        def value(self, x, u):
            return x @ x + 0.1 * square(u)

    _, gradient, hessian = expansion(Effort(), np.zeros(2), np.zeros(1))
    assert np.abs(gradient).max() < 1e-12
    np.testing.assert_allclose(hessian, np.diag([2.0, 2.0, 0.2]), rtol=0, atol=1e-9)


def test_mixed_curvature_that_conjugation_turns_around_is_found():
    f = FunctionDynamics(lambda x, u: np.array([x[0], np.vdot(x[0], u[0])]), 2, 1)
    expected = np.zeros((3, 3))
    expected[0, 2] = expected[2, 0] = 1.0
    np.testing.assert_allclose(f.hessian(np.zeros(2), np.zeros(1), np.array([0.0, 1.0])), expected, rtol=0, atol=1e-9)


def test_the_hessian_of_a_function_with_a_norm_is_right_at_rest():
    def drag(x, u):
        return np.array([x[0] + 0.1 * x[1], x[1] + 0.1 * u[0] + 0.5 * np.linalg.norm(x) ** 2])

    H = FunctionDynamics(drag, 2, 1).hessian(np.zeros(2), np.zeros(1), np.array([0.0, 1.0]))
    np.testing.assert_allclose(H, np.diag([1.0, 1.0, 0.0]), rtol=0, atol=1e-9)


def test_a_function_is_differentiated_at_the_edge_of_its_domain():
    x = np.array([1e-4])
    with np.errstate(invalid="ignore"):
        A, _ = FunctionDynamics(lambda x, u: np.sqrt(x), 1, 1).linearize(x, np.zeros(1))
    assert A[0, 0] == pytest.approx(0.5 / np.sqrt(x[0]), rel=1e-12)


def test_the_batched_calls_of_a_function_are_its_single_ones(rng):
    dynamics = FunctionDynamics(cartpole_step, 4, 1)
    X, U = rng.normal(size=(6, 4)), rng.normal(size=(6, 1))
    steps = dynamics.step(X, U)
    assert np.array_equal(steps, [dynamics.step(*knot) for knot in zip(X, U, strict=True)])
    called = FunctionDynamics(cartpole_step, 4, 1, derivatives="differences").step(X, U)
    assert np.array_equal(called, [cartpole_step(*knot) for knot in zip(X, U, strict=True)])
    np.testing.assert_allclose(steps, called, rtol=1e-14, atol=1e-14)  # sines of its own, and contracted products
    states = dynamics.rollout(X[0], U)
    assert np.array_equal(states[1:], dynamics.step(states[:-1], U))


def test_a_divergent_rollout_is_not_a_number_from_there_on():
    dynamics = FunctionDynamics(lambda x, u: np.array([math.exp(x[0])]), 1, 1)
    X = dynamics.rollout(np.ones(1), np.zeros((10, 1)))
    assert np.isfinite(X[:4]).all()
    assert np.isnan(X[4:]).all()


@pytest.mark.parametrize(
    "f",
    [
        lambda x, u: np.array([math.log(x[0])]),
        lambda x, u: np.array([1.0 / float(x[0])]),
        lambda x, u: np.linalg.solve(np.diag(x), x),
    ],
)
def test_a_function_need_not_be_defined_at_zero(f):
    assert np.isfinite(FunctionDynamics(f, 1, 1).step(np.ones(1), np.zeros(1))).all()


@pytest.mark.parametrize(
    ("function", "at", "undefined"),
    [
        *((f, 0.0, True) for f in (math.log, math.log2, math.log10, math.gamma, math.lgamma)),
        *((f, -1.0, True) for f in (math.sqrt, math.log1p, math.log)),
        *((f, 1.5, True) for f in (math.asin, math.acos, math.atanh, lambda x: math.acosh(1 / x))),
        *((f, math.inf, True) for f in (math.sin, math.cos, math.tan, lambda x: math.fmod(x, 1))),
        (lambda x: math.pow(x, -1.0), 0.0, True),
        (lambda x: np.ones(3).reshape(2, 2), 0.0, False),
        (lambda x: float("one"), 0.0, False),
        (lambda x: math.dist([x], [x, x]), 0.0, False),
    ],
)
def test_functions_of_math_tell_where_they_have_no_value(function, at, undefined):
    with pytest.raises(ValueError, match=r".") as told:  # its words are others since Python 3.14
        function(at)
    assert is_undefined(told.value) == undefined


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d: d.step(np.zeros((3, 2)), np.zeros((2, 1))), r"u: expected shape \(3, 1\), got \(2, 1\)"),
        (lambda d: d.step(np.zeros((3, 4)), np.zeros((3, 1))), r"x: expected rows of 2 numbers, got \(3, 4\)"),
        (lambda d: d.step(1.0, np.zeros(1)), "x: expected rows of 2 numbers, got one number"),
        (lambda d: d.difference(np.zeros(2), np.zeros(3)), r"x1, x0: expected numbers of shape .* got \(3,\), \(2,\)"),
        (lambda d: d.difference(np.zeros((3, 2)), np.zeros((2, 2))), "x1, x0: expected numbers"),
        (lambda d: d.integrate(np.zeros(2), "ab"), "x, dx: expected numbers"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(call, message):
    with pytest.raises(ddp.ProblemError, match=message):
        call(FunctionDynamics(pendulum_step, 2, 1))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((None, 2, 1), ddp.ProblemError, "f: expected a function"),
        ((pendulum_step, 0, 1), ddp.ProblemError, "nx: .* at least 1"),
        ((pendulum_step, 2, 1, 0.0), ddp.ProblemError, "dt: expected a positive number"),
        ((lambda x, u: x[:1], 2, 1), ddp.ModelError, r"f: expected a next state of shape \(2,\), got \(1,\)"),
        ((lambda x, u: 1 / 0, 2, 1), ddp.ModelError, "f: raised ZeroDivisionError: division by zero"),
        ((lambda x, u: x[7], 2, 1), ddp.ModelError, "f: raised IndexError"),
        ((lambda x, u: np.array([1j, 0.0]), 2, 1), ddp.ModelError, "f: .* real numbers, got complex128"),
        ((lambda x, u: np.array(["a", "b"]), 2, 1), ddp.ModelError, "f: expected a next state of real numbers"),
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
    np.testing.assert_allclose(convex - exact, positive_part(-exact[None])[0], rtol=0, atol=1e-12)
    broken = np.stack([exact, np.full((3, 3), np.nan)])
    assert np.array_equal(np.isnan(positive_part(broken)).any(axis=(1, 2)), [False, True])


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


@pytest.mark.parametrize("n", [1, 2, 6, 18])
def test_rotations_find_the_positive_part_that_eigenvalues_do(rng, n):
    full = rng.normal(size=(n, n))
    graded = full * np.outer(*[10.0 ** rng.uniform(-4.0, 4.0, n)] * 2)
    low = full[:, : n // 2] @ full[: n // 2] * 1e140
    for M in (full, graded, low, np.diag(full[0]), np.zeros((n, n)), -np.eye(n)):
        H = M + M.T
        expected, size = positive_part(H[None])[0], np.abs(H).max()
        algebra.positive_part(H)
        np.testing.assert_allclose(H, expected, rtol=0, atol=1e-13 * size)
    for bad in (np.nan, np.inf):
        H = np.eye(n)
        H[-1, 0] = H[0, -1] = bad
        algebra.positive_part(H)
        assert np.isnan(H).all()
