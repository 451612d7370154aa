# mypy: allow-untyped-defs, allow-untyped-calls
"""Derivatives and backward sweeps of one lane of a batch: `Iterate.sweep` and `Backward`, compiled."""

from typing import NamedTuple

import numpy as np

from ddp.batch.lanes import ALONE, BY_RATIO, FAILED, OWN_RULES, SHARED, SWEEPS, Lane, Worker, horizon_at
from ddp.compiling.kernel import by_types, call_contraction, kernel, specialised
from ddp.costs import cost_table
from ddp.costs.bound import EXACT as EXACT_ORDER
from ddp.costs.bound import GAUSS_NEWTON as GAUSS_NEWTON_ORDER
from ddp.costs.hessians import scales
from ddp.derivatives import EXACT, FIRST, GAUSS_NEWTON, RECORDS, lacking
from ddp.interior import iteration
from ddp.interior.memory import Memory
from ddp.interior.swept_hessians import complete
from ddp.machine.addresses import array_at, integers_at
from ddp.machine.algebra import dot
from ddp.machine.memory import address_of
from ddp.machine.number import WIDTH
from ddp.machine.trajectories import Trajectory
from ddp.models import globalisation
from ddp.models.globalisation import DAMPED, Outcome
from ddp.models.regularization import ByRatio, Tenfold
from ddp.sweeps.horizon import Horizon
from ddp.sweeps.outcome import multiplier_of
from ddp.sweeps.sweeping import SWEPT, recur
from ddp.systems.system import MOTIONS

NONE, VALUE, COSTATE, POLICY = -1, 0, 1, 2
"""Numbers of `multiplier_of`, and of no multiplier."""


@kernel
def copy(to, source, count):
    """Copy numbers."""
    for i in range(count):
        to[i] = source[i]


@kernel
def table_of(w, lane):
    """The cost terms of a lane's problem."""
    return integers_at(lane.table, (w.terms, 5))


@kernel
def price(w, lane, X, U, notes, noted):
    """The total cost of a trajectory with its notes, ``noted`` numbers a knot; infinite where it diverges."""
    costs, own = array_at(w.costs, (w.N + 1,)), array_at(address_of(notes), (w.N, noted))
    states, controls = array_at(address_of(X), (w.N + 1, w.nx)), array_at(address_of(U), (w.N, w.nu))
    return cost_table.total(table_of(w, lane), states, controls, own, costs)


@kernel
def know(w, lane, wanted):
    """Compute what is not known yet of a lane's derivatives."""
    d = lane.derived
    known = d.known if d.owner == lane.index else 0
    if not wanted & ~known:
        return
    made, known = lacking(known, wanted, w.bends != 0)
    if made & (FIRST | RECORDS):
        call_contraction(w.expand, w.context, lane.trajectory, made & FIRST, made & RECORDS)
    N, nz = w.N, w.n + w.nu
    X, U = array_at(address_of(lane.X), (N + 1, w.nx)), array_at(address_of(lane.U), (N, w.nu))
    table, record = table_of(w, lane), array_at(d.record, (N, w.records))
    l, lz, diagonal = array_at(d.l, (N + 1,)), array_at(d.lz, (N + 1, nz)), array_at(d.diagonal, (N + 1, nz))
    lzz, exact = array_at(d.lzz, (N + 1, nz, nz)), array_at(d.exact, (N + 1, nz, nz))
    runs = integers_at(w.runs, (w.run_count, 3))
    if made & (FIRST | GAUSS_NEWTON):
        order, H = (GAUSS_NEWTON_ORDER, lzz) if made & GAUSS_NEWTON else (EXACT_ORDER, exact)
        cost_table.expand(table, order, runs, 0, N + 1, X, U, record, l, lz, H, diagonal, False)
    if made & EXACT and made & (FIRST | GAUSS_NEWTON) != FIRST:
        cost_table.expand(table, EXACT_ORDER, runs, 0, N + 1, X, U, record, l, lz, exact, diagonal, True)
    d.owner, d.known = lane.index, known
    if not lane.scaled:
        H = lzz if known & GAUSS_NEWTON else exact
        separable = integers_at(w.separable, (N + 1,))
        A, B = array_at(d.A, (N, w.n, w.n)), array_at(d.B, (N, w.n, w.nu))
        found = scales(l, separable, H, diagonal, A, B, X, U, lane.cost, lane.highest)
        lane.magnitude, lane.control_weight, lane.damping, lane.unit, lane.resolution, lane.noise, lane.grain = found
        lane.scaled = 1


@kernel
def multiplier(w, lane, blend, costates):
    """The number of what contracts the second order of a sweep; none, -1, without that."""
    if blend == 0.0:
        return NONE
    return multiplier_of(lane.followed != 0, lane.torn != 0, w.batched != 0, costates)


@kernel
def prepare(w, lane, blend, by):
    """Make what a sweep needs, its second order contracted by that multiplier; the address of its `Horizon`."""
    kept, boxed = by > VALUE, lane.limited != 0
    horizon = horizon_at(lane, lane.torn, lane.limited, 0)
    trajectory = lane.boxed_trajectory if boxed else lane.trajectory
    wanted = FIRST if blend == 1.0 else FIRST | GAUSS_NEWTON
    if by == NONE:
        know(w, lane, wanted)
        return horizon
    blocks = horizon_at(lane, lane.torn, lane.limited, 1) if kept else 0
    reads = (blocks == 0 or Horizon(blocks).in_blocks != MOTIONS) and not (kept and lane.age >= 0)
    know(w, lane, wanted | (EXACT | RECORDS if reads else EXACT))
    if blocks != 0:
        horizon, trajectory = blocks, lane.trajectory
    if kept and lane.age < 0:
        call_contraction(w.weigh, horizon, 1 if by == POLICY else 0, 0, 0)
        call_contraction(w.contract, w.context, trajectory, 0, 0)
    lane.age = 0 if kept else -1
    return horizon


@kernel
def swept(lane, blend, mu, costates):
    """A backward sweep of a lane's iterate, after the derivatives that it needs, or that which others' sweeps had."""
    w = Worker(lane.worker)
    if lane.sweep == SHARED:
        lane.sweep = ALONE
        return Outcome(-lane.change, lane.steepest, -1)
    if lane.sweep == FAILED:
        lane.sweep = ALONE
        return Outcome(0.0, 0.0, lane.failed)
    s, by = w.sweeping, multiplier(w, lane, blend, costates)
    lane.by = by
    horizon = prepare(w, lane, blend, by)
    by_costate, kept = 1 if by == COSTATE else 0, 1 if by > VALUE else 0
    s.horizon = horizon
    s.blend, s.mu, s.by_costate, s.kept, s.known = blend, mu, by_costate, kept, 0
    if lane.limited != 0:
        call_contraction(w.within, s.address, lane.scratch, 0, 0)
    else:
        recur(s.address)
    failed, slope, change, gradient = s.failed, s.slope, s.change, s.gradient
    left = lane.followed != 0 and abs(Horizon(horizon).action[0]) < np.inf
    lane.followed = 1 if failed < 0 or left else 0
    lane.found_slope = -slope
    return Outcome(-change, gradient, failed)


@kernel
def sweep_together(w):
    """Make the first sweeps of attempts that wait for one, of eight lanes at once.

    Each is what `ddp.models.globalisation.attempted` asks for first. Those with open gaps or limits, or whose second
    order is contracted within the sweep, go alone, and so do those that follow one that fails.
    """
    e, some = w.shared, 0
    e.linear = 0
    for k in range(w.count):
        lane = Lane(w.lanes[k])
        if lane.stage == SWEEPS and some < WIDTH and lane.linear != 0:
            s = iteration.Decisions(lane.full_space.course)
            complete(Memory(lane.full_space.memory), s.blend)
            enter(e, some, lane, s.blend, s.shift)
            e.linear = 1
            w.taken[some], lane.sweep = k, SHARED
            some += 1
        elif lane.stage == SWEEPS and some < WIDTH:
            s = lane.decisions
            costates = globalisation.prepared(s, s.model, lane)[1]
            blend, mu = s.blend[s.model], s.mu[s.model]
            by = multiplier(w, lane, blend, costates)
            lane.sweep = ALONE
            if by != VALUE and lane.limited == 0 and lane.torn == 0:
                prepare(w, lane, blend, by)
                enter(e, some, lane, blend, mu)
                w.taken[some], lane.sweep = k, SHARED
                some += 1
    if some == 0:
        return
    for i in range(some, WIDTH):
        enter(e, i, Lane(w.lanes[w.taken[0]]), e.blends[0], e.mus[0])
    call_contraction(w.share_sweeps, e.address, 0, 0, 0)
    for i in range(some):
        lane = Lane(w.lanes[w.taken[i]])
        if lane.linear != 0:
            f = lane.full_space.sweeping
            f.failed, f.change, f.gradient, f.known = int(e.failed[i]), e.change[i], e.steepest[i], SWEPT
            f.slope = e.slopes[i]
        elif e.failed[i] < 0.0:
            lane.followed, lane.found_slope = 1, -2.0 * e.change[i]
            lane.change, lane.steepest = e.change[i], e.steepest[i]
        elif abs(e.change[i]) < np.inf:
            lane.sweep, lane.failed = FAILED, int(e.failed[i])
        else:  # a sweep alone tells whether numbers were finite where it failed
            lane.sweep = ALONE


@kernel
def enter(e, i, lane, blend, mu):
    """Let a lane's sweep be the i-th of eight."""
    d, T, k, K = lane.derived, Trajectory(lane.trajectory).T, address_of(lane.k), address_of(lane.K)
    gaps, f = address_of(lane.gaps), lane.full_space
    if f.address != 0:
        m = Memory(f.memory)
        e.x[i], e.u[i], e.costate[i], e.weights[i] = m.x, m.u, m.to_costate, m.to_weights
    if lane.linear != 0:
        d, T, k, K = f.derived, f.T, f.k, f.K
        gaps = f.gaps if lane.torn != 0 else gaps  # without those of rounding
    e.A[i], e.B[i], e.lz[i], e.lzz[i], e.exact[i], e.diagonal[i] = d.A, d.B, d.lz, d.lzz, d.exact, d.diagonal
    e.T[i], e.k[i], e.K[i], e.gaps[i], e.blends[i], e.mus[i] = T, k, K, gaps, blend, mu


@kernel
def step_squared(lane, found):
    """kᵀk of the last sweep."""
    w = Worker(lane.worker)
    return dot(lane.k, lane.k, w.N * w.nu)


by_types(globalisation.swept)(lambda *types: swept)
by_types(globalisation.step_squared)(lambda *types: step_squared)


# -- mu --------------------------------------------------------------------------------------------------------------


class Rule(NamedTuple):
    """Numbers of a `Tenfold`, and of a `ByRatio`."""

    factor: float
    short: float
    long: float
    floor: float


class Reached(NamedTuple):
    """Numbers of a `ddp.search.Step`."""

    alpha: float
    cost: float


class Attempted(NamedTuple):
    """Numbers of a `ddp.models.attempt.Attempt`."""

    blend: float
    mu: float
    expected: float
    step: Reached
    stiffness: float


_tenfold_raised = kernel(specialised(Tenfold.raised, "tenfold_raised"))
_tenfold_stepped = kernel(specialised(Tenfold.stepped, "tenfold_stepped"))
_ratio_raised = kernel(specialised(ByRatio.raised, "ratio_raised"))
_ratio_stepped = kernel(specialised(ByRatio.stepped, "ratio_stepped"))


@kernel
def rule_of(w):
    """The numbers of the rules for mu."""
    return Rule(w.factor, w.short, w.long, w.floor)


@kernel
def is_by_ratio(w, model):
    """Whether mu of a model follows `ByRatio`."""
    return w.rule == BY_RATIO or (w.rule == OWN_RULES and model == DAMPED)


@kernel
def attempt_of(s, model):
    """The last attempt of a model."""
    reached = Reached(s.alpha[model], s.cost[model])
    return Attempted(s.used_blend[model], s.used_mu[model], s.expected[model], reached, s.stiffness[model])


@kernel
def raised(s, model, lane):
    """mu after a failure."""
    w, unit = Worker(lane.worker), lane.damping
    if is_by_ratio(w, model):
        return _ratio_raised(rule_of(w), s.mu[model], unit)
    return _tenfold_raised(rule_of(w), s.mu[model], unit)


@kernel
def stepped(s, model, lane):
    """mu after an attempt."""
    w, attempt, failed, unit = Worker(lane.worker), attempt_of(s, model), s.failed_mu[model], lane.damping
    if is_by_ratio(w, model):
        return _ratio_stepped(rule_of(w), attempt, lane.cost, failed, unit)
    return _tenfold_stepped(rule_of(w), attempt, lane.cost, failed, unit)


by_types(globalisation.raised)(lambda *types: raised)
by_types(globalisation.stepped)(lambda *types: stepped)
