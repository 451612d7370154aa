"""Motions that come sooner as a whole, where linear steps hardly move them in time.

A robot that rests before it moves, or after, may move sooner or later at nearly the same cost. Exact Hessians are not
positive definite in this valley, and the convex ones that take their place move a motion by a knot or less in an
iteration: an acrobot's swing-up by 12 knots in 58 iterations. Here it comes 1, 2, 4, ... knots sooner for as long as
that pays, and its multipliers with it. Controls follow it from the initial state under the gains of the last sweep, so
that hardly a gap is left, and hold the last state at the end.
"""

import numpy as np

from ddp.constraints.placement import moved, shifted
from ddp.errors import as_array
from ddp.interior.memory import POINT
from ddp.interior.point import Point
from ddp.machine.written import assign, read_all
from ddp.starts import FULL

FURTHEST = 4
"""A motion comes sooner by no more than the horizon divided by this, at once."""

PAYS = 1e-6
"""Share of its worth by which a motion has to be better."""

OPEN = 0.1
"""2-norm of what may be open before and afterwards: prices of larger gaps say little, and arms came to fall first."""

WORTH = "cost", "penalty", "theta", "gap", "missed", "gauging"
"""Numbers of a point that change."""


def travel(point: Point) -> int:
    """Let a point's motion come sooner, after a step; by how many knots, 0 where that does not pay.

    Cost and barrier have to fall, with what is open at its price, too, and below those of the motion without gaps.
    """
    if point.theta > OPEN:
        return 0
    try:
        moves = Moves(point)
    except Exception:  # nothing holds the last state, or a user's own code fails there, too
        return 0
    worth, found, knots = worth_of(point), 0, 1
    while knots * FURTHEST <= point.problem.horizon:
        tried = moves.to(knots)
        if not tried < worth - PAYS * abs(worth):
            break
        worth, found, knots = tried, knots, 2 * knots
    if found and moves.to(0) > worth:
        moves.to(found)
        return found
    moves.back()
    return 0


class Moves:
    """Moves of a point in time, from where it is now."""

    def __init__(self, point: Point) -> None:
        p, d = point, point.problem.dynamics
        self._hold = as_array("dynamics.nominal_control", d.nominal_control(p.X[-1]), (d.nu,), finite=False)
        self._point, self._most = p, p.cost + p.penalty
        self._arrays = {name: p.place.own[name].copy() for name in POINT}
        self._state, self._numbers = p.bounds.state.copy(), dict(zip(WORTH, read_all(p.memory, WORTH), strict=True))
        self._y, self._K = p.bounds.multipliers, p.backward.policy[1].copy()

    def to(self, knots: int) -> float:
        """Let the motion come so many knots sooner; what it is worth then, infinite where there is no such motion."""
        p, problem, kept = self._point, self._point.problem, self._arrays
        X, U, K = (moved(rows, knots) for rows in (kept["X"], kept["U"], self._K))
        X[0], U[len(U) - knots :] = problem.x0, self._hold
        try:
            Xs, Us, _ = problem.track(X, U, np.zeros_like(U), K, FULL, np.zeros((len(U), problem.dynamics.n)))
            if not (np.isfinite(Xs).all() and np.isfinite(Us).all()):
                return np.inf
            p.X[:], p.U[:] = Xs[0], Us[0]
            p.costate[:], p.weights[:] = moved(kept["costate"], knots), moved(kept["weights"], knots)
            p.resume(shifted(p.rows.placed, problem.horizon, self._y, knots), p.barrier / p.scale)
        except Exception:  # there is no motion, or a user's own code fails at states that no solve has come to
            return np.inf
        return worth_of(p) if p.theta <= OPEN and p.cost + p.penalty < self._most else np.inf

    def back(self) -> None:
        """Put the point where it was."""
        p = self._point
        for name, array in self._arrays.items():
            p.place.own[name][:] = array
        p.bounds.state[:] = self._state
        assign(p.memory, self._numbers | {"contracted": 0, "valued": 0})


def worth_of(point: Point) -> float:
    """Cost and barrier function of a point, and what is open at the price of its multipliers, as absolute numbers."""
    p = point
    priced = np.abs(p.weights * p.gaps).sum() + np.abs(p.bounds.multipliers * p.residual).sum()
    return float(p.cost + p.penalty + priced)
