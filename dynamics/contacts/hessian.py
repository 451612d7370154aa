# mypy: allow-untyped-defs, allow-untyped-calls
"""Second order of motion under contacts and of impacts, contracted with weights on (a, f) or (v⁺, Λ).

It is the relation of implicit.py, with the curvature of inverse dynamics (hessian.py) and of contacts/curvature.py.
"""

from ddp.compiling.kernel import kernel
from ddp.machine.fields import Fields, matrix_of, vector
from ddp.machine.memory import as_vector, columns_of
from dynamics.contacts.curvature import add_contact_curvature, couple_forces
from dynamics.contacts.relation import see_velocities
from dynamics.rigid_bodies.hessian import inverse_dynamics_hessian, virtual_velocities
from dynamics.rigid_bodies.kinematics import clear, forces, sum_composites


class Curvature(Fields):
    """Blocks of ω R_yy and ω R_yz, of which qz has rows of nz; seen, gap: what contacts see; other, cross: scratch."""

    omega, seen, gap = vector("nv + nc"), vector("nv"), vector("nc")
    qq, qv, vv, qz = matrix_of("nv", "nv"), matrix_of("nv", "nv"), matrix_of("nv", "nv"), matrix_of("nv", "nv + nc")
    other, cross, qt = matrix_of("nv", "nv"), matrix_of("nv", "nv"), matrix_of("nv", "nv")


@kernel
def contact_blocks(tree, contacts, omega, ws, place, f, b):
    """ω R_yy in b.qq (iterated), b.qv, b.vv and ω R_qz in b.qz; after ``composites`` and ``move_contacts``.

    The blocks come in as zeros, or as they were left at another sample under the same contacts.
    """
    nv, nc = tree.nv, columns_of(b.qz) - tree.nv
    curve_motion(tree, omega, ws, b)
    if nc > 0:
        add_contact_curvature(tree, contacts, ws, place, omega[nv:], f, b.qq, b.qv, b.vv, b.qz)
        couple_forces(tree, contacts, ws, place, nc, b.qz)


@kernel
def curve_motion(tree, mu, ws, b):
    """Blocks of the Hessian of μᵀ ID; entries between unrelated degrees of freedom, zeros, stay as they are."""
    virtual_velocities(tree, mu, ws)
    inverse_dynamics_hessian(tree, ws, b.qq, b.qv, b.vv, b.qz)


@kernel
def clear_blocks(tree, b):
    """Clear b.qq, b.qv, b.vv and b.qz."""
    square = tree.nv * tree.nv
    clear(as_vector(b.qq), square)
    clear(as_vector(b.qv), square)
    clear(as_vector(b.vv), square)
    clear(as_vector(b.qz), tree.nv * columns_of(b.qz))


@kernel
def impact_blocks(tree, contacts, restitution, omega, motion, zero, no_fext, ws, place, b, w):
    """ω R_yy in b.qq, b.qv and ω R_qz in b.qz, as `contact_blocks`; needs placements of bodies and contacts.

    motion: v, v⁺ - v, Λ.   zero (nv,): zeros.   w: scratch, as `Curvature` has it.
    """
    v, jump, f = motion
    nv, nc = tree.nv, columns_of(b.qz) - tree.nv
    forces(tree, zero, jump, no_fext, ws)
    sum_composites(tree, ws)
    curve_motion(tree, omega, ws, b)
    see_velocities(tree, contacts, restitution, v, jump, no_fext, w.seen, w.gap, ws, place)
    clear(as_vector(w.other), nv * nv)
    add_contact_curvature(tree, contacts, ws, place, omega[nv:], f, b.qq, w.other, b.vv, w.cross)
    for i in range(nv):
        for j in range(nv):
            b.qv[i, j] = restitution * w.other[i, j] - b.qz[i, j]
            b.qz[i, j] += w.other[i, j]
    couple_forces(tree, contacts, ws, place, nc, b.qz)
