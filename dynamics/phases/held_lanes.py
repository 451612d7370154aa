# mypy: allow-untyped-defs, allow-untyped-calls
"""Steps that end with contacts exactly where they are held, eight knots at a time: the first order of held_steps.py.

Newton's method does as many sweeps as the slowest knot needs; those that are done already stay where they are, so that
none depends on its neighbours. Knots whose pivots (contacts/response.py) are too small, or that Newton's method does
not solve, which get a pivot of zero, are for held_steps.py.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ddp.compiling.kernel import kernel
from ddp.machine.number import all_less, lanes, spread, where_less
from dynamics.arrays.lanes import lane_array, lane_matrix, lane_memory, lane_vector
from dynamics.arrays.tables import table_of
from dynamics.contacts.algebra import times6
from dynamics.contacts.contact import POINT
from dynamics.contacts.curvature import subtract_force_torques
from dynamics.contacts.kinematics import (
    Place,
    contact_jacobian,
    lane_places,
    lane_places_size,
    place_contacts,
    pose_jacobian,
)
from dynamics.contacts.response import invert_kkt, invert_response, respond_by_unit_forces
from dynamics.geometry.joint_motion import is_group, twist_of
from dynamics.geometry.lie import adjoint_inverse, right_jacobian6
from dynamics.phases.held_steps import CLOSE, SWEEPS, turn_columns
from dynamics.rigid_bodies.forward import forward_dynamics, invert
from dynamics.rigid_bodies.inverse import inverse_dynamics_derivatives
from dynamics.rigid_bodies.kinematics import (
    Workspace,
    add_accelerations,
    clear,
    lane_workspace,
    lane_workspace_size,
    place_bodies,
)
from dynamics.rigid_bodies.passive import resist
from dynamics.robots.model import Model
from dynamics.steps.lane_rollouts import moved

_column = table_of(lanes, 1)


class End(NamedTuple):
    """Where steps end: scratch of eight knots.

    ws, place: bodies and contacts at q'.   q (nq, 8), xi (nv, 8): q' and h v', as memory.   e (nc,): errors.
    J, C (nc, nv): e_q' and e_q' Jr.   T (6, 6): scratch.
    """

    ws: Workspace
    place: Place
    q: np.ndarray
    xi: np.ndarray
    e: np.ndarray
    J: np.ndarray
    C: np.ndarray
    T: np.ndarray


def lane_end_size(tree: Model, nq: int, m: int, nc: int) -> int:
    """How many lanes ``lane_end`` takes for m contacts and nc forces."""
    nv = len(tree.body)
    own = nq + nv + nc + 2 * nc * nv + 36
    return lane_workspace_size(tree) + lane_places_size(tree, m) + own


@kernel
def lane_end(tree, contacts, arena, nq, nc):
    """Scratch for nc forces."""
    nv, q, e = tree.body.size, lane_memory(arena, nq), lane_vector(arena, nc)
    xi = lane_memory(arena, nv)
    J, C, T = lane_matrix(arena, nc, nv), lane_matrix(arena, nc, nv), lane_matrix(arena, 6, 6)
    clear(J)
    ws, place = lane_workspace(tree, arena), lane_places(tree, contacts, arena)
    return End(ws, place, q, xi, e, J, C, T)


@kernel
def end_steps(tree, tables, contacts, q, w):
    """q' = q ⊕ xi, q as memory, the errors there and their derivatives J, C; the sum of their squares."""
    moved(tables, _column(q.ctypes.data), _column(w.xi.ctypes.data), _column(w.q.ctypes.data))
    place_bodies(tree, lane_array(w.q), True, w.ws)
    place_contacts(tree, contacts, lane_array(w.q), w.ws, w.place)
    contact_jacobian(tree, contacts, w.ws, w.place, w.J)
    turn_poses(tree, contacts, w.place, w.J)
    total = 0.0 * w.place.error[0, 0]
    for i in range(contacts.body.size):
        for k in range(3 if contacts.kind[i] == POINT else 6):
            e = w.place.error[i, k]
            w.e[contacts.row[i] + k] = e
            total += e * e
    for i in range(w.e.size):
        for j in range(tree.body.size):
            w.C[i, j] = w.J[i, j]
    for b in range(tree.parent.size):
        if is_group(tree.kind[b]):
            right_jacobian6(twist_of(tree.kind[b], lane_array(w.xi), tree.iv[b], 1.0), w.T)
            turn_columns(tree, b, w.T, w.J, w.C)
    return total


@kernel
def turn_poses(tree, contacts, place, J):
    """The rows of surfaces by Jlog6 of their errors."""
    for i in range(contacts.body.size):
        if contacts.kind[i] != POINT:
            pose_jacobian(place, i)
            k, r = tree.iv[contacts.body[i]] + tree.nj[contacts.body[i]] - 1, contacts.row[i]
            while k >= 0:
                seen = (J[r, k], J[r + 1, k], J[r + 2, k], J[r + 3, k], J[r + 4, k], J[r + 5, k])
                turned = times6(place.Jlog, seen)
                for a in range(6):
                    J[r + a, k] = turned[a]
                k = tree.previous[k]


@kernel
def respond(tree, contacts, q, v, tau, no_fext, ws, place, r, w):
    """Accelerations without forces, M⁻¹, J(q), G."""
    forward_dynamics(tree, q, v, tau, no_fext, ws, r.LD, r.D, r.a)
    invert(tree, r.LD, r.M, r.dq, r.Minv)
    place_contacts(tree, contacts, q, ws, place)
    contact_jacobian(tree, contacts, ws, place, r.J)
    respond_by_unit_forces(r)
    for i in range(w.e.size):
        r.f[i] = 0.0


@kernel
def solve_held(tree, tables, contacts, h, q, v, r, w):
    """a, f of held steps, from accelerations without forces; whose Newton's method does not end get a zero pivot."""
    xi, close, before = lane_array(w.xi), CLOSE * CLOSE, spread(np.inf, v[0])
    for i in range(v.size):
        xi[i] = h * v[i]
    for sweep in range(SWEEPS):
        total = end_steps(tree, tables, contacts, q, w)
        invert_response(w.C, r)
        if sweep == 0:  # where velocities stay as they are: free accelerations may lead far away
            total = before
            for i in range(w.e.size):
                for k in range(v.size):
                    w.e[i] += h * h * w.C[i, k] * r.a[k]
        for i in range(w.e.size):
            change = -r.S[i, 0] * w.e[0]
            for j in range(1, w.e.size):
                change -= r.S[i, j] * w.e[j]
            change = where_less(close, before, change, 0.0) / (h * h)
            r.f[i] += change
            for k in range(v.size):
                r.a[k] += r.G[k, i] * change
        for i in range(v.size):
            xi[i] = h * (v[i] + h * r.a[i])
        before = where_less(close, before, total, before)
        if all_less(before, close):
            break
    end_steps(tree, tables, contacts, q, w)
    invert_response(w.C, r)
    r.pivots[0] = where_less(before, close, r.pivots[0], 0.0)


@kernel
def relate_held(tree, tables, contacts, h, q, v, tau, no_fext, ws, place, r, w):
    """Fill a ``Relation`` of held steps but for its derivatives z_q, z_v; q as memory."""
    respond(tree, contacts, lane_array(q), v, tau, no_fext, ws, place, r, w)
    solve_held(tree, tables, contacts, h, q, v, r, w)
    invert_kkt(r)
    add_accelerations(tree, r.a, ws)
    inverse_dynamics_derivatives(tree, ws, r.dq, r.dv)
    resist(tree, r.dq, r.dv)
    subtract_force_torques(tree, contacts, ws, place, r.f, r.dq)
    for i in range(w.e.size):
        for j in range(v.size):
            r.cq[i, j] = w.J[i, j]
            r.cv[i, j] = w.C[i, j] / h
    for b in range(tree.parent.size):
        if is_group(tree.kind[b]):
            adjoint_inverse(twist_of(tree.kind[b], lane_array(w.xi), tree.iv[b], 1.0), w.T)
            turn_columns(tree, b, w.T, w.J, r.cq)
    for i in range(w.e.size):
        for j in range(v.size):
            r.cq[i, j] = r.cq[i, j] / (h * h)
