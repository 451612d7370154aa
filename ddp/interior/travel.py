# mypy: allow-untyped-defs, allow-untyped-calls
"""Motions of full-space steps that come sooner as a whole: see `ddp.sooner`, whose rule this is.

Slacks and multipliers come sooner with a motion. Controls follow it from the initial state under the gains of the last
sweep, so that no gap is left, and hold the last state at the end: with the last controls again hardly any motion pays.
"""

import logging

import numpy as np

from ddp.compiling.kernel import kernel
from ddp.constraints.row_table import BEGIN, END, ROW, SIZE
from ddp.costs.cost_table import place
from ddp.errors import as_array
from ddp.interior import row_steps
from ddp.interior.course import HALVED, unit
from ddp.interior.ending import HERE, keep, slot_of
from ddp.interior.iteration import OPEN
from ddp.interior.measures import copy, priced, put, sizes, sums
from ddp.interior.memory import Memory, arrays, rows_at, trajectory, trial
from ddp.interior.passes import priced_openness
from ddp.interior.point import Point
from ddp.interior.row_steps import BELOW, BOUNDED, S, rooms
from ddp.interior.trials import Worth, leave_room, place_controls, roll_out, take, take_lane, weigh
from ddp.machine.addresses import array_at
from ddp.machine.trajectories import Lengths
from ddp.sooner import FURTHEST, pays

logger = logging.getLogger("mayne")


def travel(point: Point) -> int:
    """Let a point's motion come sooner, after a step that leaves little open; by how many knots, 0 if none pays.

    Cost and barrier have to fall, with what is open at its price, too, and below those of the motion without gaps.
    """
    d = point.problem.dynamics
    try:
        hold = as_array("dynamics.nominal_control", d.nominal_control(point.X[-1]), (d.nu,), finite=False)
        return int(point.do(come_sooner, hold))
    except Exception as reason:  # a user's own code fails at states that no step has come to: the motion stays
        logger.debug("a motion does not come sooner: %r", reason)
        return 0


@kernel
def come_sooner(memory, hold):
    """Let a point's motion come sooner, under control ``hold`` (nu,) at the end; by how many knots."""
    p = Memory(memory)
    b, of_policy = rows_at(p.rows), Lengths(p.lengths)
    row_steps.multipliers(b.state, b.kind, b.give, b.y)
    most, found, knots = p.cost + p.penalty, 0, 1
    worth = most + priced_openness(p)
    keep(p, HERE)
    copy(p.kept_k, of_policy.k, p.N * p.nu)
    copy(p.kept_K, of_policy.K, p.N * p.nu * p.n)
    while knots * FURTHEST <= p.N:
        tried = worth_of(p, b, moved(p, b, knots, hold), most, knots)
        if not pays(tried, worth, unit(p)):
            break
        worth, found, knots = tried, knots, 2 * knots
    if found > 0 and not worth_of(p, b, moved(p, b, 0, hold), most, 0) > worth:
        found = 0
    last = moved(p, b, found, hold) if found > 0 else Worth(np.inf, 0.0, np.inf, np.inf, np.inf)
    if last.cost < np.inf and p.broken == 0:
        take(p, last)
        for j in range(BELOW, len(b.state)):
            shift_rows(p, b, b.state[j], b.state[j], found)
        shift(p.costate, p.costate, p.N + 1, p.n, found)
        shift(p.weights, p.weights, p.N, p.n, found)
    else:
        found = 0
        put(array_at(p.X, (p.block,)), slot_of(p, HERE)[0])
    copy(of_policy.k, p.kept_k, p.N * p.nu)
    copy(of_policy.K, p.kept_K, p.N * p.nu * p.n)
    return found


@kernel
def moved(p, b, knots, hold):
    """Try the motion that is kept so many knots sooner: the `Worth` of that trial."""
    N, n, nx, nu, of_policy = p.N, p.n, p.nx, p.nu, Lengths(p.lengths)
    (_, U, opened, _), kept = trajectory(p), place(slot_of(p, HERE)[0])
    shift(p.X, kept, N + 1, nx, knots)
    copy(p.X, kept, nx)
    shift(p.U, kept + p.U - p.X, N, nu, knots)
    shift(of_policy.K, p.kept_K, N, nu * n, knots)
    array_at(of_policy.k, (N, nu))[:] = 0.0
    opened[:] = 0.0
    leave_room(p)
    for t in range(N - knots, N):
        for i in range(nu):
            U[t, i] = hold[i]
    of_policy.alphas[0] = 1.0
    roll_out(p, 1)
    take_lane(p, 0)
    trial(p)[3][:] = 0.0
    found = weigh(p, np.inf)  # the cost, and values of rows
    return with_slacks(p, b, found.cost, knots) if found.cost < np.inf else found


@kernel
def with_slacks(p, b, cost, knots):
    """The `Worth` of a trial whose slacks and excesses are moved, too.

    Slacks take their rows' values where these leave them half of that room or more: nothing is open there then.
    """
    c, (_, _, primal, _, residual) = array_at(p.values, (p.M,)), trial(p)
    for j in range(BELOW):
        put(primal[j], b.state[j])
        shift_rows(p, b, primal[j], b.state[j], knots)
    for i in range(p.first):
        low, high = b.bounds[0, i], b.bounds[1, i]
        if b.kind[i] == BOUNDED and rooms(c[i], low, high) > HALVED * rooms(primal[S, i], low, high):
            primal[S, i] = c[i]
    place_controls(p)
    barrier = row_steps.evaluate(c, primal, b.bounds, b.kind, b.plain, b.give, p.barrier, residual, True)
    theta, gap, missed = sizes(sums(p.tried_gaps, p.N * p.n), p.tried_residual, p.M)
    return Worth(cost, barrier, theta, gap, missed)


@kernel
def worth_of(p, b, found, most, knots):
    """Cost, barrier, and what is open at the price of the moved multipliers; infinite where any of it is too much."""
    if not (found.theta <= OPEN and found.cost + found.barrier < most):
        return np.inf
    y = array_at(p.weighing, (p.M,))
    put(y, b.y)
    shift_rows(p, b, y, b.y, knots)
    return found.cost + found.barrier + priced(p.weighing, p.tried_residual, p.M)


@kernel
def shift(to, place, count, width, knots):
    """Write rows (count, width) of knots at an address as they are so many knots later, the last one repeated."""
    left = count - knots
    copy(to, place + 8 * knots * width, left * width)
    for t in range(left, count):
        copy(to + 8 * t * width, place + 8 * (count - 1) * width, width)


@kernel
def shift_rows(p, b, to, numbers, knots):
    """Numbers (M,) of rows as they are so many knots later, where those are of their kind.

    `placement.shifted` does so for solutions. Trials in Python, of which it was a part, took 180 microseconds of a
    pendulum; compiled they take 12.
    """
    table = arrays(p).table
    for e in range(p.placed):
        size, first = table[e, SIZE], table[e, ROW]
        count = table[e, END] - table[e, BEGIN] - (1 if table[e, END] == p.N + 1 else 0)
        for i in range(first, first + size * count if count > knots else first):
            later = i + size * min(knots, count - 1 - (i - first) // size)
            to[i] = numbers[later if b.kind[later] == b.kind[i] else i]
