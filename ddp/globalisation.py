"""How a second-order method far from its optimum is kept from harm, and near it from being slowed down.

Three models of the problem, each with its own protection:

    gauss-newton  no second derivatives of residuals and dynamics, + mu I           best far away
    exact         that + s (exact - Gauss-Newton), s halved until it works          best near the end
    exact+lm      exact + mu I (Levenberg-Marquardt)                                where the others stagnate,
                  but no longer than six iterations in a row whose steps do not bring what it promised

The mode is the model that an iteration starts with. It changes when another model, tried at the same iterate
because the first one struggled, reaches a lower cost; trials that do not pay are repeated at growing
intervals. Near the optimum Gauss-Newton hands over to the exact model, unless at its present rate it needs
no more than two iterations to the tolerance: the exact model would not be faster, and costs more.

All of it is relative to the problem's own costs (`Point`): costs that are all multiplied by a number take the same way.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple, Protocol

import numpy as np

from ddp.protocols import Array
from ddp.sweeps.backward import Sweep

MODELS = GAUSS_NEWTON, EXACT, LEVENBERG_MARQUARDT = "gauss-newton", "exact", "exact+lm"

SHIFT = 1e-9
"""The smallest mu, there in every sweep to settle flat directions; relative to the control costs, so that it stays
small beside them: convergence would end where the error is mu / l_uu."""

TRUSTED = 0.02
"""An exact model whose full step brings what it promised, to this fraction, is near its minimum: V_x is the costate."""

SMALLEST_BLEND, SHORTEST_STEP, LM_TRIES, LM_ASTRAY = 0.125, 2.0**-9, 6, 6


class Step(NamedTuple):
    """Where a line search arrived: the fraction alpha of the step, 0 if none was accepted, 2 or 4 for longer ones."""

    alpha: float
    cost: float
    X: Array
    U: Array


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
    """The current iterate, as the globalisation sees it."""

    @property
    def cost(self) -> float:
        """The total cost."""

    @property
    def control_weight(self) -> float:
        """The mean size of the diagonals of the cost's Hessians in u, above zero: what makes mu large or small."""

    @property
    def magnitude(self) -> float:
        """The sum of the sizes of all knots' costs."""

    @property
    def unit(self) -> float:
        """The cost that counts as one: what tolerances are multiplied by."""

    def sweep(self, blend: float, mu: float, costates: bool = False) -> Sweep:
        """A backward sweep of the model with this blend and mu; ``costates``: these may contract the second order."""

    def search(self, sweep: Sweep, longest: float) -> Step:
        """Backtrack from alpha = ``longest`` along the policy of ``sweep``."""


class _Patience:
    """How many iterations to wait before a trial that did not pay is repeated: 1, 2, 4, 8, 16, 16, ..."""

    def __init__(self) -> None:
        self.wait = 0
        self.penalty = 1

    @property
    def over(self) -> bool:
        return self.wait <= 0

    def disappointed(self) -> None:
        self.wait = self.penalty
        self.penalty = min(2 * self.penalty, 16)

    def rewarded(self) -> None:
        self.penalty = 1


class Globalisation:
    """The state machine. `iterate` tries what the mode wants and returns the attempt with the lowest cost."""

    def __init__(self, hessian: str, tolerance: float, switch: float, max_regularization: float) -> None:
        self.mode = LEVENBERG_MARQUARDT if hessian == "exact" else GAUSS_NEWTON
        self.mixed = hessian == "auto"
        self.tolerance, self.switch, self.max_regularization = tolerance, switch, max_regularization
        self.mu = {GAUSS_NEWTON: 0.0, LEVENBERG_MARQUARDT: 0.0}
        self.blend = 1.0
        self.alphas = {model: deque([1.0, 1.0], maxlen=2) for model in MODELS}
        self.exact_patience, self.lm_patience = _Patience(), _Patience()
        self.past: deque[tuple[float, float]] = deque(maxlen=6)
        self.previous = np.inf
        self.trusted = {EXACT: False, LEVENBERG_MARQUARDT: False}
        self.astray = 0
        self.failed: int | None = None

    def restart(self) -> None:
        """Forget the past, but not the mode: the cost has changed, though not by much."""
        self.previous = np.inf
        self.past.clear()
        for alphas in self.alphas.values():
            alphas.extend([1.0, 1.0])

    def iterate(self, point: Point) -> Attempt | None:
        """The best attempt of one iteration, or None if no regularisation makes a sweep succeed.

        ``failed`` then is the knot of the last failed factorisation (None: mu grew as steps were rejected).
        """
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
        if self.mixed and entered != LEVENBERG_MARQUARDT:
            best = self._watch_for_stagnation(point, best)
        if self.mixed and self.mode == GAUSS_NEWTON and self.exact_patience.over:
            close = abs(best.expected) < self.switch * point.magnitude
            rate = best.expected / self.previous if self.previous != 0.0 else 0.0  # 0: at the optimum
            done_in_two = best.step.alpha == 1.0 and abs(best.expected) * rate**2 < self.tolerance * point.unit
            if close and not done_in_two:
                self.mode = EXACT
        self.previous = best.expected
        return best

    # the three modes

    def _gauss_newton_iteration(self, point: Point) -> Attempt | None:
        own = self._gauss_newton(point)
        if own is None:
            return None
        if own.step.alpha > 0.5:
            self.mu[GAUSS_NEWTON] /= 10.0
        elif own.step.alpha <= 0.01:
            self.mu[GAUSS_NEWTON] *= 10.0
        struggles = own.step.alpha == 0.0 or max(self.alphas[GAUSS_NEWTON]) < 0.1
        if not (self.mixed and struggles and self.exact_patience.over):
            self.exact_patience.wait -= 1
            return own
        best = _lower(own, self._exact(point))
        if best is own:
            self.exact_patience.disappointed()
        else:
            self.exact_patience.rewarded()
            self.mode = EXACT
        return best

    def _exact_iteration(self, point: Point) -> Attempt | None:
        own = self._exact(point)
        if own is None:
            self._give_up(self.exact_patience)
            return None
        if own.step.alpha > 0.5:
            self.blend = min(1.0, 2.0 * self.blend)
        elif own.step.alpha == 0.0:
            self.blend = max(0.5 * self.blend, SMALLEST_BLEND)
        best = self._compared_with_gauss_newton(point, own, self.exact_patience)
        if best.step.alpha == 0.0 and own.blend <= SMALLEST_BLEND:  # nothing left to try here but a larger mu
            self._give_up(self.exact_patience)
            self.mu[GAUSS_NEWTON] *= 10.0
        elif best is own:
            self.exact_patience.rewarded()
        return best

    def _damped_iteration(self, point: Point) -> Attempt | None:
        own = self._damped(point)
        if not self.mixed:
            return own
        if own is None:
            self._give_up(self.lm_patience)
            return None
        best = self._compared_with_gauss_newton(point, own, self.lm_patience)
        self.astray = 0 if self.trusted[LEVENBERG_MARQUARDT] else self.astray + 1
        if self.astray == LM_ASTRAY:
            self.mode = GAUSS_NEWTON
        if self.mode != LEVENBERG_MARQUARDT:
            self.astray = 0
        return best

    def _compared_with_gauss_newton(self, point: Point, own: Attempt, patience: _Patience) -> Attempt:
        """If a model struggles, Gauss-Newton is tried as well and takes over when it reaches a lower cost."""
        if own.step.alpha >= 0.25 or abs(own.expected) <= 1e-10 * (point.unit + abs(point.cost)):
            return own
        best = _lower(own, self._gauss_newton(point))
        if best is not own:
            self._give_up(patience)
        return best

    def _give_up(self, patience: _Patience) -> None:
        self.mode = GAUSS_NEWTON
        patience.disappointed()

    def _watch_for_stagnation(self, point: Point, best: Attempt) -> Attempt:
        """Levenberg-Marquardt where steps stay tiny, or short while the expected decrease does not fall."""
        self.lm_patience.wait -= 1
        self.past.append((best.expected, best.step.alpha))
        if best.step.alpha > 0.25 or not self.lm_patience.over:
            return best
        alphas = [alpha for _, alpha in self.past]
        tiny = len(alphas) >= 2 and max(alphas[-2:]) <= 1.0 / 64.0
        slow = len(alphas) == 6 and max(alphas[1:]) <= 0.25 and best.expected > 0.7 * self.past[0][0]
        if not (tiny or slow):
            return best
        other = _lower(best, self._damped(point))
        if other is best:
            self.lm_patience.disappointed()
        else:
            self.lm_patience.rewarded()
            self.mode = LEVENBERG_MARQUARDT
        return other

    # the models

    def _gauss_newton(self, point: Point) -> Attempt | None:
        self.mu[GAUSS_NEWTON] = max(self.mu[GAUSS_NEWTON], shift(point))
        while (mu := self.mu[GAUSS_NEWTON]) <= self._largest(point):
            sweep = point.sweep(0.0, mu)
            if sweep.failed < 0:
                self.failed = None
                return self._searched(point, GAUSS_NEWTON, 0.0, mu, sweep)
            self.failed = sweep.failed
            self.mu[GAUSS_NEWTON] *= 10.0
        return None

    def _exact(self, point: Point) -> Attempt | None:
        mu = shift(point)
        while True:
            sweep = self._second_order(point, EXACT, self.blend, mu)
            if sweep.failed < 0:
                return self._searched(point, EXACT, self.blend, mu, sweep)
            if self.blend <= SMALLEST_BLEND:
                return None
            self.blend *= 0.5

    def _damped(self, point: Point) -> Attempt | None:
        """The exact model + mu I; mu then follows how well its prediction came true."""
        mu, failing = max(self.mu[LEVENBERG_MARQUARDT], shift(point)), 0.0
        floor, failures = 0.01 * point.control_weight, 0
        while mu <= self._largest(point):
            sweep = self._second_order(point, LEVENBERG_MARQUARDT, 1.0, mu)
            if sweep.failed < 0:
                break
            self.failed = sweep.failed
            failing, mu = mu, max(4.0 * mu, floor)
            self.mu[LEVENBERG_MARQUARDT] = mu
            failures += 1
            if self.mixed and failures == LM_TRIES:
                return None
        else:
            return None
        self.failed = None
        attempt = self._searched(point, LEVENBERG_MARQUARDT, 1.0, mu, sweep)
        factor = _damping_factor(attempt, point.cost)
        self.mu[LEVENBERG_MARQUARDT] = max(factor * mu, floor if factor > 1.0 else 0.0, np.sqrt(failing * mu))
        return attempt

    def _second_order(self, point: Point, hessian: str, blend: float, mu: float) -> Sweep:
        """A sweep with costates if the model kept its last promise, with V_x if not, or if that one fails."""
        if self.trusted[hessian] and blend == 1.0:
            sweep = point.sweep(blend, mu, True)
            if sweep.failed < 0:
                return sweep
        return point.sweep(blend, mu)

    def _largest(self, point: Point) -> float:
        """The largest mu."""
        return self.max_regularization * max(1.0, point.control_weight)

    def _searched(self, point: Point, hessian: str, blend: float, mu: float, sweep: Sweep) -> Attempt:
        """The line search of a model, starting no more than four times beyond where its last two ended."""
        alphas = self.alphas[hessian]
        longest = min(1.0, 4.0 * max(alphas[0], alphas[1], 1.0 / 64.0))
        step = point.search(sweep, longest)
        alphas.append(step.alpha)
        if hessian in self.trusted:
            kept = _kept(point.cost - step.cost, sweep.expected)
            self.trusted[hessian] = step.alpha == 1.0 and abs(kept - 1.0) < TRUSTED
        return Attempt(hessian, blend, mu, sweep.expected, sweep.gradient, step, sweep.contraction)


def shift(point: Point) -> float:
    """The smallest mu of a sweep."""
    return SHIFT * point.control_weight


def _lower(one: Attempt, other: Attempt | None) -> Attempt:
    """The attempt with the lower cost, the first if they are equal."""
    return one if other is None or other.step.cost >= one.step.cost else other


def _damping_factor(attempt: Attempt, cost: float) -> float:
    """What to multiply mu by, after the ratio of actual to expected decrease and the step's length."""
    if attempt.step.alpha == 0.0:
        return 16.0
    if attempt.step.alpha < 0.5:
        return 4.0
    if attempt.step.alpha < 1.0:
        return 2.0
    ratio = _kept(cost - attempt.step.cost, attempt.expected)
    if abs(ratio - 1.0) < 0.2:
        return 1e-3
    if ratio > 0.5:
        return 0.1
    return 4.0 if ratio < 0.25 else 1.0


def _kept(decrease: float, expected: float) -> float:
    """The ratio of an actual to an expected decrease."""
    return decrease / expected if expected != 0.0 else 1.0
