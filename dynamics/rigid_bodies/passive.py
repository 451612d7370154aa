# mypy: allow-untyped-defs, allow-untyped-calls
"""Torques that joints exert of themselves: springs and viscous friction.

    τ_i = -stiffness_i (q_i - springref_i) - damping_i v_i

Springs act on joints whose position is a number in q. Discrete steps and motion under contacts add these torques to
those of controls; inverse and forward dynamics know rigid bodies alone, as Pinocchio's do. They are linear in q and v:
first derivatives gain constants on the diagonal, and second ones nothing but by the chain rule.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ddp.compiling.kernel import inline, kernel
from dynamics.robots.tree import Tree

Array = NDArray[np.float64]


@inline
def passive_torque(tree, i, q, v):
    """τ_i."""
    torque = -tree.damping[i] * v[i]
    if tree.stiffness[i] != 0.0:
        b = tree.body[i]
        torque -= tree.stiffness[i] * (q[tree.iq[b] + i - tree.iv[b]] - tree.springref[i])
    return torque


@kernel
def actuate(tree, S, u, q, v, tau):
    """τ := S u and what joints exert of themselves."""
    for i in range(tau.size):
        total = passive_torque(tree, i, q, v)
        for j in range(u.size):
            total += S[i, j] * u[j]
        tau[i] = total


@inline
def resist(tree, dq, dv):
    """Add -∂τ/∂q and -∂τ/∂v to the derivatives of inverse dynamics."""
    for i in range(tree.nv):
        if tree.stiffness[i] != 0.0:
            dq[i, i] += tree.stiffness[i]
        dv[i, i] += tree.damping[i]


@kernel
def _torques(tree, Q, V, tau):
    for t in range(tau.shape[0]):
        for i in range(tau.shape[1]):
            tau[t, i] = passive_torque(tree, i, Q[t], V[t])


def passive_torques(tree: Tree, Q: Array, V: Array) -> Array:
    """τ (N, nv) at Q (N, nq), V (N, nv)."""
    tau: Array = np.zeros((len(V), tree.nv))
    if tree.damping.any() or tree.stiffness.any():
        _torques(tree, np.ascontiguousarray(Q), np.ascontiguousarray(V), tau)
    return tau
