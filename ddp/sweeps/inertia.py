"""Second-order conditions: which curvatures the Hessian of the total cost in the controls has.

With z = (dx, du), F = [A B] and H the Hessian of the Lagrangian in z, controls are eliminated from the last knot on:

    Q = H + Fᵀ V F,    Q_uu = E diag(w) Eᵀ,    V = Q_xx - Q_xu Q_uu⁻¹ Q_ux

Inertia adds up over Schur complements (Haynsworth 1968): all w have the signs of the whole Hessian's eigenvalues.
Where the last w < 0 is met, the value V is that of a minimum: under the gains of the knots that follow, the cost falls
by ½ |w| α² along α e. It is written for clarity, for trajectories where the compiled sweep has failed.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp.protocols import Array

MINIMUM, SADDLE, MAXIMUM, UNKNOWN = "minimum", "saddle", "maximum", "unknown"

ROUNDING = 1e-12
"""Eigenvalues of Q_uu that are smaller than this, relative to what it is a sum of, have no sign."""

SINGLE = 64
"""Flat directions that are tried one by one, at most: spread evenly over all of them."""


class Inertia(NamedTuple):
    """Numbers of curvatures that are negative, positive, and zero to rounding.

    policies: (k (N, nu), K (N, nu, n)) of steps ``α k + K dx`` along curvature that is not positive: of the last knot
        with negative one, along which the cost falls for certain, or with none; and of all knots at once. Empty where
        all of it is positive.
    further: more of them where nothing is negative: one flat direction of every knot at once, for each in turn, then
        one direction of one knot alone, as a cost may fall along one flat direction and rise faster along the others.
    knot, lowest: that knot, and its curvature.
    """

    negative: int
    positive: int
    zero: int
    policies: tuple[tuple[Array, Array], ...] = ()
    knot: int = -1
    lowest: float = 0.0
    further: tuple[tuple[Array, Array], ...] = ()

    @property
    def kind(self) -> str:
        """Kind of a stationary trajectory; unknown where curvatures that are zero decide."""
        if self.negative == 0:
            return MINIMUM if self.zero == 0 else UNKNOWN
        return MAXIMUM if self.positive == self.zero == 0 else SADDLE


def inertia(A: Array, B: Array, H: Array, free: NDArray[np.bool_]) -> Inertia:
    """Inertia of Hessians H (N+1, nz, nz) under A (N, n, n), B (N, n, nu), for the controls that are free (N, nu)."""
    N, n, nu = B.shape
    negative = positive = zero = 0
    k, K, knot, lowest = np.zeros((N, nu)), np.zeros((N, nu, n)), -1, np.inf
    V = H[N, :n, :n]
    each: list[tuple[int, int, Array]] = []
    for t in range(N - 1, -1, -1):
        F, own = np.concatenate([A[t], B[t]], axis=1), free[t]
        Q = H[t] + F.T @ V @ F
        size = np.abs(H[t, n:, n:]) + np.abs(B[t]).T @ np.abs(V) @ np.abs(B[t])
        w, E = np.linalg.eigh(Q[n:, n:][own][:, own])
        smallest = ROUNDING * size.max() if size.any() else np.finfo(float).tiny
        down, up = w < -smallest, w > smallest
        negative, positive = negative + int(down.sum()), positive + int(up.sum())
        zero += int((~down & ~up).sum())
        crossed = E.T @ Q[n:, :n][own]
        deepest = float(w[0]) if down.any() else 0.0
        w = np.where(down | up, w, smallest)
        V = Q[:n, :n] - crossed.T @ (crossed / w[:, None])
        V = 0.5 * (V + V.T)
        if not up.all():
            e = E[:, ~up] * np.sign(E[np.abs(E).argmax(axis=0), np.arange(len(w))][~up])
            k[t, own] = e.sum(axis=1) / np.abs(e.sum(axis=1)).max()
            if knot < 0 or (lowest == 0.0 and deepest < 0.0):
                knot, lowest, along = t, deepest, np.zeros((N, nu))
                along[t, own] = E[:, 0] / np.abs(E[:, 0]).max()
            for i, direction in enumerate(e.T):
                whole = np.zeros(nu)
                whole[own] = direction / np.abs(direction).max()
                each.append((t, i, whole))
        K[t, own] = -(E * up) @ (crossed / w[:, None])
    if knot < 0:
        return Inertia(negative, positive, zero)
    further = () if negative else tuple((way, K) for way in _apart(each, (N, nu)))
    return Inertia(negative, positive, zero, ((along, K), (k, K)), knot, lowest, further)


def _apart(each: list[tuple[int, int, Array]], shape: tuple[int, int]) -> list[Array]:
    """Steps k (N, nu) along flat directions (knot, number, direction): of one number at all knots, then one by one."""
    ways: list[Array] = []
    for number in range(max(i for _, i, _ in each) + 1):
        ways.append(np.zeros(shape))
        for t, i, direction in each:
            if i == number:
                ways[-1][t] = direction
    for chosen in np.unique(np.linspace(0, len(each) - 1, SINGLE).astype(int)).tolist():
        t, _, direction = each[chosen]
        ways.append(np.zeros(shape))
        ways[-1][t] = direction
    return ways
