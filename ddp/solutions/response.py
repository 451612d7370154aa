"""Response of an optimum to the numbers that its problem depends on: a linear-quadratic problem about it.

With parameters θ (P,), z = (dx, du), the Hessian H of the Lagrangian, and changes ν of the multipliers that hold,

    min  Σ_k ½ zᵀ H z + zᵀ c θ,     dx' = A dx + B du + S θ,     dx_0 = F θ,     C z + r θ = D ν

is swept backward as in Riccati's recursion, with a column of linear terms for each θ and each ν of a constraint that
does not give way, D = 0. The minimum is a quadratic form in (dx_0, θ, ν), stationary in ν. What gives way is a cost.
It is written for clarity, for one trajectory at a time.

States, controls, constraints and the cost may be in any units. Numbers are compared after `compliances` of controls and
constraints have made them comparable: those change with the units as what they are compared with does.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp.protocols import Array

NOTHING = 1e-15
"""Share of the largest eigenvalue of a matrix that is none."""

ROUNDING = 1e-12
"""Constraints reach nowhere if by no more than this share of what their reach is a sum of; and costs are not curved
along a control where that is no more than this share of their curvature at other knots."""


class Quadratic(NamedTuple):
    """A linear-quadratic problem about an optimum, but for what depends on parameters.

    A (N, n, n), B (N, n, nu), H (N+1, nz, nz).   free (N, nu): controls that no limit holds.
    C (N+1, nz, a): of the constraints that hold, each at its knot.   give (a,): D, how far they give way.
    yields (N, nu), reach (a,): compliances of controls and constraints, see `compliances`.
    """

    A: Array
    B: Array
    H: Array
    free: NDArray[np.bool_]
    C: Array
    give: Array
    yields: Array
    reach: Array


class Slopes(NamedTuple):
    """Slopes by P parameters: c (N+1, nz, P), S (N, n, P), r (a, P), F (n, P), and du (N, nu, P).

    du: of controls that a limit holds, which go with it.
    """

    c: Array
    S: Array
    r: Array
    F: Array
    du: Array


class Response(NamedTuple):
    """Changes dX (N+1, n, P), dU (N, nu, P), nu (a, P); form (P, P): ½ θᵀ form θ is the minimum."""

    dX: Array
    dU: Array
    nu: Array
    form: Array


def response(about: Quadratic, by: Slopes) -> Response:
    """Find the response of a linear-quadratic problem to its parameters; controls that act on nothing stay."""
    (A, B, H, free, C, give, yields, reach), (c, S, r, F, held) = about, by
    (N, n, nu), P, a = B.shape, r.shape[1], len(give)
    moves = bool(held.any())
    form = np.zeros((P, P))
    if moves:
        du = np.concatenate([held, np.zeros((1, nu, P))])
        bent = H[:, :, n:] @ du
        cross = np.einsum("kip,kiq->pq", du, c[:, n:])
        form += cross + cross.T + np.einsum("kip,kiq->pq", du, bent[:, n:])
        c, S, r = c + bent, S + B @ held, r + np.einsum("kia,kip->ap", C[:, n:], du)
    hard, moved = give == 0.0, reach > 0.0
    price = 1.0 / np.where(hard, np.where(moved, reach, np.inf), give)  # constraints alone may make Hessians definite
    priced = C * price
    H, c = H + priced @ C.transpose(0, 2, 1), c + priced @ r
    form += r.T @ (price[:, None] * r)
    V, v, M, K, k = _swept(
        A, B, H, np.concatenate([c, C * hard], axis=2), np.concatenate([S, np.zeros((N, n, a))], axis=2), free,
        np.sqrt(yields.max(axis=0)),
    )  # fmt: skip
    v_F = F.T @ v
    crossed = M[P:, :P] + hard[:, None] * r + v_F[:, P:].T
    nu_of = -_inverse(M[P:, P:], np.sqrt(price) * hard) @ crossed
    form += M[:P, :P] + F.T @ V @ F + v_F[:, :P] + v_F[:, :P].T + crossed.T @ nu_of
    k = k[:, :, :P] + k[:, :, P:] @ nu_of
    dX, dU = np.zeros((N + 1, n, P)), np.zeros((N, nu, P))
    dX[0] = F
    for t in range(N):
        dU[t] = K[t] @ dX[t] + k[t]
        dX[t + 1] = A[t] @ dX[t] + B[t] @ dU[t] + S[t]
    along = np.einsum("kia,kip->ap", C, np.concatenate([dX, np.append(dU, np.zeros((1, nu, P)), axis=0)], axis=1))
    return Response(dX, dU + held, nu_of + price[:, None] * (along + r), form)


def compliances(A: Array, B: Array, H: Array, free: NDArray[np.bool_], C: Array) -> tuple[Array, Array]:
    """Compliances of controls (N, nu) and of constraints (a,): their change at a multiplier of one, roughly.

    A control yields by one over the curvature of the cost along it, other controls kept. Constraints reach as far as
    such changes of all controls, each for itself, add up to. 0: what is held, and what changes no cost or constraint.
    """
    curved = _curvature(A, B, np.abs(np.einsum("kii->ki", H)))
    bent = curved > ROUNDING * curved.max(axis=0)
    yields = np.divide(1.0, curved, out=np.zeros_like(curved), where=free & bent)
    reach, flat = _reach(A, B, C, yields), free & ~bent
    if flat.any():  # constraints alone tell how far these controls go, if anything does
        size = np.square(np.abs(C).max(axis=(0, 1), initial=1e-150))
        weights = np.divide(1.0, reach, out=np.zeros_like(reach), where=reach > 0.0)
        curved = _curvature(A, B, C**2 @ (weights if weights.any() else 1.0 / size))
        yields = np.divide(1.0, curved, out=yields, where=flat & (curved > 0.0))
        reach = _reach(A, B, C, yields)
    return yields, reach


def _reach(A: Array, B: Array, C: Array, yields: Array) -> Array:
    """How far constraints (a,) reach by controls that yield."""
    (N, n), spread = B.shape[:2], np.zeros((B.shape[1], B.shape[1]))
    reach, sums = np.zeros((2, C.shape[2]))
    for t in range(N + 1):
        by_states = C[t, :n]
        reach += (by_states * (spread @ by_states)).sum(axis=0)
        sums += (np.abs(by_states) * (np.abs(spread) @ np.abs(by_states))).sum(axis=0)
        if t < N:
            by_controls = yields[t] @ C[t, n:] ** 2
            reach, sums = reach + by_controls, sums + by_controls
            spread = A[t] @ spread @ A[t].T + B[t] * yields[t] @ B[t].T
    return np.where(reach > ROUNDING * sums, reach, 0.0)


def _curvature(A: Array, B: Array, diagonal: Array) -> Array:
    """Curvature (N, nu) along each control of the sum of squares with Hessians ``diagonal`` (N+1, nz)."""
    N, n, nu = B.shape
    curved = np.zeros((N, nu))
    along = np.diag(diagonal[N, :n])
    for t in reversed(range(N)):
        curved[t] = diagonal[t, n:] + (B[t] * (along @ B[t])).sum(axis=0)
        along = np.diag(diagonal[t, :n]) + A[t].T @ along @ A[t]
    return curved


def _swept(
    A: Array, B: Array, H: Array, c: Array, S: Array, free: NDArray[np.bool_], units: Array
) -> tuple[Array, ...]:
    """Sweep backward: V, v, M of the minimum ½ dx_0ᵀ V dx_0 + dx_0ᵀ v θ + ½ θᵀ M θ, and K, k of du = K dx + k θ.

    units (nu,): of controls.
    """
    (N, n, nu), P = B.shape, c.shape[2]
    V, v, M = H[N, :n, :n], c[N, :n], np.zeros((P, P))
    K, k = np.zeros((N, nu, n)), np.zeros((N, nu, P))
    F = np.concatenate([A, B], axis=2)
    for t in reversed(range(N)):
        BF, moved = F[t], np.flatnonzero(free[t])
        u = n + moved
        M += S[t].T @ V @ S[t] + S[t].T @ v + v.T @ S[t]
        Q, q = H[t] + BF.T @ V @ BF, c[t] + BF.T @ (v + V @ S[t])
        inverse = _inverse(Q[np.ix_(u, u)], units[moved])  # controls of impacts act on nothing
        K[t, moved], k[t, moved] = -inverse @ Q[u, :n], -inverse @ q[u]
        V, v = Q[:n, :n] + Q[:n, u] @ K[t, moved], q[:n] + Q[:n, u] @ k[t, moved]
        V = 0.5 * (V + V.T)  # or else rounding grows from knot to knot
        M += q[u].T @ k[t, moved]
    return V, v, 0.5 * (M + M.T), K, k


def _inverse(S: Array, units: Array) -> Array:
    """Pseudo-inverse of a symmetric matrix in units (n,), as that of NumPy, which takes several times as long."""
    among = np.outer(units, units)
    values, axes = np.linalg.eigh(among * S)
    some = np.abs(values) > NOTHING * np.abs(values).max(initial=0.0)
    return np.asarray(among * ((axes[:, some] / values[some]) @ axes[:, some].T))
