"""Functions as people write them are traced to their own values, with derivatives that are exact."""

import inspect
import math

import numpy as np
import precise
import pytest
import users_functions

from ddp.compiling.content import chosen
from ddp.machine import number
from ddp.tracing import machine_code
from ddp.tracing.function import TracedFunction
from ddp.tracing.trace import trace

POINTS = 4


def points():
    rng = np.random.default_rng(0)
    return [(rng.normal(size=3), rng.normal(size=2)) for _ in range(POINTS)]


@pytest.mark.filterwarnings("ignore:invalid value encountered")  # of the arms that are not chosen
@pytest.mark.parametrize("name", users_functions.ALL)
def test_a_function_and_its_derivatives_are_exact(name):
    f = users_functions.ALL[name]
    found, outputs = TracedFunction(name, f, 3, 2), trace(f, (3, 2)).outputs
    rng = np.random.default_rng(1)
    for x, u in points():
        m, w = found.size, rng.normal(size=found.size)
        A, B, H = np.empty((1, m, 3)), np.empty((1, m, 2)), np.empty((1, 5, 5))
        found.first(x[None], u[None], A, B)
        found.second(x[None], u[None], w[None], H)
        expected = np.asarray(f(x.copy(), u.copy()), dtype=float)
        slopes, bends = precise.differences(outputs, np.concatenate([x, u]))
        J = np.concatenate([A, B], axis=2)[0]
        np.testing.assert_allclose(found.values(x[None], u[None])[0], expected, rtol=1e-14, atol=1e-14)
        np.testing.assert_allclose(J, slopes, rtol=0, atol=1e-14 * max(1.0, np.abs(slopes).max()))
        bend = np.tensordot(w, bends, axes=1)
        np.testing.assert_allclose(H[0], bend, rtol=0, atol=1e-14 * max(1.0, np.abs(bends).max() * np.abs(w).sum()))
        assert np.array_equal(H[0], H[0].T)


def derived(f, x, u):
    """Value, gradient and Hessian of a function of one number, at x (3,) and u (2,)."""
    found, A, B, H = TracedFunction("f", f, 3, 2), np.empty((1, 1, 3)), np.empty((1, 1, 2)), np.empty((1, 5, 5))
    x, u = np.array([x]), np.array([u])
    found.first(x, u, A, B)
    found.second(x, u, np.ones((1, 1)), H)
    return found.values(x, u)[0, 0], np.concatenate([A, B], axis=2)[0, 0], H[0]


@pytest.mark.parametrize(
    "f",
    [
        lambda x, u: np.sqrt(np.maximum(x[0], 0.0)),
        lambda x, u: np.arccos(np.clip(2.0 - x[0], -1.0, 1.0)),
        lambda x, u: np.sqrt(1.0 - np.clip(x[0], -1.0, 1.0) ** 2),
        lambda x, u: np.sqrt((1.0 - np.clip(x[0], -1.0, 1.0)) * (1.0 + np.clip(x[0], -1.0, 1.0))),
        lambda x, u: np.maximum(x[0], 0.0) ** 0.3,
    ],
)
def test_functions_of_what_is_clipped_are_flat_where_it_is(f):
    _, slope, bend = derived(f, [-3.0, 0.0, 0.0], [0.0, 0.0])
    assert not slope.any()
    assert not bend.any()


def test_products_into_an_array_are_written_there():
    def f(x, u):
        y, z = np.zeros(3), np.zeros(3)
        np.dot(np.diag([1.0, 2.0, 3.0]), x, out=y)
        np.eye(3).dot(x, out=z)
        return y + z

    found = TracedFunction("f", f, 3, 2)
    assert found.values(np.ones((1, 3)), np.ones((1, 2))).tolist() == [[2.0, 3.0, 4.0]]


def test_squares_of_roots_are_smooth_where_the_roots_begin():
    value, slope, bend = derived(lambda x, u: np.sqrt(x[0]) ** 2, [0.0, 0.0, 0.0], [0.0, 0.0])
    assert (value, slope[0], bend[0, 0]) == (0.0, 1.0, 0.0)


@pytest.mark.parametrize(
    ("f", "at", "expected"),
    [
        (lambda x, u: np.log1p(np.exp(x[0])), 400.0, (400.0, 1.0, 0.0)),
        (lambda x, u: np.log(1.0 + np.exp(x[0])), 700.0, (700.0, 1.0, 0.0)),
        (lambda x, u: 2.0 * np.exp(x[0]) / (1.0 + np.exp(x[0])), 500.0, (2.0, 0.0, 0.0)),
        (lambda x, u: np.exp(x[0]) * (2.0 / (1.0 + np.exp(x[0]))), 500.0, (2.0, 0.0, 0.0)),
        (lambda x, u: 1.0 / (1.0 + np.exp(-x[0])), -400.0, (0.0, 0.0, 0.0)),
        (lambda x, u: 1.0 / (1.0 + np.exp(-x[0])), -800.0, (0.0, 0.0, 0.0)),
        (lambda x, u: 2.0 / (1.0 + np.exp(-500.0 * x[0])), -18.0, (0.0, 0.0, 0.0)),
        (lambda x, u: 1.0 / np.cosh(x[0]), 600.0, (0.0, 0.0, 0.0)),
        (lambda x, u: x[0] / np.cosh(x[0]), -800.0, (0.0, 0.0, 0.0)),
        (lambda x, u: 1.0 - 1.0 / np.sinh(x[0]), -800.0, (1.0, 0.0, 0.0)),
        (lambda x, u: ((x[0] > 0.5) * x[0]) ** (1.5 + u[1]), 0.0, (0.0, 0.0, 0.0)),
        (lambda x, u: np.sqrt((x[0] > 0.5) * x[0]), -1.0, (0.0, 0.0, 0.0)),
        (lambda x, u: np.hypot(x[0], 1e200), 1e200, (2**0.5 * 1e200, 0.5**0.5, 0.0)),
    ],
)
def test_derivatives_are_right_where_parts_of_them_are_no_floats(f, at, expected):
    value, slope, bend = derived(f, [at, 0.0, 0.0], [0.0, 0.0])
    np.testing.assert_allclose((value, slope[0], bend[0, 0]), expected, rtol=1e-14, atol=1e-15)


def test_functions_with_removable_kinks_are_smooth_there():
    value, slope, bend = derived(lambda x, u: np.logaddexp(x[0], u[0]), [0.3, 0.0, 0.0], [0.3, 0.0])
    assert value == 0.3 + np.log(2.0)
    np.testing.assert_allclose(slope, [0.5, 0.0, 0.0, 0.5, 0.0], rtol=0, atol=1e-15)
    np.testing.assert_allclose(bend[0, [0, 3]], [0.25, -0.25], rtol=0, atol=1e-15)
    for at in (0.0, 1e-9, 1e-5):
        value, slope, bend = derived(lambda x, u: np.sinc(x[0]), [at, 0.0, 0.0], [0.0, 0.0])
        assert value == np.sinc(at)
        np.testing.assert_allclose(slope[0], -(np.pi**2) / 3.0 * at, rtol=1e-9, atol=0)
        np.testing.assert_allclose(bend[0, 0], -(np.pi**2) / 3.0, rtol=1e-9, atol=0)


NO_NUMBERS = {
    "maximum": lambda x, u: np.maximum(0.0, np.sqrt(x)), "minimum": lambda x, u: np.minimum(u[0], np.log(x)),
    "fmax": lambda x, u: np.fmax(np.sqrt(x), 0.0), "fmin": lambda x, u: np.fmin(0.5, np.sqrt(x)),
    "max": lambda x, u: np.max(np.sqrt(x)), "clip": lambda x, u: np.clip(0.5, np.sqrt(x), 2.0),
    "sign": lambda x, u: np.sign(np.sqrt(x)), "heaviside": lambda x, u: np.heaviside(np.sqrt(x), 0.5),
    "norm": lambda x, u: np.linalg.norm(np.sqrt(x), np.inf), "python": lambda x, u: max(0.0, math.nan, *np.sqrt(x)),
    "interp": lambda x, u: np.interp(np.log(x), [0.0, 1.0], [1.0, 2.0]),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:(invalid value|divide by zero) encountered")
@pytest.mark.parametrize("name", NO_NUMBERS)
def test_what_is_no_number_stays_none_where_numpy_says_so(name):
    f, u = NO_NUMBERS[name], np.array([-0.2, 0.5])
    for x in ([1.0, -2.0, 3.0], [-1.0, 2.0, 0.0], [4.0, 2.0, -3.0]):
        found = TracedFunction(name, f, 3, 2).values(np.array([x]), u[None])[0]
        np.testing.assert_array_equal(found, np.ravel(f(np.array(x), u)))


@pytest.mark.filterwarnings("ignore:(invalid value|divide by zero|overflow) encountered")
@pytest.mark.parametrize(
    "f",
    [
        lambda x, u: np.append(np.sin(x), np.cos(x)), lambda x, u: np.hypot(x, u[0]), lambda x, u: x % u[0],
        lambda x, u: x // 1.5, lambda x, u: u[0] % x, lambda x, u: np.fmod(x, u[0]), lambda x, u: np.sqrt(x) ** 2,
        lambda x, u: np.maximum(0.0, x), lambda x, u: np.minimum(x, u[0]), lambda x, u: np.clip(0.5, x, u[0]),
        lambda x, u: np.sign(x), lambda x, u: np.fmax(x, u[0]), lambda x, u: np.interp(x, [0.0, 1.0], [1.0, 2.0]),
        lambda x, u: np.where(np.isinf(x), 1.0, x),
    ],
)  # fmt: skip
def test_values_at_the_edges_of_numbers_are_those_of_numpy(f):
    found = TracedFunction("f", f, 3, 2)
    for x in ([1e16, 1e200, -1e300], [np.nan, 0.5, np.inf], [-np.inf, -0.5, 1e-200], [5e-324, -1e300, -2.5]):
        for u in ([2.5, 0.0], [-1e200, 0.0], [np.nan, 0.0], [1e-300, 0.0]):
            expected = f(np.array(x), np.array(u))
            value = found.values(np.array([x]), np.array([u]))[0]
            np.testing.assert_allclose(value, expected, rtol=1e-14, atol=0, err_msg=f"at {x}, {u}")


def test_tables_hold_at_their_ends_and_jump_where_places_are_equal():
    def ended(x, u):
        return np.interp(x, [-2.0, 1.0], [1.0, 2.0], left=-7.0, right=9.0)

    def jumping(x, u):
        return np.interp(x, [0.0, 1.0, 1.0, 2.0], [1.0, 2.0, 5.0, 6.0])

    for f in (ended, jumping):
        for x in ([-2.0, 1.0, 1.1], [-2.1, 0.5, 2.0], [0.0, 3.0, 1.5]):
            found = TracedFunction("table", f, 3, 2).values(np.array([x]), np.zeros((1, 2)))[0]
            np.testing.assert_array_equal(found, f(np.array(x), None))


@pytest.mark.parametrize(
    "f",
    [
        lambda x, u: np.arctan2(*(np.zeros(2) - x[:2])) - x[2], lambda x, u: np.arctan2(-(x[0] - u[0]), -x[1]),
        lambda x, u: np.arctan2(sum([-x[0]]), -x[1]), lambda x, u: np.arctan2(np.array([-1.0, 0.0]) @ x[:2], -x[1]),
    ],
)  # fmt: skip
def test_headings_straight_back_are_on_the_side_where_numpy_has_them(f):
    for x, u in (([0.0, 2.0, 1.0], [0.0, 1.0]), ([0.5, 1.0, 2.0], [0.5, 0.0]), ([0.0, -3.0, 0.0], [0.0, 0.0])):
        found = TracedFunction("f", f, 3, 2).values(np.array([x]), np.array([u]))[0, 0]
        assert found == f(np.array(x), np.array(u))


@pytest.mark.parametrize(
    "f",
    [
        lambda x, u: np.copysign(2.0, -x[0]), lambda x, u: math.copysign(u[0], -x[0]),
        lambda x, u: np.copysign(x[1], np.array([-3.0, 0.0]) * x[0])[0], lambda x, u: np.copysign(x[1], -0.0),
        lambda x, u: np.arctan2(np.abs(-x[0]), -1.0), lambda x, u: np.arctan2(abs(-x[0]), -x[1]),
        lambda x, u: np.arctan2(abs(x[0]), -1.0), lambda x, u: np.arctan2(np.fabs(x[0] * x[1]), -x[1]),
        lambda x, u: np.arctan2(np.copysign(x[0] * u[0], x[1]), -1.0),
    ],
)  # fmt: skip
def test_zeros_have_the_signs_of_numpy(f):
    for x in ([0.0, 2.0, 0.0], [-0.0, 1.0, 0.0], [0.5, 3.0, 0.0], [-0.5, 0.1, 0.0]):
        found = TracedFunction("f", f, 3, 2).values(np.array([x]), np.array([[0.7, 0.0]]))[0, 0]
        assert found == f(np.array(x), np.array([0.7, 0.0]))


def test_remainders_of_multiples_are_those_of_numpy(rng):
    def f(x, u):
        return np.concatenate([x % u[0], x // u[0], x % 0.1, -0.3 % x])

    found = TracedFunction("f", f, 3, 2)
    for k in range(1, 200):
        x, u = k * np.array([0.1, -0.1, 0.02]), np.array([0.1 if k % 2 else -0.02, 0.0])
        value, expected = found.values(x[None], u[None])[0], f(x, u)
        np.testing.assert_allclose(value, expected, rtol=0, atol=1e-15 * k)
        assert (value[:3] * u[0] >= 0.0).all()


def test_determinants_of_singular_matrices_are_smooth():
    def minors(x, u):
        return np.linalg.det(np.outer(x, x)[:2, :2] + np.diag(u))

    found, A, B = TracedFunction("minors", minors, 3, 2), np.empty((1, 1, 3)), np.empty((1, 1, 2))
    x, u = np.array([[0.0, 2.0, 5.0]]), np.zeros((1, 2))
    found.first(x, u, A, B)
    assert found.values(x, u) == 0.0
    assert A.tolist() == [[[0.0, 0.0, 0.0]]]
    assert B.tolist() == [[[4.0, 0.0]]]


def test_code_is_kept_under_all_sources_that_its_sines_are_made_of(monkeypatch):
    read = []
    monkeypatch.setattr(machine_code, "code_of", lambda *paths: read.extend(map(str, paths)) or b"")
    machine_code._own_code.__wrapped__()
    sines = chosen[number.sine_cosine](number.lanes).py_func
    assert {inspect.getsourcefile(sines), machine_code.__file__} <= set(read)
