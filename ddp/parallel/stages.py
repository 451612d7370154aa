"""The stages in which the derivatives of an iterate are made, whoever does it: `Problem`'s methods, over its knots."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Literal

from ddp.derivatives import Derivatives
from ddp.protocols import Array
from ddp.sweeps.backward import Behind

Stage = Literal["expand", "expand_exact", "expand_second", "expand_costs", "expand_at_once", "expand_gauss_newton"]
"""A method of `Problem`."""

Follow = Callable[[Array, Array, Sequence[Stage], Behind], None]
"""Of states and controls the derivatives that these stages make, with a sweep behind them."""


class Differentiator(ABC):
    """Batched stages over all knots of a trajectory, into ``derivatives``."""

    derivatives: Derivatives

    @property
    @abstractmethod
    def description(self) -> str:
        """Who computes them, in words."""

    @property
    def followed(self) -> Follow | None:
        """How to sweep while derivatives are being made, instead of one stage after another; None where one cannot."""
        return None

    @abstractmethod
    def contract(self, weights: Array, out: Array, in_blocks: bool = False) -> None:
        """The dynamics' second order with weights (N, n) into ``out`` (N, nz, nz), or as the blocks of `Batched`."""

    @abstractmethod
    def close(self) -> None:
        """End whoever has been started."""

    @abstractmethod
    def begin(self, X: Array, U: Array) -> None:
        """The stages to come are of states X (N+1, nx) and controls U (N, nu)."""

    @abstractmethod
    def each(self, stage: Stage) -> None:
        """Do this, of all knots."""
