"""Maps of a rod's segment: against the series of T in extended precision, its complex step, and their own."""

import numpy as np
import pytest
from one_source import EveryNumber

from ddp.compiling.kernel import kernel
from dynamics.rods.local_maps import (
    coefficients,
    curved,
    moving,
    pressing,
    tangent,
    tangent_slope,
    transposed,
    transposed_slope,
)

STEP = 1e-30
ANGLES = [0.0, 1e-9, 1e-4, 0.1, 0.5, 1.0, 2.0, 3.0, np.pi, 4.5, 6.0]
NAMES = {"tangent": 36, "slope": 36, "transposed": 12, "transposed slope": 36, "gradient": 12, "Hessian": 36}


@kernel
def maps(x, y):
    """Every map of the twists Ω, Ω', u, u' and the wrenches f, f' in x (36,)."""
    omega = moving(six(x, 0), six(x, 6))
    u, f = moving(six(x, 12), six(x, 18)), pressing(six(x, 24), six(x, 30))
    c = coefficients(omega)
    gradient, hessian = curved(omega, f, u, c)
    write9(y, 0, tangent(omega, c))
    write9(y, 36, tangent_slope(omega, u, c))
    write3(y, 72, transposed(omega, f, c))
    write9(y, 84, transposed_slope(omega, f, c))
    write3(y, 120, gradient)
    write9(y, 132, hessian)


@kernel
def six(x, i):
    return x[i], x[i + 1], x[i + 2], x[i + 3], x[i + 4], x[i + 5]


@kernel
def write9(y, at, M):
    for k in range(9):
        y[at + k], y[at + 9 + k], y[at + 18 + k], y[at + 27 + k] = M[0][k], M[1][k], M[2][k], M[3][k]


@kernel
def write3(y, at, a):
    for k in range(3):
        y[at + k], y[at + 3 + k], y[at + 6 + k], y[at + 9 + k] = a[0][k], a[1][k], a[2][k], a[3][k]


KERNEL = EveryNumber(maps, sum(NAMES.values()))


def parts(x, number=float):
    """Results by name, of shape (4, ...)."""
    y, found, at = KERNEL.floats(x[None], number)[0], {}, 0
    for name, size in NAMES.items():
        found[name] = y[at : at + size].reshape((4, 3, 3) if size == 36 else (4, 3))
        at += size
    return found


def adjoint(m):
    """The matrix of ``m ×`` (6, 6)."""
    def skew(a):
        return np.array([[0 * a[0], -a[2], a[1]], [a[2], 0 * a[0], -a[0]], [-a[1], a[0], 0 * a[0]]])

    return np.block([[skew(m[3:]), skew(m[:3])], [np.zeros((3, 3)), skew(m[3:])]])


def tangent_series(m):
    """Σ ad^n/(n+1)! in extended precision."""
    ad, term = adjoint(m.astype(np.clongdouble)), np.eye(6, dtype=np.clongdouble)
    total = term
    for n in range(1, 70):
        term = term @ ad / (n + 1)
        total = total + term
    return total


def on_twists(M, M_e):
    return np.block([[M, M_e], [np.zeros((3, 3)), M]])


def by_twists(M, M_e):
    return np.block([[np.zeros((3, 3)), M], [M, M_e]])


def sample(rng, angle):
    """Ω, Ω', u, u', f, f', the first turning by an angle."""
    x = rng.normal(size=36)
    x[3:6] *= angle / np.linalg.norm(x[3:6])
    return x


@pytest.mark.parametrize("angle", ANGLES)
def test_maps_are_the_series_and_its_derivatives(angle, rng):
    x = sample(rng, angle)
    m, u, f = x[:6], x[12:18], x[24:30]
    found = parts(x)
    T = tangent_series(m)
    slope = np.array([(tangent_series(m + 1j * STEP * e) @ u).imag / STEP for e in np.eye(6)]).T
    back = np.array([(tangent_series(m + 1j * STEP * e).T @ f).imag / STEP for e in np.eye(6)])
    np.testing.assert_allclose(on_twists(*found["tangent"][:2]), T.real.astype(float), rtol=0, atol=1e-13)
    np.testing.assert_allclose(on_twists(*found["slope"][:2]), slope.astype(float), rtol=0, atol=1e-13)
    np.testing.assert_allclose(found["transposed"][:2].ravel(), (T.T @ f).real.astype(float), rtol=0, atol=1e-13)
    np.testing.assert_allclose(by_twists(*found["transposed slope"][:2]), back.astype(float), rtol=0, atol=1e-13)
    np.testing.assert_allclose(found["gradient"][:2].ravel(), (back @ u).astype(float), rtol=0, atol=2e-13)


@pytest.mark.parametrize("angle", ANGLES)
def test_hessians_are_slopes_of_gradients(angle, rng):
    x = sample(rng, angle)
    along = np.hstack([np.eye(6), np.zeros((6, 30))])
    columns = [parts(x + 1j * STEP * e, complex)["gradient"][:2].ravel().imag / STEP for e in along]
    np.testing.assert_allclose(by_twists(*parts(x)["Hessian"][:2]), np.array(columns).T, rtol=0, atol=1e-13)


@pytest.mark.parametrize("angle", ANGLES)
def test_rates_are_derivatives_along_the_rates_of_the_arguments(angle, rng):
    x = sample(rng, angle)
    rates = np.zeros(36)
    for k in (0, 12, 24):
        rates[k : k + 6] = x[k + 6 : k + 12]
    stepped, found = parts(x + 1j * STEP * rates, complex), parts(x)
    for name in NAMES:
        np.testing.assert_allclose(found[name][2:], stepped[name][:2].imag / STEP, rtol=0, atol=1e-12, err_msg=name)


def test_all_numbers_agree(rng):
    X = np.array([sample(rng, angle) for angle in ANGLES])
    KERNEL.all_agree(X, 1e-14)
