"""The exact Hessian, or as much of it as is positive definite: GN + s (exact - GN), s halved until it works."""

from __future__ import annotations

from ddp.models.attempt import EXACT, Attempt, Limits, Point, Trials, shift

SMALLEST_BLEND = 0.125
"""Below this share the model is Gauss-Newton's, which is for others to try."""


class Blended:
    """Exact Hessians as far as they go, without regularisation: best near the optimum."""

    exact = True

    def __init__(self, limits: Limits) -> None:
        self.trials, self.blend = Trials(EXACT), 1.0
        self.failed: int | None = None

    def restart(self) -> None:
        """Searches begin at 1 again."""
        self.trials.restart()

    def iterate(self, point: Point) -> Attempt | None:
        """Attempt, and let the share of the exact Hessian follow the step."""
        own = self.attempt(point)
        if own is not None and own.step.alpha > 0.5:
            self.blend = min(1.0, 2.0 * self.blend)
        elif own is not None and own.step.alpha == 0.0:
            self.blend = max(0.5 * self.blend, SMALLEST_BLEND)
        return own

    def attempt(self, point: Point) -> Attempt | None:
        """The first sweep that succeeds, the share being halved until one does."""
        mu = shift(point)
        while True:
            sweep = self.trials.sweep(point, self.blend, mu)
            if sweep.failed < 0:
                return self.trials.search(point, self.blend, mu, sweep)
            if self.blend <= SMALLEST_BLEND:
                self.failed = sweep.failed
                return None
            self.blend *= 0.5
