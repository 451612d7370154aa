# mypy: allow-untyped-defs, allow-untyped-calls
"""Units of states and controls, and factors that rows of constraints are multiplied by while a solve lasts.

States, controls, costs and rows may be in any units. Gaps, errors of gradients and residuals of rows are compared with
each other and with fixed numbers: so gaps and gradients are measured by units of states and controls, and rows by
factors. All are one but where numbers are far from that, and powers of two: nothing is rounded.

Errors of rows are compared with each other, and with gaps; slacks begin at about a tenth of one, and a unit of
violation has a price. So slopes of rows should be about one. As IPOPT scales rows (Wächter & Biegler 2006, section
3.8), by slopes where a solve begins, but tiny ones are scaled up as well: else they are met where they are violated by
less than tolerances, and are not followed before.

A position in mm has small slopes: these are by units. And no row is scaled to change by more than one where states and
controls change by as much as they do where a solve begins. Rows that controls enter are no larger than by these, and
are not scaled to change by less than one: forces of contacts change by 1e4 N for one m/s, and are held closely. Rows
without slopes where a solve begins, as squares at zero, have those beside, where all is moved by so much.

Factors are one, unless slopes of any row are far from that: then all rows that no control enters have their own, and of
others those that are far. Each is the same at all knots.
"""

import math

import numpy as np

from ddp.compiling.kernel import apart, inline, kernel
from ddp.constraints import row_table
from ddp.costs.cost_table import place
from ddp.costs.hessians import weighed
from ddp.derivatives import Derivatives
from ddp.errors import ProblemError
from ddp.interior.measures import absolute, nearest_power, to_powers_of_two, weights
from ddp.machine.memory import hold, rows_of
from ddp.problem import Problem
from ddp.protocols import Array

ROUNDED = 1e-20
"""Share of ½ Σ l_xx x² + ½ Σ l_uu u², of the largest states and controls, below which costs are rounding."""

SMALL, LARGE, LEAST = 0.1, 100.0, 1e-20
"""Slopes of rows from which on all are scaled: smaller than the first number or larger than the second one; and slopes
that are all but zero, or infinite, with its inverse."""

FLAT, NOTHING = 1e-3, 1e-8
"""Slopes count as none where they are less than this share of those beside, and motion that is smaller than this."""

ORDINARY, NEAR_ONE = ((0.01, 200.0), (0.01, 1e3)), (0.1, 30.0)
"""Sizes, or motion, of states and controls that tell of no other units; where any do, those near one have one of one.
Costs alone do not tell: a guess that leads far away makes all seem cheap."""

FAR = 100.0
"""Motion of states within limits, or size of those that rest, that tells of other units."""

AT_LEAST, OF_GAPS, STILL = 0.1, 0.5, 1e-6
"""Share of what costs as much as all does which counts as motion, and which gaps are measured by; and share of itself,
or of what controls may move, below which a coordinate of states is still."""


def ones(problem: Problem) -> Array:
    """Units (nz,) of states and controls that are one."""
    return np.ones(problem.dynamics.n + problem.dynamics.nu)


def units_of(problem: Problem, d: Derivatives, X: Array, U: Array, even: bool = False) -> Array:
    """Units (nz,) of states and controls, powers of two, where a solve begins, with derivatives d.

    They tell how far these move there, or what costs as much as all does; of controls no more than limits let be, or as
    much where nothing costs anything; of states that are still and cost nothing, by how far controls move them. One
    where all are ordinary, or any state all but nothing beside itself, as where a motion begins at its goal; and for
    manifolds, whose units are known, and where controls without limits hold all at rest at no cost: they say nothing of
    those that move it, and may be rounding.
    even: whether those near one are not one where others are far from it.
    """
    n, moved = problem.dynamics.n, extents(X, U, problem.dynamics.n)
    if moved_as_one(moved, moved, n):
        return ones(problem)
    weights, costs = weights_of(problem, d), costs_at(problem, d, X, U)
    rests = not (problem.limited or (np.abs(X - X[0]) > NOTHING).any() or costs.any())
    if rests and U.any():
        return ones(problem)
    size = sizes(costs, weights, problem.lower, problem.upper, d.A, d.B, moved, AT_LEAST, False)
    to_units(size, moved, X, n, even)
    return size


def measures(problem: Problem, d: Derivatives, X: Array, U: Array) -> Array:
    """Units (nz,) of states and controls, powers of two, of rollouts that hold constraints; not on manifolds.

    They tell the same as `units_of`, of all states and controls, with nothing else to go by: where those of a problem
    are so many times larger, these are as well.
    """
    n = problem.dynamics.n
    costs, moved = costs_at(problem, d, X, U), extents(X, U, n)
    size = sizes(costs, weights_of(problem, d), problem.lower, problem.upper, d.A, d.B, moved, AT_LEAST, True)
    tell_still(size, X, n)
    return _near(size)


def gaps_at(problem: Problem, d: Derivatives, X: Array, U: Array) -> Array:
    """Sizes (nz,) of `sizes_of_gaps`."""
    costs, limits = costs_at(problem, d, X, U), (problem.lower, problem.upper)
    return sizes_of_gaps(costs, weights_of(problem, d), *limits, d.A, d.B, X, U, problem.limited)


def _near(size: Array) -> Array:
    """Powers of two next to some sizes."""
    near = size.copy()
    to_powers_of_two(near)
    return near


def costs_at(problem: Problem, d: Derivatives, X: Array, U: Array) -> Array:
    """Costs (N+1,) of the knots; zeros where all of them are rounding, as of an arm that torques hold at rest."""
    costs, n, weights = problem.plain.values(X, U), problem.dynamics.n, weights_of(problem, d)
    size = 0.5 * (weighed(weights, 0, n, X, 2) + weighed(weights, n, len(weights), U, 2))
    return costs if np.abs(costs).sum() > ROUNDED * size else np.zeros(len(costs))


def weights_of(problem: Problem, d: Derivatives) -> Array:
    """Sums (nz,) over the horizon of the diagonals of Gauss-Newton's Hessians of costs, as absolute numbers."""
    return weights(problem.separable.astype(np.int64), d.diagonal, d.lzz, problem.dynamics.n)


@kernel
def extents(X, U, n):
    """How far states (n,) of a motion move from the first one, 1 on manifolds, and how large controls are: (nz,)."""
    nu, x, u, flat, found = U.shape[1], rows_of(X), rows_of(U), X.shape[1] == n, np.zeros(n + U.shape[1])
    moved = rows_of(found)
    for i in range(n + nu):
        most = 0.0 if flat or i >= n else 1.0
        if i >= n:
            for t in range(len(u)):
                most = max(most, abs(u[t, i - n]))
        elif flat:
            for t in range(len(x)):
                most = max(most, abs(x[t, i] - x[0, i]))
        moved[i] = most
    return found


@kernel
def sizes_of_gaps(costs, weights, lower, upper, A, B, X, U, limited):
    """Sizes (nz,) of flat states that their gaps are measured by without constraints; and of controls.

    They are of what costs as much as all does, as d in ½ Σ l_xx d² = Σ |l|, so that they are known where nothing moves
    and change as units do; weights (nz,) are sums of l_xx. States that cost nothing are as large as they move, or as
    controls move them.   limited: whether controls are. There sizes are one, but for motion beyond `FAR`, or such sizes
    of states that rest: by those of others a glider takes 18 % more iterations, and arms that fall do not come back.
    """
    n, moved, least = A.shape[1], extents(X, U, A.shape[1]), extents(X, U, A.shape[1])
    for i in range(n):
        least[i] = 0.0 if weights[i] > 0.0 else least[i]
    size = sizes(costs, weights, lower, upper, A, B, least, OF_GAPS, True)
    tell_still(size, X, n)
    for i in range(n if limited else 0):
        far = moved[i] if moved[i] > 0.0 else size[i]
        size[i] = far if FAR < far < np.inf else 1.0
    return size


@kernel
def tell_still(size, X, n):
    """Sizes of flat states (n,) that are all but nothing beside these := those of the states."""
    x, own = rows_of(X), rows_of(size)
    for i in range(n):
        most = 0.0
        for t in range(len(x)):
            most = max(most, abs(x[t, i]))
        own[i] = most if own[i] < STILL * most else own[i]


@kernel
def sizes(costs, weights, lower, upper, A, B, moved, at_least, by_states):
    """Sizes (nz,) of `_sizes`; by_states: whether controls that tell nothing are as large as what moves states."""
    (N, n, nu), dear, found = B.shape, 0.0, np.zeros(moved.size)
    l, w, start, low, high = rows_of(costs), rows_of(weights), rows_of(moved), rows_of(lower), rows_of(upper)
    size, of_controls, a, b = rows_of(found), 0.0, place(A), place(B)
    for t in range(len(costs)):
        dear += 2.0 * abs(l[t])
    for i in range(n + nu):
        own = math.sqrt(dear / w[i])
        if i >= n:
            most = 0.0
            for t in range(N):
                most = max(most, abs(low[t, i - n]), abs(high[t, i - n]))
            own = min(own, most) if own > 0.0 else most
        size[i] = max(start[i], at_least * own if own < np.inf else 0.0)
        if i >= n:
            of_controls += size[i] if size[i] > 0.0 else np.inf
    reach = of_controls * math.sqrt(N) * absolute(b, N * n * nu)[0]
    reach += reach * math.sqrt(N) * n * (1.0 + absolute(a, N * n * n)[0])  # no state is moved further, but by rounding
    for i in range(n):
        if not (size[i] > STILL * 2.0 * reach or (dear > 0.0 and w[i] > 0.0)):
            move_by_controls(found, dear, weights, A, B, by_states)
            break
    for i in range(n + nu):
        size[i] = size[i] if LEAST < size[i] < 1.0 / LEAST else 1.0
    return found


@apart
def move_by_controls(found, dear, weights, A, B, by_states):
    """Sizes (nz,) of states that are still, and cost nothing, := how far controls move them; and of controls.

    dear, weights: see `sizes`. Light fingers of a heavy arm seem still beside what its torques would do to them.
    """
    (_, n, nu), root, memory = B.shape, math.sqrt(len(B)), np.zeros(2 * len(found))
    size, reach, by_controls, a, b = rows_of(found), rows_of(memory), rows_of(memory)[n + nu :], rows_of(A), rows_of(B)
    w = rows_of(weights)
    for j in range(nu):
        moves = 0.0
        for i in range(n):
            by_controls[i] = largest(b, i * nu + j, 0.0)
            moves += by_controls[i] / size[i] if size[i] > 0.0 else 0.0
        if by_states and size[n + j] == 0.0 and moves > 0.0:
            size[n + j] = 1.0 / moves
        for i in range(n):  # by a unit where nothing tells by how much
            reach[i] += root * by_controls[i] * (size[n + j] if size[n + j] > 0.0 else 1.0)
    for i in range(n):
        by_controls[i] = reach[i]
    for i in range(n):
        if not by_controls[i] > 0.0:
            for j in range(n):
                reach[i] += root * largest(a, i * n + j, 1.0 if i == j else 0.0) * by_controls[j]
        costs = dear > 0.0 and w[i] > 0.0
        size[i] = reach[i] if size[i] < STILL * reach[i] and not costs else size[i]
    hold(memory)


@inline
def largest(M, k, less):
    """The largest of |M_k - less| of any knot, of rows M."""
    most = 0.0
    for t in range(len(M)):
        most = max(most, abs(M[t, k] - less))
    return most


@kernel
def moved_as_one(moved, size, n):
    """Whether all states and controls move by ordinary amounts, or are of such a size (nz,)."""
    for i in range(len(size)):
        low, high = ORDINARY[0] if i < n else ORDINARY[1]
        if not (low <= moved[i] <= high or low <= size[i] <= high):
            return False
    return True


@kernel
def to_units(size, moved, X, n, even):
    """Sizes (nz,) := units, see `units_of`."""
    one, flat = False, X.shape[1] == n
    for i in range(n):
        for t in range(X.shape[0] if flat else 0):
            one |= size[i] < STILL * abs(X[t, i])
        size[i] = size[i] if flat else 1.0
    one |= moved_as_one(moved, size, n)
    for i in range(len(size)):
        far = even or size[i] < NEAR_ONE[0] or size[i] > NEAR_ONE[1]
        size[i] = nearest_power(size[i]) if far and not one else 1.0


def factors_of(problem: Problem, X: Array, U: Array, units: Array | None = None, even: bool = False) -> Array:
    """Factors (m,) of constraints, where a solve begins at X (N+1, nx), U (N, nu), by units (nz,), by default one.

    even: whether all rows have slopes of about one with theirs.
    """
    rows, units = problem.rows, ones(problem) if units is None else units
    if rows.size == 0:
        return np.ones(0)
    J, slope, change = rows.jacobian(X, U), np.ones(rows.size), np.ones(rows.size)
    least, largest = row_table.slopes(rows.table, J, units, slope)
    if not even and least >= SMALL and largest <= LARGE:
        return change
    moved = problem.dynamics.difference(np.broadcast_to(X[0], X.shape), X)
    motion = np.concatenate([np.abs(moved).max(axis=0), np.abs(U).max(axis=0)])
    motion = np.where(motion < NOTHING * units, units, motion)
    if even or least < SMALL:
        beside = _beside(problem, X, U, motion)
        row_table.slopes(rows.table, beside, units, change)
        flat = slope < FLAT * change
        row_table.scale(rows.table, J, np.where(flat, 0.0, 1.0))
        row_table.scale(rows.table, beside, np.where(flat, 1.0, 0.0))
        J += beside
        row_table.slopes(rows.table, J, units, slope)
    if even:
        size = np.where((slope > LEAST) & (slope < 1.0 / LEAST), slope, 1.0)
        return 1.0 / _near(size)
    row_table.slopes(rows.table, J, motion, change)
    by_controls = np.zeros(rows.size)
    row_table.slopes(rows.table, J, np.where(np.arange(rows.nz) < rows.n, 0.0, units), by_controls)
    of_states = by_controls == 0.0
    large = np.where(of_states, slope, by_controls)
    small, far = (np.where(of_states, 1.0, bound) for bound in (SMALL, LARGE))
    up, down = (slope < small) & (slope > LEAST), (large > far) & (large < 1.0 / LEAST)
    less = np.where(of_states, large, np.clip(change, 1.0, large))
    size = np.where(up, np.clip(change, slope, 1.0), np.where(down, less, 1.0))
    return 1.0 / _near(size)


def _beside(problem: Problem, X: Array, U: Array, motion: Array) -> Array:
    """Jacobians of rows where all is moved by ``motion`` (nz,); zeros where a user's own code fails."""
    rows = problem.rows
    moved = problem.dynamics.integrate(X, np.tile(motion[: rows.n], (len(X), 1)))
    try:
        return np.nan_to_num(rows.jacobian(moved, U + motion[rows.n :]), posinf=0.0, neginf=0.0)
    except ProblemError:
        return np.zeros(rows.entries)
