# mypy: allow-untyped-defs, allow-untyped-calls
"""What a hybrid system does at a knot: modes, each a step of time under some contacts, one that
holds them exactly (held_steps.py), or an impact of some.

Modes are flat arrays, so that one compiled kernel serves every robot and every schedule. A knot's record is

    q, v, a (impacts: v⁺ - v), mode, f, g | K⁻¹ (nz, nz) | z_y = [z_q z_v z_u] (nz, 2 nv + nu)
    | the description of its degrees of freedom (lane_curvature.py) | of its contacts p, u, c (9, m)
    | s (6, nv) and p (3, m) where a step ends, if any mode holds contacts exactly

with nz = nv + nc, see contacts/relation.py; z_u only of steps. g: weights on f, zeros unless costs on forces ask for
their second order, too. The descriptions are of knots done in lanes; -1 - mode
stands for the mode of others. Parts begin where
those of the mode with the most forces do, and matrices have rows of whole registers, zeros in what is beyond.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp.compiling.kernel import inline, kernel
from dynamics.contacts.contact import Contacts, forces
from dynamics.robots.model import Model
from dynamics.steps.lane_curvature import FIELDS

STEP, IMPACT, HELD = range(3)


class Modes(NamedTuple):
    """All modes. table (k, 5): kind, contacts m, forces nc, where its integers and its reals begin.

    integers: 5 m each, reals: 27 m + 2 each, those of ``Contacts``, the restitution and the step of time [s].
    """

    table: NDArray[np.int64]
    integers: NDArray[np.int64]
    reals: NDArray[np.float64]


def flatten(modes: list[tuple[int, Contacts, float, float]]) -> Modes:
    """Modes of kinds, contacts, restitutions and steps of time."""
    table, integers, reals = [], [np.zeros(0, np.int64)], [np.zeros(0)]
    for kind, c, restitution, step in modes:
        at = sum(map(len, integers)), sum(map(len, reals))
        table.append([kind, len(c.body), forces(c), *at])
        integers += [c.body, c.root, c.kind, c.reference, c.row]
        reals += [np.ravel(c.placement), np.ravel(c.target), np.ravel(c.gains), np.array([restitution, step])]
    rows = np.array(table, dtype=np.int64).reshape(-1, 5)
    return Modes(rows, np.concatenate(integers).astype(np.int64), np.concatenate(reals).astype(np.float64))


class Layout(NamedTuple):
    """Where parts of a record begin: g, K⁻¹, z_y, the descriptions, those of ends, its end; ld, lx, lm: padded rows."""

    K: int
    Z: int
    D: int
    places: int
    end: int
    ld: int
    lx: int
    lm: int
    g: int
    ends: int


@inline
def whole(n):
    """The next multiple of eight: whole registers."""
    return (n + 7) // 8 * 8


@kernel
def layout(modes, nq, nv, nu):
    """That of all modes' records."""
    most, held, exactly = 0, 0, False
    for i in range(modes.table.shape[0]):
        held, most = max(held, modes.table[i, 1]), max(most, modes.table[i, 2])
        exactly = exactly or modes.table[i, 0] == HELD
    nz, ld, lx, lm = nv + most, whole(2 * nv + nu), whole(nv), whole(held)
    g = nq + 2 * nv + 1 + most
    K = whole(g + most)
    Z = K + nz * whole(nz)
    D = Z + nz * ld
    places = D + FIELDS * lx
    ends = places + 9 * lm
    return Layout(K, Z, D, places, ends + (6 * lx + 3 * lm if exactly else 0), ld, lx, lm, g, ends)


@kernel
def contacts_of(modes, i):
    """The contacts of mode i and its restitution."""
    m, n, x = modes.table[i, 1], modes.integers[modes.table[i, 3] :], modes.reals[modes.table[i, 4] :]
    contacts = Contacts(
        n[:m], n[m : 2 * m], n[2 * m : 3 * m], n[3 * m : 4 * m], n[4 * m : 5 * m], x[: 12 * m].reshape(m, 12),
        x[12 * m : 24 * m].reshape(m, 12), x[24 * m : 27 * m].reshape(m, 3),
    )  # fmt: skip
    return contacts, x[27 * m]


@kernel
def step_of(modes, i):
    """The step of time of mode i, 0 of an impact."""
    return modes.reals[modes.table[i, 4] + 27 * modes.table[i, 1] + 1]


@inline
def mode_of(written):
    """The mode that a record names."""
    return int(written) if written >= 0.0 else -1 - int(written)


@kernel
def weights_on_forces(record, where, nc):
    """g of a record."""
    return record[where.g : where.g + nc]


@kernel
def motion_of(record, nq, nv, nc):
    """q, v, a, f of a record."""
    n = nq + 2 * nv
    return record[:nq], record[nq : nq + nv], record[nq + nv : n], record[n + 1 : n + 1 + nc]


@kernel
def first_order_of(record, where, nv, nu, nc):
    """K⁻¹, z_q, z_v, z_u of a record, copied."""
    nz, lk = nv + nc, whole(nv + nc)
    Kinv, zq, zv, zu = np.empty((nz, nz)), np.empty((nz, nv)), np.empty((nz, nv)), np.empty((nz, nu))
    for i in range(nz):
        K, z = record[where.K + i * lk :], record[where.Z + i * where.ld :]
        Kinv[i] = K[:nz]
        zq[i], zv[i], zu[i] = z[:nv], z[nv : 2 * nv], z[2 * nv : 2 * nv + nu]
    return Kinv, zq, zv, zu


@kernel
def without_gravity(tree):
    """The tree for impacts."""
    return Model(
        parent=tree.parent, kind=tree.kind, iq=tree.iq, iv=tree.iv, nj=tree.nj, placement=tree.placement,
        turns=tree.turns, subspace=tree.subspace, inertia=tree.inertia, armature=tree.armature, gravity=np.zeros(6),
        damping=np.zeros(tree.body.size), stiffness=np.zeros(tree.body.size), springref=tree.springref,
        body=tree.body, previous=tree.previous, segment=tree.segment, relatives=tree.relatives,
    )  # fmt: skip
