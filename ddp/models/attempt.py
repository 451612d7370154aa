"""Vocabulary of the models: the iterate as they see it, one attempt to improve it, and what a model is.

A model of the Hessian is made anew for every solve, by ``model(limits)``, and chooses at each iterate which sweep to
search along. It is an object with `HessianModel`'s methods; `ddp.DDP` takes such a class by its field ``hessian``.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ddp.search import Step
from ddp.sweeps.backward import Sweep

if TYPE_CHECKING:
    from ddp.models.regularization import Regularization

GAUSS_NEWTON, EXACT, LEVENBERG_MARQUARDT = "gauss-newton", "exact", "exact+lm"
"""Names of models in a `Record`."""

SHIFT = 1e-9
"""The smallest mu, there in every sweep to settle flat directions; relative to the control costs, so that it stays
small beside them: convergence would end where the error is mu / l_uu."""

TRUSTED = 0.02
"""An exact model whose full step brings what it promised, to this fraction, is near its minimum: V_x is the costate."""

AGAIN = 1.0 / 64.0
"""Searches begin no more than four times beyond where the last two ended, or this."""


class Attempt(NamedTuple):
    """One model tried at the current iterate: what it promised, and where its line search arrived."""

    hessian: str
    blend: float
    mu: float
    expected: float
    gradient: float
    step: Step
    contraction: str


class Point(Protocol):
    """The current iterate, as models see it.

    cost: the total.   magnitude: the sum of the sizes of all knots' costs.
    control_weight: the mean size of the diagonals of l_uu, above zero: what makes mu large or small.
    unit: the cost that counts as one: what tolerances are multiplied by.
    """

    cost: float
    control_weight: float
    magnitude: float
    unit: float

    def sweep(self, blend: float, mu: float, costates: bool = False) -> Sweep:
        """A backward sweep of ``GN + blend (exact - GN) + mu I``; ``costates``: these may contract the second order."""

    def search(self, sweep: Sweep, longest: float) -> Step:
        """Search from alpha = ``longest`` along the policy of ``sweep``."""


@dataclass
class Limits:
    """Bounds that the loop gives a model.

    tolerance: of the expected decrease, in units of `Point.unit`; the rounds of constraints change it on the way.
    switch, max_regularization, regularization: as of `ddp.DDP`.
    """

    tolerance: float = 1e-9
    switch: float = 1e-2
    max_regularization: float = 1e9
    regularization: Regularization | None = None


class HessianModel(Protocol):
    """Model of the Hessian of one solve."""

    @property
    def exact(self) -> bool:
        """Whether the gains of the last sweep shall be of exact Hessians."""

    @property
    def failed(self) -> int | None:
        """The knot of the last failed factorisation, for the status; None where steps were rejected instead."""

    def iterate(self, point: Point) -> Attempt | None:
        """The best attempt at an iterate, None if no regularisation makes a sweep succeed."""

    def restart(self) -> None:
        """Forget past steps: the cost has changed, though not by much."""


class Trials:
    """Line searches of one model: how far its last two went, and whether the last one kept its promise."""

    def __init__(self, hessian: str) -> None:
        self.hessian, self.trusted = hessian, False
        self.alphas = deque([1.0, 1.0], maxlen=2)

    def restart(self) -> None:
        """Searches begin at 1 again."""
        self.alphas.extend([1.0, 1.0])

    def sweep(self, point: Point, blend: float, mu: float) -> Sweep:
        """A sweep with costates if the model kept its last promise, with V_x if not, or if that one fails."""
        if self.trusted and blend == 1.0:
            sweep = point.sweep(blend, mu, True)
            if sweep.failed < 0:
                return sweep
        return point.sweep(blend, mu)

    def search(self, point: Point, blend: float, mu: float, sweep: Sweep) -> Attempt:
        """The line search along a sweep."""
        one, other = self.alphas
        step = point.search(sweep, min(1.0, 4.0 * max(one, other, AGAIN)))
        self.alphas.append(step.alpha)
        miss = abs(point.cost - step.cost - sweep.expected)
        self.trusted = step.alpha == 1.0 and miss <= TRUSTED * abs(sweep.expected)
        return Attempt(self.hessian, blend, mu, sweep.expected, sweep.gradient, step, sweep.contraction)


def shift(point: Point) -> float:
    """The smallest mu of a sweep."""
    return SHIFT * point.control_weight


def kept(decrease: float, expected: float) -> float:
    """The ratio of an actual to an expected decrease."""
    return decrease / expected if expected != 0.0 else 1.0


def lower(one: Attempt, other: Attempt | None) -> Attempt:
    """The attempt with the lower cost, the first if they are equal."""
    return one if other is None or other.step.cost >= one.step.cost else other
