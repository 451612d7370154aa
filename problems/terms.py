"""What the built-in cost terms have in common: batches checked, and one knot at a time for people."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from ddp.protocols import Array
from dynamics.model import Robot
from problems import checks


class StateTerm(Protocol):
    """A term of the state alone, x (nx,) with tangents (n,); it writes ``_values`` and ``_expand`` itself."""

    @property
    def nx(self) -> int:
        """Numbers in a state."""

    @property
    def n(self) -> int:
        """Numbers in a tangent vector of it."""

    @property
    def thread_safe(self) -> bool:
        """Always."""
        return True

    def _values(self, X: Array, out: Array) -> None:
        """The costs of the states X (M, nx) into ``out`` (M,)."""

    def _expand(self, X: Array, scale: float, exact: bool, l: Array, lz: Array, lzz: Array) -> None:
        """Add ``scale`` times values (M,), gradients (M, nz), Hessians (M, nz, nz)."""

    def values(self, X: Array, U: Array) -> Array:
        """The costs (M,) of states X (M, nx)."""
        X = checks.rows("numbers in a state", X, self.nx)
        out = np.empty(len(X))
        self._values(X, out)
        return out

    def expand(self, X: Array, U: Array, weight: float, exact: bool, l: Array, lz: Array, lzz: Array) -> None:
        """Add ``weight`` times value, gradient and Hessian to l (M,), lz (M, nz), lzz (M, nz, nz)."""
        self._expand(checks.rows("numbers in a state", X, self.nx), float(weight), bool(exact), l, lz, lzz)

    def value(self, x: ArrayLike, u: ArrayLike) -> float:
        """The cost of one knot."""
        return float(self.values(np.array([x], float), np.array([u], float))[0])

    def gradient(self, x: ArrayLike, u: ArrayLike) -> Array:
        """(n + nu,): the derivative along z = (dx, du)."""
        return self._knot(x, u, True)[0]

    def hessian(self, x: ArrayLike, u: ArrayLike, exact: bool = True) -> Array:
        """(n + nu, n + nu): the exact Hessian in exponential coordinates, or the Gauss-Newton one."""
        return self._knot(x, u, exact)[1]

    def _knot(self, x: ArrayLike, u: ArrayLike, exact: bool) -> tuple[Array, Array]:
        X, U = np.array([x], float), np.array([u], float)
        nz = self.n + U.shape[1]
        lz, lzz = np.zeros((1, nz)), np.zeros((1, nz, nz))
        self.expand(X, U, 1.0, exact, np.zeros(1), lz, lzz)
        return lz[0], lzz[0]


class RobotTerm(StateTerm, Protocol):
    """A term of a robot's state x = (q, v)."""

    robot: Robot

    @property
    def nx(self) -> int:
        """Numbers in a state."""
        return self.robot.nq + self.robot.nv

    @property
    def n(self) -> int:
        """Numbers in a tangent vector of it."""
        return 2 * self.robot.nv
