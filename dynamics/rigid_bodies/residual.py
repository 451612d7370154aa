# mypy: allow-untyped-defs, allow-untyped-calls
"""Residual of motion, with its derivatives to second order: the one equation of implicit steps and of statics.

    R(q, v, a, u) = ID(q, v, a) - S u - torques of springs and friction            see passive.py
                  + forces of rods' elasticity, viscosity and tendons              see rods/forces.py
                  - torques of surfaces, water and wrenches                        see loads.py

A force that is to act in implicit steps and at rest enters here, in each of the functions. Needs no inverse of the mass
matrix. Matrices come in as zeros: entries between unrelated degrees of freedom are not written.
"""

from typing import Any

import numpy as np

from ddp.compiling.kernel import kernel
from ddp.machine.aligned import working_memory
from ddp.machine.fields import Fields, matrix_of, vector
from ddp.machine.memory import as_matrix, as_vector, columns_of, memory_of, rows_of
from ddp.protocols import Array
from dynamics.rigid_bodies.hessian import inverse_dynamics_hessian, virtual_velocities
from dynamics.rigid_bodies.inverse import generalized_forces, inverse_dynamics_derivatives, mass_matrix
from dynamics.rigid_bodies.kinematics import Workspace, clear, forces, place_bodies, sum_composites, sum_forces
from dynamics.rigid_bodies.loads import FORCES, RATES, VIRTUAL, add_wrench_columns, see_loads
from dynamics.rigid_bodies.loops import hold_bodies, see_errors
from dynamics.rigid_bodies.passive import actuate, entries_of, resist
from dynamics.robots.tree import Tree
from dynamics.rods.forces import (
    add_internal_forces,
    add_internal_stiffness,
    add_tendon_columns,
    add_tendon_curvature,
    add_tendon_forces,
    add_tendon_stiffness,
)
from dynamics.rods.loads import add_carried_curvature, add_carried_loads
from dynamics.rods.memory import has_rod


@kernel
def residual(tree, loops, pulls, q, v, a, u, no_fext, force, ws, lp, tau, R):
    """R - Jᵀ force, with forces of loops, and e of these in lp; tau (nv,): scratch."""
    place_bodies(tree, q, True, ws)
    forces(tree, v, a, no_fext, ws)
    see_loads(tree, q, u, ws, FORCES)
    see_errors(tree, loops, q, ws, lp)
    hold_bodies(loops, force, ws, lp)
    sum_forces(tree, ws)
    add_all_forces(tree, pulls, q, v, a, u, ws, tau, R)


@kernel
def add_all_forces(tree, pulls, q, v, a, u, ws, tau, R):
    """R, of the summed forces of bodies; tau (nv,): scratch."""
    generalized_forces(tree, a, ws, R)
    actuate(tree, pulls, u, q, v, tau)
    for i in range(tree.nv):
        R[i] -= tau[i]
    for b in range(tree.nb):
        if has_rod(tree, b):
            add_internal_forces(tree, b, 1.0, q, v, R)
            add_tendon_forces(tree, b, ws, 1.0, q, u, R)


@kernel
def residual_derivatives(tree, pulls, q, v, a, u, no_fext, ws, tau, R, Rq, Rv, M):
    """R, and its derivatives R_q, R_v and M by q, v, a; tau (nv,): scratch."""
    place_bodies(tree, q, True, ws)
    forces(tree, v, a, no_fext, ws)
    see_loads(tree, q, u, ws, RATES)
    sum_composites(tree, ws)
    mass_matrix(tree, ws, M)
    inverse_dynamics_derivatives(tree, ws, Rq, Rv)
    add_carried_loads(tree, ws, M, Rq, Rv)
    resist(tree, Rq, Rv)
    add_all_forces(tree, pulls, q, v, a, u, ws, tau, R)
    for b in range(tree.nb):
        if has_rod(tree, b):
            add_internal_stiffness(tree, b, Rq, Rv)
            add_tendon_stiffness(tree, b, ws, q, u, Rq)


@kernel
def residual_by_controls(tree, pulls, q, scale, column, ws, Ru):
    """Add scale ∂R/∂u = scale (B - S) to the columns of Ru from ``column`` on; needs placements of bodies."""
    add_wrench_columns(tree, scale, column, False, ws, Ru)
    for b in range(tree.nb):
        if has_rod(tree, b):
            add_tendon_columns(tree, b, ws, scale, q, column, Ru)
    for e in range(len(pulls)):
        i, j = int(pulls[e, 0]), int(pulls[e, 1])
        Ru[i, column + j] -= scale * pulls[e, 2]


@kernel
def residual_hessian(tree, q, v, a, u, omega, no_fext, ws, qq, qv, vv, qa, qu):
    """Hessian of ω·R: qq (iterated: row first derivative, column second), qv, vv, qa, qu; the others vanish.

    u, qu (nv, cables): of the tensions of tendons and of wrenches alone, which are the first controls.
    """
    place_bodies(tree, q, True, ws)
    forces(tree, v, a, no_fext, ws)
    see_loads(tree, q, u, ws, RATES)
    sum_composites(tree, ws)
    virtual_velocities(tree, omega, ws)
    see_loads(tree, q, u, ws, VIRTUAL)
    inverse_dynamics_hessian(tree, ws, qq, qv, vv, qa)
    add_carried_curvature(tree, ws, qq, qv, vv, qa)
    clear(as_vector(qu), tree.nv * tree.cables)
    add_wrench_columns(tree, 1.0, 0, True, ws, qu)
    for b in range(tree.nb):
        if has_rod(tree, b):
            add_tendon_curvature(tree, b, ws, q, u, omega, qq, qu)


class Balanced(Fields):
    """Scratch of one sample."""

    torques, R = vector("nv"), vector("nv")
    Rq, Rv, M = matrix_of("nv", "nv"), matrix_of("nv", "nv"), matrix_of("nv", "nv")


@kernel
def _balance(context, memory, pulls, Q, V, A, U, out, by_controls):
    tree, Q, V, A, U = Tree(context), rows_of(Q), rows_of(V), rows_of(A), rows_of(U)
    pulls, out, by_controls = rows_of(pulls), rows_of(out), rows_of(by_controls)
    ws = Workspace(memory_of(memory), tree)
    x = Balanced(ws.end, tree)
    no_fext, nu = as_matrix(x.R, 0, 6), columns_of(U)
    for t in range(len(Q)):
        clear(as_vector(x.Rq), 3 * tree.nv * tree.nv)
        residual_derivatives(tree, pulls, Q[t], V[t], A[t], U[t], no_fext, ws, x.torques, x.R, x.Rq, x.Rv, x.M)
        for i in range(tree.nv):
            out[t, i] = x.R[i]
        residual_by_controls(tree, pulls, Q[t], 1.0, 0, ws, as_matrix(by_controls[t], tree.nv, nu))


def balance(
    tree: Tree, S: Array, Q: Array, U: Array, V: Array | None = None, A: Array | None = None
) -> tuple[Array, Array]:
    """Forces (N, nv) that motion Q (N, nq), V, A (N, nv) takes beside U (N, nu), and how these act, (N, nv, nu).

    V, A: zeros by default, of rest.
    """
    (N, nu), nv = U.shape, tree.nv
    missing, by_controls = np.zeros((N, nv)), np.zeros((N, nv, nu))
    memory: Any = working_memory(Workspace.size(tree) + Balanced.size(tree), 1)
    moving = [np.zeros((N, nv)) if part is None else part for part in (V, A)]
    Q, V, A, U = (np.ascontiguousarray(part) for part in (Q, *moving, U))
    _balance(tree.handle, memory, entries_of(S), Q, V, A, U, missing, by_controls)
    return missing, -by_controls
