"""Derivatives of motion by complex step, through the kernels of dynamics with complex numbers."""

import numpy as np

from dynamics.geometry.configuration import integrate_batch
from dynamics.rigid_bodies import batch

STEP = 1e-30


def along_every_direction(robot, q, v):
    """Complex states, one perturbed along each direction of the tangent space."""
    n = 2 * robot.nv
    X = np.empty((n, robot.nq + robot.nv), complex)
    integrate_batch(robot.tree, np.tile([*q, *v], (n, 1)).astype(complex), 1j * STEP * np.eye(n), X)
    return np.ascontiguousarray(X[:, : robot.nq]), np.ascontiguousarray(X[:, robot.nq :])


def accelerations_by_complex_step(robot, q, v, tau, fext, S):
    """∂a/∂(q, v, u) (nv, 2 nv + nu), τ = S u."""
    (Q, V), nu = along_every_direction(robot, q, v), S.shape[1]
    Q, V = np.concatenate([Q, np.tile(q, (nu, 1))]), np.concatenate([V, np.tile(v, (nu, 1))])
    T = tau + 1j * STEP * np.concatenate([np.zeros((2 * robot.nv, robot.nv)), S.T])
    F, a = np.tile(fext[1:], (len(Q), 1, 1)).astype(complex), np.empty_like(V)
    memory = np.empty(batch.size(robot.tree.nb, robot.nq, robot.nv), complex)
    assert batch.forward_dynamics(robot.tree.address, memory, Q, V, T, F, a) < 0
    return a.imag.T / STEP
