# mypy: allow-untyped-defs, allow-untyped-calls
"""Parts of passes.py that are about rows, or limits of controls: compiled where a problem has any.

p: a `Memory` of M > 0 rows, or with limits that sweeps keep to.
"""

from numba import float64
from numba.types import UniTuple

from ddp.compiling.kernel import apart, call_contraction
from ddp.constraints.bound import CURVATURE, JACOBIAN
from ddp.constraints.bounds import measure_room
from ddp.constraints.row_table import add_forces, along, evaluate, scale
from ddp.interior import row_steps
from ddp.interior.barrier import KEPT, proximal
from ddp.interior.measures import copy, let_limits_hold, multiply, priced, put
from ddp.interior.memory import (
    Memory,
    RowMemory,
    arrays,
    constraints_of,
    factors_of,
    limits,
    row_arrays,
    rows_at,
    table_of,
    trajectory,
)
from ddp.machine.addresses import array_at, integers_at
from ddp.machine.memory import address_of, floats_at
from ddp.sweeps.horizon import Horizon


@apart
def differentiate_rows(p):
    """Jacobians of the rows at the point."""
    J, (X, U, _, _) = array_at(p.J, (p.entries,)), trajectory(p)
    if p.first > 0 and p.in_python == 0:
        evaluate(constraints_of(p), JACOBIAN, 0, p.N + 1, X, U, J, J, array_at(p.J, (0, 0, 0)))
    if p.scaled != 0:
        J[p.entries - (p.M - p.first) :] = 1.0  # of limits, which are last
        scale(table_of(p), J, factors_of(p))


@apart
def pull(p, forces):
    """The swept gradient := that of the costs + Jᵀ forces, of rows (M,) at an address."""
    a = arrays(p)
    copy(p.to_lz, p.lz, (p.N + 1) * (p.n + p.nu))
    add_forces(a.table, a.J, array_at(forces, (p.M,)), a.to_lz)


@apart
def pull_by_rows(p):
    """`pull` with the multipliers of the rows, which are written."""
    r = RowMemory(p.rows)
    b = row_arrays(r)
    row_steps.multipliers(b.state, b.kind, b.give, b.y)
    pull(p, r.y)


@apart
def judge_rows(p):
    """Errors of the rows."""
    b, e = rows_at(p.rows), floats_at(p.errors)
    e[2], e[3], e[4], e[5], e[6] = row_steps.errors(b.state, b.bounds, b.kind, b.plain, b.give)


@apart
def free_of_limits(p):
    """Take what limits hold out of the Lagrangian's gradient: it is no error."""
    lower, upper = limits(p)
    let_limits_hold(arrays(p).error, trajectory(p)[1], lower, upper)


@apart
def condense_rows(p):
    """Weights and forces of the rows, and the gradient that is swept."""
    r, residual = RowMemory(p.rows), array_at(p.residual, (p.M,))
    b = row_arrays(r)
    row_steps.condense(b.state, b.bounds, b.kind, b.plain, b.give, p.barrier, proximal(p), residual, b.w, b.f)
    pull(p, r.f)


@apart
def curve_rows(p):
    """Multipliers by which the rows are weighed, and exact Hessians with the curvature of these."""
    y, nz, (X, U, _, _) = array_at(p.weighing, (p.M,)), p.n + p.nu, trajectory(p)
    put(y, rows_at(p.rows).y)
    if p.scaled != 0:
        multiply(y, factors_of(p))
    if p.first > 0:
        evaluate(constraints_of(p), CURVATURE, 0, p.N + 1, X, U, y, y, array_at(p.to_exact, (p.N + 1, nz, nz)))


@apart
def sweep_within(p):
    """Sweep within limits of controls."""
    (lower, upper), h, shape = limits(p), Horizon(p.horizon), (p.N, p.nu)
    low, high = array_at(address_of(h.low), shape), array_at(address_of(h.high), shape)
    measure_room(trajectory(p)[1], lower, upper, low, high)
    call_contraction(p.within, p.sweeping, p.scratch, 0, 0)


@apart(returns=UniTuple(float64, 2))
def stride_of_rows(p):
    """Step of the slacks and multipliers of the rows: how far it may go, and the slope of the barrier along it."""
    a, b, residual = arrays(p), rows_at(p.rows), array_at(p.residual, (p.M,))
    along(a.table, a.J, a.x, a.u, a.moved)
    keep = max(KEPT, 1.0 - p.barrier / p.scale)
    longest, p.longest_dual, rise = row_steps.steps(
        b.state, b.bounds, b.kind, b.plain, b.give, p.barrier, residual, b.w, b.f, a.moved, keep, b.step
    )
    return longest, rise


@apart(returns=float64)
def priced_rows(p):
    """Residuals of rows times their multipliers, as absolute numbers."""
    return priced(RowMemory(p.rows).y, p.residual, p.M)


@apart(returns=float64)
def most_beyond(p):
    """`beyond` where there are rows."""
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
