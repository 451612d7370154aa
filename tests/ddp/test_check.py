"""The check of a user's derivatives finds what is wrong, and where, and is silent where nothing is."""

import ctypes

import numpy as np
import pytest
from systems import Arrive, Quadratic, Swing, pendulum, user_pendulum

import ddp
from ddp.check import excited
from ddp.systems.system import Contraction
from dynamics.steps.function_dynamics import FunctionDynamics


def trajectory(problem: ddp.Problem) -> tuple[np.ndarray, np.ndarray]:
    U = np.random.default_rng(1).normal(size=(problem.horizon, problem.dynamics.nu))
    return problem.dynamics.rollout(problem.x0, U), U


@pytest.mark.parametrize("make", [pendulum, user_pendulum])
def test_right_derivatives_pass(make):
    report = ddp.check_derivatives(make(), *trajectory(make()))
    assert report.ok
    assert str(report).startswith("all 7 derivatives are right")


def test_without_a_trajectory_derivatives_are_checked_near_the_guess():
    problem = pendulum()
    assert ddp.check_derivatives(problem).checks == ddp.check_derivatives(problem, *excited(problem)).checks
    assert ddp.check_derivatives(problem, knots=[3]).ok
    wrong = with_terms([Swing()], [WrongGradient()]).with_guess(trajectory(problem)[1])
    assert not ddp.check_derivatives(wrong).ok
    U = trajectory(problem)[1]
    with pytest.raises(ddp.ProblemError, match="X: expected X and U, or neither, got one"):
        ddp.check_derivatives(problem, U=U)


class WrongGradient(Arrive):
    def gradient(self, x, u):
        return np.array([1000.0 * (x[0] - np.pi), 999.0 * x[1]])


class WrongHessian(Swing):
    """A cost whose Hessian misses a factor, beyond knot 60 only."""

    def hessian(self, x, u):
        return np.diag([0.1, 0.01, 0.2])


def with_terms(running, terminal):
    plain = pendulum()
    return ddp.Problem(plain.dynamics, running, terminal, plain.x0, plain.horizon)


def test_a_wrong_gradient_is_named_with_its_entry():
    problem = with_terms([Swing()], [WrongGradient()])
    report = ddp.check_derivatives(problem, *trajectory(problem))
    wrong = {check.name: check for check in report.wrong}
    assert set(wrong) == {"terminal[0] (WrongGradient) gradient", "terminal[0] (WrongGradient) Hessian"}
    check = wrong["terminal[0] (WrongGradient) gradient"]
    assert (check.knot, check.entry) == (100, (1,))
    assert check.given / check.numerical == pytest.approx(0.999)
    assert "WRONG  terminal[0] (WrongGradient) gradient: relative error" in str(report)


def test_a_wrong_hessian_is_named_with_how_wrong_it_is():
    problem = with_terms([WrongHessian()], [Arrive()])
    report = ddp.check_derivatives(problem, *trajectory(problem), knots=[3, 70])
    assert [(check.knot, check.entry) for check in report.wrong] == [(3, (2, 2)), (70, (2, 2))]
    assert report.wrong[0].given == 0.2
    assert report.wrong[0].numerical == pytest.approx(0.1, abs=1e-8)


def test_a_term_that_fails_is_named_with_its_knot():
    class Short(Arrive):
        def gradient(self, x, u):
            return np.zeros(1)

    class Moved(Arrive):
        def value(self, x, u):
            return super().value(x, u) if x[1] == 0.0 else np.zeros(2)

    still = (np.zeros((101, 2)), np.zeros((100, 1)))
    for term, message in ((Short(), r"gradient: expected shape .* got \(1,\) at knot 100"), (Moved(), "at knot 100")):
        problem = with_terms([Swing()], [term])
        with pytest.raises(ddp.ProblemError, match=rf"terminal\[0\] \({type(term).__name__}\): .*{message}"):
            ddp.check_derivatives(problem, *still)
    bounded = ddp.Problem(
        problem.dynamics, [Swing()], [], problem.x0, 100,
        constraints=[ddp.Inequality(lambda x, u: x[0], upper=1.0, jacobian=lambda x, u: np.zeros((2, 2)))],
    )  # fmt: skip
    with pytest.raises(ddp.ProblemError, match=r"constraints\[0\] \(Inequality\): jacobian: expected .* at knot 0"):
        ddp.check_derivatives(bounded, *still)


class Tilted:
    """Dynamics with something wrong in a derivative, by a fraction."""

    def __init__(self, inner, what, fraction=None):
        self._inner, self._what, self._fraction = inner, what, fraction
        for name in ("nx", "n", "nu", "dt", "record_size", "step", "rollout", "difference", "integrate"):
            setattr(self, name, getattr(inner, name))
        for name in ("check_state", "linearize", "hessian", "nominal_control", "track", "contract", "closing"):
            setattr(self, name, getattr(inner, name))

    def expand(self, X, U, out, first=0):
        self._inner.expand(X, U, out, first)
        if self._what == "A":
            out.A[:, 1, 0] *= 1.0 + (self._fraction or 1e-3)
        if self._what == "B":
            out.B[:, 1, 0] *= 1.0 + (self._fraction or -2.0)

    def expand_second(self, X, U, out, first=0):
        self._inner.expand_second(X, U, out, first)

    def contraction(self):
        own, size = self._inner.contraction(), (self._inner.n + self._inner.nu) ** 2
        if self._what != "Hessian":
            return own
        kind = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)
        contract, numbers = kind(own.address), ctypes.POINTER(ctypes.c_double)

        def tilted(context, record, weight, hessian):
            contract(context, record, weight, hessian)
            H = np.ctypeslib.as_array(ctypes.cast(hessian, numbers), (size,))
            H *= 1.0 + (self._fraction or 1e-2)

        wrong = kind(tilted)
        return Contraction(ctypes.cast(wrong, ctypes.c_void_p).value, own.context, (own, wrong))


@pytest.mark.parametrize("what", ["A", "B", "Hessian"])
def test_wrong_dynamics_are_told_apart(what):
    plain = pendulum()
    problem = ddp.Problem(
        Tilted(plain.dynamics, what), plain.running, plain.terminal, plain.x0, plain.horizon
    )
    report = ddp.check_derivatives(problem, *trajectory(plain))
    assert {check.name for check in report.wrong} == {f"dynamics {what}"}


def stiff(x, u):
    """A contact as stiff as a stone's, whose force is the difference of large numbers: rounding is 1e-10 of it."""
    force = 1e5 * (np.sin(x[0] + 2e3) - np.sin(2e3)) + 1e3 * x[1]
    return np.array([x[0] + 0.01 * x[1], x[1] + 0.01 * (u[0] * (1.0 + 0.1 * x[0]) * 1e4 - force)])


def springs(x, u):
    """Springs that grow exponentially, as those of MuJoCo's contacts nearly do."""
    return np.array([x[0] + 0.01 * x[1], x[1] + 0.01 * (u[0] - 1e3 * np.expm1(5.0 * x[0]) - 50.0 * x[1])])


@pytest.mark.parametrize("step", [stiff, springs])
def test_right_derivatives_of_stiff_systems_are_not_called_wrong(step):
    term = Quadratic(np.ones(3), np.zeros(3))
    problem = ddp.Problem(FunctionDynamics(step, 2, 1, dt=0.01), [term], [term], np.zeros(2), 20)
    rng = np.random.default_rng(0)
    report = ddp.check_derivatives(problem, 0.1 * rng.normal(size=(21, 2)), rng.normal(size=(20, 1)), range(21))
    assert report.ok, str(report)


class Cancelling:
    """A small difference of numbers that are large: rounding is 1e-7 of a cost of order one."""

    def value(self, x, u):
        return (1e9 + 50.0 * np.sin(x[0]) * x[1] + u[0] ** 2) - 1e9

    def gradient(self, x, u):
        return np.array([50.0 * np.cos(x[0]) * x[1], 50.0 * np.sin(x[0]), 2.0 * u[0]])

    def hessian(self, x, u):
        s, c = 50.0 * np.sin(x[0]), 50.0 * np.cos(x[0])
        return np.array([[-s * x[1], c, 0.0], [c, 0.0, 0.0], [0.0, 0.0, 2.0]])


def test_rounding_is_not_taken_for_a_mistake():
    problem = with_terms([Cancelling()], [])
    report = ddp.check_derivatives(problem, *trajectory(problem), knots=range(0, 100, 7))
    assert report.ok, str(report)


@pytest.mark.parametrize("step", [stiff, springs, None])
@pytest.mark.parametrize("what", ["A", "B", "Hessian"])
def test_small_mistakes_are_found_in_stiff_systems_too(step, what):
    term = Quadratic(np.ones(3), np.zeros(3))
    plain = pendulum().dynamics if step is None else FunctionDynamics(step, 2, 1, dt=0.01)
    problem = ddp.Problem(Tilted(plain, what, 1e-5), [term], [term], np.zeros(2), 20)
    rng = np.random.default_rng(0)
    report = ddp.check_derivatives(problem, 0.1 * rng.normal(size=(21, 2)), rng.normal(size=(20, 1)))
    assert {check.name for check in report.wrong} == {f"dynamics {what}"}


def test_small_mistakes_in_costs_are_found():
    class Slipped(Quadratic):
        def expand(self, X, U, weight, exact, l, lz, lzz):
            super().expand(X, U, weight * (1.0 + 1e-5), exact, l, lz, lzz)

    problem = with_terms([Slipped(np.ones(3), np.zeros(3))], [])
    report = ddp.check_derivatives(problem, *trajectory(problem), knots=[50])
    assert [check.name.split()[-1] for check in report.wrong] == ["gradient", "Hessian"]


def test_a_weak_cost_is_checked_as_strictly_as_a_strong_one():
    class Weak(Arrive):
        def value(self, x, u):
            return 1e-6 * x[0] ** 2

        def gradient(self, x, u):
            return np.array([1e-6 * x[0], 0.0])

    problem = with_terms([Weak()], [])
    assert not ddp.check_derivatives(problem, *trajectory(problem)).ok


class Weak:
    """weight (|x|² u + u²), its gradient times one factor, its Hessian times another."""

    def __init__(self, weight, gradient=1.0, hessian=1.0):
        self.weight, self.factors = weight, (gradient, hessian)

    def value(self, x, u):
        return self.weight * float((x @ x) * u[0] + u[0] ** 2)

    def gradient(self, x, u):
        return self.factors[0] * self.weight * np.array([*(2.0 * x * u[0]), x @ x + 2.0 * u[0]])

    def hessian(self, x, u):
        H = np.diag([2.0 * u[0], 2.0 * u[0], 2.0])
        H[2, :2] = H[:2, 2] = 2.0 * x
        return self.factors[1] * self.weight * H


WEAK = [(1e-15, -1.0, 1.0), (1e-15, 2.0, 1.0), (1e-12, 1.001, 1.0), (1e-9, 1.001, 1.0), (1e-8, 1.0, 1.0 + 1e-5)]


@pytest.mark.parametrize("where", [0.0, 1.0])
@pytest.mark.parametrize(("weight", "gradient", "hessian"), WEAK)
def test_small_mistakes_in_costs_of_small_weight_are_found(weight, gradient, hessian, where):
    problem = with_terms([Weak(weight, gradient, hessian)], [])
    X, U = trajectory(problem)
    wrong = ddp.check_derivatives(problem, where * X, where * U + 0.1, knots=[50]).wrong
    assert {check.name.split()[-1] for check in wrong} == ({"gradient"} if hessian == 1.0 else {"Hessian"})
    right = with_terms([Weak(weight)], [])
    assert ddp.check_derivatives(right, where * X, where * U + 0.1, knots=[50]).ok


def test_checks_of_knots_that_do_not_exist_are_refused():
    problem = pendulum()
    with pytest.raises(ddp.ProblemError, match="knots: expected knots from 0 to 100, got 101"):
        ddp.check_derivatives(problem, *trajectory(problem), knots=[101])


def test_terms_at_single_knots_are_checked_there():
    plain = pendulum()
    term = Quadratic(np.ones(3), np.zeros(3))
    problem = ddp.Problem(
        FunctionDynamics(plain.dynamics.f, 2, 1),
        plain.running,
        plain.terminal,
        plain.x0,
        100,
        at={37: [term]},
    )
    report = ddp.check_derivatives(problem, *trajectory(problem))
    assert {check.knot for check in report.checks if check.name.startswith("at[37][0]")} == {37}


class Hinge:
    """1/2 max(0, x0 - at)² + |x1 - elsewhere|, right where they are smooth."""

    def __init__(self, at, elsewhere=-9.0, factor=1.0):
        self.at, self.elsewhere, self.factor = at, elsewhere, factor

    def value(self, x, u):
        return 0.5 * max(0.0, x[0] - self.at) ** 2 + abs(x[1] - self.elsewhere) + np.sin(u[0])

    def gradient(self, x, u):
        slope = 1.0 if x[1] > self.elsewhere else -1.0
        return np.array([max(0.0, x[0] - self.at), slope, self.factor * np.cos(u[0])])

    def hessian(self, x, u):
        return np.diag([float(x[0] > self.at), 0.0, -self.factor * np.sin(u[0])])


@pytest.mark.parametrize("distance", [0.0, 1e-11, 1e-4, 1e-3])
def test_a_kink_is_not_taken_for_a_mistake(distance):
    plain = with_terms([Swing()], [])
    X, U = trajectory(plain)
    for hinge in (Hinge(X[50, 0] - distance), Hinge(-99.0, X[50, 1] - distance)):
        report = ddp.check_derivatives(with_terms([hinge], []), X, U, knots=[50])
        assert report.ok, str(report)
        if distance < 1e-3:
            assert "cannot be judged where they are not smooth" in str(report)
            assert "not smooth here, at knot 50, entry" in str(report)


@pytest.mark.parametrize("factor", [1.001, -1.0])
def test_a_mistake_beside_a_kink_is_still_one(factor):
    plain = with_terms([Swing()], [])
    X, U = trajectory(plain)
    report = ddp.check_derivatives(with_terms([Hinge(X[50, 0], X[50, 1], factor)], []), X, U, knots=[50])
    assert {(check.name, check.entry) for check in report.wrong} >= {("running[0] (Hinge) gradient", (2,))}


def test_a_single_knot_needs_no_list():
    problem = pendulum()
    assert {check.knot for check in ddp.check_derivatives(problem, *trajectory(problem), knots=3).checks} == {3}


@pytest.mark.parametrize("knots", ["ab", [0.5], [True], [-1], 101, 2.0])
def test_knots_that_are_none_are_refused(knots):
    problem = pendulum()
    with pytest.raises(ddp.ProblemError, match="knots: expected knots from 0 to 100, got"):
        ddp.check_derivatives(problem, *trajectory(problem), knots=knots)


class Steep:
    """sin(w angle) of the first angle, whose sixth derivative is large; ``factor`` scales the Hessian."""

    def __init__(self, factor=1.0, w=30.0):
        self.factor, self.w = factor, w

    def value(self, x, u):
        return np.sin(self.w * x[0])

    def gradient(self, x, u):
        return np.array([self.w * np.cos(self.w * x[0]), 0.0, 0.0])

    def hessian(self, x, u):
        return np.diag([-self.factor * self.w**2 * np.sin(self.w * x[0]), 0.0, 0.0])


@pytest.mark.parametrize("w", [30.0, 40.0])
def test_errors_of_long_differences_are_not_those_of_derivatives(w):
    X, U = np.full((101, 2), 0.1), np.zeros((100, 1))
    assert ddp.check_derivatives(with_terms([Steep(w=w)], []), X, U, knots=[50]).ok
    for off in (-1e-3, -1e-5, 1e-5, 1e-3):
        wrong = ddp.check_derivatives(with_terms([Steep(1.0 + off, w)], []), X, U, knots=[50]).wrong
        assert [check.name for check in wrong] == ["running[0] (Steep) Hessian"], off


class Root:
    """sqrt(a - angle): no number beyond a."""

    def __init__(self, a):
        self.a = a

    def value(self, x, u):
        return np.sqrt(self.a - x[0])

    def gradient(self, x, u):
        return np.array([-0.5 / np.sqrt(self.a - x[0]), 0.0, 0.0])

    def hessian(self, x, u):
        return np.diag([-0.25 / (self.a - x[0]) ** 1.5, 0.0, 0.0])


def test_a_point_that_is_not_finite_is_told_and_not_wrong():
    report = ddp.check_derivatives(with_terms([Root(-1.0)], []), np.zeros((101, 2)), np.zeros((100, 1)), knots=[50])
    assert report.ok
    assert "running[0] (Root) gradient: not finite here, at knot 50" in str(report)
    assert "cannot be judged where they are not smooth or finite" in str(report)


def test_default_points_stay_near_x0_where_the_controls_of_the_guess_diverge():
    def blow_up(x, u):
        return x + x**3 + u

    problem = ddp.Problem(FunctionDynamics(blow_up, 1, 1), [lambda x, u: x @ x + u @ u], [], [3.0], 20)
    assert not np.isfinite(problem.dynamics.rollout(problem.x0, np.zeros((20, 1)))).all()
    assert np.abs(excited(problem)[0] - 3.0).max() < 1.0
    assert ddp.check_derivatives(problem).ok


def test_default_points_are_where_steps_are_finite():
    def step(x, u):
        return np.array([x[0] + 0.01 * x[1], x[1] + 0.01 * (u[0] + np.sqrt(0.02 - x[0]))])

    problem = ddp.Problem(FunctionDynamics(step, 2, 1, 0.01), [Swing()], [Arrive()], np.zeros(2), 10)
    X, _ = excited(problem.with_guess((np.zeros((11, 2)), np.zeros((10, 1)))))
    assert (X[:-1, 0] < 0.02).all()
    assert np.abs(X).max() > 0.02


@pytest.mark.parametrize(
    "bent",
    [
        lambda x: np.tanh(x / 0.01),
        lambda x: np.tanh((x - 0.03) / 0.004),
        lambda x: np.sqrt(x**2 + 1e-6),
        lambda x: 0.005 * np.logaddexp(0.0, x / 0.005),
    ],
)
def test_what_bends_within_a_step_of_differences_is_not_called_wrong(bent):
    system = FunctionDynamics(lambda x, u: x + 0.1 * np.array([x[1] + bent(x[0]), u[0]]), 2, 1, 0.1)
    problem = ddp.Problem(system, [lambda x, u: bent(x[0])], [], np.zeros(2), 1)
    for place in np.linspace(-0.2, 0.2, 21):
        report = ddp.check_derivatives(problem, np.full((2, 2), [place, 0.1]), np.zeros((1, 1)))
        assert report.ok, str(report)
