# mypy: allow-untyped-defs, allow-untyped-calls
"""An iteration of the full-space step, from what is known of a point to the next one; method.py tells what it does.

What is rare is left to Python: an iteration ends before it, and says so.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import boolean

from ddp.compiling.kernel import apart, kernel
from ddp.interior import course
from ddp.interior.barrier import LEAST_PROXIMAL
from ddp.interior.correction import first_definite, is_long, revise_shift
from ddp.interior.filter import ENTRIES, accepts, begin_filter, clear_filter, enter, funnel
from ddp.interior.memory import NUMBERS, Memory
from ddp.interior.passes import arrive, judge, judged
from ddp.interior.passes_of_rows import left_open
from ddp.interior.trials import accept, along, find_multipliers, measure, penalised, rolled, violated, widest
from ddp.machine.addresses import array_at
from ddp.machine.algebra import dot
from ddp.machine.memory import floats_at
from ddp.machine.variables import struct_like
from ddp.models.attempt import EXACT, GAUSS_NEWTON, LEVENBERG_MARQUARDT
from ddp.solutions.status import Record
from ddp.sooner import hardly_moves
from ddp.starts import CLOSED
from ddp.sweeps.outcome import GIVEN, NONE

Decisions: Any = struct_like("Decisions", __name__, course.Course([0.0] * ENTRIES, [0.0] * ENTRIES))  # type: ignore[arg-type]
"""`Course` of a solve."""

TOOK, STOPPED, HOLDS, INDEFINITE, LEADS_ASTRAY, GIVES, CROSSES, ENDS, LIMIT = range(9)
"""Results of an iteration. TOOK: a step was taken, or none was found, but may be next; STOPPED: none is found.
Before a step others end, for Python to go on: HOLDS: with sweeps that keep to limits of controls; INDEFINITE: without
a positive definite Hessian; LEADS_ASTRAY: anew, with the first barrier that is set; GIVES: with constraints that give
way; CROSSES: with Newton's steps on the active set. ENDS: the solve has converged, or constraints cannot be met;
LIMIT: it has come to its limit of iterations."""

LOWER = 0.1
"""The first barrier falls to this share where steps to its minimum lead astray, see `leads_astray`."""

CURVED, CURVED_WITHIN = 1.0 / 16.0, 1.0 / 8.0
"""Steps of no larger fraction of what bounds allow are too long for their models, with constraints, and in long solves
within limits of controls alone; elsewhere those that are none at all. Hessians have mu I added then."""

SHORTEST, SHORTEST_WHOLE = 1e-8, 2.0**-8
"""Steps of a smaller fraction of the longest one are none; of those that no bound cuts, within limits of controls."""

STIFFEST = 1e3
"""mu, relative to the cost that counts as one, from which on steps within limits of controls end where none is found
again: as long as it is less it rises."""

CLOSE, SHARE = 0.3, 0.1
"""2-norm of gaps up to which the Lagrangian tells of steps, and the share of what it promises that steps have to keep.
Of larger gaps its first order says little: with 1 a pendulum and a cart-pole take an iteration more, with 0.1 starts
beside theirs take 2 % more."""

OPEN = 0.1
"""2-norm of what may be open before and after a motion comes sooner as a whole: prices of larger gaps say little, and
arms came to fall first."""

LESS_PROXIMAL = 0.1
"""By how much equalities give way less after a full step that did not close half of what is open."""


@kernel
def begin(memory, decisions, done, known):
    """Begin with another barrier function, after so many iterations; known: see `course.UNKNOWN`."""
    s, p = Decisions(decisions), Memory(memory)
    measure(memory)
    p.penalty = penalised(p)
    begin_filter(s, p.theta, p.first > 0, p.scale)
    s.mu, s.stiff, s.stuck, s.done, s.fell, s.known = 0.0, 0, 0, done, done, known


@kernel
def run(memory, decisions, most):
    """Make up to ``most`` iterations; what the last came to, and how many have a record."""
    s, p = Decisions(decisions), Memory(memory)
    made, came, s.travels = 0, TOOK, 0
    while came == TOOK and made < most and p.broken == 0 and s.travels == 0:
        came = iterate(s, p)
        if came in (TOOK, STOPPED):
            report(s, p, array_at(p.numbers, (most, NUMBERS))[made])
            made += 1
    return came, made


@kernel
def report(s, p, out):
    """Write the numbers of an iteration's `Record`, and when the barrier fell."""
    out[0], out[1], out[2], out[3], out[4] = p.cost, s.dual, s.expected, s.alpha, s.shift
    out[5], out[6], out[7], out[8], out[9] = s.blend, widest(p), violated(p), 0.0, float(s.fell)
    if p.M > 0:
        out[8] = p.barrier


@kernel
def iterate(s, p):
    """Make an iteration, or find what has to be done first."""
    if s.known == course.UNKNOWN:
        judge(p.address)
    elif s.known == course.MOVED:
        arrive(p.address)
    while True:
        if s.known != course.LOWERED:
            s.known = course.KNOWN
            course.lower_barrier(s, p)
            if s.held and p.limited:
                return HOLDS
        s.known = course.KNOWN
        way = first_definite(s, p)
        if way.failed >= 0:
            return INDEFINITE
        s.expected, s.dual = way.expected, judged(p).dual
        if not s.settled and leads_astray(s, p, way):
            return LEADS_ASTRAY
        if not course.near_minimum(s, p, way):
            break
    if course.is_dear(s, p):
        return GIVES
    if course.is_crossing(s, p, way):
        return CROSSES
    if (course.is_solved(s, p, way) and ends(s, p)) or course.stays_violated(s, p, way):
        return ENDS
    if s.done >= s.limit:
        return LIMIT
    was_open, before = max(p.gap, p.missed), p.cost
    s.alpha = search(s, p, way)
    s.done += 1
    return follow(s, p, way, was_open, before)


@kernel
def ends(s, p):
    """Whether a solve ends where it has converged; where nothing can bind, by a Newton's step if that is short enough.

    It squares errors that are small. Where a loose tolerance has let larger ones by, so that it opens gaps, raises the
    cost or is none of the exact Hessian, the solve goes on to the least tolerance.
    """
    if p.M > 0 or p.limited != 0:
        return True
    loose = s.tolerance > course.END
    if s.exact:
        found, most = along(p.address, 1.0, np.inf), p.cost + course.END * (course.unit(p) + abs(p.cost))
        if found.gap <= course.NEARLY and not (loose and found.cost > most):
            accept(p.address, found, 1.0)
            s.known = course.MOVED
            return True
    s.tolerance = min(s.tolerance, course.END)
    return not loose


@kernel
def follow(s, p, way, was_open, before):
    """Draw conclusions from a step; was_open, before: the largest gap or residual, and the cost, where it began."""
    if s.alpha == 0.0 and s.stuck and not (s.within and s.shift < STIFFEST * course.unit(p)):
        return STOPPED
    s.stuck = 1 if s.alpha == 0.0 else 0
    long = is_long(s)
    curved = CURVED_WITHIN if long else CURVED if p.first > 0 else 0.0
    revise_shift(s, course.unit_of_shifts(p), s.alpha <= curved * way.longest, s.alpha == way.longest, p.first > 0)
    if s.alpha == 0.0:
        clear_filter(s, p.theta)
        return TOOK
    s.known = course.MOVED
    if s.within:
        promised = -s.alpha * way.slope
        shorter = long and s.alpha < way.longest and promised > 0.0
        funnel(s, p.theta, (before - p.cost) / promised if shorter else 0.0)
    if s.alpha == 1.0 and p.M > 0 and left_open(p) > course.HALVED * was_open:
        p.share *= LESS_PROXIMAL
        p.least_proximal = max(LEAST_PROXIMAL, LESS_PROXIMAL * p.least_proximal)
    bound = (p.first > 0 or p.boxed != 0) and p.elastic == 0
    slow = hardly_moves(s.alpha, s.exact == 0, before - p.cost, course.unit(p))
    s.travels = 1 if bound and slow and p.theta <= OPEN else 0
    return TOOK


@apart(returns=boolean)
def leads_astray(s, p, way):
    """Whether to begin anew with another first barrier, which is set: a lower one, or the one before.

    Where the filter refuses the longest first step, though bounds allow most of it, the minimum of the barrier
    function is too far for linear models. A lower barrier asks for less, and is kept if its step is accepted, or
    if by curvature a full one would open half as much as the one before; else the barrier was not the cause.
    """
    alpha, barrier = way.longest, LOWER * p.barrier
    trial = along(p.address, alpha, np.inf)
    phi = trial.cost + trial.barrier
    accepted = accepts(s, trial.theta, phi, p.theta, p.cost + p.penalty, way.slope, alpha)[0]
    opens = (trial.theta - (1.0 - alpha) * p.theta) / alpha**2
    if s.before > 0.0 and not (accepted or opens <= course.HALVED * s.strayed):
        s.settled, barrier = 1, s.before
    elif accepted or alpha < course.HALVED or barrier < course.END * p.scale:
        s.settled = 1
        return False
    s.before, s.strayed, p.barrier = p.barrier, opens, barrier
    return True


@kernel
def search(s, p, way):
    """Go along a step: the fraction, 0 where none is accepted.

    With constraints what a linear trial does not reach a rollout may; within limits alone none helps.
    """
    theta, phi, alpha = p.theta, p.cost + p.penalty, way.longest
    shortest = (SHORTEST_WHOLE if s.within else SHORTEST) * way.longest
    p.ahead = 0
    while alpha > shortest:
        trial = along(p.address, alpha, s.most)
        if is_taken(s, p, trial, theta, phi, way.slope, alpha):
            return alpha
        if p.first > 0 and rolls(s, p, theta, phi, way.slope, alpha):
            return alpha
        alpha *= 0.5
    return 0.0


@apart(returns=boolean)
def rolls(s, p, theta, phi, slope, alpha):
    """Whether the point has gone to a rollout where the filter has not accepted a linear trial."""
    return is_taken(s, p, rolled(p, alpha, s.most), theta, phi, slope, alpha)


@kernel
def is_taken(s, p, trial, theta, phi, slope, alpha):
    """Whether the filter accepts a trial, to which the point goes then; theta, phi: of where it was.

    Without constraints a trial is also accepted for the Lagrangian alone, where gaps are small.
    """
    accepted, by_cost = accepts(s, trial.theta, trial.cost + trial.barrier, theta, phi, slope, alpha)
    if not accepted and p.M == 0 and p.boxed == 0 and max(theta, trial.theta) <= CLOSE:
        accepted = by_cost = lowers_lagrangian(p, trial, slope, alpha)
    if accepted:
        if not by_cost:
            enter(s, theta, phi)
        accept(p.address, trial, alpha)
    return accepted


@apart(returns=boolean)
def lowers_lagrangian(p, trial, slope, alpha):
    """Whether a trial lowers the Lagrangian, with multipliers where the step leads, by a share of what that promises.

    Costs may rise along good steps: by the gaps of their second order, which a next step closes (Maratos 1978). The
    Lagrangian counts these by what they will cost (Ulbrich 2004).
    """
    find_multipliers(p)
    weights, count = floats_at(p.to_weights), p.N * p.n
    before, after = dot(weights, floats_at(p.opened), count), dot(weights, floats_at(p.tried_gaps), count)
    promised = alpha * (before - slope)
    return promised > 0.0 and trial.cost + after - p.cost - before <= -SHARE * promised


def moved(numbers: Sequence[float], cost: float, gap: float, violation: float) -> list[float]:
    """Numbers that `report` writes, of a point that has moved since: what it costs and leaves open there."""
    return [cost, *numbers[1:6], gap, violation, *numbers[8:]]


def record_of(seconds: float, numbers: Sequence[float]) -> Record:
    """Record of an iteration, from the numbers that `report` writes."""
    cost, dual, expected, alpha, mu, blend, gap, violation, barrier, _ = numbers
    hessian = GAUSS_NEWTON if blend == 0.0 else EXACT if mu == 0.0 else LEVENBERG_MARQUARDT
    contraction, left = GIVEN if blend > 0.0 else NONE, 0.0 if gap < CLOSED else gap
    return Record(cost, dual, expected, alpha, mu, hessian, blend, seconds, left, contraction, violation, barrier, True)
