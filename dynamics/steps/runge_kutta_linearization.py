# mypy: allow-untyped-defs, allow-untyped-calls
"""First order of the explicit steps of runge_kutta.py: the chain rule through their stages.

With E_q, E_v, E_u the rows of the identity that pick δq, δv, δu out of δz = (δq, δv, δu), stage by stage

    V_i = E_v + c_i h W_{i-1}            rates of v_i           W_i = a_q Q_i + a_v V_i + a_u E_u    of a_i
    Q_i = T_i E_q + J_i Ξ_i              of q_i                 Ξ_i    of ξ_i, by its formula

with T = Ad_{Exp(-ξ)} and J = Jr(ξ), joint by joint, 1 but for free-flyers, spherical and planar joints.
A record holds, for every stage, what a semi-implicit step's does, (q, v, a, M⁻¹, a_q, a_v, a_u), then Q, V (nv, nz).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ddp.compiling.kernel import kernel
from dynamics.arrays.lanes import WIDTH, lane_vector
from dynamics.arrays.packing import pack, unpack
from dynamics.geometry.groups import twist_of
from dynamics.geometry.lie import adjoint_inverse, right_jacobian6
from dynamics.rigid_bodies.kinematics import clear, lane_workspace
from dynamics.robots.joints import is_group, slot
from dynamics.robots.packed import views_of
from dynamics.steps.curvature import accelerations_of
from dynamics.steps.linearization import embed_rows, multiply6, relate_controls, relation_scratch
from dynamics.steps.runge_kutta import Stages, add_bracket, begin_stage, fraction, share, step_twist


class Rates(NamedTuple):
    """Scratch of one knot: W (nv, nz) of the last stage, Σ b_i W_i, Ξ, a result; 6 x 6 and 6 x nz blocks."""

    W: np.ndarray
    total: np.ndarray
    Xi: np.ndarray
    out: np.ndarray
    T: np.ndarray
    J: np.ndarray
    six: np.ndarray
    turned: np.ndarray


@kernel
def stage_sizes(nq, nv, nu):
    """Floats that one stage keeps of the acceleration, and in all."""
    nz = 2 * nv + nu
    of_acceleration = nq + 2 * nv + nv * nv + nv * nz
    return of_acceleration, of_acceleration + 2 * nv * nz


@kernel
def linearize_explicit(tree, arena, stages, S, h, X, U, A, B, record):
    """A (N, n, n), B (N, n, nu) and record (N, size) of every knot, of the explicit step with so many stages."""
    N, nu = U.shape
    nv = tree.body.size
    nq, nz = X.shape[1] - nv, 2 * nv + nu
    own, size = stage_sizes(nq, nv, nu)
    u, packed = lane_vector(arena, nu), lane_vector(arena, own)
    x, kept = np.empty((WIDTH, nq + nv)), np.empty((WIDTH, own))
    light = views_of(tree)
    ws, scratch = lane_workspace(light, arena), relation_scratch(light, arena)
    v, a = np.empty((WIDTH, stages, nv)), np.empty((WIDTH, stages, nv))
    W, total = np.zeros((WIDTH, nv, nz)), np.zeros((WIDTH, nv, nz))
    Xi, out, T, J = np.empty((nv, nz)), np.empty((nv, nz)), np.empty((6, 6)), np.empty((6, 6))
    six, turned, q, xi = np.zeros((6, nz)), np.empty((6, nz)), np.empty(nq), np.empty(nv)
    for t in range(0, N, WIDTH):
        count = min(WIDTH, N - t)
        pack(U, t, u)
        for i in range(stages):
            for k in range(count):
                s = Stages(v[k], a[k], q, xi)
                begin_stage(tree, h, i, X[t + k, :nq], X[t + k, nq:], s)
                for j in range(nq):
                    x[k, j] = q[j]
                for j in range(nv):
                    x[k, nq + j] = v[k, i, j]
                r = Rates(W[k], total[k], Xi, out, T, J, six, turned)
                begin_rates(tree, h, i, v[k], xi, r, record[t + k], size, own)
            pack(x[:count], 0, packed[: x.shape[1]])
            relate_controls(light, S, nq, u, packed, ws, scratch)
            unpack(packed, kept[:count], 0)
            for k in range(count):
                stored = record[t + k, i * size : (i + 1) * size]
                for j in range(own):
                    stored[j] = kept[k, j]
                for j in range(nv):
                    a[k, i, j] = kept[k, nq + nv + j]
                end_rates(nq, nv, nu, share(i, stages), stored, own, W[k], total[k])
        for k in range(count):
            r = Rates(W[k], total[k], Xi, out, T, J, six, turned)
            step_twist(tree, h, stages, v[k], xi)
            step_rates(tree, h, stages, v[k], xi, r, record[t + k], size, own)
            write_blocks(h, r, A[t + k], B[t + k])
            clear(total[k])


@kernel
def rates_of(record, i, size, own, nv, nz):
    """Q and V (nv, nz) of stage i in a record."""
    first = i * size + own
    Q = record[first : first + nv * nz].reshape(nv, nz)
    return Q, record[first + nv * nz : first + 2 * nv * nz].reshape(nv, nz)


@kernel
def begin_rates(tree, h, i, v, xi, r, record, size, own):
    """Q and V of stage i, into the record."""
    nv, nz = r.W.shape
    Q, V = rates_of(record, i, size, own, nv, nz)
    for a in range(nv):
        for j in range(nz):
            V[a, j] = fraction(i) * h * r.W[a, j] if i > 0 else 0.0
        V[a, nv + a] += 1.0
    if i == 0:
        Q[:] = 0.0
        for a in range(nv):
            Q[a, a] = 1.0
    else:
        twist_rates(tree, h, i, v, record, size, own, r.Xi)
        place_rates(tree, xi, r, Q)


@kernel
def end_rates(nq, nv, nu, b, stored, own, W, total):
    """W of the stage whose record is given, and b W added to the total."""
    nz = 2 * nv + nu
    aq, av, au = accelerations_of(stored[:own], nq + 2 * nv + nv * nv, nv, nu)
    Q = stored[own : own + nv * nz].reshape(nv, nz)
    V = stored[own + nv * nz : own + 2 * nv * nz].reshape(nv, nz)
    np.dot(aq, Q, W)
    W += np.dot(av, V)
    for a in range(nv):
        for j in range(nu):
            W[a, 2 * nv + j] += au[a, j]
        for j in range(nz):
            total[a, j] += b * W[a, j]


@kernel
def twist_rates(tree, h, i, v, record, size, own, Xi):
    """Ξ (nv, nz) of stage i from the rates V of the stages before; i = 4 is the step's own."""
    nv, nz = Xi.shape
    if i < 4:
        V = rates_of(record, i - 1, size, own, nv, nz)[1]
        for a in range(nv):
            for j in range(nz):
                Xi[a, j] = fraction(i) * h * V[a, j]
        if i == 2:
            add_bracket_rates(tree, h * h / 8.0, v, 1, record, size, own, Xi)
        return
    V0, V1 = rates_of(record, 0, size, own, nv, nz)[1], rates_of(record, 1, size, own, nv, nz)[1]
    V2, V3 = rates_of(record, 2, size, own, nv, nz)[1], rates_of(record, 3, size, own, nv, nz)[1]
    for a in range(nv):
        for j in range(nz):
            Xi[a, j] = h / 6.0 * (V0[a, j] + 2.0 * (V1[a, j] + V2[a, j]) + V3[a, j])
    add_bracket_rates(tree, h * h / 12.0, v, 3, record, size, own, Xi)


@kernel
def add_bracket_rates(tree, scale, v, i, record, size, own, Xi):
    """Ξ += rates of scale [v_0, v_i]."""
    nv, nz = Xi.shape
    add_bracket(tree, scale, v[0], rates_of(record, i, size, own, nv, nz)[1], Xi)
    add_bracket(tree, -scale, v[i], rates_of(record, 0, size, own, nv, nz)[1], Xi)


@kernel
def place_rates(tree, xi, r, out):
    """out (nv, nz) := T E_q + J Ξ, the rates of q ⊕ ξ."""
    for b in range(tree.parent.size):
        kind, iv, nj = tree.kind[b], tree.iv[b], tree.nj[b]
        if is_group(kind):
            along = twist_of(kind, xi, iv, 1.0)
            adjoint_inverse(along, r.T)
            right_jacobian6(along, r.J)
            embed_rows(kind, nj, r.Xi[iv : iv + nj], r.six)
            multiply6(r.J, r.six, r.turned)
            for i in range(nj):
                out[iv + i] = r.turned[slot(kind, i)]
                for j in range(nj):
                    out[iv + i, iv + j] += r.T[slot(kind, i), slot(kind, j)]
        else:
            for i in range(iv, iv + nj):
                out[i] = r.Xi[i]
                out[i, i] += 1.0


@kernel
def step_rates(tree, h, stages, v, xi, r, record, size, own):
    """r.Xi := Ξ of the whole step, r.out := the rates of q'."""
    nv = xi.size
    if stages == 1:
        r.Xi[:] = 0.0
        for i in range(nv):
            r.Xi[i, nv + i] = h
    else:
        twist_rates(tree, h, 4, v, record, size, own, r.Xi)
    place_rates(tree, xi, r, r.out)


@kernel
def write_blocks(h, r, A, B):
    """A and B from the rates of q' and of v' = v + h Σ b_i a_i."""
    nv, nz = r.out.shape
    n = 2 * nv
    for i in range(nv):
        for j in range(n):
            A[i, j] = r.out[i, j]
            A[nv + i, j] = h * r.total[i, j]
        A[nv + i, nv + i] += 1.0
        for j in range(n, nz):
            B[i, j - n] = r.out[i, j]
            B[nv + i, j - n] = h * r.total[i, j]
