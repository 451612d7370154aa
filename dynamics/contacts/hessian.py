# mypy: allow-untyped-defs, allow-untyped-calls
"""Second order of motion under contacts and of impacts, contracted with weights on (a, f) or (v⁺, Λ).

It is the relation of implicit.py, with the curvature of inverse dynamics (hessian.py) and of contacts/curvature.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ddp.compiling.kernel import kernel
from dynamics.contacts.curvature import add_contact_curvature, couple_forces
from dynamics.contacts.products import dense_product
from dynamics.contacts.relation import see_velocities
from dynamics.rigid_bodies.hessian import inverse_dynamics_hessian, virtual_velocities
from dynamics.rigid_bodies.implicit import adjoint_weight
from dynamics.rigid_bodies.kinematics import clear, forces, sum_composites


class Curvature(NamedTuple):
    """Blocks of ω R_yy and ω R_yz: qq, qv, vv (nv, nv), qz (nv, nz); omega (nz,); other, cross (nv, nv): scratch."""

    omega: np.ndarray
    qq: np.ndarray
    qv: np.ndarray
    vv: np.ndarray
    qz: np.ndarray
    other: np.ndarray
    cross: np.ndarray


@kernel
def curvature(nv, nc, like):
    """Arrays for one knot, of the number type of ``like``."""
    t = like.dtype
    return Curvature(
        np.zeros(nv + nc, t), np.zeros((nv, nv), t), np.zeros((nv, nv), t), np.zeros((nv, nv), t),
        np.zeros((nv, nv + nc), t), np.zeros((nv, nv), t), np.zeros((nv, nv), t),
    )  # fmt: skip


@kernel
def add_couplings(h, zq, zv):
    """h.qq, h.qv += (ω R_yz) z_y and its transpose."""
    nv = h.qq.shape[0]
    dense_product(1.0, h.qz, zq, h.cross)
    for i in range(nv):
        for j in range(nv):
            h.qq[i, j] += h.cross[i, j] + h.cross[j, i]
    dense_product(1.0, h.qz, zv, h.cross)
    for i in range(nv):
        for j in range(nv):
            h.qv[i, j] += h.cross[i, j]


@kernel
def contact_blocks(tree, contacts, omega, ws, place, f, b):
    """ω R_yy in b.qq (iterated), b.qv, b.vv and ω R_qz in b.qz; after ``composites`` and ``move_contacts``."""
    nv, nz = b.qz.shape
    curve_motion(tree, omega[:nv], ws, b)
    if nz > nv:
        add_contact_curvature(tree, contacts, ws, place, omega[nv:nz], f, b.qq, b.qv, b.vv, b.qz)
        couple_forces(tree, contacts, ws, place, nv, b.qz)


@kernel
def curve_motion(tree, mu, ws, b):
    """Blocks of the Hessian of μᵀ ID; entries between unrelated degrees of freedom are zeros."""
    virtual_velocities(tree, mu, ws)
    clear(b.qq)
    clear(b.qv)
    clear(b.vv)
    clear(b.qz)
    inverse_dynamics_hessian(tree, ws, b.qq, b.qv, b.vv, b.qz)


@kernel
def contact_hessian(tree, contacts, weight, ws, place, Kinv, zq, zv, f, h):
    """Blocks qq (iterated), qv, vv of the Hessian of weight·(a, f), and ω R_qz in h.qz; after ``relate_contact``."""
    adjoint_weight(Kinv, weight, h.omega)
    contact_blocks(tree, contacts, h.omega, ws, place, f, h)
    add_couplings(h, zq, zv)


@kernel
def impact_hessian(tree, contacts, restitution, weight, v, zero, no_fext, ws, place, r, h):
    """Blocks qq (iterated), qv of the Hessian of weight·(v⁺, Λ); after ``relate_impact``."""
    adjoint_weight(r.Kinv, weight, h.omega)
    motion = v, r.a, r.f
    impact_blocks(tree, contacts, restitution, h.omega, motion, zero, no_fext, ws, place, h, h.other, h.cross)
    add_couplings(h, r.zq, r.zv)


@kernel
def impact_blocks(tree, contacts, restitution, omega, motion, zero, no_fext, ws, place, b, other, unused):
    """ω R_yy in b.qq, b.qv and ω R_qz in b.qz; needs placements of bodies and contacts.

    motion: v, v⁺ - v, Λ.   zero (nv,): zeros.   other, unused (nv, nv): scratch.
    """
    v, jump, f = motion
    nv, nz = b.qz.shape
    forces(tree, zero, jump, no_fext, ws)
    sum_composites(tree, ws)
    curve_motion(tree, omega[:nv], ws, b)
    see_velocities(tree, contacts, restitution, v, jump, np.zeros_like(v), np.zeros_like(f), ws, place)
    clear(other)
    add_contact_curvature(tree, contacts, ws, place, omega[nv:nz], f, b.qq, other, b.vv, unused)
    for i in range(nv):
        for j in range(nv):
            b.qv[i, j] = restitution * other[i, j] - b.qz[i, j]
            b.qz[i, j] += other[i, j]
    couple_forces(tree, contacts, ws, place, nv, b.qz)
