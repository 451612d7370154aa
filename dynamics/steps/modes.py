# mypy: allow-untyped-defs, allow-untyped-calls
"""Modes of systems: each a step of time under some contacts, one that holds them exactly (held_steps.py), or
an impact of some. A robot without contacts has one mode.

One record serves every kernel: the tree, how controls act, and all modes. What a knot keeps for its second order is

    q, v, a (impacts: v⁺ - v), mode, f, g | K⁻¹ (nz, nz) | z_y = [z_q z_v z_u] (nz, 2 nv + nu)

with nz = nv + nc, see contacts/relation.py; z_u only of steps. g: weights on f, zeros unless costs on forces ask for
their second order, too. Parts begin where those of the mode with the most forces do, and matrices have rows of whole
registers, zeros in what is beyond; what is behind the nz rows of a mode with fewer forces is left as it is.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ddp.compiling.kernel import inline, kernel
from ddp.machine.declared import each
from ddp.machine.struct import Struct, integer, integers, matrix, nested, reals, several
from ddp.machine.tiles import padded
from ddp.protocols import Array
from dynamics.contacts.contact import Contacts, forces
from dynamics.rigid_bodies.passive import entries_of
from dynamics.robots.loop import Loops
from dynamics.robots.tree import HybridTree, KnowsRods, Tree

STEP, IMPACT, HELD = range(3)


class Modes(Struct):
    """All modes of a system.

    loops: those that implicit steps hold.   nu: controls.
    pulls (., 4): ``entries_of`` S (nv, nu), how they act.   method: see runge_kutta.py.
    forces: of the mode with the most.
    table (count, 3): kind, contacts m, forces nc.   own (count, 2): the restitution and the step of time [s].
    contacts, acting: ``Contacts`` of each, and without gains if they are held: forces alone are left of them.
    g, K, Z, end, lk, ld: the `Layout` of records.
    """

    tree: Tree = nested(Tree)
    loops: Loops = nested(Loops)
    nu: int = integer()
    pulls, method = each(2, matrix)
    count, forces = each(2, integer)
    table: NDArray[np.int64] = integers(3)
    own: Array = reals(2)
    contacts: tuple[Contacts, ...] = several()
    acting: tuple[Contacts, ...] = several()
    g, K, Z, end, lk, ld = each(6, integer)

    @property
    def handle(self) -> "int | Modes":
        """Argument of kernels of steps: the address, or the object itself, by whose class they compile."""
        return self.start


class HybridModes(KnowsRods, Modes):
    """All modes of a system whose robot has rods."""

    tree: HybridTree = nested(HybridTree)


class Mode(NamedTuple):
    """One mode, as it is described: its kind, contacts, restitution and step of time [s]."""

    kind: int
    contacts: Contacts
    restitution: float
    step: float


class Layout(NamedTuple):
    """Begins of a record's parts: g, K⁻¹, z_y, its end; and how far rows of K⁻¹ and z_y are apart, lk and ld."""

    g: int
    K: int
    Z: int
    end: int
    lk: int
    ld: int


def modes_of(
    tree: Tree, loops: Loops, S: Array, prescribed: Sequence[int], method: Array, given: list[Mode], layout: Layout
) -> Modes:  # fmt: skip
    """The record of some modes; prescribed: degrees of freedom whose control is their acceleration."""
    table = np.array([[kind, c.count, forces(c)] for kind, c, _, _ in given], dtype=np.int64)
    made = HybridModes if isinstance(tree, HybridTree) else Modes
    return made(
        tree=tree, loops=loops, nu=S.shape[1], pulls=entries_of(S, prescribed), method=method, count=len(given),
        forces=table[:, 2].max(),
        table=table, own=[[mode.restitution, mode.step] for mode in given], contacts=[mode.contacts for mode in given],
        acting=[c.asking(0.0, 0.0, 0.0) if kind == HELD else c for kind, c, _, _ in given], **layout._asdict(),
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
def mode_of(modes, record, nq, nv):
    """The mode of the knot that wrote a record; where there is but one, records need not have it."""
    return int(record[nq + 2 * nv]) if modes.count > 1 else 0


@kernel
def step_of(modes, i):
    """The step of time of mode i, 0 of an impact."""
    return modes.own[i, 1]
