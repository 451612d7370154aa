"""The stages in which the derivatives of an iterate are made, whoever does it: `Problem`'s methods, over its knots."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Literal

from ddp.derivatives import Derivatives
from ddp.protocols import Array
from ddp.sweeps.backward import Behind

Stage = Literal["expand", "expand_second", "expand_costs", "expand_at_once", "expand_gauss_newton"]
"""A method of `Problem`."""

Follow = Callable[[Array, Array, bool, Behind], None]
"""Of states and controls the derivatives, of second order too if that is true, with a sweep behind them."""


class Differentiator(ABC):
    """Batched stages over all knots of a trajectory, into ``derivatives``."""

    derivatives: Derivatives

    @property
    @abstractmethod
    def description(self) -> str:
        """Who computes them, in words."""

    @property
    def followed(self) -> Follow | None:
        """How to sweep while derivatives are being made, instead of ``first`` and ``second``; None where one cannot."""
        return None

    def first(self, X: Array, U: Array) -> None:
        """First order and Gauss-Newton costs of states X (N+1, nx) and controls U (N, nu)."""
        self._begin(X, U)
        self._each("expand")

    def second(self) -> None:
        """Second order and exact costs of the same trajectory."""
        self._each("expand_second")

    def costs(self) -> None:
        """Exact costs of the same trajectory alone."""
        self._each("expand_costs")

    def at_once(self, X: Array, U: Array) -> None:
        """What ``first`` and ``second`` do, but for the Gauss-Newton Hessians."""
        self._begin(X, U)
        self._each("expand_at_once")

    def gauss_newton(self) -> None:
        """Gauss-Newton costs of the same trajectory alone."""
        self._each("expand_gauss_newton")

    @abstractmethod
    def contract(self, weights: Array, out: Array, in_blocks: bool = False) -> None:
        """The dynamics' second order with weights (N, n) into ``out`` (N, nz, nz), or as the blocks of `Batched`."""

    @abstractmethod
    def close(self) -> None:
        """End whoever has been started."""

    @abstractmethod
    def _begin(self, X: Array, U: Array) -> None:
        """The stages to come are of this trajectory."""

    @abstractmethod
    def _each(self, stage: Stage) -> None:
        """Do this, of all knots."""
