# mypy: allow-untyped-defs, allow-untyped-calls
"""Hessians of knots of any mode, contracted with weights; knots.py has the loop over knots.

The blocks of second_order.py are of lanes or of floats; products with a knot's z_y are of floats, eight columns to a
register.
"""

from ddp.compiling.kernel import apart, inline, kernel
from ddp.machine.fields import Fields, nested, vector
from ddp.machine.memory import address_of, as_matrix, as_vector, columns_of, floats_at, numbers_between
from ddp.machine.number import WIDTH, width
from ddp.machine.packing import pack, unpack
from ddp.machine.rows import add_transposed, clear_rows, copy_rows, mirror, write_rows, write_scaled
from ddp.machine.tiles import add_product, add_upper_product
from dynamics.contacts.contact import Contacts
from dynamics.contacts.hessian import clear_blocks
from dynamics.geometry.joint_motion import is_group
from dynamics.rigid_bodies.kinematics import clear
from dynamics.steps.modes import HELD, IMPACT, layout_of, step_of, whole
from dynamics.steps.second_order import (
    Blocks,
    Scratch,
    curve_step,
    numbers_of_blocks,
    numbers_of_joints,
    weigh_accelerations,
    weigh_residuals,
)


class Room(Fields):
    """Memory for knots of one mode, as many as a number has lanes, before floats of each: -on_z, ω and blocks.

    kept: the knots' records up to K⁻¹.   weight, on_z, omega: weights on steps, z and residuals.
    """

    kept, weight, on_z, omega = vector("kept"), vector("2 nv"), vector("nv + nc"), vector("nv + nc")
    own, scratch = nested(Blocks), nested(Scratch)


@kernel
def room_for(modes, mode, memory):
    """A `Room` for a mode, with zeros where nothing is written between unrelated degrees of freedom."""
    tree, m, nc = modes.tree, modes.table[mode, 1], modes.table[mode, 2]
    w = Room(memory, tree, layout_of(modes).K, nc, numbers_of_joints(tree), m)
    x = w.scratch
    clear_blocks(tree, w.own)
    clear(x.still, tree.nv)
    if modes.table[mode, 0] == HELD:
        clear(as_vector(x.later.R), numbers_between(x.later.R, x.later.end))
        clear(as_vector(x.there.R), numbers_between(x.there.R, x.there.end))
        clear(as_vector(x.Je), 2 * nc * tree.nv)
        clear(x.zero, nc)
    return w


@kernel
def of_lanes(x, lanes, n):
    """The memory of n numbers as rows of floats, one of each lane."""
    return as_matrix(floats_at(address_of(x)), lanes, n)


@kernel
def size_of_motions(tree, where, m, nc):
    """Numbers that `curve_motions` takes, for at most m contacts and nc forces."""
    nz, memory = tree.nv + nc, floats_at(64)
    room = Room(memory, tree, where.K, nc, numbers_of_joints(tree), m)
    return numbers_between(memory, room.end) + nz + whole(nz)


@kernel
def size(tree, where, m, nc, lanes):
    """Numbers, of so many lanes, that `room_for` and `curve` take, for at most m contacts and nc forces."""
    of_assemble = (where.ld * (where.ld + tree.nv + max(tree.nv, 6)) + 8 * WIDTH) // WIDTH + 4  # registers
    return size_of_motions(tree, where, m, nc) + numbers_of_blocks(tree, nc) + of_assemble * WIDTH // lanes


@inline
def curve_motions(modes, mode, w, record, weight):
    """w.own := the ``Blocks`` of some knots of a mode, as many as there are in a record; what follows in memory."""
    tree, where, h, nc = modes.tree, layout_of(modes), step_of(modes, mode), modes.table[mode, 2]
    kind, nq, nv, count = modes.table[mode, 0], tree.nq, tree.nv, len(record)
    n, nz, contacts, acting = nq + 2 * nv, nv + nc, Contacts(modes.contacts[mode]), Contacts(modes.acting[mode])
    v, a, f, g = w.kept[nq:], w.kept[nq + nv :], w.kept[n + 1 :], w.kept[where.g :]
    motion = w.kept, v, a, f
    pack(record, 0, w.kept, where.K)
    pack(weight, 0, w.weight, 2 * nv)
    if kind == IMPACT:
        for i in range(nv):
            w.on_z[i] = -w.weight[nv + i]
    else:
        weigh_accelerations(tree, h, v, a, w.weight, w.scratch.J, w.on_z)
    for i in range(nc):
        w.on_z[nv + i] = -g[i]
    lanes, lx, of_omega = width(w.kept), whole(nz), w.end[nz:]
    on_z, omega = of_lanes(w.end, lanes, nz), of_lanes(of_omega, lanes, lx)
    unpack(w.on_z, nz, on_z[:count], 0)
    for i in range(count):
        weigh_residuals(record[i][where.K :], where.lk, nz, on_z[i], omega[i])
    pack(omega[:count], 0, w.omega, nz)
    curve_step(tree, contacts, acting, kind, h, modes.own[mode, 0], motion, w.weight, w.omega, w.scratch, w.own)
    return of_omega[lx:]


@inline
def curve(modes, mode, w, record, weight, out):
    """Hessians of some knots of a mode, as many as there are in a record, at most one to a lane."""
    tree, where, h, count = modes.tree, layout_of(modes), step_of(modes, mode), len(record)
    kind, nc = modes.table[mode, 0], modes.table[mode, 2]
    nv, numbers, of_blocks = tree.nv, numbers_of_blocks(tree, nc), curve_motions(modes, mode, w, record, weight)
    blocks, space = of_lanes(of_blocks, width(w.kept), numbers), of_blocks[numbers:]
    unpack(as_vector(w.own.qq), columns_of(blocks) - (nv * nv if kind != HELD else 0), blocks[:count], 0)  # W is last
    for i in range(count):
        zy = record[i][where.Z :]
        assemble(tree, kind, h, modes.nu, nv + nc, zy, where.ld, blocks[i], floats_at(address_of(space)), out[i])


@kernel
def assemble_relation(nv, nz, zy, ld, x, H):
    """H (ld, ld) := ω R_yy + (ω R_qz) z_y + its transpose on and above the diagonal, of ``Blocks`` x.

    Below the diagonal is what nobody reads.
    """
    square, to_H, end, last = nv * nv, address_of(H), whole(nv), 2 * nv // WIDTH * WIDTH
    clear_rows(to_H + 8 * last, ld, nv, ld - last)
    clear_rows(address_of(H[nv * ld :]), ld, end - nv, ld)
    for i in range(end, ld, WIDTH):
        clear_rows(address_of(H[i * (ld + 1) :]), ld, WIDTH, ld - i)
    write_scaled(to_H, ld, 0.5, address_of(x), nv, nv, nv)
    write_rows(address_of(H[nv:]), ld, address_of(x[square:]), nv, nv, nv)
    add_product(to_H, ld, nv, ld, address_of(x[3 * square :]), nz, 1, address_of(zy), ld, nz)
    add_transposed(to_H, ld, end)
    write_rows(address_of(H[nv * (ld + 1) :]), ld, address_of(x[2 * square :]), nv, nv, nv)


@kernel
def assemble(tree, kind, h, nu, nz, zy, ld, x, space, out):
    """out := the Hessian (2 nv + nu, 2 nv + nu) of a knot with these ``Blocks`` x and z_y, rows of ld numbers.

    All of them are vectors of floats; space: memory to work in.
    """
    nv, n = tree.nv, 2 * tree.nv + nu
    square, rows, to_H = nv * nv, space[ld * ld + 2 * WIDTH :], address_of(out if n == ld else space)
    H, bent, joints = floats_at(to_H), rows[nv * ld + 2 * WIDTH :], x[3 * square + nv * nz :]
    assemble_relation(nv, nz, zy, ld, x, H)
    if kind != IMPACT:
        if kind == HELD:
            displacements_of_steps(nv, h, zy, ld, 0, nv, rows)
        for b in range(tree.nb):
            if is_group(tree.kind[b]):
                iv, nj = tree.iv[b], tree.nj[b]
                if kind != HELD:
                    displacements_of_steps(nv, h, zy, ld, iv, nj, rows)
                add_joint(iv, nj, nj, joints, joints[nj * nj :], n, ld, rows, bent, H)
                joints = joints[4 * nj * nj :]
        if kind == HELD:
            eta, to = address_of(rows), address_of(bent)
            displace(tree, ld, x[3 * square + nv * nz :], rows, bent)
            clear_rows(to, ld, nv, ld)
            add_product(to, ld, nv, ld, address_of(joints), nv, 1, eta, ld, nv)
            add_upper_product(to_H, ld, n, ld, eta, 1, ld, to, ld, nv)
    mirror(to_H, ld)
    if n != ld:
        write_rows(address_of(out), n, to_H, ld, n, n)


@kernel
def displacements_of_steps(nv, h, zy, ld, first, count, rows):
    """Write rows first .. first + count - 1 of η = h δv' = h² a_z δz + h δv, in their places."""
    write_scaled(address_of(rows[first * ld :]), ld, h * h, address_of(zy[first * ld :]), ld, count, ld)
    for i in range(first, first + count):
        rows[i * ld + nv + i] += h


@kernel
def add_joint(iv, nj, lc, C, D, nz, ld, rows, bent, H):
    """H += ηᵀ (C η + Dᵀ δq) + δqᵀ D η of one joint, on and above its diagonal; η: its ``rows``.

    C, D: vectors of rows of lc numbers.
    """
    eta, to = address_of(rows[iv * ld :]), address_of(bent)
    clear_rows(to, ld, nj, ld)
    add_product(to, ld, nj, ld, address_of(C), lc, 1, eta, ld, nj)
    for i in range(nj):
        for k in range(nj):
            bent[k * ld + iv + i] += D[i * lc + k]
    add_product(address_of(H[iv * ld :]), ld, nj, ld, address_of(D), lc, 1, eta, ld, nj)
    add_upper_product(address_of(H), ld, nz, ld, eta, 1, ld, to, ld, nj)


@apart
def displace(tree, ld, joints, rows, bent):
    """rows (nv, ld), which are η, become δq' = T δq + J η."""
    for b in range(tree.nb):
        iv, nj = tree.iv[b], tree.nj[b]
        if is_group(tree.kind[b]):
            own, T, J = address_of(rows[iv * ld :]), joints[2 * nj * nj :], joints[3 * nj * nj :]
            copy_rows(address_of(bent), ld, own, ld, nj, ld)
            clear_rows(own, ld, nj, ld)
            add_product(own, ld, nj, ld, address_of(J), nj, 1, address_of(bent), ld, nj)
            for i in range(nj):
                for k in range(nj):
                    rows[(iv + i) * ld + iv + k] += T[i * nj + k]
            joints = joints[4 * nj * nj :]
        else:
            for i in range(iv, iv + nj):
                rows[i * ld + i] += 1.0
