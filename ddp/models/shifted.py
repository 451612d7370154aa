"""Hessians shifted by mu I: Gauss-Newton's, best far away and alone iLQR; and the exact one (Levenberg, Marquardt).

`gauss_newton` has no second derivatives of residuals and dynamics. Its Hessian is positive semidefinite, so mu is for
steps that do not lower the cost. `levenberg_marquardt` is for where the others stagnate, or alone.
"""

from __future__ import annotations

from ddp.models.attempt import GAUSS_NEWTON, LEVENBERG_MARQUARDT, Attempt, Limits, Point, Trials, shift
from ddp.models.regularization import ByRatio, Regularization, Tenfold

TENFOLD, BY_RATIO = Tenfold(), ByRatio()
"""The models' own rules."""


class Shifted:
    """``GN + blend (exact - GN) + mu I``, mu by a rule, that of the limits or the model's own.

    tries: after so many failed sweeps at an iterate it gives up; None: when mu is as large as can be.
    """

    def __init__(
        self, name: str, blend: float, limits: Limits, rule: Regularization, tries: int | None = None
    ) -> None:  # fmt: skip
        self._limits, self._rule, self._tries = limits, limits.regularization or rule, tries
        self.trials, self.blend, self.exact = Trials(name), blend, blend > 0.0
        self.mu, self._failed_mu = 0.0, 0.0
        self.failed: int | None = None

    def restart(self) -> None:
        """Searches begin at 1 again."""
        self.trials.restart()

    def iterate(self, point: Point) -> Attempt | None:
        """Attempt, and let mu follow the step."""
        own = self.attempt(point)
        if own is not None:
            self.mu = self._rule.stepped(own, point.cost, self._failed_mu, point.control_weight)
        return own

    def attempt(self, point: Point) -> Attempt | None:
        """The first sweep that succeeds, mu being raised until one does."""
        self.mu, self._failed_mu, failures = max(self.mu, shift(point)), 0.0, 0
        most = self._limits.max_regularization * max(1.0, point.control_weight)
        while self.mu <= most and failures != self._tries:
            sweep = self.trials.sweep(point, self.blend, self.mu)
            if sweep.failed < 0:
                self.failed = None
                return self.trials.search(point, self.blend, self.mu, sweep)
            self.failed, self._failed_mu, failures = sweep.failed, self.mu, failures + 1
            self.stiffen(point)
        return None

    def stiffen(self, point: Point) -> None:
        """Raise mu."""
        self.mu = self._rule.raised(self.mu, point.control_weight)


def gauss_newton(limits: Limits) -> Shifted:
    """The model of iLQR."""
    return Shifted(GAUSS_NEWTON, 0.0, limits, TENFOLD)


def levenberg_marquardt(limits: Limits, tries: int | None = None) -> Shifted:
    """Exact Hessians with damping, which follows how well the model's prediction came true."""
    return Shifted(LEVENBERG_MARQUARDT, 1.0, limits, BY_RATIO, tries)
