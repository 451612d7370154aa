"""Records of a batch's compiled loop: a worker, which is one thread, and its lanes, each with one problem."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddp.compiling.kernel import inline
from ddp.machine.declared import each
from ddp.machine.struct import Struct, integer, integers, matrix, nested, real, reals
from ddp.machine.trajectories import Eight, Lengths
from ddp.machine.variables import struct_like, variable_integer, variable_real
from ddp.models.attempt import Limits
from ddp.models.globalisation import Globalisation
from ddp.protocols import Array
from ddp.sweeps.lane_sweep import EightSweeps
from ddp.sweeps.sweeping import Sweeping

IDLE, SWEEPS, BEGINS, OPENS, SEARCHES, GOES_FURTHER, FOLLOWS, COMES_SOONER = range(8)
"""Stages of a lane: without a problem, waiting for a sweep, or the meaning of the rollout that it waits for: its guess,
the gaps of states that stay at x0, a step of a search, a longer one beside a full one, the end of full-space steps, a
motion that comes sooner as a whole."""

NOT_SWEPT, SHARED, FAILED, ALONE = range(4)
"""States of the sweep that an attempt begins with: not asked for, swept or failed with others', or to be made alone."""

CONVERGED, ROUNDING, ITERATIONS, LEFT = range(4)
"""Endings. What is `LEFT` is for `ddp.solve`: whatever ends otherwise, and what the loop does not know."""

COST, GRADIENT, EXPECTED, DONE, ENDING, EXACT_GAINS = range(6)
NUMBERS = 6
"""Numbers of a result: its cost and gradient, the last expected decrease, iterations, its ending, and whether its gains
are of exact Hessians."""

OWN_RULES, TENFOLD, BY_RATIO = range(3)
"""Rules for mu: those of the models, or one for all."""

Decisions = struct_like("Decisions", __name__, Globalisation(Limits(), 0, False, -1))
"""`Globalisation` of one lane."""


class Derived(Struct):
    """Addresses of derivatives, those of one lane at a time.

    owner: index of that lane, -1 for none.   known: which of them are up to date, see `ddp.derivatives.FIRST`.
    """

    A, B, l, lz, lzz, exact, diagonal, record = each(8, integer)
    owner, known = each(2, variable_integer)


NO_STEP = -1
"""Verdict, beside those of `ddp.descent.judged`, on an iteration in which no sweep succeeded."""

REPORTED = 10
"""Numbers of an iteration of a worker's only lane: see `ddp.batch.iterates.report`."""


class Single(Struct):
    """Memory that a worker's only lane has besides, where `ddp.solve` asks for one iteration at a time.

    track: address of the routine that rolls out ``lengths``, ``count`` step lengths at most, which take no longer than
    one, into X (count, (N+1) nx), U (count, N nu), notes (count, N noted); sooner: the same, of one that comes sooner.
    numbers: of the last iteration.
    diverged: whether the last step that was tried diverged; lost: whether any did, the last of them to lost_X, lost_U.
    unpriced_X, unpriced_U: trajectory of the last step whose cost is no number.
    """

    track: int = integer()
    lengths: Lengths = nested(Lengths)
    sooner: Lengths = nested(Lengths)
    count: int = integer()
    X, U, notes = each(3, matrix, constant=False)
    numbers: Array = reals(constant=False)
    diverged, lost = each(2, variable_integer)
    lost_X, lost_U, unpriced_X, unpriced_U = each(4, reals, constant=False)


class FullSpace(Struct):
    """Memory of one lane's full-space steps.

    go_on: C function that takes them, after no more than ``most`` iterations by rollouts.   memory: a
    `ddp.interior.memory.Memory`.   course: its `Decisions`, of so many words; first_course: these as steps begin.
    derived, T, k, K, gaps: what is swept.   sweeping: a `Sweeping`.
    """

    go_on, most, memory, course, first_course, course_words = each(6, integer)
    derived: Derived = nested(Derived)
    T, k, K, gaps = each(4, integer)
    sweeping: Sweeping = nested(Sweeping)


class Worker(Struct):
    """Everything that the lanes of a thread share.

    single: see there; 0 in batches, whose lanes roll out together.
    follow, expand, contract, context: of `ddp.systems.system.Routines`.   sweeping: of one lane's sweep.
    shared, share_sweeps: sweeps of all lanes at once, and their C function; 0 where each lane sweeps alone.
    weigh, within: C functions of `ddp.sweeps.sized_sweep.weigh_of` and `ddp.sweeps.sized_limits.within_function`.
    terms: rows of tables of costs; runs: see `ddp.costs.cost_table`; bends: whether Gauss-Newton's
    Hessians are not exact.   separable (N+1,).   costs (N+1,): scratch.
    limited, lower, upper (N, nu): whether controls have limits, and which; hands_over: whether problems whose steps are
    short there are left to `ddp.solve`, which goes over to full-space steps.
    tolerance .. is_exact: of the solver.   rule, factor .. floor: of mu.
    x0 (M, nx), u0 (M, nu): where problems begin, and their first controls.   X, U, K: guesses of all or (1, ...) of
    one for all, whose first rows x0 and u0 replace; alone: whether guesses are controls alone, and X stays at x0.
    lanes: addresses of ``count`` lanes; taken: numbers of eight that are swept or rolled out at once; turn: of the
    lane that rolls out first.
    tables (M or 1, terms, 5).   to_X .. numbers: results.
    next, end: the problems next .. end-1 are those that no lane has begun.
    """

    single: Single = nested(Single)
    N, nx, n, nu, records, follow, expand, contract, context = each(9, integer)
    sweeping: Sweeping = nested(Sweeping)
    eight: Eight = nested(Eight)
    shared: EightSweeps = nested(EightSweeps)
    share_sweeps, weigh, within, terms, runs, run_count, bends, separable, costs, batched, limited = each(11, integer)
    lower, upper = each(2, matrix)
    hands_over: int = integer()
    tolerance: float = variable_real()
    limit: int = integer()
    share, shortest, generous = each(3, real)
    last_sweep, is_exact, rule = each(3, integer)
    factor, short, long, floor = each(4, real)
    fresh: int = nested(Decisions)
    count: int = integer()
    lanes: NDArray[np.int64] = integers()
    taken: NDArray[np.int64] = integers(constant=False)
    turn: int = variable_integer()
    alone: int = integer()
    x0, u0, X, U, K = each(5, matrix)
    tables: NDArray[np.int64] = integers()
    table_step: int = integer()
    to_X, to_U, to_k, to_K, numbers = each(5, matrix, constant=False)
    next: int = variable_integer()
    end: int = integer()


class Lane(Struct):
    """One problem on its way; attributes are those of `ddp.iterate.Iterate`, and of a `ddp.search.Line`.

    full_space: 0 where steps are rollouts alone; linear: whether they are full-space steps now.
    index: of the lane.   derived: where its derivatives are.   problem: its number, and ``table`` where its costs are.
    stage: see `IDLE`.   sweep: see `NOT_SWEPT`.
    horizons (8,): see `horizon_at`.   gaps (N, n), gap: gaps and the largest number of any.   limited: whether sweeps
    know of limits of controls.   trajectory, boxed_trajectory: addresses of a `Trajectory` of X and U.
    scaled: whether magnitude .. grain are those of the iterate.   followed, age: see `ddp.sweeps.backward.Backward`.
    slope, expected, gradient: of the sweep whose policy is searched along; found_slope: of the last sweep;
    change, steepest, failed: expected change and largest gradient of a sweep that was made with others, or
    the knot where it failed.
    by: what contracted the second order of the last sweep, and ``contracted`` (3,) of the models' last attempts.
    ahead: number of further steps that have been rolled out already.   unpriced: whether a step of this search has a
    cost that is no number.
    alpha, reached: the step that is searched, the cost of the best one beyond a full one, which is of ``longer``.
    X, U: the iterate; tried_X, tried_U: where a rollout writes; best_X, best_U: the best attempt of an iteration,
    while others follow; reached_X, reached_U: addresses of the best attempt in the end, in any of these.
    kept_X, kept_U: the best of longer steps.   knots, later_K: by which a motion comes sooner, and its gains.
    k, K: the policy of the last sweep.   low, high: how far controls are from their limits.   scratch: of
    sweeps within limits, a `ddp.sweeps.limits.Scratch`.
    """

    worker, index = each(2, integer)
    derived: Derived = nested(Derived)
    decisions: Any = nested(Decisions)
    full_space: FullSpace = nested(FullSpace)
    linear: int = variable_integer()
    horizons: NDArray[np.int64] = integers()
    trajectory, boxed_trajectory = each(2, integer)
    limited, problem, table, stage, sweep, torn = each(6, variable_integer)
    gap, cost, highest, magnitude, control_weight, damping, unit, resolution, noise, grain = each(10, variable_real)
    scaled, followed, age, by = each(4, variable_integer)
    contracted: NDArray[np.int64] = integers(constant=False)
    ahead, unpriced = each(2, variable_integer)
    slope, expected, gradient, found_slope, change, steepest = each(6, variable_real)
    failed: int = variable_integer()
    alpha, longer, reached = each(3, variable_real)
    settled, iterations = each(2, variable_integer)
    X, U, tried_X, tried_U, best_X, best_U = each(6, reals, constant=False)
    reached_X, reached_U = each(2, variable_integer)
    kept_X, kept_U, k, K, gaps, low, high, later_K = each(8, reals, constant=False)
    knots, timed = each(2, variable_integer)
    scratch: int = integer()


@inline
def horizon_at(lane, torn, limited, in_blocks):  # type: ignore[no-untyped-def]
    """Address of a lane's `Horizon` with open gaps or none, with limits of controls or without; 0 if there is none.

    in_blocks: whether its second orders are blocks, where the dynamics know them, and not Hessians.
    """
    return lane.horizons[4 * torn + 2 * limited + in_blocks]
