"""Trials of a full-space solve, steps that lead to them, errors by which points are judged, records of iterations."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ddp.models.attempt import EXACT, GAUSS_NEWTON, LEVENBERG_MARQUARDT
from ddp.protocols import Array
from ddp.solutions.record import Record
from ddp.starts import CLOSED
from ddp.sweeps.outcome import GIVEN, NONE
from ddp.systems.system import System, ability


class Trial(NamedTuple):
    """A trajectory X, U with slacks and excesses of its rows (3, M), and its worth.

    cost: its own.  barrier: the barrier function.  gaps (N, n), residual (M,): what is open; theta: the 2-norm of both.
    gap, missed: the largest gap and the largest residual.
    """

    X: Array
    U: Array
    primal: Array
    cost: float
    barrier: float
    gaps: Array
    residual: Array
    theta: float
    gap: float
    missed: float


class Move(NamedTuple):
    """A step: of states x (N+1, n), controls u (N, nu), rows (8, M).

    longest, longest_dual: fractions of it until a slack, or a multiplier of a bound, is at zero all but.
    slope: of cost and barrier along it.   expected: the decrease of both that the model promises, were nothing open.
    """

    x: Array
    u: Array
    rows: Array
    longest: float
    longest_dual: float
    slope: float
    expected: float


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


UNJUDGED = Judged(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
"""Errors of a point that are not known."""


def record_of(
    seconds: float, cost: float, dual: float, expected: float, alpha: float, mu: float, blend: float, gap: float,
    missed: float, barrier: float,
) -> Record:  # fmt: skip
    """Record of an iteration, from the numbers that `compiled.report` writes."""
    hessian = GAUSS_NEWTON if blend == 0.0 else EXACT if mu == 0.0 else LEVENBERG_MARQUARDT
    contraction, left = GIVEN if blend > 0.0 else NONE, 0.0 if gap < CLOSED else gap
    return Record(
        cost, dual, expected, alpha, mu, hessian, blend, seconds, left, contraction, missed, barrier, full_space=True
    )


def straying(dynamics: System) -> Callable[[Array, Array, Array], tuple[Array, Array]]:
    """States and gaps as ``strayed`` of `system.Abilities`, of a system that may lack it."""

    def stepped(X: Array, dX: Array, U: Array) -> tuple[Array, Array]:
        to = np.ascontiguousarray(dynamics.integrate(X, dX))
        to[0] = X[0]
        return to, np.ascontiguousarray(dynamics.difference(to[1:], dynamics.step(to[:-1], U)))

    return ability(dynamics, "strayed") or stepped
