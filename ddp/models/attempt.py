"""Vocabulary of the models: the iterate as they see it, an attempt to improve it, rules for mu, and models themselves.

A model of the Hessian is made anew for every solve, by ``model(limits)``, and chooses at each iterate which sweep to
search along. It is an object with `HessianModel`'s methods; `ddp.DDP` takes such a class by its field ``hessian``.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ddp.protocols import Array
from ddp.search import Step
from ddp.sweeps.outcome import Sweep

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
    damping: what makes mu large or small, above zero: see `ddp.costs.hessians.damping`.
    unit: the cost that counts as one: what tolerances are multiplied by.
    units (nz,): of states and controls, in which mu is added and steps are measured.
    """

    cost: float
    damping: float
    magnitude: float
    unit: float
    units: Array

    def sweep(self, blend: float, mu: float, costates: bool = False) -> Sweep:
        """A backward sweep of ``GN + blend (exact - GN) + mu I``; ``costates``: these may contract the second order."""

    def search(self, sweep: Sweep, longest: float) -> Step:
        """Search from alpha = ``longest`` along the policy of ``sweep``."""


class Regularization(Protocol):
    """Rule for mu, which is added to the diagonals of every V_xx and Q_uu; a field of `DDP`.

    The model keeps mu itself: a rule only says what the next one is. unit: `Point.damping`.
    """

    def raised(self, mu: float, unit: float) -> float:
        """mu after a sweep with this one has failed, or has led nowhere."""

    def stepped(self, attempt: Attempt, cost: float, failed: float, unit: float) -> float:
        """mu of the next iteration, after an attempt from an iterate of this cost.

        failed: the largest mu whose sweep failed at the same iterate, 0 if none did.
        """


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
