"""Starts of solves: the policy that a guess means, and the trajectory that it leads to."""

from typing import NamedTuple

import numpy as np

from ddp.costs.cost_table import NO_NOTES
from ddp.errors import ModelError, as_array
from ddp.guesses import Guess, Start, as_guess
from ddp.problem import Problem
from ddp.protocols import Array

FULL = np.array([1.0])
"""The step length of a rollout that is no search."""

CLOSED = 1e-10
"""Gaps smaller than this count as closed (norm: the largest component of any, in the units of the tangent space)."""

WORSE, ASTRAY = 2.0, 100.0
"""Controls that lead to such a multiple of what staying at x0 would cost, if one could, are no guess of a motion; nor
is a policy that leads to such a multiple of what its own states would cost from x0. Nor are motions that violate
equalities `WORSE` times as much as those before them."""


LOST = 1e15
"""Numbers of a state from which on sums with numbers near one are rounded to nothing, so that a motion has diverged."""


MOST = 3
"""Iterations of both starts together, as many times those of the first one, and so many times that where the second
one is cheaper by then."""


class Beginning(NamedTuple):
    """First trajectory of a solve: X (N+1, nx), U (N, nu), gaps (N, n), notes of its rollout, start: in words.

    motion: X, U that follow from the guess where other states are imposed, if they are finite.   noted: its notes.
    """

    X: Array
    U: Array
    gaps: Array
    notes: Array
    start: str
    motion: tuple[Array, Array] | None = None
    noted: Array = NO_NOTES


def start_policy(problem: Problem, guess: Start) -> Guess:
    """The policy that a guess means."""
    d, N = problem.dynamics, problem.horizon
    guess = as_guess(guess, d, N)
    if guess is None:
        guess = np.full((N, d.nu), as_array("dynamics.nominal_control", d.nominal_control(problem.x0), (d.nu,)))
    if isinstance(guess, np.ndarray):
        return Guess(np.full((N + 1, d.nx), problem.x0), guess, np.zeros((N, d.nu, d.n)), alone=True)
    if isinstance(guess, tuple):
        X, U = guess
        X[0] = problem.x0
        return Guess(X, U, np.zeros((N, d.nu, d.n)), imposed=True)
    X, U = guess.X.copy(), guess.U.copy()
    with np.errstate(all="ignore"):  # where x0 is far out there may be no number
        U[0] += guess.K[0] @ d.difference(X[0], problem.x0)
    X[0] = problem.x0
    return Guess(X, U, guess.K.copy(), earlier=guess)


def begun(problem: Problem, guess: Guess) -> Beginning:
    """The trajectory of a guess: its policy is rolled out, unless states are imposed or that leads nowhere."""
    d, U = problem.dynamics, guess.U
    closed = np.zeros((problem.horizon, d.n))
    held = np.clip(U, problem.lower, problem.upper) if problem.limited else U
    U = held if guess.imposed or guess.alone else U
    Xs, Us, notes = problem.track(guess.X, U, np.zeros(U.shape), guess.K, FULL, closed)
    X, rolled, noted = Xs[0], Us[0], notes[0] if len(notes) else notes
    instead = "" if guess.imposed else _no_motion(problem, guess, held, X, rolled, noted)
    start = "the states given" if guess.imposed else instead or "states that follow from the controls"
    if not guess.imposed and not instead:
        return Beginning(X, rolled, closed, noted, start)
    try:
        gaps = np.ascontiguousarray(d.difference(guess.X[1:], d.step(guess.X[:-1], held)))
    except ModelError:
        if guess.imposed:
            raise
        return Beginning(X, rolled, closed, noted, start)  # there is no motion from x0 either: where it ends is told
    if np.isfinite(X).all() and np.abs(d.difference(guess.X, X)).max() < CLOSED:
        return Beginning(X, held, closed, NO_NOTES, start)
    return Beginning(guess.X, held, gaps, NO_NOTES, start, (X, rolled) if np.isfinite(X).all() else None, noted)


def _no_motion(problem: Problem, guess: Guess, held: Array, X: Array, U: Array, noted: Array) -> str:
    """Why X and U that follow from a guess, with these notes, are no motion worth following; empty if they are.

    held: the controls of the guess within their limits.
    """
    diverges, beyond, before = not np.isfinite(X).all(), 0.0, 0.0
    if problem.constrained and not diverges:
        beyond, before = problem.violation(X, U), problem.violation(guess.X, held)
        if beyond < before:
            return ""
    rolled, stayed = np.inf if diverges else problem.total(X, U, noted), problem.total(guess.X, held)
    if guess.alone and rolled >= stayed and beyond > WORSE * max(before, CLOSED) and problem.rows.equal.any():
        return f"states that stay at x0, {before:.3g} from what constraints ask for: those that follow are {beyond:.3g}"
    # Costs may not be defined where a policy leads astray; of controls alone that is told, unless they diverge.
    if np.isnan(rolled) and not (guess.alone and np.abs(X).max() < LOST):
        rolled = np.inf
    if not (stayed < np.inf and rolled - stayed > ((WORSE if guess.alone else ASTRAY) - 1.0) * abs(stayed)):
        return ""
    following = "diverge" if diverges else f"cost {rolled:.3g}"
    if guess.alone:
        return f"states that stay at x0, which costs {stayed:.3g}: those that follow from the controls {following}"
    return f"the states of the guess, which cost {stayed:.3g}: those that its policy leads to {following}"
