"""Kinks at a motion: terms that jump there, or whose slopes or those of the dynamics do, so that steps never end."""

from collections.abc import Callable, Iterable

import numpy as np

from ddp.costs.objective import Objective
from ddp.derivatives import FIRST
from ddp.errors import DDPError
from ddp.problem import Problem
from ddp.protocols import Array

NEAR = 1e-4
"""Distance of two points from the motion, in every number of states, and of controls relative to the largest."""

HALVINGS = 10
"""Number of times that the way between the points is halved."""

JUMP, FELT = 0.3, 1e-3
"""A slope jumps where more than the share JUMP of its largest change in a half is left after all halvings, and more
than the share FELT of the largest slope."""

ADVICE = "smooth {name}, whose {what} at {count} of the motion's knots, as {example}"
"""Advice where a slope or a value jumps."""

SLOPE, VALUE = ("slope jumps", "sqrt(x**2 + e**2) smooths abs(x)"), ("value jumps", "tanh(x / e) smooths sign(x)")

Slope = Callable[[Array, Array], Array]


def kinks(problem: Problem, X: Array, U: Array, terms: Iterable[tuple[str, Objective]]) -> str:
    """Advice on what has a kink at most knots, of the dynamics and of named terms; empty if nothing has one.

    Between two points at both sides of the motion, the half in which a slope changes more is halved again and again: a
    smooth function's change goes down with the length, that at a kink stays.
    """
    if not (np.isfinite(X).all() and np.isfinite(U).all()):
        return ""
    d, N = problem.dynamics, problem.horizon
    aside = NEAR * np.random.default_rng(0).choice([-1.0, 1.0], (N + 1, d.n + d.nu))
    aside[:, d.n :] *= np.maximum(1.0, np.abs(U).max(axis=0))

    def jumps(slope: Slope) -> int:
        def at(share: Array) -> Array:
            step = share[:, None] * aside
            return slope(d.integrate(X, step[:, : d.n]), problem.padded(U + step[:N, d.n :]))

        try:
            return _jumps(at, N + 1)
        except DDPError:  # points aside need not be where the function is defined
            return 0

    with np.errstate(all="ignore"):
        known = [*terms]
        found = [(name, jumps(values_of(term)), VALUE) for name, term in known]
        found += [(name, jumps(slope_of(problem, term)), SLOPE) for name, term in known]
        found.append(("the dynamics", jumps(_of_steps(problem)), SLOPE))
    name, count, (what, example) = max(found, key=lambda kink: kink[1])
    return ADVICE.format(name=name, what=what, count=count, example=example) if count else ""


def _jumps(at: Callable[[Array], Array], knots: int) -> int:
    """Number of knots at which the slope jumps, as a function of shares (knots,) of the way aside, -1 to 1."""
    a, b = -np.ones(knots), np.ones(knots)
    low, high = at(a), at(b)
    first, largest = np.zeros(knots), max(float(np.abs(low).max()), float(np.abs(high).max()))
    for _ in range(HALVINGS):
        middle = 0.5 * (a + b)
        here = at(middle)
        before, behind = np.abs(here - low).max(axis=1), np.abs(high - here).max(axis=1)
        left, first = before > behind, np.maximum(first, np.maximum(before, behind))
        a, b = np.where(left, a, middle), np.where(left, middle, b)
        low, high = np.where(left[:, None], low, here), np.where(left[:, None], here, high)
    last = np.abs(high - low).max(axis=1)
    return int(((last > JUMP * first) & (last > FELT * largest)).sum())


def _of_steps(problem: Problem) -> Slope:
    """Jacobians (N, .) of the dynamics; of the last knot zeros."""

    def slope(X: Array, U: Array) -> Array:
        at = problem.allocate()
        problem.expand(X, U, at, 0, problem.horizon + 1, FIRST)
        J = np.concatenate([at.A, at.B], axis=2).reshape(problem.horizon, -1)
        return np.concatenate([J, np.zeros((1, J.shape[1]))])

    return slope


def values_of(term: Objective) -> Slope:
    """Values (N+1, 1) of a term."""
    return lambda X, U: term.values(X, U)[:, None]


def slope_of(problem: Problem, term: Objective) -> Slope:
    """Gradients (N+1, nz) of a term."""

    def slope(X: Array, U: Array) -> Array:
        at = problem.allocate()
        if term.noted:  # terms of forces read the records of steps
            problem.expand(X, U, at, 0, problem.horizon + 1, FIRST)
        term.expand(X, U, at, 0, problem.horizon + 1)
        return at.lz

    return slope
