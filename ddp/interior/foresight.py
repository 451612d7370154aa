"""Rows that bind at a quadratic model's minimum, found by an interior point whose iterations are sweeps alone."""

from __future__ import annotations

import numpy as np

from ddp.interior import row_steps
from ddp.interior.active import closing
from ddp.interior.course import END, SOLVED, START, lowered
from ddp.interior.point import INSIDE, Point

MOST_SWEEPS = 40
"""Sweeps of an interior point on one quadratic model, at most."""

SHORT, IN_A_ROW = 0.25, 5
"""There is no way where steps are so short, so many times in a row: from where a solve has been led it is given up."""


def foresee(point: Point, blend: float, led: bool) -> float:
    """Hold what binds at the quadratic model's minimum; the share of its exact Hessian, negative where there is none.

    That is less than the one given where this is not positive definite. The point stays what it is, without a barrier.
    """
    own, b, values, relative = point.place.own, point.bounds, point.values(), START
    begun, longest, short, found = b.state.copy(), 0.0, 0, False
    point.barrier = START * point.scale
    b.start(b.inside(values, INSIDE), values, point.barrier)
    b.equal = np.where(b.equality & ~b.soft, own["forces"], b.equal)
    for _ in range(MOST_SWEEPS):
        point.residual[:] = b.missed(values)
        if point.judge().high <= SOLVED * point.barrier and longest == 1.0:
            if found := relative <= END:
                point.do(closing, blend)
                break
            relative = max(END, lowered(relative))
            point.barrier = relative * point.scale
        way = point.propose(blend, 0.0, False)
        if way.failed >= 0 and blend > 0.0:
            blend = 0.0
            way = point.propose(blend, 0.0, True)
        if way.failed >= 0:
            break
        longest = way.longest
        short = short + 1 if led and longest < SHORT else 0
        if short == IN_A_ROW:
            break
        b.primal += longest * b.step[: row_steps.BELOW]
        row_steps.move(b.state, b.bounds, b.kind, b.give, point.barrier, b.step, longest, point.longest_dual)
    own["target"][:] = b.multipliers
    b.state[:], point.barrier = begun, 0.0
    return blend if found else -1.0
