# mypy: allow-untyped-defs, allow-untyped-calls
"""Derivatives and backward sweeps of one lane of a batch: `Iterate.sweep` and `Backward`, compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ddp.batch.lanes import BY_RATIO, OWN_RULES, Worker
from ddp.compiling.kernel import by_types, call_contraction, kernel, specialised
from ddp.costs import cost_table
from ddp.costs.bound import EXACT as EXACT_ORDER
from ddp.costs.bound import GAUSS_NEWTON as GAUSS_NEWTON_ORDER
from ddp.costs.hessians import scales
from ddp.derivatives import EXACT, FIRST, GAUSS_NEWTON, RECORDS, lacking
from ddp.machine.addresses import array_at, integers_at
from ddp.machine.memory import address_of
from ddp.models import globalisation
from ddp.models.globalisation import DAMPED, Outcome
from ddp.models.regularization import ByRatio, Tenfold
from ddp.sweeps.backward import multiplier_of
from ddp.sweeps.gaps import weigh
from ddp.sweeps.horizon import Horizon
from ddp.sweeps.limits import sweep_within
from ddp.sweeps.sweeping import recur

COSTATE, POLICY = 1, 2
"""Numbers of `multiplier_of`."""


@kernel
def table_of(w, lane):
    """The cost terms of a lane's problem."""
    return integers_at(lane.table, (w.terms, 5))


@kernel
def price(w, lane, X, U):
    """The total cost of a trajectory; infinite where it diverges."""
    costs, nothing = array_at(w.costs, (w.N + 1,)), array_at(w.costs, (0, 0))
    states, controls = array_at(address_of(X), (w.N + 1, w.nx)), array_at(address_of(U), (w.N, w.nu))
    return cost_table.total(table_of(w, lane), integers_at(lane.table, (0, 5)), states, controls, nothing, costs)


@kernel
def know(w, lane, wanted):
    """Compute what is not known yet of a lane's derivatives, in memory that all lanes share."""
    known = w.known if w.owner == lane.index else 0
    if not wanted & ~known:
        return
    made, known = lacking(known, wanted, w.bends != 0)
    if made & (FIRST | RECORDS):
        call_contraction(w.expand, w.context, lane.trajectory, made & FIRST, made & RECORDS)
    N, nz = w.N, w.n + w.nu
    X, U = array_at(address_of(lane.X), (N + 1, w.nx)), array_at(address_of(lane.U), (N, w.nu))
    table, noted, record = table_of(w, lane), integers_at(lane.table, (0, 5)), array_at(w.record, (N, w.records))
    l, lz, diagonal = array_at(w.l, (N + 1,)), array_at(w.lz, (N + 1, nz)), array_at(w.diagonal, (N + 1, nz))
    lzz, exact = array_at(w.lzz, (N + 1, nz, nz)), array_at(w.exact, (N + 1, nz, nz))
    segments = integers_at(w.segments, (w.segment_count, 3))
    if made & (FIRST | GAUSS_NEWTON):
        order, H = (GAUSS_NEWTON_ORDER, lzz) if made & GAUSS_NEWTON else (EXACT_ORDER, exact)
        runs = integers_at(w.runs, (w.run_count, 5))
        cost_table.expand(table, noted, order, runs, segments, 0, N + 1, X, U, record, l, lz, H, diagonal)
    if made & EXACT and made & (FIRST | GAUSS_NEWTON) != FIRST:
        curved = integers_at(w.curved, (w.curved_count, 4))
        cost_table.expand_exact(table, noted, curved, segments, 0, N + 1, X, U, record, exact)
    w.owner, w.known = lane.index, known
    if not lane.scaled:
        H = lzz if known & GAUSS_NEWTON else exact
        separable = integers_at(w.separable, (N + 1,))
        found = scales(l, separable, H, diagonal, X, U, lane.cost, lane.highest)
        lane.magnitude, lane.control_weight, lane.unit, lane.resolution, lane.noise, lane.grain = found
        lane.scaled = 1


@kernel
def swept(lane, blend, mu, costates):
    """A backward sweep of a lane's iterate, after the derivatives that it needs."""
    w = Worker(lane.worker)
    s, kept, by_costate, boxed = w.sweeping, 0, 0, lane.limited != 0
    horizon, trajectory = (lane.boxed, lane.boxed_trajectory) if boxed else (lane.whole, lane.trajectory)
    if lane.torn:
        horizon = lane.torn_boxed if boxed else lane.torn_whole
    wanted = FIRST if blend == 1.0 else FIRST | GAUSS_NEWTON
    if blend > 0.0:
        multiplier = multiplier_of(lane.followed != 0, lane.torn != 0, w.batched != 0, costates)
        kept, by_costate = 1 if multiplier > 0 else 0, 1 if multiplier == COSTATE else 0
        blockwise = kept and lane.blocks != 0
        reads = not blockwise and not (kept and lane.age >= 0)
        know(w, lane, wanted | (EXACT | RECORDS if reads else EXACT))
        if blockwise:
            horizon, trajectory = lane.torn_blocks if lane.torn else lane.blocks, lane.trajectory
            if boxed:
                horizon = lane.torn_boxed_blocks if lane.torn else lane.boxed_blocks
        if kept and lane.age < 0:
            weigh(horizon, 0, w.N, multiplier == POLICY)
            call_contraction(w.into_blocks if blockwise else w.contract, w.context, trajectory, 0, 0)
        lane.age = 0 if kept else -1
    else:
        know(w, lane, wanted)
    s.horizon = horizon
    if boxed:
        failed, slope, change, gradient = sweep_in_limits(w, lane, blend, mu, by_costate, kept)
    else:
        s.blend, s.mu, s.by_costate, s.kept, s.known = blend, mu, by_costate, kept, 0
        recur(s.address)
        failed, slope, change, gradient = s.failed, s.slope, s.change, s.gradient
    left = lane.followed != 0 and abs(Horizon(horizon).action[0]) < np.inf
    lane.followed = 1 if failed < 0 or left else 0
    lane.found_slope = -slope
    return Outcome(-change, gradient, failed)


@kernel
def sweep_in_limits(w, lane, blend, mu, by_costate, kept):
    """Sweeps of a lane within limits of controls."""
    N, n, nu = w.N, w.n, w.nu
    k, K = array_at(address_of(lane.box_k), (N, nu)), array_at(address_of(lane.box_K), (N, nu * n))
    u, x = array_at(address_of(lane.box_u), (N, nu)), array_at(address_of(lane.box_x), (N + 1, n))
    y = array_at(address_of(lane.box_y), (N + 1, n))
    return sweep_within(w.sweeping.address, blend, mu, by_costate, kept, k, K, u, x, y)


@kernel
def step_squared(lane, found):
    """kᵀk of the last sweep."""
    w, total = Worker(lane.worker), 0.0
    for i in range(w.N * w.nu):
        total += lane.k[i] * lane.k[i]
    return total


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
    w, weight = Worker(lane.worker), lane.control_weight
    if is_by_ratio(w, model):
        return _ratio_raised(rule_of(w), s.mu[model], weight)
    return _tenfold_raised(rule_of(w), s.mu[model], weight)


@kernel
def stepped(s, model, lane):
    """mu after an attempt."""
    w, attempt, failed, weight = Worker(lane.worker), attempt_of(s, model), s.failed_mu[model], lane.control_weight
    if is_by_ratio(w, model):
        return _ratio_stepped(rule_of(w), attempt, lane.cost, failed, weight)
    return _tenfold_stepped(rule_of(w), attempt, lane.cost, failed, weight)


by_types(globalisation.raised)(lambda *types: raised)
by_types(globalisation.stepped)(lambda *types: stepped)
