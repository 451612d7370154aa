"""Proof, to first order, that constraints cannot be met near a trajectory (Farkas' lemma).

Multipliers y of the rows c, each with the sign of the bound b that it is beyond, weigh what is missed:

    Σ y (c - b) > Σ_k Σ_i |g_ki| r_ki,   g = ∂(Σ y c)/∂U

Then no change of controls by up to r, within their limits, meets all linearised constraints: it would bring the sum on
the left to zero or below, though it lowers it by no more than the right side. Of multipliers of any origin this is
true; those of a minimum of violations, where g vanishes for controls that are not held by limits, pass the test.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ddp.adjoint import costates
from ddp.derivatives import Derivatives
from ddp.problem import Problem
from ddp.protocols import Array

PROVEN = 0.5
"""Constraints cannot be met where no larger share of what is missed may be taken away, see `removable`."""


class Held(NamedTuple):
    """A trajectory X, U of a problem with gaps (N, n) of states, its derivatives d, and multipliers y (m,) of rows."""

    problem: Problem
    d: Derivatives
    X: Array
    U: Array
    gaps: Array
    y: Array


def removable(at: Held) -> float:
    """Share of what is missed that changes of controls may take away, to first order, by this module's test.

    Below 1 linearised constraints cannot be met by controls that change by no more than the largest of their kind.
    Multipliers of soft constraints do not count.
    """
    rows = at.problem.rows
    c, y = rows.values(at.X, at.U), np.where(rows.soft, 0.0, at.y)
    bound = np.where(y < 0.0, rows.lower, rows.upper)
    y = np.where(np.isfinite(bound), y, 0.0)
    on_next, least = _changes(at, np.zeros_like(at.d.lz), y)
    missed = float((y * np.where(y == 0.0, 0.0, c - np.where(y == 0.0, 0.0, bound))).sum() + (on_next * at.gaps).sum())
    return least / missed if missed > 0.0 else np.inf


def slope(at: Held) -> float:
    """Change of the Lagrangian, to first order, by controls that change by no more than the largest of their kind."""
    return _changes(at, at.d.lz.copy(), at.y)[1]


def _changes(at: Held, lz: Array, y: Array) -> tuple[Array, float]:
    """Costates (N, n) of next states, and Σ |g| r, of a sum with gradients lz (N+1, nz) and Σ y c."""
    problem, U, n = at.problem, at.U, at.problem.dynamics.n
    problem.add_forces(at.X, U, y, lz)
    on_next = costates(at.d.A, lz)[1:]
    g = lz[:-1, n:] + np.einsum("kij,ki->kj", at.d.B, on_next)
    largest = np.abs(U).max(axis=0)
    room = np.minimum(np.where(g > 0.0, U - problem.lower, problem.upper - U), np.where(largest > 0.0, largest, 1.0))
    return on_next, float((np.abs(g) * np.maximum(room, 0.0)).sum())


def impossible(worst: str, share: float) -> str:
    """A sentence about constraints that cannot be met, of which one is violated most; share: see `removable`."""
    return (
        f"infeasible as far as can be seen from here: {worst}, and no change of controls as large as themselves takes"
        f" away more than {100.0 * share:.1g} % of what is missed, to first order; from another guess or start there"
        " may be a way"
    )
