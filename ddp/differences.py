"""Derivatives of functions that come without any: complex step where it is right, real differences elsewhere.

A function here takes a float64 (or, if it can, complex128) vector z and returns a number or an array. Steps
are relative to the size of each entry where that exceeds one: entries are expected to be of order one, as SI
quantities are.

A function that takes absolute values, casts to real, conjugates or branches on complex numbers has a wrong
complex step without a sound, and at the centre of symmetry even a right first derivative with a wrong second
one: ``np.linalg.norm(u) ** 2`` at zero. Hence complex step is only trusted where real differences agree.
"""

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddp.errors import ModelError
from ddp.protocols import Array

Function = Callable[[Any], Any]

IMAGINARY = 1e-30
"""Complex step (Squire & Trapp 1998): no subtraction, so no lower bound; f' is exact to rounding."""

FIRST = 1e-3
"""Step of the 4th-order first difference: truncation h⁴/30 f⁽⁵⁾ and rounding ε/h are both about 1e-13."""

SECOND = 5e-3
"""Step of the 4th-order second difference: truncation h⁴/90 f⁽⁶⁾ about 1e-11, rounding 5ε/h² about 5e-11."""

AGREEMENT = 1e-8
"""Largest relative distance of a complex-step Jacobian from a real difference along one direction."""

ENTRY_AGREEMENT = 1e-4
"""Tolerance where first and second derivatives are compared along every coordinate."""

ROUNDING = 1e-14
"""Rounding in such a difference, in units of the largest value (or of one)."""

NEARBY = 1e-8 * np.arange(-4.0, 5.0)
"""Points so close together that smooth functions are straight between them: what is left of their values is noise."""

POINTS = (1.0, -1.0, 2.0, -2.0)
WEIGHTS = (8.0 / 12.0, -8.0 / 12.0, -1.0 / 12.0, 1.0 / 12.0)
SECOND_WEIGHTS = (16.0 / 12.0, 16.0 / 12.0, -1.0 / 12.0, -1.0 / 12.0)


def steps(z: Array, h: float) -> Array:
    """The step of each entry of z: h, times the entry where that is larger than one."""
    return h * np.maximum(1.0, np.abs(z))


def jacobian(f: Function, z: Array) -> Array:
    """``df/dz``, derivative index last; by complex step if f can and a real difference agrees.

    The comparison is along one direction that no coordinate is orthogonal to.
    """
    J = _by_complex_step(lambda: complex_jacobian(f, z))
    if J is not None:
        direction = 0.3 * steps(z, FIRST) * np.cos(1.0 + np.arange(z.size))
        values = _values(f, z, displacements(direction[None]))
        change = first_difference(values)[0]
        if J.shape[:-1] == change.shape and _agree(J @ direction, change, np.abs(J) @ np.abs(direction), values):
            return J
    return real_jacobian(f, z)


def second_order(f: Function, z: Array) -> tuple[Array, Array]:
    """``df/dz`` (..., nz) and ``d²f/dz²`` (..., nz, nz), the second exactly symmetric.

    By complex step, and by differences of complex steps, if real differences along every coordinate and one
    direction more agree with both; else by real differences alone.
    """
    J = _by_complex_step(lambda: complex_jacobian(f, z))
    H = None if J is None else _by_complex_step(lambda: _complex_hessian(f, z, J))
    if H is not None:
        h = steps(z, SECOND)
        directions = np.concatenate([np.eye(z.size), np.cos(1.0 + np.arange(z.size))[None]]) * h
        values = _values(f, z, displacements(directions))
        change, bend = first_difference(values), second_difference(values)
        slope = np.moveaxis(J @ directions.T, -1, 0)
        curvature = np.moveaxis(np.einsum("...ij,pi,pj->...p", H, directions, directions), -1, 0)
        if (
            slope.shape == change.shape
            and _agree(slope, change, np.abs(slope) + np.abs(change), values, ENTRY_AGREEMENT)
            and _agree(curvature, bend, np.abs(curvature) + np.abs(bend), values, ENTRY_AGREEMENT)
        ):
            return J, H
    return real_jacobian(f, z), real_hessian(f, z)


def complex_jacobian(f: Function, z: Array, along: NDArray[np.intp] | None = None) -> Array:
    """``df/dz``, or its columns ``along``, by complex step, derivative index last; f must be analytic as a program."""
    columns = []
    for j in np.arange(z.size) if along is None else along:
        moved = z.astype(np.complex128)
        moved[j] += 1j * IMAGINARY
        columns.append(np.asarray(f(moved)).imag / IMAGINARY)
    return np.stack(columns, axis=-1)


def real_jacobian(f: Function, z: Array) -> Array:
    """``df/dz`` by 4th-order central differences, derivative index last; f may be a Jacobian itself."""
    h = steps(z, FIRST)
    values = _values(f, z, displacements(np.diag(h)))
    return np.moveaxis(first_difference(values), 0, -1) / h


def real_hessian(f: Function, z: Array) -> Array:
    """``d²f/dz²`` (..., nz, nz) by 4th-order second differences of values."""
    h = steps(z, SECOND)
    values = _values(f, z, displacements(coordinate_pairs(z.size) * h))
    terms = np.tensordot(np.abs(SECOND_WEIGHTS), np.abs(_around(values)), axes=1) + 2.5 * np.abs(values[0])
    return polarised(_cleared(second_difference(values), terms), h)


def coordinate_pairs(nz: int) -> Array:
    """The directions (P, nz) whose second differences make a Hessian: the coordinates, then sums of two."""
    i, j = np.triu_indices(nz, 1)
    return np.concatenate([np.eye(nz), np.eye(nz)[i] + np.eye(nz)[j]])


def displacements(directions: Array) -> Array:
    """Points to evaluate for differences along directions (P, nz): nowhere, then all of them at 1, -1, 2, -2."""
    return np.concatenate([np.zeros((1, directions.shape[1])), *(point * directions for point in POINTS)])


def first_difference(values: Array) -> Array:
    """The 4th-order first difference (P, ...) along every direction, from the values at `displacements`."""
    return np.tensordot(WEIGHTS, _around(values), axes=1)


def second_difference(values: Array) -> Array:
    """The 4th-order second difference (P, ...) along every direction, from the values at `displacements`."""
    return np.tensordot(SECOND_WEIGHTS, _around(values), axes=1) - 2.5 * values[0]


def one_sided_gaps(values: Array) -> tuple[Array, Array]:
    """Distances of first, and of second, differences (P, ...) of the two sides: zero for smooth functions."""
    ahead, behind, far_ahead, far_behind = _around(values)
    first = 2.0 * (ahead + behind) - 0.5 * (far_ahead + far_behind) - 3.0 * values[0]
    second = (far_ahead - 2.0 * ahead) - (far_behind - 2.0 * behind)
    return np.abs(first), np.abs(second)


def noise(values: Array) -> Array:
    """The standard deviation (...) of rounding in values (9, ...) at `NEARBY` points, by differences of order 3 to 6.

    Differences of order k of independent errors have the variance (2k)!/(k!)² of one. Moré & Wild (2011).
    """
    found = [np.sqrt((np.diff(values, k, axis=0) ** 2).mean(axis=0) / math.comb(2 * k, k)) for k in range(3, 7)]
    return np.asarray(np.max(found, axis=0))


def polarised(D: Array, h: Array, sign: float = -1.0) -> Array:
    """The Hessian (..., nz, nz) from second differences (P, ...) along `coordinate_pairs` times the steps h (nz,).

    2 H_ij = D²[e_i + e_j] - D²[e_i] - D²[e_j]; with ``sign`` +1, what errors of D add up to.
    """
    nz = h.size
    i, j = np.triu_indices(nz, 1)
    H = np.zeros((*D.shape[1:], nz, nz))
    D = np.moveaxis(D, 0, -1)
    H[..., range(nz), range(nz)] = D[..., :nz]
    H[..., i, j] = H[..., j, i] = 0.5 * (D[..., nz:] + sign * (D[..., i] + D[..., j]))
    return H / np.outer(h, h)


def _values(f: Function, z: Array, moves: Array) -> Array:
    """Values of f beside z; ModelError for those of few digits, of which differences would leave rounding."""
    values = np.array([f(z + move) for move in moves])
    if values.dtype in (np.float32, np.float16):
        raise ModelError(f"derivatives by differences: expected a function of float64, got values in {values.dtype}")
    return np.asarray(values, dtype=np.float64)


def _around(values: Array) -> Array:
    """The values at ±1 and ±2 (4, P, ...) of those at `displacements`."""
    return values[1:].reshape(len(POINTS), -1, *values.shape[1:])


def _cleared(D: Array, terms: Array) -> Array:
    """Differences D with zeros where they are not larger than the rounding in their terms, given as sums of sizes.

    Their signs would depend on the order of summation, and so would the kind of a stationary point at zero curvature.
    """
    rounded = np.isfinite(D) & (np.abs(D) <= 4.0 * np.finfo(float).eps * terms)
    return np.where(rounded, 0.0, D)


def _complex_hessian(f: Function, z: Array, J: Array) -> Array:
    """``d²f/dz²`` from J and complex steps elsewhere: of those entries of z alone whose columns of J change at all."""
    bent = np.zeros(z.size, dtype=bool)
    for phase in (1.0, 2.0):
        elsewhere = complex_jacobian(f, z + steps(z, SECOND) * np.cos(phase + np.arange(z.size)))
        bent |= (elsewhere != J).reshape(-1, z.size).any(axis=0)
    H = np.zeros((*J.shape, z.size))
    along = np.flatnonzero(bent)
    if along.size:
        directions = np.diag(steps(z, FIRST))[along]
        values = np.array([complex_jacobian(f, z + move, along) for move in displacements(directions)])
        terms = np.tensordot(np.abs(WEIGHTS), np.abs(_around(values)), axes=1)
        found = np.moveaxis(_cleared(first_difference(values), terms), 0, -1) / steps(z, FIRST)[along]
        H[..., along[:, None], along] = 0.5 * (found + np.swapaxes(found, -1, -2))
    return H


def _by_complex_step(derivatives: Callable[[], Any]) -> Any:
    """Result of ``derivatives``; None if the function cannot be called with complex numbers."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", np.exceptions.ComplexWarning)
            return derivatives()
    except Exception:  # whatever a user's code does with numbers it was not made for
        return None


def _agree(given: Array, change: Array, scale: Array, values: Array, agreement: float = AGREEMENT) -> bool:
    """Whether differences agree, entry by entry of f; where its values end (a logarithm's), nothing is compared."""
    rounding = ROUNDING * np.maximum(1.0, np.abs(values).max(axis=0))
    return bool(np.isfinite(given).all() and not np.any(np.abs(given - change) > agreement * scale + rounding))
