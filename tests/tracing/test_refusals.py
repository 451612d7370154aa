"""Functions that cannot be traced are refused with the line; those that keep something between calls are found."""

import gc
import io
import math
import pickle
import statistics
from dataclasses import replace

import numpy as np
import pytest
import users_bodies
from scipy.special import erf

import ddp
import dynamics
from dynamics.steps.function_dynamics import FunctionDynamics
from problems import arm
from tests.ddp.systems import Quadratic

COST = Quadratic(np.ones(3), np.zeros(3))
ADDED = FunctionDynamics(lambda x, u: x + u, 2, 2)


def truncated(x, u):
    return np.array([int(x[0]) * 0.1, u[0]])


def looked_up(x, u):
    return np.array([0.0, 1.0, 2.0])[int(3.0 * x[0])] * x


def endless(x, u):
    while x[0] < 1e3:
        x = x + 1.0 + u
    return x


def rounded(x, u):
    return np.round(x) + u


def decomposed(x, u):
    return np.linalg.eigh(np.outer(x, x) + np.eye(2))[0] + u


def turned(x, u):
    return np.exp(1j * x[0]).real * x + u


def narrowed(x, u):
    return x.astype(np.float32) + u


def counted(x, u):
    y = x.copy()
    for _ in range(int(x[0])):
        y = y + u
    return y


def added(x, u):
    return ((x[0] > 0.0) + (x[1] > 0.0)) * x + u


def spectral(x, u):
    return np.linalg.norm(np.outer(x, x), 2, axis=(0, 1)) * x + u


def worded(x, u):
    return x * (1.0 if f"{x[0]:.1f}, {x[1]:.1f}" == "0.0, 0.0" else 2.0)


def worded_and_printed(x, u):
    text = f"{x[0]:.1f}, {x[1]:.1f}"
    print("another text", f"{u[0]}", end="", file=io.StringIO())
    return x * (1.0 if text == "0.0, 0.0" else 2.0)


def hashed(x, u):
    return x * {0.0: 1.0}.get(x[0], 2.0)


def remembered(x, u):
    return x * (x.tobytes() == b"")


def whole(x, u):
    return np.asarray(x, dtype=int) + u


def coarse(x, u):
    return x * np.sum(x, dtype=np.float32)


def cast(x, u):
    y = np.zeros_like(x, dtype=int)
    y[0] = x[1]
    return y + u


def centred(x, u):
    return np.piecewise(x, [x < 0.0, x >= 0.0], [lambda x: x - x.mean(), lambda x: x])


def unsorted(x, u):
    return np.interp(x, [1.0, 0.0], [0.0, 1.0])


def errors(x, u):
    return erf(x) + u


@pytest.mark.parametrize(
    ("f", "said"),
    [
        (worded, r"a text, which is not only printed or raised, of a number .*, in line \d+ .*: return x"),
        (worded_and_printed, r"a text, which is not only printed or raised, of a number"),
        (hashed, r"a hash, .*, in line \d+ of test_refusals.py: return x"),
        (remembered, r"bytes of an array"),
        (whole, r"astype\(int64\)"),
        (coarse, r"np.add of type float32"),
        (cast, r"int\(\) of a number .*: y\[0\] = x\[1\]"),
        (centred, r"np.piecewise of a function that depends on several entries"),
        (unsorted, r"np.interp of places that decrease"),
        (truncated, r"int\(\) of a number .*, in line \d+ of test_refusals.py: return np.array\(\[int\(x\[0\]\)"),
        (looked_up, r"int\(\) of a number .*, in line \d+ of test_refusals.py: return np.array\("),
        (endless, r"more than 64 decisions .*, in line \d+ of test_refusals.py: while x\[0\] < 1e3:"),
        (rounded, r"np\.round, in line \d+ of test_refusals.py: return np.round\(x\)"),
        (errors, r": erf, in line \d+ of test_refusals.py: return erf"),
        (decomposed, r"np\.linalg\.eigh, in line \d+ of test_refusals.py: return np.linalg.eigh"),
        (turned, r"arithmetic of a number .* with complex, in line \d+ of test_refusals.py: return np.exp"),
        (narrowed, r"astype\(float32\), in line \d+ of test_refusals.py: return x.astype"),
        (added, r"a \+ b of conditions, which is a \| b in NumPy .*, in line \d+ of test_refusals.py: return \(\(x"),
        (spectral, r"np.linalg.norm of a matrix of order 2, in line"),
        (counted, r"int\(\) of a number .*, in line \d+ of test_refusals.py: for _ in range"),
    ],
)
def test_functions_that_cannot_be_traced_are_refused_with_the_line_and_ways_out(f, said):
    def rare(x, u):  # no point that traces are compared at comes there
        return f(x, u) if x[0] > 1e3 else x

    for one in (f, rare):
        with pytest.raises(ddp.ModelError, match=rf'f: cannot be traced .*{said}.*derivatives="differences"'):
            FunctionDynamics(one, 2, 1)


@pytest.mark.parametrize("hidden", [np.ma.masked, np.ma.array([1.0, 2.0], mask=[False, True])])
def test_masked_numbers_are_no_numbers(hidden):
    for derivatives in ("traced", "differences"):
        with pytest.raises(ddp.ModelError, match=r"masked|shape"):
            FunctionDynamics(lambda x, u: x if x[0] < 1.0 else hidden, 2, 1, derivatives=derivatives).step(
                np.ones(2), np.ones(1)
            )
    if hidden is np.ma.masked:
        with pytest.raises(ddp.ProblemError, match=r"cannot be traced .* masked"):
            ddp.Problem(ADDED, [lambda x, u: x[0] if x[0] < 1.0 else hidden], [], np.zeros(2), 3)


def test_errors_of_types_in_a_branch_are_no_ends_of_a_domain():
    def f(x, u):
        return x * statistics.mean(x) if x[0] > 1e3 else x

    with pytest.raises(ddp.ModelError, match=r"cannot be traced .*TypeError"):
        FunctionDynamics(f, 2, 1)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: FunctionDynamics(lambda x, u: x * np.nansum(x), 2, 1), "f"),
        (lambda: FunctionDynamics(lambda x, u, p: p * np.nansum(x) + x, 2, 1, parameters=[1.0, 2.0]), "f"),
        (lambda: dynamics.augment.driven(ADDED, lambda x, r: r * np.nansum(x), 2), "inputs"),
    ],
)
def test_functions_that_python_can_call_are_not_said_to_raise(make, name):
    with pytest.raises(ddp.ModelError, match=rf"{name}.*: cannot be traced .*takes plain numbers alone \(TypeError"):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: FunctionDynamics(lambda x, u: x * (1 // len(x[5:])), 2, 1),
        lambda: dynamics.augment.driven(ADDED, lambda x, r: r * (1 // len(x[5:])), 2),
    ],
)
def test_functions_that_python_cannot_call_are_said_to_raise(make):
    with pytest.raises(ddp.ModelError, match=r"(f|inputs): raised ZeroDivisionError"):
        make()


def number(value):
    """The value, if it is a plain number."""
    if type(value) not in (float, np.float64):
        raise TypeError(f"expected a float, got {type(value).__name__}")
    return value


def is_number(value):
    """Whether the value is a plain number."""
    return type(value) in (float, np.float64)


@pytest.mark.parametrize("ask", ["by another function that raises", "by another function", "by numpy"])
def test_types_that_a_function_checks_itself_are_no_ends_of_a_domain(ask):
    def f(x, u):
        return number(x[1]) * x if x[0] > 1e3 else x

    def by_another(x, u):
        if x[0] > 1e3 and not is_number(x[1]):
            raise TypeError("expected a float")
        return x + u

    def by_numpy(x, u):
        if x[0] > 1e3 and not np.isscalar(x[1]):
            raise TypeError("expected a float")
        return x + u

    function = {"by another function that raises": f, "by another function": by_another, "by numpy": by_numpy}[ask]
    with pytest.raises(ddp.ModelError, match=r"TypeError: expected a float"):
        FunctionDynamics(function, 2, 1)


def test_a_type_error_of_a_users_own_ends_the_domain_like_any_other_error():
    def f(x, u):
        if x[0] > 1e3:
            raise TypeError("too far")
        return x + u

    traced = FunctionDynamics(f, 2, 1)
    np.testing.assert_array_equal(traced.step(np.array([1.0, 2.0]), np.array([0.5])), [1.5, 2.5])


def test_terms_and_constraints_that_cannot_be_traced_are_named_with_ways_out():
    class Rounded:
        def value(self, x, u):
            return round(x[0]) ** 2

    class Different(Rounded):
        derivatives = "differences"

    plain = FunctionDynamics(lambda x, u: x + u, 2, 1)
    with pytest.raises(ddp.ProblemError, match=r"running\[0\] \(Rounded\): .*round\(\) of .* gradient\(x, u\) and"):
        ddp.Problem(plain, [Rounded()], [COST], np.zeros(2), 5)
    assert ddp.Problem(plain, [Different()], [COST], np.zeros(2), 5)

    def c(x, u):
        return int(x[0]) - 1.0

    with pytest.raises(ddp.ProblemError, match=r"constraints\[0\] \(Equality of c\): c cannot .*a jacobian of yours"):
        ddp.Problem(plain, [COST], [COST], np.zeros(2), 5, constraints=[ddp.Equality(c)])
    different = ddp.Equality(c, derivatives="differences")
    assert ddp.Problem(plain, [COST], [COST], np.zeros(2), 5, constraints=[different])


def drawn(rng=np.random.default_rng(0)):  # noqa: B008
    return lambda x, u: x + u * rng.normal()


def remembering():
    last = np.zeros(2)

    def f(x, u):
        y = x + 0.1 * last + u
        last[:] = x
        return y

    return f


def counting():
    calls = 0

    def f(x, u):
        nonlocal calls
        calls += 1
        return x + u * calls

    return f


def cached():
    kept = {}

    def f(x, u):
        y = x + u * kept.get("last", 0.0)
        kept["last"] = x[0]
        return y

    return f


class Keeping:
    last = 0.0

    def __call__(self, x, u):
        y = x + u * self.last
        self.last = x[1]
        return y


def drawn_globally():
    return lambda x, u: x + u * np.random.normal()  # noqa: NPY002


@pytest.mark.parametrize("make", [drawn, drawn_globally, remembering, counting, cached, Keeping])
def test_functions_that_differ_from_call_to_call_are_found(make):
    with pytest.raises(ddp.ModelError, match="does it keep something between calls, read what changes, or draw"):
        FunctionDynamics(make(), 2, 1)


def test_functions_that_go_on_after_an_exception_are_found():
    def f(x, u):
        try:
            return x + math.sqrt(x[0]) * u
        except ValueError:
            return x

    with pytest.raises(ddp.ModelError, match=r"where its operations, followed once, give \[nan.* after an exception"):
        FunctionDynamics(f, 2, 1)


def test_costs_that_plain_numbers_are_refused_by_are_found():
    def cost(x, u):
        return np.sum(-(x > 0.0) * x)

    with pytest.raises(ddp.ProblemError, match=r"plain numbers are refused \(TypeError: The numpy boolean negative"):
        ddp.Problem(ADDED, [cost], [], np.ones(2), 5)


def test_functions_of_constants_alone_are_numpys():
    inertia = np.array([[2.0, 0.1], [0.1, 3.0]])

    def f(x, u):
        modes, root = np.linalg.eigh(inertia), np.linalg.cholesky(inertia)
        scale = math.sqrt(np.linalg.cond(inertia))
        return np.linalg.pinv(root) @ x + modes.eigenvalues * u + scale * np.round(inertia[0])

    x, u = np.array([0.3, -0.2]), np.array([0.5, 1.0])
    np.testing.assert_allclose(FunctionDynamics(f, 2, 2).step(x, u), f(x, u), rtol=1e-15)


def test_parameters_change_without_a_new_trace():
    dynamics = FunctionDynamics(lambda x, u, p: x + p[0] * u + p[1] * np.sin(x), 2, 1, parameters=[1.0, 0.1])
    traced, x, u = dynamics.traced, np.array([0.3, -0.2]), np.array([0.5])
    for p in ([1.0, 0.1], [2.0, -0.3]):
        dynamics.parameters[:] = p
        expected = x + p[0] * u + p[1] * np.sin(x)
        np.testing.assert_allclose(dynamics.step(x, u), expected, rtol=1e-15)
        np.testing.assert_allclose(dynamics.linearize(x, u)[0], np.diag(1.0 + p[1] * np.cos(x)), rtol=1e-15)
        H = dynamics.hessian(x, u, np.ones(2))
        np.testing.assert_allclose(H, np.diag([*(-p[1] * np.sin(x)), 0.0]), rtol=0, atol=1e-15)
        assert not dynamics.renew()
    other = replace(dynamics, parameters=[0.0, 0.0])
    assert other.traced.code is traced.code
    np.testing.assert_array_equal(other.step(x, u), x)


def test_what_a_function_reads_may_change_between_solves():
    gains = [1.0]
    problem = ddp.Problem(
        FunctionDynamics(lambda x, u: x + gains[0] * u, 2, 1), [COST], [COST], np.ones(2), 5,
        constraints=[ddp.Inequality(lambda x, u: u - gains[0])],
    )  # fmt: skip
    first = ddp.solve(problem)
    gains[0] = 0.1
    second = ddp.solve(problem)
    np.testing.assert_allclose(second.X[1], second.X[0] + 0.1 * second.U[0], rtol=1e-14)
    assert second.U.max() <= 0.1 + 1e-6
    assert first.cost < second.cost


def test_what_a_function_reads_of_modules_is_compared(monkeypatch):
    def f(x, u):
        return x + users_bodies.GAIN * users_bodies.scaled(u)

    monkeypatch.setattr(users_bodies, "GAIN", 2.0, raising=False)
    monkeypatch.setattr(users_bodies, "scaled", lambda u: 3.0 * u, raising=False)
    dynamics, x, u = FunctionDynamics(f, 2, 1), np.zeros(2), np.ones(1)
    assert not dynamics.renew()
    for name, value, step in (("GAIN", 5.0, 15.0), ("scaled", lambda u: 4.0 * u, 20.0)):
        monkeypatch.setattr(users_bodies, name, value)
        assert dynamics.renew()
        assert dynamics.step(x, u).tolist() == [step, step]
    assert not dynamics.renew()


def test_attributes_of_functions_and_of_dictionaries_are_read():
    class Attributes(dict):
        __getattr__ = dict.__getitem__

    def gain():
        return gain.value * settings.share

    gain.value, settings = np.ones(2), Attributes(share=3.0)
    dynamics, x, u = FunctionDynamics(lambda x, u: x + gain() * u, 2, 1), np.zeros(2), np.ones(1)
    assert dynamics.step(x, u).tolist() == [3.0, 3.0]
    gain.value[0] = 2.0
    assert dynamics.renew()
    assert dynamics.step(x, u).tolist() == [6.0, 3.0]
    settings["share"] = 1.0
    assert dynamics.renew()
    assert dynamics.step(x, u).tolist() == [2.0, 1.0]


def test_a_system_of_ones_own_is_traced_where_it_asks_for_that():
    class Own:
        nx, nu, dt, derivatives, gain = 2, 1, 0.1, "traced", 1.0

        def step(self, x, u):
            return x + self.gain * np.array([x[1], u[0] - np.sin(x[0])])

    own = Own()
    problem = ddp.Problem(own, [COST], [COST], np.ones(2), 5)
    plain = FunctionDynamics(lambda x, u: x + np.array([x[1], u[0] - np.sin(x[0])]), 2, 1, 0.1)
    expected = ddp.solve(ddp.Problem(plain, [COST], [COST], np.ones(2), 5))
    assert np.array_equal(ddp.solve(problem).X, expected.X)
    own.gain = 0.5
    assert ddp.solve(problem).X[1, 0] == 1.5


def test_traced_functions_cross_processes_where_python_functions_do():
    dynamics = pickle.loads(pickle.dumps(FunctionDynamics(truncated_no_more, 2, 1)))
    np.testing.assert_array_equal(dynamics.step(np.ones(2), np.ones(1)), [1.1, 1.0])


def truncated_no_more(x, u):
    return np.array([x[0] + 0.1 * u[0], u[0]])


def test_functions_that_are_dropped_leave_nothing():
    def live():
        gc.collect()
        return sum(type(one).__name__ in ("Code", "Number", "Graph", "TracedFunction") for one in gc.get_objects())

    FunctionDynamics(lambda x, u: x + u, 2, 1)
    before = live()
    for k in range(20):
        FunctionDynamics(lambda x, u, k=k: x + (0.01 + k) * u, 2, 1)
    assert live() <= before


def test_functions_on_robots_are_refused_with_the_line_that_calls_them(ur5_reach):
    class Height:
        def value(self, x, u):
            return dynamics.mass_matrix(ur5_reach.dynamics.robot, x[:6])[0, 0] ** 2

    with pytest.raises(ddp.ProblemError, match=r"plain numbers .*\(line \d+ of test_refusals.py\); .*differences"):
        replace(ur5_reach, running=(Height(),))


@pytest.fixture
def ur5_reach():
    return arm.reach("ur5", horizon=5)
