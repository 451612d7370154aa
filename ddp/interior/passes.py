# mypy: allow-untyped-defs, allow-untyped-calls
"""Passes over the horizon and all rows at a point: its derivatives and errors, its sweeps and their steps.

    differentiate, contract   derivatives of both orders     judge   errors of the point
    condense, sweep           what rows weigh, eliminated    stride  the step of a sweep

memory: address of a `Memory`. What is not compiled Python is asked for, see parts_in_python.py.
"""

from typing import NamedTuple

import numpy as np
from numba import float64
from numba.types import UniTuple

from ddp.compiling.kernel import apart, call_contraction, kernel
from ddp.constraints.bound import CURVATURE, JACOBIAN
from ddp.constraints.bounds import measure_room
from ddp.constraints.row_table import add_forces, along, evaluate, scale
from ddp.costs import cost_table
from ddp.costs.bound import EXACT, GAUSS_NEWTON
from ddp.interior import row_steps
from ddp.interior.barrier import KEPT, proximal
from ddp.interior.linear import bend
from ddp.interior.measures import (
    absolute,
    absolute_in_units,
    copy,
    in_units,
    let_limits_hold,
    multiply,
    priced,
    put,
    slope,
)
from ddp.interior.memory import (
    CONTRACT,
    CURVE,
    DIFFERENTIATE,
    ERRORS,
    Memory,
    RowMemory,
    arrays,
    ask,
    constraints_of,
    factors_of,
    limits,
    rows_at,
    trajectory,
    units_of,
)
from ddp.interior.swept_hessians import complete, fill, shift
from ddp.machine.addresses import array_at, integers_at
from ddp.machine.memory import address_of
from ddp.sweeps.horizon import Horizon
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
    X, U, _, _ = trajectory(p)
    if p.in_python != 0:
        ask(p, DIFFERENTIATE)
    else:
        call_contraction(p.expand, p.context, p.trajectory, 1, p.completes)
        N, nz, J = p.N, p.n + p.nu, array_at(p.J, (p.entries,))
        terms, record = terms_of(p), array_at(p.record, (N, p.records))
        l, lz = array_at(p.l, (N + 1,)), array_at(p.lz, (N + 1, nz))
        lzz, exact = array_at(p.lzz, (N + 1, nz, nz)), array_at(p.exact, (N + 1, nz, nz))
        runs, diagonal = integers_at(p.runs, (p.run_count, 3)), array_at(p.diagonal, (N + 1, nz))
        cost_table.expand(terms, GAUSS_NEWTON, runs, 0, N + 1, X, U, record, l, lz, lzz, diagonal, False)
        cost_table.expand(terms, EXACT, runs, 0, N + 1, X, U, record, l, lz, exact, diagonal, True)
        if p.first > 0:
            evaluate(constraints_of(p), JACOBIAN, 0, N + 1, X, U, J, J, array_at(p.J, (0, 0, 0)))
    if p.scaled != 0:
        J = array_at(p.J, (p.entries,))
        J[p.entries - (p.M - p.first) :] = 1.0  # of limits, which are last
        scale(arrays(p).table, J, factors_of(p))
    copy(p.gaps, p.opened, p.N * p.n)
    p.horizon = p.torn_horizon if is_open(p) else p.whole_horizon
    Sweeping(p.sweeping).horizon = p.horizon
    p.contracted, p.judged = 0, 0


@kernel
def is_open(p):
    """Whether gaps are more than rounding of the largest number of a state, as gaps are measured."""
    if p.first > 0 or not p.gap > 0.0:
        return p.gap > 0.0
    closed = ROUNDING * absolute(array_at(p.X, ((p.N + 1) * p.nx,)))[0]
    if p.gauging == 0:
        return p.gap > closed
    factors = array_at(p.gauge, (p.n,))
    if p.gap > closed * absolute(factors)[0]:  # which no coordinate exceeds, and registers find
        return True
    return p.gap > ROUNDING * absolute_in_units(array_at(p.X, (p.N + 1, p.nx)), factors)[0]


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
    bend(p.horizon, arrays(p).weights)
    if p.in_python != 0:
        ask(p, CONTRACT)
    else:
        call_contraction(p.contract, p.context, p.trajectory, 0, 0)
    p.contracted, Sweeping(p.sweeping).known = 1, 0


@kernel
def pull(p, forces):
    """The swept gradient := that of the costs + Jᵀ forces (M,), where there are rows."""
    if p.M == 0:
        return
    a = arrays(p)
    copy(p.to_lz, p.lz, (p.N + 1) * (p.n + p.nu))
    add_forces(a.table, a.J, forces, a.to_lz)


@kernel
def pull_by_rows(p, b):
    """`pull` with the multipliers of the rows, which are written."""
    if p.M > 0:
        row_steps.multipliers(b.state, b.kind, b.give, b.y)
        pull(p, b.y)


@kernel
def judge(memory):
    """Errors of a point whose derivatives are known, with multipliers of the rows, which are written."""
    p = Memory(memory)
    contract(memory)
    a, b, e = arrays(p), rows_at(p.rows), array_at(p.errors, (ERRORS,))
    pull_by_rows(p, b)
    call_contraction(p.stationarity, memory, 0, 0, 0)
    if p.boxed:  # what limits hold is no error
        lower, upper = limits(p)
        let_limits_hold(a.error, trajectory(p)[1], lower, upper)
    if p.foreign != 0:
        in_units(a.error, units_of(p))
    e[0] = absolute(array_at(p.error, ((p.N + 1) * (p.n + p.nu),)))[0]
    e[1] = costates(p)[1]
    e[2], e[3], e[4], e[5], e[6] = np.inf, -np.inf, 0.0, 0.0, 0.0
    if p.M > 0:
        e[2], e[3], e[4], e[5], e[6] = row_steps.errors(b.state, b.bounds, b.kind, b.plain, b.give)
    p.judged = 1


@kernel
def costates(p):
    """The largest of the |costates|, and their sum."""
    if p.foreign != 0:
        return absolute_in_units(arrays(p).costate, units_of(p))
    return absolute(array_at(p.costate, ((p.N + 1) * p.n,)))


@kernel
def arrive(memory):
    """Derivatives where a step has led, and the errors there."""
    differentiate(memory)
    judge(memory)


@kernel
def judged(p):
    """The errors of a point."""
    e = array_at(p.errors, (ERRORS,))
    return Judged(e[0], e[1], e[2], e[3], e[4], e[5], e[6])


@kernel
def adjoint(memory, follows):
    """Multipliers of the dynamics := the costates of the point, or those under the sweep's gains if it ``follows``."""
    p = Memory(memory)
    a = arrays(p)
    pull_by_rows(p, rows_at(p.rows))
    bend(p.horizon, a.weights)
    for numbers in (a.x, a.u, a.y):
        numbers[:] = 0.0
    s = Sweeping(p.sweeping)
    s.blend, s.mu = 0.0, 0.0  # no Hessian counts
    call_contraction(p.multipliers, memory, follows, p.costate, p.weights)
    p.contracted = 0


@kernel
def begin(memory):
    """Derivatives where a solve begins, and first multipliers of the dynamics: zeros."""
    differentiate(memory)
    a = arrays(Memory(memory))
    a.costate[:] = 0.0
    a.weights[:] = 0.0


@kernel
def find_limit_forces(memory):
    """``error`` := the Lagrangian's gradient without multipliers of control limits."""
    p = Memory(memory)
    b = rows_at(p.rows)
    row_steps.multipliers(b.state, b.kind, b.give, b.y)
    b.y[p.first :] = 0.0
    pull(p, b.y)
    call_contraction(p.stationarity, memory, 0, 0, 0)


@kernel
def condense(memory):
    """Weights and forces of the rows, and what is swept: the gradient, exact Hessians, the curvature of the rows."""
    p = Memory(memory)
    b, nz = rows_at(p.rows), p.n + p.nu
    X, U, _, residual = trajectory(p)
    if p.M > 0:
        row_steps.condense(b.state, b.bounds, b.kind, b.plain, b.give, p.barrier, proximal(p), residual, b.w, b.f)
        pull(p, b.f)
    fill(p, True)
    y = array_at(p.weighing, (p.M,))
    put(y, b.y)
    if p.scaled != 0:
        multiply(y, factors_of(p))
    if p.first > 0:
        evaluate(constraints_of(p), CURVATURE, 0, p.N + 1, X, U, y, y, array_at(p.to_exact, (p.N + 1, nz, nz)))
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
        lower, upper = limits(p)
        h, shape = Horizon(p.horizon), (p.N, p.nu)
        low, high = array_at(address_of(h.low), shape), array_at(address_of(h.high), shape)
        measure_room(trajectory(p)[1], lower, upper, low, high)
        call_contraction(p.within, p.sweeping, p.scratch, 0, 0)
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
    a, b, residual, s = arrays(p), rows_at(p.rows), trajectory(p)[3], Sweeping(p.sweeping)
    of_costs = s.slope
    if s.known != STEPPED:
        call_contraction(p.linear_step, p.horizon, p.u, p.x, p.y)
        of_costs = slope(a.lz, a.x, a.u)
    longest, dual, rise = 1.0, 1.0, 0.0
    if p.M > 0:
        along(a.table, a.J, a.x, a.u, a.moved)
        keep = max(KEPT, 1.0 - p.barrier / p.scale)
        longest, dual, rise = row_steps.steps(
            b.state, b.bounds, b.kind, b.plain, b.give, p.barrier, residual, b.w, b.f, a.moved, keep, b.step
        )
    p.longest_dual = dual
    return Way(-1, longest, rise + of_costs, abs(s.change))


@kernel
def swept(p, blend, mu, again):
    """Sweep, and return the step that it leads to; again: after another sweep at this point."""
    if not again:
        condense(p.address)
    failed = sweep(p.address, blend, mu, False)
    return stride(p.address) if failed < 0 else Way(failed, 1.0, 0.0, 0.0)


@kernel
def priced_openness(p):
    """Gaps and residuals times their multipliers, all as absolute numbers."""
    flat = (p.N * p.n,)
    return priced(array_at(p.weights, flat), array_at(p.opened, flat)) + priced_rows(p)


@kernel
def priced_rows(p):
    """Residuals of rows times their multipliers, as absolute numbers."""
    return priced(rows_at(p.rows).y, array_at(p.residual, (p.M,)))


@kernel
def beyond(p):
    """The largest residual of a row, in its own units where these are larger."""
    most, residual, factors = p.missed, array_at(p.residual, (p.M,)), factors_of(p)
    for i in range(p.M):
        most = max(most, abs(residual[i]) / max(factors[i], row_steps.HUGE))
    return most


@apart(returns=float64)
def left_open(p):
    """The largest residual of an equality that the proximal method leaves open after a full step."""
    b, largest = rows_at(p.rows), 0.0
    for i in range(p.M):
        if b.kind[i] == row_steps.EQUAL:
            largest = max(largest, abs(b.step[row_steps.NU, i]))
    return proximal(p) * largest


@apart(returns=UniTuple(float64, 2))
def violation(memory):
    """Excess over bounds of elastic rows that would not have to give way: the largest, and the sum."""
    p = Memory(memory)
    b, hard = rows_at(p.rows), integers_at(RowMemory(p.rows).hard, (p.M,))
    return row_steps.violation(b.state, b.bounds, b.kind, hard, factors_of(p))
