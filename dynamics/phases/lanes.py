# mypy: allow-untyped-defs, allow-untyped-calls
"""First order of steps under contacts, eight knots of one mode at a time, and the records of their second order.

Impacts stay with single knots; knots whose contacts turn out to be redundant, or not to be held, are done again there.
A column of R_y has entries for relatives of its degree of freedom and for contacts that it moves only, which
z_y = -K⁻¹ R_y makes use of.
"""

from __future__ import annotations

import numpy as np

from ddp.compiling.kernel import kernel
from ddp.machine.memory import memory_of, rows_of
from ddp.machine.number import WIDTH
from dynamics.arrays.lanes import lane_array, lane_matrix, lane_memory, lane_vector
from dynamics.arrays.packing import pack, unpack, unpack_columns
from dynamics.arrays.products import Columns, product
from dynamics.arrays.views import folded
from dynamics.contacts.contact import POINT
from dynamics.contacts.kinematics import lane_places, lane_places_size
from dynamics.contacts.relation import lane_relation, lane_relation_size, relate_residuals
from dynamics.contacts.response import REDUNDANT
from dynamics.geometry.joint_motion import is_group, joint_rates
from dynamics.phases.held_steps import end_at, end_size, relate_held
from dynamics.phases.steps import bench, drive, linearize_held, linearize_impact, linearize_step, run_end, spread_step
from dynamics.rigid_bodies.inverse import first_felt
from dynamics.rigid_bodies.kinematics import lane_workspace, lane_workspace_size
from dynamics.rigid_bodies.passive import passive_torque
from dynamics.robots.tree import Tree
from dynamics.steps.linearization import add_joint_rates, next_twist, turn_columns
from dynamics.steps.modes import HELD, IMPACT, Layout, contacts_of, layout, step_of


def size(tree: Tree, where: Layout, nq: int, nu: int, m: int, nc: int) -> int:
    """How many lanes the arena must hold, for at most m contacts and nc forces."""
    nv = tree.nv
    own = where.end + 2 * nv + nc + nu + 6 * (2 * nv + nu) + 72
    both = lane_relation_size(nv, nc) + int(end_size(tree, m, nc))
    return lane_workspace_size(tree) + lane_places_size(tree, m) + both + own


@kernel
def linearize(tree, arena, modes, schedule, S, X, U, A, B, record):
    """A (M, n, n), B (M, n, nu) and records of knots with the modes of ``schedule`` (M,)."""
    t, start, where = 0, arena[0, 0], layout(modes, X.shape[1] - tree.nv, tree.nv, U.shape[1])
    while t < U.shape[0]:
        end, mode = run_end(schedule, t), schedule[t]
        sound = np.zeros(end - t, np.bool_)
        x, u, a, b, written = X[t:end], U[t:end], A[t:end], B[t:end], record[t:end]
        if modes.table[mode, 0] != IMPACT:
            arena[0, 0] = start
            linearize_lanes(tree, arena, modes, mode, where, S, x, u, a, b, written, sound)
        if not sound.all():
            linearize_singly(tree, modes, mode, where, S, x, u, a, b, written, sound)
        t = end


@kernel
def linearize_singly(tree, modes, mode, where, S, X, U, A, B, record, sound):
    """One knot after the other of a mode, but those that are sound already."""
    kind, nc, h, nq = modes.table[mode, 0], modes.table[mode, 2], step_of(modes, mode), X.shape[1] - tree.nv
    contacts, e = contacts_of(modes, mode)
    still, w = tree.weightless, bench(tree, contacts, nc, X)
    for i in range(U.shape[0]):
        if sound[i]:
            continue
        if kind == IMPACT:
            linearize_impact(still, contacts, mode, where, e, X[i], w, A[i], B[i], record[i])
        elif kind == HELD:
            linearize_held(tree, contacts, mode, where, S, h, X[i], U[i], w, A[i], B[i], record[i])
        else:
            linearize_step(tree, contacts, mode, where, S, h, X[i], U[i], w, A[i], B[i], record[i])
        if kind != IMPACT:
            turn_joints(tree, h, nq, where, record[i], A[i], B[i])


@kernel
def turn_joints(tree, h, nq, where, record, A, B):
    """Rows of δq' of all joints whose motions do not commute, of one knot."""
    T, J, (n, nu), nv = np.empty((6, 6)), np.empty((6, 6)), B.shape, tree.nv
    v, a, Z, of_x, of_u = record[nq:], record[nq + nv :], record[where.Z :], A.reshape(n * n), B.reshape(n * nu)
    for b in range(tree.nb):
        iv, nj, kind = tree.iv[b], tree.nj[b], tree.kind[b]
        if is_group(kind):
            joint_rates(kind, nj, next_twist(kind, v, a, iv, h), T, J)
            turn_joint(nj, iv, h, T, J, Z, where.ld, of_x[iv * n :], of_u[iv * nu :], n, nu)


@kernel
def turn_joint(nj, iv, h, T, J, Z, ld, of_x, of_u, n, nu):
    """δq' = T δq + h J δv' of a joint whose motions do not commute, from z_y, rows of ld numbers."""
    turn_columns(nj, h, J, Z, iv * ld, ld, n, of_x, 0, n)
    turn_columns(nj, h, J, Z, iv * ld + n, ld, nu, of_u, 0, nu)
    add_joint_rates(nj, iv, h, T, J, of_x, n)


@kernel
def columns_of_residuals(tree, contacts, nc):
    """``segment`` and ``relatives`` of the columns of [R_q R_v], as a tree has them of its degrees of freedom.

    A column has entries for relatives of its degree of freedom and for the contacts that this moves, from row nv on.
    """
    nv, count = tree.nv, tree.ns
    segment = np.empty((2 * count, 4), np.int64)
    relatives = np.empty(tree.segment[count - 1, 3] + count * nc, np.int64)
    stop = 0
    for t in range(count):
        first, end, own, last = tree.segment[t, 0], tree.segment[t, 1], tree.segment[t, 2], tree.segment[t, 3]
        begin = stop
        for k in range(own, last):
            relatives[begin + k - own] = tree.relatives[k]
        stop += last - own
        for i in range(contacts.body.size):
            b = contacts.body[i]
            k = tree.iv[b] + tree.nj[b] - 1
            while k > first:
                k = tree.previous[k]
            if k == first:
                for r in range(3 if contacts.kind[i] == POINT else 6):
                    relatives[stop] = nv + contacts.row[i] + r
                    stop += 1
        for part in range(2):  # by q and by v, next to one another: they read the same of K⁻¹
            columns = segment[2 * t + part]
            columns[0], columns[1], columns[2], columns[3] = part * nv + first, part * nv + end, begin, stop
    return segment, relatives


@kernel
def first_seen(tree, contacts):
    """The first degree of freedom whose displacement changes any acceleration: `first_felt`, unless places matter."""
    for i in range(contacts.body.size):
        if contacts.gains[i, 2] != 0.0:
            return 0
    return first_felt(tree)


@kernel
def linearize_lanes(tree, arena, modes, mode, where, S, X, U, A, B, record, sound):
    """Eight knots at once of a mode of steps; sound (M,): whether a knot's result is one."""
    (N, nu), nv, contacts = U.shape, tree.nv, contacts_of(modes, mode)[0]
    kind, nc, h = modes.table[mode, 0], modes.table[mode, 2], step_of(modes, mode)
    nq, nz, lk, ld = X.shape[1] - nv, nv + nc, where.lk, where.ld
    n = nq + 2 * nv
    segment, relatives = columns_of_residuals(tree, contacts, nc)
    kept, u = lane_memory(arena, where.end), lane_memory(arena, nu)
    D, pivots = lane_memory(arena, nv), lane_memory(arena, nc)
    kept[:] = 0.0
    numbers = lane_array(kept)
    q, v, controls, Z = numbers[:nq], numbers[nq : nq + nv], lane_array(u), numbers[where.Z :]
    Kinv = folded(numbers[where.K : where.K + nz * lk], nz, lk)
    zy, zu = folded(Z[: nz * ld], nz, ld), folded(Z[2 * nv : 2 * nv + nz * ld], nz, ld)
    ws, place = lane_workspace(tree, arena), lane_places(tree, contacts, arena)
    r, Ry = lane_relation(arena, kept[nq + nv : n], kept[n + 1 : n + 1 + nc], D, pivots, Kinv)
    tau, no_fext, begin = lane_vector(arena, nv), lane_matrix(arena, 0, 6), first_seen(tree, contacts)
    m = contacts.body.size
    ends = end_at(memory_of(lane_memory(arena, end_size(tree, m, nc))), tree, m, nc)
    T, J, rows = lane_matrix(arena, 6, 6), lane_matrix(arena, 6, 6), lane_vector(arena, 6 * (2 * nv + nu))
    for t in range(0, N, WIDTH):
        pack(X, t, kept[: nq + nv])
        pack(U, t, u)
        for i in range(nv):
            tau[i] = passive_torque(tree, i, q, v)
            for j in range(nu):
                if S[i, j] != 0.0:
                    tau[i] += S[i, j] * controls[j]
        if kind == HELD:
            relate_held(tree, contacts, h, q, v, tau, no_fext, ws, place, r, ends)
        else:
            relate_residuals(tree, contacts, 0.0, q, v, tau, no_fext, ws, place, r)
        # here: the arrays live as long as the loop
        columns = Columns(len(segment), rows_of(segment), rows_of(relatives))
        product(columns, -1.0, Kinv, Ry, begin, zy)
        drive(S, Kinv, zu)
        kept[n] = mode
        unpack(kept, record, t)
        end = min(t + WIDTH, N)
        for i in range(t, end):
            spread_step(record[i, where.Z :], ld, h, A[i], B[i])
        for b in range(tree.nb):
            if is_group(tree.kind[b]):
                iv, nj = tree.iv[b], tree.nj[b]
                joint_rates(tree.kind[b], nj, next_twist(tree.kind[b], v, numbers[nq + nv : n], iv, h), T, J)
                of_x, of_u = rows[: 2 * nv * nj], rows[2 * nv * nj : (2 * nv + nu) * nj]
                turn_joint(nj, iv, h, T, J, Z, ld, of_x, of_u, 2 * nv, nu)
                unpack_columns(of_x, A, t, 2 * nv * iv)
                unpack_columns(of_u, B, t, nu * iv)
        judge(D, pivots, kept[nq + nv : n], sound, t)


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
