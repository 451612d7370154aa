# mypy: allow-untyped-defs, allow-untyped-calls
"""Steps that end with contacts exactly where they are held, of four states at once: held_steps.py for rollouts.

Rows of (M⁻¹ Jᵀ)ᵀ are the accelerations that unit forces cause, by articulated bodies (contacts/motion.py). Lanes that
Newton's method has solved wait for the others; those that it does not solve are told by a pivot of zero, and are for
held_steps.py.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ddp.compiling.kernel import inline, kernel
from ddp.machine.number import QUAD, all_less, quads, spread, where_less
from dynamics.arrays.lanes import quad_memory
from dynamics.arrays.tables import table_of
from dynamics.contacts.algebra import seen_from, times6, velocity_at
from dynamics.contacts.contact import POINT
from dynamics.contacts.kinematics import root_offset, seen_from_target
from dynamics.contacts.motion import Push, last_dof, parts, place_contacts, push_at, push_size, take_up
from dynamics.geometry.joint_motion import is_group, joint_jacobian, twist_of
from dynamics.geometry.lie import jlog6, log6
from dynamics.geometry.spatial import add3, add6, load3, load6, load9, load12, scale6, store
from dynamics.phases.held_steps import CLOSE, SWEEPS
from dynamics.rigid_bodies.articulated import Bodies, accelerate, bodies_at, column, room_of_bodies
from dynamics.rigid_bodies.bodies import place_body
from dynamics.robots.tree import Tree
from dynamics.steps.lane_rollouts import moved

_quads6 = table_of(quads, 6)


class End(NamedTuple):
    """Where steps end: tables of quads.

    w: bodies at q', whose U are motions by v'.   x: contacts there, c their errors, Y and sigma C and C G.
    q, xi: q' and h v'.   G: the address of (M⁻¹ Jᵀ)ᵀ (nc nv,).   T (6, 6): scratch.
    """

    w: Bodies
    x: Push
    q: Any
    xi: Any
    G: int
    T: Any


def end_size(tree: Tree, nq: int, m: int, nc: int) -> int:
    """How many quads `end_of` takes for m contacts and nc forces."""
    nv = tree.nv
    return room_of_bodies(tree) + push_size(nv, m, nc) + nq + nv + nc * (nv + 1) + 36 + 2 * QUAD


@kernel
def end_of(arena, pivots, nb, nv, nq, m, nc):
    """An `End`, its pivots at an address."""
    bodies = quad_memory(arena, 52 * nb + 14 * nv).ctypes.data
    contacts, unused = quad_memory(arena, 12 * m + nc * (1 + nv + nc)).ctypes.data, quad_memory(arena, nc).ctypes.data
    q, xi = quad_memory(arena, nq).ctypes.data, quad_memory(arena, nv).ctypes.data
    G, T = quad_memory(arena, nc * nv).ctypes.data, quad_memory(arena, 36).ctypes.data
    x = push_at(contacts, unused, pivots, nv, m, nc)
    return End(bodies_at(bodies, nb, nv), x, column(q), column(xi), G, _quads6(T))


@kernel
def unit_responses(tree, previous, contacts, w, x, y):
    """G, after ``articulate``, of whose u nothing is left."""
    nv = tree.nv
    take_up(tree, previous, contacts, w, x)
    for i in range(contacts.body.size):
        for r in range(contacts.row[i], contacts.row[i] + 3 * parts(contacts, i)):
            for k in range(nv):
                w.u[k] = 0.0
            k = last_dof(tree, contacts, i)
            while k >= 0:
                w.u[k] = x.Y[r * nv + k]
                k = previous[k]
            accelerate(tree, w, column(y.G + 32 * r * nv))


@inline
def put(out, i, step, values):
    """Numbers i, i + step, .. of a table := a tuple."""
    for a in range(len(values)):
        out[i + a * step] = values[a]


@kernel
def end_steps(tree, previous, contacts, nc, q, y):
    """q' = q ⊕ xi, the errors there and their derivatives C; the sum of their squares."""
    nv = tree.nv
    moved(tree, q, y.xi, y.q)
    for b in range(tree.nb):
        place_body(tree, b, y.q, True, y.w)
        turn_motions(tree, b, y)
    place_contacts(contacts, y.w, y.x)
    total = spread(0.0, q[0])
    for i in range(contacts.body.size):
        R, p, r = load9(y.x.R, i), load3(y.x.p, i), contacts.row[i]
        there, target = add3(p, root_offset(tree, y.q, contacts.root[i])), load12(contacts.target, i)
        k = last_dof(tree, contacts, i)
        if contacts.kind[i] == POINT:
            for a in range(3):
                y.x.c[r + a] = there[a] - target[9 + a]
            while k >= 0:
                put(y.x.Y, r * nv + k, nv, velocity_at(p, load6(y.w.U, k)))
                k = previous[k]
        else:
            turn, shift = seen_from_target(target, R, there)
            error = log6(turn, shift)
            jlog6(error, y.T)
            put(y.x.c, r, 1, error)
            while k >= 0:
                put(y.x.Y, r * nv + k, nv, times6(y.T, seen_from(R, p, load6(y.w.U, k))))
                k = previous[k]
    for r in range(nc):
        total += y.x.c[r] * y.x.c[r]
    return total


@kernel
def turn_motions(tree, b, y):
    """The motions of body b by numbers of v': s Jr(h v')."""
    iv, nj, kind = tree.iv[b], tree.nj[b], tree.kind[b]
    if is_group(kind):
        joint_jacobian(kind, nj, twist_of(kind, y.xi, iv, 1.0), y.T)
        for j in range(nj):
            motion = scale6(y.T[0, j], load6(y.w.s, iv))
            for k in range(1, nj):
                motion = add6(motion, scale6(y.T[k, j], load6(y.w.s, iv + k)))
            store(y.w.U, iv + j, motion)
    else:
        for k in range(iv, iv + nj):
            store(y.w.U, k, load6(y.w.s, k))


@kernel
def form_responses(tree, previous, contacts, nc, y):
    """C G, in tiles of 3 x 3."""
    for i in range(contacts.body.size):
        for j in range(contacts.body.size):
            for part in range(parts(contacts, i)):
                for other in range(parts(contacts, j)):
                    r, c = contacts.row[i] + 3 * part, contacts.row[j] + 3 * other
                    _tile(previous, last_dof(tree, contacts, i), tree.nv, nc, r, c, y)


@inline
def _tile(previous, last, nv, nc, r, c, y):
    zero, k, C, G, out = spread(0.0, y.xi[0]), last, y.x.Y, column(y.G), y.x.sigma
    a, b, e, f, g, h, l, m, n = zero, zero, zero, zero, zero, zero, zero, zero, zero
    while k >= 0:
        s, t, u = C[r * nv + k], C[(r + 1) * nv + k], C[(r + 2) * nv + k]
        p, q, o = G[c * nv + k], G[(c + 1) * nv + k], G[(c + 2) * nv + k]
        a, b, e = a + s * p, b + s * q, e + s * o
        f, g, h = f + t * p, g + t * q, h + t * o
        l, m, n = l + u * p, m + u * q, n + u * o
        k = previous[k]
    at = r * nc + c
    out[at], out[at + 1], out[at + 2] = a, b, e
    out[at + nc], out[at + nc + 1], out[at + nc + 2] = f, g, h
    out[at + 2 * nc], out[at + 2 * nc + 1], out[at + 2 * nc + 2] = l, m, n


@kernel
def eliminate(nc, x):
    """c := sigma⁻¹ c by Gauss, pivot by pivot; their sizes relative to the diagonal."""
    A, c = x.sigma, x.c
    for i in range(nc):
        x.pivots[i] = 1.0 / A[i * nc + i]
    for j in range(nc):
        pivot = A[j * nc + j]
        part = x.pivots[j] * pivot
        x.pivots[j] = where_less(part, 0.0, -part, part)
        inverse = 1.0 / pivot
        A[j * nc + j] = inverse
        for i in range(j + 1, nc):
            factor = A[i * nc + j] * inverse
            for k in range(j + 1, nc):
                A[i * nc + k] -= factor * A[j * nc + k]
            c[i] -= factor * c[j]
    for j in range(nc - 1, -1, -1):
        own = c[j] * A[j * nc + j]
        c[j] = own
        for i in range(j):
            c[i] -= A[i * nc + j] * own


@kernel
def solve_held(tree, previous, contacts, nc, h, q, v, a, w, x, y):
    """a, f of held steps, after ``articulate`` and ``place_contacts``; who is not solved gets a pivot of zero.

    It returns zero, and NaN in lanes that come as no numbers, whose pivots are none either.
    """
    nv, close, f, C, G = tree.nv, CLOSE * CLOSE, x.f, y.x.Y, column(y.G)
    accelerate(tree, w, a)
    unit_responses(tree, previous, contacts, w, x, y)
    came, before = 0.0 * a[0], spread(np.inf, a[0])
    for i in range(nv):
        came += 0.0 * a[i] + 0.0 * v[i]
        y.xi[i] = h * v[i]
    for i in range(nc):
        f[i] = 0.0
    for sweep in range(SWEEPS):
        total = end_steps(tree, previous, contacts, nc, q, y)
        if sweep == 0:  # where velocities stay as they are: free accelerations may lead far away
            total = before
            for i in range(contacts.body.size):
                for r in range(contacts.row[i], contacts.row[i] + 3 * parts(contacts, i)):
                    k = last_dof(tree, contacts, i)
                    while k >= 0:
                        y.x.c[r] += h * h * C[r * nv + k] * a[k]
                        k = previous[k]
        form_responses(tree, previous, contacts, nc, y)
        eliminate(nc, y.x)
        for i in range(nc):
            change = where_less(close, before, y.x.c[i], 0.0) * (-1.0 / (h * h))
            f[i] += change
            for k in range(nv):
                a[k] += G[i * nv + k] * change
        for i in range(nv):
            y.xi[i] = h * (v[i] + h * a[i])
        if sweep > 0:  # who diverges is done, too
            before = where_less(close, before, where_less(total, np.inf, total, -1.0), before)
        if all_less(before, close):
            break
    y.x.pivots[0] = where_less(before, 0.0, came, where_less(before, close, y.x.pivots[0], came))
    return came
