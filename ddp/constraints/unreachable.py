"""Whether a knot's constraints can be met by any state, however it is reached, and any control within limits.

Violations are minimised from many states at once by the method of Levenberg and Marquardt. Where none of the minima
meets all bounds no motion can, as it would have to at this knot.
"""

from __future__ import annotations

import numpy as np

from ddp.constraints.rows import beyond
from ddp.problem import Problem
from ddp.protocols import Array

STEPS, DAMPED, FALL, RISE = 40, 1e-3, 0.2, 5.0
"""Steps, the first damping relative to the diagonal of JᵀJ, how it falls where a step helps, and rises elsewhere."""

MET = 1e-6
"""Violations of no more count as none, of bounds beyond one relative to these."""

EPSILON, TINY = 1e-12, 1e-300
"""Damping of what JᵀJ does not see, relative to its largest diagonal number, and where all of it is zero."""


class _Rows:
    """The hard rows (m,) of a knot, functions of M states and controls."""

    def __init__(self, problem: Problem, knot: int) -> None:
        here = [entry for entry in problem.placed if entry.start <= knot < entry.stop and entry.cap is None]
        self._constraints = [entry.constraint for entry in here]
        bounds = [(entry.lower[knot - entry.start], entry.upper[knot - entry.start]) for entry in here]
        self._lower, self._upper = (np.concatenate(sides) for sides in zip(*bounds, strict=True))

    def beyond(self, X: Array, U: Array) -> Array:
        """Violations (M, m): above the bounds positive, below negative."""
        c = np.concatenate([one.values(X, U) for one in self._constraints], axis=1)
        return beyond(c, self._lower, self._upper)

    def slopes(self, X: Array, U: Array, r: Array) -> Array:
        """Jacobians (M, m, nz) of violations r (M, m)."""
        J = np.concatenate([one.jacobian(X, U) for one in self._constraints], axis=1)
        return np.where((r == 0.0)[:, :, None], 0.0, J)

    def is_met(self, r: Array) -> bool:
        """Whether any of the states with violations r (M, m) meets all bounds."""
        sizes = (np.where(np.isfinite(bound), np.abs(bound), 1.0) for bound in (self._lower, self._upper))
        return bool((np.abs(r) <= MET * np.maximum(1.0, np.minimum(*sizes))).all(axis=1).any())


def is_met_nowhere(problem: Problem, knot: int, X: Array, U: Array) -> bool:
    """Whether none of the states X (M, nx) and controls U (M, nu) can be changed so that all constraints hold.

    Soft constraints need not hold. Limits of controls do; at the end of the horizon controls are zeros.
    """
    rows, system, shape = _Rows(problem, knot), problem.dynamics, (problem.horizon, U.shape[1])
    low, high = (problem.padded(np.broadcast_to(limit, shape))[knot] for limit in (problem.lower, problem.upper))
    U = np.clip(U, low, high)
    r = rows.beyond(X, U)
    J = rows.slopes(X, U, r)
    units = np.abs(J).max(axis=(0, 2))
    units[units == 0.0] = 1.0
    damping, diagonal = np.full((len(X), 1), DAMPED), np.arange(J.shape[2])
    for _ in range(STEPS):
        scaled = J / units[:, None]
        H = np.einsum("kia,kib->kab", scaled, scaled)
        sizes = H[:, diagonal, diagonal]
        H[:, diagonal, diagonal] += damping * sizes + EPSILON * sizes.max(axis=1, keepdims=True) + TINY
        step = -np.linalg.solve(H, np.einsum("kia,ki->ka", scaled, r / units)[:, :, None])[:, :, 0]
        moved = system.integrate(X, step[:, : system.n]), np.clip(U + step[:, system.n :], low, high)
        tried = rows.beyond(*moved)
        better = ((tried / units) ** 2).sum(axis=1, keepdims=True) < ((r / units) ** 2).sum(axis=1, keepdims=True)
        X, U, r = (np.where(better, *pair) for pair in zip((*moved, tried), (X, U, r), strict=True))
        if rows.is_met(r):
            return False
        J = rows.slopes(X, U, r)
        damping *= np.where(better, FALL, RISE)
    return True
