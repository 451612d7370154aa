# mypy: allow-untyped-defs, allow-untyped-calls
"""Decisions that protect a solve far from the optimum: which model of the Hessian, shifted by how much, comes next.

An iteration is a sequence of attempts, each a sweep that succeeds and a line search along it: the first is that of the
mode, and `follow_up` names the next model or `NOBODY`, when the best attempt stands. The mode changes when another
model, tried at the same iterate because the first one struggled, reaches a lower cost; trials that do not pay are
repeated at growing intervals. Near the optimum Gauss-Newton hands over to the exact model, unless at its present rate
it needs no more than two iterations to the tolerance: the exact model would not be faster, and costs more; earlier
where a full step brings little (Fletcher & Xu 1987), for as long as exact Hessians are positive definite. The damped
one stays no longer than six iterations in a row whose steps do not bring what it promised.

All of it is relative to the problem's own costs (`attempt.Point`): costs that are all multiplied by a number take the
same way. These are functions of numbers: Python runs them in every solve, and batches of problems compile them.
"""

from typing import Any, NamedTuple

import numpy as np

from ddp.compiling.portable import portable
from ddp.machine.algebra import dot
from ddp.models.attempt import Limits

GAUSS_NEWTON, EXACT, DAMPED = range(3)
"""Models, and so modes: GN + mu I; GN + blend (exact - GN), the share halved until it works; exact + mu I."""

NOBODY = -1
"""No model."""

OWN, BESIDE, LAST = range(3)
"""Why a model is tried: the mode wants it; another one struggled at this iterate; all steps stay short."""

SHIFT = 1e-9
"""The smallest mu, there in every sweep to settle flat directions; relative to `ddp.costs.hessians.damping`, so that it
stays small beside costs of controls: convergence would end where the error is mu / l_uu."""

TRUSTED = 0.02
"""An exact model whose full step brings what it promised, to this fraction, is near its minimum: V_x is the costate."""

AGAIN = 1.0 / 64.0
"""Searches begin no more than four times beyond where the last two ended, or this."""

SMALLEST_BLEND = 0.125
"""Below this share the model is Gauss-Newton's, which is for others to try."""

LM_TRIES, LM_ASTRAY = 6, 6
"""Sweeps that the damped model may fail at an iterate; iterations that it may go astray."""

MOST_PATIENCE = 16
"""Iterations to wait before a trial that did not pay is repeated, at most."""

REMEMBERED = 6
"""Iterations that are looked back on."""


class Outcome(NamedTuple):
    """Numbers of a sweep, as of `ddp.sweeps.outcome.Sweep`."""

    expected: float
    gradient: float
    failed: int


NO_SWEEP = Outcome(0.0, 0.0, 0)
"""One that did not succeed."""


class Globalisation:
    """Numbers of one solve. Lists are by model, of what it was last or last found.

    tolerance, switch, most: of `Limits`.   alone: whether no model is tried but that of the mode.
    mode, entered: the model that iterations begin with, now and when this one began; model, place: the one that is
        being tried, and why: that of the mode first.
    mu, blend: the next sweep's.   failed_mu: the largest mu whose sweep failed at the iterate, 0 if none did.
    failed: the knot of the last failed sweep, -1 if none failed.   tries: how many may fail at an iterate; -1: any.
    last, before: how far the last two searches went.   longest: what the next one begins with.
    trusted: whether a full step kept its promise.
    expected, gradient, alpha, cost, used_mu, used_blend, stiffness: of its attempt at this iterate, see `Attempt`.
    best: the model of the best.
    wait, patience: iterations until it may be tried again, and how many it will be after the next disappointment.
    past, steps, count: expected decreases and alphas of the last iterations, each at its number modulo `REMEMBERED`.
    previous: the last expected decrease.   astray: iterations in a row in which the damped model broke its promise.
    """

    def __init__(self, limits: Limits, mode: int, alone: bool, tries: int) -> None:
        self.tolerance, self.switch, self.most = limits.tolerance, limits.switch, limits.max_regularization
        self.alone, self.mode, self.entered, self.model, self.place = int(alone), mode, mode, mode, OWN
        self.mu, self.blend, self.failed_mu = [0.0] * 3, [0.0, 1.0, 1.0], [0.0] * 3
        self.failed, self.tries = [-1] * 3, [-1, -1, tries]
        self.last, self.before, self.longest, self.trusted = [1.0] * 3, [1.0] * 3, [1.0] * 3, [0] * 3
        self.expected, self.gradient, self.alpha, self.cost = [0.0] * 3, [0.0] * 3, [0.0] * 3, [0.0] * 3
        self.used_mu, self.used_blend, self.stiffness, self.best = [0.0] * 3, [0.0] * 3, [0.0] * 3, NOBODY
        self.wait, self.patience = [0] * 3, [1] * 3
        self.past, self.steps, self.count = [0.0] * REMEMBERED, [0.0] * REMEMBERED, 0
        self.previous, self.astray = np.inf, 0


def swept(point: Any, blend: float, mu: float, costates: bool) -> Any:
    """A backward sweep of an iterate: `attempt.Point.sweep`."""
    return point.sweep(blend, mu, costates)


def raised(s: Any, model: int, point: Any) -> float:
    """mu after a sweep has failed, or has led nowhere: `regularization.Regularization.raised`."""
    return float(s.rules[model].raised(s.mu[model], point.damping))


def stepped(s: Any, model: int, point: Any) -> float:
    """mu of the next iteration, after an attempt: `regularization.Regularization.stepped`."""
    attempt = s.attempts[model]
    return float(s.rules[model].stepped(attempt, point.cost, s.failed_mu[model], point.damping))


def step_squared(point: Any, found: Any) -> float:
    """kᵀk of the last sweep, all knots together, in units of controls."""
    k = (found.k / point.units[-found.k.shape[1] :]).reshape(-1)
    return float(dot(k, k, k.size))


@portable
def stiffness(point, found):
    """kᵀ Q_uu k / kᵀk of the last sweep, all knots together: a mu that is much smaller changes nothing about a step."""
    square = step_squared(point, found)
    return max(0.0, 2.0 * found.expected / square) if square > 0.0 else 0.0


@portable
def shift(point):
    """The smallest mu of a sweep."""
    return SHIFT * point.damping


# -- one attempt -----------------------------------------------------------------------------------------------------


@portable
def prepared(s, model, point):
    """Prepare mu of a model's first sweep at an iterate: the smallest mu, and whether to sweep with costates."""
    smallest = SHIFT * point.damping
    s.failed_mu[model] = 0.0
    s.mu[model] = smallest if model == EXACT else max(s.mu[model], smallest)
    return smallest, s.trusted[model] != 0 and s.blend[model] == 1.0


@portable
def attempted(s, model, point):
    """The first sweep of a model that succeeds, mu raised or the blend halved until one does; else one that failed.

    With costates if the model kept its last promise, with V_x if not, or if that one fails. Where the damped model is
    alone and no mu helps, its blend is halved, down to Gauss-Newton's, and mu begins anew; long steps double it.
    """
    smallest, costates = prepared(s, model, point)
    failures, found, most = 0, NO_SWEEP, s.most * max(1.0, point.damping)
    while s.mu[model] <= most and failures != s.tries[model]:
        found = swept(point, s.blend[model], s.mu[model], costates)
        if costates and found.failed >= 0:
            found = swept(point, s.blend[model], s.mu[model], False)
        if found.failed < 0:
            s.failed[model] = -1
            return found
        failures += 1
        s.failed[model] = found.failed
        if model == EXACT:
            if s.blend[model] <= SMALLEST_BLEND:
                break
            s.blend[model] *= 0.5
            costates = False
        else:
            s.failed_mu[model] = s.mu[model]
            s.mu[model] = raised(s, model, point)
            if s.mu[model] > most and s.alone and s.blend[model] > 0.0:  # no mu outweighs what is not convex
                s.blend[model] = 0.5 * s.blend[model] if s.blend[model] > SMALLEST_BLEND else 0.0
                s.mu[model], s.failed_mu[model], costates = smallest, 0.0, False
    return found


@portable
def searched(s, model, point, found, alpha, cost):
    """Enter where the search along a sweep ended: the attempt of this model."""
    s.before[model] = s.last[model]
    s.last[model] = alpha
    s.longest[model] = min(1.0, 4.0 * max(alpha, s.before[model], AGAIN))
    miss = abs(point.cost - cost - found.expected)
    s.trusted[model] = 1 if alpha == 1.0 and miss <= TRUSTED * abs(found.expected) else 0
    s.expected[model], s.gradient[model], s.alpha[model], s.cost[model] = found.expected, found.gradient, alpha, cost
    s.used_mu[model], s.used_blend[model] = s.mu[model], s.blend[model]
    s.stiffness[model] = stiffness(point, found) if alpha == 0.0 else 0.0


# -- one iteration ---------------------------------------------------------------------------------------------------


@portable
def follow_up(s, point, made):
    """The model to be tried next at the iterate, or `NOBODY`; made: whether the last one made an attempt."""
    following = after_own(s, point, made) if s.place == OWN else after_trial(s, point, made)
    if following != NOBODY or s.alone or s.best == NOBODY:
        return following
    if s.place != LAST and s.entered != DAMPED:
        s.wait[DAMPED] -= 1
        s.count += 1
        s.past[s.count % REMEMBERED], s.steps[s.count % REMEMBERED] = s.expected[s.best], s.alpha[s.best]
        if s.alpha[s.best] <= 0.25 and s.wait[DAMPED] <= 0 and is_stuck(s):
            s.model, s.place = DAMPED, LAST
            return DAMPED
    turn_to_exact(s, point)
    s.previous = s.expected[s.best]
    return NOBODY


@portable
def after_own(s, point, made):
    """`follow_up` of the model that the mode wants: Gauss-Newton's where it fails, another one where it struggles."""
    model = s.model
    if not made:
        s.best = NOBODY
        if s.alone or model == GAUSS_NEWTON:
            return NOBODY
        give_up(s, model)
        s.model = GAUSS_NEWTON
        return GAUSS_NEWTON
    s.best = model
    follow_step(s, model, point)
    if s.alone:
        return NOBODY
    if model == GAUSS_NEWTON:
        struggles = s.alpha[model] == 0.0 or max(s.last[model], s.before[model]) < 0.1
        other = EXACT if struggles and s.wait[EXACT] <= 0 else NOBODY
        if other == NOBODY:
            s.wait[EXACT] -= 1
    else:
        other = GAUSS_NEWTON if s.alpha[model] < 0.25 else NOBODY
    if other != NOBODY:
        s.model, s.place = other, BESIDE
    elif model != GAUSS_NEWTON:
        settle(s, model, point)
    return other


@portable
def after_trial(s, point, made):
    """`follow_up` of a model that was tried besides, which may become that of the mode: none comes next."""
    model, owner = s.model, s.best
    better = made and s.cost[model] < s.cost[owner]
    if better:
        s.best = model
    if s.place == LAST and made:
        follow_step(s, model, point)
    if model != GAUSS_NEWTON:
        judge_trial(s, model, better)
    else:
        if better:
            give_up(s, owner)
        settle(s, owner, point)
    return NOBODY


@portable
def turn_to_exact(s, point):
    """Let the mode be that of exact Hessians where these pay: near the optimum, or where a full step brings little."""
    if s.mode != GAUSS_NEWTON or s.wait[EXACT] > 0:
        return
    expected, little, full = s.expected[s.best], s.switch * point.magnitude, s.alpha[s.best] == 1.0
    close, early = abs(expected) < little, full and abs(point.cost - s.cost[s.best]) < little
    rate = expected / s.previous if s.previous != 0.0 else 0.0  # 0: at the optimum
    done_in_two = full and abs(expected) * (rate * rate) < s.tolerance * point.unit
    if (close or early) and not done_in_two:
        if not close:
            s.tries[EXACT], s.blend[EXACT] = 1, 1.0
        s.mode = EXACT


@portable
def leads_astray(s, point):
    """Whether the best step at an iterate, far from the minimum, does not bring what it promised.

    Far is beside the unit, that constants added to costs do not change, and noise.
    """
    far = abs(s.expected[s.best]) > max(max(s.switch, s.tolerance) * point.unit, point.noise)
    return far and s.trusted[s.best] == 0


@portable
def settle(s, model, point):
    """The end of the own attempt of a mode, Gauss-Newton's maybe beside it, in whose favour it may have given up."""
    if model == EXACT:
        if s.alpha[s.best] == 0.0 and s.used_blend[EXACT] <= SMALLEST_BLEND:  # nothing left here but a larger mu
            give_up(s, EXACT)
            s.mu[GAUSS_NEWTON] = raised(s, GAUSS_NEWTON, point)
        elif s.best == EXACT:
            s.patience[EXACT] = 1
    elif model == DAMPED:
        s.astray = 0 if s.trusted[DAMPED] else s.astray + 1
        if s.astray == LM_ASTRAY:
            s.mode = GAUSS_NEWTON
        if s.mode != DAMPED:
            s.astray = 0


@portable
def search_anew(s, model):
    """Begin searches at 1 again: how far rejected steps went says nothing about those of another mu."""
    s.last[model], s.before[model], s.longest[model] = 1.0, 1.0, 1.0


@portable
def follow_step(s, model, point):
    """Let mu, or the exact model's share, follow a step: near the optimum short ones may come of too small a share.

    The damped model's share, which is halved where no mu helps, is doubled by long steps.
    """
    if model == EXACT:
        close = abs(s.expected[EXACT]) < s.switch * point.magnitude
        if s.alpha[EXACT] > 0.5 or (close and 0.0 < max(s.last[EXACT], s.before[EXACT]) <= 0.5):
            s.blend[EXACT] = min(1.0, 2.0 * s.blend[EXACT])
        elif s.alpha[EXACT] == 0.0:
            s.blend[EXACT] = max(0.5 * s.blend[EXACT], SMALLEST_BLEND)
        return
    s.mu[model] = stepped(s, model, point)
    if s.alpha[model] == 0.0:
        search_anew(s, model)
    if model == DAMPED and s.alpha[model] > 0.5:
        s.blend[model] = min(1.0, max(2.0 * s.blend[model], SMALLEST_BLEND))


@portable
def is_stuck(s):
    """Whether steps stay tiny, or short while the expected decrease does not fall.

    Two tiny ones are enough from the start on: to ask only after six steps takes 15 % more iterations over 168 turns of
    a HyQ and an ANYmal in the air, to lower optima in 20 and to higher ones in 24.
    """
    if s.count >= 2 and max(s.steps[s.count % REMEMBERED], s.steps[(s.count - 1) % REMEMBERED]) <= 1.0 / 64.0:
        return True
    oldest = (s.count + 1) % REMEMBERED
    for i in range(REMEMBERED):
        if i != oldest and s.steps[i] > 0.25:
            return False
    return s.count >= REMEMBERED and s.expected[s.best] > 0.7 * s.past[oldest]


@portable
def give_up(s, model):
    """Leave a mode for Gauss-Newton's."""
    s.mode = GAUSS_NEWTON
    s.tries[EXACT] = -1
    s.wait[model] = s.patience[model]
    s.patience[model] = min(2 * s.patience[model], MOST_PATIENCE)


@portable
def judge_trial(s, model, better):
    """Let the mode of a model that was tried beside another take over if it reached a lower cost."""
    if better:
        s.patience[model] = 1
        s.mode = model
    else:
        s.wait[model] = s.patience[model]
        s.patience[model] = min(2 * s.patience[model], MOST_PATIENCE)
