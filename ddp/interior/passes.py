# mypy: allow-untyped-defs, allow-untyped-calls
"""An iteration's passes over the horizon and all rows, a kernel each: what point.py calls.

``horizon``: the address of a `Horizon`, which is given ``lz`` (N+1, nz), the swept gradient.   table, J: the rows and
their Jacobian, see row_table.py.   rows, bounds, kind, give, m: see row_steps.py.   plain (N+1, nz): the gradient of
the cost.
"""

from __future__ import annotations

import numpy as np

from ddp.compiling.kernel import kernel
from ddp.constraints.bound import CURVATURE, VALUES
from ddp.constraints.row_table import add_forces, add_squares, along, evaluate
from ddp.costs.cost_table import NONE, total
from ddp.interior import row_steps
from ddp.interior.linear import multipliers, stationarity
from ddp.interior.measures import absolute, approach, sizes, slope, spread


@kernel
def pull(table, J, plain, forces, lz):
    """lz := plain + Jᵀ forces (M,)."""
    for t in range(plain.shape[0]):
        for i in range(plain.shape[1]):
            lz[t, i] = plain[t, i]
    add_forces(table, J, forces, lz)


@kernel
def judge(horizon, table, J, rows, bounds, kind, give, plain, lz, y, costate, weights, error):
    """error (N+1, nz): the Lagrangian's gradient, with multipliers y (M,) of the rows, which are written.

    Returns the largest number of it, the sum of |costate|, and `row_steps.errors`.
    """
    row_steps.multipliers(rows, kind, give, y)
    pull(table, J, plain, y, lz)
    stationarity(horizon, lz, costate, weights, error)
    return absolute(error)[0], absolute(costate)[1], row_steps.errors(rows, bounds, kind, give)


@kernel
def condense(
    table, J, rows, bounds, kind, give, m, delta, residual, w, f, plain, lz, dense, any_dense, separable, costs, own, H,
    out, diagonal, curved, X, U, y,
):  # fmt: skip
    """w, f (M,), lz := plain + Jᵀ f, and `fill`; to Hessians that are ``curved`` Σ y_i ∂²c_i at X, U, y (M,)."""
    row_steps.condense(rows, bounds, kind, give, m, delta, residual, w, f)
    pull(table, J, plain, f, lz)
    fill(table, J, w, dense, any_dense, separable, costs, own, H, out, diagonal)
    if curved:
        evaluate(table, CURVATURE, 0, X.shape[0], X, U, y, y, out)


@kernel
def fill(table, J, w, dense, any_dense, separable, costs, own, H, out, diagonal):
    """out := H + Jᵀ w J at ``dense`` knots, diagonal := own + it at others; costs: where H is in ``own`` (N+1, nz)."""
    for t in range(own.shape[0]):
        for i in range(own.shape[1]):
            diagonal[t, i] = own[t, i]
    if any_dense:
        spread(dense, costs, own, H, out)
    add_squares(table, J, w, separable, out, diagonal)


@kernel
def stride(
    horizon, table, J, rows, bounds, kind, give, m, residual, w, f, plain, keep, blend, mu, x, u, y, moved, step,
    costate, weights,
):  # fmt: skip
    """``step`` of the rows for x, u, y of `limits.linear_step`, moved (M,) = J z.

    blend, mu: of the sweep.   costate, weights: where it leads. Returns `row_steps.steps`, and the slope of cost and
    barrier.
    """
    multipliers(horizon, blend, mu, x, u, y, True, costate, weights)
    along(table, J, x, u, moved)
    longest, longest_dual, rise = row_steps.steps(rows, bounds, kind, give, m, residual, w, f, moved, keep, step)
    return longest, longest_dual, rise + slope(plain, x, u)


@kernel
def advance(alpha, x, u, step, rows, kind, first, U, dX, to_U, primal):
    """A fraction alpha of a step: dX (N+1, n), to_U (N, nu), primal (3, M); rows from ``first`` on are of controls."""
    nu = u.shape[1]
    for t in range(x.shape[0]):
        for i in range(x.shape[1]):
            dX[t, i] = alpha * x[t, i]
    for t in range(u.shape[0]):
        for i in range(nu):
            to_U[t, i] = U[t, i] + alpha * u[t, i]
    for j in range(row_steps.BELOW):
        for i in range(primal.shape[1]):
            primal[j, i] = rows[j, i] + alpha * step[j, i]
    for i in range(first, primal.shape[1]):
        t = (i - first) // nu
        primal[0, i] = to_U[t, i - first - t * nu] if kind[i] == row_steps.BOUNDED else 0.0


@kernel
def weigh(terms, table, X, U, costs, c, gaps, primal, bounds, kind, give, m, residual):
    """The cost of X, U by ``terms``, and `worth` of their c (M,), which is written, as are costs (N+1,)."""
    cost = total(terms, NONE, X, U, X[:0], costs)
    if not abs(cost) < np.inf:  # constraints are not asked where there is no motion
        return np.inf, 0.0, (np.inf, np.inf, np.inf)
    evaluate(table, VALUES, 0, X.shape[0], X, U, c, c, np.zeros((0, 0, 0)))
    barrier, size = worth(gaps, c, primal, bounds, kind, give, m, residual)
    return cost, barrier, size


@kernel
def worth(gaps, c, primal, bounds, kind, give, m, residual):
    """residual (M,) and excesses, see `row_steps.evaluate`; the barrier function, and `measures.sizes`."""
    barrier = row_steps.evaluate(c, primal, bounds, kind, give, m, residual, True)
    return barrier, sizes(gaps, residual)


@kernel
def follow(rows, bounds, kind, give, m, step, alpha, dual, costate, to_costate, weights, to_weights):
    """All multipliers go where the states have gone, by alpha, those of bounds by ``dual``."""
    row_steps.move(rows, bounds, kind, give, m, step, alpha, dual)
    approach(alpha, costate, to_costate)
    approach(alpha, weights, to_weights)
