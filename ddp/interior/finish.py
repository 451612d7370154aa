"""Newton's steps to a minimum whose active set is known, or nearly so.

They end a solve, from the barrier's last iterate: the gains of its sweep bend controls long before their limits, those
of the policy are of a sweep with the active set held. And they begin one, from an earlier solution or from where
rollouts without constraints have led; the active set is settled anew on each quadratic model. A few of them end at
rounding. They are compiled, see ending.py and active.py.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ddp.compiling.setup import working_time
from ddp.interior import row_steps
from ddp.interior.active import closing
from ddp.interior.course import END, SOLVED, START, lowered
from ddp.interior.elimination import exact_gains
from ddp.interior.ending import BEGUN, BEST, ENDS, FORESEES, GOES_ON, NEAREST, ROUNDS, begin, restore, run
from ddp.interior.iteration import record_of
from ddp.interior.memory import MOST
from ddp.interior.point import INSIDE, Point
from ddp.machine.written import Numbers, copied
from ddp.protocols import Array
from ddp.solutions.status import Record
from ddp.sweeps.outcome import GIVEN, NONE, Sweep

MOST_SWEEPS = 40
"""Sweeps of an interior point on one quadratic model, at most."""

SHORT, IN_A_ROW = 0.25, 5
"""There is no way where steps are so short, so many times in a row: from where a solve has been led it is given up."""


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
    most: int = ROUNDS, at_once: int = MOST, led: bool = False, exact: bool = True, left: float = np.inf,
) -> Finished:  # fmt: skip
    """Take Newton's steps on the active set; the point is left at the best of them, bounded by its active rows.

    Its derivatives are known, contracted with its multipliers. Steps are whole: errors rise where what binds changes,
    and fall by their square after that. If the error at the end is more than what is allowed, it is left where it was.

    held: rows (M,) to begin with, by default those that slacks and multipliers tell.   most: steps.
    show: told of steps that begin with a larger error than what is allowed, as of iterations, of so many ``at_once``;
    these have to end where the exact Hessian is positive definite. If they do not, the point is left at the least error
    that was met, with a barrier that belongs to it, off bounds; or as it is, if no iterations are ``left`` after these.
    led: whether it begins where rollouts without constraints have led, or a guess, far from any solution: then steps
    that open too much are not taken, see `active.opens`, and some are halved, see `active.BENT`.
    exact: whether gains keep what binds exactly, see elimination.py.
    """
    ending = copied(point.place.ending)
    s, own, barrier, before = Numbers(ending), point.place.own, point.barrier, working_time()
    s.allowed, s.most, s.shown, s.led = allowed, most, show is not None, led
    if held is not None:
        own["held"][:] = held
    point.do(begin, ending.address, held is not None)
    came, shown = GOES_ON, 0
    while came != ENDS:
        came, made = point.do(run, ending.address, at_once)
        shown += made
        if made and show is not None:
            now = working_time()
            for numbers in own["numbers"][:made].tolist():
                show(record_of((now - before) / made, numbers))
            before = now
        if came == FORESEES:
            s.foreseen = foresee(point, s.blend if led else 1.0, led)
            if s.foreseen < 0.0 and not led:  # Gauss-Newton's model is convex
                s.foreseen = foresee(point, 0.0, led)
    if s.best <= allowed and (s.share == 1.0 or show is None):
        point.bounds = point.place.imposed
        point.do(restore, BEST)
        contraction = NONE if s.share == 0.0 else GIVEN
        gains = exact_gains(point, s.share, not s.astray) if exact else None
        k, K = gains or (own["kept_k"].copy(), own["kept_K"].reshape(point.backward.policy[1].shape).copy())
        return Finished(Sweep(k, K, np.nan, -s.change, s.gradient, -1, contraction), s.share == 1.0)
    point.barrier = barrier
    if show is None:
        point.do(restore, BEGUN)
    else:
        point.do(restore, NEAREST)
        if shown < left:
            point.resume(own["forces"], min(s.nearest / SOLVED, START))
    return Finished(None, False)


def foresee(point: Point, blend: float, led: bool) -> float:
    """Hold what binds at the quadratic model's minimum; the share of its exact Hessian, negative where there is none.

    An interior point finds it whose iterations are sweeps alone; they do without the exact Hessian once it is not
    positive definite, but where the set is nearly known the step with what binds may have all of it again. The point
    stays what it is, without a barrier.
    """
    own, b, values, relative = point.place.own, point.bounds, point.values(), START
    begun, longest, short, found = b.state.copy(), 0.0, 0, False
    point.barrier = START * point.scale
    b.start(b.inside(values, INSIDE), values, point.barrier)
    b.equal[:] = np.where(b.equality & ~b.soft, own["forces"], b.equal)
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
        b.state[: row_steps.BELOW] += longest * b.step[: row_steps.BELOW]
        row_steps.move(b.state, b.bounds, b.kind, b.plain, b.give, point.barrier, b.step, longest, point.longest_dual)
    own["target"][:] = b.multipliers
    b.state[:], point.barrier = begun, 0.0
    return (blend if led else 1.0) if found else -1.0
