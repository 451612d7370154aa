# mypy: allow-untyped-defs, allow-untyped-calls
"""Passes over the horizon and all rows at a point: its derivatives and errors, its sweeps and their steps.

    differentiate, contract   derivatives of both orders     judge   errors of the point
    condense, sweep           what rows weigh, eliminated    stride  the step of a sweep

memory: address of a `Memory`. What is not compiled Python is asked for, see parts_in_python.py; what is about rows
alone is in passes_of_rows.py.
"""

from typing import NamedTuple

import numpy as np
from numba import float64

from ddp.compiling.kernel import apart, call_contraction, kernel
from ddp.costs import cost_table
from ddp.costs.bound import EXACT, GAUSS_NEWTON
from ddp.interior import row_steps
from ddp.interior.linear import bend
from ddp.interior.measures import absolute, absolute_in_units, clear, copy, in_units, priced, slope
from ddp.interior.memory import CONTRACT, CURVE, DIFFERENTIATE, Memory, RowMemory, ask, row_arrays
from ddp.interior.passes_of_rows import (
    condense_rows,
    curve_rows,
    differentiate_rows,
    free_of_limits,
    judge_rows,
    most_beyond,
    priced_rows,
    pull,
    pull_by_rows,
    stride_of_rows,
    sweep_within,
)
from ddp.interior.swept_hessians import complete, fill, shift
from ddp.machine.addresses import array_at, integers_at
from ddp.machine.memory import floats_at
from ddp.sweeps.sweeping import STEPPED, SWEPT, Sweeping, recur


class Way(NamedTuple):
    """Numbers of the step of a sweep; failed: the knot at which that failed, or -1.

    longest: fraction of it until a slack is at zero all but.   slope: of cost and barrier along it.
    expected: the decrease of both that the model promises, were nothing open.
    """

    failed: int
    longest: float
    slope: float
    expected: float


ROUNDING = 1e-15
"""Gaps that are no larger, relative to the largest number of a state, are of rounding: sweeps without constraints do
without them: a quadrotor's solve takes 13 to 16 % less. Constraints weigh gaps by up to 1e10, so that these have to
go on closing there."""

NO_WAY = Way(0, 1.0, 0.0, 0.0)
"""Result of a sweep that failed."""


class Judged(NamedTuple):
    """Errors of a point: of the Lagrangian's gradient in x and u, and in slacks; products that the barrier makes equal.

    costates, of_bounds, of_all: sums of absolute multipliers: of the dynamics, of bounds, of all rows.
    """

    dual: float
    costates: float
    low: float
    high: float
    slope: float
    of_bounds: float
    of_all: float


@kernel
def differentiate(memory):
    """Derivatives at the point, but for second orders of the dynamics, which are not contracted yet."""
    p = Memory(memory)
    if p.in_python != 0:
        ask(p, DIFFERENTIATE)
    else:
        call_contraction(p.expand, p.context, p.trajectory, 1, p.completes)
        N, nz, U = p.N, p.n + p.nu, array_at(p.U, (p.N, p.nu))
        X, record = array_at(p.X, (N + 1, p.nx)), array_at(p.record, (N, p.records))
        l, lz, diagonal = array_at(p.l, (N + 1,)), array_at(p.lz, (N + 1, nz)), array_at(p.diagonal, (N + 1, nz))
        for exact in range(2):
            order, H = EXACT if exact else GAUSS_NEWTON, array_at(p.exact if exact else p.lzz, (N + 1, nz, nz))
            runs, again = integers_at(p.runs, (p.run_count, 3)), exact == 1
            cost_table.expand(terms_of(p), order, runs, 0, N + 1, X, U, record, l, lz, H, diagonal, again)
    if p.M > 0:
        differentiate_rows(p)
    copy(p.gaps, p.opened, p.N * p.n)
    p.horizon = p.torn_horizon if is_open(p) else p.whole_horizon
    Sweeping(p.sweeping).horizon = p.horizon
    p.contracted, p.judged = 0, 0


@kernel
def is_open(p):
    """Whether gaps are more than rounding of the largest number of a state, as gaps are measured."""
    if p.first > 0 or not p.gap > 0.0:
        return p.gap > 0.0
    closed = ROUNDING * absolute(p.X, (p.N + 1) * p.nx)[0]
    if p.gauging == 0:
        return p.gap > closed
    if p.gap > closed * absolute(p.gauge, p.n)[0]:  # which no coordinate exceeds, and registers find
        return True
    return p.gap > ROUNDING * absolute_in_units(p.X, p.N + 1, p.nx, p.gauge)[0]


@kernel
def terms_of(p):
    """The table of costs of a `Memory`."""
    return integers_at(p.terms, (p.term_count, 5))


@kernel
def contract(memory):
    """Contract the second order of the dynamics with the multipliers, unless that is done."""
    p = Memory(memory)
    if p.contracted != 0:
        return
    bend(p.horizon, p.weights)
    if p.in_python != 0:
        ask(p, CONTRACT)
    else:
        call_contraction(p.contract, p.context, p.trajectory, 0, 0)
    p.contracted, Sweeping(p.sweeping).known = 1, 0


@kernel
def judge(memory):
    """Errors of a point whose derivatives are known, with multipliers of the rows, which are written."""
    p = Memory(memory)
    contract(memory)
    if p.M > 0:
        pull_by_rows(p)
    call_contraction(p.stationarity, memory, 0, 0, 0)
    if p.boxed:
        free_of_limits(p)
    if p.foreign != 0:
        in_units(p.error, p.N + 1, p.n + p.nu, p.units)
    e = floats_at(p.errors)
    e[0], e[1] = absolute(p.error, (p.N + 1) * (p.n + p.nu))[0], costates(p)[1]
    e[2], e[3], e[4], e[5], e[6] = np.inf, -np.inf, 0.0, 0.0, 0.0
    if p.M > 0:
        judge_rows(p)
    p.judged = 1


@kernel
def costates(p):
    """The largest of the |costates|, and their sum."""
    if p.foreign != 0:
        return absolute_in_units(p.costate, p.N + 1, p.n, p.units)
    return absolute(p.costate, (p.N + 1) * p.n)


@kernel
def arrive(memory):
    """Derivatives where a step has led, and the errors there."""
    differentiate(memory)
    judge(memory)


@kernel
def judged(p):
    """The errors of a point."""
    e = floats_at(p.errors)
    return Judged(e[0], e[1], e[2], e[3], e[4], e[5], e[6])


@kernel
def adjoint(memory, follows):
    """Multipliers of the dynamics := the costates of the point, or those under the sweep's gains if it ``follows``."""
    p = Memory(memory)
    if p.M > 0:
        pull_by_rows(p)
    bend(p.horizon, p.weights)
    clear(floats_at(p.x), (p.N + 1) * p.n)
    clear(floats_at(p.u), p.N * p.nu)
    clear(floats_at(p.y), (p.N + 1) * p.n)
    s = Sweeping(p.sweeping)
    s.blend, s.mu = 0.0, 0.0  # no Hessian counts
    call_contraction(p.multipliers, memory, follows, p.costate, p.weights)
    p.contracted = 0


@kernel
def begin(memory):
    """Derivatives where a solve begins, and first multipliers of the dynamics: zeros."""
    p = Memory(memory)
    differentiate(memory)
    clear(floats_at(p.costate), (p.N + 1) * p.n)
    clear(floats_at(p.weights), p.N * p.n)


@kernel
def find_limit_forces(memory):
    """``error`` := the Lagrangian's gradient without multipliers of control limits."""
    p = Memory(memory)
    r = RowMemory(p.rows)
    b = row_arrays(r)
    row_steps.multipliers(b.state, b.kind, b.give, b.y)
    b.y[p.first :] = 0.0
    if p.M > 0:
        pull(p, r.y)
    call_contraction(p.stationarity, memory, 0, 0, 0)


@kernel
def condense(memory):
    """Weights and forces of the rows, and what is swept: the gradient, exact Hessians, the curvature of the rows."""
    p = Memory(memory)
    if p.M > 0:
        condense_rows(p)
    fill(p, True)
    if p.M > 0:
        curve_rows(p)
    if p.in_python != 0:
        ask(p, CURVE)
    p.whole = 0


@kernel
def sweep(memory, blend, mu, held):
    """Sweep once, after `condense`; returns the knot that failed, or -1.

    held: whether controls are, as ``Horizon.held`` says; where sweeps keep to limits, these tell.
    """
    p = Memory(memory)
    complete(p, blend)
    if mu > 0.0 and p.foreign != 0:
        fill(p, False)
        p.whole = 0
        shift(p, mu)
        mu = 0.0
    s = Sweeping(p.sweeping)
    again = s.known == STEPPED and p.M == 0 and s.blend == blend and s.mu == mu
    s.blend, s.mu = blend, mu
    if s.known == SWEPT or again:
        s.known = STEPPED
        return s.failed
    s.known = 0
    if p.boxed:
        sweep_within(p)
    elif held:
        s.horizon, s.known = p.whole_held if p.horizon == p.whole_horizon else p.torn_held, 1
        recur(p.sweeping)
        s.horizon, s.known = p.horizon, 0
    else:
        recur(p.sweeping)
    return s.failed


@kernel
def stride(memory):
    """The step of the last sweep, with multipliers of the rows: a `Way`."""
    p = Memory(memory)
    s = Sweeping(p.sweeping)
    of_costs = s.slope
    if s.known != STEPPED:
        call_contraction(p.linear_step, p.horizon, p.u, p.x, p.y)
        of_costs = slope(p.lz, p.x, p.u, p.N, p.n, p.nu)
    longest, rise, p.longest_dual = 1.0, 0.0, 1.0
    if p.M > 0:
        longest, rise = stride_of_rows(p)
    return Way(-1, longest, rise + of_costs, abs(s.change))


@kernel
def swept(p, blend, mu, again):
    """Sweep, and return the step that it leads to; again: after another sweep at this point."""
    if not again:
        condense(p.address)
    failed = sweep(p.address, blend, mu, False)
    return stride(p.address) if failed < 0 else Way(failed, 1.0, 0.0, 0.0)


@apart(returns=float64)
def priced_openness(p):
    """Gaps and residuals times their multipliers, all as absolute numbers."""
    return priced(p.weights, p.opened, p.N * p.n) + priced_rows(p)


@kernel
def beyond(p):
    """The largest residual of a row, in its own units where these are larger."""
    return p.missed if p.M == 0 else most_beyond(p)
