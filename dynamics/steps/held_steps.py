# mypy: allow-untyped-defs, allow-untyped-calls
"""Steps of time that end with every contact exactly where it is held.

Semi-implicit Euler, with forces that act where the step begins, q, and hold positions where it ends, q':

    M a + bias = S u + J(q)ᵀ f        e(q') = 0,    v' = v + h a,    q' = q ⊕ h v'

e: how far contacts stand from their targets. That is SHAKE (Ryckaert, Ciccotti & Berendsen 1977) on the manifold:
where stabilised accelerations leave an error in proportion to h², here none is left. e is not linear in a, so Newton's
method finds f, from where velocities stay as they are: three or four Jacobians, as many as the slowest of some lanes
needs. Those that are done already stay where they are, so that none depends on its neighbours. To first order it is
the relation of implicit.py, R = (motion, e(q') / h²),

    K = [M  -J(q)ᵀ ; C  0],  C = e_q' Jr(h v')        R_q = e_q' Ad_{Exp(-h v')} / h²,   R_v = C / h   in the last rows

whose K is not symmetric; its inverse is in contacts/response.py.

Contacts are given with the gains (0, 0, 1): what must vanish is the error alone. They have to be independent.
"""

import numpy as np

from ddp.compiling.kernel import apart, kernel
from ddp.machine.fields import Fields, matrix_of, nested, rows, rows_apart, vector
from ddp.machine.memory import as_vector
from ddp.machine.number import all_less, spread, where_less
from dynamics.contacts.contact import POINT
from dynamics.contacts.curvature import subtract_force_torques
from dynamics.contacts.kinematics import Standing, contact_jacobian, place_contacts
from dynamics.contacts.products import last_dof, threes, turn_tilted
from dynamics.contacts.relation import move_freely
from dynamics.contacts.response import eliminate, form_response, invert_kkt, invert_response
from dynamics.geometry.configuration import integrate_configuration, turn_columns
from dynamics.geometry.joint_motion import is_group, joint_jacobian, joint_transport, twist_of
from dynamics.geometry.lie import jlog6
from dynamics.geometry.spatial import times6
from dynamics.rigid_bodies.inverse import inverse_dynamics_derivatives
from dynamics.rigid_bodies.kinematics import add_accelerations, clear, place_bodies
from dynamics.rigid_bodies.passive import resist

SWEEPS, CLOSE = 12, 1e-9
"""Steps of Newton's method at most, the last from errors below this [m, rad], which it squares."""


class Posture(Fields):
    """Places of bodies, from their roots' origins, and the motions of degrees of freedom."""

    R, p, s = rows("nb", 9), rows("nb", 3), rows("nv", 6)


class End(Fields):
    """Configuration at which steps end, and contacts there.

    ws, place: bodies and contacts at q'.   q, xi: q' and h v'.   e: errors.
    J, C: e_q' and e_q' Jr, zeros where a degree of freedom moves no contact.   T: scratch.
    """

    ws, place = nested(Posture), nested(Standing)
    q, xi, e = vector("nq"), vector("nv"), vector("nc")
    J, C, T = matrix_of("nc", "nv"), matrix_of("nc", "nv"), rows_apart("6", 6)


@kernel
def clear_end(tree, nc, w):
    """J, C := 0."""
    clear(as_vector(w.J), nc * tree.nv)
    clear(as_vector(w.C), nc * tree.nv)


@kernel
def end_step(tree, contacts, nc, q, w):
    """q' = q ⊕ xi, the errors there and their derivatives J, C; the sum of their squares."""
    integrate_configuration(tree, q, w.xi, 1.0, w.q)
    place_bodies(tree, w.q, True, w.ws)
    place_contacts(tree, contacts, w.q, w.ws, w.place)
    contact_jacobian(tree, contacts, w.ws, w.place, w.J)
    turn_poses(tree, contacts, w.place, w.J)
    total = spread(0.0, w.q[0])
    for i in range(contacts.count):
        for k in range(3 * threes(contacts, i)):
            e, r = w.place.error[i, k], contacts.row[i] + k
            w.e[r] = e
            total += e * e
            j = last_dof(tree, contacts, i)
            while j >= 0:
                w.C[r, j] = w.J[r, j]
                j = tree.previous[j]
    for b in range(tree.nb):
        if is_group(tree.kind[b]):
            joint_jacobian(tree.kind[b], tree.nj[b], twist_of(tree.kind[b], w.xi, tree.iv[b], 1.0), w.T)
            turn_columns(nc, tree.iv[b], tree.nj[b], w.T, w.J, 1.0, w.C, 0)
    return total


@kernel
def turn_poses(tree, contacts, place, J):
    """Turn the rows of surfaces by Jlog6 of their errors."""
    for i in range(contacts.count):
        if contacts.kind[i] != POINT:
            turn_pose(tree, contacts, i, place, J)


@apart
def turn_pose(tree, contacts, i, place, J):
    """Turn the rows of one surface by Jlog6 of its error."""
    jlog6(place.error[i], place.Jlog)
    k, r = last_dof(tree, contacts, i), contacts.row[i]
    while k >= 0:
        seen = (J[r, k], J[r + 1, k], J[r + 2, k], J[r + 3, k], J[r + 4, k], J[r + 5, k])
        turned = times6(place.Jlog, seen)
        for a in range(6):
            J[r + a, k] = turned[a]
        k = tree.previous[k]


@kernel
def hold(tree, contacts, nc, h, q, v, r, w):
    """a, f of a held step by Newton's method, from accelerations r.a without forces, with G.

    Returns the squared error that the last sweep began with, solved below CLOSE².
    """
    nv, close, before = tree.nv, CLOSE * CLOSE, spread(np.inf, v[0])
    for i in range(nv):
        w.xi[i] = h * v[i]
    for i in range(nc):
        r.f[i] = 0.0
    for sweep in range(SWEEPS):
        total = end_step(tree, contacts, nc, q, w)
        if sweep == 0:  # where velocities stay as they are: free accelerations may lead far away
            total = before
            add_free_motion(tree, contacts, h, r, w)
        form_response(tree, contacts, nc, w.C, r)
        turn_tilted(contacts, False, w.e)
        eliminate(nc, r.S, w.e, r.pivots)
        turn_tilted(contacts, True, w.e)
        for i in range(nc):
            change = where_less(close, before, w.e[i], 0.0) * (-1.0 / (h * h))
            r.f[i] += change
            for k in range(nv):
                r.a[k] += r.G[k, i] * change
        for i in range(nv):
            w.xi[i] = h * (v[i] + h * r.a[i])
        if sweep > 0:  # diverged lanes count as finished
            before = where_less(close, before, where_less(total, np.inf, total, -1.0), before)
        if all_less(before, close):
            break
    return where_less(before, 0.0, np.nan, before)


@kernel
def add_free_motion(tree, contacts, h, r, w):
    """e += h² C a."""
    for i in range(contacts.count):
        for row in range(contacts.row[i], contacts.row[i] + 3 * threes(contacts, i)):
            k = last_dof(tree, contacts, i)
            while k >= 0:
                w.e[row] += h * h * w.C[row, k] * r.a[k]
                k = tree.previous[k]


@kernel
def relate_held(tree, contacts, h, q, v, tau, no_fext, ws, place, r, w):
    """Fill a ``Relation`` of held steps but for its derivatives z_q, z_v; those not solved get a pivot of zero."""
    nc, nv = r.nc, r.nv
    move_freely(tree, contacts, q, v, tau, no_fext, ws, place, r)
    before = hold(tree, contacts, nc, h, q, v, r, w)
    end_step(tree, contacts, nc, q, w)
    invert_response(tree, contacts, w.C, r)
    r.pivots[0] = where_less(before, CLOSE * CLOSE, r.pivots[0], 0.0)
    invert_kkt(r)
    add_accelerations(tree, r.a, ws)
    inverse_dynamics_derivatives(tree, ws, r.dq, r.dv)
    resist(tree, r.dq, r.dv)
    subtract_force_torques(tree, contacts, ws, place, r.f, r.dq)
    for i in range(nc):
        for j in range(nv):
            r.cq[i, j] = w.J[i, j]
            r.cv[i, j] = w.C[i, j] / h
    for b in range(tree.nb):
        if is_group(tree.kind[b]):
            joint_transport(tree.kind[b], tree.nj[b], twist_of(tree.kind[b], w.xi, tree.iv[b], 1.0), w.T)
            turn_columns(nc, tree.iv[b], tree.nj[b], w.T, w.J, 1.0, r.cq, 0)
    for i in range(nc):
        for j in range(nv):
            r.cq[i, j] = r.cq[i, j] / (h * h)
