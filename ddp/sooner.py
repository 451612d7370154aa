"""Motions that come sooner as a whole, where steps hardly move them in time.

A robot that rests before it moves, or after, may move sooner or later at nearly the same cost. Exact Hessians are not
positive definite in this valley, and the convex ones that take their place move a motion by a knot or less in an
iteration: an acrobot's swing-up by 12 knots in 58 iterations. So after a full step of convex Hessians that has brought
little, the motion is tried 1, 2, 4, ... knots sooner, and taken for as long as that pays.

Rollouts within limits of controls follow the policy of all knots from the initial state, that of the last knot again
and again at the end. Solves that begin with an earlier motion, as those of receding horizons, keep its time. Python
does so here, compiled iterations and batches in `ddp.batch.later_policies`; full-space steps, whose slacks and
multipliers come sooner, too, in `ddp.interior.travel`.
"""

import logging
from typing import TYPE_CHECKING

import numpy as np

from ddp.compiling.portable import portable
from ddp.constraints.placement import moved
from ddp.models.globalisation import shift
from ddp.search import Step

if TYPE_CHECKING:
    from ddp.iterate import Iterate

logger = logging.getLogger("mayne")

FURTHEST = 4
"""A motion comes sooner by no more than the horizon divided by this, at once."""

LITTLE = 0.1
"""A step that has brought more than this share of the cost that counts as one still shapes the motion: it stays."""

PAYS = 1e-4
"""Share of the cost that counts as one by which a motion that comes sooner has to be better."""

NO_STEP = np.zeros(1)
"""The step length of a policy that is followed as it is."""


@portable
def hardly_moves(alpha, convex, brought, unit):  # type: ignore[no-untyped-def]
    """Whether a motion is asked to come sooner after a step alpha, of convex Hessians or not, that brought so much."""
    return alpha >= 1.0 and convex and brought < LITTLE * unit


@portable
def pays(cost, reached, unit):  # type: ignore[no-untyped-def]
    """Whether a motion that comes sooner, at a cost, is to take the place of the best one so far."""
    return -np.inf < cost < reached - PAYS * unit


@portable
def may_come_sooner(point, attempt, before, tolerance):  # type: ignore[no-untyped-def]
    """Whether an attempt, whose step has led to a point, asks for the motion to come sooner; before: cost before it."""
    free = point.limited != 0 and point.gap == 0.0 and point.timed == 0
    convex = attempt.blend < 1.0 or attempt.mu > 2.0 * shift(point)
    far = attempt.expected > max(tolerance * point.unit, point.noise)
    return free and far and hardly_moves(attempt.step.alpha, convex, before - attempt.step.cost, point.unit)


def come_sooner(iterate: "Iterate") -> None:
    """Let an iterate's motion come sooner if that pays, and the gains of its last sweep with it."""
    problem, N, sweep, knots = iterate.problem, iterate.problem.horizon, iterate.swept, 1
    if sweep is None:
        return
    X, found = iterate.X.copy(), Step(0.0, iterate.cost, iterate.X, iterate.U)
    while knots * FURTHEST <= N:
        X[1:N], U, K = moved(iterate.X[:N], knots)[1:], moved(iterate.U, knots), moved(sweep.K, knots)
        try:
            Xs, Us, notes = problem.track(X, U, sweep.k, K, NO_STEP, iterate.gaps)
            cost = problem.objective.total(Xs[0], Us[0], notes[0] if len(notes) else notes)
        except Exception as reason:  # a user's own code fails at states that no step has come to: the motion stays
            logger.debug("a motion does not come sooner: %r", reason)
            break
        if not pays(cost, found.cost, iterate.unit):
            break
        found, gains, knots = Step(1.0, cost, Xs[0], Us[0]), K, 2 * knots
    if found.alpha > 0.0:
        iterate.accept(found)
        iterate.backward.led_away()
        iterate.backward.follow(gains)
