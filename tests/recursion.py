"""The backward recursion as textbooks write it, in dense numpy: what the compiled sweep is compared with."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp.derivatives import Derivatives

Array = NDArray[np.float64]


class Outcome(NamedTuple):
    """k (N, nu), K (N, nu, n), the slope along the policy, downwards, and the decrease that the model promises.

    u, pull (N, nu): the policy's step, and the model's gradient there.
    """

    k: Array
    K: Array
    d0: float
    expected: float
    u: Array
    pull: Array


def closed(closing, gap: Array, weight: Array) -> tuple[Array, Array]:
    """J and C of a gap."""
    n = len(gap)
    if closing.address == 0:
        return np.eye(n), np.zeros((n, n))
    out = np.stack([np.eye(n), np.zeros((n, n))])  # of which only some is written
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(closing.address)
    call(closing.context, gap.ctypes.data, weight.ctypes.data, out.ctypes.data)
    return out[0], out[1]


def dense_sweep(
    d: Derivatives, contract: Callable[[int, Array], Array], closing, blend: float, mu: float,
    gaps: Array | None = None, held: Array | None = None, by_costate: bool = False,
) -> Outcome:  # fmt: skip
    """All knots; ``contract(t, weight)``: the second order of the dynamics of knot t.

    held (N, nu): steps of controls that are constants, NaN of all others.
    """
    N, n, nu = d.B.shape
    gaps = np.zeros((N, n)) if gaps is None else gaps
    H = d.lzz + blend * (d.exact - d.lzz)
    k, K, models = np.zeros((N, nu)), np.zeros((N, nu, n)), []
    p = v = d.lz[N, :n]
    V = H[N, :n, :n] + mu * np.eye(n)
    for t in reversed(range(N)):
        v = v + V @ gaps[t]
        weight = p if by_costate else v
        J, C = closed(closing, gaps[t], weight) if gaps[t].any() else (np.eye(n), np.zeros((n, n)))
        F = np.hstack([d.A[t], d.B[t]])
        curved = H[t] + blend * (contract(t, J.T @ weight) + F.T @ C @ F)
        F = J @ F
        q, Q = d.lz[t] + F.T @ v, curved + F.T @ V @ F
        Q[n:, n:] += mu * np.eye(nu)
        models.append((F, curved, Q[n:].copy(), q[n:].copy()))
        p = d.lz[t, :n] + F[:, :n].T @ p
        free = np.ones(nu, dtype=bool) if held is None else np.isnan(held[t])
        rows = n + np.flatnonzero(free)
        k[t] = 0.0 if held is None else np.nan_to_num(held[t])
        q = q + Q[:, n:] @ k[t]
        k[t, free] = -np.linalg.solve(Q[np.ix_(rows, rows)], q[rows])
        K[t, free] = -np.linalg.solve(Q[np.ix_(rows, rows)], Q[rows, :n])
        to_controls = Q[:n, n:] + K[t].T @ Q[n:, n:]
        v = q[:n] + K[t].T @ q[n:] + to_controls @ np.where(free, k[t], 0.0)
        V = Q[:n, :n] + K[t].T @ Q[n:, :n] + to_controls @ K[t]
        V = 0.5 * (V + V.T) + mu * np.eye(n)
    x, slope, bent, steps, pulls = np.zeros(n), 0.0, 0.0, [], []
    for t, (F, curved, Q, q) in enumerate(reversed(models)):
        z = np.concatenate([x, k[t] + K[t] @ x])
        slope += d.lz[t] @ z
        bent += 0.5 * (z @ curved @ z + mu * z @ z)
        x = gaps[t] + F @ z
        steps.append(z[n:])
        pulls.append(q + Q @ z)
    slope += d.lz[N, :n] @ x
    bent += 0.5 * (x @ H[N, :n, :n] @ x + mu * x @ x)
    return Outcome(k, K, -slope, -slope - bent, np.array(steps), np.array(pulls))
