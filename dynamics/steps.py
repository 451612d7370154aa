"""One step of semi-implicit Euler, v' = v + h a(q, v, u), q' = q ⊕ h v', and rollouts of many."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ddp.kernel import kernel
from dynamics.configuration import difference_state, integrate_configuration
from dynamics.forward import forward_dynamics, is_positive
from dynamics.kinematics import workspace


class Step(NamedTuple):
    """Scratch of one step: the mass matrix's factors LD (nv, nv) and D (nv,), torques and accelerations (nv,)."""

    LD: np.ndarray
    D: np.ndarray
    tau: np.ndarray
    a: np.ndarray


@kernel
def step_scratch(tree):
    """Scratch for steps of a tree."""
    nv = tree.body.size
    return Step(np.empty((nv, nv)), np.empty(nv), np.empty(nv), np.empty(nv))


@kernel
def actuate(S, u, tau):
    """τ = S u."""
    for i in range(tau.size):
        total = 0.0
        for j in range(u.size):
            total += S[i, j] * u[j]
        tau[i] = total


@kernel
def euler_step(tree, S, h, x, u, no_fext, ws, scratch, xn):
    """x' of one step; False where the mass matrix is not positive definite or a number is not finite."""
    nv = tree.body.size
    nq = x.size - nv
    q, v = x[:nq], x[nq:]
    actuate(S, u, scratch.tau)
    forward_dynamics(tree, q, v, scratch.tau, no_fext, ws, scratch.LD, scratch.D, scratch.a)
    for i in range(nv):
        xn[nq + i] = v[i] + h * scratch.a[i]
    integrate_configuration(tree, q, xn[nq:], h, xn)
    return is_positive(scratch.D, scratch.a)


@kernel
def track(tree, S, h, X, U, k, K, alpha, Xn, Un):
    """Closed-loop rollout from X[0]: u = U + α k + K (x ⊖ X); NaN from the first knot where it diverges."""
    no_fext = np.zeros((0, 6))
    ws, scratch = workspace(tree, X), step_scratch(tree)
    dx = np.zeros(2 * tree.body.size)
    Xn[0] = X[0]
    for t in range(U.shape[0]):
        difference_state(tree, X[t], Xn[t], dx)
        for i in range(U.shape[1]):
            total = U[t, i] + alpha * k[t, i]
            for j in range(dx.size):
                total += K[t, i, j] * dx[j]
            Un[t, i] = total
        if not euler_step(tree, S, h, Xn[t], Un[t], no_fext, ws, scratch, Xn[t + 1]):
            Xn[t + 1 :] = np.nan
            Un[t + 1 :] = np.nan
            return


@kernel
def rollout(tree, S, h, U, X):
    """Open-loop rollout from X[0]; NaN from the first knot where it diverges."""
    no_fext = np.zeros((0, 6))
    ws, scratch = workspace(tree, X), step_scratch(tree)
    for t in range(U.shape[0]):
        if not euler_step(tree, S, h, X[t], U[t], no_fext, ws, scratch, X[t + 1]):
            X[t + 1 :] = np.nan
            return
