# mypy: allow-untyped-defs, allow-untyped-calls
"""Robots with rods as a whole: mass, centre of mass, momentum and kinetic energy, from inverse dynamics.

The robot is put on a free base without mass, in the tree ``floating``. From rest, without gravity, accelerations (0, v)
take a force h of the base: the momentum about the world's origin, had these been velocities. So with τ = M (0, v)

    h = τ_base    D_i h = ∂τ_base/∂q_i    D_vi h = M_base,i    T = ½ v·τ    D_i T = ½ v·∂τ/∂q_i

and second derivatives are those of μ·τ: μ = (weight, 0) of momentum, (0, ½ v) of T. The first three rows of M are the
mass times the Jacobian of the centre of mass.
"""

from __future__ import annotations

import numpy as np
from numba import types

from ddp.compiling.kernel import kernel
from ddp.machine.fields import Fields, matrix_of, vector
from ddp.machine.memory import as_matrix, as_vector, memory_of, numbers_between, rows_at
from dynamics.rigid_bodies.batch import contracted
from dynamics.rigid_bodies.inverse import inverse_dynamics_derivatives, mass_matrix
from dynamics.rigid_bodies.kinematics import Workspace, clear, composites

_floats = rows_at(types.float64)


class Whole(Fields):
    """Arguments of inverse dynamics on a free base, M, ∂τ/∂q, ∂τ/∂v and the Hessian of μ·τ."""

    q, v, a, mu = vector("nq"), vector("nv"), vector("nv"), vector("nv")
    M, by_q, by_v = matrix_of("nv", "nv"), matrix_of("nv", "nv"), matrix_of("nv", "nv")
    qq, qv, vv, qa = matrix_of("nv", "nv"), matrix_of("nv", "nv"), matrix_of("nv", "nv"), matrix_of("nv", "nv")


@kernel
def whole_workspace(tree, like):
    """An array of working memory, of the number type of the array ``like``."""
    memory, base = _floats(64), tree.floating
    end = Whole(Workspace(memory, base).end, base).end
    return np.empty(numbers_between(memory, end), like.dtype)


@kernel
def in_memory(tree, memory):
    """The workspace and the record in an array that ``whole_workspace`` made."""
    ws = Workspace(memory_of(memory), tree.floating)
    return ws, Whole(ws.end, tree.floating)


@kernel
def place_whole(tree, q, v, memory):
    """Look at (q, v): composites, M and ∂τ/∂q of the robot on a free base."""
    base, (ws, x) = tree.floating, in_memory(tree, memory)
    for i in range(7):
        x.q[i] = 1.0 if i == 6 else 0.0
    for i in range(tree.nq):
        x.q[7 + i] = q[i]
    for i in range(base.nv):
        x.v[i] = 0.0
        x.a[i] = v[i - 6] if i >= 6 else 0.0
    clear(as_vector(x.M), 7 * base.nv * base.nv)
    composites(base, x.q, x.v, x.a, as_matrix(x.v, 0, 6), ws)
    mass_matrix(base, ws, x.M)
    inverse_dynamics_derivatives(base, ws, x.by_q, x.by_v)


@kernel
def curve_whole(tree, memory, weight, share):
    """The Hessian of weight·h + share T, weight (6,): of the first ∂²/∂q∂v in qa; of both ∂²/∂q² in qq."""
    base, (ws, x) = tree.floating, in_memory(tree, memory)
    for i in range(6):
        x.mu[i] = weight[i]
    for i in range(6, base.nv):
        x.mu[i] = 0.5 * share * x.a[i]
    contracted(base, x.mu, ws, x.qq, x.qv, x.vv, x.qa)
