# mypy: allow-untyped-defs, allow-untyped-calls
"""Steps of time that end with every contact exactly where it is held.

Semi-implicit Euler, with forces that act where the step begins, q, and hold positions where it ends, q':

    M a + bias = S u + J(q)ᵀ f        e(q') = 0,    v' = v + h a,    q' = q ⊕ h v'

e: how far contacts stand from their targets. That is SHAKE (Ryckaert, Ciccotti & Berendsen 1977) on the manifold:
where stabilised accelerations leave an error in proportion to h², here none is left. e is not linear in a, so Newton's
method finds f, from where velocities stay as they are: three or four Jacobians. To first order it is the relation of
implicit.py, R = (motion, e(q') / h²),

    K = [M  -J(q)ᵀ ; C  0],  C = e_q' Jr(h v')        R_q = e_q' Ad_{Exp(-h v')} / h²,   R_v = C / h   in the last rows

whose K is not symmetric; its inverse is in contacts/response.py.

Contacts are given with the gains (0, 0, 1): what must vanish is the error alone. They have to be independent.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ddp.compiling.kernel import kernel
from dynamics.contacts.contact import POINT, Contacts
from dynamics.contacts.curvature import subtract_force_torques
from dynamics.contacts.kinematics import Place, contact_derivatives, contact_jacobian, place_contacts, places
from dynamics.contacts.products import dense_product
from dynamics.contacts.response import invert_kkt, invert_response, respond_by_unit_forces
from dynamics.geometry.configuration import integrate_configuration
from dynamics.geometry.joint_motion import is_group, slot, twist_of
from dynamics.geometry.lie import adjoint_inverse, right_jacobian6
from dynamics.rigid_bodies.forward import forward_dynamics, invert, is_positive
from dynamics.rigid_bodies.inverse import inverse_dynamics_derivatives
from dynamics.rigid_bodies.kinematics import Workspace, add_accelerations, clear, place_bodies, workspace
from dynamics.rigid_bodies.passive import resist

SWEEPS, CLOSE = 12, 1e-9
"""Of Newton's method: at most so many, the last from an error below this [m, rad], which it squares."""


class Hold(NamedTuple):
    """Where a step ends: scratch of one knot.

    ws, place: bodies and contacts at q' (nq,).   xi (nv,): v'.   e (nc,): errors.   J, C (nc, nv): e_q' and e_q' Jr.
    unused (nc, nv), T (6, 6): scratch.   zero (nv,): zeros.
    """

    ws: Workspace
    place: Place
    q: np.ndarray
    xi: np.ndarray
    e: np.ndarray
    J: np.ndarray
    C: np.ndarray
    unused: np.ndarray
    T: np.ndarray
    zero: np.ndarray


def as_held(contacts: Contacts) -> Contacts:
    """The same, held exactly: where they stand is what must vanish."""
    return contacts._replace(gains=np.tile([0.0, 0.0, 1.0], (len(contacts.body), 1)))


@kernel
def hold(tree, contacts, nc, nq, like):
    """Scratch for nc forces: at q' nothing moves."""
    nv, ws = tree.body.size, workspace(tree, like)
    for moving in (ws.v, ws.a, ws.w, ws.psi, ws.psidd, ws.eta, ws.chi):
        clear(moving)
    return Hold(
        ws, places(tree, contacts, like), np.zeros(nq), np.zeros(nv), np.zeros(nc), np.zeros((nc, nv)),
        np.zeros((nc, nv)), np.zeros((nc, nv)), np.zeros((6, 6)), np.zeros(nv),
    )  # fmt: skip


@kernel
def end_step(tree, contacts, h, q, v, a, w):
    """q', errors and their derivatives J, C after a step of accelerations a; the largest error."""
    for i in range(v.size):
        w.xi[i] = v[i] + h * a[i]
    integrate_configuration(tree, q, w.xi, h, w.q)
    place_bodies(tree, w.q, True, w.ws)
    place_contacts(tree, contacts, w.q, w.ws, w.place)
    contact_derivatives(tree, contacts, w.ws, w.place, w.J, w.unused)
    worst = 0.0
    for i in range(contacts.body.size):
        for k in range(3 if contacts.kind[i] == POINT else 6):
            e = w.place.error[i, k]
            w.e[contacts.row[i] + k] = e
            worst = max(worst, abs(e)) if np.isfinite(e) else np.inf
    w.C[:] = w.J
    for b in range(tree.parent.size):
        if is_group(tree.kind[b]):
            right_jacobian6(twist_of(tree.kind[b], w.xi, tree.iv[b], h), w.T)
            turn_columns(tree, b, w.T, w.J, w.C)
    return worst


@kernel
def turn_columns(tree, b, T, J, out):
    """out := J T in the columns of a joint whose motions do not commute."""
    iv, nj, kind = tree.iv[b], tree.nj[b], tree.kind[b]
    for r in range(J.shape[0]):
        for j in range(nj):
            total = J[r, iv] * T[slot(kind, 0), slot(kind, j)]
            for k in range(1, nj):
                total += J[r, iv + k] * T[slot(kind, k), slot(kind, j)]
            out[r, iv + j] = total


@kernel
def solve_held(tree, contacts, h, q, v, tau, no_fext, ws, place, r, w):
    """a, f of a held step, J(q) and (J M⁻¹); False where there is none, or Newton's method does not find it."""
    forward_dynamics(tree, q, v, tau, no_fext, ws, r.LD, r.D, r.a)
    invert(tree, r.LD, r.M, r.dq, r.Minv)
    place_contacts(tree, contacts, q, ws, place)
    contact_jacobian(tree, contacts, ws, place, r.J)
    respond_by_unit_forces(r)
    r.f[:] = 0.0
    if not is_positive(r.D, r.a):
        return False
    for sweep in range(SWEEPS):
        worst = end_step(tree, contacts, h, q, v, r.a if sweep > 0 else w.zero, w)
        if not np.isfinite(worst):
            return False
        invert_response(w.C, r)
        if sweep == 0:  # where velocities stay as they are: free accelerations may lead far away
            worst = np.inf
            for i in range(r.f.size):
                for k in range(r.a.size):
                    w.e[i] += h * h * w.C[i, k] * r.a[k]
        for i in range(r.f.size):
            change = 0.0
            for j in range(r.f.size):
                change -= r.S[i, j] * w.e[j] / (h * h)
            r.f[i] += change
            for k in range(r.a.size):
                r.a[k] += r.G[k, i] * change
        if worst < CLOSE:
            return is_positive(r.D, r.a)
    return False


@kernel
def relate_held(tree, contacts, h, q, v, tau, no_fext, ws, place, r, w):
    """Fill a ``Relation`` of a held step; False where there is none."""
    found = solve_held(tree, contacts, h, q, v, tau, no_fext, ws, place, r, w)
    end_step(tree, contacts, h, q, v, r.a, w)
    invert_response(w.C, r)
    invert_kkt(r)
    add_accelerations(tree, r.a, ws)
    inverse_dynamics_derivatives(tree, ws, r.dq, r.dv)
    resist(tree, r.dq, r.dv)
    subtract_force_torques(tree, contacts, ws, place, r.f, r.dq)
    r.cq[:] = w.J
    for b in range(tree.parent.size):
        if is_group(tree.kind[b]):
            adjoint_inverse(twist_of(tree.kind[b], w.xi, tree.iv[b], h), w.T)
            turn_columns(tree, b, w.T, w.J, r.cq)
    for i in range(r.cq.shape[0]):
        for j in range(v.size):
            r.cq[i, j] = r.cq[i, j] / (h * h)
            r.cv[i, j] = w.C[i, j] / h
    dense_product(-1.0, r.Kinv, r.Rq, r.zq)
    dense_product(-1.0, r.Kinv, r.Rv, r.zv)
    return found
