"""Loops, elements and statements of kernels do what Python and NumPy do."""

import math

import numpy as np
import pytest

from ddp.compiling.kernel import for_constants, kernel

SCALE = np.array([2.0, 3.0])


@kernel
def counted(a, b, c):
    """Weighted sums over ranges of every kind, digits of base 100 of what was met."""
    total, last = 0, -1
    for i in range(a):
        total += i + 1
        last = i
    for i in range(a, b):
        total += 3 * i
        last = 2 * i
    for i in range(b - 1, a - 1, -1):
        total = 2 * total + i
    for i in range(a, b, 3):
        total += 100 * i
    for i in range(b, a, -2):
        total -= 7 * i
    for i in range(a, b, c):
        total += 1000 * i
        if i > 40:
            break
    for i in range(0, a, True):
        total += 5 * i
    for i in range(3):
        for j in range(i, 3):
            if j == 1:
                continue
            total += 10 * i + j
    return total, last


@kernel
def reused(n):
    """The same range walked through twice, and one of two ranges."""
    r = range(n)
    total = len(r)
    for i in r:
        for j in r:
            total += i * j
    s = range(n) if n > 3 else range(n, 0, -1)
    for i in s:
        total = 3 * total + i
    for k, i in enumerate(range(2, n)):
        total += k * i
    for i, j in zip(range(n), range(n, 0, -1)):  # noqa: B905 numba has no strict
        total += i * j * j
    return total


@kernel
def moved(x, A, T, i, j, u):
    """Elements read and written by indices of every kind, negative ones among them."""
    x[i] += A[i, j] + A[-1, j] * A[i, -2]
    A[j, u] = x[-1] - x[u]
    A[-2, -1] += T[i, j, u] + T[1, -1, 0]
    T[i, -1, u] = A[u, i] * x[2]
    T[0][1][1] -= x[0]
    x[1] = T[-1, u, j] + A[1][1]


ROUND = [(0, 0, 1), (3, 9, 2), (0, 50, 7), (5, 2, -1), (-4, 4, 5), (9, -3, -4), (-7, -2, 1)]


@pytest.mark.parametrize("bounds", ROUND)
def test_loops_over_ranges(bounds):
    assert counted(*bounds) == counted.py_func(*bounds)


@pytest.mark.parametrize("n", [0, 1, 3, 4, 6])
def test_ranges_that_are_kept(n):
    assert reused(n) == reused.py_func(n)


def test_a_step_of_nothing_is_refused():
    with pytest.raises(ValueError, match="zero"):
        counted(0, 3, 0)


def arrays(rng, kind, layout):
    """A vector, a matrix and a tensor of 3 along each axis, of some numbers in some order."""
    made = []
    for ndim in (1, 2, 3):
        x = rng.normal(size=(3,) * ndim) + (1j * rng.normal(size=(3,) * ndim) if kind is complex else 0.0)
        if layout == "A":
            wide = np.zeros((6,) * ndim, kind)
            wide[(slice(None, None, -2),) * ndim] = x
            x = wide[(slice(None, None, -2),) * ndim]
        made.append(np.array(x, order=layout) if layout != "A" else x)
    return made


@pytest.mark.parametrize(("kind", "layout"), [(float, "C"), (float, "F"), (float, "A"), (complex, "C")])
def test_elements_of_arrays(kind, layout):
    rng = np.random.default_rng(0)
    for i, j, u in ((0, 1, 2), (2, 0, 0), (-1, -3, 1)):
        ours, theirs = arrays(rng, kind, layout), None
        theirs = [np.array(x) for x in ours]
        moved(*ours, i, j, np.uint64(u))
        moved.py_func(*theirs, i, j, u)
        for x, y in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-14)


@kernel
def kinds_of_elements(flags, counts, x):
    """Elements that are no floats, in arrays that may be read only."""
    total = 0.0
    for i in range(len(flags)):
        if flags[i]:
            total += counts[i] * x[-1 - i]
    counts[0] = total
    flags[1] = total > 0
    return total + SCALE[1]


def test_elements_that_are_no_floats():
    x = np.array([1.0, 2.0, 4.0])
    x.flags.writeable = False
    flags, counts = np.array([True, False, True]), np.array([3, 5, 7], np.int32)
    assert kinds_of_elements(flags, counts, x) == 3 * 4.0 + 7 * 1.0 + 3.0
    assert counts[0] == 19
    assert list(flags) == [True, True, True]


@kernel
def doubled(x):
    """An array of no axes, whose element has no indices."""
    x[()] = 2.0 * x[()]
    return x[()]


def test_the_element_of_an_array_without_axes():
    x = np.array(1.5)
    assert doubled(x) == x == 3.0


@kernel
def taking(k, x):
    return x[k] + k


@kernel
def giving(x, k):
    return taking(0, x) + 10 * taking(1, x) + 100 * taking(k, x) + 1000 * taking(-1, x)


@for_constants
def knowing(k, x):
    return x[k] + k


@kernel
def telling(x, k):
    return knowing(0, x) + 10 * knowing(1, x) + 100 * knowing(k, x)


@for_constants(but=("x",))
def indifferent(k, x):
    return 10 * x + k


@kernel
def indifferent_to_one():
    return indifferent(1, 2) + indifferent(1, 3)


for caller in (giving, telling, indifferent_to_one):
    caller.is_kept = False  # what it calls is asked for in every run of the tests


def test_one_kernel_for_all_integers():
    x = np.array([1.0, 2.0, 4.0])
    assert giving(x, 2) == 1 + 30 + 600 + 3000
    assert len(taking.overloads) == 1


def test_kernels_for_constants():
    x = np.array([1.0, 2.0, 4.0])
    assert telling(x, 2) == 1 + 30 + 600
    assert len(knowing.overloads) == 3
    assert indifferent_to_one() == 52
    assert len(indifferent.overloads) == 1


@kernel
def special(x, y):
    """What only numba's own passes know: closures, comprehensions, exceptions, expressions of arrays, constants."""
    bias = 2.0

    def shifted(a):
        return a + bias

    if y.ndim == 2:
        raise ValueError("a vector is expected")
    if isinstance(x, float):
        return np.zeros(1)
    squares = np.array([shifted(a) for a in x])
    return np.sqrt(squares * squares + 2.0 * y) - math.pi


def test_statements_that_are_not_plain():
    x, y = np.array([1.0, 2.0]), np.array([3.0, 5.0])
    np.testing.assert_allclose(special(x, y), np.sqrt((x + 2.0) ** 2 + 2.0 * y) - math.pi, rtol=1e-15)
    assert special(1.0, y)[0] == 0.0
    with pytest.raises(ValueError, match="vector"):
        special(x, np.ones((2, 2)))
