"""Newton's steps to a minimum whose active set is known, or nearly so.

They end a solve, from the barrier's last iterate: the gains of its sweep bend controls long before their limits, those
of the policy are of a sweep with the active set held. And they begin one, from an earlier solution, whose active set is
settled anew on each quadratic model. A few of them end at rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ddp.compiling.setup import working_time
from ddp.interior.active import ActiveSet
from ddp.interior.course import SOLVED, START
from ddp.interior.point import Kept, Point
from ddp.protocols import Array
from ddp.solutions.record import Record
from ddp.sweeps.outcome import Sweep

ROUNDS, CLOSE, ROUNDING = 12, 1e-9, 1e-12
"""Newton's steps at most; errors from which one step ends at rounding, as they fall by their square, and gains stay as
they are; and errors that count as none."""

SETS = 8
"""Sets that are tried on a quadratic model before an interior point finds one."""

SHORTEST = 0.25
"""Fraction of a step that is tried last where errors do not fall."""


def kept(sweep: Sweep, dual: float) -> Sweep:
    """A sweep with gains of its own, which later ones do not overwrite, at a point with that error of the gradient.

    Its own gradient is of what it minimises, in which rounding of rows is weighed by up to 1e10.
    """
    return sweep._replace(k=sweep.k.copy(), K=sweep.K.copy(), gradient=dual)


@dataclass
class Finished:
    """The last sweep, None if none succeeded; whether it was exact."""

    sweep: Sweep | None
    exact: bool


def finish(
    point: Point, allowed: float, held: Array | None = None, show: Callable[[Record], None] | None = None,
    most: int = ROUNDS,
) -> Finished:  # fmt: skip
    """Take Newton's steps on the active set; the point is left at the best of them, bounded by its active rows.

    Its derivatives are known, contracted with its multipliers. Steps bring one of its errors below all earlier ones, or
    become shorter; the step from a point whose error is allowed may raise it, as the first one from a barrier does. If
    its error at the end is more than what is allowed, it is left where it was.

    held: rows (M,) to begin with, by default those that slacks and multipliers tell.   most: steps.
    show: told of steps that begin with a larger error than what is allowed, as of iterations; these have to end where
    the exact Hessian is positive definite. If they do not, the point is left at the least error that was met, with a
    barrier that belongs to it.
    """
    point.settle()
    begun = here = point.kept()
    bounds, barrier = point.bounds, point.barrier
    rows, errors = ActiveSet(point, held), list[tuple[float, float]]()
    best: tuple[float, Kept, Finished] | None = None
    nearest, reached = (np.inf, begun, rows.y), 0
    point.barrier, before, alpha = 0.0, working_time(), 1.0
    for number in range(most + 1):
        rows.impose()
        error = rows.judge(number > 0)
        strayed = best is not None and best[0] <= min(error, allowed)
        if strayed and (number > reached + 1 or (show is not None and error > allowed)):
            break
        dual, left = rows.errors
        if show is not None and error > allowed and any(dual >= d and left >= o for d, o in errors):
            alpha *= 0.5
            if alpha < SHORTEST or number == most:
                break
            point.restore(here)
        else:
            alpha, y = 1.0, rows.y
            if error < nearest[0]:
                nearest = error, point.kept(), y.copy()
            errors.append(rows.errors)
            step = rows.settle(1 if show is None else SETS)
            if step is None:
                break
            here, sweep = point.kept(), kept(step.sweep, rows.dual)
            if not strayed:
                best = (error, here, Finished(sweep, step.blend == 1.0)) if step.settled else None
                reached = number
            if error <= ROUNDING or number == most:
                break
        assert step is not None
        trial = point.along(alpha)
        if not trial.theta < np.inf:
            break
        point.accept(trial, alpha)
        rows.y = y + alpha * (rows.target - y)
        whole = alpha == 1.0 and trial.theta <= max(here.worth[2], ROUNDING)
        if best is not None and not strayed and error <= CLOSE and whole:
            point.bounds.equal = rows.y
            best = error, point.kept(), best[-1]
            break
        if show is not None and error > allowed:
            show(rows.record(step.way, step.blend, alpha, working_time() - before))
            before = working_time()
    if best is None or best[0] > allowed or not (best[-1].exact or show is None):
        point.bounds, point.barrier = bounds, barrier
        if show is None:
            point.restore(begun)
        else:
            point.resume(*nearest[1:], min(nearest[0] / SOLVED, START))
        return Finished(None, False)
    _, found, finished = best
    point.restore(found)
    return finished
