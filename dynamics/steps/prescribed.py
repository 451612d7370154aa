"""Torques that prescribed joints take, from the motion that steps found: the rows of residuals which steps leave out.

A stage of a step looks at motion at (q_s, v_s, a_s), see implicit_steps.py, where the rows of the other degrees of
freedom vanish, R - Jᵀ λ = 0 with forces λ of loops. So λ is known, and the prescribed rows are the torques. Of several
stages the mean by their parts of the step is what the joint's momentum feels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dynamics.rigid_bodies.balance import balance
from dynamics.robots import loop

if TYPE_CHECKING:
    from dynamics.steps.robot_dynamics import RobotDynamics

Array = NDArray[np.float64]


def prescribed_torques(system: RobotDynamics, X: Array, U: Array) -> Array:
    """Torques (N, m) of the prescribed degrees of freedom in the steps from X (N, nx) under U (N, nu)."""
    s, robot, dofs = system, system.robot, np.array(system.prescribed_dofs)
    nq, free = robot.nq, np.delete(np.arange(robot.nv), dofs)
    others = np.where(s.actuation[dofs].any(axis=0), 0.0, U)
    total = np.zeros((len(U), len(dofs)))
    for theta, length, part in s.stages.tolist():
        h = length * s.dt
        integrator = "implicit-euler" if theta == 1.0 else "implicit-midpoint"
        stage = type(s)(robot, h, s.actuation, integrator, s.damping, s.springs, s.control_limits, s.prescribed)
        ends = stage.step(X, U)
        v, later = X[:, nq:], ends[:, nq:]
        between = (1.0 - theta) * v + theta * later
        Q = s.integrate(X, np.hstack([theta * h * between, np.zeros_like(v)]))[:, :nq]
        R = balance(s.resisting_tree, s.actuation, Q, others, between, (later - v) / h)[0]
        for k, q in enumerate(Q if robot.loops else ()):
            J = loop.errors(robot.mechanism, robot.loops, q)[1]
            R[k] -= J.T @ np.linalg.lstsq(J[:, free].T, R[k, free])[0]
        total += part * length * R[:, dofs]
        X = s.integrate(X, part * s.difference(X, ends))
    return total
