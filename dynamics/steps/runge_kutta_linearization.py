# mypy: allow-untyped-defs, allow-untyped-calls
"""First order of the explicit steps of runge_kutta.py: the chain rule through their stages.

With E_q, E_v, E_u the rows of the identity that pick δq, δv, δu out of δz = (δq, δv, δu), stage by stage

    V_i = E_v + h Σ_j A_ij W_j       rates of v_i           W_i = a_q Q_i + a_v V_i + a_u E_u    of a_i
    Q_i = T_i E_q + J_i Ξ_i          of q_i                 Ξ_i    of ξ_i, by its formula

with T = Ad_{Exp(-ξ)} and J = Jr(ξ), joint by joint, 1 but for free-flyers, spherical and planar joints. Those of the
stage after the last are [A B]. A record holds, for every stage, what a semi-implicit step's does,
(q, v, a, M⁻¹, a_q, a_v, a_u), then Q, V (nv, nz).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ddp.compiling.kernel import inline, kernel
from ddp.machine.memory import as_matrix, memory_of
from ddp.machine.number import WIDTH, spread
from dynamics.arrays.lanes import lane_array, lane_memory
from dynamics.arrays.packing import pack, unpack, unpack_columns
from dynamics.geometry.joint_motion import is_group, joint_bracket, joint_rates, twist_of
from dynamics.rigid_bodies.kinematics import clear, lane_workspace, lane_workspace_size
from dynamics.robots.tree import Tree
from dynamics.steps.curvature import accelerations_of, multiply_rows
from dynamics.steps.linearization import relate_controls, relation_scratch
from dynamics.steps.modes import Layout, Modes, stage_sizes, step_of
from dynamics.steps.runge_kutta import reach_stage


class Rates(NamedTuple):
    """Scratch: W (stages, nv, nz), Q and V (nv, nz) of the end for each of eight knots; of one, Ξ and 6 x 6."""

    W: np.ndarray
    Q: np.ndarray
    V: np.ndarray
    Xi: np.ndarray
    T: np.ndarray
    J: np.ndarray


def size(tree: Tree, where: Layout, nu: int, stages: int, m: int, nc: int) -> int:
    """How many lanes the arena must hold for ``linearize_explicit``."""
    nq, nv = tree.nq, tree.nv
    own, _ = stage_sizes(nq, nv, nu)
    return int(lane_workspace_size(tree) + own + nq + nu + 2 * (stages + 2) * nv + 3 * nv**2 + 2 * nv)


@kernel
def linearize_explicit(context, arena, schedule, X, U, A, B, record):
    """A (N, n, n), B (N, n, nu) and record (N, size) of every knot, of an explicit step."""
    (N, nu), modes = U.shape, Modes(context)
    tree, method, h = modes.tree, modes.method, step_of(modes, 0)
    stages, nv = len(method) - 1, tree.nv
    nq, nz = X.shape[1] - nv, 2 * nv + nu
    own, size = stage_sizes(nq, nv, nu)
    x, u, xi = lane_memory(arena, nq + nv), lane_memory(arena, nu), lane_memory(arena, nv)
    v, a, packed = lane_memory(arena, stages * nv), lane_memory(arena, stages * nv), lane_memory(arena, own)
    moved = np.empty((WIDTH, nv))
    ws, scratch = lane_workspace(tree, arena), relation_scratch(tree, arena)
    r = Rates(
        np.empty((WIDTH, stages, nv, nz)), np.empty((WIDTH, nv, nz)), np.empty((WIDTH, nv, nz)), np.empty((nv, nz)),
        np.empty((6, 6)), np.empty((6, 6)),
    )  # fmt: skip
    for t in range(0, N, WIDTH):
        count = min(WIDTH, N - t)
        pack(U, t, u)
        pack(X, t, x)
        q, qi = memory_of(x), memory_of(packed)
        velocities, rates = as_matrix(memory_of(v), stages, nv), as_matrix(memory_of(a), stages, nv)
        for i in range(stages + 1):
            reach_stage(tree, method, h, i, q, q[nq:], spread(0.0, q[0]), velocities, rates, memory_of(xi), qi, qi[nq:])
            unpack(xi, moved, 0)
            if i < stages:
                relate_controls(tree, modes.pulls, nu, nq, lane_array(u), lane_array(packed), ws, scratch)
                unpack_columns(packed, record, t, i * size)
                for j in range(nv):
                    velocities[i, j] = qi[nq + j]
                    rates[i, j] = qi[nq + nv + j]
            for k in range(count):
                stage_rates(tree, method, h, i, nq, moved[k], r, k, record[t + k])
        for k in range(count):
            write_rates(r.Q[k], A[t + k, :nv], B[t + k, :nv])
            write_rates(r.V[k], A[t + k, nv:], B[t + k, nv:])


@inline
def velocities_of(record, i, size, nq, nv):
    """v_i (nv,) of stage i in a record."""
    return record[i * size + nq : i * size + nq + nv]


@kernel
def rates_of(record, i, size, own, nv, nz):
    """Q and V (nv, nz) of stage i in a record."""
    first = i * size + own
    Q = record[first : first + nv * nz].reshape(nv, nz)
    return Q, record[first + nv * nz : first + 2 * nv * nz].reshape(nv, nz)


@kernel
def stage_rates(tree, method, h, i, nq, xi, r, k, record):
    """Q, V and W of stage i of knot k, the former two into its record; those of the step's end into the scratch."""
    nv, nz = r.Xi.shape
    own, size = stage_sizes(nq, nv, nz - 2 * nv)
    ends = i == len(method) - 1
    Q, V = (r.Q[k], r.V[k]) if ends else rates_of(record, i, size, own, nv, nz)
    clear(V)
    for a in range(nv):
        V[a, nv + a] = 1.0
    for j in range(i):
        add_scaled(V, h * method[i, j], r.W[k, j])
    twist_rates(tree, method, h, i, nq, record, r.Xi)
    place_rates(tree, xi, r, Q)
    if not ends:
        W = r.W[k, i]
        aq, av, au = accelerations_of(record[i * size : i * size + own], nq + 2 * nv + nv * nv, nv, nz - 2 * nv)
        np.dot(aq, Q, W)
        np.dot(av, V, r.Xi)
        add_scaled(W, 1.0, r.Xi)
        add_scaled(W[:, 2 * nv :], 1.0, au)


@kernel
def twist_rates(tree, method, h, i, nq, record, Xi):
    """Ξ (nv, nz) of stage i from the rates V of the stages before."""
    nv, nz = Xi.shape
    own, size = stage_sizes(nq, nv, nz - 2 * nv)
    clear(Xi)
    for j in range(i):
        add_scaled(Xi, h * method[i, j], rates_of(record, j, size, own, nv, nz)[1])
    scale, j, k = bracket_of(method, h, i)
    if scale != 0.0:
        x, y = velocities_of(record, j, size, nq, nv), velocities_of(record, k, size, nq, nv)
        add_bracket(tree, scale, x, rates_of(record, k, size, own, nv, nz)[1], Xi)
        add_bracket(tree, -scale, y, rates_of(record, j, size, own, nv, nz)[1], Xi)


@kernel
def add_scaled(out, factor, X):
    """out (n, m) += factor X."""
    if factor != 0.0:
        for i in range(out.shape[0]):
            for j in range(out.shape[1]):
                out[i, j] += factor * X[i, j]


@inline
def bracket_of(method, h, i):
    """h² γ, j and k of a row's bracket."""
    stages = len(method) - 1
    return h * h * method[i, stages], int(method[i, stages + 1]), int(method[i, stages + 2])


@kernel
def add_bracket(tree, scale, x, Y, out):
    """out (nv, m) += scale [x, Y], joint by joint and column by column, for x (nv,) and Y (nv, m)."""
    M = np.empty((6, 6))
    for b in range(tree.nb):
        kind, iv, nj = tree.kind[b], tree.iv[b], tree.nj[b]
        if is_group(kind):
            joint_bracket(kind, nj, twist_of(kind, x, iv, scale), M)
            for i in range(nj):
                for k in range(nj):
                    add_scaled(out[iv + i : iv + i + 1], M[i, k], Y[iv + k : iv + k + 1])


@kernel
def place_rates(tree, xi, r, out):
    """out (nv, nz) := T E_q + J Ξ, the rates of q ⊕ ξ."""
    for b in range(tree.nb):
        kind, iv, nj = tree.kind[b], tree.iv[b], tree.nj[b]
        if is_group(kind):
            joint_rates(kind, nj, twist_of(kind, xi, iv, 1.0), r.T, r.J)
            multiply_rows(nj, r.J, r.Xi[iv : iv + nj], out[iv : iv + nj])
            for i in range(nj):
                for j in range(nj):
                    out[iv + i, iv + j] += r.T[i, j]
        else:
            for i in range(iv, iv + nj):
                out[i] = r.Xi[i]
                out[i, i] += 1.0


@kernel
def write_rates(rates, A, B):
    """Columns of rates (nv, nz) by δx and by δu."""
    n = A.shape[1]
    for i in range(A.shape[0]):
        for j in range(n):
            A[i, j] = rates[i, j]
        for j in range(B.shape[1]):
            B[i, j] = rates[i, n + j]
