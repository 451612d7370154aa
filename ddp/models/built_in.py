"""The models of the Hessian that a solve can have: Gauss-Newton's, the damped exact one, and both in turn, the default.

What they decide is in globalisation.py; here an iterate is swept and searched as it is decided.
"""

import math
from typing import Any

from ddp.models import globalisation
from ddp.models.attempt import NAMES, Attempt, Limits, Point
from ddp.models.globalisation import DAMPED, GAUSS_NEWTON, LM_TRIES, NOBODY, OWN, Globalisation
from ddp.models.regularization import ByRatio, Tenfold

RULES = Tenfold(), Tenfold(), ByRatio()
"""The models' own rules for mu; the exact one's stays as small as can be."""


class Model:
    """Model of the Hessian of one solve: see `globalisation`.

    mode: the model that it begins with.   alone: whether no other one is tried.   tries: how many sweeps the damped
    model may fail at an iterate; -1: as many as mu can be raised.
    """

    def __init__(self, limits: Limits, mode: int, alone: bool, tries: int = -1) -> None:
        self.limits, self.numbers = limits, Globalisation(limits, mode, alone, tries)
        self.exact = not alone or mode == DAMPED
        numbers: Any = self.numbers
        numbers.rules = [limits.regularization or rule for rule in RULES]
        self._attempts: list[Attempt | None] = [None, None, None]
        numbers.attempts = self._attempts

    @property
    def failed(self) -> int | None:
        """The knot of the last failed factorisation of the model that is tried last, None if it did not fail."""
        failed = self.numbers.failed[self.numbers.mode if self.numbers.alone else GAUSS_NEWTON]
        return None if failed < 0 else failed

    def restart(self) -> None:
        """Forget past steps, but not the mode: the cost has changed, though not by much."""
        self.numbers.previous, self.numbers.count = math.inf, 0
        for model in range(3):
            globalisation.search_anew(self.numbers, model)

    def iterate(self, point: Point) -> Attempt | None:
        """The best attempt of one iteration."""
        s = self.numbers
        s.tolerance = self.limits.tolerance
        model = s.model = s.entered = s.mode
        s.place = OWN
        while model != NOBODY:
            sweep = globalisation.attempted(s, model, point)
            made = sweep.failed < 0
            if made:
                step = point.search(sweep, s.longest[model])
                globalisation.searched(s, model, point, sweep, step.alpha, step.cost)
                self._attempts[model] = Attempt(
                    NAMES[model], s.used_blend[model], s.used_mu[model], sweep.expected, sweep.gradient, step,
                    sweep.contraction, s.stiffness[model],
                )  # fmt: skip
            model = globalisation.follow_up(s, point, made)
        return None if s.best == NOBODY else self._attempts[s.best]


class Mixed(Model):
    """Gauss-Newton far away, exact near the optimum, damped where both stagnate."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits, GAUSS_NEWTON, False, LM_TRIES)


def gauss_newton(limits: Limits) -> Model:
    """The model of iLQR.

    It has no second derivatives of residuals and dynamics. Its Hessian is positive semidefinite, so mu is for steps
    that do not lower the cost.
    """
    return Model(limits, GAUSS_NEWTON, True)


def levenberg_marquardt(limits: Limits) -> Model:
    """Exact Hessians with damping, which follows how well the model's prediction came true."""
    return Model(limits, DAMPED, True, -1)
