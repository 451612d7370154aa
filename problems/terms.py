"""What the built-in cost terms have in common: batches checked, and one knot at a time for people."""

from __future__ import annotations

import copy
from typing import Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from ddp.errors import ProblemError
from ddp.protocols import Array
from dynamics.model import Robot
from problems import checks


class KnotTerm(Protocol):
    """A batch term of states with tangents (n,), one knot at a time."""

    @property
    def n(self) -> int:
        """Numbers in a tangent vector of a state."""

    @property
    def thread_safe(self) -> bool:
        """Always."""
        return True

    def values(self, X: Array, U: Array) -> Array:
        """The costs (M,) of states X (M, nx) and controls U (M, nu)."""

    def expand(self, X: Array, U: Array, weight: float, exact: bool, l: Array, lz: Array, lzz: Array) -> None:
        """Add ``weight`` times value, gradient and Hessian to l (M,), lz (M, nz), lzz (M, nz, nz)."""

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


class StateTerm(KnotTerm, Protocol):
    """A term of the state alone, x (nx,) with tangents (n,); it writes ``_values`` and ``_expand`` itself."""

    @property
    def nx(self) -> int:
        """Numbers in a state."""

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


class MovingTerm(Protocol):
    """A term whose target may be another at each knot of a stretch, `ddp.protocols.VaryingTerm`.

    _targets (T, .): one row for each knot, or one for all.
    """

    _targets: Array

    @property
    def knots(self) -> int | None:
        """For how many knots it is made, None if its target stays."""
        return None if len(self._targets) == 1 else len(self._targets)

    def part(self, start: int, stop: int) -> Self:
        """The same with the targets of the knots start .. stop-1 alone."""
        if (start, stop) == (0, len(self._targets)):
            return self
        twin = copy.copy(self)
        object.__setattr__(twin, "_targets", self._targets[start:stop])
        return twin

    def _rows(self, M: int) -> Array:
        """The targets of M knots."""
        if len(self._targets) not in (1, M):
            raise ProblemError(f"made for a stretch of {len(self._targets)} knots, got {M}: a term for Problem.during")
        return self._targets


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
