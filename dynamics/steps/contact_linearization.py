# mypy: allow-untyped-defs, allow-untyped-calls
"""First order of steps under contacts and of impacts, eight knots of one mode at a time, with all that records hold.

A column of R_y has entries for relatives of its degree of freedom and for contacts that it moves only, which
z_y = -K⁻¹ R_y makes use of.
"""

from __future__ import annotations

import numpy as np

from ddp.compiling.kernel import kernel
from ddp.machine.memory import memory_of, rows_of
from ddp.machine.number import WIDTH
from ddp.machine.rows import write_scaled
from dynamics.arrays.lanes import lane_array, lane_matrix, lane_memory, lane_vector
from dynamics.arrays.packing import pack, unpack, unpack_columns
from dynamics.arrays.products import Columns, product
from dynamics.arrays.views import folded
from dynamics.contacts.contact import POINT
from dynamics.contacts.kinematics import lane_places, lane_places_size
from dynamics.contacts.relation import impact_residuals, lane_relation, lane_relation_size, relate_residuals
from dynamics.geometry.joint_motion import is_group, joint_rates
from dynamics.rigid_bodies.inverse import first_felt
from dynamics.rigid_bodies.kinematics import lane_workspace, lane_workspace_size
from dynamics.rigid_bodies.passive import actuate, drive
from dynamics.robots.tree import Tree
from dynamics.steps.held_steps import end_at, end_size, relate_held
from dynamics.steps.linearization import add_joint_rates, next_twist, turn_columns
from dynamics.steps.modes import HELD, IMPACT, Layout, Modes, contacts_of, layout_of, step_of
from dynamics.steps.rollouts import run_end


def size(tree: Tree, where: Layout, nu: int, stages: int, m: int, nc: int) -> int:
    """How many lanes the arena must hold, for at most m contacts and nc forces."""
    nv = tree.nv
    own = where.end + 4 * nv + nc + nu + 6 * (2 * nv + nu) + 72
    both = lane_relation_size(nv, nc) + end_size(tree, m, nc)
    return lane_workspace_size(tree) + lane_places_size(tree, m) + both + own


@kernel
def linearize(context, arena, schedule, X, U, A, B, record):
    """A (M, n, n), B (M, n, nu) and records of knots with the modes of ``schedule`` (M,); A is NaN of no motion."""
    modes, t, start = Modes(context), 0, arena[0, 0]
    while t < U.shape[0]:
        end = run_end(schedule, t)
        arena[0, 0] = start
        linearize_mode(modes, schedule[t], arena, X[t:end], U[t:end], A[t:end], B[t:end], record[t:end])
        t = end


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
def linearize_mode(modes, mode, arena, X, U, A, B, record):
    """``linearize`` of knots of one mode."""
    tree, where, (contacts, restitution) = modes.tree, layout_of(modes), contacts_of(modes, mode)
    kind, nc, h = modes.table[mode, 0], modes.table[mode, 2], step_of(modes, mode)
    (N, nu), nq, nv, m = U.shape, tree.nq, tree.nv, contacts.body.size
    nz, lk, ld, n, moved, still = nv + nc, where.lk, where.ld, nq + 2 * nv, kind != IMPACT, tree.weightless
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
    tau, seen, zero = lane_vector(arena, nv), lane_vector(arena, nv), lane_vector(arena, nv)
    no_fext = lane_matrix(arena, 0, 6)
    T, J, rows = lane_matrix(arena, 6, 6), lane_matrix(arena, 6, 6), lane_vector(arena, 6 * (2 * nv + nu))
    end, begin = end_at(memory_of(arena)[int(arena[0, 0]) :], tree, m, nc), first_seen(tree, contacts)
    for i in range(nv):
        zero[i] = 0.0
    for t in range(0, N, WIDTH):
        pack(X, t, kept[: nq + nv])
        pack(U, t, u)
        actuate(tree, modes.pulls, controls, q, v, tau)
        if kind == HELD:
            relate_held(tree, contacts, h, q, v, tau, no_fext, ws, place, r, end)
        elif kind == IMPACT:
            impact_residuals(still, contacts, 0.0, restitution, q, v, seen, zero, no_fext, ws, place, r)
        else:
            relate_residuals(tree, contacts, 0.0, q, v, tau, no_fext, ws, place, r)
        # here: the arrays live as long as the loop
        columns = Columns(len(segment), rows_of(segment), rows_of(relatives))
        product(columns, -1.0, Kinv, Ry, begin, zy)
        if moved:
            drive(modes.pulls, nz, nu, Kinv, zu)
        else:
            for i in range(nv):
                zy[i, nv + i] += 1.0
        kept[n] = mode
        unpack(kept, record, t)
        for i in range(t, min(t + WIDTH, N)):
            if moved:
                spread_step(record[i, where.Z :], ld, h, A[i], B[i])
            else:
                spread_impact(record[i, where.Z :], ld, A[i], B[i])
        for b in range(tree.nb if moved else 0):
            if is_group(tree.kind[b]):
                iv, nj = tree.iv[b], tree.nj[b]
                joint_rates(tree.kind[b], nj, next_twist(tree.kind[b], v, numbers[nq + nv : n], iv, h), T, J)
                of_x, of_u = rows[: 2 * nv * nj], rows[2 * nv * nj : (2 * nv + nu) * nj]
                turn_joint(nj, iv, h, T, J, Z, ld, of_x, of_u, 2 * nv, nu)
                unpack_columns(of_x, A, t, 2 * nv * iv)
                unpack_columns(of_u, B, t, nu * iv)
        judge(D, pivots, kept[nq + nv : n], kind == HELD, A, t)


@kernel
def spread_step(Z, ld, h, A, B):
    """A, B of a step with accelerations z_y, the first nv rows of ld numbers."""
    n, nu = B.shape
    nv, z, to_A, to_B = n // 2, Z.ctypes.data, A.ctypes.data, B.ctypes.data
    write_scaled(to_A, n, h * h, z, ld, nv, n)
    write_scaled(to_A + 8 * nv * n, n, h, z, ld, nv, n)
    write_scaled(to_B, nu, h * h, z + 8 * n, ld, nv, nu)
    write_scaled(to_B + 8 * nv * nu, nu, h, z + 8 * n, ld, nv, nu)
    for i in range(nv):
        A[i, i] += 1.0
        A[i, nv + i] += h
        A[nv + i, nv + i] += 1.0


@kernel
def spread_impact(Z, ld, A, B):
    """A, B of an impact with jumps z_y, the first nv rows of ld numbers."""
    n = len(A)
    nv = n // 2
    A[:nv], B[:] = 0.0, 0.0
    write_scaled(A[nv:].ctypes.data, n, 1.0, Z.ctypes.data, ld, nv, n)
    for i in range(nv):
        A[i, i] = 1.0


@kernel
def judge(D, pivots, a, are_held, A, t):
    """Write NaN into A of those of the knots t..t+7 that have no motion.

    They have one where the mass matrix is positive, accelerations are finite and, if asked for, contacts are held.
    """
    for lane in range(min(WIDTH, A.shape[0] - t)):
        fine = not are_held or pivots[0, lane] > 0.0
        for i in range(D.shape[0]):
            fine = fine and D[i, lane] > 0.0 and np.isfinite(a[i, lane])
        if not fine:
            A[t + lane] = np.nan


@kernel
def forget_weights(context, A, B, record):
    """Reset the weights g on forces in records: ``linearize`` has written everything else."""
    modes = Modes(context)
    record[:, modes.g : modes.g + modes.forces] = 0.0
