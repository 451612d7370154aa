# mypy: allow-untyped-defs, allow-untyped-calls
"""Second order of a knot of any mode, contracted with a weight: its blocks, for numbers of any kind.

With R of implicit.py and ω = -K⁻ᵀ w, w the weight on z = (a, f), a step under contacts adds ω R_yy + (ω R_qz) z_y and
its transpose, and an impact, which keeps its configuration, the same of z = (v⁺, Λ).

Steps that hold contacts (held_steps.py) have the residuals (motion, e(q') / h²). The motion adds what it does under any
contact without gains; with ω = (μ, ν) and the total δq' of the step the errors add

    δq'ᵀ W δq',  W = ν·e_q'q' / h²,      and the weight e_q'ᵀ ν / h² on q', which matters where motions do not commute

Such joints add the curvature of q ⊕ h v', see steps/curvature.py, with η = h δv' = h² a_z δz + h δv:
ηᵀ C η + 2 δqᵀ D η. hessians.py makes Hessians of all that.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ddp.compiling.kernel import kernel
from dynamics.arrays.lanes import lane_matrix, lane_vector
from dynamics.arrays.views import folded
from dynamics.contacts.contact import Contacts
from dynamics.contacts.curvature import add_contact_curvature
from dynamics.contacts.hessian import contact_blocks, impact_blocks
from dynamics.contacts.kinematics import (
    Place,
    contact_derivatives,
    lane_places,
    lane_places_size,
    move_contacts,
    place_contacts,
    places,
)
from dynamics.geometry.configuration import integrate_configuration
from dynamics.geometry.joint_motion import is_group, joint_curvature, joint_rates, twist_of
from dynamics.rigid_bodies.kinematics import (
    Workspace,
    clear,
    composites,
    lane_workspace,
    lane_workspace_size,
    place_bodies,
    workspace,
)
from dynamics.robots.tree import Tree
from dynamics.steps.linearization import next_twist
from dynamics.steps.modes import HELD


class Blocks(NamedTuple):
    """Contracted second order of one knot, one block behind the other in memory.

    qq (iterated: row first derivative, column second), qv, vv (nv, nv): ω R_yy.   qz (nv, nz): ω R_qz.
    joints: C, D, T, J of each joint whose motions do not commute, (nj, nj) each: of δq' = T δq + J η, too.
    W (nv, nv): of ends that are held.
    """

    qq: Any
    qv: Any
    vv: Any
    qz: Any
    joints: Any
    W: Any


@kernel
def numbers_of_joints(tree):
    """How many numbers ``Blocks.joints`` are."""
    total = 0
    for b in range(tree.nb):
        if is_group(tree.kind[b]):
            total += 4 * tree.nj[b] * tree.nj[b]
    return total


@kernel
def numbers_of_blocks(tree, nc):
    """How many numbers ``Blocks`` are."""
    nv = tree.nv
    return nv * (5 * nv + nc) + numbers_of_joints(tree)


@kernel
def blocks_of(tree, nc, x):
    """The ``Blocks`` that a view of so many numbers is."""
    nv, m = tree.nv, tree.nv * tree.nv
    own = 4 * m + nv * nc
    end = own + numbers_of_joints(tree)
    return Blocks(
        folded(x[:m], nv, nv), folded(x[m : 2 * m], nv, nv), folded(x[2 * m : 3 * m], nv, nv),
        folded(x[3 * m : own], nv, nv + nc), x[own:end], folded(x[end : end + m], nv, nv),
    )  # fmt: skip


class Bench(NamedTuple):
    """Scratch of one knot. ws, place: where it begins;  end, there: where it ends, motionless.

    after (nq,), xi (nv,): q' and v'.   seen, nu, zero (nc,), on_next (nv,): vectors.
    C, D, T, J (6, 6).   Je, unused (nc, nv), other (nv, nv).
    """

    ws: Workspace
    place: Place
    end: Workspace
    there: Place
    after: Any
    xi: Any
    seen: Any
    nu: Any
    zero: Any
    on_next: Any
    C: Any
    D: Any
    T: Any
    J: Any
    Je: Any
    unused: Any
    other: Any
    no_fext: Any


@kernel
def bench(tree, contacts, nq, nc, like):
    """Scratch of floats; like: an array of them."""
    nv = tree.nv
    return at_rest(
        Bench(
            workspace(tree, like), places(tree, contacts, like), workspace(tree, like), places(tree, contacts, like),
            np.zeros(nq), np.zeros(nv), np.zeros(nc), np.zeros(nc), np.zeros(nc), np.zeros(nv), np.zeros((6, 6)),
            np.zeros((6, 6)), np.zeros((6, 6)), np.zeros((6, 6)), np.zeros((nc, nv)), np.zeros((nc, nv)),
            np.zeros((nv, nv)), np.zeros((0, 6)),
        )
    )  # fmt: skip


@kernel
def lane_bench(tree, contacts, nq, nc, arena):
    """Scratch of eight knots."""
    nv = tree.nv
    ws, place = lane_workspace(tree, arena), lane_places(tree, contacts, arena)
    end, there = lane_workspace(tree, arena), lane_places(tree, contacts, arena)
    after, xi = lane_vector(arena, nq), lane_vector(arena, nv)
    seen, nu, zero, on_next = (
        lane_vector(arena, nc), lane_vector(arena, nc), lane_vector(arena, nc), lane_vector(arena, nv),
    )  # fmt: skip
    C, D, T, J = lane_matrix(arena, 6, 6), lane_matrix(arena, 6, 6), lane_matrix(arena, 6, 6), lane_matrix(arena, 6, 6)
    Je, unused, other = lane_matrix(arena, nc, nv), lane_matrix(arena, nc, nv), lane_matrix(arena, nv, nv)
    no_fext = lane_matrix(arena, 0, 6)
    return at_rest(
        Bench(ws, place, end, there, after, xi, seen, nu, zero, on_next, C, D, T, J, Je, unused, other, no_fext)
    )


def lane_bench_size(tree: Tree, nq: int, m: int, nc: int) -> int:
    """How many lanes ``lane_bench`` takes for m contacts and nc forces."""
    nv = tree.nv
    return 2 * (lane_workspace_size(tree) + lane_places_size(tree, m)) + (3 + 2 * nv) * nc + nq + 2 * nv + nv * nv + 144


@kernel
def at_rest(w):
    """Clear what moves where steps end; w."""
    for moving in (w.end.v, w.end.a, w.end.w, w.end.psi, w.end.psidd, w.end.eta, w.end.chi):
        clear(moving)
    for moving in (w.there.u, w.there.c, w.there.V, w.Je, w.unused):
        clear(moving)
    for i in range(w.zero.size):
        w.zero[i] = 0.0
    return w


@kernel
def without_gains(contacts):
    """Contacts that ask for nothing: forces alone are left of them."""
    return Contacts(
        contacts.body, contacts.root, contacts.kind, contacts.reference, contacts.row, contacts.placement,
        contacts.target, np.zeros_like(contacts.gains),
    )  # fmt: skip


@kernel
def curve_step(tree, contacts, acting, kind, h, motion, weight, omega, w, b):
    """Fill the ``Blocks`` b of a step of time.

    acting: the contacts, `without_gains` if they are held.   motion: q, v, a, f.
    """
    q, v, a, f = motion
    nv = tree.nv
    composites(tree, q, v, a, w.no_fext, w.ws)
    place_contacts(tree, acting, q, w.ws, w.place)
    move_contacts(tree, acting, w.ws, w.place, w.seen)
    contact_blocks(tree, acting, omega, w.ws, w.place, f, b)
    for i in range(nv):
        w.on_next[i] = weight[i]
    if kind == HELD:
        curve_end(tree, contacts, h, q, v, a, omega, w, b.W)
    curve_joints(tree, h, v, a, w, b.joints)


@kernel
def curve_end(tree, contacts, h, q, v, a, omega, w, W):
    """W, and e_q'ᵀ ν / h² added to w.on_next."""
    nv, nc = tree.nv, w.nu.size
    for i in range(nv):
        w.xi[i] = v[i] + h * a[i]
    integrate_configuration(tree, q, w.xi, h, w.after)
    for i in range(nc):
        w.nu[i] = omega[nv + i] / (h * h)
    place_bodies(tree, w.after, True, w.end)
    place_contacts(tree, contacts, w.after, w.end, w.there)
    contact_derivatives(tree, contacts, w.end, w.there, w.Je, w.unused)
    clear(W)
    clear(w.other)
    add_contact_curvature(tree, contacts, w.end, w.there, w.nu, w.zero, W, w.other, w.other, w.other)
    for i in range(nv):
        for k in range(nc):
            w.on_next[i] += w.Je[k, i] * w.nu[k]
        for j in range(i):
            W[i, j] = W[j, i] = 0.5 * (W[i, j] + W[j, i])


@kernel
def curve_joints(tree, h, v, a, w, out):
    """C, D, T, J of joints whose motions do not commute, with the weight w.on_next on q'."""
    at = 0
    for b in range(tree.nb):
        iv, nj, kind = tree.iv[b], tree.nj[b], tree.kind[b]
        if is_group(kind):
            xi, size = next_twist(kind, v, a, iv, h), nj * nj
            joint_rates(kind, nj, xi, w.T, w.J)
            joint_curvature(kind, nj, xi, twist_of(kind, w.on_next, iv, 1.0), w.J, w.C, w.D)
            for i in range(nj):
                for k in range(nj):
                    place = at + i * nj + k
                    out[place], out[place + size] = w.C[i, k], w.D[i, k]
                    out[place + 2 * size], out[place + 3 * size] = w.T[i, k], w.J[i, k]
            at += 4 * size


@kernel
def curve_impact(tree, contacts, restitution, motion, omega, w, b):
    """Fill the ``Blocks`` b of an impact, of floats; motion: q, v, v⁺ - v, Λ."""
    q, still = motion[0], tree.weightless
    place_bodies(still, q, True, w.ws)
    place_contacts(still, contacts, q, w.ws, w.place)
    zero = np.zeros(tree.nv)
    impact_blocks(still, contacts, restitution, omega, motion[1:], zero, w.no_fext, w.ws, w.place, b, b.W, w.other)
    clear(b.vv)
