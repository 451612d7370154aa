"""Composite inertias and the mass matrix of a model that is being loaded.

Kernels would have to be compiled for this, and a ``pinocchio.Data`` has tensors of nv³ numbers: 4 GB for 500 joints.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ddp.protocols import Array
from dynamics.robots import joints
from dynamics.robots.libraries import pin


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
