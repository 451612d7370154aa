"""Base of compiled constraints: what users and single knots ask, from the C function that kernels call."""

from abc import abstractmethod

import numpy as np

from ddp.constraints import row_table
from ddp.constraints.bound import CURVATURE, JACOBIAN, VALUES
from ddp.costs.compiled import OfKernels
from ddp.protocols import Array

NONE, NO_HESSIANS = np.zeros(0), np.zeros((0, 0, 0))


class KernelConstraint(OfKernels):
    """A constraint made of kernels, `ddp.constraints.bound`."""

    lower: Array
    upper: Array

    @property
    @abstractmethod
    def n(self) -> int:
        """Numbers in a tangent vector of a state."""

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
