# mypy: allow-untyped-defs, allow-untyped-calls
"""The active set of a minimum, settled on a quadratic model: another set costs a sweep, and no evaluation.

A set is tried by a sweep in which controls at limits are constants, constraints at bounds equalities, and nothing else
is bounded; soft constraints that are violated are terms of the cost, linear ones at a price and quadratic ones with a
compliance. Where its step leads, rows whose multiplier has the wrong sign are released, and rows beyond a bound are
held (the primal-dual active set of Hintermüller, Ito & Kunisch 2002). Where that comes to no end an interior point
finds the set, by sweeps alone, too: see `finish.foresee`.

Constraints' curvature is weighed with the multipliers that the step leads to, as far as they are known: where a bound
is met between two knots, the multiplier goes from the one to the other, and the curvature with it.

p: a `Memory`, see `Ends`.   s: an `ending.Polish`.
"""

from numba import float64
from numba.types import UniTuple

from ddp.compiling.kernel import apart, kernel
from ddp.costs.cost_table import place
from ddp.interior import active_rows
from ddp.interior.barrier import LEAST_PROXIMAL, PROXIMAL
from ddp.interior.correction import BLENDED
from ddp.interior.course import unit
from ddp.interior.measures import absolute, priced, put
from ddp.interior.memory import Memory, arrays, ends, factors_of, limits, rows_at, trajectory
from ddp.interior.passes import arrive, condense, costates, judge, judged, stride, sweep
from ddp.interior.trials import settle
from ddp.machine.addresses import array_at
from ddp.machine.memory import address_of
from ddp.sweeps.horizon import Horizon

LEFT_OPEN = 1e-8
"""Least δ: what a step leaves open of held rows whose multipliers it changes by as much as the largest of all.
Where multipliers are small, as those of forces, a smaller δ would leave nothing of Hessians but rounding."""

HALFWAY = 0.5
"""Share of the way to a set's multipliers that those which weigh curvature go."""

GROWN = 10.0
"""A set is tried again, for its δ, where it makes multipliers so many times larger than what that was for; and sets
come to no end where one's step is so many times longer than all before, far from where the set is known."""

OPENED, LITTLE = 0.5, 0.01
"""A step opens too much if that, times its multipliers, costs more than the first share of the cost; or more than the
second one, and than what it closed. Then Gauss-Newton's step is taken in its place, whose model is convex, unless that
opens too much as well. No units of states and constraints count, as they would in errors."""

BENT, SHORTEST = 0.1, 1.0 / 16.0
"""A step of the exact Hessian is halved, down to the second number, where it raises the cost together with what is
open, though what it closed and opened costs no more than the first share of what it promised: so motion hardly bends,
but the curvature of the cost jumps, as that of penalties does, and whole steps may go to and fro for ever."""

NONE, FOUND, UNSETTLED = range(3)
"""Results of `settled`: no step; one, whether what binds is settled or not; none yet, after too many sets."""


@kernel
def closing(memory, blend):
    """Hold rows that go to a bound where the barrier ends, with a share of the exact Hessian."""
    p = Memory(memory)
    a, b = ends(p), rows_at(p.rows)
    if p.count == 0:
        a.held[:] = 0.0
        a.pays[:] = 0.0
        return
    barrier, p.barrier = p.barrier, 0.0
    condense(memory)
    failed = sweep(memory, blend, 0.0, False)
    if failed >= 0:
        failed = sweep(memory, 0.0, 0.0, False)
    if failed < 0:
        stride(memory)
    else:
        b.step[:] = 0.0
    p.barrier = barrier
    active_rows.close(b.bounds, b.kind, b.give, b.state, b.step, a.held, a.pays)


@kernel
def impose(p, s):
    """Bound the point by the active rows alone: constraints as equalities; controls are held by sweeps."""
    a, b, own, U = ends(p), rows_at(p.given), rows_at(p.imposed), trajectory(p)[1]
    p.rows, p.count, p.elastic = p.imposed, 0, 0
    p.equalities, most = active_rows.impose(
        b.bounds, b.kind, b.give, a.held, a.pays, a.y, p.first, own.bounds, own.kind, own.give, own.state, own.step
    )
    s.largest = max(s.largest, most / p.scale)
    p.least_proximal, p.share = max(LEAST_PROXIMAL, LEFT_OPEN / max(s.largest, LEFT_OPEN)), PROXIMAL[1]
    (lower, upper), h, shape = limits(p), Horizon(p.horizon), (p.N, p.nu)
    low, high = array_at(address_of(h.low), shape), array_at(address_of(h.high), shape)
    for t in range(p.N):
        for i in range(p.nu):
            low[t, i], high[t, i] = lower[t, i] - U[t, i], upper[t, i] - U[t, i]
    settle(p.address)


@kernel
def judge_ends(p, s, moved):
    """Find errors of the conditions of optimality at the point: of the Lagrangian's gradient, and what is open.

    moved: whether its derivatives have to be made.

    With the gradient count products of multipliers and what is left to bounds. Open are gaps, and by how much rows
    are beyond their bounds, or by more than they give way.
    """
    size = unit(p) + costates(p)[0]
    if moved:
        arrive(p.address)
    else:
        judge(p.address)
    s.dual = judged(p).dual
    b, own = rows_at(p.given), rows_at(p.imposed)
    products, beyond, unpaid = active_rows.errors(
        b.bounds, b.kind, b.give, ends(p).y, array_at(p.values, (p.M,)), own.bounds, own.give,
        factors_of(p),
    )
    s.slanted, s.opened = (s.dual + products) / size, p.gap + beyond + unpaid


@kernel
def settled(p, s, sets):
    """Find a step with what binds in the quadratic model: see `NONE`.

    sets: how many are tried; or one, which the next step may revise.
    """
    a, b, own = ends(p), rows_at(p.given), rows_at(p.imposed)
    put(a.curving, a.y)
    s.settled, blend, longest = 0, 0.0 if s.convex else 1.0, 0.0
    for tried in range(sets):
        if tried > 0:
            impose(p, s)
        if not swept(p, s, blend):
            return NONE
        if s.led:
            blend = s.blend
        h = Horizon(p.horizon)
        rows = array_at(address_of(h.rows), (p.N, p.nu * (p.n + p.nu + 1)))
        of = arrays(p)
        length, known = absolute(p.x, (p.N + 1) * p.n)[0], s.largest
        if s.led and tried > 1 and length > GROWN * longest:
            return UNSETTLED
        longest = max(longest, length)
        revised = active_rows.revise(
            b.bounds, b.kind, b.give, own.step, own.state, array_at(p.values, (p.M,)), of.moved, rows, of.x, of.u,
            p.first, p.limited, factors_of(p), a.held, a.pays, a.target,
        )  # fmt: skip
        s.largest = 0.0
        for i in range(p.first):
            s.largest = max(s.largest, abs(a.target[i]) / p.scale)
        if not revised and (sets == 1 or s.largest <= GROWN * known):
            s.settled = 1
            return FOUND
        for i in range(p.M):
            a.curving[i] += HALFWAY * (a.target[i] - a.curving[i])
    return FOUND if sets == 1 else UNSETTLED


@kernel
def swept(p, s, most):
    """Sweep with what is held, with a share of the exact Hessian of at most so much; whether there is a step."""
    a, b, own, shape = ends(p), rows_at(p.given), rows_at(p.imposed), (p.N, p.nu)
    active_rows.pull(own.kind, b.give, a.y, a.pays, own.state)
    put(own.y, a.curving)
    condense(p.address)
    if not p.boxed:
        held = array_at(address_of(Horizon(p.horizon).held), shape)
        for t in range(p.N):
            for i in range(p.nu):
                held[t, i] = a.held[p.first + t * p.nu + i] if p.limited else 0.0
    for blend in BLENDED:
        if blend <= most and sweep(p.address, blend, 0.0, p.limited != 0) < 0:
            s.blend, s.expected = blend, stride(p.address).expected
            return True
    return False


@apart(returns=UniTuple(float64, 2))
def openness(p, gaps, values):
    """Price what is open by the multipliers of a step: with gaps (N n,) and values (M,) before it; and at the point."""
    a, b, count = ends(p), rows_at(p.given), p.N * p.n
    closed = priced(p.weights, place(gaps), count) + active_rows.price(b.bounds, b.give, a.target, values)
    opened = priced(p.weights, p.opened, count)
    return closed, opened + active_rows.price(b.bounds, b.give, a.target, array_at(p.values, (p.M,)))


@kernel
def opens(p, closed, opened):
    """Whether a step opened too much: see `OPENED`."""
    one = unit(p) + abs(p.cost)
    return opened > OPENED * one or opened > max(closed, LITTLE * one)
