"""Gauss-Newton: no second derivatives of residuals and dynamics, + mu I. Best far away; alone it is iLQR."""

from __future__ import annotations

from ddp.models.attempt import GAUSS_NEWTON, SHIFT, Attempt, Limits, Point, Trials
from ddp.models.regularization import Tenfold


class GaussNewton:
    """The model of iLQR; its Hessian is positive semidefinite, so mu is for steps that do not lower the cost."""

    exact = False

    def __init__(self, limits: Limits) -> None:
        self._limits, self._rule = limits, limits.regularization or Tenfold()
        self.trials = Trials(GAUSS_NEWTON)
        self.mu = 0.0
        self.failed: int | None = None

    def restart(self) -> None:
        """Searches begin at 1 again."""
        self.trials.restart()

    def iterate(self, point: Point) -> Attempt | None:
        """Attempt, and let mu follow the step."""
        own = self.attempt(point)
        if own is not None:
            self.mu = self._rule.stepped(own, point.cost, 0.0, point.control_weight)
        return own

    def attempt(self, point: Point) -> Attempt | None:
        """The first sweep that succeeds, mu being raised until one does."""
        self.mu = max(self.mu, SHIFT * point.control_weight)
        most = self._limits.max_regularization * max(1.0, point.control_weight)
        while self.mu <= most:
            sweep = point.sweep(0.0, self.mu)
            if sweep.failed < 0:
                self.failed = None
                return self.trials.search(point, 0.0, self.mu, sweep)
            self.failed = sweep.failed
            self.stiffen(point)
        return None

    def stiffen(self, point: Point) -> None:
        """Raise mu."""
        self.mu = self._rule.raised(self.mu, point.control_weight)
