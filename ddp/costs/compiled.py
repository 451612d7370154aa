"""Bases of compiled terms and constraints: batches of knots, evaluated by the C function that the horizon calls."""

from functools import cached_property
from typing import Any

import numpy as np

from ddp.costs import cost_table
from ddp.costs.bound import EXACT, GAUSS_NEWTON
from ddp.protocols import Array


class OfKernels:
    """A term or a constraint made of kernels; it writes ``_bound`` itself."""

    thread_safe = True

    def _bound(self) -> Any:
        """The kernels with their arguments, as `ddp.costs.bound` or `ddp.constraints.bound` binds them."""
        raise NotImplementedError

    def _checked(self, X: Array, U: Array) -> tuple[Array, Array]:
        """X (M, nx) and U (M, nu) as kernels want them; of robots, ProblemError if they are not the robot's."""
        return np.ascontiguousarray(X, dtype=np.float64), np.ascontiguousarray(U, dtype=np.float64)

    @cached_property
    def compiled(self) -> Any:
        """C function."""
        return self._bound()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "compiled"}  # addresses are of a process


class CompiledTerm(OfKernels):
    """A batch term made of a kernel, `ddp.costs.bound`."""

    def values(self, X: Array, U: Array) -> Array:
        """The costs (M,) of states X (M, nx) and controls U (M, nu)."""
        X, U = self._checked(X, U)
        out = np.empty(len(X))
        cost_table.values(self._alone(len(X), 1.0), X, U, X[:0], out)
        return out

    def expand(self, X: Array, U: Array, weight: float, exact: bool, l: Array, lz: Array, lzz: Array) -> None:
        """Add ``weight`` times value, gradient and Hessian to l (M,), lz (M, nz), lzz (M, nz, nz)."""
        X, U = self._checked(X, U)
        order, table = EXACT if exact else GAUSS_NEWTON, self._alone(len(X), float(weight))
        cost_table.expand_matrices(table, order, X, U, l, lz, lzz)

    def check_sizes(self, M: int, nx: int, nu: int) -> None:
        """Raise ProblemError unless it is a term of M knots with states (nx,) and controls (nu,)."""
        self._checked(np.empty((M, nx)), np.empty((M, nu)))

    def _alone(self, M: int, weight: float) -> cost_table.Table:
        return cost_table.table_of([(self.compiled, 0, M, weight)])
