# mypy: allow-untyped-defs, allow-untyped-calls
"""Explicit steps on the configuration manifold: Euler's, and a fourth-order one of Runge-Kutta-Munthe-Kaas type.

With u held over the step and a_i = a(q_i, v_i, u), every stage leaves from q:  q_i = q ⊕ ξ_i,  v_i = v + c_i h a_{i-1},

    ξ_1 = 0    ξ_2 = h/2 v_1    ξ_3 = h/2 v_2 + h²/8 [v_1, v_2]    ξ_4 = h v_3          c = (0, ½, ½, 1)
    q' = q ⊕ (h/6 (v_1 + 2 v_2 + 2 v_3 + v_4) + h²/12 [v_1, v_4]),    v' = v + h/6 (a_1 + 2 a_2 + 2 a_3 + a_4)

the classical method where motions commute, and of order four on any Lie group with these two brackets alone
(Munthe-Kaas & Owren 1999, Computations in a free Lie algebra; their signs are those of velocities in world axes).
One stage is explicit Euler: q' = q ⊕ h v, v' = v + h a. Stages count from 0 below.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ddp.compiling.kernel import inline, kernel
from dynamics.geometry.configuration import integrate_configuration
from dynamics.geometry.groups import twist_of
from dynamics.geometry.spatial import cross_motion
from dynamics.rigid_bodies.forward import forward_dynamics, is_positive
from dynamics.robots.joints import is_group, slot
from dynamics.steps.semi_implicit_euler import actuate

EULER, RK4 = 1, 4
"""Stages of the two methods."""


class Stages(NamedTuple):
    """Velocities and accelerations (stages, nv) of a step; a stage's configuration (nq,) and ξ (nv,)."""

    v: np.ndarray
    a: np.ndarray
    q: np.ndarray
    xi: np.ndarray


@kernel
def stages_scratch(tree, nq, stages):
    """Room for the stages of one step."""
    nv = tree.body.size
    return Stages(np.empty((stages, nv)), np.empty((stages, nv)), np.empty(nq), np.empty(nv))


@inline
def fraction(i):
    """c_i: a stage's share of the step."""
    return 0.0 if i == 0 else (1.0 if i == 3 else 0.5)


@inline
def share(i, stages):
    """b_i: a stage's share of the result."""
    if stages == 1:
        return 1.0
    return 1.0 / 3.0 if i == 1 or i == 2 else 1.0 / 6.0


@inline
def unit_twist(kind, k):
    """The twist (6,) of a joint's k-th degree of freedom at unit speed."""
    s = slot(kind, k)
    return (
        1.0 if s == 0 else 0.0, 1.0 if s == 1 else 0.0, 1.0 if s == 2 else 0.0,
        1.0 if s == 3 else 0.0, 1.0 if s == 4 else 0.0, 1.0 if s == 5 else 0.0,
    )  # fmt: skip


@kernel
def add_bracket(tree, scale, x, Y, out):
    """out (nv, m) += scale [x, Y], joint by joint and column by column, for x (nv,) and Y (nv, m)."""
    for b in range(tree.parent.size):
        kind, iv, nj = tree.kind[b], tree.iv[b], tree.nj[b]
        if is_group(kind):
            along = twist_of(kind, x, iv, scale)
            for k in range(nj):
                turned = cross_motion(along, unit_twist(kind, k))
                for i in range(nj):
                    factor = turned[slot(kind, i)]
                    if factor != 0.0:
                        for j in range(Y.shape[1]):
                            out[iv + i, j] += factor * Y[iv + k, j]


@kernel
def stage_twist(tree, h, i, v, xi):
    """ξ (nv,) of stage i from the stages before; i = 4 is the step's own."""
    nv = xi.size
    for j in range(nv):
        if i == 4:
            xi[j] = h / 6.0 * (v[0, j] + 2.0 * (v[1, j] + v[2, j]) + v[3, j])
        else:
            xi[j] = fraction(i) * h * v[i - 1, j]
    if i == 2:
        add_bracket(tree, h * h / 8.0, v[0], v[1].reshape(nv, 1), xi.reshape(nv, 1))
    if i == 4:
        add_bracket(tree, h * h / 12.0, v[0], v[3].reshape(nv, 1), xi.reshape(nv, 1))


@kernel
def step_twist(tree, h, stages, v, xi):
    """ξ (nv,) of the whole step."""
    if stages == 1:
        for j in range(xi.size):
            xi[j] = h * v[0, j]
    else:
        stage_twist(tree, h, 4, v, xi)


@kernel
def begin_stage(tree, h, i, q, v, s):
    """s.q, s.v[i] of stage i from the stages before and the state (q, v) that the step leaves from."""
    for j in range(v.size):
        s.v[i, j] = v[j] if i == 0 else v[j] + fraction(i) * h * s.a[i - 1, j]
    if i == 0:
        s.q[:] = q
    else:
        stage_twist(tree, h, i, s.v, s.xi)
        integrate_configuration(tree, q, s.xi, 1.0, s.q)


@kernel
def explicit_step(tree, S, h, x, u, no_fext, ws, c, s, xn):
    """x' of one step; False where the mass matrix is not positive definite or a number is not finite."""
    stages, nv = s.v.shape
    nq = x.size - nv
    q, v = x[:nq], x[nq:]
    for i in range(stages):
        begin_stage(tree, h, i, q, v, s)
        actuate(tree, S, u, s.q, s.v[i], c.tau)
        forward_dynamics(tree, s.q, s.v[i], c.tau, no_fext, ws, c.LD, c.D, s.a[i])
        if not is_positive(c.D, s.a[i]):
            xn[:] = np.nan
            return False
    step_twist(tree, h, stages, s.v, s.xi)
    for j in range(nv):
        total = 0.0
        for i in range(stages):
            total += share(i, stages) * s.a[i, j]
        xn[nq + j] = v[j] + h * total
    integrate_configuration(tree, q, s.xi, 1.0, xn)
    return True
