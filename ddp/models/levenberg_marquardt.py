"""The exact Hessian + mu I (Levenberg, Marquardt): where the others stagnate, or alone."""

from __future__ import annotations

from ddp.models.attempt import LEVENBERG_MARQUARDT, Attempt, Limits, Point, Trials, shift
from ddp.models.regularization import ByRatio


class LevenbergMarquardt:
    """Exact Hessians with damping, which follows how well the model's prediction came true.

    tries: after so many failed sweeps at an iterate it gives up; None: when mu is as large as can be.
    """

    exact = True

    def __init__(self, limits: Limits, tries: int | None = None) -> None:
        self._limits, self._rule, self._tries = limits, limits.regularization or ByRatio(), tries
        self.trials = Trials(LEVENBERG_MARQUARDT)
        self.mu = 0.0
        self.failed: int | None = None

    def restart(self) -> None:
        """Searches begin at 1 again."""
        self.trials.restart()

    def iterate(self, point: Point) -> Attempt | None:
        """The first sweep that succeeds, mu being raised until one does; mu then follows the step."""
        mu, failed, failures = max(self.mu, shift(point)), 0.0, 0
        most = self._limits.max_regularization * max(1.0, point.control_weight)
        while mu <= most:
            sweep = self.trials.sweep(point, 1.0, mu)
            if sweep.failed < 0:
                self.failed = None
                own = self.trials.search(point, 1.0, mu, sweep)
                self.mu = self._rule.stepped(own, point.cost, failed, point.control_weight)
                return own
            self.failed, failures = sweep.failed, failures + 1
            failed, mu = mu, self._rule.raised(mu, point.control_weight)
            self.mu = mu
            if failures == self._tries:
                return None
        return None
