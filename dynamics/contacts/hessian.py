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
from dynamics.rigid_bodies.kinematics import clear, forces, sum_composites


class Curvature(NamedTuple):
    """Blocks of ω R_yy and ω R_yz: qq, qv, vv (nv, nv), qz (nv, nz); omega, mu, nu; qa, cross, crossed: scratch."""

    omega: np.ndarray
    mu: np.ndarray
    nu: np.ndarray
    qq: np.ndarray
    qv: np.ndarray
    vv: np.ndarray
    qa: np.ndarray
    qz: np.ndarray
    other: np.ndarray
    cross: np.ndarray


@kernel
def curvature(nv, nc, like):
    """Arrays for one knot, of the number type of ``like``."""
    t = like.dtype
    omega = np.zeros(nv + nc, t)
    return Curvature(
        omega, omega[:nv], omega[nv:], np.zeros((nv, nv), t), np.zeros((nv, nv), t), np.zeros((nv, nv), t),
        np.zeros((nv, nv), t), np.zeros((nv, nv + nc), t), np.zeros((nv, nv), t), np.zeros((nv, nv), t),
    )  # fmt: skip


@kernel
def weigh(Kinv, weight, omega):
    """ω = -K⁻ᵀ w."""
    for j in range(omega.size):
        total = Kinv[0, j] * weight[0]
        for i in range(1, omega.size):
            total = total + Kinv[i, j] * weight[i]
        omega[j] = -total


@kernel
def clear_blocks(h):
    """qq, qv, vv, qa := 0: entries between unrelated degrees of freedom are not written."""
    clear(h.qq)
    clear(h.qv)
    clear(h.vv)
    clear(h.qa)


@kernel
def couple_accelerations(h):
    """The first nv columns of qz := qa."""
    nv = h.qa.shape[0]
    for i in range(nv):
        for j in range(nv):
            h.qz[i, j] = h.qa[i, j]


@kernel
def add_couplings(h, zq, zv, qq, qv):
    """qq, qv += (ω R_yz) z_y and its transpose."""
    nv = qq.shape[0]
    dense_product(1.0, h.qz, zq, h.cross)
    for i in range(nv):
        for j in range(nv):
            qq[i, j] += h.cross[i, j] + h.cross[j, i]
    dense_product(1.0, h.qz, zv, h.cross)
    for i in range(nv):
        for j in range(nv):
            qv[i, j] += h.cross[i, j]


@kernel
def contact_hessian(tree, contacts, weight, ws, place, Kinv, zq, zv, f, h):
    """Blocks qq (iterated), qv, vv of the Hessian of weight·(a, f), and ω R_qz in h.qz; after ``relate_contact``."""
    nv = h.qa.shape[0]
    weigh(Kinv, weight, h.omega)
    virtual_velocities(tree, h.mu, ws)
    clear_blocks(h)
    inverse_dynamics_hessian(tree, ws, h.qq, h.qv, h.vv, h.qa)
    add_contact_curvature(tree, contacts, ws, place, h.nu, f, h.qq, h.qv, h.vv, h.qa)
    couple_accelerations(h)
    couple_forces(tree, contacts, ws, place, nv, h.qz)
    add_couplings(h, zq, zv, h.qq, h.qv)


@kernel
def impact_hessian(tree, contacts, restitution, weight, v, seen, zero, no_fext, ws, place, r, h):
    """Blocks qq (iterated), qv of the Hessian of weight·(v⁺, Λ); after ``relate_impact``."""
    known = v, r.a, r.f, r.Kinv
    impact_blocks(tree, contacts, restitution, weight, *known, seen, zero, no_fext, r.c, ws, place, h)
    add_couplings(h, r.zq, r.zv, h.qq, h.qv)


@kernel
def impact_blocks(tree, contacts, restitution, weight, v, jump, f, Kinv, seen, zero, no_fext, gap, ws, place, h):
    """ω R_yy in h.qq, h.qv and ω R_qz in h.qz; needs placements of bodies and contacts."""
    nv = h.qa.shape[0]
    weigh(Kinv, weight, h.omega)
    forces(tree, zero, jump, no_fext, ws)
    sum_composites(tree, ws)
    virtual_velocities(tree, h.mu, ws)
    clear_blocks(h)
    inverse_dynamics_hessian(tree, ws, h.qq, h.qv, h.vv, h.qa)
    see_velocities(tree, contacts, restitution, v, jump, seen, gap, ws, place)
    clear(h.other)
    add_contact_curvature(tree, contacts, ws, place, h.nu, f, h.qq, h.other, h.vv, h.cross)
    for i in range(nv):
        for j in range(nv):
            h.qv[i, j] = restitution * h.other[i, j] - h.qa[i, j]
            h.qa[i, j] += h.other[i, j]
    couple_accelerations(h)
    couple_forces(tree, contacts, ws, place, nv, h.qz)
