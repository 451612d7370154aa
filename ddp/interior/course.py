# mypy: allow-untyped-defs, allow-untyped-calls
"""Course of a full-space solve: when its barrier falls, when it ends, when Newton's steps on what binds are tried.

s: a `Course`, p: a `Memory`. Barriers are relative to the cost that counts as one.
"""

import numpy as np

from ddp.compiling.kernel import kernel
from ddp.compiling.portable import portable
from ddp.costs.hessians import DOWN_TO, EPSILON, weighed
from ddp.interior.filter import Filter, clear_filter
from ddp.interior.measures import weights
from ddp.interior.passes import beyond, judge, judged, priced_openness
from ddp.interior.passes_of_rows import priced_rows, violation
from ddp.interior.trials import penalised
from ddp.machine.memory import rows_of
from ddp.protocols import Array

START, WARM, END, LARGEST_END = 0.01, 1e-8, 1e-9, 1e-6
"""Barriers: the first one, that after a warm start, and the last one, which is larger where all bounds together cost no
more than the tolerance of the expected decrease, up to one that shows which rows are active."""

SOLVED, FALL, POWER = 30.0, 0.2, 1.5
"""The barrier falls once errors are smaller than so many times it: to this share, or if that is less, its power."""

TOLERANCE = 1e-8
"""The error allowed: of violations in their units, of the gradient relative to the cost that counts as one, where no
larger tolerance of the expected decrease is given."""

GAINS, LEAST_GAINS = 1.0, 0.02
"""The barrier falls, too, once a full step promises less than this share of what all bounds cost, the barrier each: the
second one where Hessians are not exact, as these promise too little, unless bounds cost more than all the rest."""

CROSSING = 1e-4
"""Newton's steps on the active set are tried where a full step promises, and bounds cost, less than this share."""

DEAR, IN_A_ROW = 1e3, 3
"""Constraints give way once it costs so many times all else to close what they miss, in so many iterations in a row:
multipliers grow without end where that is impossible. They cannot be met only if violations cost as much at a minimum:
else it may just be dear to meet them."""

GIVEN_WAY, STAYS = 1e-6, 0.01
"""Rows that are elastic and miss a bound by more violate it; and still will where steps, bounds and what is open cost
no more than this share of what violations cost."""

NEARLY = 1e-5
"""Gaps that are closed at the end by a rollout under the policy, if constraints hold there as well."""

HALVED = 0.5
"""Half is enough of what is open for full steps, of violations to fall, of first steps, and to go within bounds."""

UNKNOWN, MOVED, KNOWN, LOWERED = range(4)
"""Knowledge of a point as an iteration begins. UNKNOWN: its derivatives; MOVED: nothing, after a step; KNOWN: its
errors, too; LOWERED: also that the barrier is as low as these allow."""


class Course(Filter):
    """Numbers of one solve.

    tolerance, limit: of the solver: of the expected decrease, and of iterations, of which ``done`` are done.
    within: whether limits of controls are all there is.   crosses: whether Newton's steps may be tried.
    gives: whether constraints may give way; dear: for how many iterations they have been dear, see `DEAR`.
    stays: share of violations' cost that is little, see `STAYS`; less where they have to be minimised closer.
    known: see `UNKNOWN`.   fell: iterations done when the barrier fell.   proof: iterations until which Hessians have
    to prove themselves, see correction.py.   held: whether sweeps are to keep to limits of controls.
    settled, before, strayed: whether the first barrier is, and the one before, 0 for none, with what its step opened.
    mu, stiff, served, place, chosen: see correction.py.   blend, shift, exact: share of the exact Hessian and mu of
    the last sweep; whether that succeeded with nothing but this Hessian.
    alpha: the last step, 0 if none was accepted.   stuck: whether that is so.
    expected, dual: the decrease that the last step promised, and the gradient's error where it began.
    travels: whether the whole motion may come sooner now, see travel.py.
    """

    def __init__(self, thetas: Array, phis: Array) -> None:
        super().__init__(thetas, phis)
        self.tolerance, self.limit, self.within, self.crosses = 0.0, 0, 0, 0
        self.gives, self.dear, self.stays = 0, 0, STAYS
        self.done, self.known, self.fell, self.proof, self.held = 0, UNKNOWN, 0, 0, 0
        self.settled, self.before, self.strayed = 1, 0.0, float("inf")
        self.mu, self.stiff, self.served, self.place, self.chosen = 0.0, 0, 0, 0, 0
        self.blend, self.shift, self.exact = 0.0, 0.0, 0
        self.alpha, self.stuck, self.expected, self.dual, self.travels = 0.0, 0, 0.0, 0.0, 0


@portable
def lowered(barrier):
    """The next lower barrier (Wächter & Biegler 2006, equation 7, without its least one)."""
    return min(FALL * barrier, barrier**POWER)


@portable
def unit(p):
    """Cost that counts as one where a solve ends: what the point costs, from a small share of the scale up to that."""
    return min(p.scale, max(abs(p.cost), DOWN_TO * p.scale))


@portable
def unit_of_shifts(p):
    """Cost that mu is relative to: the unit, or with constraints the scale where a point happens to cost nothing."""
    return p.scale if p.first > 0 and abs(p.cost) <= DOWN_TO * p.scale else unit(p)


@kernel
def magnitude(l, separable, H, diagonal, X, U):
    """Cost of a trajectory, as absolute numbers l (N+1,); no less than what makes gradients of its rounding small.

    H, diagonal: as of `ddp.costs.hessians.scales`.
    """
    n, nz, total, costs = H.shape[1] - U.shape[1], H.shape[1], 0.0, rows_of(l)
    summed = weights(separable, diagonal, H, n)
    for t in range(H.shape[0]):
        total += abs(costs[t])
    return max(total, EPSILON * (weighed(summed, 0, n, X, 1) + weighed(summed, n, nz, U, 1)) / TOLERANCE)


@kernel
def errors(p, barrier, one):
    """The largest of the dual, primal and complementarity errors, as IPOPT's; one: the cost that counts as one."""
    if p.judged == 0:
        judge(p.address)
    e = judged(p)
    lack = max(e.high - barrier, barrier - e.low, 0.0)
    dual = max(100.0, (e.of_all + e.costates) / (p.count + p.equalities + (p.N + 1) * p.n) / one) / 100.0
    slack = max(100.0, e.of_bounds / max(p.count, 1) / one) / 100.0
    return max(max(e.dual, e.slope) / one / dual, max(p.gap, p.missed), lack / one / slack)


@kernel
def least(s, p):
    """The last barrier."""
    return unit(p) * max(END, min(LARGEST_END, s.tolerance / max(1, p.count)))


@kernel
def fall(s, p):
    """Lower the barrier."""
    p.barrier = max(least(s, p), p.scale * lowered(p.barrier / p.scale))
    p.penalty = penalised(p)
    clear_filter(s, p.theta)
    s.fell = s.done
    s.held = 1 if p.holds and not p.elastic else 0  # the first barrier has led to a motion


@kernel
def lower_barrier(s, p):
    """Lower the barrier where its problem is solved well enough, by errors."""
    last = least(s, p)
    if p.count + p.equalities == 0:
        return
    while p.barrier > last and errors(p, p.barrier, p.scale) < SOLVED * p.barrier / p.scale:
        fall(s, p)


@kernel
def near_minimum(s, p, way):
    """Lower the barrier where a full step gains less than what bounds cost; whether it did.

    What is open counts with its multipliers. This asks nothing of units of states and constraints, as errors do.
    """
    if way.longest < 1.0 or not p.barrier > least(s, p):
        return False
    dear = p.count * p.barrier
    trusted = (s.blend == 1.0 and s.shift == 0.0) or dear > p.scale + abs(p.cost)
    little = (GAINS if trusted else LEAST_GAINS) * dear
    if way.expected > little or way.expected + priced_openness(p) > little:
        return False
    fall(s, p)
    return True


@kernel
def is_crossing(s, p, way):
    """Whether Newton's steps on the active set are to be tried.

    Barriers end slowly: where a slack and its multiplier both vanish each step halves them.
    """
    if not s.crosses or s.within or p.elastic or not s.exact or s.done >= s.limit or way.longest < HALVED:
        return False
    return max(p.count * p.barrier, way.expected + priced_openness(p)) <= CROSSING * (unit(p) + abs(p.cost))


@kernel
def is_solved(s, p, way):
    """Whether all errors are small."""
    allowed, enough = max(TOLERANCE, s.tolerance), s.tolerance * (unit(p) + abs(p.cost))
    closed = TOLERANCE if p.first > 0 else TOLERANCE * np.sqrt(unit(p) / p.scale)  # by what all costs now
    return way.expected <= enough and max(p.gap, beyond(p)) <= closed and errors(p, 0.0, unit(p)) <= allowed


@kernel
def is_dear(s, p):
    """Whether constraints are to give way, as far as what they miss has become dear: see `DEAR`."""
    if not s.gives or p.elastic:
        return False
    s.dear = s.dear + 1 if priced_rows(p) > DEAR * (p.scale + abs(p.cost) + p.count * p.barrier) else 0
    return s.dear >= IN_A_ROW


@kernel
def stays_violated(s, p, way):
    """Whether constraints that give way miss their bounds, and will at this price: see `STAYS`.

    Only exact Hessians promise what can be believed.
    """
    if not (p.elastic and s.exact and way.longest >= HALVED):
        return False
    most, total = violation(p.address)
    left = way.expected + priced_openness(p) + p.count * p.barrier
    return most > GIVEN_WAY and left <= s.stays * p.price_of_all * total
