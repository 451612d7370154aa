# mypy: allow-untyped-defs, allow-untyped-calls
"""Contacts' velocities and accelerations with first and second derivatives, and the torques of their forces.

A *point* works in the world's axes. With P(m) = m_l + m_a × p the velocity that a motion m gives its place p, and
u = P(v), its classical acceleration is c = P(a) + v_a × u, and for a degree of freedom k on the way from the root

    D_k p = P(s_k)                 D_k u = s_ka × u + P(ψ'_k)
    D_k c = s_ka × c + P(ψ''_k) + 2 ψ'_ka × u                     D_vk c = P(η_k) + 2 s_ka × u

and then, for j nearer to the root or of the same joint,

    D_j D_k p = s_ja × P(s_k)      D_j D_k u = s_ja × D_k u + ψ'_ja × P(s_k)
    D_j D_k c = s_ja × D_k c + ψ''_ja × P(s_k) + 2 ψ'_ja × D_k u
    D_j D_vk c = s_ja × D_vk c + 2 ψ'_ja × P(s_k)
    D_vj D_k c = η_ja × P(s_k) + 2 s_ja × D_k u                   D_vj D_vk c = 2 s_ja × P(s_k)

the last line for strict ancestors alone; within one joint D_vj D_vk c = s_ja × P(s_k) + s_ka × P(s_j). Contracted with
multipliers that do not turn with the body, all of it needs sums over subtrees of 3 x 3 numbers (contacts/curvature.py).

A *surface* works in the frame's own axes, in which columns of motions are J_k, E_k, G_k, H_k for s, ψ', ψ'', η:

    D_k V = E_k    D_k A = G_k - V × E_k    D_vk A = H_k - V × J_k    D_j J_k = 0    D_k J_j = J_j × J_k

Accelerations in the workspace hold -gravity, as does ψ''; for points it makes no difference to any derivative.
"""

from ddp.compiling.kernel import apart, kernel
from ddp.machine.fields import Fields, rows, rows_apart
from dynamics.contacts.contact import POINT, ROLLING
from dynamics.contacts.rolling import place_wheel, roll_derivatives, roll_jacobian, slip
from dynamics.geometry.lie import jlog6, pose_error
from dynamics.geometry.spatial import (
    add3,
    add6,
    angular,
    cross3,
    cross_motion,
    part3,
    part6,
    placement,
    rotate,
    rotation_product,
    scale3,
    scale6,
    seen_motion,
    store_at,
    store_below,
    sub3,
    sub6,
    times6,
    velocity_at,
)
from dynamics.rigid_bodies.bodies import seen_by_parent


class Standing(Fields):
    """Places of contacts and their motion.

    R (m, 9), p (m, 3): each frame's placement, from its root's origin.   u (m, 3): the velocity of a point, P(v).
    c (m, 3): its classical acceleration less gravity.   V (m, 6): the twist of a surface in its own axes.
    error (m, 6): where it stands from its target.   axle, d, held (m, 3): of wheels, see rolling.py.
    Jlog (6, 6): of a surface's error.
    """

    R, p, u, c, V, error = rows("m", 9), rows("m", 3), rows("m", 3), rows("m", 3), rows("m", 6), rows("m", 6)
    axle, d, held = rows("m", 3), rows("m", 3), rows("m", 3)
    Jlog = rows_apart("6", 6)


class Place(Standing):
    """`Standing`, and what derivatives need.

    force (nb, 12), dual (nb, 36): sums over subtrees.   column (nv, 30): J, E, G, H and X of a surface.
    roll (nb, 6): twists of accelerations, where anything rolls.   curved (6, 6): of a surface's error.
    """

    roll, force, dual = rows_apart("nb", 6), rows_apart("nb", 12), rows_apart("nb", 36)
    column, curved = rows_apart("nv", 30), rows_apart("6", 6)


# -- values ----------------------------------------------------------------------------------------------------------


@kernel
def place_contacts(tree, contacts, q, ws, place):
    """R, p and the error of every contact; needs placements of bodies with the origin at the root."""
    for i in range(contacts.count):
        b = contacts.body[i]
        Rb, (Rf, pf) = ws.R[b], placement(contacts.placement[i])
        p = add3(ws.p[b], rotate(Rb, pf))
        R = rotation_product(Rb, Rf)
        place.R[i] = R
        place.p[i] = p
        there = add3(p, seen_by_parent(tree, contacts.root[i], q)[1])
        if contacts.kind[i] == POINT:
            store_at(place.error, i, 0, sub3(there, part3(contacts.target[i], 9)))
        elif contacts.kind[i] == ROLLING:
            place_wheel(contacts, i, R, there, place)
        elif contacts.gains[i, 2] != 0.0:
            compare_pose(contacts, i, R, there, place)


@apart
def compare_pose(contacts, i, R, there, place):
    """The error of a surface whose pose is held."""
    place.error[i] = pose_error(contacts.target[i], R, there)


@kernel
def move_contacts(tree, contacts, ws, place, value):
    """u, c or V of every contact, and what must vanish: value (nc,); needs v and a of bodies."""
    gravity = part6(tree.gravity, 0)
    for i in range(contacts.count):
        b, r = contacts.body[i], contacts.row[i]
        ka, kd, kp = contacts.gains[i, 0], contacts.gains[i, 1], contacts.gains[i, 2]
        R, p, v, a = place.R[i], place.p[i], ws.v[b], ws.a[b]
        if contacts.kind[i] == POINT:
            u = velocity_at(p, v)
            c = add3(velocity_at(p, a), cross3(angular(v), u))
            place.u[i] = u
            place.c[i] = c
            for k in range(3):
                value[r + k] = ka * (c[k] + gravity[k]) + kd * u[k] + kp * place.error[i, k]
        elif contacts.kind[i] == ROLLING:
            g = slip(contacts, place, i, v)
            for k in range(3):
                value[r + k] = kd * g[k] + kp * place.error[i, k]
        else:
            V, A = seen_motion(R, p, v), seen_motion(R, p, add6(a, gravity))
            place.V[i] = V
            for k in range(6):
                value[r + k] = ka * A[k] + kd * V[k]
                if kp != 0.0:
                    value[r + k] += kp * place.error[i, k]


# -- first derivatives -----------------------------------------------------------------------------------------------


@kernel
def contact_jacobian(tree, contacts, ws, place, J):
    """J (nc, nv), in as zeros: the velocities that the constraints see are J v."""
    for i in range(contacts.count):
        b, r = contacts.body[i], contacts.row[i]
        R, p = place.R[i], place.p[i]
        if contacts.kind[i] == ROLLING:
            roll_jacobian(tree, contacts, i, ws, place, J)
            continue
        k = tree.iv[b] + tree.nj[b] - 1
        while k >= 0:
            s = ws.s[k]
            if contacts.kind[i] == POINT:
                store_below(J, r, k, velocity_at(p, s))
            else:
                store_below(J, r, k, seen_motion(R, p, s))
            k = tree.previous[k]


@kernel
def contact_derivatives(tree, contacts, ws, place, dq, dv):
    """Derivatives (nc, nv), in as zeros, of what must vanish by q and v; needs ψ', ψ'', η."""
    gravity = part6(tree.gravity, 0)
    for i in range(contacts.count):
        b, r = contacts.body[i], contacts.row[i]
        ka, kd, kp = contacts.gains[i, 0], contacts.gains[i, 1], contacts.gains[i, 2]
        R, p, u, c, V = place.R[i], place.p[i], place.u[i], place.c[i], place.V[i]
        if contacts.kind[i] == ROLLING:
            roll_derivatives(tree, contacts, i, ws, place, dq, dv)
            continue
        if contacts.kind[i] != POINT and kp != 0.0:
            jlog6(place.error[i], place.Jlog)
        k = tree.iv[b] + tree.nj[b] - 1
        while k >= 0:
            s, psi, psidd, eta = ws.s[k], ws.psi[k], ws.psidd[k], ws.eta[k]
            if contacts.kind[i] == POINT:
                sa, P = angular(s), velocity_at(p, s)
                moved = add3(cross3(sa, u), velocity_at(p, psi))
                turned = add3(cross3(sa, c), add3(velocity_at(p, psidd), scale3(2.0, cross3(angular(psi), u))))
                by_v = add3(velocity_at(p, eta), scale3(2.0, cross3(sa, u)))
                store_below(dq, r, k, add3(scale3(ka, turned), add3(scale3(kd, moved), scale3(kp, P))))
                store_below(dv, r, k, add3(scale3(ka, by_v), scale3(kd, P)))
            else:
                J, E, H = seen_motion(R, p, s), seen_motion(R, p, psi), seen_motion(R, p, eta)
                G = seen_motion(R, p, add6(psidd, cross_motion(gravity, s)))
                by_q = add6(scale6(ka, sub6(G, cross_motion(V, E))), scale6(kd, E))
                if kp != 0.0:
                    by_q = add6(by_q, scale6(kp, times6(place.Jlog, J)))
                store_below(dq, r, k, by_q)
                store_below(dv, r, k, add6(scale6(ka, sub6(H, cross_motion(V, J))), scale6(kd, J)))
            k = tree.previous[k]
