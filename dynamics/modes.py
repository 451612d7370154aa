"""What a hybrid system does at a knot: modes, each a step of time under some contacts, one that
holds them exactly (held_steps.py), or an impact of some.

Modes are flat arrays, so that one compiled kernel serves every robot and every schedule. A knot's record is

    q, v, a (impacts: v⁺ - v), mode, f, K⁻¹ (nz, nz), z_q, z_v (nz, nv), z_u (nz, nu)

with nz = nv + nc, see contact_relation.py; z_u only of steps. It begins as that of a free step does (linearization.py).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp.kernel import inline, kernel
from dynamics.contact import Contacts, forces
from dynamics.model import Model

STEP, IMPACT, HELD = range(3)


class Modes(NamedTuple):
    """All modes. table (k, 5): kind, contacts m, forces nc, where its integers and its reals begin.

    integers: 5 m each, reals: 27 m + 1 each, those of ``Contacts`` and the restitution.
    """

    table: NDArray[np.int64]
    integers: NDArray[np.int64]
    reals: NDArray[np.float64]


def flatten(modes: list[tuple[int, Contacts, float]]) -> Modes:
    """Modes of kinds, contacts and restitutions."""
    table, integers, reals = [], [np.zeros(0, np.int64)], [np.zeros(0)]
    for kind, c, restitution in modes:
        at = sum(map(len, integers)), sum(map(len, reals))
        table.append([kind, len(c.body), forces(c), *at])
        integers += [c.body, c.root, c.kind, c.reference, c.row]
        reals += [np.ravel(c.placement), np.ravel(c.target), np.ravel(c.gains), np.array([restitution])]
    rows = np.array(table, dtype=np.int64).reshape(-1, 5)
    return Modes(rows, np.concatenate(integers).astype(np.int64), np.concatenate(reals).astype(np.float64))


def record_size(nq: int, nv: int, nu: int, nc: int) -> int:
    """Floats of a record of nc contact forces."""
    nz = nv + nc
    return nq + 2 * nv + 1 + nc + nz * (nz + 2 * nv + nu)


@kernel
def contacts_of(modes, i):
    """The contacts of mode i and its restitution."""
    m, n, x = modes.table[i, 1], modes.integers[modes.table[i, 3] :], modes.reals[modes.table[i, 4] :]
    contacts = Contacts(
        n[:m], n[m : 2 * m], n[2 * m : 3 * m], n[3 * m : 4 * m], n[4 * m : 5 * m], x[: 12 * m].reshape(m, 12),
        x[12 * m : 24 * m].reshape(m, 12), x[24 * m : 27 * m].reshape(m, 3),
    )  # fmt: skip
    return contacts, x[27 * m]


@inline
def block(record, start, rows, columns):
    """A matrix of a record."""
    return record[start : start + rows * columns].reshape(rows, columns)


@kernel
def parts_of(record, nq, nv, nu, nc):
    """q, v, a, f, K⁻¹, z_q, z_v, z_u of a record."""
    nz, n = nv + nc, nq + 2 * nv
    k = n + 1 + nc
    q = k + nz * nz
    return (
        record[:nq], record[nq : nq + nv], record[nq + nv : n], record[n + 1 : k], block(record, k, nz, nz),
        block(record, q, nz, nv), block(record, q + nz * nv, nz, nv), block(record, q + 2 * nz * nv, nz, nu),
    )  # fmt: skip


@kernel
def without_gravity(tree):
    """The tree for impacts."""
    return Model(
        parent=tree.parent, kind=tree.kind, iq=tree.iq, iv=tree.iv, nj=tree.nj, placement=tree.placement,
        subspace=tree.subspace, inertia=tree.inertia, armature=tree.armature, gravity=np.zeros(6),
        damping=np.zeros(tree.body.size), body=tree.body, previous=tree.previous, segment=tree.segment,
        relatives=tree.relatives,
    )  # fmt: skip
