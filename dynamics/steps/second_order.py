# mypy: allow-untyped-defs, allow-untyped-calls
"""Second order of a knot of any mode, contracted with a weight: its blocks, for numbers of any kind.

With ξ = h v', η = h δv', A = Ad_{Exp(-ξ)} and Jr the right Jacobian of Exp, joint by joint, a semi-implicit step is

    δq' = A δq + w + ½ [A δq, w],    w = Jr(ξ) η + ½ (D_η Jr(ξ)) η

exactly to second order; δv' carries the second order of the acceleration. With weights (w_q, w_v) on (δq', δv'), its
Hessian is h times that of the acceleration weighted by w_v + h Jrᵀ w_q, plus the joints' own curvature in (δq, η):
ηᵀ C η + 2 δqᵀ D η, of free-flyers, spherical and planar joints alone, for the others A = Jr = 1.

With R of implicit.py and ω = -K⁻ᵀ w, w the weight on z = (a, f), a step under contacts adds ω R_yy + (ω R_qz) z_y and
its transpose, and an impact, which keeps its configuration, the same of z = (v⁺, Λ).

Steps that hold contacts (held_steps.py) have the residuals (motion, e(q') / h²). The motion adds what it does under any
contact without gains; with ω = (μ, ν) and the total δq' of the step the errors add

    δq'ᵀ W δq',  W = ν·e_q'q' / h²,      and the weight e_q'ᵀ ν / h² on q', which matters where motions do not commute

hessians.py makes Hessians of all that, with η = h² a_z δz + h δv; hessian_blocks.py leaves δv' and δq' to sweeps.
"""

from ddp.compiling.kernel import apart, kernel
from ddp.machine.fields import Fields, matrix_of, nested, rows_apart, vector
from ddp.machine.memory import address_of, as_vector
from ddp.machine.rows import clear_rows
from ddp.machine.tiles import add_product
from dynamics.contacts.curvature import add_contact_curvature
from dynamics.contacts.hessian import contact_blocks, impact_blocks
from dynamics.contacts.kinematics import Place, contact_derivatives, move_contacts, place_contacts
from dynamics.contacts.rolling import roll
from dynamics.geometry.configuration import integrate_configuration
from dynamics.geometry.joint_motion import is_group, joint_curvature, joint_jacobian, joint_rates, turned_back, twist_of
from dynamics.rigid_bodies.kinematics import Workspace, clear, composites, place_bodies
from dynamics.steps.linearization import next_twist
from dynamics.steps.modes import HELD, IMPACT


class Blocks(Fields):
    """Contracted second order of one knot, one block behind the other in memory.

    qq (iterated: row first derivative, column second), qv, vv (nv, nv): ω R_yy.   qz (nv, nz): ω R_qz.
    joints: C, D, T, J of each joint whose motions do not commute, (nj, nj) each: of δq' = T δq + J η, too.
    W (nv, nv): of ends that are held.
    """

    qq, qv, vv = matrix_of("nv", "nv"), matrix_of("nv", "nv"), matrix_of("nv", "nv")
    qz, joints, W = matrix_of("nv", "nv + nc"), vector("joints"), matrix_of("nv", "nv")


@kernel
def numbers_of_joints(tree):
    """Numbers of ``Blocks.joints``."""
    total = 0
    for b in range(tree.nb):
        if is_group(tree.kind[b]):
            total += 4 * tree.nj[b] * tree.nj[b]
    return total


@kernel
def numbers_of_blocks(tree, nc):
    """Numbers of ``Blocks``."""
    nv = tree.nv
    return nv * (5 * nv + nc) + numbers_of_joints(tree)


class Scratch(Fields):
    """Scratch of one knot. ws, place: where it begins;  later, there: where it ends, motionless.

    after, xi: q' and v'.   zero, still: zeros.
    """

    ws, place, later, there = nested(Workspace), nested(Place), nested(Workspace), nested(Place)
    after, xi, on_next, still = vector("nq"), vector("nv"), vector("nv"), vector("nv")
    seen, nu, zero, gap = vector("nv + nc"), vector("nc"), vector("nc"), vector("nc")
    C, D, T, J = rows_apart("6", 6), rows_apart("6", 6), rows_apart("6", 6), rows_apart("6", 6)
    Je, unused = matrix_of("nc", "nv"), matrix_of("nc", "nv")
    other, cross, no_fext = matrix_of("nv", "nv"), matrix_of("nv", "nv"), matrix_of("0", "6")


@kernel
def weigh_accelerations(tree, h, v, a, w, J, effective):
    """effective (nv,) := -h (w_v + h Jrᵀ w_q); J (6, 6): scratch."""
    nv = tree.nv
    for i in range(nv):
        effective[i] = -h * (w[nv + i] + h * w[i])
    for b in range(tree.nb):
        kind, iv, nj = tree.kind[b], tree.iv[b], tree.nj[b]
        if is_group(kind):
            joint_jacobian(kind, nj, next_twist(kind, v, a, iv, h), J)
            for i in range(nj):
                effective[iv + i] = -h * (w[nv + iv + i] + h * turned_back(J, nj, w, iv, i))


@kernel
def weigh_residuals(K, lk, nz, on_z, omega):
    """omega := K⁻ᵀ on_z, in whole registers: with on_z = -w, the weights ω on residuals. K⁻¹ has rows of lk numbers."""
    at, lx = address_of(omega), (nz + 7) // 8 * 8
    clear_rows(at, lx, 1, lx)
    add_product(at, lx, 1, lx, address_of(on_z), nz, 1, address_of(K), lk, nz)


@kernel
def curve_step(tree, contacts, acting, kind, h, restitution, motion, weight, omega, w, b):
    """Fill the ``Blocks`` b of a step of time, or of an impact.

    acting: the contacts, without gains if they are held.   motion: q, v, a, f, of an impact q, v, v⁺ - v, Λ.
    """
    if kind == IMPACT:
        curve_impact(tree, contacts, restitution, motion, omega, w, b)
        return
    q, v, a, f = motion
    composites(tree, q, v, a, w.no_fext, w.ws)
    place_contacts(tree, acting, q, w.ws, w.place)
    move_contacts(tree, acting, w.ws, w.place, w.seen)
    roll(tree, acting, a, w.ws, w.place)
    contact_blocks(tree, acting, omega, w.ws, w.place, f, b)
    for i in range(tree.nv):
        w.on_next[i] = weight[i]
    if kind == HELD:
        curve_end(tree, contacts, h, q, v, a, omega, w, b.W)
    curve_joints(tree, h, v, a, w, b.joints)


@apart
def curve_impact(tree, contacts, restitution, motion, omega, w, b):
    """Fill the ``Blocks`` b of an impact."""
    q, still = motion[0], tree.weightless
    place_bodies(still, q, True, w.ws)
    place_contacts(still, contacts, q, w.ws, w.place)
    impact_blocks(still, contacts, restitution, omega, motion[1:], w.still, w.no_fext, w.ws, w.place, b, w)
    clear(as_vector(b.vv), tree.nv * tree.nv)


@apart
def curve_end(tree, contacts, h, q, v, a, omega, w, W):
    """W, and e_q'ᵀ ν / h² added to w.on_next."""
    nv, nc = tree.nv, len(w.Je)
    for i in range(nv):
        w.xi[i] = v[i] + h * a[i]
    integrate_configuration(tree, q, w.xi, h, w.after)
    for i in range(nc):
        w.nu[i] = omega[nv + i] / (h * h)
    place_bodies(tree, w.after, True, w.later)
    place_contacts(tree, contacts, w.after, w.later, w.there)
    contact_derivatives(tree, contacts, w.later, w.there, w.Je, w.unused)
    clear(as_vector(W), nv * nv)
    clear(as_vector(w.other), nv * nv)
    add_contact_curvature(tree, contacts, w.later, w.there, w.nu, w.zero, W, w.other, w.other, w.other)
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
            curve_joint(kind, iv, nj, next_twist(kind, v, a, iv, h), w, out[at:])
            at += 4 * nj * nj


@apart
def curve_joint(kind, iv, nj, xi, w, out):
    """C, D, T, J of one of them, which turns by ξ."""
    size = nj * nj
    joint_rates(kind, nj, xi, w.T, w.J)
    joint_curvature(kind, nj, xi, twist_of(kind, w.on_next, iv, 1.0), w.J, w.C, w.D)
    for i in range(nj):
        for k in range(nj):
            place = i * nj + k
            out[place], out[place + size] = w.C[i, k], w.D[i, k]
            out[place + 2 * size], out[place + 3 * size] = w.T[i, k], w.J[i, k]
