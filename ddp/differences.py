"""Derivatives of functions that come without any: complex step where it is right, real differences elsewhere.

A function here takes a float64 (or, if it can, complex128) vector z and returns a number or an array. Steps
are relative to the size of each entry where that exceeds one: entries are expected to be of order one, as SI
quantities are.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Function = Callable[[Any], Any]

IMAGINARY = 1e-30
"""Complex step (Squire & Trapp 1998): no subtraction, so no lower bound; f' is exact to rounding."""

FIRST = 1e-3
"""Step of the 4th-order first difference: truncation h⁴/30 f⁽⁵⁾ and rounding ε/h are both about 1e-13."""

SECOND = 5e-3
"""Step of the 4th-order second difference: truncation h⁴/90 f⁽⁶⁾ about 1e-11, rounding 5ε/h² about 5e-11."""

AGREEMENT = 1e-5
"""How far a complex-step derivative may be from a real difference before it is distrusted."""

POINTS = (1.0, -1.0, 2.0, -2.0)
WEIGHTS = (8.0 / 12.0, -8.0 / 12.0, -1.0 / 12.0, 1.0 / 12.0)


def steps(z: Array, h: float) -> Array:
    """The step of each entry of z: h, times the entry where that is larger than one."""
    return h * np.maximum(1.0, np.abs(z))


def complex_jacobian(f: Function, z: Array) -> Array:
    """``df/dz`` by complex step, derivative index last; f must be analytic as a program."""
    columns = []
    for j in range(z.size):
        moved = z.astype(np.complex128)
        moved[j] += 1j * IMAGINARY
        columns.append(np.asarray(f(moved)).imag / IMAGINARY)
    return np.stack(columns, axis=-1)


def real_jacobian(f: Function, z: Array) -> Array:
    """``df/dz`` by 4th-order central differences, derivative index last; f may be a Jacobian itself."""
    columns = []
    for j, h in enumerate(steps(z, FIRST)):
        total = 0.0
        for point, weight in zip(POINTS, WEIGHTS, strict=True):
            moved = z.copy()
            moved[j] += point * h
            total = total + weight / h * np.asarray(f(moved))
        columns.append(total)
    return np.stack(columns, axis=-1)


def jacobian(f: Function, z: Array) -> tuple[Array, bool]:
    """``df/dz`` (..., nz), and whether complex step gave it: it did if f can and agrees with a real
    difference.

    A function that takes absolute values, casts to real or branches on complex numbers yields a wrong
    derivative without a sound; hence the comparison along one direction that no coordinate is orthogonal to.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", np.exceptions.ComplexWarning)
            J = complex_jacobian(f, z)
    except Exception:  # whatever a user's code does with numbers it was not made for
        return real_jacobian(f, z), False
    direction = 0.1 * steps(z, FIRST) * np.cos(1.0 + np.arange(z.size))
    change = 0.5 * (np.asarray(f(z + direction)) - np.asarray(f(z - direction)))
    scale = AGREEMENT * (np.abs(J) @ np.abs(direction))
    rounding = 1e-14 * np.maximum(1.0, np.abs(np.asarray(f(z))))
    if J.shape[:-1] == change.shape and np.all(np.abs(J @ direction - change) <= scale + rounding):
        return J, True
    return real_jacobian(f, z), False


def second_jacobian(f: Function, z: Array, analytic: bool) -> Array:
    """``d²f/dz²`` (..., nz, nz), exactly symmetric, by 4th-order differences of first derivatives.

    analytic: whether these may be by complex step, which `jacobian` tells.
    """
    first = complex_jacobian if analytic else real_jacobian
    T = real_jacobian(lambda moved: first(f, moved), z)
    return 0.5 * (T + np.swapaxes(T, -1, -2))


def second_difference_points(nz: int) -> Array:
    """The displacements (P, nz), in units of one, whose values `second_difference` combines into a Hessian.

    First none, then along every coordinate and along every sum of two, at 1, -1, 2, -2.
    """
    i, j = np.triu_indices(nz, 1)
    directions = np.concatenate([np.eye(nz), np.eye(nz)[i] + np.eye(nz)[j]])
    return np.concatenate([np.zeros((1, nz)), *(point * directions for point in POINTS)])


def second_difference(values: Array, nz: int, h: Array) -> Array:
    """The Hessian (nz, nz) from the values at the points above, scaled by the steps h (nz,).

    4th-order second differences along e_i and e_i + e_j, and polarisation: 2 H_ij = D²[e_i+e_j] - D²[e_i] -
    D²[e_j].
    """
    at_one, at_minus_one, at_two, at_minus_two = values[1:].reshape(4, -1)
    D = (16.0 * (at_one + at_minus_one) - (at_two + at_minus_two) - 30.0 * values[0]) / 12.0
    i, j = np.triu_indices(nz, 1)
    H = np.diag(D[:nz])
    H[i, j] = H[j, i] = 0.5 * (D[nz:] - D[i] - D[j])
    return H / np.outer(h, h)
