"""A guess of states that go around what the straight way to a motion's end violates.

Where a motion leads through an obstacle, steps that lower violations may end inside of it, or stuck on its far side. So
a smooth bump is added to the straight way, along the coordinates on which violated rows depend: of random bumps, always
the same ones, the smallest of those that violate least. Speeds and controls that this takes are left to the solve.
"""

import numpy as np

from ddp.constraints.impossible import values
from ddp.constraints.unreachable import nearest_end
from ddp.guesses import smooth
from ddp.problem import Problem
from ddp.protocols import Array

TRIED, MOST, SIZES = 64, 256, (0.5, 1.0, 2.0)
"""Bumps that are tried; at most, where none of these is clear; their sizes, times the power of ten that is nearest to
how far the motion goes."""

LESS, COUNTS = 0.5, 1e-6
"""Share of what the straight way violates that a detour may violate, and violations that count as none."""


def detour(problem: Problem, end: Array, factors: Array | None = None) -> tuple[tuple[Array, Array] | None, bool]:
    """A guess (X, U) around what the straight way to about ``end`` (nx,) violates, or None; whether no bump helps.

    factors (m,): of rows, by which violations are measured, see `ddp.interior.scaling`; by default one.
    """
    factors = np.ones(problem.rows.size) if factors is None else factors
    try:
        with np.errstate(all="ignore"):
            if not np.isfinite(end).all():
                return None, False
            return _around(problem, nearest_end(problem, end, factors), factors)
    except Exception:  # a user's own code fails at states that no solve has come to
        return None, False


def _around(problem: Problem, end: Array, factors: Array) -> tuple[tuple[Array, Array] | None, bool]:
    system, rows, N, random = problem.dynamics, problem.rows, problem.horizon, np.random.default_rng(0)
    x0, way = np.tile(problem.x0, (N + 1, 1)), system.difference(problem.x0, end)
    U = np.clip(np.tile(system.nominal_control(problem.x0), (N, 1)), problem.lower, problem.upper)
    time = np.linspace(0.0, 1.0, N + 1)[:, None]
    ahead, beside = smooth(time), 16.0 * time**2 * (1.0 - time) ** 2
    bent = ~rows.soft & (rows.knot > 0) & (rows.knot < N)

    def moved(bump: Array) -> tuple[Array, Array]:
        X = system.integrate(x0, ahead * way + beside * bump)
        c = values(problem, X, U)
        return X, np.full(rows.size, np.inf) if c is None else np.where(bent, factors * np.abs(rows.beyond(c)), 0.0)

    X, straight = moved(np.zeros(system.n))
    forces = np.zeros((N + 1, system.n + system.nu))
    problem.add_forces(X, U, np.where(straight > COUNTS, factors, 0.0), forces)
    on = forces[:, : system.n].any(axis=0)
    size, best = 10.0 ** np.round(np.log10(np.abs(way[on]).max(initial=0.0) or 1.0)), (LESS * straight.sum(), 0.0)
    for count in range(MOST if on.any() else 0):
        if count >= TRIED and best[0] == 0.0:
            break
        bump = size * random.choice(SIZES) * on * random.normal(size=system.n)
        tried, missed = moved(bump)
        found = COUNTS * np.round(missed.sum() / COUNTS), np.abs(bump).sum()
        if found < best:
            best, X = found, tried
    steps = best[1] > 0.0 and np.isfinite(system.step(X[:-1], U)).all() and np.isfinite(problem.total(X, U))
    return ((X, U), False) if steps else (None, bool((straight > COUNTS).any()))
