# mypy: allow-untyped-defs, allow-untyped-calls
"""Whole iterations of the full-space step, compiled: parts.py on the `Memory` of a `Point`.

Methods of `Point` serve where dynamics, costs or constraints are not compiled; both call the passes of passes.py.
"""

from __future__ import annotations

import numpy as np

from ddp.compiling.kernel import by_types, call_contraction, kernel
from ddp.constraints.bounds import measure_room, move_within
from ddp.interior import parts, passes, row_steps
from ddp.interior.barrier import KEPT, proximal
from ddp.interior.course import Course
from ddp.interior.filter import ENTRIES
from ddp.interior.iteration import STOPPED, TOOK, iterate
from ddp.interior.measures import absolute, copy, let_limits_hold, priced, stay_off
from ddp.interior.memory import ERRORS, LANES, NUMBERS, Memory, RowMemory, arrays, row_arrays
from ddp.interior.parts import Way, Worth
from ddp.interior.trials import Judged
from ddp.machine.addresses import array_at, integers_at
from ddp.machine.memory import address_of
from ddp.machine.trajectories import Lengths
from ddp.machine.variables import struct_like
from ddp.sweeps.horizon import Horizon
from ddp.sweeps.sweeping import Sweeping, recur

Decisions = struct_like("Decisions", __name__, Course(0.0, 0, False, [0.0] * ENTRIES, [0.0] * ENTRIES))  # type: ignore[arg-type]
"""`Course` of a solve."""


@kernel
def run(decisions, memory, most):
    """Make up to ``most`` iterations, as `iteration.iterate` does; what the last came to, how many have a record."""
    s, p = Decisions(decisions), Memory(memory)
    made, came = 0, TOOK
    while came == TOOK and made < most:
        came = iterate(s, p)
        if came in (TOOK, STOPPED):
            report(s, p, array_at(p.numbers, (most, NUMBERS))[made])
            made += 1
    return came, made


@kernel
def report(s, p, out):
    """Write the numbers of an iteration's `Record`, and when the barrier fell."""
    out[0], out[1], out[2], out[3], out[4] = p.cost, s.dual, s.expected, s.alpha, s.shift
    out[5], out[6], out[7], out[8], out[9] = s.blend, p.gap, p.missed, p.barrier, float(s.fell)


@kernel
def trajectory(p):
    """X, U, gaps and residual of a point."""
    N = p.N
    states, controls = array_at(p.X, (N + 1, p.nx)), array_at(p.U, (N, p.nu))
    return states, controls, array_at(p.opened, (N, p.n)), array_at(p.residual, (p.M,))


@kernel
def trial(p):
    """X, U, slacks and excesses, gaps and residual of a trial."""
    N, M = p.N, p.M
    states, controls = array_at(p.tried_X, (N + 1, p.nx)), array_at(p.tried_U, (N, p.nu))
    return (
        states, controls, array_at(p.tried_primal, (3, M)), array_at(p.tried_gaps, (N, p.n)),
        array_at(p.tried_residual, (M,)),
    )  # fmt: skip


@kernel
def limits(p):
    """Lower and upper limits of controls."""
    shape = p.N, p.nu
    return array_at(p.lower, shape), array_at(p.upper, shape)


@kernel
def keep(p, found):
    """Keep the errors of a point; where sweeps keep to limits of controls, without what those hold."""
    e, (dual, costates, others) = array_at(p.errors, (ERRORS,)), found
    if p.boxed:
        lower, upper = limits(p)
        error = arrays(p).error
        let_limits_hold(error, trajectory(p)[1], lower, upper)
        dual = absolute(error)[0]
    e[0], e[1] = dual, costates
    e[2], e[3], e[4], e[5], e[6] = others


@kernel
def judge(p):
    """Find the errors of a point whose derivatives are known."""
    keep(p, passes.judge(p.address, p.rows))


@kernel
def arrive(p):
    """Compute derivatives where a step has led, and the errors there."""
    X, U, gaps, _ = trajectory(p)
    p.horizon = p.torn_horizon if p.gap > 0.0 else p.whole_horizon
    Sweeping(p.sweeping).horizon = p.horizon
    keep(p, passes.arrive(p.address, p.rows, X, U, gaps))


@kernel
def judged(p):
    """The errors of a point."""
    e = array_at(p.errors, (ERRORS,))
    return Judged(e[0], e[1], e[2], e[3], e[4], e[5], e[6])


@kernel
def swept(p, blend, mu, again):
    """Sweep, and return the step that it leads to."""
    knots = p.N + 1
    dense, separable = integers_at(p.dense, (knots,)), integers_at(p.separable, (knots,))
    costs, m, delta = integers_at(p.costs_separable, (knots,)), p.barrier, proximal(p)
    X, U, _, residual = trajectory(p)
    if not again:
        passes.condense(p.address, p.rows, m, delta, residual, X, U, dense, separable, costs)
        p.whole = 0
    if blend < 1.0 and p.whole == 0 and p.any_dense != 0:
        passes.fill(p.address, p.rows, False, dense, separable, costs)
        p.whole = 1
    s = Sweeping(p.sweeping)
    s.blend, s.mu = blend, mu
    if p.boxed:
        lower, upper = limits(p)
        h, shape = Horizon(p.horizon), (p.N, p.nu)
        measure_room(U, lower, upper, array_at(address_of(h.low), shape), array_at(address_of(h.high), shape))
        call_contraction(p.within, p.sweeping, p.scratch, 0, 0)
    else:
        recur(p.sweeping)
    if s.failed >= 0:
        return Way(s.failed, 1.0, 0.0, 0.0)
    longest, dual, slope = passes.stride(p.address, p.rows, m, max(KEPT, 1.0 - m / p.scale), residual)
    p.longest_dual = dual
    return Way(-1, longest, slope, abs(s.change))


@kernel
def priced_openness(p):
    """Gaps and residuals times their multipliers."""
    flat = (p.N * p.n,)
    return priced(array_at(p.weights, flat), array_at(p.opened, flat)) + priced_rows(p)


@kernel
def priced_rows(p):
    """Residuals of rows times their multipliers."""
    return priced(row_arrays(RowMemory(p.rows)).y, array_at(p.residual, (p.M,)))


@kernel
def weighed(cost, barrier, sizes):
    """The `Worth` of a trial."""
    theta, gap, missed = sizes
    if not theta < np.inf:
        return Worth(np.inf, barrier, np.inf, gap, missed)
    return Worth(cost, barrier, theta, gap, missed)


@kernel
def along(p, alpha):
    """Try a fraction alpha of the last step."""
    X, U, _, _ = trajectory(p)
    to_X, to_U, primal, gaps, residual = trial(p)
    passes.advance(p.address, p.rows, alpha, p.first, U, to_U, primal, True)
    if p.boxed:
        lower, upper = limits(p)
        move_within(to_U, lower, upper)
    passes.stray(p.address, X, to_U, to_X, gaps)
    cost, barrier, sizes = passes.weigh(p.address, p.rows, p.barrier, to_X, to_U, gaps, primal, residual)
    return weighed(cost, barrier, sizes)


@kernel
def rolled(p, alpha):
    """Try a fraction alpha of the last step whose states follow from controls, of those rolled out ahead."""
    N = p.N
    to_X, to_U, primal, gaps, residual = trial(p)
    _, U, opened, _ = trajectory(p)
    if p.ahead == 0:
        lengths, shape = Lengths(p.lengths), (N, p.nu)
        lower, upper = limits(p)
        stay_off(U, lower, upper, 0.0 if p.boxed else 1.0 - KEPT, array_at(p.low, shape), array_at(p.high, shape))
        lengths.alphas[0] = alpha
        for k in range(1, LANES):
            lengths.alphas[k] = 0.5 * lengths.alphas[k - 1]
        lengths.count = LANES
        call_contraction(p.track, p.context, lengths.address, 0, 0)
        p.ahead = LANES
    k = LANES - p.ahead
    p.ahead -= 1
    copy(to_X, array_at(p.lanes_X, (LANES, N + 1, p.nx))[k])
    copy(to_U, array_at(p.lanes_U, (LANES, N, p.nu))[k])
    passes.advance(p.address, p.rows, alpha, p.first, to_U, to_U, primal, False)
    for t in range(N):
        for i in range(p.n):
            gaps[t, i] = (1.0 - alpha) * opened[t, i]
    cost, barrier, sizes = passes.weigh(p.address, p.rows, p.barrier, to_X, to_U, gaps, primal, residual)
    return weighed(cost, barrier, sizes)


@kernel
def accept(p, found, alpha):
    """Go to the trial, with all multipliers."""
    X, U, gaps, residual = trajectory(p)
    to_X, to_U, primal, to_gaps, to_residual = trial(p)
    copy(X, to_X)
    copy(U, to_U)
    copy(gaps, to_gaps)
    for i in range(p.M):
        residual[i] = to_residual[i]
    copy(row_arrays(RowMemory(p.rows)).state[:3], primal)
    p.cost, p.penalty, p.theta, p.gap, p.missed = found.cost, found.barrier, found.theta, found.gap, found.missed
    s = Sweeping(p.sweeping)
    passes.follow(p.address, p.rows, p.barrier, alpha, p.longest_dual, s.blend, s.mu)


@kernel
def penalised(p):
    """The barrier function at a point."""
    b, c = row_arrays(RowMemory(p.rows)), array_at(p.values, (p.M,))
    return row_steps.evaluate(c, b.state[:3], b.bounds, b.kind, b.give, p.barrier, c, False)


@kernel
def left_open(p):
    """The largest residual of an equality that the proximal method leaves open after a full step."""
    if p.equalities == 0:
        return 0.0
    b = row_arrays(RowMemory(p.rows))
    return proximal(p) * row_steps.largest_step(b.step, b.kind)


@kernel
def violation(p):
    """Violations of elastic rows, of which there are none: such iterations are left to Python."""
    return 0.0, 0.0


by_types(parts.judge)(lambda *types: judge)
by_types(parts.arrive)(lambda *types: arrive)
by_types(parts.judged)(lambda *types: judged)
by_types(parts.swept)(lambda *types: swept)
by_types(parts.priced_openness)(lambda *types: priced_openness)
by_types(parts.priced_rows)(lambda *types: priced_rows)
by_types(parts.along)(lambda *types: along)
by_types(parts.rolled)(lambda *types: rolled)
by_types(parts.accept)(lambda *types: accept)
by_types(parts.penalised)(lambda *types: penalised)
by_types(parts.left_open)(lambda *types: left_open)
by_types(parts.violation)(lambda *types: violation)
