# mypy: allow-untyped-defs, allow-untyped-calls
"""Kernels of finish.py: Newton's steps on the active set, and points that are kept meanwhile.

memory, p: a `Memory`.   ending, s: a `Polish`.
"""

from typing import Any

import numpy as np

from ddp.compiling.kernel import apart, kernel
from ddp.interior import active_rows, row_steps
from ddp.interior.active import (
    BENT,
    NONE,
    SHORTEST,
    UNSETTLED,
    closing,
    impose,
    judge_ends,
    openness,
    opens,
    settled,
    swept,
)
from ddp.interior.measures import copy, put
from ddp.interior.memory import MOST, NUMBERS, SLOTS, Memory, ends, rows_at
from ddp.interior.trials import accept, along, settle, values_at, violated, widest
from ddp.machine.addresses import array_at
from ddp.machine.memory import address_of
from ddp.machine.variables import struct_like
from ddp.sweeps.horizon import Horizon
from ddp.sweeps.sweeping import Sweeping

ROUNDS, CLOSE, ROUNDING = 12, 1e-9, 1e-12
"""Newton's steps at most; errors from which one step ends at rounding, as they fall by their square, and gains stay as
they are; and errors that count as none."""

SETS = 8
"""Sets that are tried on a quadratic model before an interior point finds one."""

BEGUN, NEAREST, HERE, BEST = range(SLOTS)
"""Points that are kept: where steps begin, that of the least error, where the last step began, and the end so far."""

GOES_ON, SHOWS, FORESEES, ENDS = range(4)
"""Results of `run`: SHOWS: as many steps as were asked for; FORESEES: with what an interior point finds; ENDS: none."""


class Polish:
    """Numbers of Newton's steps.

    allowed, most, led: see `finish.finish`; shown: whether steps are those of iterations.
    number: steps done.   reached: number of the step that led to the best point, of error ``best``, infinite for none,
    and astray: whether the step since is no better than that, nor than what is allowed; nearest: the least error.
    slanted, opened: errors of the point: of the gradient, and what is open.   dual: of the gradient alone.
    largest: multiplier that δ of what binds is for, in units of the scale.
    settled, blend, expected: of the last step, see `active.settled`; change, gradient, share: of the sweep of the
    best point.   asked: whether an interior point is to find what binds, and foreseen: its share of the exact
    Hessian.   convex: whether a step opened too much, so that the next one, from the same point, is Gauss-Newton's.
    alpha: the fraction of the last step that was taken.
    count .. least_proximal: of the given rows, see `Memory`.
    """

    def __init__(self) -> None:
        self.allowed, self.most, self.shown, self.astray, self.led, self.largest = 0.0, 0, 0, 0, 0, 0.0
        self.number, self.reached, self.best, self.nearest = 0, 0, float("inf"), float("inf")
        self.slanted, self.opened, self.dual = 0.0, 0.0, 0.0
        self.settled, self.blend, self.expected = 0, 0.0, 0.0
        self.change, self.gradient, self.share = 0.0, 0.0, 0.0
        self.asked, self.foreseen, self.convex, self.alpha = 0, 0.0, 0, 1.0
        self.count, self.equalities, self.elastic, self.given_share, self.least_proximal = 0, 0, 0, 0.0, 0.0


Ends: Any = struct_like("Ends", __name__, Polish())
"""`Polish` for kernels."""


@kernel
def begin(memory, ending, known):
    """Begin at a point with its active rows; known: whether those of the memory are."""
    p, s = Memory(memory), Ends(ending)
    settle(memory)
    a, b = ends(p), rows_at(p.rows)
    row_steps.multipliers(b.state, b.kind, b.give, a.y)
    s.count, s.equalities, s.elastic, s.given_share, s.least_proximal = (
        p.count, p.equalities, p.elastic, p.share, p.least_proximal
    )  # fmt: skip
    if known:
        active_rows.pay(b.bounds, b.give, a.y, array_at(p.values, (p.M,)), a.pays)
    else:
        closing(memory, 1.0)
    for i in range(p.M):
        if not (b.kind[i] == row_steps.EQUAL or a.held[i] != 0.0):
            a.y[i] = 0.0
    keep(p, BEGUN)
    keep(p, NEAREST)
    p.barrier = 0.0


@kernel
def run(memory, ending, most):
    """Take steps, up to ``most`` with a record: what comes next, and how many have one."""
    p, s = Memory(memory), Ends(ending)
    made, came = 0, GOES_ON
    while came == GOES_ON:
        came = find_step(p, s)
        if came == GOES_ON:
            came = go(p, s)
        if came == GOES_ON and not s.convex:
            s.number += 1
            if s.shown and s.slanted + s.opened > s.allowed:
                report(p, s, array_at(p.numbers, (MOST, NUMBERS))[made])
                made += 1
                came = SHOWS if made == most or p.broken != 0 else GOES_ON
    p.rows, p.count, p.equalities, p.elastic = p.given, s.count, s.equalities, s.elastic
    p.share, p.least_proximal = s.given_share, s.least_proximal
    return came, made


@kernel
def find_step(p, s):
    """Find the next step, of what binds anew; whether there is any."""
    if s.asked:
        s.asked = 0
        if s.foreseen < 0.0:
            return ENDS
        impose(p, s)
        put(ends(p).curving, ends(p).target)
        return note(p, s) if swept(p, s, s.foreseen) else ENDS
    impose(p, s)
    judge_ends(p, s, s.number > 0 and not s.convex)
    error = s.slanted + s.opened
    s.astray = 1 if s.best <= min(error, s.allowed) else 0
    if s.astray and (s.number > s.reached + 1 or (s.shown and error > s.allowed)):
        return ENDS
    if error < s.nearest:
        s.nearest = error
        keep(p, NEAREST)
    found = settled(p, s, SETS if s.shown else 1)
    if found == UNSETTLED:
        s.asked = 1
        return FORESEES
    return ENDS if found == NONE else note(p, s)


@kernel
def note(p, s):
    """Note where a step begins, if it is settled as the best point; whether it has to be taken."""
    error = s.slanted + s.opened
    keep(p, HERE)
    if not s.astray:
        s.best, s.reached = np.inf, s.number
        if s.settled:
            keep(p, BEST)
            h, found = Horizon(p.horizon), Sweeping(p.sweeping)
            copy(p.kept_k, address_of(h.k), p.N * p.nu)
            copy(p.kept_K, address_of(h.K), p.N * p.nu * p.n)
            s.best, s.share = error, s.blend
            s.change, s.gradient = found.change, s.dual
    return ENDS if error <= ROUNDING or s.number == s.most else GOES_ON


@kernel
def go(p, s):
    """Go along the step; whether that is not the end: from where a solve is led, back where it opens too much."""
    error, (block, _, _, worth) = s.slanted + s.opened, slot_of(p, HERE)
    a, gaps = ends(p), block[(p.opened - p.X) // 8 :][: p.N * p.n]
    values_at(p.address)
    put(a.curving, array_at(p.values, (p.M,)))
    found = along(p.address, 1.0, np.inf)
    if not found.theta < np.inf:
        return ENDS
    accept(p.address, found, 1.0)
    s.alpha = 1.0
    if s.led and error > s.allowed:
        closed, opened = openness(p, gaps, a.curving)
        if opens(p, closed, opened):
            restore(p.address, HERE)
            put(a.y, a.target)
            s.convex = 1
            return GOES_ON if s.blend > 0.0 else ENDS
        if s.blend == 1.0 and max(closed, opened) <= BENT * abs(s.expected):
            shorten(p, s, gaps, worth[0] + closed, p.cost + opened)
    for i in range(p.M):
        a.y[i] = a.target[i] + (1.0 - s.alpha) * (a.y[i] - a.target[i])
    s.convex = 0
    closes = p.theta <= max(worth[2], ROUNDING)
    if s.best < np.inf and not s.astray and error <= CLOSE and closes:
        put(rows_at(p.rows).state[row_steps.NU], a.y)
        keep(p, BEST)
        return ENDS
    return GOES_ON


@apart
def shorten(p, s, gaps, before, after):
    """Halve a step until the cost, with what is open by the multipliers, is no more than before it: see `BENT`."""
    while after > before and s.alpha > SHORTEST:
        restore(p.address, HERE)
        s.alpha *= 0.5
        accept(p.address, along(p.address, s.alpha, np.inf), s.alpha)
        after = p.cost + openness(p, gaps, ends(p).curving)[1]


@kernel
def report(p, s, out):
    """Write the numbers of a step's `Record`."""
    out[0], out[1], out[2], out[3], out[4] = p.cost, s.dual, s.expected, s.alpha, 0.0
    out[5], out[6], out[7], out[8], out[9] = s.blend, widest(p), violated(p), 0.0, 0.0


@kernel
def slot_of(p, slot):
    """Numbers of a point that is kept: of `memory.POINT`, slacks, excesses and ν of rows, and its worth."""
    M, begin, kept = p.M, p.block, array_at(p.kept, (SLOTS, p.block + 4 * p.M + 5))[slot]
    return kept[:begin], kept[begin : begin + 3 * M], kept[begin + 3 * M : begin + 4 * M], kept[begin + 4 * M :]


@kernel
def keep(p, slot):
    """Keep a copy of the point."""
    state, (block, primal, nu, worth) = rows_at(p.rows).state, slot_of(p, slot)
    put(block, array_at(p.X, (p.block,)))
    put(nu, state[row_steps.NU])
    for j in range(row_steps.BELOW):
        put(primal[j * p.M :], state[j])
    worth[0], worth[1], worth[2], worth[3], worth[4] = p.cost, p.penalty, p.theta, p.gap, p.missed


@kernel
def restore(memory, slot):
    """Go back to a point that was kept; bounds of rows stay as they are."""
    p = Memory(memory)
    state, (block, primal, nu, worth) = rows_at(p.rows).state, slot_of(p, slot)
    put(array_at(p.X, (p.block,)), block)
    put(state[row_steps.NU], nu)
    for j in range(row_steps.BELOW):
        put(state[j], primal[j * p.M : (j + 1) * p.M])
    p.cost, p.penalty, p.theta, p.gap, p.missed = worth[0], worth[1], worth[2], worth[3], worth[4]
    p.contracted, p.valued = 0, 0
