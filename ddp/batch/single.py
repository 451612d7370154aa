# mypy: allow-untyped-defs, allow-untyped-calls
"""Iterations of a worker's only lane, one a call: its line searches roll out several step lengths at once."""

import numpy as np

from ddp.batch.iterates import begin_iteration
from ddp.batch.lanes import COMES_SOONER, GOES_FURTHER, IDLE, Lane, Worker
from ddp.batch.loop import arrive, propose
from ddp.batch.sweeps import copy, price
from ddp.compiling.kernel import call_contraction, kernel
from ddp.search import LONGER

LONGEST = float(LONGER[-1])
"""The longest step."""


@kernel
def iterate(worker):
    """Make an iteration of the worker's only lane, and report it."""
    w = Worker(worker)
    lane = Lane(w.lanes[0])
    begin_iteration(lane.decisions)
    propose(w, lane, lane.decisions.mode)
    while lane.stage != IDLE:
        try_next(w, lane)


@kernel
def try_next(w, lane):
    """Try the next step length, of those that were rolled out ahead, as several of them take no longer than one."""
    one, nx, nu = w.single, (w.N + 1) * w.nx, w.N * w.nu
    p = one.sooner if lane.stage == COMES_SOONER else one.lengths
    if lane.ahead == 0:
        roll_ahead(w, lane, p)
    row = p.count - lane.ahead
    lane.ahead -= 1
    copy(lane.tried_X, one.X[row], nx)
    copy(lane.tried_U, one.U[row], nu)
    cost = price(w, lane, lane.tried_X, lane.tried_U, one.notes[row], p.noted)
    one.diverged = 0
    if not abs(cost) < np.inf and 0.0 < lane.alpha <= 1.0:
        finite = True
        for i in range(nx - w.nx, nx):
            finite = finite and abs(lane.tried_X[i]) < np.inf
        if finite:
            lane.unpriced = 1
            copy(one.unpriced_X, lane.tried_X, nx)
            copy(one.unpriced_U, lane.tried_U, nu)
        else:
            one.diverged, one.lost = 1, 1
            copy(one.lost_X, lane.tried_X, nx)
            copy(one.lost_U, lane.tried_U, nu)
    arrive(w, lane, cost)


@kernel
def roll_ahead(w, lane, p):
    """Roll out the step that is asked for, and those that may be asked for next."""
    further = lane.stage == GOES_FURTHER
    p.alphas[0], p.count = lane.alpha, 1
    while p.count < w.single.count:
        last = p.alphas[p.count - 1]
        if last >= LONGEST if further else last < 2.0 * w.shortest:
            break
        p.alphas[p.count] = 2.0 * last if further else 0.5 * last
        p.count += 1
    call_contraction(w.single.track, w.context, p.address, 0, 0)
    lane.ahead = p.count
