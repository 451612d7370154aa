# mypy: allow-untyped-defs, allow-untyped-calls
"""An iteration's passes over the horizon and all rows: what point.py and compiled.py call.

    judge      errors of the point                        condense   what rows weigh, eliminated
    stride     the step of a sweep                        advance    a fraction of the step
    weigh      what a trial is worth                      follow     multipliers, where the states have gone

Where all is compiled, `arrive` makes derivatives before it judges, and `stray` finds gaps.

memory, rows: addresses of a `Memory` and a `RowMemory`.   m, delta: see row_steps.py.   X (N+1, nx), U (N, nu).
residual (M,), primal (3, M): of the rows.
"""

from __future__ import annotations

import numpy as np

from ddp.compiling.kernel import call_contraction, kernel
from ddp.constraints.bound import CURVATURE, JACOBIAN, VALUES
from ddp.constraints.row_table import add_forces, add_squares, along, evaluate
from ddp.costs import cost_table
from ddp.costs.bound import GAUSS_NEWTON
from ddp.interior import row_steps
from ddp.interior.linear import bend, multipliers, stationarity
from ddp.interior.measures import absolute, approach, copy, sizes, slope, spread
from ddp.interior.memory import Memory, RowMemory, arrays, row_arrays
from ddp.machine.addresses import address_of_words, array_at, integers_at


@kernel
def arrive(memory, rows, X, U, gaps):
    """Derivatives at X, U, where gaps (N, n) are open, contracted with the multipliers; and `judge`."""
    p = Memory(memory)
    a = arrays(p)
    x, u = cost_table.place(X), cost_table.place(U)
    trajectory = address_of_words((
        p.N, p.nx, p.n, p.nu, p.records, x, u, p.A, p.B, p.record, cost_table.place(a.weights), p.T, p.T_size
    ))  # fmt: skip
    call_contraction(p.expand, p.context, trajectory, 1, p.completes)
    differentiate(p, X, U)
    evaluate(a.table, JACOBIAN, 0, p.N + 1, X, U, a.J, a.J, array_at(p.J, (0, 0, 0)))
    copy(array_at(p.gaps, (p.N, p.n)), gaps)
    bend(p.horizon, a.weights)
    call_contraction(p.contract, p.context, trajectory, 0, 0)
    return judge(memory, rows)


@kernel
def differentiate(p, X, U):
    """Costs, their gradients and Hessians of both kinds."""
    N, nz = p.N, p.n + p.nu
    terms, record = terms_of(p), array_at(p.record, (N, p.records))
    l, lz = array_at(p.l, (N + 1,)), array_at(p.lz, (N + 1, nz))
    lzz, exact = array_at(p.lzz, (N + 1, nz, nz)), array_at(p.exact, (N + 1, nz, nz))
    runs, diagonal = integers_at(p.runs, (p.run_count, 3)), array_at(p.diagonal, (N + 1, nz))
    cost_table.expand(terms, GAUSS_NEWTON, runs, 0, N + 1, X, U, record, l, lz, lzz, diagonal)
    cost_table.expand_exact(terms, runs, 0, N + 1, X, U, record, exact)


@kernel
def terms_of(p):
    """The table of costs of a `Memory`."""
    return integers_at(p.terms, (p.term_count, 5))


@kernel
def pull(memory, forces):
    """The swept gradient := that of the costs + Jᵀ forces (M,)."""
    a = arrays(Memory(memory))
    copy(a.to_lz, a.lz)
    add_forces(a.table, a.J, forces, a.to_lz)


@kernel
def judge(memory, rows):
    """``error`` := the Lagrangian's gradient, with multipliers of the rows, which are written.

    Returns the largest number of it, the sum of |costate|, and `row_steps.errors`.
    """
    p, b = Memory(memory), row_arrays(RowMemory(rows))
    a = arrays(p)
    row_steps.multipliers(b.state, b.kind, b.give, b.y)
    pull(memory, b.y)
    stationarity(p.horizon, a.to_lz, a.costate, a.weights, a.error)
    return absolute(a.error)[0], absolute(a.costate)[1], row_steps.errors(b.state, b.bounds, b.kind, b.give)


@kernel
def condense(memory, rows, m, delta, residual, X, U, dense, separable, costs):
    """Weights and forces of the rows, and what is swept: the gradient, `fill`, the curvature of the rows.

    dense, separable, costs (N+1,): where Hessians are, and are not, and where those of costs are diagonals.
    """
    p, b = Memory(memory), row_arrays(RowMemory(rows))
    nz = p.n + p.nu
    row_steps.condense(b.state, b.bounds, b.kind, b.give, m, delta, residual, b.w, b.f)
    pull(memory, b.f)
    fill(memory, rows, True, dense, separable, costs)
    a, out = arrays(p), array_at(p.to_exact, (p.N + 1, nz, nz))
    evaluate(a.table, CURVATURE, 0, p.N + 1, X, U, b.y, b.y, out)


@kernel
def fill(memory, rows, exact, dense, separable, costs):
    """Swept Hessians := those of the costs, ``exact`` or not, + Jᵀ w J; or the diagonal of it."""
    p, b = Memory(memory), row_arrays(RowMemory(rows))
    a, shape, flat = arrays(p), (p.N + 1, p.n + p.nu, p.n + p.nu), (p.N + 1, p.n + p.nu)
    own, diagonal = array_at(p.diagonal, flat), array_at(p.to_diagonal, flat)
    H, out = array_at(p.exact if exact else p.lzz, shape), array_at(p.to_exact if exact else p.to_lzz, shape)
    copy(diagonal, own)
    spread(dense, costs, own, H, out)
    add_squares(a.table, a.J, b.w, separable, out, diagonal)


@kernel
def stride(memory, rows, m, keep, residual):
    """The step of the last sweep, with multipliers of the rows.

    Returns `row_steps.steps`: its longest fractions; and the slope of cost and barrier.
    """
    p, b = Memory(memory), row_arrays(RowMemory(rows))
    a = arrays(p)
    call_contraction(p.linear_step, p.horizon, p.u, p.x, p.y)
    along(a.table, a.J, a.x, a.u, a.moved)
    own = row_steps.steps(b.state, b.bounds, b.kind, b.give, m, residual, b.w, b.f, a.moved, keep, b.step)
    return own[0], own[1], own[2] + slope(a.lz, a.x, a.u)


@kernel
def stray(memory, X, to_U, to_X, gaps):
    """to_X := where a step dX leads from X, and the gaps (N, n) that it leaves with controls to_U."""
    p, place = Memory(memory), cost_table.place
    call_contraction(p.stray, p.context, address_of_words((
        p.N, p.nx, p.n, p.nu, place(X), p.dX, place(to_U), place(to_X), p.next, place(gaps)
    )), 0, 0)  # fmt: skip


@kernel
def advance(memory, rows, alpha, first, U, to_U, primal, moves):
    """A fraction alpha of a step: dX, to_U if that ``moves``, primal; rows from ``first`` on are of controls."""
    p, b = Memory(memory), row_arrays(RowMemory(rows))
    a, nu, dX = arrays(p), p.nu, array_at(p.dX, (p.N + 1, p.n))
    if moves:
        for t in range(p.N + 1):
            for i in range(p.n):
                dX[t, i] = alpha * a.x[t, i]
        for t in range(p.N):
            for i in range(nu):
                to_U[t, i] = U[t, i] + alpha * a.u[t, i]
    for j in range(row_steps.BELOW):
        for i in range(p.M):
            primal[j, i] = b.state[j, i] + alpha * b.step[j, i]
    for i in range(first, p.M):
        t = (i - first) // nu
        primal[0, i] = to_U[t, i - first - t * nu] if b.kind[i] == row_steps.BOUNDED else 0.0


@kernel
def weigh(memory, rows, m, X, U, gaps, primal, residual):
    """The cost of X, U, and `worth` of its rows."""
    p = Memory(memory)
    costs, c = array_at(p.costs, (p.N + 1,)), array_at(p.values, (p.M,))
    cost = cost_table.total(terms_of(p), X, U, X[:0], costs)
    if not abs(cost) < np.inf:  # constraints are not asked where there is no motion
        return np.inf, 0.0, (np.inf, np.inf, np.inf)
    table = arrays(p).table
    evaluate(table, VALUES, 0, p.N + 1, X, U, c, c, array_at(p.values, (0, 0, 0)))
    barrier, size = worth(rows, m, c, gaps, primal, residual)
    return cost, barrier, size


@kernel
def worth(rows, m, c, gaps, primal, residual):
    """residual and excesses of values c (M,), see `row_steps.evaluate`; the barrier function, and `measures.sizes`."""
    b = row_arrays(RowMemory(rows))
    barrier = row_steps.evaluate(c, primal, b.bounds, b.kind, b.give, m, residual, True)
    return barrier, sizes(gaps, residual)


@kernel
def follow(memory, rows, m, alpha, dual, blend, mu):
    """All multipliers go where the states have gone, by alpha, those of bounds by ``dual``.

    blend, mu: of the last sweep, whose step it was.
    """
    p, b = Memory(memory), row_arrays(RowMemory(rows))
    a = arrays(p)
    multipliers(p.horizon, blend, mu, a.x, a.u, a.y, True, a.to_costate, a.to_weights)
    row_steps.move(b.state, b.bounds, b.kind, b.give, m, b.step, alpha, dual)
    approach(alpha, a.costate, a.to_costate)
    approach(alpha, a.weights, a.to_weights)
