"""First order of steps under contacts, eight knots of one mode at a time, and what their second order needs.

What takes branches stays with single knots: impacts, steps that hold contacts exactly, surfaces pulled to a pose, the
rows of joints whose motions do not commute; and knots whose contacts turn out to be redundant are done again there.
With R_y = [R_q R_v -S] the lanes' part ends where  z_y = -K⁻¹ R_y  begins: those products are made knot by knot, eight
columns to a register.
"""

from __future__ import annotations

import numpy as np

from ddp.kernel import kernel
from ddp.tiles import WIDTH, add_product, clear_rows, padded, write_rows
from dynamics.contact import POINT
from dynamics.contact_delassus import REDUNDANT
from dynamics.contact_kinematics import lane_places, lane_places_size
from dynamics.contact_relation import lane_relation, lane_relation_size, relate_residuals
from dynamics.joints import is_group
from dynamics.kinematics import lane_workspace, lane_workspace_size
from dynamics.lane_curvature import FIELDS, describe, put
from dynamics.lanes import lane_array, lane_matrix, lane_memory, lane_vector
from dynamics.linearization import turn_group_rows
from dynamics.model import Model
from dynamics.modes import HELD, IMPACT, STEP, Layout, contacts_of, layout, step_of, whole, without_gravity
from dynamics.packed import views_of
from dynamics.packing import pack, unpack_columns
from dynamics.phase_steps import bench, linearize_held, linearize_impact, linearize_step, run_end, spread_step
from dynamics.spatial import load3


def size(tree: Model, where: Layout, nu: int, m: int, nc: int) -> int:
    """How many lanes the arena must hold, for at most m contacts and nc forces."""
    nv = len(tree.body)
    own = where.end + (nv + nc) * where.ld + 5 * nv + nc + nu
    return lane_workspace_size(tree) + lane_places_size(tree, m) + lane_relation_size(nv, nc) + padded(own) + 64


@kernel
def in_lanes(contacts):
    """Whether a mode's contacts need no logarithm."""
    for i in range(contacts.body.size):
        if contacts.kind[i] != POINT and contacts.gains[i, 2] != 0.0:
            return False
    return True


@kernel
def linearize(tree, arena, modes, schedule, S, X, U, A, B, record):
    """A (M, n, n), B (M, n, nu) and records of knots with the modes of ``schedule`` (M,)."""
    nv, still, t = tree.body.size, without_gravity(tree), 0
    nq, start = X.shape[1] - nv, arena[0, 0]
    where = layout(modes, nq, nv, U.shape[1])
    while t < U.shape[0]:
        end, mode = run_end(schedule, t), schedule[t]
        contacts, e = contacts_of(modes, mode)
        nc, kind, h = modes.table[mode, 2], modes.table[mode, 0], step_of(modes, mode)
        sound = np.zeros(end - t, np.bool_)
        if kind == STEP and in_lanes(contacts):
            arena[0, 0] = start
            linearize_lanes(
                tree, arena, contacts, mode, nc, where, S, h, X[t:end], U[t:end], A[t:end], B[t:end], record[t:end],
                sound,
            )  # fmt: skip
        if not sound.all():
            w = bench(tree, contacts, nc, X)
            for i in range(t, end):
                if kind == IMPACT:
                    linearize_impact(still, contacts, mode, where, e, X[i], w, A[i], B[i], record[i])
                elif kind == HELD:
                    linearize_held(tree, contacts, mode, where, S, h, X[i], U[i], w, A[i], B[i], record[i])
                elif not sound[i - t]:
                    linearize_step(tree, contacts, mode, where, S, h, X[i], U[i], w, A[i], B[i], record[i])
        if kind != IMPACT:
            for b in range(tree.parent.size):
                if is_group(tree.kind[b]):
                    turn_group_rows(tree, b, h, nq, record[t:end], A[t:end], B[t:end])
        t = end


@kernel
def drives_last(S):
    """Whether controls are the torques of the last degrees of freedom: then z_u = K⁻¹ S are columns of K⁻¹."""
    nv, nu = S.shape
    for i in range(nv):
        for j in range(nu):
            if S[i, j] != (1.0 if i == nv - nu + j else 0.0):
                return False
    return True


@kernel
def linearize_lanes(tree, arena, contacts, mode, nc, where, S, h, X, U, A, B, record, sound):
    """The same of one mode, as if every joint's motions commuted; sound (M,): whether a knot's result is one."""
    N, nu = U.shape
    nv = tree.body.size
    nq, n, nz, ld = X.shape[1] - nv, 2 * nv, nv + nc, where.ld
    driven = not drives_last(S)
    lk, lr = whole(nz), ld if driven else whole(n)
    head, u, K, R = (
        lane_memory(arena, where.K), lane_memory(arena, nu), lane_memory(arena, nz * lk),
        lane_memory(arena, nz * lr + nv),
    )  # fmt: skip
    D, pivots, about = lane_memory(arena, nv), lane_memory(arena, nc), lane_memory(arena, where.end - where.D)
    head[:], K[:], about[:] = 0.0, 0.0, 0.0
    light = views_of(tree)
    ws, place = lane_workspace(light, arena), lane_places(light, contacts, arena)
    r = lane_relation(nv, arena, head[nq + nv : nq + n], head[nq + n + 1 : nq + n + 1 + nc], D, pivots, K, R, lk, lr)
    q, v, controls = lane_array(head[:nq]), lane_array(head[nq : nq + nv]), lane_array(u)
    dofs = lane_array(about[: FIELDS * where.lx].reshape(FIELDS, where.lx, WIDTH))
    feet = lane_array(about[FIELDS * where.lx :].reshape(9, where.lm, WIDTH))
    tau, no_fext, full = lane_vector(arena, nv), lane_matrix(arena, 0, 6), r.Rq
    rows = np.empty((WIDTH, nz * lr))
    for t in range(0, N, WIDTH):
        pack(X, t, head[: X.shape[1]])
        pack(U, t, u)
        for i in range(nv):
            tau[i] = -light.damping[i] * v[i]
            for j in range(nu):
                if S[i, j] != 0.0:
                    tau[i] += S[i, j] * controls[j]
        relate_residuals(light, contacts, 0.0, q, v, tau, no_fext, ws, place, r)
        for i in range(nz):
            for j in range(n):
                full[i, j] = -full[i, j]
            for j in range(n, lr):
                full[i, j] = S[i, j - n] if driven and i < nv and j < n + nu else 0.0
        head[nq + n] = mode
        describe(light, ws, dofs)
        for i in range(contacts.body.size):
            put(feet, 0, i, load3(place.p, i))
            put(feet, 3, i, load3(place.u, i))
            put(feet, 6, i, load3(place.c, i))
        unpack_columns(head, record, t, 0)
        unpack_columns(K, record, t, where.K)
        unpack_columns(about, record, t, where.D)
        unpack_columns(R[: nz * lr], rows, 0, 0)
        for i in range(t, min(t + WIDTH, N)):
            record[i, where.K + nz * lk : where.Z] = 0.0
            record[i, where.Z + nz * ld : where.D] = 0.0
            Z = record[i].ctypes.data + 8 * where.Z
            own = record[i].ctypes.data + 8 * where.K
            clear_rows(Z, ld, nz, ld)
            add_product(Z, ld, nz, lr, own, lk, 1, rows[i - t].ctypes.data, lr, nz)
            if not driven:
                write_rows(Z + 8 * n, ld, own + 8 * (nv - nu), lk, nz, nu)
            spread_step(record[i, where.Z :], ld, h, A[i], B[i])
        judge(D, pivots, head[nq + nv : nq + n], sound, t)


@kernel
def judge(D, pivots, a, sound, t):
    """Which of the knots t..t+7 have a positive mass matrix, independent contacts and finite accelerations."""
    for lane in range(min(WIDTH, sound.size - t)):
        fine = True
        for i in range(D.shape[0]):
            fine = fine and D[i, lane] > 0.0 and np.isfinite(a[i, lane])
        for i in range(pivots.shape[0]):
            fine = fine and pivots[i, lane] > REDUNDANT
        sound[t + lane] = fine
