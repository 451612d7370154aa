# mypy: allow-untyped-defs, allow-untyped-calls
"""Rows that are numbers of states and controls themselves, each times a factor: limits of joints, speeds, controls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ddp.compiling.kernel import kernel
from ddp.constraints.bound import CompiledConstraint, Kernels, bind
from ddp.constraints.compiled import KernelConstraint
from ddp.protocols import Array


@kernel
def selected(places, factors, X, U, c):
    """``factor z_place`` of z = (x, u)."""
    nx = X.shape[1]
    for k in range(X.shape[0]):
        for i in range(places.shape[0]):
            p = places[i]
            c[k, i] = factors[i] * (X[k, p] if p < nx else U[k, p - nx])


@kernel
def selected_jacobian(places, factors, X, U, J):
    """The factors."""
    for k in range(X.shape[0]):
        for i in range(places.shape[0]):
            J[k, i, 0] = factors[i]


def selection(places: ArrayLike, columns: ArrayLike, factors: ArrayLike = 1.0) -> CompiledConstraint:
    """Rows ``factors z[places]``; places: in (x, u), columns: in (dx, du)."""
    places = np.array(places, dtype=np.int64)
    factors = np.broadcast_to(np.asarray(factors, dtype=np.float64), places.shape).copy()
    return bind(Kernels(selected, selected_jacobian), places, factors, columns=columns, diagonal=True)


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
        """Numbers in a tangent vector of a state."""
        return self.tangents

    def _bound(self) -> CompiledConstraint:
        return selection(self.places, self.columns, self.factors)
