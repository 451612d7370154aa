# mypy: allow-untyped-defs, allow-untyped-calls
"""Residual of motion, with its derivatives to second order: the one equation of implicit steps and of statics.

    R(q, v, a, u) = ID(q, v, a) - S u - torques of springs and friction            see passive.py

A force that is to act in implicit steps and at rest enters here, in each of the functions. Needs no inverse of the mass
matrix. Matrices come in as zeros: entries between unrelated degrees of freedom are not written.
"""

from __future__ import annotations

from ddp.compiling.kernel import kernel
from dynamics.rigid_bodies.hessian import inverse_dynamics_hessian, virtual_velocities
from dynamics.rigid_bodies.inverse import generalized_forces, inverse_dynamics_derivatives, mass_matrix
from dynamics.rigid_bodies.kinematics import composites
from dynamics.rigid_bodies.passive import actuate, resist


@kernel
def residual_derivatives(tree, pulls, q, v, a, u, no_fext, ws, tau, R, Rq, Rv, M):
    """R, and its derivatives R_q, R_v and M by q, v, a; tau (nv,): scratch."""
    composites(tree, q, v, a, no_fext, ws)
    mass_matrix(tree, ws, M)
    inverse_dynamics_derivatives(tree, ws, Rq, Rv)
    resist(tree, Rq, Rv)
    generalized_forces(tree, a, ws, R)
    actuate(tree, pulls, u, q, v, tau)
    for i in range(tree.nv):
        R[i] -= tau[i]


@kernel
def residual_by_controls(pulls, scale, column, Ru):
    """Add scale ∂R/∂u = -scale S to the columns of Ru from ``column`` on."""
    for e in range(len(pulls)):
        i, j = int(pulls[e, 0]), int(pulls[e, 1])
        Ru[i, column + j] -= scale * pulls[e, 2]


@kernel
def residual_hessian(tree, q, v, a, omega, no_fext, ws, qq, qv, vv, qa):
    """Hessian of ω·R: qq (iterated: row first derivative, column second), qv, vv, qa; the others vanish."""
    composites(tree, q, v, a, no_fext, ws)
    virtual_velocities(tree, omega, ws)
    inverse_dynamics_hessian(tree, ws, qq, qv, vv, qa)
