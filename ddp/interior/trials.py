# mypy: allow-untyped-defs, allow-untyped-calls
"""Trials of steps: where a fraction of one leads, what that is worth, and how a point goes there."""

from typing import NamedTuple

import numpy as np
from numba import float64

from ddp.compiling.kernel import apart, call_contraction, kernel
from ddp.constraints.bound import VALUES
from ddp.constraints.bounds import move_within
from ddp.constraints.row_table import evaluate
from ddp.costs import cost_table
from ddp.interior import row_steps
from ddp.interior.barrier import KEPT
from ddp.interior.measures import absolute, approach, clear, copy, gauge, multiply, sizes, stay_off, sums, weights
from ddp.interior.memory import (
    EVALUATE,
    LANES,
    STRAY,
    TRACK,
    WEIGH,
    Memory,
    RowMemory,
    ask,
    constraints_of,
    factors_of,
    limits,
    row_arrays,
    rows_at,
    trajectory,
    trial,
    units_of,
)
from ddp.interior.passes import terms_of
from ddp.interior.scaling import sizes_of_gaps
from ddp.machine.addresses import array_at, integers_at
from ddp.machine.memory import floats_at
from ddp.machine.trajectories import Lengths
from ddp.sweeps.sweeping import STEPPED, Sweeping


class Worth(NamedTuple):
    """Numbers of a trial.

    cost: its own.   barrier: the barrier function.   theta: the 2-norm of all gaps and residuals.
    gap, missed: the largest gap and the largest residual.
    """

    cost: float
    barrier: float
    theta: float
    gap: float
    missed: float


@kernel
def along(memory, alpha, most):
    """Try a fraction alpha of the last step; most: see `weigh`."""
    p = Memory(memory)
    to_U, U, u = floats_at(p.tried_U), floats_at(p.U), floats_at(p.u)
    dX, x = floats_at(p.dX), floats_at(p.x)
    for i in range((p.N + 1) * p.n):
        dX[i] = alpha * x[i]
    for i in range(p.N * p.nu):
        to_U[i] = U[i] + alpha * u[i]
    if p.M > 0:
        advance(p, alpha)
    if p.boxed:
        keep_within(p)
    stray(p)
    return weigh(p, most)


@apart
def keep_within(p):
    """Move controls of a trial to their limits where they are beyond."""
    lower, upper = limits(p)
    move_within(trial(p)[1], lower, upper)


@apart
def advance(p, alpha):
    """Slacks and excesses of a trial, whose controls are known."""
    b, primal = rows_at(p.rows), trial(p)[2]
    for j in range(row_steps.BELOW):
        for i in range(p.M):
            primal[j, i] = b.state[j, i] + alpha * b.step[j, i]
    place_controls(p)


@kernel
def place_controls(p):
    """Slacks of limits of controls in a trial: these themselves."""
    b, first, nu, factors = rows_at(p.rows), p.first, p.nu, factors_of(p)
    _, to_U, primal, _, _ = trial(p)
    for t in range((p.M - first) // nu):
        for j in range(nu):
            i = first + t * nu + j
            primal[0, i] = factors[i] * to_U[t, j] if b.kind[i] == row_steps.BOUNDED else 0.0


@kernel
def stray(p):
    """States of a trial: where the step dX leads, and the gaps that its controls leave."""
    if p.in_python != 0:
        ask(p, STRAY)
    else:
        call_contraction(p.stray, p.context, p.straying, 0, 0)


@kernel
def rolled(p, alpha, most):
    """Try alpha of the last step with states that follow from controls, under the policy of its sweep.

    Where motion curves a lot gaps of linear steps are large; these leave but the rest 1 - alpha of each gap. Slacks
    go as far as along the step, whatever constraints do. Controls stay off limits with barriers, as steps do.
    Halves of alpha, which may be asked for next, are rolled out ahead, as they take no longer.
    """
    gaps, opened = trial(p)[3], trajectory(p)[2]
    if p.ahead == 0:
        lengths = Lengths(p.lengths)
        lengths.alphas[0] = alpha
        for k in range(1, LANES):
            lengths.alphas[k] = 0.5 * lengths.alphas[k - 1]
        leave_room(p)
        roll_out(p, LANES)
        p.ahead = LANES
    take_lane(p, LANES - p.ahead)
    p.ahead -= 1
    advance(p, alpha)
    for t in range(p.N):
        for i in range(p.n):
            gaps[t, i] = (1.0 - alpha) * opened[t, i]
    return weigh(p, most)


@kernel
def leave_room(p):
    """Limits that rollouts keep controls to: where these are rows, off the limits as far as steps stay."""
    lower, upper = limits(p)
    low, high = array_at(p.low, (p.N, p.nu)), array_at(p.high, (p.N, p.nu))
    stay_off(trajectory(p)[1], lower, upper, 0.0 if p.boxed else 1.0 - KEPT, low, high)


@kernel
def roll_out(p, count):
    """Roll out so many of the step lengths that are written, with states that follow from controls."""
    lengths = Lengths(p.lengths)
    lengths.count = count
    if p.in_python != 0:
        ask(p, TRACK)
    else:
        call_contraction(p.track, p.context, lengths.address, 0, 0)


@kernel
def take_lane(p, k):
    """Take the k-th of the rollouts as the trial."""
    copy(p.tried_X, p.lanes_X + 8 * k * (p.N + 1) * p.nx, (p.N + 1) * p.nx)
    copy(p.tried_U, p.lanes_U + 8 * k * p.N * p.nu, p.N * p.nu)


@kernel
def gauged(p, gaps):
    """Address of gaps (N n,) that are multiplied by their factors where any is not one; gaps: their own."""
    if p.gauging == 0:
        return gaps
    x, factors, out = floats_at(gaps), floats_at(p.gauge), floats_at(p.gauged)
    for i in range(p.N * p.n):
        out[i] = x[i] * factors[i]
    return p.gauged


@kernel
def weigh(p, most):
    """The `Worth` of a trial; infinite, whatever it costs, where the 2-norm of its gaps is larger than ``most``."""
    p.valued, opened = 0, sums(gauged(p, p.tried_gaps), p.N * p.n)
    if np.sqrt(opened[0]) > most:
        return Worth(np.inf, 0.0, np.inf, np.inf, np.inf)
    if p.in_python != 0:
        ask(p, WEIGH)
    else:
        X, U = array_at(p.tried_X, (p.N + 1, p.nx)), array_at(p.tried_U, (p.N, p.nu))
        notes = array_at(p.tried_X, (0, p.nx))
        p.tried_cost = cost_table.total(terms_of(p), X, U, notes, array_at(p.costs, (p.N + 1,)))
    if not abs(p.tried_cost) < np.inf:  # constraints are not asked where there is no motion
        return Worth(np.inf, 0.0, np.inf, np.inf, np.inf)
    barrier = weigh_rows(p) if p.M > 0 else 0.0
    theta, gap, missed = sizes(opened, p.tried_residual, p.M)
    if not theta < np.inf:
        return Worth(np.inf, barrier, np.inf, gap, missed)
    return Worth(p.tried_cost, barrier, theta, gap, missed)


@apart(returns=float64)
def weigh_rows(p):
    """Residuals of the rows in a trial, and its barrier function."""
    to_X, to_U, primal, _, residual = trial(p)
    b, c = rows_at(p.rows), array_at(p.values, (p.M,))
    if p.in_python == 0:
        evaluate_rows(p, to_X, to_U)
    if p.scaled != 0:
        multiply(c, factors_of(p))
    return row_steps.evaluate(c, primal, b.bounds, b.kind, b.plain, b.give, p.barrier, residual, True)


@kernel
def evaluate_rows(p, X, U):
    """``values`` (M,) := those of the rows: of limits, the controls."""
    c = array_at(p.values, (p.M,))
    if p.first > 0:
        evaluate(constraints_of(p), VALUES, 0, p.N + 1, X, U, c, c, array_at(p.values, (0, 0, 0)))
    copy(p.values + 8 * p.first, U.ctypes.data, p.M - p.first)


@kernel
def take(p, found):
    """Make a trial the point, with what it is worth."""
    copy(p.X, p.tried_X, (p.N + 1) * p.nx)
    copy(p.U, p.tried_U, p.N * p.nu)
    copy(p.opened, p.tried_gaps, p.N * p.n)
    copy(p.residual, p.tried_residual, p.M)
    copy(RowMemory(p.rows).state, p.tried_primal, row_steps.BELOW * p.M)
    p.cost, p.penalty, p.theta, p.gap, p.missed = found.cost, found.barrier, found.theta, found.gap, found.missed
    p.contracted, p.valued = 0, 1 if found.cost < np.inf else 0


@kernel
def accept(memory, found, alpha):
    """Go to a trial: all multipliers go where the states have gone, by alpha, those of bounds by the longest step."""
    p = Memory(memory)
    take(p, found)
    find_multipliers(p)
    if p.M > 0:
        move_rows(p, alpha)
    approach(alpha, p.costate, p.to_costate, (p.N + 1) * p.n)
    approach(alpha, p.weights, p.to_weights, p.N * p.n)


@apart
def move_rows(p, alpha):
    """Move multipliers of the rows."""
    b = rows_at(p.rows)
    row_steps.move(b.state, b.bounds, b.kind, b.plain, b.give, p.barrier, b.step, alpha, p.longest_dual)


@kernel
def find_multipliers(p):
    """Multipliers of the dynamics where the last step leads, unless they were found with that."""
    if Sweeping(p.sweeping).known != STEPPED:
        call_contraction(p.multipliers, p.address, 1, p.to_costate, p.to_weights)


@kernel
def begin(memory):
    """Go to the states of the point with controls, slacks and excesses of the trial: where a solve begins."""
    p = Memory(memory)
    p.gauging = 1 if gauge(units_of(p), array_at(p.gauge, (p.N, p.n))) else 0
    clear(floats_at(p.dX), (p.N + 1) * p.n)
    stray(p)
    take(p, weigh(p, np.inf))


@kernel
def measure(memory):
    """Measure gaps of a point whose derivatives are known, where it has no constraints and is flat.

    With rows, which gaps are added to, both are measured by `scaling.units_of`; units of manifolds are known.
    """
    p = Memory(memory)
    if p.first == 0 and p.nx == p.n:
        measure_freely(p)


@apart
def measure_freely(p):
    """Measure gaps by sizes of states, see `scaling.sizes_of_gaps`."""
    N, n, nz, (X, U, _, _), (lower, upper) = p.N, p.n, p.n + p.nu, trajectory(p), limits(p)
    H, diagonal = array_at(p.lzz, (N + 1, nz, nz)), array_at(p.diagonal, (N + 1, nz))
    cheap = weights(integers_at(p.costs_separable, (N + 1,)), diagonal, H, n)
    A, B, l = array_at(p.A, (N, n, n)), array_at(p.B, (N, n, p.nu)), array_at(p.l, (N + 1,))
    size = sizes_of_gaps(l, cheap, lower, upper, A, B, X, U, p.boxed != 0)
    p.gauging = 1 if gauge(size, array_at(p.gauge, (N, n))) else 0
    p.theta, p.gap, p.missed = sizes(sums(gauged(p, p.opened), p.N * p.n), p.residual, p.M)


@kernel
def values_at(memory):
    """``values`` (M,) := those of the point's rows, unless they are known."""
    p = Memory(memory)
    if p.valued != 0:
        return
    X, U, _, _ = trajectory(p)
    if p.in_python != 0:
        ask(p, EVALUATE)
    else:
        evaluate_rows(p, X, U)
    if p.scaled != 0:
        multiply(array_at(p.values, (p.M,)), factors_of(p))
    p.valued = 1


@kernel
def widest(p):
    """The largest component of a gap of the point, in its own units."""
    return p.gap if p.gauging == 0 else absolute(p.opened, p.N * p.n)[0]


@kernel
def violated(p):
    """Largest excess of the point over bounds of constraints that are not soft, in each row's own units."""
    return most_violated(p) if p.first > 0 else 0.0


@apart(returns=float64)
def most_violated(p):
    """`violated` where there are constraints."""
    values_at(p.address)
    r, c, most = RowMemory(p.given), array_at(p.values, (p.M,)), 0.0
    b, hard, factors = row_arrays(r), integers_at(r.hard, (p.M,)), factors_of(p)
    for i in range(p.first):
        beyond = max(c[i] - b.bounds[1, i], b.bounds[0, i] - c[i])
        if beyond > 0.0 and (hard[i] != 0 or not row_steps.gives(b.give, i)):
            most = max(most, beyond / factors[i])
    return most


@kernel
def settle(memory):
    """Find what the point misses of rows that are bounded otherwise now."""
    p = Memory(memory)
    values_at(memory)
    residual, b, c = trajectory(p)[3], rows_at(p.rows), array_at(p.values, (p.M,))
    p.penalty = 0.0
    if p.M > 0:
        p.penalty = row_steps.evaluate(c, b.state[:3], b.bounds, b.kind, b.plain, b.give, p.barrier, residual, True)
    p.theta, p.gap, p.missed = sizes(sums(gauged(p, p.opened), p.N * p.n), p.residual, p.M)
    if not p.theta < np.inf:
        p.cost, p.theta = np.inf, np.inf


@kernel
def penalised(p):
    """The barrier function at a point."""
    return 0.0 if p.M == 0 else penalty_of_rows(p)


@apart(returns=float64)
def penalty_of_rows(p):
    """`penalised` where there are rows."""
    b, residual = rows_at(p.rows), trial(p)[4]
    return row_steps.evaluate(residual, b.state[:3], b.bounds, b.kind, b.plain, b.give, p.barrier, residual, False)
