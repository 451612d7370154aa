"""Factors that rows of constraints are multiplied by while a solve lasts: users may give them in any units.

Errors of rows are compared with each other, and with gaps; slacks begin at about a tenth of one, and a unit of
violation has a price. So slopes of rows should be about one. As IPOPT scales rows (Wächter & Biegler 2006, section
3.8), by slopes where a solve begins, but tiny ones are scaled up as well: else they are met where they are violated by
less than tolerances, and are not followed before.

States may be in any units, too: a position in mm has small slopes. So no row is scaled to change by more than one, or
large ones by less, where states and controls change by as much as they do where a solve begins. And rows that controls
enter are no larger than by these: forces of contacts change by 1e4 N for one m/s, and are held as closely as they are.
Rows without slopes where a solve begins, as squares at zero, have those beside, where all is moved by so much.

A factor is one but where slopes are far from that, the same at all knots, and a power of two: nothing is rounded.
"""

import numpy as np

from ddp.constraints import row_table
from ddp.errors import ProblemError
from ddp.problem import Problem
from ddp.protocols import Array

SMALL, LARGE, LEAST = 0.1, 100.0, 1e-20
"""Slopes of rows that are scaled: smaller than the first number or larger than the second one, but not all but zero or
infinite."""

FLAT, NOTHING = 1e-3, 1e-8
"""Slopes count as none where they are less than this share of those beside, and motion that is smaller than this."""


def factors_of(problem: Problem, X: Array, U: Array) -> Array:
    """Factors (m,) of constraints, where a solve begins at X (N+1, nx), U (N, nu)."""
    rows = problem.rows
    J, slope, change = rows.jacobian(X, U), np.ones(rows.size), np.ones(rows.size)
    least, largest = row_table.slopes(rows.table, J, np.ones(rows.nz), slope)
    if least >= SMALL and largest <= LARGE:
        return change
    moved = problem.dynamics.difference(np.broadcast_to(X[0], X.shape), X)
    motion = np.concatenate([np.abs(moved).max(axis=0), np.abs(U).max(axis=0)])
    motion[motion < NOTHING] = 1.0
    if least < SMALL:
        beside = _beside(problem, X, U, motion)
        row_table.slopes(rows.table, beside, np.ones(rows.nz), change)
        flat = slope < FLAT * change
        row_table.scale(rows.table, J, np.where(flat, 0.0, 1.0))
        row_table.scale(rows.table, beside, np.where(flat, 1.0, 0.0))
        J += beside
        row_table.slopes(rows.table, J, np.ones(rows.nz), slope)
    row_table.slopes(rows.table, J, motion, change)
    by_controls = np.zeros(rows.size)
    row_table.slopes(rows.table, J, np.repeat([0.0, 1.0], [rows.n, rows.nz - rows.n]), by_controls)
    large = np.where(by_controls > 0.0, by_controls, slope)
    up, down = (slope < SMALL) & (slope > LEAST), (large > LARGE) & (large < 1.0 / LEAST)
    size = np.where(up, np.clip(change, slope, 1.0), np.where(down, np.clip(change, 1.0, large), 1.0))
    return np.asarray(np.exp2(-np.round(np.log2(size))))


def _beside(problem: Problem, X: Array, U: Array, motion: Array) -> Array:
    """Jacobians of rows where all is moved by ``motion`` (nz,); zeros where a user's own code fails."""
    rows = problem.rows
    moved = problem.dynamics.integrate(X, np.tile(motion[: rows.n], (len(X), 1)))
    try:
        return np.nan_to_num(rows.jacobian(moved, U + motion[rows.n :]), posinf=0.0, neginf=0.0)
    except ProblemError:
        return np.zeros(rows.entries)
