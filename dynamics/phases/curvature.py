# mypy: allow-untyped-defs, allow-untyped-calls
"""Second order of a hybrid system's knot, contracted with a weight.

That of steps under contacts is as in curvature.py, of those that hold them exactly as in held_curvature.py; impacts
keep their configuration, so that only v⁺ is curved.
"""

from __future__ import annotations

import numpy as np

from ddp.compiling.kernel import kernel
from dynamics.contacts.hessian import add_couplings, contact_hessian, curvature, impact_blocks
from dynamics.contacts.kinematics import move_contacts, place_contacts, places
from dynamics.geometry.joint_motion import is_group, slot
from dynamics.geometry.lie import right_jacobian6
from dynamics.phases.held_curvature import held_hessian
from dynamics.phases.modes import (
    HELD,
    IMPACT,
    contacts_of,
    first_order_of,
    layout,
    mode_of,
    motion_of,
    step_of,
    weights_on_forces,
    without_gravity,
)
from dynamics.rigid_bodies.kinematics import composites, place_bodies, workspace
from dynamics.steps.curvature import add_group_curvature, second_scratch
from dynamics.steps.linearization import next_twist


@kernel
def contract(tree, modes, nq, nu, record, weight, H):
    """H (nz, nz): the Hessian of weight·(f(x ⊕ dx, u + du) ⊖ f(x, u)) of the knot that wrote ``record``."""
    nv = tree.body.size
    mode = mode_of(record[nq + 2 * nv])
    contacts, e = contacts_of(modes, mode)
    nc, h = modes.table[mode, 2], step_of(modes, mode)
    where = layout(modes, nq, nv, nu)
    known, g = first_order_of(record, where, nv, nu, nc), weights_on_forces(record, where, nc)
    if modes.table[mode, 0] == IMPACT:
        contract_impact(tree, contacts, e, nq, nc, record, known, weight, H)
    elif modes.table[mode, 0] == HELD:
        contract_held(tree, contacts, nq, nc, h, record, known, weight, g, H)
    else:
        contract_step(tree, contacts, nq, nc, h, record, known, weight, g, H)
    for i in range(H.shape[0]):  # only the upper triangle is complete
        for j in range(i):
            H[i, j] = H[j, i]


@kernel
def contract_step(tree, contacts, nq, nc, h, record, known, weight, g, H):
    """Upper triangle for a step of time under contacts; known: `first_order_of` its record; g: weights on forces."""
    nv = tree.body.size
    q, v, a, f = motion_of(record, nq, nv, nc)
    Kinv, zq, zv, zu = known
    nu = zu.shape[1]
    ws, place = workspace(tree, record), places(tree, contacts, record)
    d, c = curvature(nv, nc, record), second_scratch(tree, nu)
    effective = np.zeros(nv + nc)
    effective[nv:] = g
    weigh_accelerations(tree, v, a, h, weight, c.J, effective)
    composites(tree, q, v, a, np.zeros((0, 6)), ws)
    place_contacts(tree, contacts, q, ws, place)
    move_contacts(tree, contacts, ws, place, np.zeros(nc))
    contact_hessian(tree, contacts, effective, ws, place, Kinv, zq, zv, f, d)
    H[:] = 0.0
    H[:nv, 2 * nv :] = np.dot(d.qz, zu)
    for i in range(nv):
        for j in range(nv):
            H[i, j] = 0.5 * (d.qq[i, j] + d.qq[j, i])
            H[i, nv + j] = d.qv[i, j]
            H[nv + i, nv + j] = d.vv[i, j]
    add_joint_curvature(tree, v, a, known, h, weight, c, H)


@kernel
def contract_held(tree, contacts, nq, nc, h, record, known, weight, g, H):
    """Upper triangle for a step of time that ends where contacts are held."""
    nv, nu = tree.body.size, known[3].shape[1]
    motion = motion_of(record, nq, nv, nc)
    _, v, a, _ = motion
    c, effective, on_next = second_scratch(tree, nu), np.zeros(nv + nc), weight.copy()
    effective[nv:] = g
    weigh_accelerations(tree, v, a, h, weight, c.J, effective)
    held_hessian(tree, contacts, h, motion, known, effective, on_next, H)
    add_joint_curvature(tree, v, a, known, h, on_next, c, H)


@kernel
def add_joint_curvature(tree, v, a, known, h, weight, c, H):
    """Add to the upper triangle what joints whose motions do not commute add."""
    nv = tree.body.size
    _, zq, zv, zu = known
    nu = zu.shape[1]
    for b in range(tree.parent.size):
        if is_group(tree.kind[b]):
            iv, nj = tree.iv[b], tree.nj[b]
            for i in range(nj):  # h E of the joint's rows
                for j in range(nv):
                    c.rows[i, j] = h * h * zq[iv + i, j]
                    c.rows[i, nv + j] = h * h * zv[iv + i, j]
                for j in range(nu):
                    c.rows[i, 2 * nv + j] = h * h * zu[iv + i, j]
                c.rows[i, nv + iv + i] += h
            add_group_curvature(tree, b, next_twist(tree.kind[b], v, a, iv, h), weight, c, H)


@kernel
def weigh_accelerations(tree, v, a, h, weight, J, effective):
    """h (w_v + h Jrᵀ w_q), the weight on accelerations that (w_q, w_v) on a step is."""
    nv = tree.body.size
    for b in range(tree.parent.size):
        kind, iv, nj = tree.kind[b], tree.iv[b], tree.nj[b]
        if is_group(kind):
            right_jacobian6(next_twist(kind, v, a, iv, h), J)
        for i in range(nj):
            total = weight[iv + i]
            if is_group(kind):
                total = 0.0
                for k in range(nj):
                    total += J[slot(kind, k), slot(kind, i)] * weight[iv + k]
            effective[iv + i] = h * (weight[nv + iv + i] + h * total)


@kernel
def contract_impact(tree, contacts, e, nq, nc, record, known, weight, H):
    """Upper triangle for an impact."""
    nv = tree.body.size
    still = without_gravity(tree)
    q, v, a, f = motion_of(record, nq, nv, nc)
    Kinv, zq, zv, _ = known
    ws, place, d = workspace(tree, record), places(tree, contacts, record), curvature(nv, nc, record)
    on_z, seen, gap = np.zeros(nv + nc), np.zeros(nv), np.zeros(nc)
    on_z[:nv] = weight[nv:]
    place_bodies(still, q, True, ws)
    place_contacts(still, contacts, q, ws, place)
    impact_blocks(still, contacts, e, on_z, v, a, f, Kinv, seen, np.zeros(nv), np.zeros((0, 6)), gap, ws, place, d)
    add_couplings(d, zq, zv, d.qq, d.qv)
    H[:] = 0.0
    for i in range(nv):
        for j in range(nv):
            H[i, j] = 0.5 * (d.qq[i, j] + d.qq[j, i])
            H[i, nv + j] = d.qv[i, j]
