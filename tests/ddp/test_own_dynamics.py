"""Systems of one's own: f is enough, its derivatives are used where they are given."""

import pickle
from functools import cache

import numpy as np
import pytest
from systems import Quadratic

import ddp
from dynamics.steps.function_dynamics import FunctionDynamics


class Pendulum:
    nx, nu, dt = 2, 1, 0.03

    def step(self, x, u):
        speed = x[1] + self.dt * (u[0] - 9.81 * np.sin(x[0]))
        return np.array([x[0] + self.dt * speed, speed])


class Sloped(Pendulum):
    """With its first derivatives."""

    def linearize(self, x, u):
        A = np.array([[1.0 - self.dt**2 * 9.81 * np.cos(x[0]), self.dt], [-self.dt * 9.81 * np.cos(x[0]), 1.0]])
        return A, np.array([[self.dt**2], [self.dt]])


class Bent(Sloped):
    """With all of its derivatives, counted."""

    def __init__(self):
        self.asked = 0

    def hessian(self, x, u, weight):
        self.asked += 1
        H = np.zeros((3, 3))
        H[0, 0] = (self.dt * weight[0] + weight[1]) * self.dt * 9.81 * np.sin(x[0])
        return H


class OnCircle:
    """The pendulum with its angle as a point of the circle: x = (cos, sin, speed)."""

    nx, n, nu, dt = 3, 2, 1, 0.03

    def step(self, x, u):
        speed = x[2] + self.dt * (u[0] - 9.81 * x[1])
        return self.integrate(np.array([x[0], x[1], speed]), np.array([self.dt * speed, 0.0 * speed]))

    def difference(self, x0, x1):
        cos, sin = x0[0] * x1[0] + x0[1] * x1[1], x0[0] * x1[1] - x0[1] * x1[0]
        return np.array([np.arctan2(sin, cos), x1[2] - x0[2]])

    def integrate(self, x, dx):
        c, s = np.cos(dx[0]), np.sin(dx[0])
        return np.array([c * x[0] - s * x[1], s * x[0] + c * x[1], x[2] + dx[1]])

    def check_state(self, field, x):
        if np.abs(np.hypot(x[..., 0], x[..., 1]) - 1.0).max() > 1e-6:
            raise ddp.ProblemError(f"{field}: expected points on the circle")


START = np.array([2.0, 0.0])


def swing_up(dynamics):
    goal = np.array([np.pi, 0.0, 0.0])
    running, end = (Quadratic(np.array(w), goal) for w in ([0.1, 0.01, 0.1], [1000.0, 1000.0, 0.0]))
    return ddp.Problem(dynamics, [running], [end], START, 20)


@cache
def reference():
    """The solution of the same step as a function."""
    return ddp.solve(swing_up(FunctionDynamics(Pendulum().step, 2, 1, dt=0.03)))


@pytest.mark.parametrize("kind", [Pendulum, Sloped, Bent])
@pytest.mark.parametrize("solver", [ddp.DDP(), ddp.ILQR()])
def test_ones_own_system_solves_as_a_function_does_whatever_it_says_of_itself(kind, solver):
    problem = swing_up(kind())
    solution = ddp.solve(problem, solver)
    expected = ddp.solve(swing_up(FunctionDynamics(Pendulum().step, 2, 1, dt=0.03)), solver)
    assert solution.cost == pytest.approx(expected.cost, rel=1e-9)
    assert solution.iterations == expected.iterations
    assert ddp.check_derivatives(problem, solution.X, solution.U, knots=[0, 10]).ok


def test_derivatives_that_are_given_are_the_ones_that_are_used():
    own = Bent()
    ddp.solve(swing_up(own))
    assert own.asked > 0


def test_wrong_derivatives_of_ones_own_are_named():
    class Wrong(Sloped):
        def linearize(self, x, u):
            A, B = super().linearize(x, u)
            return 1.01 * A, B

    problem = swing_up(Wrong())
    report = ddp.check_derivatives(problem, reference().X, reference().U, knots=[10])
    assert "dynamics A" in {check.name for check in report.wrong}


@pytest.mark.parametrize("given", [np.eye(2), (np.eye(2),), None])
def test_one_matrix_where_two_are_expected_is_named(given):
    system = FunctionDynamics(lambda x, u: x + u, 2, 2, jacobian=lambda x, u: given)
    with pytest.raises(ddp.ModelError, match="jacobian: expected two matrices, A and B, got"):
        system.linearize(np.zeros(2), np.zeros(2))


def test_a_manifold_of_ones_own_has_the_optimum_of_its_chart():
    def upright(x, u):
        angle = np.arctan2(-x[1], -x[0])  # from upright
        return 0.5 * (0.1 * angle**2 + 0.01 * x[2] ** 2 + 0.1 * u[0] ** 2)

    def end(x, u):
        angle = np.arctan2(-x[1], -x[0])
        return 500.0 * (angle**2 + x[2] ** 2)

    problem = ddp.Problem(OnCircle(), [upright], [end], np.array([np.cos(2.0), np.sin(2.0), 0.0]), 20)
    solution = ddp.solve(problem)
    assert solution.cost == pytest.approx(reference().cost, rel=1e-6)
    assert solution.stationarity() < 1e-5
    with pytest.raises(ddp.ProblemError, match="x0: expected points on the circle"):
        problem.starting_at(np.array([2.0, 0.0, 0.0]))


def far(x, u):
    return 0.05 * (x[0] - np.pi) ** 2 + 0.005 * x[1] ** 2 + 0.05 * u[0] ** 2


def missed(x, u):
    return 500.0 * ((x[0] - np.pi) ** 2 + x[1] ** 2)


def test_costs_are_functions():
    problem = ddp.Problem(FunctionDynamics(Pendulum().step, 2, 1, dt=0.03), [far], [missed], START, 20)
    solution = ddp.solve(pickle.loads(pickle.dumps(problem)))
    assert solution.cost == pytest.approx(reference().cost, rel=1e-9)
    assert ddp.check_derivatives(problem, solution.X, solution.U, knots=[0, 10, 20]).ok
    assert [name for name, _, _ in problem.objective.terms()] == ["running[0] (far)", "terminal[0] (missed)"]


def test_ones_own_system_crosses_processes():
    problem = pickle.loads(pickle.dumps(swing_up(Pendulum())))
    assert problem.total(reference().X, reference().U) == pytest.approx(reference().cost, rel=1e-12)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"nx": 2.5}, "dynamics.nx: expected a whole number"),
        ({"dt": -1.0}, "dynamics.dt: expected a positive number"),
        ({"n": 1}, r"dynamics: expected both difference\(x0, x1\) and integrate\(x, dx\), or neither and n = nx"),
    ],
)
def test_what_is_wrong_with_ones_own_system_is_named(changes, said):
    own = Pendulum()
    for name, value in changes.items():
        setattr(own, name, value)
    with pytest.raises(ddp.ProblemError, match=said):
        swing_up(own)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda x, u: np.zeros(3), r"step: expected a next state of shape \(2,\), got \(3,\)"),
        (lambda x, u: None, r"step: expected a next state of shape \(2,\), got None: does it lack a return"),
        (lambda x, u: 1 / 0 + undefined, "step: raised ZeroDivisionError"),  # noqa: F821
        (lambda x, u: np.ma.array(x, mask=[0, 1]), "step: raised TypeError: some numbers .* are masked"),
    ],
)
def test_a_step_that_fails_is_named(wrong, said):
    own = Pendulum()
    own.step = wrong
    with pytest.raises(ddp.ModelError, match=said):
        swing_up(own).dynamics.step(np.zeros(2), np.zeros(1))


def test_a_hessian_that_fails_is_named():
    class Other(Sloped):
        def hessian(self, x, u):
            return np.zeros((2, 3, 3))

    with pytest.raises(ddp.ModelError, match=r"hessian: raised TypeError: .* takes 3 positional arguments"):
        ddp.solve(swing_up(Other()))


class Reusing(Bent):
    """Steps whose results are returned in the same arrays at every call."""

    n = 2

    def __init__(self):
        super().__init__()
        self.A, self.B, self.H, self.found = np.zeros((2, 2)), np.zeros((2, 1)), np.zeros((3, 3)), np.zeros((3, 2))

    def _kept(self, place, found):
        place[:] = found
        return place

    def step(self, x, u):
        return self._kept(self.found[0], super().step(x, u))

    def linearize(self, x, u):
        A, B = super().linearize(x, u)
        return self._kept(self.A, A), self._kept(self.B, B)

    def hessian(self, x, u, weight):
        return self._kept(self.H, super().hessian(x, u, weight))

    def difference(self, x0, x1):
        x1 -= x0
        return self._kept(self.found[1], x1)

    def integrate(self, x, dx):
        x += dx
        return self._kept(self.found[2], x)


def test_ones_own_methods_may_write_on_arguments_and_reuse_results(rng):
    known, reusing = (swing_up(kind()).dynamics for kind in (Bent, Reusing))
    X, V, u, weight = rng.normal(size=(4, 2)), rng.normal(size=(4, 2)), rng.normal(size=1), rng.normal(size=2)
    given = X.copy(), V.copy()
    np.testing.assert_array_equal(reusing.hessian(X[0], u, weight), known.hessian(X[0], u, weight))
    for name in ("difference", "integrate"):
        np.testing.assert_array_equal(getattr(reusing, name)(X, V), getattr(known, name)(X, V))
    np.testing.assert_array_equal((X, V), given)
    solution = ddp.solve(swing_up(Reusing()))
    assert solution.cost == pytest.approx(reference().cost, rel=1e-9)


@pytest.mark.parametrize("name", ["difference", "integrate"])
def test_a_manifold_of_ones_own_of_another_shape_is_named(name):
    own = OnCircle()
    own.step = OnCircle().step
    setattr(own, name, lambda a, b: np.zeros((1, 3)))
    with pytest.raises(ddp.ModelError, match=rf"{name}: expected a result of shape \([23],\), got \(1, 3\)"):
        ddp.solve(ddp.Problem(own, [lambda x, u: u @ u], [], np.array([1.0, 0.0, 0.0]), 5))


def test_differences_of_values_in_single_precision_are_refused():
    class Coarse(Pendulum):
        def step(self, x, u):
            return super().step(x, u).astype(np.float32)

    class Told(Coarse):
        linearize = Sloped.linearize

    def problem(system):
        return ddp.Problem(system, [lambda x, u: u @ u], [lambda x, u: x @ x], np.zeros(2), 5)

    with pytest.raises(ddp.ModelError, match="differences: expected a function of float64, got values in float32"):
        ddp.solve(problem(Coarse()))
    assert ddp.solve(problem(Told())).converged
