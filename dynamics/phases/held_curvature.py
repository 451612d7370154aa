# mypy: allow-untyped-defs, allow-untyped-calls
"""Second order of a held step (held_steps.py), contracted.

With R = (motion, e(q') / h²) and ω = -K⁻ᵀ w = (μ, ν), the motion adds what it does under any contact without gains.
The errors depend on everything through q' alone, so that with the total δq' of the step they add

    δq'ᵀ (ν·e_q'q') δq' / h² + (what the weight e_q'ᵀ ν / h² on q' is to joints whose motions do not commute)
"""

from __future__ import annotations

import numpy as np

from ddp.compiling.kernel import kernel
from dynamics.contacts.contact import Contacts
from dynamics.contacts.curvature import add_contact_curvature
from dynamics.contacts.hessian import contact_hessian, curvature, weigh
from dynamics.contacts.kinematics import contact_derivatives, place_contacts, places
from dynamics.geometry.configuration import integrate_configuration
from dynamics.geometry.joint_motion import is_group
from dynamics.phases.held_steps import hold
from dynamics.rigid_bodies.kinematics import composites, place_bodies, workspace
from dynamics.steps.linearization import turn_group_rows


@kernel
def without_gains(contacts):
    """Contacts that ask for nothing: forces alone are left of them."""
    return Contacts(
        contacts.body, contacts.root, contacts.kind, contacts.reference, contacts.row, contacts.placement,
        contacts.target, np.zeros_like(contacts.gains),
    )  # fmt: skip


@kernel
def euler_rows(h, zq, zv, zu, A, B):
    """A, B of v' = v + h a, q' = q ⊕ h v' as if every joint's motions commuted; a: the first rows of z."""
    nv = zq.shape[1]
    for i in range(nv):
        for j in range(nv):
            A[nv + i, j] = h * zq[i, j]
            A[i, j] = h * h * zq[i, j]
            A[nv + i, nv + j] = h * zv[i, j]
            A[i, nv + j] = h * h * zv[i, j]
        A[i, i] += 1.0
        A[i, nv + i] += h
        A[nv + i, nv + i] += 1.0
        for j in range(B.shape[1]):
            B[nv + i, j] = h * zu[i, j]
            B[i, j] = h * h * zu[i, j]


@kernel
def held_hessian(tree, contacts, h, motion, known, on_z, on_next, H):
    """H := Hessian of on_z·(a, f) by (q, v, u), in exponential coordinates, but for joints' own curvature.

    That is what the weight on_next (nv,) on q', to which this adds, is to them.
    motion: q, v, a, f.   known: K⁻¹, z_q, z_v, z_u.
    """
    q, v, a, f = motion
    Kinv, zq, zv, zu = known
    nv, nc = v.size, f.size
    ws, place, d = workspace(tree, q), places(tree, contacts, q), curvature(nv, nc, q)
    free = without_gains(contacts)
    composites(tree, q, v, a, np.zeros((0, 6)), ws)
    place_contacts(tree, free, q, ws, place)
    contact_hessian(tree, free, on_z, ws, place, Kinv, zq, zv, f, d)
    H[:] = 0.0
    H[:nv, 2 * nv :] = np.dot(d.qz, zu)
    for i in range(nv):
        for j in range(nv):
            H[i, j] = 0.5 * (d.qq[i, j] + d.qq[j, i])
            H[i, nv + j] = d.qv[i, j]
            H[nv + i, nv + j] = d.vv[i, j]
    weigh(Kinv, on_z, d.omega)
    bend_end(tree, contacts, h, motion, known, d.nu / (h * h), on_next, H)


@kernel
def bend_end(tree, contacts, h, motion, known, nu, on_next, H):
    """H += δq'ᵀ (ν·e_q'q') δq';  on_next += e_q'ᵀ ν."""
    q, v, a, _ = motion
    _, zq, zv, zu = known
    nv, n, m, nc, nq = v.size, 2 * v.size, zu.shape[1], nu.size, q.size
    w, d = hold(tree, contacts, nc, nq, q), curvature(nv, nc, q)
    for i in range(nv):
        w.xi[i] = v[i] + h * a[i]
    integrate_configuration(tree, q, w.xi, h, w.q)
    place_bodies(tree, w.q, True, w.ws)
    place_contacts(tree, contacts, w.q, w.ws, w.place)
    contact_derivatives(tree, contacts, w.ws, w.place, w.J, w.unused)
    add_contact_curvature(tree, contacts, w.ws, w.place, nu, np.zeros(nc), d.qq, d.qv, d.vv, d.qa)
    A, B, moved = np.empty((1, n, n)), np.empty((1, n, m)), np.empty((nv, n + m))
    euler_rows(h, zq, zv, zu, A[0], B[0])
    for b in range(tree.parent.size):
        if is_group(tree.kind[b]):
            turn_group_rows(tree, b, h, nq, np.concatenate((q, v, a)).reshape(1, nq + n), A, B)
    moved[:, :n], moved[:, n:] = A[0, :nv], B[0, :nv]
    S = d.qq + d.qq.T
    H += 0.5 * np.dot(moved.T, np.dot(S, moved))
    for i in range(nv):
        for k in range(nc):
            on_next[i] += w.J[k, i] * nu[k]

