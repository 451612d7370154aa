# mypy: allow-untyped-defs, allow-untyped-calls
"""Modes of a hybrid system: each a step of time under some contacts, one that holds them exactly (held_steps.py), or
an impact of some. A robot without contacts has one mode.

One record serves every kernel: the tree, how controls act, and all modes. What a knot keeps for its second order is

    q, v, a (impacts: v⁺ - v), mode, f, g | K⁻¹ (nz, nz) | z_y = [z_q z_v z_u] (nz, 2 nv + nu)

with nz = nv + nc, see contacts/relation.py; z_u only of steps. g: weights on f, zeros unless costs on forces ask for
their second order, too. Parts begin where those of the mode with the most forces do, and matrices have rows of whole
registers, zeros in what is beyond.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import carray
from numpy.typing import NDArray

from ddp.compiling.kernel import inline, integer_pointer, kernel, pointer
from ddp.machine.memory import address_of
from ddp.machine.struct import Struct, integer, integers, matrix, nested, reals
from ddp.machine.tiles import padded
from dynamics.contacts.contact import Contacts, forces
from dynamics.rigid_bodies.passive import entries_of
from dynamics.robots.tree import Tree

STEP, IMPACT, HELD = range(3)

Array = NDArray[np.float64]


class Modes(Struct):
    """All modes of a system.

    nu: controls.   pulls (., 3): ``entries_of`` S (nv, nu), how they act.   method: see runge_kutta.py.
    forces: of the mode with the most.
    table (count, 5): kind, contacts m, forces nc, where its integers and its reals begin.
    own_integers: 5 m each, own_reals: 27 m + 2 each, those of ``Contacts``, the restitution and the step of time [s].
    g, K, Z, end, lk, ld: the `Layout` of records.
    """

    tree: Tree = nested(Tree)
    nu: int = integer()
    pulls: Array = matrix()
    method: Array = matrix()
    count: int = integer()
    forces: int = integer()
    table: NDArray[np.int64] = integers(5)
    own_integers: NDArray[np.int64] = integers()
    own_reals: Array = reals()
    g: int = integer()
    K: int = integer()
    Z: int = integer()
    end: int = integer()
    lk: int = integer()
    ld: int = integer()


class Mode(NamedTuple):
    """One mode, as it is described: its kind, contacts, restitution and step of time [s]."""

    kind: int
    contacts: Contacts
    restitution: float
    step: float


class Layout(NamedTuple):
    """Where parts of a record begin: g, K⁻¹, z_y, its end; and how far rows of K⁻¹ and z_y are apart, lk and ld."""

    g: int
    K: int
    Z: int
    end: int
    lk: int
    ld: int


def modes_of(tree: Tree, S: Array, method: Array, given: list[Mode], layout: Layout) -> Modes:
    """The record of some modes."""
    table, integers, reals = [], [np.zeros(0, np.int64)], [np.zeros(0)]
    for kind, c, restitution, step in given:
        at = sum(map(len, integers)), sum(map(len, reals))
        table.append([kind, len(c.body), forces(c), *at])
        integers += [c.body, c.root, c.kind, c.reference, c.row]
        reals += [np.ravel(c.placement), np.ravel(c.target), np.ravel(c.gains), np.array([restitution, step])]
    return Modes(
        tree=tree, nu=S.shape[1], pulls=entries_of(S), method=method, count=len(given),
        forces=max(row[2] for row in table), table=np.array(table, dtype=np.int64),
        own_integers=np.concatenate(integers).astype(np.int64),
        own_reals=np.concatenate(reals).astype(np.float64), **layout._asdict(),
    )  # fmt: skip


def whole_layout(nq: int, nv: int, nu: int, most: int, stages: int) -> Layout:
    """The `Layout` of records of modes with so many forces at most."""
    nz, ld, g = nv + most, padded(2 * nv + nu), nq + 2 * nv + 1 + most
    K, lk = padded(g + most), padded(nz)
    Z = K + nz * lk
    return Layout(g, K, Z, Z + nz * ld, lk, ld)


def free_layout(nq: int, nv: int, nu: int, most: int, stages: int) -> Layout:
    """The `Layout` of semi-implicit steps without contacts, whose first order writes q, v, a, M⁻¹ and no mode."""
    K, ld = nq + 2 * nv, padded(2 * nv + nu)
    Z = K + nv * nv
    return Layout(K, K, Z, Z + nv * ld, nv, ld)


def explicit_layout(nq: int, nv: int, nu: int, most: int, stages: int) -> Layout:
    """The `Layout` of explicit steps: of a stage, and the end of all of them."""
    one = free_layout(nq, nv, nu, most, stages)
    return one._replace(end=int(stages * stage_sizes(nq, nv, one.ld)[1]))


@kernel
def stage_sizes(nq, nv, ld):
    """Floats that a stage of an explicit step keeps: q, v, a, M⁻¹, z_y of the acceleration, and with [Q ; V] in all."""
    of_acceleration = nq + 2 * nv + nv * nv + nv * ld
    return of_acceleration, of_acceleration + 2 * nv * ld


@kernel
def layout_of(modes):
    """The `Layout` of all modes' records."""
    return Layout(modes.g, modes.K, modes.Z, modes.end, modes.lk, modes.ld)


@inline
def whole(n):
    """The next multiple of eight: whole registers."""
    return (n + 7) // 8 * 8


@kernel
def contacts_of(modes, i):
    """The contacts of mode i and its restitution."""
    m = modes.table[i, 1]
    n = carray(integer_pointer(address_of(modes.own_integers[modes.table[i, 3] :])), 5 * m)
    x = carray(pointer(address_of(modes.own_reals[modes.table[i, 4] :])), 27 * m + 2)
    contacts = Contacts(
        n[:m], n[m : 2 * m], n[2 * m : 3 * m], n[3 * m : 4 * m], n[4 * m : 5 * m], x[: 12 * m].reshape(m, 12),
        x[12 * m : 24 * m].reshape(m, 12), x[24 * m : 27 * m].reshape(m, 3),
    )  # fmt: skip
    return contacts, x[27 * m]


@kernel
def mode_of(modes, record, nq, nv):
    """The mode of the knot that wrote a record; where there is but one, records need not have it."""
    return int(record[nq + 2 * nv]) if modes.count > 1 else 0


@kernel
def step_of(modes, i):
    """The step of time of mode i, 0 of an impact."""
    return modes.own_reals[modes.table[i, 4] + 27 * modes.table[i, 1] + 1]


@kernel
def motion_of(record, nq, nv, nc):
    """q, v, a, f of a record."""
    n = nq + 2 * nv
    return record[:nq], record[nq : nq + nv], record[nq + nv : n], record[n + 1 : n + 1 + nc]
