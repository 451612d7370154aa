"""Differentiators: they compute the derivatives of an iterate by `Problem.expand`, over its knots."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ddp.derivatives import Derivatives, contract_with
from ddp.protocols import Array

if TYPE_CHECKING:
    from ddp.problem import Problem


class Differentiator(ABC):
    """Makes derivatives of all knots of a trajectory, into ``derivatives``."""

    derivatives: Derivatives
    _problem: "Problem"

    @cached_property
    def kept(self) -> dict[Any, Any]:
        """Memory of whatever works with these derivatives, for the next solve of the same problem."""
        return {}

    @property
    def alone(self) -> bool:
        """Whether one thread makes all derivatives, untimed, so that compiled iterations may make them themselves."""
        return False

    @property
    @abstractmethod
    def description(self) -> str:
        """Description of the differentiator in words."""

    @property
    def contraction(self) -> Callable[[Array, Array, bool], None] | None:
        """Function that contracts for sweeps; None for the dynamics' own."""
        return self.contract

    def contract(self, weights: Array, out: Array, in_blocks: bool = False) -> None:
        """Contract the second order with weights (N, n) into ``out`` (N, nz, nz), or ``in_blocks``: see `Abilities`."""
        contract_with(self._problem.dynamics, self.derivatives.record, weights, out, in_blocks)

    def turn_to(self, problem: "Problem") -> None:
        """Differentiate another problem of the same sizes from now on, in the same memory."""
        self._problem = problem
        for H in (self.derivatives.lzz, self.derivatives.exact):
            H[:] = 0.0  # terms may write elsewhere

    @abstractmethod
    def close(self) -> None:
        """End all threads and processes that were started."""

    @abstractmethod
    def make(self, X: Array, U: Array, made: int) -> None:
        """Make derivatives, `derivatives.FIRST` and the others, along states X (N+1, nx) and controls U (N, nu)."""
