"""Vocabulary of the models: the iterate as they see it, one attempt to improve it, and what a model is.

A model of the Hessian is made anew for every solve, by ``model(limits)``, and chooses at each iterate which sweep to
search along. It is an object with `HessianModel`'s methods; `ddp.DDP` takes such a class by its field ``hessian``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ddp.models import globalisation
from ddp.models.globalisation import Globalisation, shift
from ddp.search import Step
from ddp.sweeps.backward import Sweep

if TYPE_CHECKING:
    from ddp.models.regularization import Regularization

__all__ = ["Attempt", "HessianModel", "Limits", "Point", "Trials", "shift"]

GAUSS_NEWTON, EXACT, LEVENBERG_MARQUARDT = "gauss-newton", "exact", "exact+lm"
"""Names of models in a `Record`."""

NAMES = GAUSS_NEWTON, EXACT, LEVENBERG_MARQUARDT
"""Names by model of `globalisation`."""


class Attempt(NamedTuple):
    """One model tried at the current iterate: what it promised, and where its line search arrived.

    stiffness: the curvature along the step if no fraction of it was accepted, else 0: see `globalisation.stiffness`.
    """

    hessian: str
    blend: float
    mu: float
    expected: float
    gradient: float
    step: Step
    contraction: str
    stiffness: float = 0.0


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
    """Line searches of a model of one's own: how far its last two went, and whether the last one kept its promise."""

    def __init__(self, hessian: str) -> None:
        self.hessian = hessian
        self._numbers = Globalisation(Limits(), 0, True, -1)

    def restart(self) -> None:
        """Searches begin at 1 again."""
        globalisation.restart(self._numbers)

    def sweep(self, point: Point, blend: float, mu: float) -> Sweep:
        """A sweep with costates if the model kept its last promise, with V_x if not, or if that one fails."""
        if self._numbers.trusted[0] and blend == 1.0:
            sweep = point.sweep(blend, mu, True)
            if sweep.failed < 0:
                return sweep
        return point.sweep(blend, mu)

    def search(self, point: Point, blend: float, mu: float, sweep: Sweep) -> Attempt:
        """The line search along a sweep."""
        step = point.search(sweep, self._numbers.longest[0])
        globalisation.searched(self._numbers, 0, point, sweep, step.alpha, step.cost)
        made = self.hessian, blend, mu, sweep.expected, sweep.gradient, step, sweep.contraction
        return Attempt(*made, self._numbers.stiffness[0])
