# mypy: allow-untyped-defs, allow-untyped-calls
"""The kernels of the quantities of quantities.py over batches of samples; Hessians are zero before they are called."""

from __future__ import annotations

import numpy as np

from ddp.compiling.kernel import kernel
from dynamics.geometry.spatial import load6, store
from dynamics.quantities.center_of_mass import (
    inertial_workspace,
    place_center_of_mass,
    pull_back_center_of_mass,
)
from dynamics.quantities.energy import add_energy_curvature, energy_gradient, place_energy
from dynamics.quantities.frames import (
    add_twist_curvature,
    branch_workspace,
    frame_twist,
    place_frame,
    pull_back_displacement,
    twist_derivatives,
)
from dynamics.quantities.momentum import about, add_momentum_curvature, momentum_derivatives, place_momentum


@kernel
def write_columns(rows, places, out):
    """The columns ``places`` of out := rows; element by element, which compiles in a tenth of a slice's time."""
    for j in range(rows.shape[0]):
        for i in range(out.shape[0]):
            out[i, places[j]] = rows[j, i]


@kernel
def write_transposed(rows, out):
    """out := rowsᵀ."""
    for j in range(rows.shape[0]):
        for i in range(out.shape[0]):
            out[i, j] = rows[j, i]


@kernel
def center_of_mass(tree, Q, weight, c, dq, qq):
    """c (N, 3), ∂c/∂q (N, 3, nv), the Hessian of weight·c (N, nv, nv) of every sample."""
    nv = tree.nv
    memory, g, unused = inertial_workspace(tree, Q), np.empty((nv, 3)), np.zeros(nv)
    for t in range(Q.shape[0]):
        store(c, t, place_center_of_mass(tree, Q[t], memory, g))
        write_transposed(g, dq[t])
        w = (weight[t, 0], weight[t, 1], weight[t, 2])
        pull_back_center_of_mass(tree, memory, g, w, 0.0, 1.0, True, unused, qq[t])


@kernel
def frame_placement(branch, Q, weight, M, jacobian, qq):
    """M (N, 4, 4), its Jacobian (N, 6, nv) and the Hessian of weight·log6(M⁻¹ M(q ⊕ δ)) of every sample."""
    m = branch.count
    memory, J, G, unused = branch_workspace(branch, Q), np.zeros((m, 6)), np.zeros((6, 6)), np.zeros(jacobian.shape[2])
    for t in range(Q.shape[0]):
        R, p = place_frame(branch, Q[t], memory, J)
        for i in range(3):
            for j in range(3):
                M[t, i, j] = R[3 * i + j]
            M[t, i, 3] = p[i]
            M[t, 3, i] = 0.0
        M[t, 3, 3] = 1.0
        write_columns(J, branch.dof, jacobian[t])
        pull_back_displacement(branch, memory, J, load6(weight, t), G, 1.0, True, unused, qq[t])


@kernel
def frame_velocity(branch, reference, Q, V, weight, velocity, dq, dv, hessian):
    """The velocity (N, 6), its derivatives (N, 6, nv), the Hessian of weight·velocity (N, 2 nv, 2 nv)."""
    m, nv = branch.count, V.shape[1]
    memory, J, E = branch_workspace(branch, Q), np.zeros((m, 6)), np.zeros((m, 6))
    Dq, Dv = np.zeros((m, 6)), np.zeros((m, 6))
    for t in range(Q.shape[0]):
        R, p = place_frame(branch, Q[t], memory, J)
        local = frame_twist(branch, memory, J, V[t], E)
        store(velocity, t, twist_derivatives(reference, R, p, local, J, E, Dq, Dv))
        write_columns(Dq, branch.dof, dq[t])
        write_columns(Dv, branch.dof, dv[t])
        add_twist_curvature(branch, memory, reference, R, p, local, J, E, load6(weight, t), 1.0, nv, hessian[t])


@kernel
def energy(tree, Q, V, value, dq, dv, hessian):
    """E (N,), its derivatives (N, nv) and its Hessian (N, 2 nv, 2 nv)."""
    memory = inertial_workspace(tree, Q)
    for t in range(Q.shape[0]):
        value[t] = place_energy(tree, Q[t], V[t], memory)
        energy_gradient(tree, V[t], memory, dq[t], dv[t])
        add_energy_curvature(tree, memory, 1.0, hessian[t])


@kernel
def momentum(tree, at_center, Q, V, weight, value, dq, dv, hessian):
    """h (N, 6), its derivatives (N, 6, nv) and the Hessian of weight·h (N, 2 nv, 2 nv)."""
    nv = tree.nv
    memory, g, unused = inertial_workspace(tree, Q), np.empty((nv, 3)), np.zeros(nv)
    Dq, Dv = np.empty((nv, 6)), np.empty((nv, 6))
    for t in range(Q.shape[0]):
        mass, c, h = place_momentum(tree, Q[t], V[t], memory)
        momentum_derivatives(tree, at_center, mass, c, h, memory, g, Dq, Dv)
        store(value, t, about(at_center, c, h))
        write_transposed(Dq, dq[t])
        write_transposed(Dv, dv[t])
        w = load6(weight, t)
        add_momentum_curvature(tree, at_center, c, h, memory, g, Dq, Dv, w, 1.0, unused, hessian[t])
