"""Gauss-Newton far away, exact near the optimum, damped where both stagnate: the default.

The mode is the model that an iteration starts with. It changes when another model, tried at the same iterate because
the first one struggled, reaches a lower cost; trials that do not pay are repeated at growing intervals. Near the
optimum Gauss-Newton hands over to the exact model, unless at its present rate it needs no more than two iterations to
the tolerance: the exact model would not be faster, and costs more. The damped one stays no longer than six iterations
in a row whose steps do not bring what it promised.

All of it is relative to the problem's own costs (`Point`): costs that are all multiplied by a number take the same way.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from ddp.models.attempt import EXACT, GAUSS_NEWTON, LEVENBERG_MARQUARDT, Attempt, Limits, Point, lower
from ddp.models.blended import SMALLEST_BLEND, Blended
from ddp.models.shifted import gauss_newton, levenberg_marquardt

LM_TRIES, LM_ASTRAY = 6, 6


class _Patience:
    """How many iterations to wait before a trial that did not pay is repeated: 1, 2, 4, 8, 16, 16, ..."""

    def __init__(self) -> None:
        self.wait = 0
        self.penalty = 1

    def disappointed(self) -> None:
        self.wait = self.penalty
        self.penalty = min(2 * self.penalty, 16)

    def rewarded(self) -> None:
        self.penalty = 1


class Mixed:
    """The state machine. `iterate` tries what the mode wants and returns the attempt with the lowest cost."""

    exact = True

    def __init__(self, limits: Limits) -> None:
        self._limits, self.mode = limits, GAUSS_NEWTON
        self.gauss_newton, self.blended = gauss_newton(limits), Blended(limits)
        self.damped = levenberg_marquardt(limits, LM_TRIES)
        self._exact_patience, self._lm_patience = _Patience(), _Patience()
        self._past: deque[tuple[float, float]] = deque(maxlen=6)
        self._previous = np.inf
        self._astray = 0

    @property
    def failed(self) -> int | None:
        """Gauss-Newton is tried last."""
        return self.gauss_newton.failed

    def restart(self) -> None:
        """Forget the past, but not the mode."""
        self._previous = np.inf
        self._past.clear()
        for model in (self.gauss_newton, self.blended, self.damped):
            model.restart()

    def iterate(self, point: Point) -> Attempt | None:
        """The best attempt of one iteration."""
        entered = self.mode
        best: Attempt | None = None
        if entered == LEVENBERG_MARQUARDT:
            best = self._damped_iteration(point)
        elif entered == EXACT:
            best = self._exact_iteration(point)
        if best is None and self.mode == GAUSS_NEWTON:
            best = self._gauss_newton_iteration(point)
        if best is None:
            return None
        if entered != LEVENBERG_MARQUARDT:
            self._lm_patience.wait -= 1
            self._past.append((best.expected, best.step.alpha))
            if best.step.alpha <= 0.25 and self._lm_patience.wait <= 0:
                best = self._compared_with_damped(point, best)
        if self.mode == GAUSS_NEWTON and self._exact_patience.wait <= 0:
            close = abs(best.expected) < self._limits.switch * point.magnitude
            rate = best.expected / self._previous if self._previous != 0.0 else 0.0  # 0: at the optimum
            done_in_two = best.step.alpha == 1.0 and abs(best.expected) * rate**2 < self._limits.tolerance * point.unit
            if close and not done_in_two:
                self.mode = EXACT
        self._previous = best.expected
        return best

    def _gauss_newton_iteration(self, point: Point) -> Attempt | None:
        own = self.gauss_newton.iterate(point)
        if own is None:
            return None
        struggles = own.step.alpha == 0.0 or max(self.gauss_newton.trials.alphas) < 0.1
        if not (struggles and self._exact_patience.wait <= 0):
            self._exact_patience.wait -= 1
            return own
        return self._tried(own, self.blended.attempt(point), EXACT, self._exact_patience)

    def _exact_iteration(self, point: Point) -> Attempt | None:
        own = self.blended.iterate(point)
        if own is None:
            self._give_up(self._exact_patience)
            return None
        best = self._compared_with_gauss_newton(point, own, self._exact_patience)
        if best.step.alpha == 0.0 and own.blend <= SMALLEST_BLEND:  # nothing left to try here but a larger mu
            self._give_up(self._exact_patience)
            self.gauss_newton.stiffen(point)
        elif best is own:
            self._exact_patience.rewarded()
        return best

    def _damped_iteration(self, point: Point) -> Attempt | None:
        own = self.damped.iterate(point)
        if own is None:
            self._give_up(self._lm_patience)
            return None
        best = self._compared_with_gauss_newton(point, own, self._lm_patience)
        self._astray = 0 if self.damped.trials.trusted else self._astray + 1
        if self._astray == LM_ASTRAY:
            self.mode = GAUSS_NEWTON
        if self.mode != LEVENBERG_MARQUARDT:
            self._astray = 0
        return best

    def _compared_with_gauss_newton(self, point: Point, own: Attempt, patience: _Patience) -> Attempt:
        """If a model struggles, Gauss-Newton is tried as well and takes over when it reaches a lower cost."""
        if own.step.alpha >= 0.25 or abs(own.expected) <= 1e-10 * (point.unit + abs(point.cost)):
            return own
        best = lower(own, self.gauss_newton.attempt(point))
        if best is not own:
            self._give_up(patience)
        return best

    def _give_up(self, patience: _Patience) -> None:
        self.mode = GAUSS_NEWTON
        patience.disappointed()

    def _compared_with_damped(self, point: Point, best: Attempt) -> Attempt:
        """Levenberg-Marquardt where steps stay tiny, or short while the expected decrease does not fall."""
        alphas = [alpha for _, alpha in self._past]
        tiny = len(alphas) >= 2 and max(alphas[-2:]) <= 1.0 / 64.0
        slow = len(alphas) == 6 and max(alphas[1:]) <= 0.25 and best.expected > 0.7 * self._past[0][0]
        if not (tiny or slow):
            return best
        return self._tried(best, self.damped.iterate(point), LEVENBERG_MARQUARDT, self._lm_patience)

    def _tried(self, own: Attempt, other: Attempt | None, mode: str, patience: _Patience) -> Attempt:
        """The attempt with the lower cost; where that is the other one, its mode takes over."""
        best = lower(own, other)
        if best is own:
            patience.disappointed()
        else:
            patience.rewarded()
            self.mode = mode
        return best
