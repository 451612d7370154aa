"""First and second order of steps under contacts, eight knots of one mode at a time.

What takes branches stays with single knots: impacts, surfaces pulled to a pose, the rows of joints whose motions do
not commute; and knots whose contacts turn out to be redundant are done again there.
"""

from __future__ import annotations

import numpy as np

from ddp.kernel import kernel
from dynamics.contact import POINT
from dynamics.contact_delassus import REDUNDANT
from dynamics.contact_hessian import contact_hessian, lane_curvature, lane_curvature_size
from dynamics.contact_kinematics import lane_places, lane_places_size, move_contacts, place_contacts
from dynamics.contact_products import dense_product
from dynamics.contact_relation import lane_relation, lane_relation_size, relate_contact
from dynamics.curvature import second_scratch
from dynamics.joints import is_group
from dynamics.kinematics import composites, lane_workspace, lane_workspace_size
from dynamics.lanes import WIDTH, lane_array, lane_matrix, lane_memory, lane_vector
from dynamics.linearization import turn_group_rows
from dynamics.model import Model
from dynamics.modes import IMPACT, contacts_of, parts_of, record_size, without_gravity
from dynamics.packed import views_of
from dynamics.packing import pack, unpack
from dynamics.phase_curvature import add_joint_curvature, contract, weigh_accelerations
from dynamics.phase_steps import bench, linearize_impact, linearize_step, run_end


def size(tree: Model, nq: int, nu: int, m: int, nc: int) -> int:
    """How many lanes the arena must hold for any kernel here, for at most m contacts and nc forces."""
    nv = len(tree.body)
    n, nz = 2 * nv, 2 * nv + nu
    own = n * n + n * nu + nz * nz + 3 * nu + 2 * nv + nv * nu + 2 * (nv + nc)
    of_contacts = lane_places_size(tree, m) + lane_relation_size(nv, nc) + lane_curvature_size(nv, nc)
    return lane_workspace_size(tree) + record_size(nq, nv, nu, nc) + of_contacts + own + 64


@kernel
def in_lanes(contacts):
    """Whether a mode's contacts need no logarithm."""
    for i in range(contacts.body.size):
        if contacts.kind[i] != POINT and contacts.gains[i, 2] != 0.0:
            return False
    return True


@kernel
def linearize(tree, arena, modes, schedule, S, h, X, U, A, B, record):
    """A (M, n, n), B (M, n, nu) and records of knots with the modes of ``schedule`` (M,)."""
    nv, still, t = tree.body.size, without_gravity(tree), 0
    nq, start = X.shape[1] - nv, arena[0, 0]
    while t < U.shape[0]:
        end, mode = run_end(schedule, t), schedule[t]
        contacts, e = contacts_of(modes, mode)
        w = bench(tree, contacts, modes.table[mode, 2], X)
        quick = modes.table[mode, 0] != IMPACT and in_lanes(contacts)
        sound = np.zeros(end - t, np.bool_)
        if quick:
            arena[0, 0] = start
            linearize_lanes(
                tree, arena, contacts, mode, modes.table[mode, 2], S, h, X[t:end], U[t:end], A[t:end], B[t:end],
                record[t:end], sound,
            )  # fmt: skip
        for i in range(t, end):
            if modes.table[mode, 0] == IMPACT:
                linearize_impact(still, contacts, mode, e, X[i], w, A[i], B[i], record[i])
            elif not sound[i - t]:
                linearize_step(tree, contacts, mode, S, h, X[i], U[i], w, A[i], B[i], record[i])
        if modes.table[mode, 0] != IMPACT:
            for b in range(tree.parent.size):
                if is_group(tree.kind[b]):
                    turn_group_rows(tree, b, h, nq, record[t:end], A[t:end], B[t:end])
        t = end


@kernel
def linearize_lanes(tree, arena, contacts, mode, nc, S, h, X, U, A, B, record, sound):
    """The same of one mode, as if every joint's motions commuted; sound (M,): whether a knot's result is one."""
    N, nu = U.shape
    nv = tree.body.size
    nq, n, nz = X.shape[1] - nv, 2 * nv, nv + nc
    size = nq + n + 1 + nc + nz * (nz + n + nu)
    x, u = lane_memory(arena, size), lane_memory(arena, nu)
    first, second = lane_memory(arena, n * n), lane_memory(arena, n * nu)
    D, pivots = lane_memory(arena, nv), lane_memory(arena, nc)
    light = views_of(tree)
    ws, place = lane_workspace(light, arena), lane_places(light, contacts, arena)
    r = lane_relation(nv, nc, arena, x, nq + nv, D, pivots)
    tau, no_fext = lane_vector(arena, nv), lane_matrix(arena, 0, 6)
    q, v, controls = lane_array(x[:nq]), lane_array(x[nq : nq + nv]), lane_array(u)
    zu = lane_array(x[size - nz * nu : size].reshape(nz, nu, WIDTH))
    Al, Bl = lane_array(first.reshape(n, n, WIDTH)), lane_array(second.reshape(n, nu, WIDTH))
    for t in range(0, N, WIDTH):
        pack(X, t, x[: X.shape[1]])
        pack(U, t, u)
        for i in range(nv):
            tau[i] = -light.damping[i] * v[i]
            for j in range(nu):
                if S[i, j] != 0.0:
                    tau[i] += S[i, j] * controls[j]
        relate_contact(light, contacts, 0.0, q, v, tau, no_fext, ws, place, r)
        for i in range(nz):
            for j in range(nu):
                total = 0.0 * tau[0]
                for k in range(nv):
                    if S[k, j] != 0.0:
                        total = total + S[k, j] * r.Kinv[i, k]
                zu[i, j] = total
        for i in range(nv):
            for j in range(nv):
                Al[nv + i, j] = h * r.zq[i, j]
                Al[i, j] = (h * h) * r.zq[i, j]
                Al[nv + i, nv + j] = h * r.zv[i, j]
                Al[i, nv + j] = (h * h) * r.zv[i, j]
            Al[i, i] += 1.0
            Al[i, nv + i] += h
            Al[nv + i, nv + i] += 1.0
            for j in range(nu):
                Bl[nv + i, j] = h * zu[i, j]
                Bl[i, j] = (h * h) * zu[i, j]
        x[nq + n] = mode
        unpack(first, A.reshape(N, n * n), t)
        unpack(second, B.reshape(N, n * nu), t)
        unpack(x, record, t)
        judge(D, pivots, x[nq + nv : nq + n], sound, t)
    record[:, size:] = 0.0


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


@kernel
def contract_knots(tree, arena, modes, nq, nu, h, record, weight, H):
    """The Hessians (M, nz, nz) of weight (M, n) on the steps of M knots, by their records."""
    nv, start, t = tree.body.size, arena[0, 0], 0
    schedule = np.empty(record.shape[0], np.int64)
    for i in range(schedule.size):
        schedule[i] = int(record[i, nq + 2 * nv])
    while t < schedule.size:
        end, mode = run_end(schedule, t), schedule[t]
        contacts, _ = contacts_of(modes, mode)
        if modes.table[mode, 0] != IMPACT and in_lanes(contacts):
            arena[0, 0] = start
            nc = modes.table[mode, 2]
            contract_lanes(tree, arena, contacts, nc, nq, nu, h, record[t:end], weight[t:end], H[t:end])
        else:
            for i in range(t, end):
                contract(tree, modes, nq, nu, h, record[i], weight[i], H[i])
        t = end


@kernel
def contract_lanes(tree, arena, contacts, nc, nq, nu, h, record, weight, H):
    """The same of steps of one mode."""
    N, nv = record.shape[0], tree.body.size
    n, nz = 2 * nv, nv + nc
    size = nq + n + 1 + nc + nz * (nz + n + nu)
    c, effective, stored = second_scratch(tree, nu), np.zeros((N, nz)), np.empty((N, size))
    for t in range(N):
        stored[t] = record[t, :size]
        _, v, a, _, _, _, _, _ = parts_of(record[t], nq, nv, nu, nc)
        weigh_accelerations(tree, v, a, h, weight[t], c.J, effective[t])
    x, w, out = lane_memory(arena, size), lane_memory(arena, nz), lane_memory(arena, (n + nu) * (n + nu))
    light = views_of(tree)
    ws, place, d = lane_workspace(light, arena), lane_places(light, contacts, arena), lane_curvature(nv, nc, arena)
    gap, no_fext, qu = lane_vector(arena, nc), lane_matrix(arena, 0, 6), lane_matrix(arena, nv, nu)
    k = nq + n + 1 + nc
    m = k + nz * nz
    q, v, a = lane_array(x[:nq]), lane_array(x[nq : nq + nv]), lane_array(x[nq + nv : nq + n])
    f = lane_array(x[nq + n + 1 : k])
    Kinv, zq = lane_array(x[k:m].reshape(nz, nz, WIDTH)), lane_array(x[m : m + nz * nv].reshape(nz, nv, WIDTH))
    zv = lane_array(x[m + nz * nv : m + 2 * nz * nv].reshape(nz, nv, WIDTH))
    zu = lane_array(x[m + 2 * nz * nv : size].reshape(nz, nu, WIDTH))
    Hl = lane_array(out.reshape(n + nu, n + nu, WIDTH))
    out[:] = 0.0
    for t in range(0, N, WIDTH):
        pack(stored, t, x)
        pack(effective, t, w)
        composites(light, q, v, a, no_fext, ws)
        place_contacts(light, contacts, q, ws, place)
        move_contacts(light, contacts, ws, place, gap)
        contact_hessian(light, contacts, lane_array(w), ws, place, Kinv, zq, zv, f, d)
        dense_product(1.0, d.qz, zu, qu)
        for i in range(nv):
            for j in range(nv):
                Hl[i, j] = 0.5 * (d.qq[i, j] + d.qq[j, i])
                Hl[i, nv + j] = d.qv[i, j]
                Hl[nv + i, nv + j] = d.vv[i, j]
            for j in range(nu):
                Hl[i, n + j] = qu[i, j]
        unpack(out, H.reshape(N, (n + nu) * (n + nu)), t)
    for t in range(N):
        add_joint_curvature(tree, nq, nu, nc, h, record[t], weight[t], c, H[t])
        for i in range(n + nu):
            for j in range(i):
                H[t, i, j] = H[t, j, i]

