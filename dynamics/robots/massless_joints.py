"""Joints that move no mass, or no inertia, and no rotor: the mass matrix is singular, or the inertia no body's.

Composite inertias tell them, which are made here: kernels would have to be compiled for models that are being loaded,
and a ``pinocchio.Data`` has tensors of nv³ numbers, 4 GB for 500 joints.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, NoReturn

import numpy as np

from ddp.errors import ModelError
from ddp.protocols import Array
from dynamics.robots import joints
from dynamics.robots.libraries import pin

OPTIONS = ("fixed", "ignore")

_NOTHING = 1e-12
"""Share of its subtree's moments of inertia that a joint has to move: rounding of their sum is a thousandth of it."""


class Composite(NamedTuple):
    """Composite inertias at one posture, for each joint j but the world, 0.

    carried[j] (6, 6): inertia of its body and all behind it, in its own frame.
    subspace[j] (nj, 6): its motions, there too.   place[j]: its frame in the world.
    """

    carried: list[Array]
    subspace: list[Array]
    place: list[pin.SE3]


def composite(model: pin.Model, q: Array) -> Composite:
    """Composite inertias at q (nq,)."""
    parents = list(model.parents)
    carried = [inertia.matrix() for inertia in model.inertias]
    subspace, inside, place = [np.zeros((0, 6))], [pin.SE3.Identity()], [pin.SE3.Identity()]
    for j in range(1, model.njoints):
        joint = model.joints[j]
        moved = joint.createData()
        joint.calc(moved, q)
        subspace.append(joints.subspace(model, j))
        inside.append(model.jointPlacements[j] * moved.M)
        place.append(place[parents[j]] * inside[j])
    for j in range(model.njoints - 1, 0, -1):
        force = inside[j].toDualActionMatrix()
        carried[parents[j]] = carried[parents[j]] + force @ carried[j] @ force.T
    return Composite(carried, subspace, place)


def mass_matrix(model: pin.Model, q: Array) -> Array:
    """The mass matrix (nv, nv) at q: M_ij = s_i · I_j s_j, I_j the composite inertia at the later of two joints."""
    found = composite(model, q)
    motion, force = np.zeros((model.nv, 6)), np.zeros((model.nv, 6))
    before = np.zeros((model.nv, model.nv), dtype=bool)  # whether j is i, or before it on its way to the root
    for j in range(1, model.njoints):
        i, parent = model.idx_vs[j], model.parents[j]
        mine = slice(i, i + model.nvs[j])
        motion[mine] = found.subspace[j] @ found.place[j].toActionMatrix().T
        force[mine] = found.subspace[j] @ found.carried[j] @ found.place[j].toDualActionMatrix().T
        before[mine, mine] = True
        if parent > 0:
            before[mine] |= before[model.idx_vs[parent]]
    half = np.where(before, force @ motion.T, 0.0)
    return np.where(before, half, half.T) + np.diag(model.armature)


def find(model: pin.Model, q0: Array) -> list[int]:
    """The joints of which some motion moves nothing, at q0 and at another posture."""
    other = pin.integrate(model, q0, np.linspace(0.3, 0.7, model.nv))
    return sorted(set(_still(model, q0)) & set(_still(model, other)))


def _still(model: pin.Model, q: Array) -> list[int]:
    """The joints of which some motion moves nothing at q."""
    carried, subspace, _ = composite(model, q)
    found = []
    for j in range(1, model.njoints):
        S, i = subspace[j], model.idx_vs[j]
        mass, moments = np.trace(carried[j][:3, :3]), np.trace(carried[j][3:, 3:])
        armature = np.diag(model.armature[i : i + len(S)])
        size = (S**2) @ np.repeat([mass, moments], 3) + np.diag(armature)
        if size.min() < 0.0:  # negative inertias, of which `plausible` tells
            continue
        scale = np.sqrt(size)
        if scale.min() <= 0.0 or (mass <= 0.0 and not armature.any()):
            found.append(j)
        else:
            smallest = np.linalg.eigvalsh((S @ carried[j] @ S.T + armature) / np.outer(scale, scale))[0]
            if abs(smallest) <= _NOTHING:
                found.append(j)
    return found


def carrying_no_mass(model: pin.Model, found: list[int]) -> list[int]:
    """Keep the joints that carry bodies without mass; others turn a point or a rod about itself."""
    mass = [inertia.mass for inertia in model.inertias]
    for j in range(model.njoints - 1, 0, -1):
        mass[model.parents[j]] += mass[j]
    return [j for j in found if mass[j] <= 0.0]


def refuse(model: pin.Model, found: list[int]) -> NoReturn:
    """Raise ModelError for the first joint, with what can be done."""
    j = found[0]
    links = [frame.name for frame in model.frames if frame.type == pin.FrameType.BODY and frame.parentJoint == j]
    link = f"link {links[0]!r}" if links else "its body"
    others = f", likewise at {len(found) - 1} more" if len(found) > 1 else ""
    raise ModelError(
        f"{model.name}: mass of the link at joint {model.names[j]!r}: expected a positive number [kg], got"
        f" {model.inertias[j].mass}: {link} and all behind it give the joint nothing to move{others}, so the mass"
        " matrix is singular: load(..., massless='fixed') fixes such joints, massless='ignore' keeps them"
    )


def fix(model: pin.Model, q0: Array, found: list[int]) -> tuple[pin.Model, Array]:
    """The model without the degrees of freedom of these joints, fixed where q0 has them, and the rest of q0.

    (``pin.buildReducedModel`` wants a frame of each such joint before all frames on it, or ends the process.)
    """
    if len(found) == model.njoints - 1:
        raise ModelError(f"{model.name}: expected a joint that moves mass, got none")
    data = model.createData()
    pin.forwardKinematics(model, data, q0)
    kept = np.delete(np.arange(model.nq), _numbers(model.idx_qs, model.nqs, found))
    return joints.rebuilt(model, {j: data.liMi[j] for j in found}, kept, kept_dofs(model, found)), q0[kept]


def kept_dofs(model: pin.Model, found: list[int]) -> list[int]:
    """The degrees of freedom that `fix` leaves."""
    return np.delete(np.arange(model.nv), _numbers(model.idx_vs, model.nvs, found)).tolist()


def _numbers(first: Sequence[int], count: Sequence[int], joints: list[int]) -> list[int]:
    """Places of the numbers of some joints among those of all."""
    return [i for j in joints for i in range(first[j], first[j] + count[j])]
