# mypy: allow-untyped-defs, allow-untyped-calls
"""Modes of a hybrid system: each a step of time under some contacts, one that holds them exactly (held_steps.py), or
an impact of some.

Modes are flat arrays, so that one compiled kernel serves every robot and every schedule. A knot's record is

    q, v, a (impacts: v⁺ - v), mode, f, g | K⁻¹ (nz, nz) | z_y = [z_q z_v z_u] (nz, 2 nv + nu)

with nz = nv + nc, see contacts/relation.py; z_u only of steps. g: weights on f, zeros unless costs on forces ask for
their second order, too. Parts begin where those of the mode with the most forces do, and matrices have rows of whole
registers, zeros in what is beyond.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp.compiling.kernel import inline, kernel
from ddp.machine.tiles import padded
from dynamics.contacts.contact import Contacts, forces

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
    """Where parts of a record begin: g, K⁻¹, z_y, its end; and how far rows of K⁻¹ and z_y are apart, lk and ld."""

    g: int
    K: int
    Z: int
    end: int
    lk: int
    ld: int


@inline
def whole(n):
    """The next multiple of eight: whole registers."""
    return (n + 7) // 8 * 8


@kernel
def layout(modes, nq, nv, nu):
    """The ``Layout`` of all modes' records."""
    most = 0
    for i in range(modes.table.shape[0]):
        most = max(most, modes.table[i, 2])
    nz, ld, g = nv + most, whole(2 * nv + nu), nq + 2 * nv + 1 + most
    K, lk = whole(g + most), whole(nz)
    Z = K + nz * lk
    return Layout(g, K, Z, Z + nz * ld, lk, ld)


def free_layout(nq: int, nv: int, nu: int) -> Layout:
    """The ``Layout`` of a system without contacts, whose first order writes q, v, a, M⁻¹ and no mode."""
    K, ld = nq + 2 * nv, padded(2 * nv + nu)
    Z = K + nv * nv
    return Layout(K, K, Z, Z + nv * ld, nv, ld)


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
def mode_of(modes, record, nq, nv):
    """The mode of the knot that wrote a record; where there is but one, records need not have it."""
    return int(record[nq + 2 * nv]) if modes.table.shape[0] > 1 else 0


@kernel
def step_of(modes, i):
    """The step of time of mode i, 0 of an impact."""
    return modes.reals[modes.table[i, 4] + 27 * modes.table[i, 1] + 1]


@kernel
def motion_of(record, nq, nv, nc):
    """q, v, a, f of a record."""
    n = nq + 2 * nv
    return record[:nq], record[nq : nq + nv], record[nq + nv : n], record[n + 1 : n + 1 + nc]
