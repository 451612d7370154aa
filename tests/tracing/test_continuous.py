"""Systems in continuous time: orders of their steps, derivatives through them, and the built-in systems by hand."""

import pickle
import re

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from thorough import cases

import ddp
from ddp.tracing.groups import SO3, Euclidean
from dynamics import ContinuousDynamics, FunctionDynamics, augment
from tests.ddp.systems import Quadratic
from tests.oracles import contract_rows, fourth_order


def pendulum(x, u):
    return [x[1], u[0] - 9.81 * np.sin(x[0]) - 0.1 * x[1] ** 3]


EXPLICIT = {"euler": 1, "semi-implicit-euler": 1, "rk4": 4}
IMPLICIT = {"implicit-euler": 1, "implicit-midpoint": 2, "sdirk2": 2}


@pytest.mark.parametrize(("integrator", "order"), [*EXPLICIT.items(), *IMPLICIT.items()])
def test_steps_have_their_order(integrator, order):
    x0, u = np.array([0.4, -0.2]), np.array([0.7])
    exact = solve_ivp(lambda t, x: pendulum(x, u), (0.0, 0.8), x0, rtol=1e-12, atol=1e-13).y[:, -1]

    def error(steps):
        system = ContinuousDynamics(pendulum, 2, 1, 0.8 / steps, integrator)
        return np.abs(system.rollout(x0, np.tile(u, (steps, 1)))[-1] - exact).max()

    assert np.log2(error(80) / error(160)) == pytest.approx(order, abs=0.2)


@pytest.mark.parametrize("integrator", EXPLICIT)
def test_derivatives_go_through_steps(integrator, rng):
    traced, called = (
        ContinuousDynamics(pendulum, 2, 1, 0.1, integrator, 2, derivatives=how) for how in ("traced", "differences")
    )
    for _ in range(3):
        x, u, w = rng.normal(size=2), rng.normal(size=1), rng.normal(size=2)
        np.testing.assert_allclose(traced.step(x, u), called.step(x, u), rtol=1e-14)
        for found, expected in zip(traced.linearize(x, u), called.linearize(x, u), strict=True):
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14)
        np.testing.assert_allclose(traced.hessian(x, u, w), called.hessian(x, u, w), rtol=0, atol=1e-10)


def tumbling(x, u):
    """A body's attitude (x y z w), angular velocity, and what heats up when it is turned."""
    w = x[4:7]
    J = np.array([1.0, 2.0, 3.0])
    alpha = (u - np.cross(w, J * w) - 0.3 * w * np.sqrt(1.0 + w @ w)) / J
    return np.concatenate([w, alpha, [np.tanh(u @ u) - x[7] ** 3]])


@pytest.mark.parametrize("integrator", IMPLICIT)
def test_implicit_steps_are_exact_to_second_order_on_spaces(integrator, rng):
    state = [SO3(), Euclidean(3), Euclidean(1)]
    system = ContinuousDynamics(tumbling, 8, 3, 0.3, integrator, 2, state)
    for _ in range(3):
        x, u, w = system.space.random(rng), rng.normal(size=3), rng.normal(size=7)
        after = system.step(x, u)

        def deviation(z, x=x, u=u, after=after):
            return system.difference(after, system.step(system.integrate(x, z[:7]), u + z[7:]))

        truth = np.stack([fourth_order(lambda s, e=e, f=deviation: f(s * e)) for e in np.eye(10)], axis=-1)
        A, B = system.linearize(x, u)
        np.testing.assert_allclose(np.hstack([A, B]), truth, rtol=0, atol=1e-10)
        H, d, h = system.hessian(x, u, w), rng.normal(size=10), 2e-3
        near, far = deviation(h * d) + deviation(-h * d), deviation(2 * h * d) + deviation(-2 * h * d)
        second = w @ (16 * near - far) / (12 * h * h)
        assert d @ H @ d == pytest.approx(second, abs=1e-7)
        alone, one = np.empty((10, 10)), system.contraction()
        contract_rows(one.address, one.context, np.concatenate([x, u])[None], w[None], alone[None])
        np.testing.assert_allclose(alone, H, rtol=0, atol=1e-14)


def stiff(x, u, p):
    return np.array([-p[0] * (x[0] - np.cos(x[1])), u[0]])


@pytest.mark.parametrize("integrator", IMPLICIT)
def test_stiff_systems_take_steps_that_explicit_ones_cannot(integrator):
    system = ContinuousDynamics(stiff, 2, 1, 0.1, integrator, parameters=[1e3])
    goal = Quadratic(np.array([1.0, 1.0, 0.01]), np.array([0.5, 1.0, 0.0]))
    problem = ddp.Problem(system, [goal], [goal], np.zeros(2), 20)
    solution = ddp.solve(problem)
    assert solution.converged
    assert ddp.check_derivatives(problem, solution.X, solution.U).ok
    X = system.rollout(np.zeros(2), solution.U)
    if integrator != "implicit-midpoint":  # which is not damped where it is stiff
        np.testing.assert_allclose(X[2:, 0], np.cos(X[2:, 1]), atol=0.05)
    other = system.varied(parameters=[1.0])
    assert np.abs(other.rollout(np.zeros(2), solution.U) - X).max() > 0.1
    there = pickle.loads(pickle.dumps(system))
    assert np.array_equal(there.rollout(np.zeros(2), solution.U), X)


def test_parameters_of_implicit_steps_are_states_where_that_is_asked_for(rng):
    system = ContinuousDynamics(stiff, 2, 1, 0.1, "sdirk2", parameters=[3.0])
    whole = augment.parameters(system)
    x, u, h = rng.normal(size=2), rng.normal(size=1), 1e-4
    np.testing.assert_allclose(whole.step([*x, 3.0], u), [*system.step(x, u), 3.0], rtol=1e-13)
    more, less = (system.varied(parameters=[3.0 + s]).step(x, u) for s in (h, -h))
    slope = whole.linearize(np.array([*x, 3.0]), u)[0][:2, 2]
    np.testing.assert_allclose(slope, (more - less) / (2 * h), rtol=0, atol=1e-8)


def test_implicit_steps_that_do_not_exist_are_no_numbers():
    system = ContinuousDynamics(lambda x, u: 1.0 + x * x + 0.0 * u, 1, 1, 1.0, "implicit-euler")  # k = 1 + (x + k)²
    assert np.isnan(system.traced.values(np.zeros((1, 1)), np.zeros((1, 1)))).all()
    assert np.isnan(system.rollout(np.zeros(1), np.zeros((2, 1)))[1:]).all()


def test_two_parts_of_a_step_are_two_steps():
    whole, half = ContinuousDynamics(pendulum, 2, 1, 0.1, substeps=2), ContinuousDynamics(pendulum, 2, 1, 0.05)
    x, u = np.array([0.4, -0.2]), np.array([0.7])
    np.testing.assert_allclose(whole.step(x, u), half.step(half.step(x, u), u), rtol=1e-15)


def test_a_system_in_continuous_time_solves_and_crosses_processes():
    goal = Quadratic(np.array([1.0, 0.1, 0.01]), np.array([np.pi, 0.0, 0.0]))
    system = ContinuousDynamics(damped, 2, 1, 0.05, parameters=[9.81, 0.1])
    problem = ddp.Problem(system, [goal], [goal], np.zeros(2), 30)
    solution = ddp.solve(problem)
    assert solution.converged
    assert ddp.check_derivatives(problem, solution.X, solution.U).ok
    there = pickle.loads(pickle.dumps(system))
    assert np.array_equal(there.rollout(np.zeros(2), solution.U), system.rollout(np.zeros(2), solution.U))


def damped(x, u, p):
    return np.array([x[1], u[0] - p[0] * np.sin(x[0]) - p[1] * x[1]])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"integrator": "rk45"}, "integrator: unknown 'rk45'"),
        ({"integrator": "semi-implicit-euler", "nx": 3}, "nx: expected an even number"),
        ({"substeps": 0}, "substeps: expected"),
        ({"integrator": "sdirk2", "derivatives": "differences"}, "derivatives: unknown 'differences'"),
        ({"f": 3}, "f: expected a function"),
        ({"dt": 0.0}, "dt: expected a positive number"),
    ],
)
def test_malformed_systems_are_refused(changes, said):
    with pytest.raises(ddp.ProblemError, match=said):
        ContinuousDynamics(**({"f": pendulum, "nx": 2, "nu": 1, "dt": 0.1} | changes))


KINDS = [
    (integrator, derivatives, *state)
    for integrator in (*EXPLICIT, *IMPLICIT) for derivatives in ("traced", "differences")
    for state in ((None, 6, 6), ([SO3(), Euclidean(3)], 7, 6))
]  # fmt: skip


@pytest.mark.parametrize(("integrator", "derivatives", "state", "nx", "n"), cases(KINDS, KINDS[::5]))
def test_velocities_of_other_shapes_are_refused(integrator, derivatives, state, nx, n):
    def system(velocity):
        given = 0.1, integrator, 1, state, None, "traced" if integrator in IMPLICIT else derivatives
        return ContinuousDynamics(velocity, nx, 2, *given)

    system(lambda x, u: x[:n] * u[0])
    for size in (n - 1, n + 1):
        others = lambda x, u: np.resize(u, size), lambda x, u: x[:n] if x[-1] < 0.5 else np.full(size, u[0])  # noqa: B023
        for other in others if derivatives == "traced" else others[:1]:
            with pytest.raises(ddp.ModelError, match=rf"^f: expected a velocity of shape \({n},\), got \({size},\)$"):
                system(other)
    for nothing, came in ((lambda x, u: None, "None: does it lack a return.$"), (lambda x, u: x[0], r"\(\)$")):
        with pytest.raises(ddp.ModelError, match=rf"^f: expected a velocity of shape \({n},\), got {came}"):
            system(nothing)


def test_systems_say_where_their_derivatives_come_from():
    traced, called = (FunctionDynamics(lambda x, u: x + u, 2, 1, derivatives=how) for how in ("traced", "differences"))
    assert str(traced).startswith("<lambda>: 2 states, 1 controls, steps of 1 s; derivatives traced, ")
    assert str(called).endswith("derivatives by differences")

    class Own:
        nx, nu = 2, 1

        def step(self, x, u):
            return x + u

        def linearize(self, x, u):
            return np.eye(2), np.ones((2, 1))

    problem = ddp.Problem(Own(), [Quadratic(np.ones(3), np.zeros(3))], [], np.zeros(2), 3)
    assert str(problem.dynamics).endswith("derivatives of first order given, of second order by differences")


GRAVITY = {"earth": 9.81, "round": np.round}


class Pendulum:
    gravity = 9.81

    def f(self, x, u):
        return np.array([x[1], u[0] - self.gravity * np.sin(x[0])])


@pytest.mark.parametrize("integrator", ["rk4", "semi-implicit-euler", "sdirk2"])
@pytest.mark.parametrize("name", ["g", "gravity", "GRAVITY['earth']"])
def test_solves_name_what_has_changed_so_that_f_cannot_be_traced(name, integrator, monkeypatch):
    g, swinging = 9.81, Pendulum()
    f = {
        "g": lambda x, u: np.array([x[1], u[0] - g * np.sin(x[0])]),
        "gravity": swinging.f,
        "GRAVITY['earth']": lambda x, u: np.array([x[1], u[0] - GRAVITY["earth"] * np.sin(x[0])]),
    }[name]
    dynamics = ContinuousDynamics(f, 2, 1, 0.1, integrator)
    problem = ddp.Problem(dynamics, [lambda x, u: x @ x + u @ u], [], np.ones(2), 5)
    before = ddp.solve(problem)
    for g in (np.ones((5, 1)), 9.81):
        swinging.gravity = g
        monkeypatch.setitem(GRAVITY, "earth", g)
        if np.ndim(g):
            what = re.escape(f"after {name} has changed from 9.81 to an array of shape (5, 1): expected a velocity")
            with pytest.raises(ddp.ModelError, match=f"^f: cannot be traced again {what} of 2 numbers, got an array"):
                ddp.solve(problem)
    np.testing.assert_array_equal(ddp.solve(problem).X, before.X)


@pytest.mark.parametrize("later", [1, 3])
def test_constraints_and_costs_of_another_size_than_before_are_refused(later):
    count, weight = 2, 1.0
    problem = ddp.Problem(
        FunctionDynamics(lambda x, u: x + u, 3, 3), [lambda x, u: weight * (u @ u)], [], np.ones(3), 5,
        constraints=[ddp.Inequality(lambda x, u: x[:count] - 2.0)],
    )  # fmt: skip
    count = later
    words = rf"^constraints\[0\].*: c: .* after count has changed from 2 to {later}: .* got \({later},\)"
    with pytest.raises(ddp.ModelError, match=words):
        ddp.solve(problem)
    count, weight = 2, np.ones(2)
    with pytest.raises(ddp.ModelError, match=r"^running\[0\].*: value: .* after weight has changed from 1.0 to an"):
        ddp.solve(problem)
