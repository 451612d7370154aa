# mypy: allow-untyped-defs, allow-untyped-calls
"""Torques of controls, and those that joints exert of themselves: springs and viscous friction.

    τ_i = -stiffness_i (q_i - springref_i) - damping_i v_i

Springs act on joints whose position is a number in q. Discrete steps and motion under contacts add these torques to
those of controls; inverse and forward dynamics know rigid bodies alone, as Pinocchio's do. They are linear in q and v:
first derivatives gain constants on the diagonal, and second ones nothing but by the chain rule.
"""

from collections.abc import Sequence

import numpy as np

from ddp.compiling.kernel import inline, kernel
from ddp.protocols import Array
from dynamics.robots.tree import Tree
from dynamics.rods.forces import add_internal_forces
from dynamics.rods.memory import has_rod


@inline
def passive_torque(tree, i, q, v):
    """τ_i."""
    torque = -tree.damping[i] * v[i]
    if tree.stiffness[i] != 0.0:
        b = tree.body[i]
        torque -= tree.stiffness[i] * (q[tree.iq[b] + i - tree.iv[b]] - tree.springref[i])
    return torque


@kernel
def actuate(tree, pulls, u, q, v, tau):
    """τ := S u and what joints exert of themselves; pulls (., 4): ``entries_of`` S, rows of floats."""
    e = 0
    for i in range(tree.nv):
        total = passive_torque(tree, i, q, v)
        while e < len(pulls) and pulls[e, 0] == i:
            total += pulls[e, 2] * u[int(pulls[e, 1])]
            e += 1
        tau[i] = total


@kernel
def drive(pulls, m, nu, Kinv, zu):
    """zu (m, nu) := K⁻¹ S, of the columns of K⁻¹ that belong to degrees of freedom; zu may be wider."""
    for i in range(m):
        for j in range(nu):
            zu[i, j] = 0.0
    for e in range(len(pulls)):
        k, j = int(pulls[e, 0]), int(pulls[e, 1])
        for i in range(m):
            zu[i, j] += pulls[e, 2] * Kinv[i, k]


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
        for b in range(tree.nb):
            if has_rod(tree, b):
                add_internal_forces(tree, b, -1.0, Q[t], V[t], tau[t])


def passive_torques(tree: Tree, Q: Array, V: Array) -> Array:
    """τ (N, nv) at Q (N, nq), V (N, nv)."""
    tau: Array = np.zeros((len(V), tree.nv))
    if tree.damping.any() or tree.stiffness.any() or tree.room:
        _torques(tree, np.ascontiguousarray(Q), np.ascontiguousarray(V), tau)
    return tau


def entries_of(S: Array, prescribed: Sequence[int] = ()) -> Array:
    """(row, column, entry, 0) of all that S (nv, nu) has but zeros, row after row: few, of most robots.

    prescribed: degrees of freedom whose control is their acceleration, 1 in the last column.
    """
    rows, columns = np.nonzero(S)
    return np.column_stack([rows, columns, S[rows, columns], np.isin(rows, np.asarray(prescribed, dtype=np.int64))])
