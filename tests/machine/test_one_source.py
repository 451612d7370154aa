"""Every generic kernel gives the same results for floats, complex numbers, quads and lanes."""

import numpy as np
from one_source import EveryNumber

from ddp.compiling.kernel import kernel
from ddp.machine.number import all_less, sine_cosine, smaller, spread, square_root, where_less

AWKWARD = np.array([0.0, -0.0, 1e-7, -1e-7, 0.5, np.pi - 1e-9, np.pi, np.pi + 1e-9, -3.0, 20.0, 1e4, 0.7, -0.7])


@kernel
def operations(x, y):
    a, b = x[0], x[1]
    y[0], y[1] = sine_cosine(a)
    y[2] = square_root(a * a + 1.0)
    y[3] = smaller(a, b)
    y[4] = smaller(a, 0.25)
    y[5] = where_less(a, b, 1.0, b)
    y[6] = where_less(0.0, a, a / (b + 30.0), -a)
    y[7] = spread(2.5, a) - b
    y[8] = 3.0
    y[9] = square_root(where_less(a, 0.0, 4.0, -a * a - 1.0)) if all_less(a, 1e9) else a


def test_operations_on_numbers_are_numpys(rng):
    X = rng.normal(size=(40, 2)) * 3.0
    X[: len(AWKWARD), 0] = X[2 : len(AWKWARD) + 2, 1] = AWKWARD
    X[-1, 1] = X[-1, 0]
    a, b = X.T
    number = EveryNumber(operations, 10)
    expected = np.stack(
        [np.sin(a), np.cos(a), np.hypot(a, 1.0), np.minimum(a, b), np.minimum(a, 0.25), np.where(a < b, 1.0, b),
         np.where(a > 0.0, a / (b + 30.0), -a), 2.5 - b, np.full(40, 3.0)]
    ).T  # fmt: skip
    for found in (
        number.floats(X), number.floats(X, np.complex128).real, number.registers(X, 4), number.registers(X, 8),
    ):  # fmt: skip
        np.testing.assert_allclose(found[:, :9], expected, rtol=1e-15, atol=1e-15)
    for found in (number.floats(X), number.registers(X, 4), number.registers(X, 8)):
        np.testing.assert_array_equal(found[:, 9], np.where(a < 0.0, 2.0, np.nan))


@kernel
def of_nan(x, y):
    y[0] = where_less(x[0], x[1], 1.0, 2.0)
    y[1] = smaller(x[0], x[1])
    y[2] = 1.0 if all_less(x[0], x[1]) else 0.0


def test_nan_is_less_than_nothing(rng):
    X = np.array([[np.nan, 1.0]] * 8)
    number = EveryNumber(of_nan, 3)
    for found in (number.floats(X), number.registers(X, 4), number.registers(X, 8)):
        np.testing.assert_array_equal(found, np.tile([2.0, 1.0, 0.0], (8, 1)))


def test_one_lane_that_is_not_less_is_enough():
    X = np.tile([0.0, 1.0], (8, 1))
    X[5, 0] = 2.0
    found = EveryNumber(of_nan, 3)
    np.testing.assert_array_equal(found.registers(X, 8)[:, 2], np.zeros(8))
    np.testing.assert_array_equal(found.registers(X, 4)[:, 2], [1.0] * 4 + [0.0] * 4)
