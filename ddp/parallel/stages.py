"""The stages in which the derivatives of an iterate are made, whoever does it: `Problem`'s methods, over its knots."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cache
from typing import Literal

from ddp.derivatives import Derivatives
from ddp.protocols import Array
from ddp.sweeps.backward import Behind

Stage = Literal["expand", "expand_exact", "expand_second", "expand_costs", "expand_at_once", "expand_gauss_newton"]
"""A method of `Problem`."""

FIRST, GAUSS_NEWTON, EXACT, RECORDS = 1, 2, 4, 8
"""What may be known of a trajectory: first derivatives, Hessians of costs of either kind, and the records of the second
order of the dynamics. Bits of one number."""

Follow = Callable[[Array, Array, Sequence[Stage], Behind], None]
"""Of states and controls the derivatives that these stages make, with a sweep behind them."""


@cache
def missing(known: int, wanted: int, curved: bool) -> tuple[tuple[Stage, ...], int]:
    """What makes what is wanted and not known, in the order and the company that cost least; what is known then.

    curved: whether the exact Hessians of costs are others than Gauss-Newton's.
    """
    stages: list[tuple[Stage, int]] = []
    if not known and wanted & RECORDS:
        stages.append(("expand_at_once", FIRST | EXACT | RECORDS))
    elif not known and (wanted & GAUSS_NEWTON or not curved):
        stages.append(("expand", FIRST | GAUSS_NEWTON))
    elif not known:
        stages.append(("expand_exact", FIRST | EXACT))
    left = wanted & ~known & ~sum(made for _, made in stages)
    if left & RECORDS:
        stages.append(("expand_second", EXACT | RECORDS))
    elif left & EXACT and curved:
        stages.append(("expand_costs", EXACT))
    if left & GAUSS_NEWTON:
        stages.append(("expand_gauss_newton", GAUSS_NEWTON))
    for _, made in stages:
        known |= made
    return tuple(stage for stage, _ in stages), known | wanted


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
