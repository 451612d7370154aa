# mypy: allow-untyped-defs, allow-untyped-calls
"""One step of semi-implicit Euler, v' = v + h a(q, v, u), q' = q ⊕ h v'."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ddp.compiling.kernel import kernel
from dynamics.geometry.configuration import integrate_configuration
from dynamics.rigid_bodies.forward import forward_dynamics, is_positive
from dynamics.rigid_bodies.passive import passive_torque


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
    return Step(np.zeros((nv, nv)), np.empty(nv), np.empty(nv), np.empty(nv))


@kernel
def actuate(tree, S, u, q, v, tau):
    """τ = S u and what joints exert of themselves."""
    for i in range(tau.size):
        total = passive_torque(tree, i, q, v)
        for j in range(u.size):
            total += S[i, j] * u[j]
        tau[i] = total


@kernel
def euler_step(tree, S, h, x, u, no_fext, ws, scratch, xn):
    """x' of one step; False where the mass matrix is not positive definite or a number is not finite."""
    nv = tree.body.size
    nq = x.size - nv
    q, v = x[:nq], x[nq:]
    actuate(tree, S, u, q, v, scratch.tau)
    forward_dynamics(tree, q, v, scratch.tau, no_fext, ws, scratch.LD, scratch.D, scratch.a)
    for i in range(nv):
        xn[nq + i] = v[i] + h * scratch.a[i]
    integrate_configuration(tree, q, xn[nq:], h, xn)
    return is_positive(scratch.D, scratch.a)
