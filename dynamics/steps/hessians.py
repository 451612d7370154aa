# mypy: allow-untyped-defs, allow-untyped-calls
"""Hessians of knots of any mode, contracted with weights: eight knots of a mode at a time, or one.

The blocks of second_order.py are of lanes or of floats; products with a knot's z_y are of floats, eight columns to a
register.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import carray

from ddp.compiling.kernel import callback, kernel, pointer
from ddp.machine.number import WIDTH
from ddp.machine.rows import add_transposed, clear_rows, copy_rows, mirror, write_rows, write_scaled
from ddp.machine.tiles import add_product, add_upper_product
from ddp.system import Contraction
from dynamics.arrays.lanes import lane_array, lane_memory, lane_vector
from dynamics.arrays.packing import pack, unpack
from dynamics.arrays.tables import matrix, vector
from dynamics.arrays.views import view
from dynamics.geometry.joint_motion import is_group
from dynamics.robots.tree import Tree
from dynamics.steps.curvature import weigh_accelerations, weigh_residuals
from dynamics.steps.modes import HELD, IMPACT, Layout, Modes, contacts_of, layout_of, mode_of, motion_of, step_of, whole
from dynamics.steps.second_order import (
    bench,
    blocks_of,
    curve_impact,
    curve_step,
    lane_bench,
    lane_bench_size,
    numbers_of_blocks,
    without_gains,
)


def size(tree: Tree, where: Layout, nq: int, nu: int, m: int, nc: int) -> int:
    """How many lanes the arena must hold for ``contract``, for at most m contacts and nc forces."""
    nv = tree.nv
    nz = nv + nc
    vectors = where.K + 2 * nv + 2 * nz + 2 * whole(nz)
    return int(lane_bench_size(tree, nq, m, nc) + vectors + 2 * numbers_of_blocks(tree, nc) + room(nv, where.ld))


@kernel
def room(nv, ld):
    """How many registers ``assemble`` works in."""
    return (ld * (ld + nv + max(nv, 6)) + 8 * WIDTH) // WIDTH + 4


@kernel
def contract(context, arena, record, weight, out):
    """out (M, nz, nz): Hessians of weight·(f(x ⊕ dx, u + du) ⊖ f(x, u)) of M knots, from their records."""
    modes, t, start = Modes(context), 0, arena[0, 0]
    tree, where, nu = modes.tree, layout_of(modes), modes.nu
    nq, nv = tree.nq, tree.nv
    while t < record.shape[0]:
        end, mode = t + 1, mode_of(modes, record[t], nq, nv)
        while end < record.shape[0] and mode_of(modes, record[end], nq, nv) == mode:
            end += 1
        if modes.table[mode, 0] == IMPACT:
            for i in range(t, end):
                contract_one(tree, modes, where, nq, nu, record[i], weight[i], out[i])
        else:
            arena[0, 0] = start
            contract_lanes(tree, arena, modes, mode, where, nq, nu, record[t:end], weight[t:end], out[t:end])
        t = end


@kernel
def contract_lanes(tree, arena, modes, mode, where, nq, nu, record, weight, out):
    """``contract`` of steps of one mode, eight at a time."""
    kind, nc, h, nv = modes.table[mode, 0], modes.table[mode, 2], step_of(modes, mode), tree.nv
    nz, lx, n = nv + nc, whole(nv + nc), nq + 2 * nv
    count, contacts = numbers_of_blocks(tree, nc), contacts_of(modes, mode)[0]
    acting = without_gains(contacts) if kind == HELD else contacts
    kept, w = lane_memory(arena, where.K), lane_vector(arena, 2 * nv)
    numbers, effective, omega = lane_array(kept), lane_vector(arena, nz), lane_vector(arena, lx)
    on_z, omegas = lane_memory(arena, nz).reshape(WIDTH, nz), lane_memory(arena, lx).reshape(WIDTH, lx)
    blocks, rows = lane_vector(arena, count), lane_memory(arena, count).reshape(WIDTH, count)
    own, scratch = blocks_of(tree, nc, blocks), lane_bench(tree, acting, nq, nc, arena)
    space = lane_memory(arena, room(nv, where.ld))
    q, v, a = numbers[:nq], numbers[nq : nq + nv], numbers[nq + nv : n]
    f, g = numbers[n + 1 : n + 1 + nc], numbers[where.g : where.g + nc]
    for t in range(0, record.shape[0], WIDTH):
        pack(record, t, kept)
        pack(weight, t, w)
        weigh_accelerations(tree, h, v, a, w, scratch.J, effective)
        for i in range(nc):
            effective[nv + i] = -g[i]
        unpack(effective, on_z, 0)
        end = min(t + WIDTH, record.shape[0])
        for i in range(t, end):
            weigh_residuals(record[i, where.K :], where.lk, nz, on_z[i - t], omegas[i - t])
        pack(omegas[: end - t], 0, omega)
        curve_step(tree, contacts, acting, kind, h, (q, v, a, f), w, omega, scratch, own)
        unpack(blocks, rows, 0)
        for i in range(t, end):
            assemble(tree, kind, h, nu, nz, record[i, where.Z :], where.ld, rows[i - t], space, out[i])


@kernel
def contract_one(tree, modes, where, nq, nu, record, weight, H):
    """``contract`` of one knot of any mode."""
    nv, mode = tree.nv, mode_of(modes, record, nq, tree.nv)
    contacts, e = contacts_of(modes, mode)
    kind, nc, h = modes.table[mode, 0], modes.table[mode, 2], step_of(modes, mode)
    motion, g = motion_of(record, nq, nv, nc), record[where.g : where.g + nc]
    K, Z = record[where.K :], record[where.Z :]
    contract_motion(tree, contacts, e, kind, h, nu, motion, weight, g, K, where.lk, Z, where.ld, H)


@kernel
def contract_motion(tree, contacts, restitution, kind, h, nu, motion, weight, g, K, lk, Z, ld, H):
    """H := the Hessian of weight·f + g·forces at a motion q, v, a, f with K⁻¹ and z_y, rows of lk and ld numbers."""
    q, v, a, f = motion
    nv, nc = v.size, f.size
    nz, acting = nv + nc, without_gains(contacts) if kind == HELD else contacts
    effective, omega, blocks = np.zeros(nz), np.zeros(whole(nz)), np.zeros(numbers_of_blocks(tree, nc))
    w, b = bench(tree, contacts, q.size, nc, v), blocks_of(tree, nc, view(blocks))
    space = np.empty(WIDTH * room(nv, ld))
    if kind == IMPACT:
        for i in range(nv):
            effective[i] = -weight[nv + i]
    else:
        weigh_accelerations(tree, h, v, a, weight, w.J, effective)
    for i in range(nc):
        effective[nv + i] = -g[i]
    weigh_residuals(K, lk, nz, effective, omega)
    if kind == IMPACT:
        curve_impact(tree, contacts, restitution, motion, omega, w, b)
    else:
        curve_step(tree, contacts, acting, kind, h, motion, weight, omega, w, b)
    assemble(tree, kind, h, nu, nz, Z, ld, blocks, space, H)


@kernel
def assemble(tree, kind, h, nu, nz, zy, ld, blocks, space, out):
    """out := the Hessian (2 nv + nu, 2 nv + nu) of a knot with these ``Blocks`` and z_y, rows of ld numbers."""
    nv, Z, x, H = tree.nv, zy.ctypes.data, blocks.ctypes.data, space.ctypes.data
    square, lx, rows = nv * nv, whole(nv), H + 8 * (ld * ld + 2 * WIDTH)
    bent = rows + 8 * (nv * ld + 2 * WIDTH)
    clear_rows(H, ld, ld, ld)
    write_scaled(H, ld, 0.5, x, nv, nv, nv)
    write_rows(H + 8 * nv, ld, x + 8 * square, nv, nv, nv)
    add_product(H, ld, nv, ld, x + 24 * square, nz, 1, Z, ld, nz)
    add_transposed(H, ld, lx)
    write_rows(H + 8 * nv * (ld + 1), ld, x + 16 * square, nv, nv, nv)
    if kind != IMPACT:
        write_scaled(rows, ld, h * h, Z, ld, nv, ld)
        eta = carray(pointer(rows), (nv, ld))
        for i in range(nv):
            eta[i, nv + i] += h
        joints = x + 8 * (3 * square + nv * nz)
        for b in range(tree.nb):
            if is_group(tree.kind[b]):
                add_joint(tree.iv[b], tree.nj[b], nv, nu, ld, joints, rows, bent, H)
                joints += 32 * tree.nj[b] * tree.nj[b]
        if kind == HELD:
            displace(tree, ld, x + 8 * (3 * square + nv * nz), rows, bent)
            clear_rows(bent, ld, nv, ld)
            add_product(bent, ld, nv, ld, joints, nv, 1, rows, ld, nv)
            add_upper_product(H, ld, 2 * nv + nu, ld, rows, 1, ld, bent, ld, nv)
    mirror(H, ld)
    write_rows(out.ctypes.data, 2 * nv + nu, H, ld, 2 * nv + nu, 2 * nv + nu)


@kernel
def add_joint(iv, nj, nv, nu, ld, own, rows, bent, H):
    """On and above its diagonal H += ηᵀ (C η + Dᵀ δq) + δqᵀ D η of one joint, η its ``rows``."""
    eta, D = rows + 8 * iv * ld, matrix(own + 8 * nj * nj, nj, nj)
    clear_rows(bent, ld, nj, ld)
    add_product(bent, ld, nj, ld, own, nj, 1, eta, ld, nj)
    curved = matrix(bent, nj, ld)
    for i in range(nj):
        for k in range(nj):
            curved[k, iv + i] += D[i, k]
    add_product(H + 8 * iv * ld, ld, nj, ld, own + 8 * nj * nj, nj, 1, eta, ld, nj)
    add_upper_product(H, ld, 2 * nv + nu, ld, eta, 1, ld, bent, ld, nj)


@kernel
def displace(tree, ld, joints, rows, bent):
    """rows (nv, ld), which are η, become δq' = T δq + J η."""
    moved = matrix(rows, tree.nv, ld)
    for b in range(tree.nb):
        iv, nj = tree.iv[b], tree.nj[b]
        if is_group(tree.kind[b]):
            own, T = rows + 8 * iv * ld, matrix(joints + 16 * nj * nj, nj, nj)
            copy_rows(bent, ld, own, ld, nj, ld)
            clear_rows(own, ld, nj, ld)
            add_product(own, ld, nj, ld, joints + 24 * nj * nj, nj, 1, bent, ld, nj)
            for i in range(nj):
                for k in range(nj):
                    moved[iv + i, iv + k] += T[i, k]
            joints += 32 * nj * nj
        else:
            for i in range(iv, iv + nj):
                moved[i, i] += 1.0


def contract_at(context, record, weight, hessian):  # type: ignore[no-untyped-def]
    """The C function: addresses of `Modes`, a record, a weight (n,) and the Hessian (nz, nz) to write."""
    modes = Modes(context)
    tree, where, nu = modes.tree, layout_of(modes), modes.nu
    n = 2 * tree.nv
    H = matrix(hessian, n + nu, n + nu)
    contract_one(tree, modes, where, tree.nq, nu, vector(record, where.end), vector(weight, n), H)


@cache
def _callback() -> Any:
    return callback(contract_at)


def contraction(modes: Modes) -> Contraction:
    """``contract`` of single knots as a C function, for backward sweeps that know weights knot by knot."""
    return Contraction(_callback().address, modes.address, modes)
