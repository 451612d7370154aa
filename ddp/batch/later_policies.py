# mypy: allow-untyped-defs, allow-untyped-calls
"""Motions of lanes that come sooner as a whole: see `ddp.sooner`, of which this is a part.

Policies move in `Lane.best_X`, ``best_U`` and ``later_K``, one length after the other; the best rollout so far stays in
``kept_X`` and ``kept_U``, and its gains take the place of the lane's.
"""

from numba import boolean

from ddp.batch import iterates
from ddp.batch.lanes import COMES_SOONER
from ddp.batch.sweeps import attempt_of, copy
from ddp.compiling.kernel import apart, kernel
from ddp.interior.travel import shift
from ddp.machine.memory import address_of
from ddp.sooner import FURTHEST, may_come_sooner, pays


@apart(returns=boolean)
def begins(w, lane, before):
    """Whether a motion may come sooner, after an iteration from that cost: then its policy a knot later is awaited."""
    if not may_come_sooner(lane, attempt_of(lane.decisions, lane.decisions.best), before, w.tolerance):
        return False
    N, nx, nu = w.N, w.nx, w.nu
    copy(lane.best_X, lane.X, (N + 1) * nx)
    copy(lane.best_U, lane.U, N * nu)
    copy(lane.later_K, lane.K, N * nu * w.n)
    lane.reached, lane.knots, lane.ahead = lane.cost, 0, 0
    move_on(w, lane, 1)
    return True


@kernel
def move_on(w, lane, knots):
    """Await the rollout of a policy that is so many knots later than the last one."""
    N, nx, nu, X, U, K = w.N, w.nx, w.nu, address_of(lane.best_X), address_of(lane.best_U), address_of(lane.later_K)
    shift(X, X, N, nx, knots)
    shift(U, U, N, nu, knots)
    shift(K, K, N, nu * w.n, knots)
    copy(lane.best_X, lane.X, nx)
    lane.knots += knots
    lane.alpha, lane.stage = 0.0, COMES_SOONER


@apart(returns=boolean)
def ends(w, lane, cost):
    """Whether a motion has come as much sooner as pays, after a rollout at that cost; else the next one is awaited."""
    N, nx, nu = w.N, w.nx, w.nu
    if pays(cost, lane.reached, lane.unit):
        lane.reached = cost
        copy(lane.kept_X, lane.tried_X, (N + 1) * nx)
        copy(lane.kept_U, lane.tried_U, N * nu)
        copy(lane.K, lane.later_K, N * nu * w.n)
        if 2 * lane.knots * FURTHEST <= N:
            move_on(w, lane, lane.knots)
            return False
    if lane.reached < lane.cost:
        copy(lane.X, lane.kept_X, (N + 1) * nx)
        copy(lane.U, lane.kept_U, N * nu)
        lane.cost, lane.scaled, lane.followed, lane.age = lane.reached, 0, 1, -1
        iterates.forget(lane)
        iterates.measure_room(w, lane)
    return True
