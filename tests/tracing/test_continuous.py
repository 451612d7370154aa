"""Systems in continuous time: orders of their steps, derivatives through them, and the built-in systems by hand."""

import pickle

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import ddp
from dynamics import ContinuousDynamics, FunctionDynamics
from tests.ddp.systems import Quadratic


def pendulum(x, u):
    return [x[1], u[0] - 9.81 * np.sin(x[0]) - 0.1 * x[1] ** 3]


@pytest.mark.parametrize(("integrator", "order"), [("euler", 1), ("semi-implicit-euler", 1), ("rk4", 4)])
def test_steps_have_their_order(integrator, order):
    x0, u = np.array([0.4, -0.2]), np.array([0.7])
    exact = solve_ivp(lambda t, x: pendulum(x, u), (0.0, 0.8), x0, rtol=1e-12, atol=1e-13).y[:, -1]

    def error(steps):
        system = ContinuousDynamics(pendulum, 2, 1, 0.8 / steps, integrator)
        return np.abs(system.rollout(x0, np.tile(u, (steps, 1)))[-1] - exact).max()

    assert np.log2(error(80) / error(160)) == pytest.approx(order, abs=0.2)


@pytest.mark.parametrize("integrator", ["euler", "semi-implicit-euler", "rk4"])
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
        ({"f": 3}, "f: expected a function"),
        ({"dt": 0.0}, "dt: expected a positive number"),
    ],
)
def test_malformed_systems_are_refused(changes, said):
    with pytest.raises(ddp.ProblemError, match=said):
        ContinuousDynamics(**({"f": pendulum, "nx": 2, "nu": 1, "dt": 0.1} | changes))


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
