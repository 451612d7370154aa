"""Functions at random have NumPy's values, at ties, zeros with signs and what is no number, and exact derivatives."""

import numpy as np
import precise
import pytest
import random_functions
from thorough import cases

from ddp.tracing.function import TracedFunction
from ddp.tracing.trace import FollowError, trace

SIMPLE = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, 2.0, -2.5, 3.0]
EXTREME = [*SIMPLE[:6], 3.0, np.nan, np.inf, -np.inf, 1e300, -1e200, 1e-200, 5e-324]
SEEDS = range(cases(400, 20))
"""Functions of each test: twenty take two seconds."""

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of what has no value


def followed(seed, *kinds):
    """A function, its text and its trace; None in place of it where it has too many ways through."""
    f, text = random_functions.program(seed, *kinds)
    try:
        return f, text, TracedFunction("f", f, 3, 2)
    except FollowError as reason:
        if "ways through" not in str(reason):
            raise AssertionError(text) from reason
        return f, text, None


def points(rng, numbers, count):
    return [(one[:3], one[3:]) for one in rng.choice(numbers, (count, 5))]


def both(f, found, x, u):
    """Values of NumPy and of the code that was made."""
    expected = np.asarray(f(x.copy(), u.copy()), dtype=float)
    return expected, found.values(x[None], u[None])[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_arithmetic_is_that_of_numpy_bit_by_bit(seed):
    f, text, found = followed(seed, "elementwise", "exact")
    for x, u in points(np.random.default_rng(seed), SIMPLE, 30) if found else ():
        expected, value = both(f, found, x, u)
        if np.isfinite(expected).all():
            np.testing.assert_array_equal(value, expected, f"{text} at {x}, {u}")
        else:
            assert not np.isfinite(value).all(), f"{text} at {x}, {u}: {value}, {expected}"


@pytest.mark.parametrize("seed", SEEDS)
def test_what_has_no_value_in_numpy_has_none_where_it_is_followed(seed):
    f, text, found = followed(seed, "elementwise")
    for x, u in points(np.random.default_rng(seed), EXTREME, 60) if found else ():
        expected, value = both(f, found, x, u)
        lost = np.isfinite(value) & ~np.isfinite(expected)
        assert not lost.any(), f"{text} at {x}, {u}: {value}, {expected}"


@pytest.mark.parametrize("seed", SEEDS)
def test_values_and_derivatives_are_exact(seed):
    f, text, found = followed(seed, "smooth", "smooth", "exact", "elementwise")
    if found is None:
        return
    outputs, rng, m = trace(f, (3, 2)).outputs, np.random.default_rng(seed), found.size
    for scale in (1.0, 1.0, 20.0):
        x, u = scale * rng.normal(size=3), scale * rng.normal(size=2)
        expected, value = both(f, found, x, u)
        if not np.isfinite(expected).all():
            continue
        np.testing.assert_allclose(value, expected, 1e-9, 1e-12 * (1.0 + np.abs(expected).max()), err_msg=text)
        A, B, H, w = np.empty((1, m, 3)), np.empty((1, m, 2)), np.empty((1, 5, 5)), rng.normal(size=m)
        found.first(x[None], u[None], A, B)
        found.second(x[None], u[None], w[None], H)
        try:
            slopes, bends = precise.differences(outputs, np.concatenate([x, u]))
        except ArithmeticError:  # it has no value beside the point
            continue
        J, bend = np.concatenate([A, B], axis=2)[0], np.tensordot(w, bends, axes=1)
        np.testing.assert_allclose(J, slopes, 1e-9, 1e-11 * (1.0 + np.abs(slopes).max()), err_msg=text)
        np.testing.assert_allclose(H[0], bend, 1e-8, 1e-10 * (1.0 + np.abs(bends).max()), err_msg=text)
