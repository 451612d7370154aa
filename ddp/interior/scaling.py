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

import numpy as np

from ddp.constraints import row_table
from ddp.derivatives import Derivatives
from ddp.errors import ProblemError
from ddp.interior.measures import to_powers_of_two
from ddp.problem import Problem
from ddp.protocols import Array

SMALL, LARGE, LEAST = 0.1, 100.0, 1e-20
"""Slopes of rows from which on all are scaled: smaller than the first number or larger than the second one; and slopes
that are all but zero, or infinite, with its inverse."""

FLAT, NOTHING = 1e-3, 1e-8
"""Slopes count as none where they are less than this share of those beside, and motion that is smaller than this."""

ORDINARY, NEAR_ONE = ((0.01, 200.0), (0.01, 1e3)), (0.1, 30.0)
"""Sizes, or motion, of states and controls that tell of no other units; where any do, those near one have one of one.
Costs alone do not tell: a guess that leads far away makes all seem cheap."""

AT_LEAST, STILL = 0.1, 1e-6
"""Share of what costs as much as all does which counts as motion; and share of itself, or of what controls may move,
below which a coordinate of states is still."""


def ones(problem: Problem) -> Array:
    """Units (nz,) of states and controls that are one."""
    return np.ones(problem.dynamics.n + problem.dynamics.nu)


def units_of(problem: Problem, d: Derivatives, X: Array, U: Array, even: bool = False) -> Array:
    """Units (nz,) of states and controls, powers of two, where a solve begins, with derivatives d.

    They tell how far these move there, or what costs as much as all does; of controls no more than limits let be, or as
    much where nothing costs anything; of states that are still and cost nothing, by how far controls move them. One
    where all are ordinary, or any state all but nothing beside itself, as where a motion begins at its goal; and for
    manifolds, whose units are known.
    even: whether those near one are not one where others are far from it.
    """
    system, n = problem.dynamics, problem.dynamics.n
    flat = system.nx == n
    moved = np.concatenate([np.abs(X - X[0]).max(axis=0) if flat else np.ones(n), np.abs(U).max(axis=0)])
    low, high = np.repeat(np.array(ORDINARY), [n, system.nu], axis=0).T
    ordinary = (low <= moved) & (moved <= high)
    if ordinary.all():
        return ones(problem)
    size = _sizes(problem, d, X, U, moved)
    if flat and (size[:n] < STILL * np.abs(X).max(axis=0)).any():
        return ones(problem)
    size[:n] = size[:n] if flat else 1.0
    if (ordinary | ((low <= size) & (size <= high))).all():
        return ones(problem)
    far = even | (size < NEAR_ONE[0]) | (size > NEAR_ONE[1])
    return np.where(far, _near(size), 1.0)


def measures(problem: Problem, d: Derivatives, X: Array, U: Array) -> Array:
    """Units (nz,) of states and controls, powers of two, of rollouts that hold constraints; not on manifolds.

    They tell the same as `units_of`, of all states and controls, with nothing else to go by: where those of a problem
    are so many times larger, these are as well.
    """
    n, largest = problem.dynamics.n, np.abs(X).max(axis=0)
    moved = np.concatenate([np.abs(X - X[0]).max(axis=0), np.abs(U).max(axis=0)])
    size = _sizes(problem, d, X, U, moved, by_states=True)
    size[:n] = np.where(size[:n] < STILL * largest, largest, size[:n])
    return _near(size)


def _near(size: Array) -> Array:
    """Powers of two next to some sizes."""
    near = size.copy()
    to_powers_of_two(near)
    return near


def _sizes(problem: Problem, d: Derivatives, X: Array, U: Array, moved: Array, by_states: bool = False) -> Array:
    """Sizes (nz,) of states and controls by how far they have moved, and by what costs as much as all does.

    by_states: whether controls that tell nothing are as large as what moves states by their sizes.
    """
    n = problem.dynamics.n
    with np.errstate(all="ignore"):
        dear = np.sqrt(2.0 * float(np.abs(problem.plain.values(X, U)).sum()) / weights_of(problem, d))
        most = np.maximum(np.abs(problem.lower), np.abs(problem.upper)).max(axis=0)
        dear[n:] = np.fmin(np.where(dear[n:] > 0.0, dear[n:], np.inf), most)
        size = np.fmax(moved, np.where(np.isfinite(dear), AT_LEAST * dear, 0.0))
        if by_states:
            moves = np.abs(d.B).max(axis=0).T @ np.where(size[:n] > 0.0, 1.0 / size[:n], 0.0)
            size[n:] = np.where((size[n:] == 0.0) & (moves > 0.0), 1.0 / moves, size[n:])
        pushed = np.where(size[n:] > 0.0, size[n:], 1.0)  # by a unit where nothing tells by how much
        reach = np.sqrt(problem.horizon) * np.abs(d.B).max(axis=0) @ pushed
        if not (reach > 0.0).all():
            by_others = np.sqrt(problem.horizon) * np.abs(d.A - np.eye(n)).max(axis=0) @ reach
            reach = np.where(reach > 0.0, reach, by_others)
        size[:n] = np.where(size[:n] < STILL * reach, reach, size[:n])
        return np.where((size > LEAST) & (size < 1.0 / LEAST), size, 1.0)


def weights_of(problem: Problem, d: Derivatives) -> Array:
    """Sums (nz,) over the horizon of the diagonals of Gauss-Newton's Hessians of costs, as absolute numbers."""
    diagonals = np.where(problem.separable[:, None], d.diagonal, np.einsum("kii->ki", d.lzz))
    diagonals[-1, problem.dynamics.n :] = 0.0
    return np.asarray(np.abs(diagonals).sum(axis=0))


def factors_of(problem: Problem, X: Array, U: Array, units: Array | None = None, even: bool = False) -> Array:
    """Factors (m,) of constraints, where a solve begins at X (N+1, nx), U (N, nu), by units (nz,), by default one.

    even: whether all rows have slopes of about one with theirs.
    """
    rows, units = problem.rows, ones(problem) if units is None else units
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
