# mypy: allow-untyped-defs, allow-untyped-calls
"""Rollouts of a robot's discrete steps, open loop and closed loop; ``stages`` is 0 for semi-implicit Euler."""

from __future__ import annotations

import numpy as np

from ddp.compiling.kernel import inline, kernel
from dynamics.geometry.configuration import difference_state, integrate_state
from dynamics.rigid_bodies.kinematics import workspace
from dynamics.steps.runge_kutta import explicit_step, stages_scratch
from dynamics.steps.semi_implicit_euler import euler_step, step_scratch


@kernel
def step(tree, S, h, x, u, no_fext, ws, scratch, s, xn):
    """x' of one step, of the method that s has room for."""
    if s.v.shape[0] == 0:
        return euler_step(tree, S, h, x, u, no_fext, ws, scratch, xn)
    return explicit_step(tree, S, h, x, u, no_fext, ws, scratch, s, xn)


@inline
def clipped(u, lower, upper):
    """u within its limits; NaN stays NaN."""
    return lower if u < lower else (upper if u > upper else u)


@kernel
def scaled(factor, gap, out):
    """out := factor gap, and whether any of it is not zero."""
    moved = False
    for i in range(gap.size):
        out[i] = factor * gap[i]
        moved = moved or out[i] != 0.0
    return moved


@kernel
def track(tree, S, h, stages, X, U, k, K, alphas, gaps, lower, upper, Xs, Us):
    """Closed-loop rollouts from X[0], one for each α: u = clip(U + α k + K (x ⊖ X)), x' = f(x, u) ⊕ (α - 1) gap."""
    no_fext = np.zeros((0, 6))
    ws, scratch = workspace(tree, X), step_scratch(tree)
    s = stages_scratch(tree, X.shape[1] - tree.body.size, stages)
    dx = np.zeros(2 * tree.body.size)
    for m in range(alphas.size):
        alpha, Xn, Un = alphas[m], Xs[m], Us[m]
        Xn[0] = X[0]
        for t in range(U.shape[0]):
            difference_state(tree, X[t], Xn[t], dx)
            for i in range(U.shape[1]):
                total = U[t, i] + alpha * k[t, i]
                for j in range(dx.size):
                    total += K[t, i, j] * dx[j]
                Un[t, i] = clipped(total, lower[t, i], upper[t, i])
            if not step(tree, S, h, Xn[t], Un[t], no_fext, ws, scratch, s, Xn[t + 1]):
                Xn[t + 1 :] = np.nan
                Un[t + 1 :] = np.nan
                break
            if scaled(alpha - 1.0, gaps[t], dx):
                integrate_state(tree, Xn[t + 1], dx, Xn[t + 1])


@kernel
def rollout(tree, S, h, stages, U, X):
    """Open-loop rollout from X[0]; NaN from the first knot where it diverges."""
    no_fext = np.zeros((0, 6))
    ws, scratch = workspace(tree, X), step_scratch(tree)
    s = stages_scratch(tree, X.shape[1] - tree.body.size, stages)
    for t in range(U.shape[0]):
        if not step(tree, S, h, X[t], U[t], no_fext, ws, scratch, s, X[t + 1]):
            X[t + 1 :] = np.nan
            return
