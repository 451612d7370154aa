# mypy: allow-untyped-defs, allow-untyped-calls
"""First order of steps under contacts and of impacts, and records of them; knots.py has the loop over knots.

A column of R_y has entries for relatives of its degree of freedom and for contacts that it moves only, which
z_y = -K⁻¹ R_y makes use of.
"""

from collections import namedtuple

import numpy as np

from ddp.compiling.kernel import inline, kernel
from ddp.machine.fields import Fields, matrix_of, nested, vector
from ddp.machine.memory import address_of, as_matrix, as_vector, columns_from, columns_of, rows_of
from ddp.machine.number import lane_of, width
from ddp.machine.packing import unpack, unpack_columns
from ddp.machine.rows import write_scaled
from dynamics.arrays.products import Columns, product
from dynamics.contacts.contact import ROLLING, Contacts
from dynamics.contacts.kinematics import Place
from dynamics.contacts.products import threes
from dynamics.contacts.relation import Factors, impact_residuals, relate_residuals, relation
from dynamics.contacts.response import is_redundant, refine
from dynamics.rigid_bodies.inverse import first_felt
from dynamics.rigid_bodies.kinematics import Workspace, clear
from dynamics.rigid_bodies.passive import actuate, drive
from dynamics.steps.held_steps import End, clear_end, relate_held
from dynamics.steps.linearization import Turning, turn_rows
from dynamics.steps.modes import HELD, IMPACT, Modes, layout_of, step_of


class ContactMemory(Fields):
    """Working memory of numbers: records of knots, what contacts see, zeros, scratch.

    later: where held steps end.
    """

    record, u, tau, seen, zero = vector("record"), vector("nu"), vector("nv"), vector("nv"), vector("nv")
    ws, place, factors = nested(Workspace), nested(Place), nested(Factors)
    turning, later, no_fext = nested(Turning), nested(End), matrix_of("0", "6")


ContactRelation = namedtuple("ContactRelation", "q u Kinv zy own r columns arrays begin")
"""Working memory of ``relate_touching`` for one mode.

q, u: where knots are read; q begins a record of theirs, of which Kinv, zy are the matrices.
columns: the entries of [R_q R_v], made of ``arrays``.   begin: the first column with any.
"""


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
        for i in range(contacts.count):
            b = contacts.body[i]
            k = tree.iv[b] + tree.nj[b] - 1
            while k > first:
                k = tree.previous[k]
            if k == first:
                for r in range(3 * threes(contacts, i)):
                    relatives[stop] = nv + contacts.row[i] + r
                    stop += 1
        for part in range(2):  # by q and by v, next to one another: they read the same of K⁻¹
            columns = segment[2 * t + part]
            columns[0], columns[1], columns[2], columns[3] = part * nv + first, part * nv + end, begin, stop
    return segment, relatives


@kernel
def contact_relation(modes, mode, memory):
    """Working memory of ``relate_touching``."""
    tree, where, contacts = modes.tree, layout_of(modes), Contacts(modes.contacts[mode])
    nc, n, m = modes.table[mode, 2], tree.nq + 2 * tree.nv, contacts.count
    own = ContactMemory(memory, tree, where.end, modes.nu, m, nc)
    nz, a, f = tree.nv + nc, own.record[n - tree.nv :], own.record[n + 1 :]
    Kinv, zy = as_matrix(own.record[where.K :], nz, where.lk), as_matrix(own.record[where.Z :], nz, where.ld)
    clear(own.record, where.K)
    for i in range(nz):
        clear(Kinv[i][nz:], where.lk - nz)
        clear(zy[i][2 * tree.nv :], where.ld - 2 * tree.nv)
    clear(own.zero, tree.nv)
    if modes.table[mode, 0] == HELD:
        clear_end(tree, nc, own.later)
    own.record[n] = 1.0 * mode
    arrays = columns_of_residuals(tree, contacts, nc)
    columns = Columns(len(arrays[0]), rows_of(arrays[0]), rows_of(arrays[1]))
    r = relation(tree, nc, a, f, Kinv, own.factors)
    begin = first_felt(tree)
    for i in range(contacts.count):
        if contacts.gains[i, 2] != 0.0 or contacts.kind[i] == ROLLING:  # places matter
            begin = 0
    return ContactRelation(own.record, own.u, Kinv, zy, own, r, columns, arrays, begin)


@inline
def relate_touching(modes, mode, w, A, B, record, t):
    """A, B and records of the knots from t on, of steps under contacts or impacts."""
    tree, contacts, r, own, h = modes.tree, Contacts(modes.contacts[mode]), w.r, w.own, step_of(modes, mode)
    kind, nv, nu, nz, ld = modes.table[mode, 0], tree.nv, modes.nu, len(w.zy), modes.ld
    q, v, ws, place, still = w.q, w.q[tree.nq :], own.ws, own.place, tree.weightless
    actuate(tree, modes.pulls, w.u, q, v, own.tau)
    if kind == HELD:
        relate_held(tree, contacts, h, q, v, own.tau, own.no_fext, ws, place, r, own.later)
    elif kind == IMPACT:
        impact_residuals(still, contacts, 0.0, modes.own[mode, 0], q, v, own.seen, own.zero, own.no_fext, ws, place, r)
    else:
        relate_residuals(tree, contacts, 0.0, q, v, own.tau, own.no_fext, ws, place, r)
    product(w.columns, nz, -1.0, w.Kinv, r.Ry, w.begin, w.zy)
    if kind != HELD:
        refine(contacts, 0.0, r, 1.0, 2 * nv, w.zy)
    if kind == IMPACT:
        for i in range(nv):
            w.zy[i, nv + i] += 1.0
    else:
        drive(modes.pulls, nz, nu, w.Kinv, columns_from(w.zy, 2 * nv))
    unpack(w.q, modes.K + nz * modes.lk, record, t)
    unpack_columns(as_vector(w.zy), nz * ld, record, t, modes.Z)
    for i in range(t, min(t + width(w.q), len(A))):
        if kind == IMPACT:
            clear(A[i], 2 * nv * nv)
            clear(B[i], 2 * nv * nu)
            write_scaled(address_of(A[i][2 * nv * nv :]), 2 * nv, 1.0, address_of(record[i][modes.Z :]), ld, nv, 2 * nv)
            for k in range(nv):
                A[i, k * (2 * nv + 1)] = 1.0
        else:
            spread_step(record[i][modes.Z :], ld, h, nv, nu, A[i], B[i])
    if kind != IMPACT:
        turn_rows(tree, h, nu, v, r.a, as_vector(w.zy), ld, own.turning, A, B, t)
    judge(nv, r.nc, r, kind == HELD, A, t)


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
def judge(nv, nc, r, are_held, A, t):
    """Write NaN into A of those of the knots from t on that have no motion.

    They have one where the mass matrix is positive, accelerations are finite and, if asked for, contacts are held, each
    in directions of its own.
    """
    for lane in range(min(width(r.D), len(A) - t)):
        fine = not (are_held and is_redundant(r.pivots, nc, lane))
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
