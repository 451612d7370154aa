# mypy: allow-untyped-defs, allow-untyped-calls
"""Rows that are linear in numbers of states and controls: limits of joints, speeds, controls, torques."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ddp.compiling.kernel import kernel
from ddp.constraints.bound import CompiledConstraint, Kernels, bind
from ddp.constraints.compiled import KernelConstraint
from ddp.protocols import Array


@kernel
def linear(places, factors, offset, X, U, c):
    """``Σ_j factors_ij z_places_ij - offset_i`` of z = (x, u)."""
    nx = X.shape[1]
    for k in range(X.shape[0]):
        for i in range(places.shape[0]):
            total = -offset[i]
            for j in range(places.shape[1]):
                p = places[i, j]
                total += factors[i, j] * (X[k, p] if p < nx else U[k, p - nx])
            c[k, i] = total


@kernel
def linear_jacobian(places, factors, offset, X, U, J):
    """The factors."""
    for k in range(X.shape[0]):
        for i in range(places.shape[0]):
            for j in range(places.shape[1]):
                J[k, i, j] = factors[i, j]


def selection(
    places: ArrayLike, columns: ArrayLike, factors: ArrayLike = 1.0, offset: ArrayLike = 0.0
) -> CompiledConstraint:
    """Rows ``factors z[places] - offset``; places: in (x, u), columns: in (dx, du)."""
    places = np.array(places, dtype=np.int64)
    own = (np.broadcast_to(np.asarray(part, dtype=np.float64), places.shape) for part in (factors, offset))
    A, b = own
    return bind(Kernels(linear, linear_jacobian), places[:, None], A[:, None], b, columns=columns, diagonal=True)


def combination(places: ArrayLike, columns: ArrayLike, factors: Array) -> CompiledConstraint:
    """Rows ``factors z[places]``, factors (K, m) of the same places (m,) for all; as of `selection`."""
    of_rows = np.broadcast_to(np.asarray(places, dtype=np.int64), factors.shape)
    return bind(Kernels(linear, linear_jacobian), of_rows, factors, np.zeros(len(factors)), columns=columns)


@dataclass(frozen=True, eq=False)
class Selected(KernelConstraint):
    """``lower <= factors z[places] <= upper``.

    places: in (x, u).   columns: in (dx, du).   tangents: how many numbers dx has.
    """

    places: NDArray[np.int64]
    columns: NDArray[np.int64]
    factors: Array
    lower: Array
    upper: Array
    tangents: int

    @property
    def n(self) -> int:
        return self.tangents

    def _bound(self) -> CompiledConstraint:
        return selection(self.places, self.columns, self.factors)
