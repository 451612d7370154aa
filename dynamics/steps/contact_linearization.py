# mypy: allow-untyped-defs, allow-untyped-calls
"""First order of steps under contacts and of impacts, eight knots of one mode at a time, with all that records hold.

A column of R_y has entries for relatives of its degree of freedom and for contacts that it moves only, which
z_y = -K⁻¹ R_y makes use of.
"""

from __future__ import annotations

import numpy as np

from ddp.compiling.kernel import kernel
from ddp.machine.fields import Fields, rows_apart, vector
from ddp.machine.memory import address_of, as_matrix, columns_from, columns_of, hold, memory_of, rows_of
from ddp.machine.number import lane_of, width
from ddp.machine.packing import pack, unpack, unpack_columns
from ddp.machine.rows import write_scaled
from dynamics.arrays.products import Columns, product
from dynamics.contacts.contact import POINT
from dynamics.contacts.kinematics import Place
from dynamics.contacts.relation import Factors, impact_residuals, relate_residuals, relation
from dynamics.geometry.joint_motion import is_group, joint_rates
from dynamics.rigid_bodies.inverse import first_felt
from dynamics.rigid_bodies.kinematics import Workspace, clear
from dynamics.rigid_bodies.passive import actuate, drive
from dynamics.robots.tree import Tree
from dynamics.steps.held_steps import end_at, end_size, relate_held
from dynamics.steps.linearization import add_joint_rates, next_twist, turn_columns
from dynamics.steps.modes import HELD, IMPACT, Layout, Modes, contacts_of, layout_of, step_of
from dynamics.steps.rollouts import run_end


class Turning(Fields):
    """Torques, what contacts see, zeros; T, J and rows of A and B of a joint whose motions do not commute."""

    u, tau, seen, zero = vector("nu"), vector("nv"), vector("nv"), vector("nv")
    T, J, rows = rows_apart("6", 6), rows_apart("6", 6), vector("12 nv + 6 nu")


def size(tree: Tree, where: Layout, nu: int, stages: int, m: int, nc: int) -> int:
    """How many numbers of memory ``linearize`` takes, for at most m contacts and nc forces."""
    both = Factors.size(tree, nc=nc) + end_size(tree, m, nc) + Turning.size(tree, nu=nu)
    return where.end + Workspace.size(tree) + Place.size(tree, m=m) + both


@kernel
def linearize(context, memory, schedule, X, U, A, B, record):
    """A (M, n, n), B (M, n, nu) and records of knots with the modes of ``schedule`` (M,); A is NaN of no motion."""
    modes, memory, t = Modes(context), memory_of(memory), 0
    X, U, A, B, record = rows_of(X), rows_of(U), rows_of(A), rows_of(B), rows_of(record)
    while t < len(U):
        end = run_end(schedule, t)
        linearize_mode(modes, schedule[t], memory, X[t:end], U[t:end], A[t:end], B[t:end], record[t:end])
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
def linearize_mode(modes, mode, memory, X, U, A, B, record):
    """``linearize`` of knots of one mode."""
    tree, where, (contacts, restitution) = modes.tree, layout_of(modes), contacts_of(modes, mode)
    kind, nc, h = modes.table[mode, 0], modes.table[mode, 2], step_of(modes, mode)
    nq, nv, nu, m, lanes = tree.nq, tree.nv, modes.nu, contacts.body.size, width(memory)
    nz, ld, n, moved, still = nv + nc, where.ld, nq + 2 * nv, kind != IMPACT, tree.weightless
    segment, relatives = columns_of_residuals(tree, contacts, nc)
    columns = Columns(len(segment), rows_of(segment), rows_of(relatives))
    kept = memory
    q, v, a, f = kept, kept[nq:], kept[nq + nv :], kept[n + 1 :]
    Kinv, zy = as_matrix(kept[where.K :], nz, where.lk), as_matrix(kept[where.Z :], nz, ld)
    zu, Z = columns_from(zy, 2 * nv), kept[where.Z :]
    ws = Workspace(kept[where.end :], tree)
    place = Place(ws.end, tree, m)
    factors = Factors(place.end, tree, nc)
    r = relation(tree, nc, a, f, Kinv, factors)
    w = Turning(factors.end, tree, nu)
    end, begin, no_fext = end_at(w.end, tree, m, nc), first_seen(tree, contacts), as_matrix(w.end, 0, 6)
    clear(kept, where.end)
    clear(w.zero, nv)
    for t in range(0, len(X), lanes):
        pack(X, t, kept, nq + nv)
        pack(U, t, w.u, nu)
        actuate(tree, modes.pulls, w.u, q, v, w.tau)
        if kind == HELD:
            relate_held(tree, contacts, h, q, v, w.tau, no_fext, ws, place, r, end)
        elif kind == IMPACT:
            impact_residuals(still, contacts, 0.0, restitution, q, v, w.seen, w.zero, no_fext, ws, place, r)
        else:
            relate_residuals(tree, contacts, 0.0, q, v, w.tau, no_fext, ws, place, r)
        product(columns, nz, -1.0, Kinv, r.Ry, begin, zy)
        if moved:
            drive(modes.pulls, nz, nu, Kinv, zu)
        else:
            for i in range(nv):
                zy[i, nv + i] += 1.0
        kept[n] = 1.0 * mode
        unpack(kept, where.end, record, t)
        for i in range(t, min(t + lanes, len(X))):
            if moved:
                spread_step(record[i][where.Z :], ld, h, nv, nu, A[i], B[i])
            else:
                spread_impact(record[i][where.Z :], ld, nv, nu, A[i], B[i])
        for b in range(tree.nb if moved else 0):
            if is_group(tree.kind[b]):
                iv, nj = tree.iv[b], tree.nj[b]
                joint_rates(tree.kind[b], nj, next_twist(tree.kind[b], v, a, iv, h), w.T, w.J)
                of_x, of_u = w.rows, w.rows[2 * nv * nj :]
                turn_joint(nj, iv, h, w.T, w.J, Z, ld, of_x, of_u, 2 * nv, nu)
                unpack_columns(of_x, 2 * nv * nj, A, t, 2 * nv * iv)
                unpack_columns(of_u, nu * nj, B, t, nu * iv)
        judge(nv, nc, r, kind == HELD, A, t)
    hold(segment)
    hold(relatives)


@kernel
def spread_step(Z, ld, h, nv, nu, A, B):
    """A, B of a step with accelerations z_y, the first nv rows of ld numbers."""
    n, z = 2 * nv, address_of(Z)
    write_scaled(address_of(A), n, h * h, z, ld, nv, n)
    write_scaled(address_of(A[nv * n :]), n, h, z, ld, nv, n)
    write_scaled(address_of(B), nu, h * h, address_of(Z[n:]), ld, nv, nu)
    write_scaled(address_of(B[nv * nu :]), nu, h, address_of(Z[n:]), ld, nv, nu)
    for i in range(nv):
        A[i * n + i] += 1.0
        A[i * n + nv + i] += h
        A[(nv + i) * n + nv + i] += 1.0


@kernel
def spread_impact(Z, ld, nv, nu, A, B):
    """A, B of an impact with jumps z_y, the first nv rows of ld numbers."""
    n = 2 * nv
    clear(A, nv * n)
    clear(B, n * nu)
    write_scaled(address_of(A[nv * n :]), n, 1.0, address_of(Z), ld, nv, n)
    for i in range(nv):
        A[i * n + i] = 1.0


@kernel
def judge(nv, nc, r, are_held, A, t):
    """Write NaN into A of those of the knots from t on that have no motion.

    They have one where the mass matrix is positive, accelerations are finite and, if asked for, contacts are held.
    """
    for lane in range(min(width(r.D), len(A) - t)):
        fine = not are_held or lane_of(r.pivots[0], lane) > 0.0
        for i in range(nv):
            fine = fine and lane_of(r.D[i], lane) > 0.0 and np.isfinite(lane_of(r.a[i], lane))
        if not fine:
            row = A[t + lane]
            for i in range(columns_of(A)):
                row[i] = np.nan


@kernel
def forget_weights(context, A, B, record):
    """Reset the weights g on forces in records: ``linearize`` has written everything else."""
    modes = Modes(context)
    record[:, modes.g : modes.g + modes.forces] = 0.0
