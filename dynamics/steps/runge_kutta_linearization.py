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
from ddp.machine.fields import Fields, matrix_of, vector
from ddp.machine.memory import memory_of, rows_of
from ddp.machine.number import WIDTH, spread
from ddp.machine.packing import pack, unpack, unpack_columns
from dynamics.geometry.joint_motion import is_group, joint_bracket, joint_rates, twist_of
from dynamics.rigid_bodies.kinematics import Workspace
from dynamics.robots.tree import Tree
from dynamics.steps.curvature import accelerations_of, multiply_rows
from dynamics.steps.linearization import Motion, Relating, relate_controls, relating
from dynamics.steps.modes import Layout, Modes, stage_sizes, step_of
from dynamics.steps.runge_kutta import reach_stage


class Reaching(Fields):
    """Motions of eight knots: q, v where a step begins, ξ of the last stage reached, velocities and rates of all."""

    q, v, xi = vector("nq"), vector("nv"), vector("nv")
    velocities, rates = matrix_of("stages", "nv"), matrix_of("stages", "nv")


class Rates(NamedTuple):
    """Scratch: W (stages, nv, nz), Q and V (nv, nz) of the end for each of eight knots; of one, Ξ and 6 x 6."""

    W: np.ndarray
    Q: np.ndarray
    V: np.ndarray
    Xi: np.ndarray
    T: np.ndarray
    J: np.ndarray


def size(tree: Tree, where: Layout, nu: int, stages: int, m: int, nc: int) -> int:
    """How many numbers of memory ``linearize_explicit`` takes."""
    counts = {"nb": tree.nb, "nq": tree.nq, "nv": tree.nv, "nu": nu, "stages": stages}
    return sum(fields.size(**counts) for fields in (Motion, Workspace, Relating, Reaching))


@kernel
def linearize_explicit(context, memory, schedule, X, U, A, B, record):
    """A (N, n, n), B (N, n, nu) and record (N, size) of every knot, of an explicit step."""
    modes, N, nu = Modes(context), U.shape[0], U.shape[1]
    tree, method, h = modes.tree, modes.method, step_of(modes, 0)
    stages, nq, nv = len(method) - 1, tree.nq, tree.nv
    nz = 2 * nv + nu
    own, size = stage_sizes(nq, nv, nu)
    moved = np.empty((WIDTH, nv))
    r = Rates(
        np.empty((WIDTH, stages, nv, nz)), np.empty((WIDTH, nv, nz)), np.empty((WIDTH, nv, nz)), np.empty((nv, nz)),
        np.empty((6, 6)), np.empty((6, 6)),
    )  # fmt: skip
    X, U, records, of_moved = rows_of(X), rows_of(U), rows_of(record), rows_of(moved)
    x = Motion(memory_of(memory), tree, nu)
    ws = Workspace(x.end, tree)
    scratch = relating(ws.end, tree, nu)
    s = Reaching(scratch.end, tree, stages)
    for t in range(0, N, WIDTH):
        count = min(WIDTH, N - t)
        pack(U, t, scratch.u, nu)
        pack(X, t, s.q, nq + nv)
        for i in range(stages + 1):
            reach_stage(tree, method, h, i, s.q, s.v, spread(0.0, s.v[0]), s.velocities, s.rates, s.xi, x.q, x.v)
            unpack(s.xi, nv, of_moved, 0)
            if i < stages:
                relate_controls(tree, modes.pulls, nu, x, ws, scratch)
                unpack_columns(x.q, own, records, t, i * size)
                for j in range(nv):
                    s.velocities[i, j] = x.v[j]
                    s.rates[i, j] = x.a[j]
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
    V[:] = 0.0
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
    Xi[:] = 0.0
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
