"""Base of compiled constraints: what users and single knots ask, from the C function that kernels call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numpy as np

from ddp.constraints import row_table
from ddp.constraints.bound import CURVATURE, JACOBIAN, VALUES, CompiledConstraint
from ddp.protocols import Array

NONE, NO_HESSIANS = np.zeros(0), np.zeros((0, 0, 0))


class KernelConstraint(ABC):
    """A constraint made of kernels, `ddp.constraints.bound`; it writes ``_bound`` itself."""

    lower: Array
    upper: Array

    @property
    @abstractmethod
    def n(self) -> int:
        """Numbers in a tangent vector of a state."""

    thread_safe = True

    @abstractmethod
    def _bound(self) -> CompiledConstraint:
        """The kernels with their arguments."""

    def _checked(self, X: Array, U: Array) -> tuple[Array, Array]:
        """X (M, nx) and U (M, nu) as kernels want them; of robots, ProblemError if they are not the robot's."""
        return np.ascontiguousarray(X, dtype=np.float64), np.ascontiguousarray(U, dtype=np.float64)

    @cached_property
    def compiled(self) -> CompiledConstraint:
        """C function of the constraint."""
        return self._bound()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "compiled"}  # addresses are of a process

    def values(self, X: Array, U: Array) -> Array:
        """c (M, size)."""
        X, U = self._checked(X, U)
        c = np.empty((len(X), len(self.lower)))
        self._evaluate(VALUES, X, U, NONE, c, NO_HESSIANS)
        return c

    def jacobian(self, X: Array, U: Array) -> Array:
        """``∂c/∂z`` (M, size, nz), z = (dx, du)."""
        X, U = self._checked(X, U)
        found, size = self.compiled, len(self.lower)
        own, J = np.empty((len(X), size, found.width)), np.zeros((len(X), size, self.n + U.shape[1]))
        self._evaluate(JACOBIAN, X, U, NONE, own, NO_HESSIANS)
        if found.diagonal:
            J[:, np.arange(size), found.columns] = own[:, :, 0]
        else:
            J[:, :, found.columns] = own
        return J

    def curvature(self, X: Array, U: Array, weight: Array) -> Array:
        """``Σ_i weight_i ∂²c_i/∂z²`` (M, nz, nz); weight (M, size)."""
        X, U = self._checked(X, U)
        nz = self.n + U.shape[1]
        H = np.zeros((len(X), nz, nz))
        self._evaluate(CURVATURE, X, U, np.ascontiguousarray(weight, dtype=np.float64), NONE, H)
        return H

    def _evaluate(self, order: int, X: Array, U: Array, weight: Array, out: Array, H: Array) -> None:
        table = row_table.alone(self.compiled, len(X), len(self.lower))
        row_table.evaluate(table, order, 0, len(X), X, U, weight.ravel(), out.ravel(), H)
